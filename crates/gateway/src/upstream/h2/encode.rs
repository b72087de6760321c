//! The request head that an endpoint receives over HTTP/2: pseudo-fields from the exchange, and the fields
//! that `forward` decides on.

use http2::{Connection, RequestTarget, StartError, StreamKey};
use message::{FieldId, FieldSet, FieldSink, Method};

use crate::body::BodyLength;
use crate::forward;
use exchange::Exchange;

/// A WebSocket over HTTP/2 has no key (RFC 8441 section 5): the gateway answers the key of its client.
const OF_HTTP1_UPGRADES: FieldSet = FieldSet::of(&[FieldId::SecWebSocketKey]);

/// Writes the head, before a body of `length`; the stream that it begins, and whether the head ends the
/// message. A request to switch to WebSocket becomes an extended CONNECT (RFC 8441).
///
/// # Errors
/// The connection takes no further stream.
pub(super) fn write_h2_request_head(
    engine: &mut Connection,
    exchange: &Exchange,
    length: BodyLength,
    is_tls: bool,
) -> Result<(StreamKey, bool), StartError> {
    let request = &exchange.request;
    let is_upgrade = exchange.decision.is_upgrade;
    let target = RequestTarget {
        method: if is_upgrade { b"CONNECT" } else { request.method_text() },
        scheme: if is_tls { "https" } else { "http" },
        authority: exchange.target.forward_host.as_deref().unwrap_or(request.authority()),
        path: exchange.forward_path(),
        query: exchange.forward_query(),
        protocol: is_upgrade.then_some("websocket"),
    };
    let mut fields = engine.start_request(&target)?;
    let without = if is_upgrade { OF_HTTP1_UPGRADES } else { FieldSet::EMPTY };
    forward::request_fields(exchange, without, &mut fields);
    if is_upgrade {
        return Ok((fields.finish(false), false));
    }
    // The one connection-specific field that has a meaning in HTTP/2 (RFC 9113 section 8.2.2); gRPC asks for
    // it.
    let is_translated = exchange.grpc.is_some_and(|call| call.is_translated);
    if is_translated || request.headers.contains_token(FieldId::Te, "trailers") {
        fields.field("te", b"trailers");
    }
    // A call without messages ends with an empty DATA frame (gRPC over HTTP/2, "EOS"); servers wait for one.
    let is_call = exchange.grpc.is_some();
    match length {
        BodyLength::None | BodyLength::Known(0) if is_call => return Ok((fields.finish(false), false)),
        // A method that is expected to have content says so even when it has none (RFC 9110 section 8.6).
        BodyLength::None if matches!(request.method, Method::Post | Method::Put | Method::Patch) => {
            fields.field("content-length", b"0");
        }
        BodyLength::Known(bytes) => {
            fields.field("content-length", itoa::Buffer::new().format(bytes).as_bytes());
        }
        BodyLength::None | BodyLength::Unknown => {}
    }
    let is_end = matches!(length, BodyLength::None | BodyLength::Known(0));
    Ok((fields.finish(is_end), is_end))
}
