//! One attempt at a selected endpoint: get a stream to it, send the request, wait for the head, forward the response.
//! It does not select the endpoint and does not decide about a retry.

use std::future::poll_fn;
use std::task::Poll;

use stdx::pooled::PooledBox;

use super::attempt_limit::AttemptLimit;
use super::connect::connect;
use super::deadline;
use super::discard;
use super::download::{self, Download};
use super::grpc;
use super::head_wait;
use super::phases::Chains;
use super::protection::HeldNode;
use super::respond;
use super::retries::Retries;
use super::run::{Outcome, Run};
use super::target::Forward;
use super::upload::Upload;
use super::websocket;
use crate::body::{AttemptProgress, BodyLength, DownstreamStream, UpstreamStream};
use crate::context::WorkerContext;
use crate::upstream::protection::hold::NodeHold;
use crate::upstream::protection::result::AttemptResult;
use crate::upstream::service::{CheckedOutNode, Checkout};
use crate::upstream::state::Selection;
use crate::upstream::stream::PooledStream;
use crate::upstream::{PassHost, Upstream};
use exchange::Exchange;
use exchange::exchange::Attempt;
use exchange::failure::{Cause, Failure, Sent};

/// An attempt in flight.
struct ActiveAttempt {
    origin: PooledStream,
    selected: Selection,
    started_ns: u64,
    connect_us: u64,
    limit: AttemptLimit,
}

/// The end of an attempt that did not fail.
pub(super) enum AttemptEnd {
    /// The response was passed on.
    Answered(Outcome),
    /// The response was discarded, because the retry policy asks for another attempt.
    Discarded,
}

/// Makes an attempt at the node that is `held`, on an open connection or, if the attempt is repeated, on a fresh one. A
/// failure comes with the progress of the attempt.
pub(super) async fn attempt_at<S: DownstreamStream>(
    forward: &Forward<'_, '_>,
    exchange: &mut Exchange,
    server: &mut S,
    upload: &mut Upload<'_, '_>,
    held: HeldNode,
    retries: &mut Retries,
) -> Result<AttemptEnd, (Failure, AttemptProgress)> {
    let Forward { run, upstream, timeouts, .. } = *forward;
    // The selection read the clock just now, or a failed attempt did.
    let started_ns = run.local().recent_ns();
    let HeldNode { selected, hold } = held;
    let in_flight =
        InFlightGuard { context: run.context, upstream, selected, hold, started_ns, is_over: false };
    let CheckedOutNode { address, endpoint_id, host, checkout } =
        run.context.upstreams.checkout(exchange, upstream, selected, retries.is_repeated());
    set_host(exchange, upstream, host);
    let before = AttemptProgress { sent: Sent::Nothing, is_reused: false };
    let limit = AttemptLimit::new(upstream, run.local().now_ms());
    exchange.attempts.push(Attempt {
        address,
        endpoint_id,
        scheme: upstream.scheme,
        status: 0,
        failed: None,
        connect_us: 0,
        head_us: 0,
        total_us: 0,
    });
    let (origin, connect_us) = match checkout {
        Checkout::Stream(stream) => (stream, 0),
        Checkout::None(opening) => {
            // In a pooled box, because nearly every attempt finds an open connection and needs no state for this.
            let timeout_ms = limit.shorten(timeouts.connect_ms, run.local().now_ms()).unwrap_or(1);
            match PooledBox::pin(connect(run, opening, timeout_ms, server)).await {
                Ok(stream) => (stream, micros(started_ns, run.local().clock_ns())),
                Err(failure) => {
                    finish_attempt(exchange, in_flight, Some(&failure), false);
                    return Err((failure.at(address), before));
                }
            }
        }
    };
    let mut attempt = ActiveAttempt { origin, selected, started_ns, connect_us, limit };
    match exchange_with(forward, exchange, server, upload, &mut attempt, retries).await {
        Ok(Ended::Whole { request_done }) => {
            run.context.upstreams.checkin(attempt.origin, request_done);
            finish_attempt(exchange, in_flight, None, false);
            Ok(AttemptEnd::Answered(Outcome::Done))
        }
        Ok(Ended::Discarded { request_done }) => {
            let is_drained = request_done && discard::drain(&mut attempt.origin).await;
            run.context.upstreams.checkin(attempt.origin, is_drained);
            finish_attempt(exchange, in_flight, None, false);
            exchange.response.clear();
            Ok(AttemptEnd::Discarded)
        }
        Ok(Ended::Tunnel) => {
            let node = finish_attempt(exchange, in_flight, None, false);
            let Some((endpoint, bytes)) = attempt.origin.into_tunnel() else {
                let failure =
                    Failure::new(Cause::BadResponse, "it switched protocols on a shared connection");
                return Err((failure.at(address), before));
            };
            run.local().give_bytes(bytes);
            Ok(AttemptEnd::Answered(Outcome::Tunnel {
                endpoint: Box::new(endpoint),
                idle_timeout_ms: timeouts.tunnel_idle_ms,
                places: run.places_of_tunnel(node),
            }))
        }
        Err(failure) => {
            let progress = attempt.origin.progress();
            // The connection ends before its place at the node is given back and wakes a waiting request.
            run.context.upstreams.checkin(attempt.origin, false);
            finish_attempt(exchange, in_flight, Some(&failure), progress.is_reused);
            Err((failure.at(address), progress))
        }
    }
}

/// Records the end of an attempt, of which `is_reused` says whether its connection was a kept one. Returns its place at the
/// node.
fn finish_attempt(
    exchange: &mut Exchange,
    in_flight: InFlightGuard<'_>,
    failure: Option<&Failure>,
    is_reused: bool,
) -> Option<NodeHold> {
    // A whole response read the clock at its end.
    let local = &in_flight.context.local;
    let ended_ns = if failure.is_none() { local.recent_ns() } else { local.clock_ns() };
    let last = exchange.attempts.last_mut().expect("pushed when the attempt began");
    last.total_us = micros(in_flight.started_ns, ended_ns);
    last.failed = failure.map(|failure| failure.cause);
    let last = *last;
    in_flight.finish(exchange, &last, is_reused)
}

/// Counts an attempt at its endpoint's balancer until it is finished or dropped, because a plugin's panic must not
/// leave the endpoint loaded for ever.
struct InFlightGuard<'t> {
    context: &'t WorkerContext,
    upstream: &'t Upstream,
    selected: Selection,
    /// Its place at the node, which is given back with the guard.
    hold: Option<NodeHold>,
    started_ns: u64,
    is_over: bool,
}

impl InFlightGuard<'_> {
    #[cold]
    fn abandon(&self) {
        let latency_us = micros(self.started_ns, self.context.local.clock_ns());
        self.context.upstreams.abandoned(self.upstream, self.selected, latency_us);
    }

    fn finish(mut self, exchange: &Exchange, attempt: &Attempt, is_reused: bool) -> Option<NodeHold> {
        self.is_over = true;
        let (upstreams, upstream) = (&self.context.upstreams, self.upstream);
        upstreams.record(upstream, self.selected, attempt);
        let mut hold = self.hold.take()?;
        upstreams.note_result(upstream, &mut hold, &AttemptResult::of(exchange, attempt, is_reused));
        Some(hold)
    }
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.abandon();
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
    /// The endpoint switched protocols.
    Tunnel,
}

/// Sends the request and forwards the response, over one stream.
async fn exchange_with<S: DownstreamStream>(
    forward: &Forward<'_, '_>,
    exchange: &mut Exchange,
    server: &mut S,
    upload: &mut Upload<'_, '_>,
    attempt: &mut ActiveAttempt,
    retries: &mut Retries,
) -> Result<Ended, Failure> {
    let Forward { run, chains, upstream, .. } = *forward;
    if let Some(policy) = &upstream.deadline {
        deadline::pass_on(run, exchange, policy);
    }
    grpc::reduce_timeout(exchange, run.local().recent_ns());
    if exchange.decision.is_upgrade && attempt.origin.is_http2() {
        websocket::check_key(exchange)?;
    }
    attempt.origin.start_request(exchange, upload.length(server));
    upload.begin(server, &mut attempt.origin);
    let ActiveAttempt { origin, limit, .. } = attempt;
    head_wait::wait_for_final(forward, exchange, server, upload, origin, limit).await?;

    let head_us = micros(attempt.started_ns, run.local().clock_ns());
    let record = exchange.attempts.last_mut().expect("pushed when the attempt began");
    (record.status, record.connect_us, record.head_us) =
        (exchange.response.status, attempt.connect_us, head_us);
    grpc::note_status(exchange, None);
    if let Some(policy) = &upstream.retry {
        let request_done = upload.is_done();
        if retries.discards_response(policy, forward, exchange, server, upload, attempt.selected) {
            return Ok(Ended::Discarded { request_done });
        }
    }
    if let Some(sticky) = &upstream.policies.sticky
        && let Some(tag) = run.context.upstreams.tag_of(upstream, attempt.selected)
    {
        sticky.answered(exchange, tag, run.local().now_ms());
    }
    exchange.times.upstream_head_ns = attempt.started_ns + head_us * 1_000;
    if let Some(permit) = run.permit.take() {
        permit.answered(run.local().recent_ns() / 1_000);
    }

    if attempt.origin.has_opened_tunnel(exchange.response.status) {
        websocket::accept_from_http2(exchange)?;
    }
    if server.must_switch_protocols() && (200..300).contains(&exchange.response.status) {
        // Passed on, it would say that the tunnel is open.
        return Err(Failure::new(Cause::BadResponse, "it answered without switching protocols"));
    }
    if exchange.response.status == 101 {
        return PooledBox::pin(switch_protocols(run, exchange, server, chains)).await;
    }
    let mut download = Download::new(forward);
    download::pass_on(&mut download, exchange, server, &mut attempt.origin, upload).await?;
    exchange.times.upstream_ended_ns = run.local().clock_ns();
    Ok(Ended::Whole { request_done: upload.is_done() })
}

/// Tells the client that the endpoint has switched protocols.
async fn switch_protocols<S: DownstreamStream>(
    run: &Run<'_>,
    exchange: &mut Exchange,
    server: &mut S,
    chains: &Chains<'_>,
) -> Result<Ended, Failure> {
    if !poll_fn(|cx| Poll::Ready(server.can_switch_protocols(cx))).await {
        return Err(Failure::new(Cause::BadRequest, "bytes were sent before the protocol was switched"));
    }
    if server.must_switch_protocols() {
        websocket::accept_over_http2(exchange)?;
    }
    respond::respond_head(run, exchange, server, chains).await?;
    server.start_response(exchange, BodyLength::None);
    respond::send(run, exchange, server, &[]).await;
    Ok(Ended::Tunnel)
}

fn set_host(exchange: &mut Exchange, upstream: &Upstream, node: Option<std::sync::Arc<str>>) {
    // A rewrite by a plugin takes precedence over the upstream's `pass_host`.
    if exchange.target.host_is_rewritten {
        return;
    }
    match &upstream.pass_host {
        // An attempt at another upstream may have set it.
        PassHost::Pass => exchange.target.forward_host = None,
        PassHost::Rewrite(host) => exchange.target.forward_host = Some(host.as_bytes().to_vec()),
        PassHost::Node => exchange.target.forward_host = node.map(|host| host.as_bytes().to_vec()),
    }
}

/// Microseconds between two readings of the clock.
pub(super) fn micros(from_ns: u64, to_ns: u64) -> u64 {
    to_ns.saturating_sub(from_ns) / 1_000
}
