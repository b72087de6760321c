//! WebSocket over HTTP/2 (RFC 8441) and HTTP/3 (RFC 9220): an extended CONNECT becomes the request that opens
//! a WebSocket over HTTP/1.1 (RFC 6455 section 4.1), which the pipeline knows. It knows no stream.

use data_encoding::BASE64;
use message::Method;

use exchange::Exchange;
use exchange::failure::{Cause, ExchangeFailure};
use net::env::random_u64;

/// Turns the extended CONNECT in `exchange` into a request that asks to switch to WebSocket.
///
/// # Errors
/// It asks for another protocol (RFC 9220 section 3 names 501 for that).
fn accept_extended_connect(exchange: &mut Exchange) -> Result<(), ExchangeFailure> {
    let is_websocket =
        exchange.request.upgrade_text().is_some_and(|text| text.eq_ignore_ascii_case(b"websocket"));
    if !is_websocket {
        return Err(ExchangeFailure::new(Cause::NotImplemented, "the only :protocol served is websocket"));
    }
    exchange.request.set_method("GET").expect("GET is a token");
    debug_assert_eq!(exchange.request.method, Method::Get);
    // HTTP/2 and HTTP/3 have no key of their own; the endpoint proves with it that it speaks WebSocket. It is
    // no secret.
    let mut nonce = [0; 16];
    nonce[..8].copy_from_slice(&random_u64().to_be_bytes());
    nonce[8..].copy_from_slice(&random_u64().to_be_bytes());
    let key = BASE64.encode(&nonce);
    let set = exchange.request.headers.set("sec-websocket-key", key.as_bytes());
    set.map_err(|_| {
        ExchangeFailure::new(Cause::HeadTooLarge, "no space is left for the key of the WebSocket")
    })
}

/// Why a well-formed head is not served, if so. Turns an extended CONNECT into the upgrade that it stands
/// for.
pub(super) fn head_refusal(exchange: &mut Exchange) -> Option<ExchangeFailure> {
    if exchange.request.authority().is_empty() {
        return Some(ExchangeFailure::new(Cause::BadRequest, "neither :authority nor Host is there"));
    }
    let is_connect = exchange.request.method == Method::Connect;
    if is_connect && exchange.request.upgrade_text().is_some() {
        return accept_extended_connect(exchange).err();
    }
    None
}
