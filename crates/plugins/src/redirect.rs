//! # redirect
//!
//! Replies with a redirect, without an upstream.
//!
//! ```json
//! { "uri": "https://new.example.com$request_uri", "ret_code": 301 }
//! ```
//!
//! Exactly one of these gives the target:
//!
//! * `uri`: a URI reference with variables (`$uri/index.html`, `${host}`); `\$` stays as it is.
//! * `regex_uri`: a pattern for the path and a template with the groups `$1`, `$2` …; if the pattern does not
//!   match, the request is forwarded to its node. A pattern with look-around or back-references is searched
//!   in a path of up to 4 KiB and for a few milliseconds; beyond that the answer is 400.
//! * `http_to_https`: the same URI over HTTPS, with status 301 for GET and HEAD and 308 for other methods. A
//!   request that came over HTTPS goes on; so does one of which a trusted proxy says so
//!   (`X-Forwarded-Proto`). The port is `https_port` of the plugin's metadata, or else the setting
//!   `redirect_https_port_number` (`plugin_attr.redirect.https_port` of APISIX), or else that of the
//!   gateway's first TLS listener; 443 is left out of the URI. A request without a host is answered 400.
//!
//! `ret_code` is the status for the first two. `append_query_string` adds the client's query, after an
//! existing one; it cannot be combined with `http_to_https`, which keeps the query anyway. `encode_uri`
//! percent-encodes the path of the template. Bytes that no URI may hold are encoded in any case.
//!
//! Text of clients in variables and groups stays where the template has it: in the path `?`, `#` and `%` are
//! encoded, behind the `?` of the template also `& = + ;`, so that no argument is added and the reader
//! decodes the text once. Variables that are parts of a URI (`$request_uri`, `$args`, `$is_args`,
//! `$query_string`) stay as they are, except inside an argument (`?back=$request_uri`), where they are
//! encoded as a whole. A variable with which the template begins (`$arg_next`, `$http_referer`) is a whole
//! URI reference and stays as it is.

use std::sync::Arc;

use exchange::Exchange;
use exchange::exchange::RequestScheme;
use exchange::plugin::{
    BufferedReply, Build, Explained, Flow, Plugin, PluginKind, PluginPhase, explain_by_running,
};
use router::vars::VariableSource;
use serde_json::{Value, json};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;
use crate::shared::uri::encode_uri;
use crate::shared::uri_template::{UriSubstitution, UriTemplate, UriUse};

/// The plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("redirect", 900, &[PluginPhase::Rewrite], RedirectConfig::schema, build)
        .checked(check)
        .with_metadata(metadata_schema)
        .documented(include_str!("redirect.rs"));

/// The port that `https` implies.
const HTTPS_PORT_IMPLIED: u16 = 443;

attributes! {
    struct RedirectConfig {
        /// The status of the redirection.
        ret_code: u16 = 302, { "minimum": 200 };
        /// Where to, with variables.
        uri: Option<String>, {
            "minLength": 2,
            "pattern": "(\\\\\\$[0-9a-zA-Z_]+)|\\$\\{([0-9a-zA-Z_]+)\\}|\\$([0-9a-zA-Z_]+)|(\\$|[^$\\\\]+)",
        };
        /// A pattern for the path, and a template of where to.
        regex_uri: Option<[String; 2]>, {
            "items": { "description": "The pattern or the template.", "type": "string" },
        };
        /// Sends plain requests to HTTPS.
        http_to_https: Option<bool>;
        /// Percent-encodes the path of where to.
        encode_uri: bool = false;
        /// Adds the query of the request.
        append_query_string: bool = false;
    }
    { "oneOf": [{ "required": ["uri"] }, { "required": ["regex_uri"] }, { "required": ["http_to_https"] }] }
}

fn metadata_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "https_port": {
                "description": "The port that `http_to_https` sends clients to.",
                "type": "integer", "minimum": 1, "maximum": 65535,
            },
        },
    })
}

/// The compiled plugin.
struct Redirect {
    to: To,
    status: u16,
    appends_query: bool,
}

enum To {
    Rendered(UriTemplate),
    Substituted(Box<UriSubstitution>),
    /// The port of the metadata; without one, that of the gateway.
    Https(Option<u16>),
    Nowhere,
}

fn check(config: &Value) -> Result<(), String> {
    let mut config = config.clone();
    if let Some([pattern, template]) =
        config.get_mut("regex_uri").and_then(Value::as_array_mut).map(|pair| &mut pair[..])
    {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (written_pattern, written_template) = (text(pattern), text(template));
        let (known_pattern, known_template) =
            config::checkable_pair(&written_pattern, &written_template).unwrap_or_default();
        (*pattern, *template) = (Value::from(known_pattern), Value::from(known_template));
    }
    compile(&config, None).map(drop)
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    compile(config, build.metadata).map(|plugin| Arc::new(plugin) as Arc<dyn Plugin>)
}

fn compile(config: &Value, metadata: Option<&Value>) -> Result<Redirect, String> {
    let config: RedirectConfig = config::parse_config(config)?;
    if config.http_to_https == Some(true) && config.append_query_string {
        return Err("only one of `http_to_https` and `append_query_string` can be configured.".to_owned());
    }
    if config.ret_code > 999 {
        return Err(format!("ret_code {} is no status: those have three digits", config.ret_code));
    }
    let uri_use = UriUse::Reference { encodes_path: config.encode_uri };
    let to = match (&config.uri, &config.regex_uri, config.http_to_https) {
        (Some(uri), _, _) => {
            // In this plugin, unlike in others, an escaped dollar sign keeps its backslash.
            let template = UriTemplate::compile(&uri.replace("\\$", "\\\\$"), uri_use);
            To::Rendered(template.map_err(|error| format!("uri: {error}"))?)
        }
        (None, Some([pattern, template]), _) => {
            let substitution = UriSubstitution::compile(pattern, template, uri_use)
                .map_err(|reason| format!("invalid regex_uri ({pattern}, {template}), err:{reason}"))?;
            To::Substituted(Box::new(substitution))
        }
        (None, None, Some(true)) => To::Https(https_port(metadata)),
        (None, None, _) => To::Nowhere,
    };
    Ok(Redirect { to, status: config.ret_code, appends_query: config.append_query_string })
}

fn https_port(metadata: Option<&Value>) -> Option<u16> {
    let port = metadata.and_then(|metadata| metadata.get("https_port")).and_then(Value::as_u64);
    port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0)
}

/// Whether the client's request came over HTTPS, as far as the gateway knows or a trusted proxy says.
fn came_over_https(exchange: &Exchange) -> bool {
    // Fields of untrusted peers were removed before.
    let named = exchange.request.headers.get("X-Forwarded-Proto").unwrap_or_default();
    let is = |schemes: [&str; 2]| schemes.iter().any(|scheme| named.eq_ignore_ascii_case(scheme.as_bytes()));
    match () {
        () if is(["https", "wss"]) => true,
        () if is(["http", "ws"]) => false,
        // A name that says nothing about the client's connection.
        () => exchange.connection.scheme == RequestScheme::Https,
    }
}

fn over_https(exchange: &Exchange, port: Option<u16>) -> Vec<u8> {
    let mut uri = b"https://".to_vec();
    encode_uri(exchange.host(), None, &mut uri);
    let port = port.unwrap_or(exchange.local().options.https_port);
    if port != HTTPS_PORT_IMPLIED {
        uri.push(b':');
        uri.extend_from_slice(itoa::Buffer::new().format(port).as_bytes());
    }
    encode_uri(exchange.request.path(), Some(b'?'), &mut uri);
    if let Some(query) = exchange.request.query() {
        uri.push(b'?');
        encode_uri(query, None, &mut uri);
    }
    uri
}

/// Adds the client's query to a URI, before its fragment.
fn append_query(exchange: &Exchange, uri: &mut Vec<u8>) {
    let Some(query) = exchange.request.query() else { return };
    let fragment = uri.iter().position(|byte| *byte == b'#').map(|at| uri.split_off(at));
    uri.push(if uri.contains(&b'?') { b'&' } else { b'?' });
    encode_uri(query, None, uri);
    uri.extend(fragment.unwrap_or_default());
}

impl Plugin for Redirect {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let (status, mut uri) = match &self.to {
            To::Nowhere => return Flow::Continue,
            To::Rendered(template) => {
                let mut uri = Vec::new();
                template.render(exchange, &mut uri);
                (self.status, uri)
            }
            To::Substituted(substitution) => match substitution.once(exchange, exchange.path()) {
                Ok(Some((uri, _))) => (self.status, uri),
                Ok(None) => return Flow::Continue,
                Err(reason) => {
                    exchange.search_gave_up(reason);
                    return Flow::Continue;
                }
            },
            To::Https(_) if came_over_https(exchange) => return Flow::Continue,
            // A URI without a host is invalid (RFC 9110 section 4.2.2).
            To::Https(_) if exchange.host().is_empty() => {
                return Flow::reply(BufferedReply::json(
                    400,
                    &json!({ "error_msg": "the request names no host to redirect to" }),
                ));
            }
            To::Https(port) => {
                let safe = matches!(exchange.request.method_text(), b"GET" | b"HEAD");
                (if safe { 301 } else { 308 }, over_https(exchange, *port))
            }
        };
        if self.appends_query {
            append_query(exchange, &mut uri);
        }
        Flow::reply(BufferedReply::status(status).with_header("Location", String::from_utf8_lossy(&uri)))
    }

    fn explain(&self, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
        explain_by_running(self, exchange, phase)
    }
}

#[cfg(test)]
mod tests;
