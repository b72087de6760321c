//! The file of `weir plugin test`: written requests, the answers of the upstream, and what is expected. It
//! runs nothing.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Requests of one file: a test that a person reads has fewer.
const REQUESTS_MAX: usize = 1_000;

/// A file of requests.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestFile {
    /// The configuration of the plugin, where a request has none of its own.
    #[serde(default)]
    pub(super) config: Option<Value>,
    /// The metadata of the plugin.
    #[serde(default)]
    pub(super) metadata: Option<Value>,
    /// The requests, in the order in which they are made.
    pub(super) requests: Vec<WrittenRequest>,
}

/// A request as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenRequest {
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default = "get")]
    pub(super) method: String,
    #[serde(default = "root")]
    pub(super) path: String,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) body: String,
    #[serde(default)]
    pub(super) config: Option<Value>,
    #[serde(default)]
    pub(super) response: WrittenResponse,
    #[serde(default)]
    pub(super) expect: Expectation,
}

/// The answer of the upstream.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenResponse {
    #[serde(default = "ok")]
    pub(super) status: u16,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) body: String,
}

/// The expected outcome; a field that is not there is not looked at. A header that is null must be absent.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expectation {
    /// The status that the client gets.
    #[serde(default)]
    pub(super) status: Option<u16>,
    /// Fields that the client gets.
    #[serde(default)]
    pub(super) headers: BTreeMap<String, Option<String>>,
    /// The body that the client gets.
    #[serde(default)]
    pub(super) body: Option<String>,
    /// A part of that body.
    #[serde(default)]
    pub(super) body_contains: Option<String>,
    /// Whether the plugin itself answers.
    #[serde(default)]
    pub(super) answered: Option<bool>,
    /// The request as the upstream gets it.
    #[serde(default)]
    pub(super) upstream: ExpectedRequest,
}

/// The expected request at the upstream.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExpectedRequest {
    #[serde(default)]
    pub(super) path: Option<String>,
    #[serde(default)]
    pub(super) query: Option<String>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, Option<String>>,
    #[serde(default)]
    pub(super) body: Option<String>,
}

impl Default for WrittenResponse {
    fn default() -> WrittenResponse {
        WrittenResponse { status: ok(), headers: BTreeMap::new(), body: String::new() }
    }
}

impl RequestFile {
    /// Reads a file in YAML or JSON.
    ///
    /// # Errors
    /// The line of the fault, or the fault.
    pub(super) fn parse(text: &str) -> anyhow::Result<RequestFile> {
        let marked =
            yaml::parse(text).map_err(|fault| anyhow::anyhow!("line {}: {}", fault.line, fault.reason))?;
        let value = match marked.value {
            // A list alone is the list of requests.
            Value::Array(requests) => {
                let mut file = Map::new();
                file.insert("requests".to_owned(), Value::Array(requests));
                Value::Object(file)
            }
            value => value,
        };
        let file: RequestFile = serde_json::from_value(value).context("it is no file of requests")?;
        if file.requests.len() > REQUESTS_MAX {
            bail!("it has {} requests, and {REQUESTS_MAX} are allowed", file.requests.len());
        }
        Ok(file)
    }

    /// One request without expectations, where no file is given.
    pub(super) fn single() -> RequestFile {
        let request = WrittenRequest {
            name: None,
            method: get(),
            path: root(),
            headers: BTreeMap::new(),
            body: String::new(),
            config: None,
            response: WrittenResponse::default(),
            expect: Expectation::default(),
        };
        RequestFile { requests: vec![request], ..RequestFile::default() }
    }
}

impl WrittenRequest {
    /// The head and the body in the notation of HTTP/1.
    ///
    /// # Errors
    /// A part holds a line break or another character that a head cannot have.
    pub(super) fn text(&self) -> anyhow::Result<Vec<u8>> {
        let is_token = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_token(&self.method) || !is_token(&self.path) || !self.path.starts_with('/') {
            bail!("`{} {}` is no request: the path begins with / and has no spaces", self.method, self.path);
        }
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        if !self.headers.keys().any(|name| name.eq_ignore_ascii_case("host")) {
            head.push_str("Host: localhost\r\n");
        }
        for (name, value) in &self.headers {
            let is_name = is_token(name) && !name.contains(':');
            if !is_name || value.bytes().any(|byte| byte.is_ascii_control()) {
                bail!("`{name}: {value}` is no field of a request");
            }
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        Ok([head.as_bytes(), self.body.as_bytes()].concat())
    }
}

fn get() -> String {
    "GET".to_owned()
}

fn root() -> String {
    "/".to_owned()
}

fn ok() -> u16 {
    200
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_lists_or_maps() {
        let list = RequestFile::parse("- {path: /a, expect: {status: 403, headers: {X-A: null}}}\n").unwrap();
        assert_eq!(list.requests[0].expect.status, Some(403));
        assert_eq!(list.requests[0].expect.headers["X-A"], None);
        let map = RequestFile::parse("config: {a: 1}\nrequests:\n- {method: POST, body: hello}\n").unwrap();
        let text = String::from_utf8(map.requests[0].text().unwrap()).unwrap();
        assert_eq!(text, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello");
        for faulty in ["- {pat: /a}", "requests: 1", "- a: [", "- {path: 7}"] {
            assert!(RequestFile::parse(faulty).is_err(), "{faulty}");
        }
    }

    #[test]
    fn parts_that_no_head_can_have_are_refused() {
        for faulty in ["- {path: a}", "- {path: '/a b'}", "- {headers: {'a b': c}}", "- {method: ''}"] {
            assert!(RequestFile::parse(faulty).unwrap().requests[0].text().is_err(), "{faulty}");
        }
    }
}
