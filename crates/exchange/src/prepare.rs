//! Before anything is decided about a request: what it asks for is put into the one canonical form that
//! matching, plugins, logs and nodes see, and what no proxy may pass on is refused.

use message::{FieldId, FieldSet, Headers, Method, Version};
use router::path::{PathScratch, canonicalize};

use crate::exchange::Exchange;
use crate::exchange::forwarded::split_port;
use crate::failure::{Cause, ExchangeFailure};
use crate::grpc;
use crate::options::Options;

/// Fills the exchange's path, host and client address.
///
/// # Errors
/// The request is refused; its path is the one that was sent, for logs.
#[inline]
pub fn prepare(
    options: &Options,
    scratch: &mut PathScratch,
    exchange: &mut Exchange,
) -> Result<(), ExchangeFailure> {
    let prepared = bring_into_form(options, scratch, exchange);
    if prepared.is_err() {
        prepare_refused(exchange);
    }
    prepared
}

/// Fills path and host of a request that is refused before they have their canonical form, as they were sent,
/// so that logs say what was asked. Nothing is decided by them.
#[cold]
pub fn prepare_refused(exchange: &mut Exchange) {
    let Exchange { request, target, .. } = &mut *exchange;
    if target.encoded_path.is_empty() && !request.target_text().is_empty() {
        target.path.clear();
        target.path.extend_from_slice(request.path());
        target.encoded_path.extend_from_slice(request.path());
    }
    if target.host.is_empty() {
        host_name(request.authority(), &mut target.host);
    }
}

fn bring_into_form(
    options: &Options,
    scratch: &mut PathScratch,
    exchange: &mut Exchange,
) -> Result<(), ExchangeFailure> {
    exchange.request.headers.guard_names(WRITTEN_FOR_NODES);
    // First, because a refused request is logged with its client's address as well.
    exchange.client = match exchange.inner_client {
        Some(client) => client,
        None => options.real_ip.client(exchange.connection.peer, &exchange.request.headers),
    };
    // Before a request is refused, because the refusal of a call has the form of gRPC.
    if exchange.request.version >= Version::Http2 {
        exchange.grpc = grpc::GrpcCallState::of(&exchange.request.headers, exchange.times.started_ns);
    }
    let Exchange { request, target, .. } = &mut *exchange;
    if request.version >= Version::Http2 {
        // The parser of HTTP/1 counts the same bytes of its start line.
        let line_bytes = request.method_text().len() + request.target_text().len() + b"  HTTP/1.1".len();
        if line_bytes > options.limits.head.max_line_bytes {
            return Err(ExchangeFailure::new(
                Cause::LineTooLong,
                "method and target are longer than a request line may be",
            ));
        }
    }
    match request.method {
        // Hardening: no tunnel to an address that a client names, no echo of what a browser hides (RFC 9110
        // 9.3.6, 9.3.8).
        Method::Connect => {
            return Err(ExchangeFailure::new(Cause::MethodRefused, "CONNECT is not served here"));
        }
        Method::Trace => return Err(ExchangeFailure::new(Cause::MethodRefused, "TRACE is not served here")),
        _ if request.path() == b"*" => {
            return Err(ExchangeFailure::new(
                Cause::BadRequest,
                "the target * names no resource of this gateway",
            ));
        }
        _ => {}
    }
    if has_unknown_expectation(&request.headers) {
        return Err(ExchangeFailure::new(
            Cause::ExpectationFailed,
            "the only expectation known is 100-continue",
        ));
    }
    let canonical = canonicalize(request.path(), &options.path, scratch)
        .map_err(|error| ExchangeFailure::new(Cause::BadRequest, error.to_string()))?;
    target.path.extend_from_slice(canonical.decoded());
    target.encoded_path.extend_from_slice(canonical.forward());
    host_name(request.authority(), &mut target.host);
    if options.forward.is_in_loop(&exchange.request.headers) {
        return Err(ExchangeFailure::new(
            Cause::LoopDetected,
            "it has passed through this kind of gateway too often",
        ));
    }
    options.forward.strip_untrusted(exchange);
    Ok(())
}

/// Fields that the gateway writes for nodes itself, or that frame a message. A node that takes `_` for `-`
/// must not find a second one, which a client has written.
const WRITTEN_FOR_NODES: FieldSet = FieldSet::of(&[
    FieldId::ContentLength,
    FieldId::TransferEncoding,
    FieldId::XForwardedFor,
    FieldId::XForwardedProto,
    FieldId::XForwardedHost,
    FieldId::XForwardedPort,
    FieldId::XForwardedPrefix,
    FieldId::XRealIp,
]);

/// Whether an Expect field asks for anything but `100-continue` (RFC 9110 section 10.1.1).
#[inline]
fn has_unknown_expectation(headers: &Headers) -> bool {
    const EXPECT: FieldSet = FieldSet::of(&[FieldId::Expect]);
    headers.may_contain(EXPECT) && {
        let mut values = headers.get_all_known(FieldId::Expect);
        let first = values.next();
        values.next().is_some() || first.is_some_and(|value| !value.eq_ignore_ascii_case(b"100-continue"))
    }
}

/// The authority without its port, in lower case. The dot that ends a fully qualified name goes too: the name
/// means the same with it (RFC 1034 section 3.1), nginx and others serve it as the same host, and a route
/// must not be missed by it.
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
    fn only_100_continue_is_a_known_expectation() {
        let check = |values: &[&str], unknown: bool| {
            let mut headers = Headers::new();
            values.iter().for_each(|value| headers.append("Expect", value.as_bytes()).unwrap());
            assert_eq!(has_unknown_expectation(&headers), unknown, "{values:?}");
        };
        check(&[], false);
        check(&["100-continue"], false);
        check(&["100-Continue"], false);
        check(&["100-continue, x"], true);
        check(&[""], true);
        check(&["100-continue", "x"], true);
        check(&["x", "100-continue"], true);
    }

    #[test]
    fn host_is_lower_case_authority_without_port() {
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
