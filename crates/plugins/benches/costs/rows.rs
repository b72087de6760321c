//! The configuration and the request of each plugin: the example of its documentation and a plain request,
//! unless a row here says otherwise.

use exchange::plugin::PluginKind;
use serde_json::{Value, json};

/// The inputs of one plugin's measurement.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) config: Value,
    pub(crate) metadata: Option<Value>,
    /// The head of the request, and its body if it has one.
    pub(crate) request: String,
    /// The key and the configuration of a consumer.
    pub(crate) consumer: Option<(String, Value)>,
    /// The request has the consumer `jack`, as an authentication plugin before would find it.
    pub(crate) is_authenticated: bool,
}

/// The row of `kind`.
pub(crate) fn of(kind: &PluginKind) -> Row {
    let plain = Row {
        config: example(kind),
        metadata: None,
        request: request("GET", "", ""),
        consumer: None,
        is_authenticated: false,
    };
    match kind.name {
        "acl" | "attach-consumer-label" | "consumer-restriction" => Row { is_authenticated: true, ..plain },
        "basic-auth" => Row {
            request: request("GET", "Authorization: Basic Zm9vOmEtbG9uZy1yYW5kb20tdGV4dA==\r\n", ""),
            consumer: Some(("foo".to_owned(), json!({"username": "foo", "password": "a-long-random-text"}))),
            ..plain
        },
        "body-transformer" => Row {
            config: json!({"request": {"input_format": "json", "template": "<name>{{name}}</name>"}}),
            request: request("POST", "Content-Type: application/json\r\n", "{\"name\":\"Ada\"}"),
            ..plain
        },
        "data-mask" => Row { request: request("GET", "X-API-Key: 0123456789abcdef\r\n", ""), ..plain },
        "fault-injection" => Row {
            config: json!({"abort": {"http_status": 503, "vars": [[["arg_name", "==", "jack"]]]}}),
            ..plain
        },
        "graphql-limit-count" => Row {
            config: json!({"count": 1_000_000_000, "time_window": 3_600}),
            request: request(
                "POST",
                "Content-Type: application/json\r\n",
                "{\"query\":\"{ persons { id } }\"}",
            ),
            ..plain
        },
        "graphql-proxy-cache" => Row {
            request: request(
                "POST",
                "Content-Type: application/json\r\n",
                "{\"query\":\"{ persons { id } }\"}",
            ),
            ..plain
        },
        "grpc-transcode" => Row {
            request: request(
                "POST",
                "Content-Type: application/json\r\n",
                "{\"id\":\"17\",\"items\":[\"a\",\"b\"]}",
            ),
            ..plain
        },
        "grpc-web" => Row {
            request: request("POST", "Content-Type: application/grpc-web-text\r\n", "AAAAAAQKAjE3"),
            ..plain
        },
        "ip-restriction" => Row { config: json!({"whitelist": ["127.0.0.0/8", "10.0.0.0/8"]}), ..plain },
        "jwt-auth" => Row {
            config: json!({}),
            request: request("GET", &format!("Authorization: Bearer {TOKEN}\r\n"), ""),
            consumer: Some((
                "issuer-of-jack".to_owned(),
                json!({"key": "issuer-of-jack", "secret": "at-least-32-bytes-that-are-random"}),
            )),
            ..plain
        },
        "key-auth" => Row {
            request: request("GET", "apikey: k\r\n", ""),
            consumer: Some(("k".to_owned(), json!({"key": "k"}))),
            ..plain
        },
        "limit-count" => Row {
            config: json!({"count": 1_000_000_000, "time_window": 3_600, "key": "remote_addr"}),
            ..plain
        },
        "limit-req" => Row {
            config: json!({"rate": 1_000_000_000, "burst": 1_000_000_000, "key": "remote_addr"}),
            ..plain
        },
        "oas-validator" => Row {
            config: json!({"spec": json!({"openapi": "3.0.2", "paths": {"/items/{id}": {"get": {"parameters": [
                {"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}},
                {"name": "lang", "in": "query", "schema": {"type": "string"}},
            ]}}}}).to_string()}),
            ..plain
        },
        // Every request is reported; the collector does not answer, so that the queue is full soon.
        "opentelemetry" => Row {
            config: json!({"sampler": {"name": "always_on"}}),
            metadata: Some(json!({"collector": {"address": "127.0.0.1:9"}})),
            ..plain
        },
        "openid-connect" => Row {
            config: json!({
                "discovery": "http://127.0.0.1:9/.well-known/openid-configuration",
                "client_id": "gateway", "client_secret": "a-long-random-text",
                "session": {"secret": "0123456789abcdef0123456789abcdef"},
            }),
            ..plain
        },
        "referer-restriction" => Row {
            config: json!({"whitelist": ["*.example.com"]}),
            request: request("GET", "Referer: https://www.example.com/a\r\n", ""),
            ..plain
        },
        "request-validation" => Row {
            request: request(
                "POST",
                "X-Api-Version: 1\r\nContent-Type: application/json\r\n",
                "{\"name\":\"Ada\"}",
            ),
            ..plain
        },
        "traffic-split" => Row {
            config: json!({"rules": [
                {"match": [{"vars": [["http_x_release", "==", "new"]]}], "weighted_upstreams": [{"upstream": {"nodes": {"127.0.0.1:9": 1}}}]},
                {"weighted_upstreams": [{"weight": 9}]},
            ]}),
            ..plain
        },
        // Browsers that know Zstandard list it last.
        "zstd" => Row { request: request("GET", "Accept-Encoding: zstd\r\n", ""), ..plain },
        _ => plain,
    }
}

/// A token of the consumer of `jwt-auth`, signed with HS256, valid until 2100.
const TOKEN: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJrZXkiOiJpc3N1ZXItb2YtamFjayIsImV4cCI6NDEwMjQ0NDgwMH0.zkv5kA-bLyZRkvKs4lLlyC3rXa_JCY-smKRSfBwlBYU";

/// A request as browsers send it.
fn request(method: &str, fields: &str, body: &str) -> String {
    format!(
        "{method} /items/42?lang=en HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n\
         Accept: text/html,application/xhtml+xml;q=0.9\r\nAccept-Language: en\r\nAccept-Encoding: gzip, br\r\n\
         Origin: https://www.example.com\r\nCookie: session=0123456789abcdef\r\n{fields}\r\n{body}"
    )
}

/// The first example of a plugin's documentation.
fn example(kind: &PluginKind) -> Value {
    let documentation = kind.documentation.lines().map_while(|line| line.strip_prefix("//!"));
    let text: String = documentation.map(|line| format!("{}\n", line.trim_start())).collect();
    let example = text.split("```json\n").nth(1).and_then(|rest| rest.split("```").next());
    serde_json::from_str(example.unwrap_or("{}")).unwrap_or_else(|_| json!({}))
}
