//! The agreement to a WebSocket for a client that opened it with an extended CONNECT (RFC 8441): the proof of the endpoint
//! is checked here, because the gateway made the key that it answers.

use aws_lc_rs::digest;
use data_encoding::BASE64;

use exchange::Exchange;
use exchange::failure::{Cause, Failure};

/// Checks that the endpoint has answered the key of the request (RFC 6455 section 4.2.2), and makes the response one that
/// HTTP/2 has.
///
/// # Errors
/// The endpoint has not proved that it speaks WebSocket.
pub(super) fn accept_over_http2(exchange: &mut Exchange) -> Result<(), Failure> {
    let key = exchange.request.headers.get("sec-websocket-key").unwrap_or_default();
    let proof = exchange.response.headers.get("sec-websocket-accept").unwrap_or_default();
    if proof != accept_value(key).as_bytes() {
        return Err(Failure::new(Cause::BadResponse, "its Sec-WebSocket-Accept does not answer the key"));
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
