//! Calls of plugins to an API that takes forms and answers JSON, such as the endpoints of an OpenID provider.
//! It knows no endpoint. Errors are sentences for the log: they name the server and never hold a token or a
//! secret.

use exchange::local::WorkerLocal;
use exchange::plugin::call_failures::CallFailures;
use exchange::plugin::outbound::{
    OutboundDestination, OutboundError, OutboundLimits, OutboundRequest, OutboundResponse,
};
use jsonx::Bounds;
use message::{Headers, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The bytes of a form that are not written as they are: all but the unreserved ones of RFC 3986 section 2.3.
const FORM: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The longest answer, in bytes: discovery documents and key sets have a few tens of kilobytes.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// The calls of one plugin instance: their limits, and the counter of those that failed.
pub(crate) struct Calls {
    limits: OutboundLimits,
    failures: CallFailures,
}

impl Calls {
    /// Calls that take `timeout_ms` at most.
    pub(crate) fn new(timeout_ms: u64, failures: CallFailures) -> Calls {
        let limits = OutboundLimits {
            connect_timeout_ms: timeout_ms,
            total_timeout_ms: timeout_ms,
            max_body_bytes: ANSWER_BYTES_MAX,
        };
        Calls { limits, failures }
    }

    /// The longest time of a call, in milliseconds.
    pub(crate) fn timeout_ms(&self) -> u64 {
        self.limits.total_timeout_ms
    }

    /// Counts a call without an answer, or with a status of a server that failed.
    fn counted(&self, answer: Result<OutboundResponse, OutboundError>) -> Result<OutboundResponse, String> {
        if answer.as_ref().map_or(true, |answer| answer.status >= 500) {
            self.failures.add();
        }
        answer.map_err(|error| error.to_string())
    }
}

/// A text as it is written in a form or in a query.
pub(crate) fn encode_form_text(text: &str) -> String {
    utf8_percent_encode(text, FORM).to_string()
}

/// Names and values in the form of a body or a query.
pub(crate) fn encode_form<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (name, value) in fields {
        if !text.is_empty() {
            text.push('&');
        }
        text.push_str(&encode_form_text(name));
        text.push('=');
        text.push_str(&encode_form_text(value));
    }
    text
}

/// A URL with more parameters in its query.
pub(crate) fn with_query<'a>(url: &str, fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let query = encode_form(fields);
    match (query.is_empty(), url.contains('?')) {
        (true, _) => url.to_owned(),
        (false, true) => format!("{url}&{query}"),
        (false, false) => format!("{url}?{query}"),
    }
}

/// Sends `body` as a form, with `fields` among the fields of the request.
///
/// # Errors
/// There was no answer.
pub(crate) async fn post_form(
    local: &WorkerLocal,
    destination: &OutboundDestination,
    calls: &Calls,
    body: String,
    fields: &[(&str, &str)],
) -> Result<OutboundResponse, String> {
    let mut headers = headers(fields)?;
    let content_type = headers.set("Content-Type", b"application/x-www-form-urlencoded");
    content_type.map_err(|error| error.to_string())?;
    let request = OutboundRequest { method: Method::Post, headers, body: body.into() };
    calls.counted(local.http.send(destination, &request, &calls.limits).await)
}

/// Asks with GET; `target` takes the place of path and query of the destination.
///
/// # Errors
/// There was no answer.
pub(crate) async fn get(
    local: &WorkerLocal,
    destination: &OutboundDestination,
    target: Option<&str>,
    calls: &Calls,
    fields: &[(&str, &str)],
) -> Result<OutboundResponse, String> {
    let headers = headers(fields)?;
    let request = OutboundRequest { method: Method::Get, headers, body: Vec::new().into() };
    let answer = match target {
        Some(target) => local.http.send_to(destination, target, &request, &calls.limits).await,
        None => local.http.send(destination, &request, &calls.limits).await,
    };
    calls.counted(answer)
}

/// The JSON in an answer with status 200 or 201, as any type.
///
/// # Errors
/// The status is another one, or the body is not JSON. Of the body only the member `error` is told, because
/// others may hold tokens.
pub(crate) fn parse_json_response<T: DeserializeOwned>(
    answer: &OutboundResponse,
    of: &OutboundDestination,
) -> Result<T, String> {
    if !matches!(answer.status, 200 | 201) {
        let value: Option<Value> = jsonx::read(&answer.body, Bounds::SMALL).ok();
        let code = value.as_ref().and_then(|value| value["error"].as_str()).filter(|code| is_code(code));
        let code = code.map(|code| format!(" ({code})")).unwrap_or_default();
        return Err(format!("{} answered with status {}{code}", of.uri(), answer.status));
    }
    jsonx::read(&answer.body, Bounds::DEFAULT)
        .map_err(|_| format!("{} answered with a body that is not JSON", of.uri()))
}

/// Whether a text is an error code of OAuth (RFC 6749 section 5.2) and short enough for a log.
fn is_code(text: &str) -> bool {
    text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn headers(fields: &[(&str, &str)]) -> Result<Headers, String> {
    let mut headers = Headers::new();
    for (name, value) in fields {
        let added = headers.append(name, value.as_bytes());
        added.map_err(|error| format!("the field {name} cannot be sent: {error}"))?;
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_encoded() {
        assert_eq!(encode_form([("a", "x y&z=ü"), ("b-._~", "")]), "a=x%20y%26z%3D%C3%BC&b-._~=");
        assert_eq!(with_query("https://a/b", [("c", "d")]), "https://a/b?c=d");
        assert_eq!(with_query("https://a/b?x=1", [("c", "d")]), "https://a/b?x=1&c=d");
        assert_eq!(with_query("https://a/b", []), "https://a/b");
    }

    #[test]
    fn faults_of_an_answer_hold_only_its_error_code() {
        let services = exchange::testing::services();
        let tls = exchange::plugin::outbound::OutboundTls::default();
        let place = services.destination("http://127.0.0.1:1/t", Default::default(), &tls).unwrap();
        let check = |status: u16, body: &str, expected: Result<Value, &str>| {
            let answer = OutboundResponse { status, headers: Headers::new(), body: body.as_bytes().to_vec() };
            assert_eq!(parse_json_response(&answer, &place), expected.map_err(str::to_owned), "{body}");
        };
        check(200, r#"{"a":1}"#, Ok(serde_json::json!({"a": 1})));
        check(200, "<html>", Err("http://127.0.0.1:1/t answered with a body that is not JSON"));
        let refused = "http://127.0.0.1:1/t answered with status 400 (invalid_grant)";
        check(400, r#"{"error":"invalid_grant","error_description":"token abc"}"#, Err(refused));
        check(502, r#"{"error":"a b"}"#, Err("http://127.0.0.1:1/t answered with status 502"));
    }
}
