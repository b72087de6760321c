//! Local replies: made by a plugin, or because of a failure. They run the response phases like any other
//! response.

use std::borrow::Cow;
use std::future::poll_fn;
use std::task::Poll;

use message::Headers;
use router::vars::GaveUp;

use super::deadline;
use super::encode;
use super::failure_reply;
use super::grpc;
use super::journey::Journey;
use super::min_rate::{MinRateGuard, TooSlow};
use super::phases;
use super::run::{PipelineOutcome, PipelineRun};
use super::wait::Wait;
use crate::body::{BodyLength, DownstreamStream};
use exchange::Exchange;
use exchange::failure::{Blame, Cause, ExchangeFailure};
use exchange::observe::pace::Pace;
use exchange::plugin::{BufferedReply, NO_ANSWER, PluginPhase, changed_body, transform_reply};

/// `Retry-After` of a request that was refused under overload (RFC 9110 section 10.2.3): the shortest time
/// that the field can express, because an overload ends as soon as there are fewer requests.
const RETRY_AFTER_SECONDS: &str = "1";

/// Sends the local reply for a failure.
pub(super) async fn send_failure_reply<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
    failure: ExchangeFailure,
) -> PipelineOutcome {
    let failure = overdue(journey.run, journey.exchange, failure);
    if journey.downstream.progress().has_started
        && !matches!(failure.cause, Cause::ClientGone | Cause::ClientSlow)
        && let Some(trailers) =
            grpc::trailers(journey.exchange, &failure, &failure_reply::explanation(&failure))
    {
        journey.downstream.finish(Some(&trailers));
        let _ = poll_fn(|cx| Poll::Ready(journey.downstream.poll_flush(cx))).await;
        journey.exchange.failure = Some(failure);
        return PipelineOutcome::Done;
    }
    if journey.downstream.progress().has_started || failure.cause == Cause::ClientGone {
        journey.downstream.abort(failure.cause.blame());
        journey.exchange.failure = Some(failure);
        return PipelineOutcome::Done;
    }
    let mut answer = failure_reply::build_failure_reply(journey.exchange, &failure);
    if failure.cause == Cause::MethodRefused {
        // RFC 9110 section 15.5.6: a 405 names what is allowed.
        answer = answer.with_header("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, PURGE");
    }
    let has_retry_after = answer.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("retry-after"));
    if failure.cause.passes_soon() && !has_retry_after {
        answer = answer.with_header("Retry-After", RETRY_AFTER_SECONDS);
    }
    if failure.cause.closes_connection() {
        journey.downstream.close_afterwards();
    }
    if answer.status >= 500 && !journey.exchange.attempts.is_empty() {
        name_tried_statuses(journey.exchange);
    }
    journey.exchange.failure = Some(failure);
    // This reply answers an undecided request; searches that the response phases give up are counted anew.
    journey.exchange.gave_up.set(None);
    send_local_reply(journey, answer).await
}

/// The failure to report for `failure`: exceeding the total time, if the exchange has used it up.
fn overdue(run: &PipelineRun<'_>, exchange: &Exchange, failure: ExchangeFailure) -> ExchangeFailure {
    if !failure.cause.is_timeout() || !run.deadline.is_overdue() {
        return failure;
    }
    if deadline::is_exceeded(run) {
        let detail = format!("not done within its deadline, {}: {}", failure.cause.code(), failure.detail);
        let mut failure = failure.because(Cause::DeadlineExceeded);
        failure.detail = detail.into();
        return failure;
    }
    let limit_ms = run.local().options.limits.request_timeout_ms;
    let limit = if deadline::is_call_over(run, exchange) {
        "not done within the grpc-timeout of the client".to_owned()
    } else {
        format!("not done within {limit_ms} ms")
    };
    let detail = format!("{limit}, {}: {}", failure.cause.code(), failure.detail);
    let mut failure = failure.because(Cause::RequestTimeout);
    failure.detail = detail.into();
    failure
}

/// The failure of a client that does not read its response.
pub(super) fn slow(lost: TooSlow) -> ExchangeFailure {
    ExchangeFailure::new(
        Cause::ClientSlow,
        match lost {
            TooSlow::Idle | TooSlow::SilentStream => "it did not read its response in time",
            TooSlow::BelowMinRate => "it reads its response too slowly",
        },
    )
}

/// Malformed fields that were dropped. Clients may cause them, so there is one line in ten seconds at most.
static MALFORMED_FIELDS: Pace = Pace::every_ms(10_000);

/// Sends `reply`.
pub(super) async fn send_local_reply<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
    mut reply: BufferedReply,
) -> PipelineOutcome {
    journey.exchange.stats.answered_locally = true;
    transform_reply::transform(journey.exchange, &mut reply);
    if reply.status == NO_ANSWER {
        set_head(journey.run, journey.exchange, NO_ANSWER, &[]);
        journey.downstream.leave_unanswered();
        return PipelineOutcome::Done;
    }
    let (mut body, mut trailers) = (reply.body.into_owned(), Headers::new());
    set_head(journey.run, journey.exchange, reply.status, &reply.headers);
    let mut edited = respond_head(journey).await;
    let undecided = journey.exchange.gave_up.get();
    if edited.is_ok() && journey.chains.has(PluginPhase::ResponseBody) {
        edited = phases::whole_response_body(journey, &mut body, &mut trailers).await;
    }
    if let Err(failure) = edited {
        journey.exchange.failure.get_or_insert(failure);
        (body, trailers) = (set_bare_failure(journey.run, journey.exchange, undecided), Headers::new());
    } else if journey.exchange.gave_up.get().is_some() {
        (body, trailers) = (set_bare_failure(journey.run, journey.exchange, undecided), Headers::new());
    }
    let text = journey.exchange.failure.as_ref().map(failure_reply::explanation);
    if grpc::convert_reply_to_grpc(journey.exchange, &body, text.as_deref()) {
        journey.downstream.start_response(journey.exchange, BodyLength::None);
        send_whole_body(journey, &[]).await;
        return PipelineOutcome::Done;
    }
    let mut length =
        if matches!(journey.exchange.response.status, 204 | 304) || journey.exchange.response.status < 200 {
            BodyLength::None
        } else {
            phases::length_before(&trailers, &body)
        };
    let is_head = journey.exchange.request.method == message::Method::Head;
    if is_head && journey.exchange.response_is_coded && length != BodyLength::None {
        length = BodyLength::Unknown;
    }
    if length == BodyLength::None || is_head {
        body.clear();
        trailers = Headers::new();
    }
    journey.exchange.note_response(&body);
    match encode::encode_whole_body(journey.run, journey.exchange, &body).await {
        Ok(None) => {}
        Ok(Some(coded)) => (length, body) = (phases::length_before(&trailers, &coded), coded),
        Err(failure) => {
            journey.exchange.failure.get_or_insert(failure);
            body = set_bare_failure(journey.run, journey.exchange, None);
            (length, trailers) = (BodyLength::Known(body.len() as u64), Headers::new());
        }
    }
    journey.downstream.start_response(journey.exchange, length);
    send_with_trailers(journey, &body, &trailers).await;
    PipelineOutcome::Done
}

/// Makes the response's head that of a reply.
pub(super) fn set_head(
    run: &PipelineRun<'_>,
    exchange: &mut Exchange,
    status: u16,
    fields: &[(Cow<'static, str>, String)],
) {
    exchange.begin_response();
    // The encoder of a response that this one replaces.
    exchange.encoder = None;
    exchange.response_is_coded = false;
    exchange.response.status = status;
    for (name, value) in fields {
        // A plugin that builds a field from user input must not be able to split the response, so a malformed
        // field is dropped.
        if exchange.response.headers.append(name, value.as_bytes()).is_err()
            && let Some(count) = MALFORMED_FIELDS.add(1, run.local().now_ms())
        {
            tracing::warn!(field = %name, count, "a plugin's response field is malformed and was left out");
        }
    }
}

/// Puts a response in place of a reply with undecided or abandoned edits, because text that they would have
/// removed must not be sent; returns its body. If the reply was for a failure, it names that failure.
#[cold]
fn set_bare_failure(run: &PipelineRun<'_>, exchange: &mut Exchange, undecided: Option<GaveUp>) -> Vec<u8> {
    let failure = exchange.failure.get_or_insert_with(|| match undecided {
        Some(reason) => ExchangeFailure::new(Cause::PatternLimit, reason.to_string()),
        None => ExchangeFailure::new(Cause::BufferLimit, "a plugin takes too long to edit the body"),
    });
    // Without the reply that the configuration gives for it: a plugin was to edit that one.
    let failure = ExchangeFailure::new(failure.cause, failure.detail.clone());
    let bare = failure_reply::build_failure_reply(exchange, &failure);
    set_head(run, exchange, bare.status, &bare.headers);
    name_error(exchange);
    bare.body.into_owned()
}

/// Says in a field of the response why it is an error of the server, where a setting asks for it.
#[cold]
fn name_error(exchange: &mut Exchange) {
    if !exchange.local().options.forward.error_header {
        return;
    }
    if let Some(value) = failure_reply::error_field(exchange) {
        // A full head goes without.
        let _ = exchange.response.headers.set("X-Weir-Error", value.as_bytes());
    }
}

/// Names the statuses of all attempts on a server error, or always if a setting asks for it (contract section
/// 2.5).
pub(super) fn name_tried_statuses(exchange: &mut Exchange) {
    let mut statuses = String::new();
    for attempt in &exchange.attempts {
        if !statuses.is_empty() {
            statuses.push_str(", ");
        }
        let status = attempt.failed.map_or(attempt.status, exchange::failure::Cause::status);
        statuses.push_str(&status.to_string());
    }
    exchange.add_response_field("X-APISIX-Upstream-Status", &statuses).expect("digits, commas and spaces");
}

/// Prepares a response head for sending: adds the fields that were set early, runs the phase of the response
/// head, names the reason of an error, and chooses the coding of the body.
///
/// # Errors
/// When a plugin waits too long.
#[inline]
pub(super) async fn respond_head<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
) -> Result<(), ExchangeFailure> {
    if !journey.exchange.early_fields.is_empty() {
        for (name, value) in std::mem::take(&mut journey.exchange.early_fields) {
            let headers = &mut journey.exchange.response.headers;
            // Each cookie has a line of its own (RFC 6265 section 3), beside those of the upstream.
            let is_cookie = name.eq_ignore_ascii_case("set-cookie");
            let write = if is_cookie { Headers::append } else { Headers::set };
            write(headers, &name, value.as_bytes()).expect("checked when it was added");
        }
    }
    if journey.chains.has(PluginPhase::ResponseHead) {
        phases::run_response_head_phase(journey).await?;
    }
    if journey.chains.has(PluginPhase::ResponseBody)
        && phases::edits_response_body(journey.run.context, journey.exchange, &journey.chains)
    {
        // Also of a HEAD, for which no body shows what a GET would bring.
        changed_body::forget(&mut journey.exchange.response.headers);
    }
    if journey.exchange.response.status >= 500 {
        name_error(journey.exchange);
    }
    if journey.chains.has(PluginPhase::Encode) {
        encode::choose(journey.run, journey.exchange, &journey.chains);
    }
    Ok(())
}

/// Sends a whole body and ends the response.
pub(super) async fn send_whole_body<S: DownstreamStream>(journey: &mut Journey<'_, S>, body: &[u8]) {
    send_with_trailers(journey, body, &Headers::new()).await;
}

/// Sends a whole body and these trailers, if there are any, and ends the response.
pub(super) async fn send_with_trailers<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
    body: &[u8],
    trailers: &Headers,
) {
    let mut wait = Wait::new(journey.run, MinRateGuard::for_response(&journey.run.local().options.limits));
    let mut sent = 0;
    let mut finished = false;
    let delivered = poll_fn(|cx| {
        let mut moved = false;
        loop {
            let step = if sent < body.len() {
                journey.downstream.poll_write(cx, &body[sent..]).map_ok(|count| sent += count)
            } else {
                if !finished {
                    finished = true;
                    journey.downstream.finish(Some(trailers).filter(|list| !list.is_empty()));
                }
                journey.downstream.poll_flush(cx)
            };
            match step {
                Poll::Ready(Ok(())) if finished => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(())) => moved = true,
                Poll::Ready(Err(error)) => {
                    return Poll::Ready(Err(ExchangeFailure::new(Cause::ClientGone, error.to_string())));
                }
                Poll::Pending => {
                    return match wait.for_client(cx, moved, || journey.downstream.delivered_bytes()) {
                        Ok(()) => Poll::Pending,
                        Err(lost) => Poll::Ready(Err(slow(lost))),
                    };
                }
            }
        }
    })
    .await;
    if let Err(failure) = delivered {
        journey.downstream.abort(Blame::Client);
        // The reason of the reply says more than a client that did not read it.
        let failure = overdue(journey.run, journey.exchange, failure);
        journey.exchange.failure.get_or_insert(failure);
    }
    journey.exchange.stats.response_body_bytes += sent as u64;
    journey.exchange.stats.response_bytes = journey.downstream.progress().sent_bytes;
}
