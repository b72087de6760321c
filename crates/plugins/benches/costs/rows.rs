//! The configuration and the request of each plugin: the example of its documentation and a plain request, unless a row
//! here says otherwise.

use exchange::plugin::PluginKind;
use serde_json::{Value, json};

/// The inputs of one plugin's measurement.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) config: Value,
    /// The head of the request, and its body if it has one.
    pub(crate) request: String,
    /// The key and the configuration of a consumer.
    pub(crate) consumer: Option<(String, Value)>,
}

/// The row of `kind`.
pub(crate) fn of(kind: &PluginKind) -> Row {
    let plain = Row { config: example(kind), request: request("GET", "", ""), consumer: None };
    match kind.name {
        "ip-restriction" => Row { config: json!({"whitelist": ["127.0.0.0/8", "10.0.0.0/8"]}), ..plain },
        "key-auth" => Row {
            request: request("GET", "apikey: k\r\n", ""),
            consumer: Some(("k".to_owned(), json!({"key": "k"}))),
            ..plain
        },
        "limit-count" => Row {
            config: json!({"count": 1_000_000_000, "time_window": 3_600, "key": "remote_addr"}),
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
        _ => plain,
    }
}

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
