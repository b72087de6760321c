//! Which requests are forwarded as an upgrade (RFC 9110 section 7.8), and which switches of an endpoint are
//! one. It passes no byte of the protocol.

use message::{Method, syntax};

use crate::body::BodyLength;
use exchange::Exchange;

/// The most protocols that a request may offer; clients offer one or two.
const OFFERS_MAX: usize = 8;
/// Protocols that carry requests themselves. Inside a tunnel of one of them a client would reach every path
/// of the endpoint, past routes and plugins, so that an `Upgrade` field with one of them is removed, as a
/// server may ignore it.
const CARRY_REQUESTS: [&[u8]; 4] = [b"h2c", b"h2", b"http", b"tls"];

/// Whether the request is forwarded as an upgrade, on a route that allows it: there is no body, and the
/// protocols are none that carry requests. Endpoints that may speak HTTP/2 can agree to a WebSocket only (RFC
/// 8441).
pub(crate) fn is_passed_on(exchange: &Exchange, to_http2: bool, length: BodyLength) -> bool {
    let Some(offer) = exchange.request.upgrade_text() else { return false };
    let is_websocket = || exchange.request.method == Method::Get && offer.eq_ignore_ascii_case(b"websocket");
    matches!(length, BodyLength::None | BodyLength::Known(0))
        && may_be_offered(offer)
        && (!to_http2 || is_websocket())
}

/// Whether these protocols of an `Upgrade` field may be offered to an endpoint.
fn may_be_offered(offer: &[u8]) -> bool {
    let is_good = |protocol: &[u8]| {
        let mut parts = protocol.splitn(2, |&byte| byte == b'/');
        let (name, version) = (parts.next().unwrap_or_default(), parts.next().unwrap_or(b"-"));
        syntax::is_token(name)
            && syntax::is_token(version)
            && !CARRY_REQUESTS.iter().any(|other| name.eq_ignore_ascii_case(other))
    };
    syntax::list(offer).count() <= OFFERS_MAX && syntax::list(offer).all(is_good)
}

/// Whether the endpoint switches to protocols that the request offers.
pub(crate) fn is_agreed(exchange: &Exchange) -> bool {
    let Some(offer) = exchange.request.upgrade_text() else { return false };
    let is_offered =
        |protocol: &[u8]| syntax::list(offer).any(|offered| offered.eq_ignore_ascii_case(protocol));
    exchange.response.upgrade_text().is_some_and(|protocols| syntax::list(protocols).all(is_offered))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_that_carry_requests_are_not_offered() {
        for good in ["websocket", "WebSocket", "SPDY/3.1", "tcp", "websocket, foo", "foo/1, bar"] {
            assert!(may_be_offered(good.as_bytes()), "{good}");
        }
        let many = ["a"; OFFERS_MAX + 1].join(",");
        for bad in [
            "h2c",
            "H2C",
            "websocket, h2c",
            "h2c,websocket",
            "HTTP/2.0",
            "TLS/1.0",
            "TLS",
            "h2",
            "h2c/1",
            "",
            ",",
            "a b",
            "websocket,",
            "a/",
            "/1",
            "a/1/2",
            &many,
        ] {
            assert!(!may_be_offered(bad.as_bytes()), "{bad}");
        }
    }
}
