//! The agreement to a WebSocket where one side speaks HTTP/2 (RFC 8441), which has neither key nor proof: the
//! gateway makes the proof for a client of HTTP/1, and checks that of an endpoint of HTTP/1. It passes no
//! byte of the WebSocket.

use aws_lc_rs::digest;
use data_encoding::BASE64;
use message::FieldId;

use super::attempt_policy::{AfterHead, AttemptPolicy, Attempting};
use crate::body::DownstreamStream;
use exchange::Exchange;
use exchange::failure::{Cause, ExchangeFailure};

/// Bytes of the key of a WebSocket (RFC 6455 section 4.1).
const KEY_BYTES: usize = 16;

/// Checks the request for an upgrade, and the answer to it, where one side speaks HTTP/2.
pub(super) struct WebSocketUpgrade;

impl AttemptPolicy for WebSocketUpgrade {
    fn before_send<S: DownstreamStream>(
        attempting: &mut Attempting<'_, '_, S>,
    ) -> Result<(), ExchangeFailure> {
        let exchange = &*attempting.journey.exchange;
        if exchange.decision.is_upgrade && attempting.attempt.upstream_stream.is_http2() {
            return check_key(exchange);
        }
        Ok(())
    }

    fn after_head<S: DownstreamStream>(
        attempting: &mut Attempting<'_, '_, S>,
    ) -> Result<AfterHead, ExchangeFailure> {
        let Attempting { journey, attempt, .. } = attempting;
        if attempt.upstream_stream.has_opened_tunnel(journey.exchange.response.status) {
            accept_from_http2(journey.exchange)?;
        }
        if journey.downstream.must_switch_protocols()
            && (200..300).contains(&journey.exchange.response.status)
        {
            // Passed on, it would say that the tunnel is open.
            return Err(ExchangeFailure::new(Cause::BadResponse, "it answered without switching protocols"));
        }
        Ok(AfterHead::PassOn)
    }
}

/// Checks the key of the request, which the gateway will answer for an endpoint of HTTP/2.
///
/// # Errors
/// It is no key.
fn check_key(exchange: &Exchange) -> Result<(), ExchangeFailure> {
    let key = exchange.request.headers.get_known(FieldId::SecWebSocketKey).unwrap_or_default();
    match BASE64.decode(key) {
        Ok(bytes) if bytes.len() == KEY_BYTES => Ok(()),
        _ => Err(ExchangeFailure::new(
            Cause::BadRequest,
            "Sec-WebSocket-Key is not the Base64 form of 16 bytes",
        )),
    }
}

/// Turns the agreement of an endpoint of HTTP/2 into the one of HTTP/1.1, with the proof for the key of the
/// request.
///
/// # Errors
/// The response has no space for the proof.
fn accept_from_http2(exchange: &mut Exchange) -> Result<(), ExchangeFailure> {
    let key = exchange.request.headers.get_known(FieldId::SecWebSocketKey).unwrap_or_default();
    let proof = accept_value(key);
    let set = exchange.response.headers.set("sec-websocket-accept", proof.as_bytes());
    set.map_err(|_| ExchangeFailure::new(Cause::BadResponse, "no space is left for Sec-WebSocket-Accept"))?;
    exchange.response.status = 101;
    Ok(())
}

/// Checks that the endpoint has answered the key of the request (RFC 6455 section 4.2.2), and makes the
/// response one that HTTP/2 has.
///
/// # Errors
/// The endpoint has not proved that it speaks WebSocket.
pub(super) fn accept_over_http2(exchange: &mut Exchange) -> Result<(), ExchangeFailure> {
    let key = exchange.request.headers.get("sec-websocket-key").unwrap_or_default();
    let proof = exchange.response.headers.get("sec-websocket-accept").unwrap_or_default();
    if proof != accept_value(key).as_bytes() {
        return Err(ExchangeFailure::new(
            Cause::BadResponse,
            "its Sec-WebSocket-Accept does not answer the key",
        ));
    }
    exchange.response.headers.remove("sec-websocket-accept");
    exchange.response.status = 200;
    Ok(())
}

/// The value of Sec-WebSocket-Accept that answers `key` (RFC 6455 section 4.2.2).
fn accept_value(key: &[u8]) -> String {
    let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    context.update(key);
    context.update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    BASE64.encode(context.finish().as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_value_is_that_of_the_rfc() {
        assert_eq!(accept_value(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
