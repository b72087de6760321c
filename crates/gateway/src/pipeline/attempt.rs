//! One attempt at a selected endpoint: get a stream to it, send the request, wait for the head, forward the response.
//! It does not select the endpoint and does not decide about a retry.

use std::future::poll_fn;
use std::task::Poll;

use stdx::pooled::PooledBox;

use super::active_attempt::{ActiveAttempt, InFlightGuard, finish_attempt, micros, record_of, set_host};
use super::attempt_limit::AttemptLimit;
use super::connect::connect;
use super::deadline;
use super::discard;
use super::download::{self, Download};
use super::grpc;
use super::head_wait;
use super::hedge::{self, Hedging};
use super::phases::Chains;
use super::protection::HeldNode;
use super::respond;
use super::retries::Retries;
use super::run::{Outcome, Run};
use super::target::Forward;
use super::upload::Upload;
use super::websocket;
use crate::body::{AttemptProgress, BodyLength, DownstreamStream, UpstreamStream};
use crate::upstream::service::{CheckedOutNode, Checkout};
use crate::upstream::wanted::WantedNode;
use exchange::Exchange;
use exchange::failure::{Cause, Failure, Sent};

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
    wanted: &WantedNode,
    retries: &mut Retries,
) -> Result<AttemptEnd, (Failure, AttemptProgress)> {
    let Forward { run, upstream, timeouts, .. } = *forward;
    // The selection read the clock just now, or a failed attempt did.
    let started_ns = run.local().recent_ns();
    let selected = held.selected;
    let in_flight = InFlightGuard::new(run.context, upstream, held, started_ns);
    let CheckedOutNode { address, endpoint_id, host, checkout } =
        run.context.upstreams.checkout(exchange, upstream, selected, retries.is_repeated());
    set_host(exchange, upstream, host);
    let before = AttemptProgress { sent: Sent::Nothing, is_reused: false };
    let limit = AttemptLimit::new(upstream, run.local().now_ms());
    exchange.attempts.push(record_of(upstream, address, endpoint_id));
    let (origin, connect_us) = match checkout {
        Checkout::Stream(stream) => (stream, 0),
        Checkout::None(opening) => {
            // In a pooled box, because nearly every attempt finds an open connection and needs no state for this.
            let timeout_ms = limit.shorten(timeouts.connect_ms, run.local().now_ms()).unwrap_or(1);
            match PooledBox::pin(connect(run, opening, timeout_ms, server)).await {
                Ok(stream) => (stream, micros(started_ns, run.local().clock_ns())),
                Err(failure) => {
                    let failure = deadline::judge(run, exchange, failure);
                    finish_attempt(exchange, in_flight, Some(&failure), false);
                    return Err((failure.at(address), before));
                }
            }
        }
    };
    let mut attempt = ActiveAttempt { origin, in_flight, address, connect_us, limit };
    let ended = exchange_with(forward, exchange, server, upload, &mut attempt, wanted, retries).await;
    // A hedged attempt may have taken the place of the first one.
    let ActiveAttempt { mut origin, in_flight, address, .. } = attempt;
    match ended {
        Ok(Ended::Whole { request_done }) => {
            run.context.upstreams.checkin(origin, request_done);
            finish_attempt(exchange, in_flight, None, false);
            Ok(AttemptEnd::Answered(Outcome::Done))
        }
        Ok(Ended::Discarded { request_done }) => {
            let is_drained = request_done && discard::drain(&mut origin);
            run.context.upstreams.checkin(origin, is_drained);
            finish_attempt(exchange, in_flight, None, false);
            exchange.response.clear();
            if let Some(call) = &mut exchange.grpc {
                call.status = None;
            }
            Ok(AttemptEnd::Discarded)
        }
        Ok(Ended::Tunnel) => {
            let node = finish_attempt(exchange, in_flight, None, false);
            let Some((endpoint, bytes)) = origin.into_tunnel() else {
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
            let failure = deadline::judge(run, exchange, failure);
            let progress = origin.progress();
            // The connection ends before its place at the node is given back and wakes a waiting request.
            run.context.upstreams.checkin(origin, false);
            finish_attempt(exchange, in_flight, Some(&failure), progress.is_reused);
            Err((failure.at(address), progress))
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
async fn exchange_with<'r, S: DownstreamStream>(
    forward: &Forward<'r, '_>,
    exchange: &mut Exchange,
    server: &mut S,
    upload: &mut Upload<'_, '_>,
    attempt: &mut ActiveAttempt<'r>,
    wanted: &WantedNode,
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
    let hedging = upstream.retry.as_deref().filter(|policy| policy.hedge_after_ms != 0);
    match hedging.filter(|_| hedge::is_allowed(forward, exchange, upload.length(server))) {
        // In a pooled box, because few requests are hedged.
        Some(policy) => {
            let hedging = Hedging { forward, policy, wanted };
            PooledBox::pin(hedging.wait_for_final(exchange, server, upload, attempt, retries)).await?;
        }
        None => {
            let ActiveAttempt { origin, limit, .. } = attempt;
            head_wait::wait_for_final(forward, exchange, server, upload, origin, limit).await?;
        }
    }
    let (started_ns, selected) = (attempt.in_flight.started_ns, attempt.in_flight.selected);

    let head_us = micros(started_ns, run.local().clock_ns());
    let record = exchange.attempts.last_mut().expect("pushed when the attempt began");
    (record.status, record.connect_us, record.head_us) =
        (exchange.response.status, attempt.connect_us, head_us);
    grpc::note_status(exchange, None);
    if let Some(policy) = &upstream.retry {
        let request_done = upload.is_done();
        if retries.discards_response(policy, forward, exchange, server, upload, selected) {
            return Ok(Ended::Discarded { request_done });
        }
    }
    if let Some(sticky) = &upstream.policies.sticky
        && let Some(tag) = run.context.upstreams.tag_of(upstream, selected)
    {
        sticky.answered(exchange, tag, run.local().now_ms());
    }
    exchange.times.upstream_head_ns = started_ns + head_us * 1_000;
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
