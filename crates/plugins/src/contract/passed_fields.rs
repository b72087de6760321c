//! The fields of a request that are sent on where a contract passes declared ones only.

use message::Headers;

use crate::shared::openapi::operation::OasOperation;
use crate::shared::openapi::parameters::ParameterLocation;

/// Fields that HTTP, authentication, tracing and proxies need, whatever a document declares (RFC 9110, RFC
/// 9111, RFC 6265, Trace Context, RFC 7239). In lower case.
const PASSED: [&str; 44] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "authorization",
    "b3",
    "baggage",
    "cache-control",
    "connection",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-type",
    "date",
    "expect",
    "forwarded",
    "from",
    "host",
    "idempotency-key",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "max-forwards",
    "origin",
    "pragma",
    "prefer",
    "range",
    "referer",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
    "x-b3-traceid",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-request-id",
];

/// Fields in which authentication plugins name the consumer.
const OF_CONSUMER: [&str; 4] =
    ["x-consumer-username", "x-consumer-custom-id", "x-credential-identifier", "x-consumer-group-id"];

/// Removes the fields that the operation does not declare. Cookies are sent on where it declares one, and
/// the fields that name the consumer where one is authenticated, because a client may have sent them
/// otherwise.
pub(super) fn keep_declared(headers: &mut Headers, operation: &OasOperation, has_consumer: bool) {
    let declared = |name: &str| {
        operation.parameters.iter().any(|parameter| match parameter.place {
            ParameterLocation::Header => parameter.name.eq_ignore_ascii_case(name),
            ParameterLocation::Cookie => name.eq_ignore_ascii_case("cookie"),
            ParameterLocation::Path | ParameterLocation::Query => false,
        })
    };
    let is_in = |list: &[&str], name: &str| list.iter().any(|passed| passed.eq_ignore_ascii_case(name));
    let is_passed =
        |name: &str| is_in(&PASSED, name) || (has_consumer && is_in(&OF_CONSUMER, name)) || declared(name);
    let names = headers.iter().map(|field| String::from_utf8_lossy(field.name).into_owned());
    let dropped: Vec<String> = names.filter(|name| !is_passed(name)).collect();
    for name in dropped {
        headers.remove(&name);
    }
}
