//! # http-logger
//!
//! Reports every request to a log server, in batches of JSON objects over HTTP. No request waits for it.
//!
//! ```json
//! {
//!   "uri": "http://127.0.0.1:3000/logs",
//!   "auth_header": "Bearer letmein",
//!   "log_format": { "host": "$host", "@timestamp": "$time_iso8601", "client_ip": "$remote_addr" },
//!   "batch_max_size": 500,
//!   "max_retry_count": 2
//! }
//! ```
//!
//! **Entries.** Without `log_format` an entry holds all parts: `request` (url, uri, method, headers, querystring,
//! size), `response` (status, headers, size), `upstream`, `client_ip`, `consumer`, `start_time`, `latency`,
//! `upstream_latency`, `apisix_latency` (milliseconds), `server`, `service_id` and `route_id`. It includes header
//! fields and so credentials; use `log_format` if the log server may not see them. `log_format` chooses the fields: its
//! values are texts, texts with variables if they begin with `$`, or objects of such, five deep; a variable that is not
//! set leaves its field out. `route_id` and `service_id` are added. `log_format_extra` adds fields to the whole entry
//! instead. The plugin's metadata may give both for all instances; the instance's own settings take precedence.
//!
//! **Bodies.** `include_req_body` and `include_resp_body` add the bodies to the whole entry, their first
//! `max_req_body_bytes` and `max_resp_body_bytes`; the bodies themselves are forwarded unchanged. With
//! `include_req_body_expr` or `include_resp_body_expr`, [conditions](../guide/routing.md#expressions), only where they
//! hold. In a format they are `$request_body` and `$resp_body`.
//!
//! **How it is sent.** By POST, with `auth_header` in `Authorization`: with `concat_method` `json` a list of entries as
//! `application/json`, with `new_line` an entry a line as `text/plain`; with `batch_max_size` 1 the entry alone. A
//! status below 400 within `timeout` seconds means that the batch has arrived. [The
//! guide](../guide/plugins.md#calls-and-queues) says when a batch is sent, repeated and dropped; the metadata's
//! `max_pending_entries` bounds each queue.
//!
//! Over `https` the log server's certificate is verified only with `ssl_verify: true` (the default is `false`, as in APISIX):
//! it then has to be valid for the URI's host and signed by an authority that the setting `trusted_certificates` names.

mod sink;

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::batch::BatchQueue;
use exchange::plugin::outbound::check_uri;
use exchange::plugin::{BodyNeed, Build, Phase, Plugin, PluginKind};
use router::vars::Expression;
use serde_json::{Map, Value, json};

use crate::shared::attributes::{Attribute, Fields, attributes};
use crate::shared::log_entry::{self, Bodies, BodyPart, LogFormat};
use crate::shared::{batch, config};
use sink::{ConcatMethod, LogServer};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "http-logger",
    410,
    &[Phase::RequestBody, Phase::ResponseBody, Phase::Log],
    schema,
    build,
)
.checked(|config| read(config).and_then(|(config, _)| compile(&config, None).map(drop)))
.with_metadata(metadata_schema)
.documented(include_str!("http_logger.rs"));

attributes! {
    struct Config {
        /// The log server: an http or https URI.
        uri: String, { "pattern": URI_PATTERN };
        /// The value of Authorization in requests to the log server.
        auth_header: Option<String>;
        /// Seconds until the log server has to have answered.
        timeout: u64 = 3, { "minimum": 1 };
        /// The fields of an entry, in place of everything.
        log_format: Option<Map<String, Value>>;
        /// Further fields of an entry that holds everything.
        log_format_extra: Option<Map<String, Value>>;
        /// Adds the request's body.
        include_req_body: bool = false;
        /// Adds the request's body only where this holds.
        include_req_body_expr: Option<Value>, { "type": "array", "minItems": 1, "items": { "type": "array" } };
        /// Adds the response's body.
        include_resp_body: bool = false;
        /// Adds the response's body only where this holds.
        include_resp_body_expr: Option<Value>, { "type": "array", "minItems": 1, "items": { "type": "array" } };
        /// How much of the request's body is added.
        max_req_body_bytes: usize = 512 * 1024, { "minimum": 1 };
        /// How much of the response's body is added.
        max_resp_body_bytes: usize = 512 * 1024, { "minimum": 1 };
        /// How the entries of a batch are put together.
        concat_method: ConcatMethod = ConcatMethod::Json;
        /// Whether the log server's certificate is verified, for an https URI.
        ssl_verify: bool = false;
    }
    { "encrypt_fields": ["auth_header"] }
}

fn schema() -> Value {
    let mut schema = Config::schema();
    batch::add_to_schema(&mut schema, NAME_DEFAULT);
    schema
}

fn metadata_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "log_format": {
                "description": "The fields of an entry, for instances without a format of their own.",
                "type": "object",
            },
            "log_format_extra": {
                "description": "Further fields of an entry, for instances without such of their own.",
                "type": "object",
            },
            "max_pending_entries": batch::max_pending_schema(),
        },
    })
}

/// The compiled plugin.
struct HttpLogger {
    contents: Contents,
    queue: Arc<Result<BatchQueue, String>>,
}

/// The content of entries.
struct Contents {
    format: Option<LogFormat>,
    extra: Option<LogFormat>,
    bodies: Bodies,
    /// How much of the request body has to be kept, in bytes; `kept_response_bytes` is that of the response body.
    kept_request_bytes: usize,
    kept_response_bytes: usize,
}

fn read(config: &Value) -> Result<(Config, batch::BatchFields), String> {
    let mut fields = Fields::of(config.clone())?;
    let (own, batch) = (Config::take(&mut fields)?, batch::BatchFields::take(&mut fields)?);
    fields.finish(&[Config::NAMES, batch::BatchFields::NAMES])?;
    Ok((own, batch))
}

fn compile(config: &Config, metadata: Option<&Value>) -> Result<Contents, String> {
    if !config::is_reference(&config.uri) {
        check_uri(&config.uri)?;
    }
    let of_metadata =
        |name: &str| metadata.and_then(|metadata| metadata.get(name)).and_then(Value::as_object);
    let format = |own: &Option<Map<String, Value>>, name: &str| {
        let written = own.as_ref().or(of_metadata(name)).filter(|fields| !fields.is_empty());
        written.map(LogFormat::compile).transpose()
    };
    let part = |included: bool, written: &Option<Value>, name: &str, max_bytes: usize| {
        let condition = written.as_ref().map(Expression::compile).transpose();
        let condition =
            condition.map_err(|error| format!("failed to validate the '{name}' expression: {error}"))?;
        Ok::<_, String>(included.then_some(BodyPart { condition, max_bytes }))
    };
    let request = part(
        config.include_req_body,
        &config.include_req_body_expr,
        "include_req_body_expr",
        config.max_req_body_bytes,
    )?;
    let response = part(
        config.include_resp_body,
        &config.include_resp_body_expr,
        "include_resp_body_expr",
        config.max_resp_body_bytes,
    )?;
    let format = format(&config.log_format, "log_format")?;
    let extra = match &format {
        Some(_) => None,
        None => format_extra(config, of_metadata("log_format_extra"))?,
    };
    let any = |uses: fn(&LogFormat) -> bool| format.iter().chain(&extra).any(uses);
    let kept = |named: bool, part: &Option<BodyPart>, max_bytes: usize| {
        let named = if named { max_bytes } else { 0 };
        part.as_ref().filter(|_| format.is_none()).map_or(named, |part| part.max_bytes)
    };
    Ok(Contents {
        kept_request_bytes: kept(any(LogFormat::uses_request_body), &request, config.max_req_body_bytes),
        kept_response_bytes: kept(any(LogFormat::uses_response_body), &response, config.max_resp_body_bytes),
        bodies: Bodies { request, response },
        format,
        extra,
    })
}

fn format_extra(
    config: &Config,
    of_metadata: Option<&Map<String, Value>>,
) -> Result<Option<LogFormat>, String> {
    config.log_format_extra.as_ref().or(of_metadata).map(LogFormat::compile).transpose()
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let (parsed, batch) = read(config)?;
    let contents = compile(&parsed, build.metadata)?;
    let settings = batch.settings(NAME_DEFAULT, build.owner, build.metadata);
    // The queue is kept over changes of everything except the configuration itself and the limit of entries.
    let pending = settings.max_pending_entries;
    let key = format!("http-logger/{}/{pending}/{}", build.owner, config::identity(config));
    let server = LogServer::new(
        build.services,
        &parsed.uri,
        parsed.ssl_verify,
        parsed.auth_header.as_deref(),
        parsed.timeout.saturating_mul(1_000),
        parsed.concat_method,
        settings.batch_max_entries == 1,
    )?;
    let queue = build.states.keep(&key, || build.services.queue(settings, server));
    if let Err(reason) = &*queue {
        return Err(reason.clone());
    }
    Ok(Arc::new(HttpLogger { contents, queue }))
}

impl Plugin for HttpLogger {
    fn wants_request_body(&self, _exchange: &Exchange) -> BodyNeed {
        copy(self.contents.kept_request_bytes)
    }

    fn wants_response_body(&self, exchange: &Exchange) -> BodyNeed {
        let part = self.contents.bodies.response.as_ref();
        match self.contents.format {
            None if !part.is_none_or(|part| part.applies(exchange)) => BodyNeed::None,
            _ => copy(self.contents.kept_response_bytes),
        }
    }

    fn log(&self, exchange: &Exchange) {
        if let Ok(queue) = &*self.queue {
            // The queue counts and reports a dropped entry.
            queue.push(self.contents.entry(exchange));
        }
    }
}

impl Contents {
    /// The entry of an exchange that has ended, as JSON.
    fn entry(&self, exchange: &Exchange) -> Vec<u8> {
        let mut entry = match &self.format {
            Some(format) => format.render(exchange),
            None => log_entry::full(exchange, &self.bodies),
        };
        if let Some(extra) = &self.extra {
            entry.extend(extra.render(exchange));
        }
        log_entry::add_route(&mut entry, exchange, self.format.is_none());
        Value::Object(entry).to_string().into_bytes()
    }
}

fn copy(limit_bytes: usize) -> BodyNeed {
    if limit_bytes == 0 { BodyNeed::None } else { BodyNeed::Copy { limit_bytes } }
}

const NAME_DEFAULT: &str = "http logger";
/// A scheme, then a name or an address, and perhaps a port; the plugin's own check decides which of these can be
/// reached.
const URI_PATTERN: &str = r"^[^/]+://([0-9a-zA-Z.-]+|\[[0-9a-fA-F:]+\])(:[0-9]+)?";

#[cfg(test)]
mod tests;
