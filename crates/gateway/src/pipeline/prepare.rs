//! Before anything is decided about a request: what it asks for is put into the one canonical form that matching,
//! plugins, logs and nodes see, and what no proxy may pass on is refused.

use http1::{FieldId, Method, RequestFraming, TargetForm};
use router::path::{PathScratch, canonicalize};

use super::{Run, upload};
use crate::body::{BodyLength, ServerStream};
use crate::exchange::Exchange;
use crate::failure::{Cause, Failure};
use crate::options::Options;

/// Fills the exchange's path, host and client address.
pub(crate) fn prepare(
    options: &Options,
    scratch: &mut PathScratch,
    exchange: &mut Exchange,
) -> Result<(), Failure> {
    let Exchange { request, path, forward_path, host, .. } = &mut *exchange;
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
    path.extend_from_slice(canonical.decoded());
    forward_path.extend_from_slice(canonical.forward());
    host_name(request.authority(), host);
    exchange.client_address = exchange.connection.peer.ip().to_canonical();
    let limit = options.limits.max_body_bytes;
    if let RequestFraming::Length(bytes) = exchange.request.framing
        && limit != 0
        && bytes > limit
    {
        return Err(Failure::new(Cause::BodyTooLarge, format!("the limit for a body is {limit} bytes")));
    }
    Ok(())
}

/// The longest body that matching reads: what `post_arg` variables are about are forms and calls, not uploads.
const MATCHED_BODY_MAX_BYTES: usize = 1024 * 1024;

/// Reads the body where some route's expression may look into it. A body that is said to be too long for that stays
/// unread, and its variables unset.
pub(super) async fn read_body_for_matching<S: ServerStream>(
    run: &Run<'_>,
    exchange: &mut Exchange,
    server: &mut S,
) -> Result<(), Failure> {
    let readable = match server.body_length() {
        BodyLength::None => false,
        BodyLength::Known(bytes) => bytes <= MATCHED_BODY_MAX_BYTES as u64,
        BodyLength::Unknown => true,
    };
    if readable && has_readable_type(exchange) {
        exchange.request_body = Some(upload::collect(run, server, MATCHED_BODY_MAX_BYTES).await?);
    }
    Ok(())
}

/// Whether variables can be found in a body of this type at all.
fn has_readable_type(exchange: &Exchange) -> bool {
    let value = exchange.request.headers.get_known(FieldId::ContentType).unwrap_or_default();
    let value = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    READABLE_TYPES.iter().any(|readable| value.eq_ignore_ascii_case(readable))
}

const READABLE_TYPES: [&[u8]; 2] = [b"application/x-www-form-urlencoded", b"application/json"];

/// The authority without its port, in lower case.
fn host_name(authority: &[u8], host: &mut Vec<u8>) {
    // A port has five digits at most; the colons of a bracketed IPv6 address stand before its bracket.
    let tail = authority.len().saturating_sub(6);
    let colon = authority[tail..].iter().rposition(|byte| matches!(byte, b':' | b']'));
    let end = match colon {
        Some(at) if authority[tail + at] == b':' => tail + at,
        _ => authority.len(),
    };
    host.extend_from_slice(&authority[..end]);
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
            ("", ""),
        ];
        for (authority, want) in cases {
            let mut host = Vec::new();
            host_name(authority.as_bytes(), &mut host);
            assert_eq!(String::from_utf8_lossy(&host), *want, "{authority}");
        }
    }
}
