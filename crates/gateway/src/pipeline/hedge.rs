//! Hedging: when an endpoint is slow to answer a safe request without a body, the same request is sent to a
//! second one, and the response with the first head is passed on. The other attempt is cancelled: its HTTP/1
//! connection is closed, its HTTP/2 stream reset, and it is no evidence for or against its endpoint. There is
//! one second attempt of an exchange at most, and it is paid from the retry budget.

use std::cell::Cell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use message::{Method, ResponseHead};
use stdx::pooled::PooledBox;

use super::active_attempt::{ActiveAttempt, InFlightGuard, micros, set_host};
use super::attempt_limit::AttemptLimit;
use super::attempt_policies;
use super::attempt_policy::Attempting;
use super::deadline;
use super::forwarding::Forwarding;
use super::head_wait;
use super::hedge_times;
use super::journey::Journey;
use super::protection;
use crate::body::{BodyLength, Capacity, DownstreamStream, UpstreamStream};
use crate::upstream::interim_rate::{InterimRate, TOO_MANY_INTERIM};
use crate::upstream::opening::WantedConnection;
use crate::upstream::retry_policy::RetryPolicy;
use crate::upstream::service::{CheckedOutNode, Checkout};
use crate::upstream::stream::PooledStream;
use exchange::Exchange;
use exchange::exchange::Attempt;
use exchange::failure::{Blame, Cause, ExchangeFailure};
use exchange::plugin::PluginPhase;

/// The policy by which a second attempt may be made beside this one; none if the exchange had one, or must
/// have none.
pub(super) fn policy_of<'j, S: DownstreamStream>(
    attempting: &Attempting<'_, 'j, S>,
) -> Option<&'j RetryPolicy> {
    let Attempting { journey, forwarding, attempt } = attempting;
    let policy = forwarding.upstream.retry.as_deref().filter(|policy| policy.hedge.is_some())?;
    let may_be_hedged =
        !forwarding.retries.has_hedged() && !attempt.in_flight.is_probe() && is_allowed(journey, forwarding);
    may_be_hedged.then_some(policy)
}

/// Whether the exchange may be hedged: it is safe (RFC 9110 section 9.2.1), has no body, asks for no other
/// protocol, no plugin takes part in the choice of its attempts, and it belongs to no session, which the
/// second node would take over.
fn is_allowed<S: DownstreamStream>(journey: &Journey<'_, S>, forwarding: &Forwarding<'_>) -> bool {
    matches!(journey.exchange.request.method, Method::Get | Method::Head | Method::Options)
        && matches!(forwarding.upload.length(journey.downstream), BodyLength::None | BodyLength::Known(0))
        && !journey.exchange.decision.is_upgrade
        && forwarding.wanted.sticky.is_none()
        && !journey.chains.has(PluginPhase::Attempt)
}

/// As [`head_wait::wait_for_final_head`], with a second attempt after `after_ms` without a response head. The
/// attempt becomes the one with the first response head.
pub(super) async fn wait_for_hedged_head<'j, S: DownstreamStream>(
    attempting: &mut Attempting<'_, 'j, S>,
    policy: &'j RetryPolicy,
    after_ms: u64,
) -> Result<(), ExchangeFailure> {
    let Attempting { journey, forwarding, attempt } = attempting;
    let run = journey.run;
    let mut first_part = attempt.limit.at_most(after_ms, run.local().now_ms());
    let ended =
        head_wait::wait_for_final_head(journey, forwarding, &mut attempt.upstream_stream, &mut first_part)
            .await;
    let is_slow = match &ended {
        Err(failure) => {
            matches!(failure.cause, Cause::ReadTimeout | Cause::SendTimeout)
                && first_part.is_over(run.local().now_ms())
                && !attempt.limit.is_over(run.local().now_ms())
        }
        Ok(()) => false,
    };
    if !is_slow {
        return ended;
    }
    if let Some(hedge) = begin_hedge(attempting, policy).await
        && let Some(result) = race_with(attempting, policy, hedge).await
    {
        return result;
    }
    // There is no second attempt, or it has failed.
    primary_head(attempting).await
}

/// Waits for the head of the attempt alone.
async fn primary_head<S: DownstreamStream>(
    attempting: &mut Attempting<'_, '_, S>,
) -> Result<(), ExchangeFailure> {
    let Attempting { journey, forwarding, attempt } = attempting;
    let ActiveAttempt { upstream_stream, limit, .. } = attempt;
    head_wait::wait_for_final_head(journey, forwarding, upstream_stream, limit).await
}

/// A second attempt that has a node and perhaps a connection.
struct BegunHedge<'j> {
    in_flight: InFlightGuard<'j>,
    record: Attempt,
    limit: AttemptLimit,
    stream: Result<PooledStream, WantedConnection>,
}

/// A second attempt over its connection.
struct Hedge<'j> {
    in_flight: InFlightGuard<'j>,
    record: Attempt,
    limit: AttemptLimit,
    stream: PooledStream,
    connect_us: u64,
}

impl<'j> Hedge<'j> {
    /// As the attempt of its exchange.
    fn into_attempt(self, policy: &'j RetryPolicy) -> (ActiveAttempt<'j>, Attempt) {
        let Hedge { in_flight, record, limit, stream, connect_us } = self;
        let address: SocketAddr = record.address;
        let hedged_by = Some(policy);
        (ActiveAttempt { upstream_stream: stream, in_flight, address, connect_us, limit, hedged_by }, record)
    }
}

/// Selects the node of the second attempt; none without a node or a budget for it.
async fn begin_hedge<'j, S: DownstreamStream>(
    attempting: &mut Attempting<'_, 'j, S>,
    policy: &RetryPolicy,
) -> Option<BegunHedge<'j>> {
    let Attempting { journey, forwarding, attempt } = attempting;
    let (run, upstream) = (journey.run, forwarding.upstream);
    if !forwarding.retries.withdraw(policy, run) {
        return None;
    }
    let mut tried = forwarding.retries.nodes.clone();
    tried.push(attempt.in_flight.selected.endpoint_id);
    // The places of the first attempt are kept out of the selection, which gives them up when it finds no
    // node.
    let places = run.places.take();
    let held = protection::select(journey, upstream, &forwarding.wanted, &tried).await;
    run.places.replace(places);
    let Ok(held) = held else {
        policy.budget.give_back(run.local().now_ms());
        return None;
    };
    let started_ns = run.local().clock_ns();
    let selected = held.selected;
    let in_flight = InFlightGuard::new(run.context, upstream, held, started_ns);
    let CheckedOutNode { address, endpoint_id, host, checkout } =
        run.context.upstreams.checkout(journey.exchange, upstream, selected, false);
    set_host(journey.exchange, upstream, host);
    run.context.status.retries.hedged();
    forwarding.retries.begin_hedged();
    let limit = AttemptLimit::new(upstream, run.local().now_ms());
    let stream = match checkout {
        Checkout::Stream(stream) => Ok(stream),
        Checkout::None(opening) => Err(opening),
    };
    let record = upstream.attempt(address, endpoint_id, started_ns);
    Some(BegunHedge { in_flight, record, limit, stream })
}

/// Waits for the first head of both attempts. None if the second one has failed or its response is not
/// wanted, so that the first one goes on alone.
async fn race_with<'j, S: DownstreamStream>(
    attempting: &mut Attempting<'_, 'j, S>,
    policy: &'j RetryPolicy,
    begun: BegunHedge<'j>,
) -> Option<Result<(), ExchangeFailure>> {
    let mut hedge = match connect_hedge(attempting, begun).await {
        ConnectedHedge::Open(hedge) => *hedge,
        ConnectedHedge::Answered(ended) => return Some(ended),
        ConnectedHedge::Failed => return None,
    };
    if let Some(deadline_policy) = &attempting.forwarding.upstream.deadline {
        deadline::pass_on_deadline(attempting.journey.run, attempting.journey.exchange, deadline_policy);
    }
    hedge.stream.start_request(attempting.journey.exchange, BodyLength::None);
    hedge.stream.finish(None);
    let mut head = Box::new(ResponseHead::default());
    let winner = race_heads(attempting, &mut hedge.stream, &mut head).await;
    settle(attempting, policy, hedge, head, winner).await
}

/// The end of connecting the second attempt, while the first one goes on.
enum ConnectedHedge<'j> {
    Open(Box<Hedge<'j>>),
    /// The first attempt has ended so.
    Answered(Result<(), ExchangeFailure>),
    /// The second attempt has failed, and its record is made.
    Failed,
}

async fn connect_hedge<'j, S: DownstreamStream>(
    attempting: &mut Attempting<'_, 'j, S>,
    begun: BegunHedge<'j>,
) -> ConnectedHedge<'j> {
    let BegunHedge { in_flight, record, limit, stream } = begun;
    let opening = match stream {
        Ok(stream) => {
            return ConnectedHedge::Open(Box::new(Hedge { in_flight, record, limit, stream, connect_us: 0 }));
        }
        Err(opening) => opening,
    };
    let run = attempting.journey.run;
    let in_handshake = Cell::new(false);
    let connect_ms = attempting.forwarding.timeouts.connect_ms;
    let mut connecting = PooledBox::pin(run.context.upstreams.connect(opening, connect_ms, &in_handshake));
    let mut primary = PooledBox::pin(primary_head(attempting));
    match race(primary.as_mut(), connecting.as_mut()).await {
        Winner::Primary(ended) => ConnectedHedge::Answered(ended),
        Winner::Hedge(Ok(stream)) => {
            let connect_us = micros(in_flight.started_ns, run.local().clock_ns());
            ConnectedHedge::Open(Box::new(Hedge { in_flight, record, limit, stream, connect_us }))
        }
        Winner::Hedge(Err(failure)) => {
            drop(primary);
            let failure = attempt_policies::judge_attempt(attempting.journey, failure);
            let exchange = &mut *attempting.journey.exchange;
            let record = in_flight.finish_failed(exchange, record, &failure, false);
            note_beside(exchange, record);
            ConnectedHedge::Failed
        }
    }
}

/// The first head, or the first failure. Before it is known which endpoint is at fault, failures are judged:
/// after a deadline neither is.
async fn race_heads<S: DownstreamStream>(
    attempting: &mut Attempting<'_, '_, S>,
    stream: &mut PooledStream,
    head: &mut ResponseHead,
) -> Winner<Result<(), ExchangeFailure>, Result<(), ExchangeFailure>> {
    let run = attempting.journey.run;
    let winner = {
        let mut primary = PooledBox::pin(primary_head(attempting));
        let mut interim = InterimRate::default();
        let mut hedge = poll_fn(|cx| poll_final(cx, stream, head, &mut interim, run.local().now_ms()));
        race(primary.as_mut(), Pin::new(&mut hedge)).await
    };
    let judge = |failure| attempt_policies::judge_attempt(attempting.journey, failure);
    match winner {
        Winner::Primary(ended) => Winner::Primary(ended.map_err(judge)),
        Winner::Hedge(ended) => Winner::Hedge(ended.map_err(judge)),
    }
}

/// Makes the winner the attempt of the exchange, and ends the other one. None if the first attempt goes on
/// alone.
async fn settle<'j, S: DownstreamStream>(
    attempting: &mut Attempting<'_, 'j, S>,
    policy: &'j RetryPolicy,
    hedge: Hedge<'j>,
    mut head: Box<ResponseHead>,
    winner: Winner<Result<(), ExchangeFailure>, Result<(), ExchangeFailure>>,
) -> Option<Result<(), ExchangeFailure>> {
    let run = attempting.journey.run;
    match winner {
        // The first endpoint has failed; the second one goes on alone.
        Winner::Primary(Err(failure)) if failure.cause.blame() == Blame::Upstream => {
            replace_primary(attempting, policy, hedge, Some(&failure));
            begin_upload(attempting);
            Some(primary_head(attempting).await)
        }
        Winner::Primary(ended) => {
            let total_us = micros(hedge.in_flight.started_ns, run.local().clock_ns());
            note_beside(attempting.journey.exchange, Attempt { total_us, ..hedge.record });
            run.context.upstreams.checkin(hedge.stream, false);
            Some(ended)
        }
        Winner::Hedge(Ok(())) => {
            let exchange = &mut *attempting.journey.exchange;
            std::mem::swap(&mut exchange.response, &mut *head);
            if policy.wants_instead_of(exchange).is_some() {
                // The first endpoint may have a better response.
                let Hedge { in_flight, record, stream, connect_us, .. } = hedge;
                let status = exchange.response.status;
                run.context.upstreams.checkin(stream, false);
                let record = in_flight.finish_unwanted(exchange, Attempt { status, connect_us, ..record });
                exchange.response.clear();
                note_beside(exchange, record);
                return None;
            }
            run.context.status.retries.hedge_won();
            replace_primary(attempting, policy, hedge, None);
            begin_upload(attempting);
            Some(Ok(()))
        }
        Winner::Hedge(Err(failure)) => {
            let exchange = &mut *attempting.journey.exchange;
            let Hedge { in_flight, record, stream, .. } = hedge;
            let is_reused = stream.progress().is_reused;
            run.context.upstreams.checkin(stream, false);
            let record = in_flight.finish_failed(exchange, record, &failure, is_reused);
            note_beside(exchange, record);
            None
        }
    }
}

/// Notes that the request, which has no body, is sent over the stream of the attempt.
fn begin_upload<S: DownstreamStream>(attempting: &mut Attempting<'_, '_, S>) {
    let Attempting { journey, forwarding, attempt } = attempting;
    forwarding.upload.begin(journey.downstream, &mut attempt.upstream_stream);
}

/// Makes `hedge` the attempt of the exchange and ends the first one, which was cancelled unless it has a
/// `failure`.
fn replace_primary<'j, S>(
    attempting: &mut Attempting<'_, 'j, S>,
    policy: &'j RetryPolicy,
    hedge: Hedge<'j>,
    failure: Option<&ExchangeFailure>,
) {
    let Attempting { journey, forwarding, attempt } = attempting;
    let run = journey.run;
    forwarding.retries.replaced(attempt.in_flight.selected);
    let (second, record) = hedge.into_attempt(policy);
    let ActiveAttempt { upstream_stream, in_flight, connect_us, .. } = std::mem::replace(attempt, second);
    let is_reused = upstream_stream.progress().is_reused;
    run.context.upstreams.checkin(upstream_stream, false);
    let first = journey.exchange.attempts.last().copied().expect("pushed when the attempt began");
    let first = match failure {
        Some(failure) => in_flight.finish_failed(journey.exchange, first, failure, is_reused),
        // The guard records the time, and no result.
        None => {
            let total_us = micros(in_flight.started_ns, run.local().clock_ns());
            let waited_us = total_us.saturating_sub(connect_us);
            hedge_times::record_cancelled(forwarding.upstream, run.local().now_ms(), waited_us);
            Attempt { total_us, ..first }
        }
    };
    *journey.exchange.attempts.last_mut().expect("read above") = first;
    journey.exchange.attempts.push(record);
}

/// Adds the record of a second attempt that has not become the one of the exchange, which stays the last.
fn note_beside(exchange: &mut Exchange, record: Attempt) {
    let last = exchange.attempts.len().saturating_sub(1);
    exchange.attempts.insert(last, record);
}

/// Sends the second request and reads the head of its final response.
fn poll_final(
    cx: &mut Context<'_>,
    stream: &mut PooledStream,
    head: &mut ResponseHead,
    interim: &mut InterimRate,
    now_ms: u64,
) -> Poll<Result<(), ExchangeFailure>> {
    // An endpoint that takes no more may have answered already.
    let _ = stream.poll_flush(cx);
    loop {
        match stream.poll_head(cx, head, Capacity::WHOLE) {
            Poll::Ready(Ok(())) if head.status >= 200 => return Poll::Ready(Ok(())),
            Poll::Ready(Ok(())) if head.status == 101 => {
                return Poll::Ready(Err(ExchangeFailure::new(
                    Cause::BadResponse,
                    "it switched protocols unasked",
                )));
            }
            Poll::Ready(Ok(())) if interim.admits(now_ms) => {}
            Poll::Ready(Ok(())) => {
                return Poll::Ready(Err(ExchangeFailure::new(Cause::BadResponse, TOO_MANY_INTERIM)));
            }
            Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
            Poll::Pending => return Poll::Pending,
        }
    }
}

/// The side of a hedged request that is ready first.
enum Winner<A, B> {
    Primary(A),
    Hedge(B),
}

/// The result of the future that is ready first; that of the primary if both are.
async fn race<A: Future, B: Future>(
    mut primary: Pin<&mut A>,
    mut hedge: Pin<&mut B>,
) -> Winner<A::Output, B::Output> {
    poll_fn(|cx| {
        if let Poll::Ready(result) = primary.as_mut().poll(cx) {
            return Poll::Ready(Winner::Primary(result));
        }
        hedge.as_mut().poll(cx).map(Winner::Hedge)
    })
    .await
}
