//! The local reply to a failure: JSON, or a page of HTML for clients that prefer one, with the id of the
//! request. It decides nothing about the failure.

use std::fmt::Write;

use message::accept::prefers_html;
use serde_json::json;

use exchange::Exchange;
use exchange::failure::{Blame, Cause, ExchangeFailure, FailureResponse};
use exchange::plugin::{BufferedReply, transform_reply};

/// The field with the id of the request, by which a line of the access log is found.
const REQUEST_ID: &str = "X-Request-Id";
/// The style of the page, written inside it, because a page of an error may not ask this gateway for more.
const STYLE: &str = "html{font:16px/1.5 system-ui,sans-serif;color:#1f2328;background:#fff}\
    body{margin:0;min-height:100vh;display:flex;align-items:center;justify-content:center}\
    main{max-width:34rem;padding:2rem}\
    b{font-size:3.5rem;line-height:1;color:#8b949e}\
    h1{margin:.5rem 0 1rem;font-size:1.5rem}\
    footer{margin-top:2rem;font-size:.85rem;color:#656d76}\
    code{font-family:ui-monospace,monospace;overflow-wrap:anywhere}\
    @media(prefers-color-scheme:dark){html{color:#e6edf3;background:#0d1117}b{color:#6e7681}footer{color:#8d96a0}}";

/// The reply to the `failure` of the request in `exchange`.
#[cold]
pub(super) fn build_failure_reply(exchange: &Exchange, failure: &ExchangeFailure) -> BufferedReply {
    let mut reply = body(exchange, failure);
    if let Some(given) = &failure.answer {
        reply = given_answer(given, reply);
    }
    // The plugin that has set the id decides whether the client is told, and in which field.
    let is_given = || reply.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(REQUEST_ID));
    if !exchange.request_id.is_set() && !is_given() {
        reply = reply.with_header(REQUEST_ID, exchange.request_id.get());
    }
    reply
}

/// Status, media type and body.
fn body(exchange: &Exchange, failure: &ExchangeFailure) -> BufferedReply {
    let (status, text) = (failure.cause.status(), explanation(failure));
    let id = exchange.request_id.get();
    // Neither is expected to deal with HTML: a gRPC client takes the body for a message, a plugin edits the
    // JSON.
    let can_be_html = exchange.local().options.forward.html_errors
        && !exchange.is_native_call()
        && !transform_reply::is_wanted(exchange);
    let mut reply = if can_be_html && prefers_html(&exchange.request.headers) {
        BufferedReply::status(status)
            .with_header("Content-Type", "text/html; charset=utf-8")
            .with_body(page(status, &sentence(failure), failure.cause, id).into_bytes())
    } else if failure.cause == Cause::NoRoute {
        // The contract fixes this body (section 2.5).
        BufferedReply::json(status, &json!({ "error_msg": text }))
    } else {
        BufferedReply::json(status, &json!({ "error_msg": text, "request_id": id }))
    };
    if can_be_html && is_cacheable(status) {
        reply = reply.with_header("Vary", "Accept");
    }
    reply
}

/// Statuses that caches may keep without being told so (RFC 9110 section 15.1): they must keep both forms
/// apart.
fn is_cacheable(status: u16) -> bool {
    matches!(status, 404 | 405 | 410 | 414 | 501)
}

/// The response that the configuration gives for a failure, in place of `usual`.
fn given_answer(given: &FailureResponse, usual: BufferedReply) -> BufferedReply {
    let mut answer = match &given.body {
        Some(body) => BufferedReply::status(given.status).with_body(body.to_string().into_bytes()),
        None => BufferedReply { status: given.status, ..usual },
    };
    // First all removals, because the configuration may give a field twice.
    answer
        .headers
        .retain(|(name, _)| !given.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)));
    for (name, value) in &given.headers {
        answer = answer.with_header(name.to_string(), value.to_string());
    }
    answer
}

/// The text of a failure for the client: the status's name, and the fault if the client can fix it. Failures
/// of endpoints are for the log only.
pub(super) fn explanation(failure: &ExchangeFailure) -> String {
    let status = failure.cause.status();
    let name = message::reason::phrase(status);
    match failure.cause {
        Cause::NoRoute => "404 Route Not Found".to_owned(),
        cause if cause.blame() == Blame::Client => {
            format!("{status} {name}: {}", failure.detail)
        }
        cause => format!("{status} {name}: {}", cause.code()),
    }
}

/// The failure in a sentence for a person at a browser; for a fault of the client its details.
fn sentence(failure: &ExchangeFailure) -> String {
    let known = match (failure.cause, failure.cause.status()) {
        (Cause::NoRoute, _) => "Nothing is served at this address. Check it for typing errors.",
        (cause, _) if cause.blame() == Blame::Client => {
            return format!("The request cannot be served: {}.", failure.detail);
        }
        (_, 502) => "The service behind this address did not answer properly. Try again in a moment.",
        (_, 503) => "The service behind this address is not available now. Try again in a moment.",
        (_, 504) => "The service behind this address did not answer in time. Try again in a moment.",
        _ => "The gateway failed to serve this request.",
    };
    known.to_owned()
}

/// The page. It has no script and asks for nothing, which its policy states as well.
fn page(status: u16, sentence: &str, cause: Cause, id: &str) -> String {
    let name = message::reason::phrase(status);
    let mut page = String::with_capacity(1_600);
    // Writing into a text does not fail.
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"robots\" content=\"noindex\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';style-src 'unsafe-inline'\">\n\
         <title>{status} {name}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <b>{status}</b>\n<h1>{name}</h1>\n<p>"
    );
    escape(sentence, &mut page);
    let _ = write!(page, "</p>\n<footer>Cause <code>{}</code><br>\nRequest <code>", cause.code());
    escape(id, &mut page);
    page.push_str("</code></footer>\n</main>\n</body>\n</html>\n");
    page
}

/// Appends `text` so that it can be neither a tag nor the end of an attribute.
fn escape(text: &str, page: &mut String) {
    for character in text.chars() {
        match character {
            '&' => page.push_str("&amp;"),
            '<' => page.push_str("&lt;"),
            '>' => page.push_str("&gt;"),
            '"' => page.push_str("&quot;"),
            '\'' => page.push_str("&#39;"),
            other => page.push(other),
        }
    }
}

/// The value of `X-Weir-Error` for the response in `exchange`; none for one without an error of the server.
pub(super) fn error_field(exchange: &Exchange) -> Option<String> {
    let reason = exchange.reason().filter(|_| exchange.response.status >= 500)?;
    let mut field = format!("cause={}; phase={}", reason.cause, reason.phase);
    // Writing into a text does not fail.
    if let Some(plugin) = reason.plugin.filter(|plugin| *plugin != reason.cause) {
        let _ = write!(field, "; plugin={plugin}");
    }
    if let Some(endpoint) = reason.endpoint {
        let _ = write!(field, "; endpoint={endpoint}");
    }
    let _ = write!(field, "; attempts={}", exchange.attempts.len());
    Some(field)
}

#[cfg(test)]
mod tests {
    use exchange::testing::Scene;

    use super::*;

    fn reply(failure: &ExchangeFailure, fields: &str, id: Option<&str>) -> (BufferedReply, String) {
        let mut scene = Scene::new();
        let head = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let mut exchange = scene.exchange(head.as_bytes());
        if let Some(id) = id {
            exchange.request_id.set(id.into());
        }
        let reply = build_failure_reply(&exchange, failure);
        let body = String::from_utf8(reply.body.to_vec()).unwrap();
        (reply, body)
    }

    fn field<'r>(reply: &'r BufferedReply, name: &str) -> Option<&'r str> {
        reply.headers.iter().find(|(other, _)| other == name).map(|(_, value)| &**value)
    }

    #[test]
    fn text_of_clients_is_no_markup_in_page() {
        let failure = ExchangeFailure::new(Cause::BadRequest, "<script>\"a\"&'b'</script>");
        let (reply, page) = reply(&failure, "Accept: text/html\r\n", Some("<i>"));
        assert!(page.contains("&lt;script&gt;&quot;a&quot;&amp;&#39;b&#39;&lt;/script&gt;"), "{page}");
        assert!(page.contains("<code>&lt;i&gt;</code>") && !page.contains("<script"), "{page}");
        assert_eq!(field(&reply, "X-Request-Id"), None, "the plugin that has set it decides");
        assert_eq!(field(&reply, "Vary"), None);
    }

    #[test]
    fn reply_of_configuration_has_id_as_well() {
        let answer = FailureResponse {
            status: 502,
            body: Some("own".into()),
            headers: [("Content-Type".into(), "text/plain".into())].into(),
        };
        let failure = ExchangeFailure::new(Cause::CircuitOpen, "a test").answered_with(&answer.into());
        let (reply, body) = reply(&failure, "Accept: text/html\r\n", None);
        assert_eq!((reply.status, &*body), (502, "own"));
        assert_eq!(field(&reply, "Content-Type"), Some("text/plain"));
        assert_eq!(field(&reply, "X-Request-Id").map(str::len), Some(32));
    }
}
