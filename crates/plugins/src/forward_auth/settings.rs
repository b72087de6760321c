//! The settings: the schema, the fields, and the rules that a schema cannot express. Sends no request.

use exchange::plugin::outbound::check_uri;
use router::vars::Template;
use serde_json::{Map, Value};

use crate::shared::attributes::{attributes, words};
use crate::shared::config;
use crate::shared::fields::{is_token, parse_field_text};

attributes! {
    pub(super) struct ForwardAuthConfig {
        /// The server that is asked: an http or https URI.
        uri: String;
        /// Lets requests pass while the server cannot be asked.
        allow_degradation: bool = false;
        /// The status a client gets when the server cannot be asked.
        status_on_error: u16 = 403, { "minimum": 200, "maximum": 599 };
        /// Whether the server's certificate is verified, for an https URI.
        ssl_verify: bool = true;
        /// How the server is asked; POST sends the request's body along.
        request_method: RequestMethod = RequestMethod::Get;
        /// The longest request body, in bytes, that POST sends along.
        max_req_body_size: usize = MAX_REQ_BODY_SIZE_DEFAULT, { "minimum": 1 };
        /// Fields of the client that are passed on to the server.
        request_headers: Vec<Box<str>> = Vec::new();
        /// Further fields for the server; values may hold variables.
        extra_headers: Option<Map<String, Value>>, {
            "minProperties": 1,
            "patternProperties": { "^[^:]+$": { "type": "string" } },
        };
        /// Fields of the answer that the origin gets in place of the client's.
        upstream_headers: Vec<Box<str>> = Vec::new();
        /// Fields of the answer that a refused client gets.
        client_headers: Vec<Box<str>> = Vec::new();
        /// The field of the answer that names the consumer.
        consumer_header: Option<Box<str>>, { "minLength": 1 };
        /// Milliseconds until the whole answer has to be there.
        timeout: u64 = 3_000, { "minimum": 1, "maximum": 60_000 };
        /// Keeps connections for further requests.
        keepalive: bool = true;
        /// Milliseconds a connection is kept without use.
        keepalive_timeout: u64 = 60_000, { "minimum": 1_000 };
        /// The most connections kept by each worker.
        keepalive_pool: u32 = 5, { "minimum": 1 };
    }
}

words! {
    pub(super) enum RequestMethod {
        Get = "GET",
        Post = "POST",
    }
}

pub(super) fn check(config: &Value) -> Result<(), String> {
    let config: ForwardAuthConfig = config::parse_config(config)?;
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
    for name in names.chain(config.extra_headers.iter().flat_map(Map::keys).map(String::as_str)) {
        if !is_token(name) {
            return Err(format!("{name:?} is no field name"));
        }
    }
    extra_headers(config.extra_headers.as_ref()).map(drop)
}

pub(super) fn extra_headers(
    written: Option<&Map<String, Value>>,
) -> Result<Vec<(Box<str>, Template)>, String> {
    let compile = |(name, value): (&String, &Value)| {
        let value = Template::compile(&parse_field_text(value)?)
            .map_err(|error| format!("extra_headers.{name}: {error}"))?;
        Ok((name.as_str().into(), value))
    };
    written.into_iter().flatten().map(compile).collect()
}

/// As in APISIX. The bodies that a worker holds count against the memory limit of the process.
const MAX_REQ_BODY_SIZE_DEFAULT: usize = 64 * 1024 * 1024;
