//! Preflight requests: a browser asks whether a page of another origin may send a request, without the
//! credentials that the request itself would carry (Fetch Standard, CORS-preflight fetch). They are answered
//! before authentication, wherever that is configured, because no browser could use the route otherwise.

use message::{FieldId, Method};

use crate::exchange::Exchange;

/// Plugins of a higher priority run in the rewrite phase before a preflight request is answered: those that
/// find out the client, name the request or trace it. Authentication has a lower one.
pub const PREFLIGHT_PRIORITY: i64 = 4_000;

/// Whether a request is a preflight request.
pub fn is_preflight(exchange: &Exchange) -> bool {
    let headers = &exchange.request.headers;
    exchange.request.method == Method::Options
        && headers.contains_known(FieldId::Origin)
        && headers.contains("Access-Control-Request-Method")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scene;

    #[test]
    fn only_preflight_requests_are_recognized() {
        let check = |head: &str, expected: bool| {
            let mut scene = Scene::new();
            let exchange = scene.exchange(format!("{head}\r\n\r\n").as_bytes());
            assert_eq!(is_preflight(&exchange), expected, "{head}");
        };
        let asked = "Access-Control-Request-Method: POST";
        check(&format!("OPTIONS / HTTP/1.1\r\nHost: h\r\nOrigin: https://a\r\n{asked}"), true);
        check(&format!("GET / HTTP/1.1\r\nHost: h\r\nOrigin: https://a\r\n{asked}"), false);
        check(&format!("OPTIONS / HTTP/1.1\r\nHost: h\r\n{asked}"), false);
        check("OPTIONS / HTTP/1.1\r\nHost: h\r\nOrigin: https://a", false);
    }
}
