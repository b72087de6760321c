//! gRPC calls in the pipeline: their deadline, and replies and failures as statuses of gRPC. It knows no
//! protocol beneath.

use exchange::Exchange;
use exchange::failure::{Cause, ExchangeFailure};
use exchange::grpc::{self, code_of_cause, code_of_status, message_text, timeout_text};
use message::{FieldId, Headers};

use super::attempt_policy::{AfterHead, AttemptPolicy, Attempting};
use super::run::PipelineRun;
use crate::body::DownstreamStream;
use crate::upstream::Upstream;
use net::endpoint::EndpointProtocol;

/// The longest body of a reply that becomes its message: plugins explain themselves in a line.
const MESSAGE_BYTES_MAX: usize = 1024;
/// The least time that is left to a server: it gives the call up by itself.
const LEAST_LEFT_NS: u64 = 1_000_000;

/// Tells the endpoint how much time is left to a call, and notes the status of a response without a message.
pub(super) struct GrpcCall;

impl AttemptPolicy for GrpcCall {
    fn before_send<S: DownstreamStream>(
        attempting: &mut Attempting<'_, '_, S>,
    ) -> Result<(), ExchangeFailure> {
        let journey = &mut *attempting.journey;
        reduce_timeout(journey.exchange, journey.run.local().recent_ns());
        Ok(())
    }

    fn after_head<S: DownstreamStream>(
        attempting: &mut Attempting<'_, '_, S>,
    ) -> Result<AfterHead, ExchangeFailure> {
        note_status(attempting.journey.exchange, None);
        Ok(AfterHead::PassOn)
    }
}

/// Ends the exchange at the deadline of its call.
pub(super) fn bound(run: &PipelineRun<'_>, exchange: &Exchange) {
    let Some(call) = exchange.grpc.filter(|call| call.deadline_ns != 0) else { return };
    let (limits, started_ns) = (&run.local().options.limits, exchange.times.started_ns);
    let deadline_ms = call.deadline_ns.div_ceil(1_000_000);
    let bound_ms = match limits.request_timeout_ms {
        0 => deadline_ms,
        timeout_ms => deadline_ms.min(started_ns / 1_000_000 + timeout_ms),
    };
    run.deadline.set_cap(bound_ms);
}

/// Ends the exchange at the deadline of a call that a plugin translates, which is known after the plugins.
pub(super) fn bound_translated(run: &PipelineRun<'_>, exchange: &Exchange) {
    if let Some(call) = exchange.grpc.filter(|call| call.is_translated && call.deadline_ns != 0) {
        run.deadline.tighten_cap(call.deadline_ns.div_ceil(1_000_000));
    }
}

/// Tells the endpoint how much time is left to the call.
fn reduce_timeout(exchange: &mut Exchange, now_ns: u64) {
    let Some(call) = exchange.grpc.filter(|call| call.deadline_ns != 0) else { return };
    let left_ns = call.deadline_ns.saturating_sub(now_ns).max(LEAST_LEFT_NS);
    // A head without space for it is sent with the timeout that the client wrote.
    let _ = exchange.request.headers.set("grpc-timeout", timeout_text(left_ns).as_bytes());
}

/// Notes the status in the head of a response without a message, or in its trailers.
pub(super) fn note_status(exchange: &mut Exchange, trailers: Option<&Headers>) {
    if let Some(call) = &mut exchange.grpc {
        call.note_status(trailers.unwrap_or(&exchange.response.headers));
    }
}

/// Refuses a call of a client that speaks HTTP/1, which has no trailers that a gRPC client would read.
pub(super) fn check_version(exchange: &Exchange, upstream: &Upstream) -> Result<(), ExchangeFailure> {
    let is_call = || exchange.request.headers.get_known(FieldId::ContentType).is_some_and(grpc::is_call);
    if upstream.protocol == EndpointProtocol::Http2 && exchange.grpc.is_none() && is_call() {
        let detail = "gRPC needs HTTP/2, and the client speaks HTTP/1.1";
        return Err(ExchangeFailure::new(Cause::VersionNotSupported, detail));
    }
    Ok(())
}

/// Turns the reply in `exchange` with this body, which the gateway or a plugin made, into a status of gRPC,
/// which is in a head without a message. False if the request is no call, or the reply no error.
pub(super) fn convert_reply_to_grpc(exchange: &mut Exchange, body: &[u8], explanation: Option<&str>) -> bool {
    // A plugin that replies with success knows the protocol, or stands for a service.
    let is_success = exchange.failure.is_none() && exchange.response.status < 300;
    let Some(call) = exchange.grpc.as_mut().filter(|call| !is_success && !call.is_translated) else {
        return false;
    };
    let code = match &exchange.failure {
        Some(failure) => code_of_cause(failure.cause),
        None => code_of_status(exchange.response.status),
    };
    call.status = Some(code);
    let body = if body.len() <= MESSAGE_BYTES_MAX { body } else { b"" };
    let text = match explanation {
        Some(text) => message_text(text),
        None => message_text(String::from_utf8_lossy(body).trim_end()),
    };
    let response = &mut exchange.response;
    for name in ["content-type", "content-length", "content-encoding", "transfer-encoding"] {
        response.headers.remove(name);
    }
    response.status = 200;
    set_status(&mut response.headers, code, &text);
    let _ = response.headers.set("content-type", b"application/grpc");
    true
}

/// The trailers that tell the client of a failure inside its response; none if the request is no call, or its
/// response can have no trailers.
pub(super) fn trailers(
    exchange: &mut Exchange,
    failure: &ExchangeFailure,
    explanation: &str,
) -> Option<Headers> {
    let call = exchange.grpc.as_mut().filter(|call| !call.is_translated)?;
    if exchange.response.headers.contains_known(FieldId::ContentLength) {
        return None;
    }
    let code = code_of_cause(failure.cause);
    call.status = Some(code);
    let mut trailers = Headers::new();
    set_status(&mut trailers, code, &message_text(explanation));
    Some(trailers)
}

fn set_status(headers: &mut Headers, code: u32, message: &str) {
    let set = headers.set("grpc-status", itoa::Buffer::new().format(code).as_bytes());
    debug_assert!(set.is_ok(), "a number is a value");
    if !message.is_empty() {
        // A head without space for it goes without.
        let _ = headers.set("grpc-message", message.as_bytes());
    }
}
