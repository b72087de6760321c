//! One attempt at a selected endpoint: get a stream to it, send the request, wait for the head, forward the
//! response. It does not select the endpoint and does not decide about a retry.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::Poll;

use stdx::pooled::PooledBox;

use super::active_attempt::{ActiveAttempt, AttemptFailure, InFlightGuard, finish_attempt, micros, set_host};
use super::attempt_limit::AttemptLimit;
use super::attempt_policies::{self, AttemptPolicies};
use super::attempt_policy::{AfterHead, AttemptPolicy, Attempting};
use super::connect::open_connection;
use super::discard;
use super::download;
use super::download_wait::DownloadWait;
use super::forwarding::Forwarding;
use super::head_wait;
use super::hedge;
use super::journey::Journey;
use super::phases;
use super::protection::HeldNode;
use super::respond;
use super::run::PipelineOutcome;
use super::websocket;
use crate::body::{AttemptProgress, BodyLength, DownstreamStream, UpstreamStream};
use crate::upstream::opening::WantedConnection;
use crate::upstream::service::{CheckedOutNode, Checkout};
use exchange::failure::{Cause, ExchangeFailure, Sent};
use exchange::plugin::{PluginPhase, StoredReply};

/// The end of an attempt that did not fail.
pub(super) enum AttemptEnd {
    /// The response was passed on.
    Answered(PipelineOutcome),
    /// The response was discarded, because the retry policy asks for another attempt.
    Discarded,
    /// The response was discarded, because a plugin has a stored one that is sent instead.
    Replaced(Box<StoredReply>),
}

/// An attempt that has begun.
enum BegunAttempt<'r> {
    /// On an open connection.
    Ready(ActiveAttempt<'r>),
    /// A connection has to be opened.
    Connecting(ConnectingAttempt<'r>),
}

/// An attempt that has no connection yet.
struct ConnectingAttempt<'r> {
    opening: WantedConnection,
    in_flight: InFlightGuard<'r>,
    address: SocketAddr,
    limit: AttemptLimit,
}

/// Makes an attempt at the node that is `held`.
// A block, because the future of an `async fn` holds its arguments twice, and each exchange in flight holds
// this one.
#[allow(clippy::manual_async_fn)]
pub(super) fn make<'a, 'j: 'a, S: DownstreamStream>(
    journey: &'a mut Journey<'j, S>,
    forwarding: &'a mut Forwarding<'j>,
    held: HeldNode,
) -> impl Future<Output = Result<AttemptEnd, AttemptFailure>> {
    async move {
        let attempt = match begin_attempt(journey, forwarding, held) {
            BegunAttempt::Ready(attempt) => attempt,
            // In a pooled box, because nearly every attempt finds an open connection and needs no state for
            // this.
            BegunAttempt::Connecting(connecting) => {
                PooledBox::pin(connect_attempt(journey, forwarding, connecting)).await?
            }
        };
        let mut attempting = Attempting { journey, forwarding, attempt };
        let ended = exchange_with(&mut attempting).await;
        finish(attempting, ended)
    }
}

/// Begins an attempt on an open connection or, if a stale one is to be replaced, on a fresh one.
fn begin_attempt<'j, S>(
    journey: &mut Journey<'j, S>,
    forwarding: &Forwarding<'j>,
    held: HeldNode,
) -> BegunAttempt<'j> {
    let (run, upstream) = (journey.run, forwarding.upstream);
    // The selection read the clock just now, or a failed attempt did.
    let started_ns = run.local().recent_ns();
    let selected = held.selected;
    let in_flight = InFlightGuard::new(run.context, upstream, held, started_ns);
    let is_repeated = forwarding.retries.is_repeated();
    let CheckedOutNode { address, endpoint_id, host, checkout } =
        run.context.upstreams.checkout(journey.exchange, upstream, selected, is_repeated);
    set_host(journey.exchange, upstream, host);
    let limit = AttemptLimit::new(upstream, run.local().now_ms());
    journey.exchange.attempts.push(upstream.attempt(address, endpoint_id, started_ns));
    match checkout {
        Checkout::Stream(upstream_stream) => BegunAttempt::Ready(ActiveAttempt {
            upstream_stream,
            in_flight,
            address,
            connect_us: 0,
            limit,
            hedged_by: None,
        }),
        Checkout::None(opening) => {
            BegunAttempt::Connecting(ConnectingAttempt { opening, in_flight, address, limit })
        }
    }
}

/// Opens the connection of an attempt.
async fn connect_attempt<'j, S: DownstreamStream>(
    journey: &mut Journey<'j, S>,
    forwarding: &Forwarding<'j>,
    connecting: ConnectingAttempt<'j>,
) -> Result<ActiveAttempt<'j>, AttemptFailure> {
    let run = journey.run;
    let ConnectingAttempt { opening, in_flight, address, limit } = connecting;
    let timeout_ms = limit.shorten(forwarding.timeouts.connect_ms, run.local().now_ms()).unwrap_or(1);
    match open_connection(run, opening, timeout_ms, journey.downstream).await {
        Ok(upstream_stream) => {
            let connect_us = micros(in_flight.started_ns, run.local().clock_ns());
            Ok(ActiveAttempt { upstream_stream, in_flight, address, connect_us, limit, hedged_by: None })
        }
        Err(failure) => {
            let failure = attempt_policies::judge_attempt(journey, failure);
            let selected = in_flight.selected;
            finish_attempt(journey.exchange, in_flight, Some(&failure), false);
            let progress = AttemptProgress { sent: Sent::Nothing, is_reused: false };
            Err(AttemptFailure { failure: failure.at(address), progress, selected })
        }
    }
}

/// Ends the attempt, and gives its connection and its place at the node back.
fn finish<S>(
    attempting: Attempting<'_, '_, S>,
    ended: Result<ResponseOutcome, ExchangeFailure>,
) -> Result<AttemptEnd, AttemptFailure> {
    let Attempting { journey, forwarding, attempt } = attempting;
    let (run, timeouts) = (journey.run, &forwarding.timeouts);
    // A hedged attempt may have taken the place of the first one.
    let ActiveAttempt { mut upstream_stream, in_flight, address, .. } = attempt;
    let selected = in_flight.selected;
    match ended {
        Ok(ResponseOutcome::Whole { request_done }) => {
            run.context.upstreams.checkin(upstream_stream, request_done);
            finish_attempt(journey.exchange, in_flight, None, false);
            Ok(AttemptEnd::Answered(PipelineOutcome::Done))
        }
        Ok(ResponseOutcome::Discarded { request_done }) => {
            let is_drained = request_done && discard::drain(&mut upstream_stream);
            run.context.upstreams.checkin(upstream_stream, is_drained);
            finish_attempt(journey.exchange, in_flight, None, false);
            journey.exchange.response.clear();
            if let Some(call) = &mut journey.exchange.grpc {
                call.status = None;
            }
            Ok(AttemptEnd::Discarded)
        }
        Ok(ResponseOutcome::Replaced { request_done, stored }) => {
            let is_drained = request_done && discard::drain(&mut upstream_stream);
            run.context.upstreams.checkin(upstream_stream, is_drained);
            finish_attempt(journey.exchange, in_flight, None, false);
            Ok(AttemptEnd::Replaced(stored))
        }
        Ok(ResponseOutcome::Tunnel) => {
            let node = finish_attempt(journey.exchange, in_flight, None, false);
            let Some((endpoint, bytes)) = upstream_stream.into_tunnel() else {
                let failure =
                    ExchangeFailure::new(Cause::BadResponse, "it switched protocols on a shared connection");
                let progress = AttemptProgress { sent: Sent::Nothing, is_reused: false };
                return Err(AttemptFailure { failure: failure.at(address), progress, selected });
            };
            run.local().give_bytes(bytes);
            Ok(AttemptEnd::Answered(PipelineOutcome::Tunnel {
                endpoint: Box::new(endpoint),
                idle_timeout_ms: timeouts.tunnel_idle_ms,
                places: run.places_of_tunnel(node),
            }))
        }
        Err(failure) => {
            let failure = attempt_policies::judge_attempt(journey, failure);
            let progress = upstream_stream.progress();
            // The connection ends before its place at the node is given back and wakes a waiting request.
            run.context.upstreams.checkin(upstream_stream, false);
            finish_attempt(journey.exchange, in_flight, Some(&failure), progress.is_reused);
            Err(AttemptFailure { failure: failure.at(address), progress, selected })
        }
    }
}

/// The end of the exchange with the endpoint, while the attempt still holds its stream.
enum ResponseOutcome {
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
// A block, because the future of an `async fn` holds its arguments twice, and each exchange in flight holds
// this one.
#[allow(clippy::manual_async_fn)]
fn exchange_with<'a, 'b: 'a, 'j: 'b, S: DownstreamStream>(
    attempting: &'a mut Attempting<'b, 'j, S>,
) -> impl Future<Output = Result<ResponseOutcome, ExchangeFailure>> {
    async move {
        AttemptPolicies::before_send(attempting)?;
        send_head(attempting);
        wait_for_response(attempting).await?;
        note_head(attempting);
        if AttemptPolicies::after_head(attempting)? == AfterHead::Discard {
            return Ok(ResponseOutcome::Discarded { request_done: attempting.forwarding.upload.is_done() });
        }
        let Attempting { journey, forwarding, attempt } = attempting;
        if journey.exchange.response.status == 101 {
            return PooledBox::pin(switch_protocols(journey)).await;
        }
        if journey.chains.has(PluginPhase::UpstreamResponse)
            && let Some(stored) =
                phases::upstream_response(journey.run.context, &journey.chains, journey.exchange, None)
        {
            return Ok(ResponseOutcome::Replaced { request_done: forwarding.upload.is_done(), stored });
        }
        let mut download = DownloadWait::new(journey.run, forwarding.timeouts);
        download::pass_on_response(
            &mut download,
            journey,
            &mut attempt.upstream_stream,
            &mut forwarding.upload,
        )
        .await?;
        journey.exchange.times.upstream_ended_ns = journey.run.local().clock_ns();
        Ok(ResponseOutcome::Whole { request_done: forwarding.upload.is_done() })
    }
}

/// Gives the head of the request to the stream, and begins its body.
fn send_head<S: DownstreamStream>(attempting: &mut Attempting<'_, '_, S>) {
    let Attempting { journey, forwarding, attempt } = attempting;
    let length = forwarding.upload.length(journey.downstream);
    attempt.upstream_stream.start_request(journey.exchange, length);
    forwarding.upload.begin(journey.downstream, &mut attempt.upstream_stream);
}

/// Waits for the head of the final response, from a second attempt if this one is slow and may be hedged.
async fn wait_for_response<S: DownstreamStream>(
    attempting: &mut Attempting<'_, '_, S>,
) -> Result<(), ExchangeFailure> {
    if let Some(policy) = hedge::policy_of(attempting) {
        attempting.attempt.hedged_by = Some(policy);
        let now_ms = attempting.journey.run.local().now_ms();
        if let Some(after_ms) = policy.hedge.as_ref().and_then(|hedge| hedge.after_ms(now_ms)) {
            // In a pooled box, because few requests are hedged.
            return PooledBox::pin(hedge::wait_for_hedged_head(attempting, policy, after_ms)).await;
        }
    }
    let Attempting { journey, forwarding, attempt } = attempting;
    let ActiveAttempt { upstream_stream, limit, .. } = attempt;
    head_wait::wait_for_final_head(journey, forwarding, upstream_stream, limit).await
}

/// Notes the status and the times of the head in the record of the attempt.
fn note_head<S>(attempting: &mut Attempting<'_, '_, S>) {
    let Attempting { journey, attempt, .. } = attempting;
    let started_ns = attempt.in_flight.started_ns;
    let head_us = micros(started_ns, journey.run.local().clock_ns());
    let status = journey.exchange.response.status;
    let record = journey.exchange.attempts.last_mut().expect("pushed when the attempt began");
    (record.status, record.connect_us, record.head_us) = (status, attempt.connect_us, head_us);
}

/// Tells the client that the endpoint has switched protocols.
async fn switch_protocols<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
) -> Result<ResponseOutcome, ExchangeFailure> {
    if !poll_fn(|cx| Poll::Ready(journey.downstream.can_switch_protocols(cx))).await {
        return Err(ExchangeFailure::new(
            Cause::BadRequest,
            "bytes were sent before the protocol was switched",
        ));
    }
    if journey.downstream.must_switch_protocols() {
        websocket::accept_over_http2(journey.exchange)?;
    }
    respond::respond_head(journey).await?;
    journey.downstream.start_response(journey.exchange, BodyLength::None);
    respond::send_whole_body(journey, &[]).await;
    Ok(ResponseOutcome::Tunnel)
}
