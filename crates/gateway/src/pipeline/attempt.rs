//! One attempt at a selected endpoint: get a stream to it, send the request, wait for the head, forward the response.
//! It does not select the endpoint and does not decide about a retry.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::Poll;

use stdx::pooled::PooledBox;

use super::active_attempt::{ActiveAttempt, FailedAttempt, InFlightGuard, finish_attempt, micros, set_host};
use super::attempt_limit::AttemptLimit;
use super::connect::connect;
use super::deadline;
use super::discard;
use super::download::{self, Download};
use super::grpc;
use super::head_wait;
use super::hedge::{self, Hedging};
use super::hedge_times;
use super::phases::{self, Chains};
use super::protection::HeldNode;
use super::respond;
use super::retries::Retries;
use super::run::{Outcome, Run};
use super::target::Forward;
use super::upload::Upload;
use super::websocket;
use crate::body::{AttemptProgress, BodyLength, DownstreamStream, UpstreamStream};
use crate::upstream::opening::Opening;
use crate::upstream::retry_policy::RetryPolicy;
use crate::upstream::service::{CheckedOutNode, Checkout};
use crate::upstream::wanted::WantedNode;
use exchange::Exchange;
use exchange::failure::{Cause, Failure, Sent};
use exchange::plugin::{Phase, StoredReply};

/// The end of an attempt that did not fail.
pub(super) enum AttemptEnd {
    /// The response was passed on.
    Answered(Outcome),
    /// The response was discarded, because the retry policy asks for another attempt.
    Discarded,
    /// The response was discarded, because a plugin has a stored one that is sent instead.
    Replaced(Box<StoredReply>),
}

/// An attempt that has begun.
pub(super) enum BegunAttempt<'r> {
    /// On an open connection.
    Ready(ActiveAttempt<'r>),
    /// A connection has to be opened.
    Connecting(ConnectingAttempt<'r>),
}

/// An attempt that has no connection yet.
pub(super) struct ConnectingAttempt<'r> {
    opening: Opening,
    in_flight: InFlightGuard<'r>,
    address: SocketAddr,
    limit: AttemptLimit,
}

/// Begins an attempt at the node that is `held`, on an open connection or, if the attempt `is_repeated`, on a fresh one.
pub(super) fn begin<'r>(
    forward: &Forward<'r, '_>,
    exchange: &mut Exchange,
    held: HeldNode,
    is_repeated: bool,
) -> BegunAttempt<'r> {
    let Forward { run, upstream, .. } = *forward;
    // The selection read the clock just now, or a failed attempt did.
    let started_ns = run.local().recent_ns();
    let selected = held.selected;
    let in_flight = InFlightGuard::new(run.context, upstream, held, started_ns);
    let CheckedOutNode { address, endpoint_id, host, checkout } =
        run.context.upstreams.checkout(exchange, upstream, selected, is_repeated);
    set_host(exchange, upstream, host);
    let limit = AttemptLimit::new(upstream, run.local().now_ms());
    exchange.attempts.push(upstream.attempt(address, endpoint_id, started_ns));
    match checkout {
        Checkout::Stream(upstream_stream) => {
            BegunAttempt::Ready(ActiveAttempt { upstream_stream, in_flight, address, connect_us: 0, limit })
        }
        Checkout::None(opening) => {
            BegunAttempt::Connecting(ConnectingAttempt { opening, in_flight, address, limit })
        }
    }
}

/// Opens the connection of an attempt.
pub(super) async fn open<'r, S: DownstreamStream>(
    forward: &Forward<'r, '_>,
    exchange: &mut Exchange,
    downstream: &mut S,
    connecting: ConnectingAttempt<'r>,
) -> Result<ActiveAttempt<'r>, FailedAttempt> {
    let Forward { run, timeouts, .. } = *forward;
    let ConnectingAttempt { opening, in_flight, address, limit } = connecting;
    let timeout_ms = limit.shorten(timeouts.connect_ms, run.local().now_ms()).unwrap_or(1);
    match connect(run, opening, timeout_ms, downstream).await {
        Ok(upstream_stream) => {
            let connect_us = micros(in_flight.started_ns, run.local().clock_ns());
            Ok(ActiveAttempt { upstream_stream, in_flight, address, connect_us, limit })
        }
        Err(failure) => {
            let failure = deadline::judge(run, exchange, failure);
            let selected = in_flight.selected;
            finish_attempt(exchange, in_flight, Some(&failure), false);
            let progress = AttemptProgress { sent: Sent::Nothing, is_reused: false };
            Err(FailedAttempt { failure: failure.at(address), progress, selected })
        }
    }
}

/// Makes the attempt over its connection.
// A block, because the future of an `async fn` holds its arguments twice, and each exchange in flight holds this one.
#[allow(clippy::manual_async_fn)]
pub(super) fn complete<'a, 'r: 'a, S: DownstreamStream>(
    forward: &'a Forward<'r, '_>,
    exchange: &'a mut Exchange,
    downstream: &'a mut S,
    upload: &'a mut Upload<'_, '_>,
    mut attempt: ActiveAttempt<'r>,
    wanted: &'a WantedNode,
    retries: &'a mut Retries,
) -> impl Future<Output = Result<AttemptEnd, FailedAttempt>> {
    async move {
        let ended = exchange_with(forward, exchange, downstream, upload, &mut attempt, wanted, retries).await;
        finish(forward, exchange, attempt, ended)
    }
}

/// Ends the attempt, and gives its connection and its place at the node back.
fn finish(
    forward: &Forward<'_, '_>,
    exchange: &mut Exchange,
    attempt: ActiveAttempt<'_>,
    ended: Result<Ended, Failure>,
) -> Result<AttemptEnd, FailedAttempt> {
    let Forward { run, timeouts, .. } = *forward;
    // A hedged attempt may have taken the place of the first one.
    let ActiveAttempt { mut upstream_stream, in_flight, address, .. } = attempt;
    let selected = in_flight.selected;
    match ended {
        Ok(Ended::Whole { request_done }) => {
            run.context.upstreams.checkin(upstream_stream, request_done);
            finish_attempt(exchange, in_flight, None, false);
            Ok(AttemptEnd::Answered(Outcome::Done))
        }
        Ok(Ended::Discarded { request_done }) => {
            let is_drained = request_done && discard::drain(&mut upstream_stream);
            run.context.upstreams.checkin(upstream_stream, is_drained);
            finish_attempt(exchange, in_flight, None, false);
            exchange.response.clear();
            if let Some(call) = &mut exchange.grpc {
                call.status = None;
            }
            Ok(AttemptEnd::Discarded)
        }
        Ok(Ended::Replaced { request_done, stored }) => {
            let is_drained = request_done && discard::drain(&mut upstream_stream);
            run.context.upstreams.checkin(upstream_stream, is_drained);
            finish_attempt(exchange, in_flight, None, false);
            Ok(AttemptEnd::Replaced(stored))
        }
        Ok(Ended::Tunnel) => {
            let node = finish_attempt(exchange, in_flight, None, false);
            let Some((endpoint, bytes)) = upstream_stream.into_tunnel() else {
                let failure =
                    Failure::new(Cause::BadResponse, "it switched protocols on a shared connection");
                let progress = AttemptProgress { sent: Sent::Nothing, is_reused: false };
                return Err(FailedAttempt { failure: failure.at(address), progress, selected });
            };
            run.local().give_bytes(bytes);
            Ok(AttemptEnd::Answered(Outcome::Tunnel {
                endpoint: Box::new(endpoint),
                idle_timeout_ms: timeouts.tunnel_idle_ms,
                places: run.places_of_tunnel(node),
            }))
        }
        Err(failure) => {
            let failure = deadline::judge(run, exchange, failure);
            let progress = upstream_stream.progress();
            // The connection ends before its place at the node is given back and wakes a waiting request.
            run.context.upstreams.checkin(upstream_stream, false);
            finish_attempt(exchange, in_flight, Some(&failure), progress.is_reused);
            Err(FailedAttempt { failure: failure.at(address), progress, selected })
        }
    }
}

enum Ended {
    /// The response was forwarded whole.
    Whole {
        /// Whether the request was sent whole as well, so that the connection is clean.
        request_done: bool,
    },
    /// The response gives way to a retry; its body was not read.
    Discarded {
        /// Whether the request was sent whole.
        request_done: bool,
    },
    /// The response gives way to a stored one; its body was not read.
    Replaced {
        /// Whether the request was sent whole.
        request_done: bool,
        /// The response to send.
        stored: Box<StoredReply>,
    },
    /// The endpoint switched protocols.
    Tunnel,
}

/// Sends the request and forwards the response, over one stream.
// A block, because the future of an `async fn` holds its arguments twice, and each exchange in flight holds this one.
#[allow(clippy::manual_async_fn)]
fn exchange_with<'a, 'r, S: DownstreamStream>(
    forward: &'a Forward<'r, '_>,
    exchange: &'a mut Exchange,
    downstream: &'a mut S,
    upload: &'a mut Upload<'_, '_>,
    attempt: &'a mut ActiveAttempt<'r>,
    wanted: &'a WantedNode,
    retries: &'a mut Retries,
) -> impl Future<Output = Result<Ended, Failure>> {
    async move {
        let Forward { run, chains, upstream, .. } = *forward;
        if let Some(policy) = &upstream.deadline {
            deadline::pass_on(run, exchange, policy);
        }
        grpc::reduce_timeout(exchange, run.local().recent_ns());
        if exchange.decision.is_upgrade && attempt.upstream_stream.is_http2() {
            websocket::check_key(exchange)?;
        }
        attempt.upstream_stream.start_request(exchange, upload.length(downstream));
        upload.begin(downstream, &mut attempt.upstream_stream);
        let hedging = upstream.retry.as_deref().filter(|policy| policy.hedge.is_some());
        let may_be_hedged = |_: &&RetryPolicy| {
            !retries.has_hedged()
                && !attempt.in_flight.is_probe()
                && hedge::is_allowed(forward, exchange, wanted, upload.length(downstream))
        };
        let hedging = hedging.filter(may_be_hedged);
        let after_ms = |policy: &RetryPolicy| policy.hedge.as_ref()?.after_ms(run.local().now_ms());
        match hedging.and_then(|policy| Some((policy, after_ms(policy)?))) {
            // In a pooled box, because few requests are hedged.
            Some((policy, after_ms)) => {
                let hedging = Hedging { forward, policy, after_ms, wanted };
                PooledBox::pin(hedging.wait_for_final(exchange, downstream, upload, attempt, retries))
                    .await?;
            }
            None => {
                let ActiveAttempt { upstream_stream, limit, .. } = attempt;
                head_wait::wait_for_final(forward, exchange, downstream, upload, upstream_stream, limit)
                    .await?;
            }
        }
        let (started_ns, selected) = (attempt.in_flight.started_ns, attempt.in_flight.selected);

        let head_us = micros(started_ns, run.local().clock_ns());
        let record = exchange.attempts.last_mut().expect("pushed when the attempt began");
        (record.status, record.connect_us, record.head_us) =
            (exchange.response.status, attempt.connect_us, head_us);
        grpc::note_status(exchange, None);
        if let Some(policy) = hedging {
            hedge_times::record_head(forward, policy, exchange, head_us.saturating_sub(attempt.connect_us));
        }
        if let Some(policy) = &upstream.retry {
            let request_done = upload.is_done();
            if retries.discards_response(policy, forward, exchange, downstream, upload, selected) {
                return Ok(Ended::Discarded { request_done });
            }
        }
        if let Some(sticky) = &upstream.policies.sticky
            && let Some(tag) = run.context.upstreams.tag_of(upstream, selected)
        {
            let upstreams = &run.context.upstreams;
            let may_move = !upstreams.keeps_session(upstream, wanted, &retries.nodes);
            sticky.answered(exchange, tag, run.local().now_ms(), may_move);
        }
        exchange.times.upstream_head_ns = started_ns + head_us * 1_000;
        if let Some(permit) = run.permit.take() {
            permit.answered(run.local().recent_ns() / 1_000);
        }

        if attempt.upstream_stream.has_opened_tunnel(exchange.response.status) {
            websocket::accept_from_http2(exchange)?;
        }
        if downstream.must_switch_protocols() && (200..300).contains(&exchange.response.status) {
            // Passed on, it would say that the tunnel is open.
            return Err(Failure::new(Cause::BadResponse, "it answered without switching protocols"));
        }
        if exchange.response.status == 101 {
            return PooledBox::pin(switch_protocols(run, exchange, downstream, chains)).await;
        }
        if chains.has(Phase::UpstreamResponse)
            && let Some(stored) = phases::upstream_response(run.context, chains, exchange, None)
        {
            return Ok(Ended::Replaced { request_done: upload.is_done(), stored });
        }
        let mut download = Download::new(forward);
        download::pass_on(&mut download, exchange, downstream, &mut attempt.upstream_stream, upload).await?;
        exchange.times.upstream_ended_ns = run.local().clock_ns();
        Ok(Ended::Whole { request_done: upload.is_done() })
    }
}

/// Tells the client that the endpoint has switched protocols.
async fn switch_protocols<S: DownstreamStream>(
    run: &Run<'_>,
    exchange: &mut Exchange,
    downstream: &mut S,
    chains: &Chains<'_>,
) -> Result<Ended, Failure> {
    if !poll_fn(|cx| Poll::Ready(downstream.can_switch_protocols(cx))).await {
        return Err(Failure::new(Cause::BadRequest, "bytes were sent before the protocol was switched"));
    }
    if downstream.must_switch_protocols() {
        websocket::accept_over_http2(exchange)?;
    }
    respond::respond_head(run, exchange, downstream, chains).await?;
    downstream.start_response(exchange, BodyLength::None);
    respond::send(run, exchange, downstream, &[]).await;
    Ok(Ended::Tunnel)
}
