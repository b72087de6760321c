//! The body of a batch: its schema, and the requests that it stands for. Sends nothing.

use std::sync::LazyLock;

use exchange::Exchange;
use exchange::inner::InnerRequest;
use jsonx::Bounds;
use message::{FieldId, RequestHead, Version};
use model::validate::{SchemaSteps, UserSchema};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

/// A checked batch.
pub(super) struct RequestBatch {
    query: Map<String, Value>,
    headers: Map<String, Value>,
    timeout_ms: u64,
    requests: Vec<Map<String, Value>>,
}

impl RequestBatch {
    /// Reads a body with at most `max_requests` requests.
    pub(super) fn read(body: &[u8], max_requests: usize) -> Result<RequestBatch, String> {
        let mut value: Value = jsonx::read(body, Bounds::BODY).map_err(|error| {
            let shown: String = String::from_utf8_lossy(body).chars().take(SHOWN_CHARACTERS).collect();
            format!("invalid request body: {shown}, err: {error}")
        })?;
        if let Some(fault) = SCHEMA.fault(&value, &mut SchemaSteps::on_worker()) {
            return Err(format!("bad request body: {fault}"));
        }
        let mut object = |name: &str| match value.get_mut(name).map(Value::take) {
            Some(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        let (query, headers) = (object("query"), lower(object("headers")));
        let timeout_ms = value["timeout"].as_u64().unwrap_or(TIMEOUT_MS_DEFAULT);
        let Value::Array(items) = value["pipeline"].take() else { return Err("no pipeline".to_owned()) };
        let requests: Vec<_> = items.into_iter().filter_map(object_of).collect();
        match requests.len() {
            count if count > max_requests => {
                Err(format!("too many pipeline requests, {count} exceeds the maximum of {max_requests}"))
            }
            _ => Ok(RequestBatch { query, headers, timeout_ms, requests }),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// The request with number `index`, made for `outer`.
    pub(super) fn request(
        &self,
        index: usize,
        outer: &Exchange,
        left_ms: u64,
        max_body_bytes: usize,
    ) -> Result<InnerRequest, String> {
        let item = &self.requests[index];
        let fields = self.fields(item, outer);
        let fault = |reason: &str| format!("request failed: pipeline {}: {reason}", index + 1);
        let host = fields.iter().find(|(name, _)| name == "host").map(|(_, value)| value.clone());
        let authority = host.unwrap_or_else(|| outer.request.authority().to_vec());
        let version = if item.get("version").and_then(Value::as_f64) == Some(1.0) {
            Version::Http10
        } else {
            Version::Http11
        };
        let method = item.get("method").and_then(Value::as_str).unwrap_or("GET");
        let mut head = RequestHead::new();
        head.set(version, method.as_bytes(), &authority, self.target(item).as_bytes())
            .map_err(|_| fault("the path, the method or the host is malformed"))?;
        for (name, value) in fields {
            head.headers
                .append(&name, &value)
                .map_err(|_| fault(&format!("the field {name:?} is malformed")))?;
        }
        let body = item.get("body").and_then(Value::as_str).unwrap_or_default().as_bytes().to_vec();
        if !body.is_empty() {
            let length = body.len().to_string();
            head.headers.append("Content-Length", length.as_bytes()).map_err(|_| fault("too many fields"))?;
        }
        Ok(InnerRequest {
            connection: outer.connection.clone(),
            client: outer.client,
            head,
            body,
            timeout_ms: self.timeout_ms.min(left_ms),
            max_body_bytes,
        })
    }

    /// The fields of a request: its own, those for all requests, those of the outer request.
    fn fields(&self, item: &Map<String, Value>, outer: &Exchange) -> Vec<(String, Vec<u8>)> {
        let real_ip = &outer.local().options.real_ip.header;
        let is_protected = |name: &str| names_client(name) || name.eq_ignore_ascii_case(real_ip);
        let own = item.get("headers").cloned().and_then(object_of).map(lower).unwrap_or_default();
        let mut fields = Vec::new();
        let written = own.iter().chain(self.headers.iter().filter(|(name, _)| !own.contains_key(*name)));
        for (name, value) in written.filter(|(name, _)| !is_protected(name) && !is_of_connection(name)) {
            fields.extend(texts(value).map(|text| (name.clone(), text.into_bytes())));
        }
        let written = fields.len();
        for field in outer.request.headers.iter() {
            let name = String::from_utf8_lossy(field.name).to_ascii_lowercase();
            let is_written = fields[..written].iter().any(|(other, _)| *other == name);
            if !is_written && !is_of_message(&name) && !is_of_connection(&name) {
                fields.push((name, field.value.to_vec()));
            }
        }
        if fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(real_ip)) {
            fields.retain(|(name, _)| !name.eq_ignore_ascii_case(real_ip));
            fields.push((real_ip.to_ascii_lowercase(), outer.client_address().to_string().into_bytes()));
        }
        fields
    }

    /// The path, with the arguments of the request and those for all requests.
    fn target(&self, item: &Map<String, Value>) -> String {
        let path = item.get("path").and_then(Value::as_str).unwrap_or_default();
        let own = item.get("query").cloned().and_then(object_of).unwrap_or_default();
        let all = self.query.iter().filter(|(name, _)| !own.contains_key(*name));
        let mut target = path.to_owned();
        let mut mark = if path.contains('?') { '&' } else { '?' };
        for (name, value) in own.iter().chain(all) {
            for argument in arguments(name, value) {
                target.push(mark);
                target.push_str(&argument);
                mark = '&';
            }
        }
        target
    }
}

fn object_of(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

fn lower(fields: Map<String, Value>) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect()
}

/// The texts of a value: several for a list, none for an object.
fn texts(value: &Value) -> Box<dyn Iterator<Item = String> + '_> {
    match value {
        Value::Array(values) => Box::new(values.iter().flat_map(texts)),
        Value::Null | Value::Object(_) => Box::new(std::iter::empty()),
        Value::String(text) => Box::new(std::iter::once(text.clone())),
        other => Box::new(std::iter::once(other.to_string())),
    }
}

/// The arguments of one name: `true` is a name without a value, `false` none.
fn arguments(name: &str, value: &Value) -> Vec<String> {
    let name = utf8_percent_encode(name, ARGUMENT);
    match value {
        Value::Bool(true) => vec![name.to_string()],
        Value::Bool(false) => Vec::new(),
        other => {
            texts(other).map(|text| format!("{name}={}", utf8_percent_encode(&text, ARGUMENT))).collect()
        }
    }
}

/// Whether a field tells of a client or of the way of a request; a proxy in front would replace one that a
/// client sends.
fn names_client(name: &str) -> bool {
    name.starts_with("x-forwarded-") || ["forwarded", "x-real-ip"].contains(&name)
}

/// Whether a field of the outer request concerns its own body or response only. A compressed body or a range
/// of one is of no use in the list of responses, and a condition is about one resource.
fn is_of_message(name: &str) -> bool {
    name.starts_with("content-") || name.starts_with("if-") || ["accept-encoding", "range"].contains(&name)
}

/// Whether a field is about the connection or the framing of a message, which an inner request does not have.
fn is_of_connection(name: &str) -> bool {
    FieldId::of(name.as_bytes()).is_hop_by_hop()
        || ["content-length", "expect", "keep-alive", "proxy-connection"].contains(&name)
}

/// The schema of a batch.
static SCHEMA: LazyLock<UserSchema> = LazyLock::new(|| {
    let methods = ["GET", "PUT", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS", "CONNECT", "TRACE", "PURGE"];
    let schema = json!({
        "type": "object",
        "properties": {
            "query": {"type": "object"},
            "headers": {"type": "object"},
            "timeout": {"type": "integer", "minimum": 1},
            "pipeline": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": {
                        "version": {"type": "number", "enum": [1.0, 1.1]},
                        "method": {"type": "string", "enum": methods},
                        "path": {"type": "string", "minLength": 1},
                        "query": {"type": "object"},
                        "headers": {"type": "object"},
                        "body": {"type": "string"},
                        "ssl_verify": {"type": "boolean"},
                    },
                    "required": ["path"],
                }
            }
        },
        "anyOf": [{"required": ["pipeline"]}]
    });
    UserSchema::compile(&schema).expect("the schema of a batch compiles")
});

const TIMEOUT_MS_DEFAULT: u64 = 30_000;
/// How much of a body that is not JSON is shown to its sender.
const SHOWN_CHARACTERS: usize = 256;
/// The characters that are escaped in an argument: all but the unreserved ones (RFC 3986 section 2.3).
const ARGUMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
