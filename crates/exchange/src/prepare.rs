//! Before anything is decided about a request: what it asks for is put into the one canonical form that matching,
//! plugins, logs and nodes see, and what no proxy may pass on is refused.

use http1::{Method, RequestFraming, TargetForm};
use router::path::{PathScratch, canonicalize};

use crate::exchange::{Exchange, split_port};
use crate::failure::{Cause, Failure};
use crate::options::Options;

/// Fills the exchange's path, host and client address.
pub fn prepare(options: &Options, scratch: &mut PathScratch, exchange: &mut Exchange) -> Result<(), Failure> {
    // First, because a refused request is logged with its client's address as well.
    exchange.client = options.real_ip.client(exchange.connection.peer, &exchange.request.headers);
    let Exchange { request, target, .. } = &mut *exchange;
    match (request.method, request.form) {
        // Hardening: no tunnel to an address that a client names, no echo of what a browser hides (RFC 9110 9.3.6, 9.3.8).
        (Method::Connect, _) | (_, TargetForm::Authority) => {
            return Err(Failure::new(Cause::MethodRefused, "CONNECT is not served here"));
        }
        (Method::Trace, _) => return Err(Failure::new(Cause::MethodRefused, "TRACE is not served here")),
        (_, TargetForm::Asterisk) => {
            return Err(Failure::new(Cause::BadRequest, "the target * names no resource of this gateway"));
        }
        (_, TargetForm::Origin | TargetForm::Absolute) => {}
    }
    if request.unknown_expectation {
        return Err(Failure::new(Cause::ExpectationFailed, "the only expectation known is 100-continue"));
    }
    let canonical = canonicalize(request.path(), &options.path, scratch)
        .map_err(|error| Failure::new(Cause::BadRequest, error.to_string()))?;
    target.path.extend_from_slice(canonical.decoded());
    target.encoded_path.extend_from_slice(canonical.forward());
    host_name(request.authority(), &mut target.host);
    if options.forward.is_in_loop(&exchange.request.headers) {
        return Err(Failure::new(
            Cause::LoopDetected,
            "it has passed through this kind of gateway too often",
        ));
    }
    options.forward.strip_untrusted(exchange);
    let limit = options.limits.max_body_bytes;
    if let RequestFraming::Length(bytes) = exchange.request.framing
        && limit != 0
        && bytes > limit
    {
        return Err(Failure::new(Cause::BodyTooLarge, format!("the limit for a body is {limit} bytes")));
    }
    Ok(())
}

/// The authority without its port, in lower case. The dot that ends a fully qualified name goes too: the name means the
/// same with it (RFC 1034 section 3.1), nginx and others serve it as the same host, and a route must not be missed by it.
fn host_name(authority: &[u8], host: &mut Vec<u8>) {
    let name = match split_port(authority).0 {
        [name @ .., b'.'] if !name.is_empty() => name,
        name => name,
    };
    host.extend_from_slice(name);
    host.make_ascii_lowercase();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_the_authority_without_port_in_lower_case() {
        let cases: &[(&str, &str)] = &[
            ("Example.COM", "example.com"),
            ("example.com:8080", "example.com"),
            ("[2001:DB8::1]:443", "[2001:db8::1]"),
            ("[::1]", "[::1]"),
            ("Example.com.", "example.com"),
            ("example.com.:8080", "example.com"),
            ("example.com..", "example.com."),
            (".", "."),
            ("", ""),
        ];
        for (authority, want) in cases {
            let mut host = Vec::new();
            host_name(authority.as_bytes(), &mut host);
            assert_eq!(String::from_utf8_lossy(&host), *want, "{authority}");
        }
    }
}
