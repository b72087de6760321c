//! The settings: the schema, the fields, and the rules that a schema cannot express. Sends no request.

use exchange::plugin::outbound::check_uri;
use router::vars::Template;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::shared::config;
use crate::shared::fields::{is_token, text};

pub(super) fn schema() -> Value {
    let names = |description: &str| json!({ "description": description, "type": "array", "items": { "type": "string" }, "default": [] });
    json!({
        "type": "object",
        "properties": {
            "uri": { "description": "The server that is asked: an http or https URI.", "type": "string" },
            "allow_degradation": {
                "description": "Lets requests pass while the server cannot be asked.",
                "type": "boolean", "default": false,
            },
            "status_on_error": {
                "description": "The status a client gets when the server cannot be asked.",
                "type": "integer", "minimum": 200, "maximum": 599, "default": STATUS_ON_ERROR_DEFAULT,
            },
            "ssl_verify": {
                "description": "Whether the server's certificate is verified, for an https URI.",
                "type": "boolean", "default": true,
            },
            "request_method": {
                "description": "How the server is asked; POST sends the request's body along.",
                "type": "string", "enum": ["GET", "POST"], "default": "GET",
            },
            "max_req_body_size": {
                "description": "The longest request body, in bytes, that POST sends along.",
                "type": "integer", "minimum": 1, "default": MAX_REQ_BODY_SIZE_DEFAULT,
            },
            "request_headers": names("Fields of the client that are passed on to the server."),
            "extra_headers": {
                "description": "Further fields for the server; values may hold variables.",
                "type": "object",
                "minProperties": 1,
                "patternProperties": { "^[^:]+$": { "type": "string" } },
            },
            "upstream_headers": names("Fields of the answer that the origin gets in place of the client's."),
            "client_headers": names("Fields of the answer that a refused client gets."),
            "consumer_header": {
                "description": "The field of the answer that names the consumer.",
                "type": "string", "minLength": 1,
            },
            "timeout": {
                "description": "Milliseconds until the whole answer has to be there.",
                "type": "integer", "minimum": 1, "maximum": 60_000, "default": TIMEOUT_DEFAULT_MS,
            },
            "keepalive": {
                "description": "Keeps connections for further requests.",
                "type": "boolean", "default": true,
            },
            "keepalive_timeout": {
                "description": "Milliseconds a connection is kept without use.",
                "type": "integer", "minimum": 1_000, "default": KEEPALIVE_TIMEOUT_DEFAULT_MS,
            },
            "keepalive_pool": {
                "description": "The most connections kept by each worker.",
                "type": "integer", "minimum": 1, "default": KEEPALIVE_POOL_DEFAULT,
            },
        },
        "required": ["uri"],
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    pub(super) uri: String,
    #[serde(default)]
    pub(super) allow_degradation: bool,
    pub(super) status_on_error: Option<u16>,
    pub(super) ssl_verify: Option<bool>,
    #[serde(default)]
    pub(super) request_method: RequestMethod,
    pub(super) max_req_body_size: Option<usize>,
    #[serde(default)]
    pub(super) request_headers: Vec<Box<str>>,
    #[serde(default)]
    pub(super) extra_headers: Map<String, Value>,
    #[serde(default)]
    pub(super) upstream_headers: Vec<Box<str>>,
    #[serde(default)]
    pub(super) client_headers: Vec<Box<str>>,
    pub(super) consumer_header: Option<Box<str>>,
    pub(super) timeout: Option<u64>,
    pub(super) keepalive: Option<bool>,
    pub(super) keepalive_timeout: Option<u64>,
    pub(super) keepalive_pool: Option<u32>,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum RequestMethod {
    #[default]
    Get,
    Post,
}

pub(super) fn check(config: &Value) -> Result<(), String> {
    let config: Config = config::parse(config)?;
    if !config::is_reference(&config.uri) {
        check_uri(&config.uri)?;
    }
    if config.consumer_header.is_some() && config.request_method == RequestMethod::Post {
        return Err(
            "consumer_header excludes request_method POST: consumers are told apart before a body is read"
                .to_owned(),
        );
    }
    let names = [&config.request_headers, &config.upstream_headers, &config.client_headers];
    let names = names.into_iter().flatten().chain(config.consumer_header.as_ref()).map(|name| &**name);
    for name in names.chain(config.extra_headers.keys().map(String::as_str)) {
        if !is_token(name) {
            return Err(format!("{name:?} is no field name"));
        }
    }
    extra_headers(&config.extra_headers).map(drop)
}

pub(super) fn extra_headers(written: &Map<String, Value>) -> Result<Vec<(Box<str>, Template)>, String> {
    let compile = |(name, value): (&String, &Value)| {
        let value =
            Template::compile(&text(value)?).map_err(|error| format!("extra_headers.{name}: {error}"))?;
        Ok((name.as_str().into(), value))
    };
    written.iter().map(compile).collect()
}

pub(super) const STATUS_ON_ERROR_DEFAULT: u16 = 403;
/// As in APISIX. The bodies that a worker holds count against the memory limit of the process.
pub(super) const MAX_REQ_BODY_SIZE_DEFAULT: usize = 64 * 1024 * 1024;
pub(super) const TIMEOUT_DEFAULT_MS: u64 = 3_000;
pub(super) const KEEPALIVE_TIMEOUT_DEFAULT_MS: u64 = 60_000;
pub(super) const KEEPALIVE_POOL_DEFAULT: u32 = 5;
