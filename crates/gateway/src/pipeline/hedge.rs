//! Hedging: when an endpoint is slow to answer a safe request without a body, the same request is sent to a second one, and
//! the response with the first head is passed on. The other attempt is cancelled: its HTTP/1 connection is closed, its
//! HTTP/2 stream reset, and it is no evidence for or against its endpoint. There is one second attempt of an exchange at
//! most, and it is paid from the retry budget.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use message::{Method, ResponseHead};
use stdx::pooled::PooledBox;

use super::active_attempt::{ActiveAttempt, InFlightGuard, micros, set_host};
use super::attempt_limit::AttemptLimit;
use super::deadline;
use super::head_wait;
use super::hedge_times;
use super::protection;
use super::retries::Retries;
use super::target::Forward;
use super::upload::Upload;
use crate::body::{BodyLength, Capacity, DownstreamStream, UpstreamStream};
use crate::upstream::interim_rate::{InterimRate, TOO_MANY_INTERIM};
use crate::upstream::opening::Opening;
use crate::upstream::retry_policy::RetryPolicy;
use crate::upstream::service::{CheckedOutNode, Checkout};
use crate::upstream::stream::PooledStream;
use crate::upstream::wanted::WantedNode;
use exchange::Exchange;
use exchange::exchange::Attempt;
use exchange::failure::{Blame, Cause, Failure};
use exchange::plugin::Phase;

/// Whether the exchange may be hedged: it is safe (RFC 9110 section 9.2.1), has no body, asks for no other protocol, no plugin
/// takes part in the choice of its attempts, and it belongs to no session, which the second node would take over.
pub(super) fn is_allowed(
    forward: &Forward<'_, '_>,
    exchange: &Exchange,
    wanted: &WantedNode,
    length: BodyLength,
) -> bool {
    matches!(exchange.request.method, Method::Get | Method::Head | Method::Options)
        && matches!(length, BodyLength::None | BodyLength::Known(0))
        && !exchange.decision.is_upgrade
        && wanted.sticky.is_none()
        && !forward.chains.has(Phase::Attempt)
}

/// The facts for a second attempt.
pub(super) struct Hedging<'h, 'r, 'w> {
    pub(super) forward: &'h Forward<'r, 'w>,
    pub(super) policy: &'h RetryPolicy,
    /// Milliseconds without a response head after which the second attempt begins.
    pub(super) after_ms: u64,
    pub(super) wanted: &'h WantedNode,
}

/// A second attempt that has a node and perhaps a connection.
struct Second<'t> {
    in_flight: InFlightGuard<'t>,
    record: Attempt,
    limit: AttemptLimit,
    stream: Result<PooledStream, Opening>,
}

impl<'r> Hedging<'_, 'r, '_> {
    /// As [`head_wait::wait_for_final`], with a second attempt after the time that the policy says. `attempt` becomes the one with
    /// the first response head.
    pub(super) async fn wait_for_final<S: DownstreamStream>(
        &self,
        exchange: &mut Exchange,
        downstream: &mut S,
        upload: &mut Upload<'_, '_>,
        attempt: &mut ActiveAttempt<'r>,
        retries: &mut Retries,
    ) -> Result<(), Failure> {
        let Hedging { forward, after_ms, .. } = *self;
        let run = forward.run;
        let now_ms = run.local().now_ms();
        let mut first_part = attempt.limit.at_most(after_ms, now_ms);
        let ended = head_wait::wait_for_final(
            forward,
            exchange,
            downstream,
            upload,
            &mut attempt.upstream_stream,
            &mut first_part,
        )
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
        if let Some(second) = self.begin(exchange, downstream, attempt, retries).await
            && let Some(result) = self.both(exchange, downstream, upload, attempt, second, retries).await
        {
            return result;
        }
        // There is no second attempt, or it has failed.
        let ActiveAttempt { upstream_stream, limit, .. } = attempt;
        head_wait::wait_for_final(forward, exchange, downstream, upload, upstream_stream, limit).await
    }

    /// Selects the node of the second attempt; none without a node or a budget for it.
    async fn begin<S: DownstreamStream>(
        &self,
        exchange: &mut Exchange,
        downstream: &mut S,
        attempt: &ActiveAttempt<'r>,
        retries: &mut Retries,
    ) -> Option<Second<'r>> {
        let Hedging { forward, policy, wanted, .. } = *self;
        let Forward { run, upstream, .. } = *forward;
        if !retries.withdraw(policy, run) {
            return None;
        }
        let mut tried = retries.nodes.clone();
        tried.push(attempt.in_flight.selected.endpoint_id);
        // The places of the first attempt are kept out of the selection, which gives them up when it finds no node.
        let places = run.places.take();
        let held = protection::select(forward, downstream, wanted, &tried).await;
        run.places.replace(places);
        let Ok(held) = held else {
            policy.budget.give_back(run.local().now_ms());
            return None;
        };
        let started_ns = run.local().clock_ns();
        let selected = held.selected;
        let in_flight = InFlightGuard::new(run.context, upstream, held, started_ns);
        let CheckedOutNode { address, endpoint_id, host, checkout } =
            run.context.upstreams.checkout(exchange, upstream, selected, false);
        set_host(exchange, upstream, host);
        run.context.status.retries.hedged();
        retries.begin_hedged();
        let limit = AttemptLimit::new(upstream, run.local().now_ms());
        let stream = match checkout {
            Checkout::Stream(stream) => Ok(stream),
            Checkout::None(opening) => Err(opening),
        };
        Some(Second { in_flight, record: upstream.attempt(address, endpoint_id, started_ns), limit, stream })
    }

    /// Waits for the first head of both attempts. None if the second one has failed or its response is not wanted, so that the
    /// first one goes on alone.
    async fn both<S: DownstreamStream>(
        &self,
        exchange: &mut Exchange,
        downstream: &mut S,
        upload: &mut Upload<'_, '_>,
        attempt: &mut ActiveAttempt<'r>,
        second: Second<'r>,
        retries: &mut Retries,
    ) -> Option<Result<(), Failure>> {
        let Hedging { forward, policy, .. } = *self;
        let Forward { run, upstream, timeouts, .. } = *forward;
        let Second { in_flight, record, limit, stream } = second;
        let started_ns = in_flight.started_ns;
        let (mut stream, connect_us) = match stream {
            Ok(stream) => (stream, 0),
            Err(opening) => {
                let in_handshake = Cell::new(false);
                let connecting = run.context.upstreams.connect(opening, timeouts.connect_ms, &in_handshake);
                let mut connecting = PooledBox::pin(connecting);
                let ActiveAttempt { upstream_stream, limit, .. } = &mut *attempt;
                let first =
                    head_wait::wait_for_final(forward, exchange, downstream, upload, upstream_stream, limit);
                let mut first = PooledBox::pin(first);
                match race(first.as_mut(), connecting.as_mut()).await {
                    First::One(ended) => return Some(ended),
                    First::Other(Ok(stream)) => (stream, micros(started_ns, run.local().clock_ns())),
                    First::Other(Err(failure)) => {
                        drop(first);
                        let failure = deadline::judge(run, exchange, failure);
                        let record = in_flight.finish_failed(exchange, record, &failure, false);
                        note_beside(exchange, record);
                        return None;
                    }
                }
            }
        };
        if let Some(policy) = &upstream.deadline {
            deadline::pass_on(run, exchange, policy);
        }
        stream.start_request(exchange, BodyLength::None);
        stream.finish(None);
        let mut head = Box::new(ResponseHead::default());
        let ended = {
            let ActiveAttempt { upstream_stream, limit, .. } = &mut *attempt;
            let first =
                head_wait::wait_for_final(forward, exchange, downstream, upload, upstream_stream, limit);
            let mut first = PooledBox::pin(first);
            let mut interim = InterimRate::default();
            let mut other =
                poll_fn(|cx| poll_final(cx, &mut stream, &mut head, &mut interim, run.local().now_ms()));
            race(first.as_mut(), Pin::new(&mut other)).await
        };
        // Before it is known which endpoint is at fault: after a deadline neither is.
        let ended = match ended {
            First::One(ended) => First::One(ended.map_err(|failure| deadline::judge(run, exchange, failure))),
            First::Other(ended) => {
                First::Other(ended.map_err(|failure| deadline::judge(run, exchange, failure)))
            }
        };
        let second =
            ActiveAttempt { upstream_stream: stream, in_flight, address: record.address, connect_us, limit };
        match ended {
            // The first endpoint has failed; the second one goes on alone.
            First::One(Err(failure)) if failure.cause.blame() == Blame::Upstream => {
                replace(forward, exchange, attempt, second, record, Some(&failure), retries);
                upload.begin(downstream, &mut attempt.upstream_stream);
                let ActiveAttempt { upstream_stream, limit, .. } = attempt;
                Some(
                    head_wait::wait_for_final(forward, exchange, downstream, upload, upstream_stream, limit)
                        .await,
                )
            }
            First::One(ended) => {
                let total_us = micros(started_ns, run.local().clock_ns());
                note_beside(exchange, Attempt { total_us, ..record });
                run.context.upstreams.checkin(second.upstream_stream, false);
                Some(ended)
            }
            First::Other(Ok(())) => {
                std::mem::swap(&mut exchange.response, &mut *head);
                if policy.wants_instead_of(exchange).is_some() {
                    // The first endpoint may have a better response.
                    let ActiveAttempt { upstream_stream, in_flight, .. } = second;
                    let status = exchange.response.status;
                    run.context.upstreams.checkin(upstream_stream, false);
                    let record =
                        in_flight.finish_unwanted(exchange, Attempt { status, connect_us, ..record });
                    exchange.response.clear();
                    note_beside(exchange, record);
                    return None;
                }
                run.context.status.retries.hedge_won();
                replace(forward, exchange, attempt, second, record, None, retries);
                upload.begin(downstream, &mut attempt.upstream_stream);
                Some(Ok(()))
            }
            First::Other(Err(failure)) => {
                let ActiveAttempt { upstream_stream, in_flight, .. } = second;
                let is_reused = upstream_stream.progress().is_reused;
                run.context.upstreams.checkin(upstream_stream, false);
                let record = in_flight.finish_failed(exchange, record, &failure, is_reused);
                note_beside(exchange, record);
                None
            }
        }
    }
}

/// Makes `second` the attempt of the exchange and ends the first one, which was cancelled unless it has a `failure`.
fn replace<'t>(
    forward: &Forward<'_, '_>,
    exchange: &mut Exchange,
    attempt: &mut ActiveAttempt<'t>,
    second: ActiveAttempt<'t>,
    record: Attempt,
    failure: Option<&Failure>,
    retries: &mut Retries,
) {
    let run = forward.run;
    retries.replaced(attempt.in_flight.selected);
    let ActiveAttempt { upstream_stream, in_flight, connect_us, .. } = std::mem::replace(attempt, second);
    let is_reused = upstream_stream.progress().is_reused;
    run.context.upstreams.checkin(upstream_stream, false);
    let first = exchange.attempts.last().copied().expect("pushed when the attempt began");
    let first = match failure {
        Some(failure) => in_flight.finish_failed(exchange, first, failure, is_reused),
        // The guard records the time, and no result.
        None => {
            let total_us = micros(in_flight.started_ns, run.local().clock_ns());
            hedge_times::record_cancelled(forward, total_us.saturating_sub(connect_us));
            Attempt { total_us, ..first }
        }
    };
    *exchange.attempts.last_mut().expect("read above") = first;
    exchange.attempts.push(record);
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
) -> Poll<Result<(), Failure>> {
    // An endpoint that takes no more may have answered already.
    let _ = stream.poll_flush(cx);
    loop {
        match stream.poll_head(cx, head, Capacity::WHOLE) {
            Poll::Ready(Ok(())) if head.status >= 200 => return Poll::Ready(Ok(())),
            Poll::Ready(Ok(())) if head.status == 101 => {
                return Poll::Ready(Err(Failure::new(Cause::BadResponse, "it switched protocols unasked")));
            }
            Poll::Ready(Ok(())) if interim.admits(now_ms) => {}
            Poll::Ready(Ok(())) => {
                return Poll::Ready(Err(Failure::new(Cause::BadResponse, TOO_MANY_INTERIM)));
            }
            Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
            Poll::Pending => return Poll::Pending,
        }
    }
}

enum First<A, B> {
    One(A),
    Other(B),
}

/// The result of the future that is ready first; `one` if both are.
async fn race<A: Future, B: Future>(
    mut one: Pin<&mut A>,
    mut other: Pin<&mut B>,
) -> First<A::Output, B::Output> {
    poll_fn(|cx| {
        if let Poll::Ready(result) = one.as_mut().poll(cx) {
            return Poll::Ready(First::One(result));
        }
        other.as_mut().poll(cx).map(First::Other)
    })
    .await
}
