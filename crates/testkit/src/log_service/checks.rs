//! The rules of each service: path, fields, form of the body.

use serde_json::{Value, json};

use super::LogApi;
use super::protobuf;
use crate::origin::{Reply, Request};

/// The response of an endpoint that takes no entries.
pub(super) fn other_endpoint(api: LogApi, request: &Request) -> Option<Reply> {
    match (api, &*request.method, &*request.target) {
        (LogApi::Elasticsearch6, "GET", "/") => {
            Some(Reply::ok(&json!({"version": {"number": "6.8.23"}}).to_string()))
        }
        (LogApi::Google, "POST", "/token") => Some(match google_assertion(request) {
            Ok(()) => Reply::ok(r#"{"access_token":"of-stand-in","token_type":"Bearer","expires_in":3600}"#),
            Err(reason) => Reply::status(400, &json!({"error": reason}).to_string()),
        }),
        _ => None,
    }
}

fn google_assertion(request: &Request) -> Result<(), String> {
    field(request, "content-type", "application/x-www-form-urlencoded")?;
    let text = text(request)?;
    let grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer";
    let assertion = text.split('&').find_map(|pair| pair.strip_prefix("assertion="));
    let parts = assertion.map(|assertion| assertion.split('.').count());
    check(text.contains(grant) && parts == Some(3), "no grant by assertion")
}

/// The status and body for a batch that was taken.
pub(super) fn success(api: LogApi) -> (u16, &'static str) {
    match api {
        LogApi::Loki => (204, ""),
        LogApi::Elasticsearch6 => (200, r#"{"took":1,"errors":false,"items":[]}"#),
        LogApi::Splunk => (200, r#"{"text":"Success","code":0}"#),
        LogApi::Loggly => (200, r#"{"response":"ok"}"#),
        LogApi::Skywalking | LogApi::Google | LogApi::TencentCls | LogApi::Lago => (200, "{}"),
    }
}

/// The entries of a request.
///
/// # Errors
/// The rule that it breaks.
pub(super) fn entries(api: LogApi, request: &Request) -> Result<Vec<Value>, String> {
    check(request.method == "POST", "the method is not POST")?;
    let (path, content_type) = match api {
        LogApi::Loki => ("/loki/api/v1/push", "application/json"),
        LogApi::Elasticsearch6 => ("/_bulk", "application/x-ndjson"),
        LogApi::Splunk => ("/services/collector", "application/json"),
        LogApi::Skywalking => ("/v3/logs", "application/json"),
        LogApi::Google => ("/v2/entries:write", "application/json"),
        LogApi::Loggly => ("/bulk/token/tag/bulk", "application/json"),
        LogApi::TencentCls => ("/structuredlog?topic_id=topic", "application/x-protobuf"),
        LogApi::Lago => ("/api/v1/events/batch", "application/json"),
    };
    check(request.target == path, "the path is another")?;
    field(request, "content-type", content_type)?;
    match api {
        LogApi::Loki => loki(request),
        LogApi::Elasticsearch6 => elasticsearch(request),
        LogApi::Splunk => {
            field(request, "authorization", "Splunk token")?;
            stream(&text(request)?)
        }
        LogApi::Skywalking => list(&json(request)?),
        LogApi::Google => {
            field(request, "authorization", "Bearer of-stand-in")?;
            list(&json(request)?["entries"])
        }
        LogApi::Loggly => text(request)?.lines().map(|line| parsed(line.as_bytes())).collect(),
        LogApi::TencentCls => {
            signature(request)?;
            protobuf::logs(&request.body)
        }
        LogApi::Lago => {
            field(request, "authorization", "Bearer token")?;
            let events = list(&json(request)?["events"])?;
            check(events.len() <= 100, "more than 100 events")?;
            Ok(events)
        }
    }
}

/// A line of Loki becomes an object of its labels, its time and its text.
fn loki(request: &Request) -> Result<Vec<Value>, String> {
    let mut lines = Vec::new();
    for stream in list(&json(request)?["streams"])? {
        check(
            stream["stream"].as_object().is_some_and(|labels| !labels.is_empty()),
            "a stream without labels",
        )?;
        for value in list(&stream["values"])? {
            let time = value[0]
                .as_str()
                .filter(|time| time.len() == 19)
                .ok_or("a time that is not in nanoseconds")?;
            let line = value[1].as_str().ok_or("a line that is no text")?;
            lines.push(json!({"labels": stream["stream"], "time": time, "line": parsed(line.as_bytes())?}));
        }
    }
    Ok(lines)
}

/// A document becomes an object of its action and itself.
fn elasticsearch(request: &Request) -> Result<Vec<Value>, String> {
    let text = text(request)?;
    check(text.ends_with('\n'), "the last line has no end")?;
    let lines: Vec<Value> = text.lines().map(|line| parsed(line.as_bytes())).collect::<Result<_, _>>()?;
    check(lines.len().is_multiple_of(2), "an action without a document")?;
    let typed = lines.iter().step_by(2).all(|action| action["index"]["_type"] == "_doc");
    check(typed, "an action without a type, which version 6 needs")?;
    Ok(lines.chunks(2).map(|pair| json!({"action": pair[0], "document": pair[1]})).collect())
}

fn signature(request: &Request) -> Result<(), String> {
    let value = request.header("authorization").unwrap_or_default();
    let names: Vec<&str> = value.split('&').filter_map(|pair| pair.split('=').next()).collect();
    let wanted = [
        "q-sign-algorithm",
        "q-ak",
        "q-sign-time",
        "q-key-time",
        "q-header-list",
        "q-url-param-list",
        "q-signature",
    ];
    let signature = value.rsplit('=').next().unwrap_or_default();
    let is_hex = signature.len() == 40 && signature.bytes().all(|byte| byte.is_ascii_hexdigit());
    check(names == wanted && is_hex && value.contains("q-ak=id&"), "the signature has another form")
}

/// JSON values one behind the other.
fn stream(text: &str) -> Result<Vec<Value>, String> {
    serde_json::Deserializer::from_str(text)
        .into_iter::<Value>()
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())
}

fn list(value: &Value) -> Result<Vec<Value>, String> {
    value.as_array().cloned().ok_or_else(|| format!("{value} is no list"))
}

fn json(request: &Request) -> Result<Value, String> {
    parsed(&request.body)
}

fn parsed(bytes: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

fn text(request: &Request) -> Result<String, String> {
    String::from_utf8(request.body.clone()).map_err(|error| error.to_string())
}

fn field(request: &Request, name: &str, expected: &str) -> Result<(), String> {
    let value = request.header(name);
    if value == Some(expected) { Ok(()) } else { Err(format!("{name} is {value:?} and not {expected}")) }
}

fn check(holds: bool, reason: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(reason.to_owned()) }
}
