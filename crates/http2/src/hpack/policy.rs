//! Which fields the encoder puts into its table; it does not know how they are written.

use message::FieldId;

/// How a field is represented when no table has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    /// Insert it at once: the same value comes again in most messages of a connection.
    Insert,
    /// Insert it when the same field was seen shortly before: names that this program does not know may be
    /// constant or different each time, and one that changes would evict the others.
    InsertSecond,
    /// Do not insert: the value is different in most messages.
    Literal,
    /// Do not insert, and forbid it to every further hop (RFC 7541 section 7.1.3): a secret that could be
    /// guessed by the size of what is sent.
    Never,
}

/// The policy for a field.
pub(super) fn of(id: FieldId, name: &[u8], value: &[u8]) -> Policy {
    let policy = of_name(id, value);
    let is_large = name.len() > NAME_BYTES_MAX || value.len() > VALUE_BYTES_MAX;
    if is_large && policy != Policy::Never { Policy::Literal } else { policy }
}

fn of_name(id: FieldId, value: &[u8]) -> Policy {
    match id {
        FieldId::Authorization | FieldId::ProxyAuthorization | FieldId::ApiKey => Policy::Never,
        FieldId::Cookie if value.len() < SHORT_COOKIE_BYTES => Policy::Never,
        FieldId::Cookie => Policy::InsertSecond,
        FieldId::SetCookie
        | FieldId::ContentLength
        | FieldId::ContentRange
        | FieldId::Range
        | FieldId::Etag
        | FieldId::LastModified
        | FieldId::Expires
        | FieldId::Age
        | FieldId::IfMatch
        | FieldId::IfNoneMatch
        | FieldId::IfModifiedSince
        | FieldId::Location
        | FieldId::Referer
        | FieldId::RetryAfter
        | FieldId::XRequestId
        | FieldId::Traceparent
        | FieldId::Tracestate
        | FieldId::RateLimitRemaining
        | FieldId::RateLimitReset => Policy::Literal,
        FieldId::Server
        | FieldId::Via
        | FieldId::Vary
        | FieldId::ContentType
        | FieldId::ContentEncoding
        | FieldId::CacheControl
        | FieldId::Accept
        | FieldId::AcceptEncoding
        | FieldId::AcceptLanguage
        | FieldId::UserAgent
        | FieldId::Te
        | FieldId::Allow
        | FieldId::Pragma
        | FieldId::XForwardedProto
        | FieldId::XForwardedHost
        | FieldId::XForwardedPort
        | FieldId::XForwardedPrefix
        | FieldId::AccessControlAllowOrigin
        | FieldId::AccessControlAllowCredentials
        | FieldId::StrictTransportSecurity => Policy::Insert,
        // Among them Date, which is the same for a second: on a busy connection it costs a byte instead of
        // thirty.
        _ => Policy::InsertSecond,
    }
}

/// Below 20 bytes a cookie can be guessed by trials that watch the size of requests.
const SHORT_COOKIE_BYTES: usize = 20;
/// A longer name or value takes a quarter of the default table or more and would evict many others.
const NAME_BYTES_MAX: usize = 64;
const VALUE_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies() {
        let long = [b'a'; VALUE_BYTES_MAX + 1];
        for (id, value, expected) in [
            (FieldId::Server, &b"weir"[..], Policy::Insert),
            (FieldId::Server, &long, Policy::Literal),
            (FieldId::Date, b"now", Policy::InsertSecond),
            (FieldId::ContentLength, b"21", Policy::Literal),
            (FieldId::SetCookie, b"a=b", Policy::Literal),
            (FieldId::Cookie, b"a=b", Policy::Never),
            (FieldId::Cookie, b"session=0123456789abcdef", Policy::InsertSecond),
            (FieldId::Authorization, b"Basic eDp5", Policy::Never),
            (FieldId::Authorization, &long, Policy::Never),
            (FieldId::Other, b"x", Policy::InsertSecond),
        ] {
            assert_eq!(of(id, b"name", value), expected, "{id:?}");
        }
    }
}
