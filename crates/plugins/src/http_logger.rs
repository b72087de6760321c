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
//! **Entries.** Without `log_format` an entry holds all parts: `request` (url, uri, method, headers,
//! querystring, size), `response` (status, headers, size), `upstream`, `client_ip`, `consumer`, `start_time`,
//! `latency`, `upstream_latency`, `apisix_latency` (milliseconds), `server`, `service_id` and `route_id`. It
//! includes header fields and so credentials; use `log_format` if the log server may not see them.
//! `log_format` chooses the fields: its values are texts, texts with variables if they begin with `$`, or
//! objects of such, five deep; a variable that is not set leaves its field out. `route_id` and `service_id`
//! are added. `log_format_extra` adds fields to the whole entry instead. The plugin's metadata may give both
//! for all instances; the instance's own settings take precedence.
//!
//! **Sessions.** On a stream route an entry is made when a session ends. Without `log_format` it holds
//! `client_ip`, `client_port`, `protocol` (TCP, TLS or UDP), `tls` (`sni`, `alpn`), `bytes_received` and
//! `bytes_sent` (from and to the client), `status`, `end` (the cause) and `reason`, `upstream` and
//! `connect_time`, `start_time`, `latency` (milliseconds), `server`, `service_id` and `route_id`. APISIX logs
//! nothing there without a `log_format`. Fields about bodies have no effect.
//!
//! **Bodies.** `include_req_body` and `include_resp_body` add the bodies to the whole entry, their first
//! `max_req_body_bytes` and `max_resp_body_bytes`; the bodies themselves are forwarded unchanged. With
//! `include_req_body_expr` or `include_resp_body_expr`, [conditions](../../guide/routing.md#expressions),
//! only where they hold. In a format they are `$request_body` and `$resp_body`.
//!
//! **How it is sent.** By POST, with `auth_header` in `Authorization`: with `concat_method` `json` a list of
//! entries as `application/json`, with `new_line` an entry a line as `text/plain`; with `batch_max_size` 1
//! the entry alone. A status below 400 within `timeout` seconds means that the batch has arrived. [The
//! guide](../../guide/plugins.md#calls-and-queues) says when a batch is sent, repeated and dropped; the
//! metadata's `max_pending_entries` bounds each queue.
//!
//! Over `https` the log server's certificate is verified only with `ssl_verify: true` (the default is
//! `false`, as in APISIX): it then has to be valid for the URI's host and signed by an authority that the
//! setting `trusted_certificates` names.

mod sink;

use exchange::Exchange;
use exchange::plugin::batch::QueueSettings;
use exchange::plugin::{Build, PluginKind};
use serde_json::Value;

use crate::shared::attributes::{attributes, words};
use crate::shared::logger::collector::{self, URI_PATTERN};
use crate::shared::logger::contents::Contents;
use crate::shared::logger::{self, LogPlugin};
use sink::HttpLogServer;

/// The plugin.
pub(crate) const KIND: PluginKind =
    logger::log_plugin_kind::<HttpLogger>(410, include_str!("http_logger.rs"))
        .on_streams(logger::sessions::build_log_stream_kind::<HttpLogger>());

words! {
    /// How the entries of a batch are put together.
    pub(crate) enum ConcatMethod {
        /// A JSON list.
        Json = "json",
        /// A line each.
        NewLine = "new_line",
    }
}

attributes! {
    pub(crate) struct HttpLoggerConfig {
        /// The log server: an http or https URI.
        uri: String, { "pattern": URI_PATTERN };
        /// The value of Authorization in requests to the log server.
        auth_header: Option<String>;
        /// Seconds until the log server has to have answered.
        timeout: u64 = 3, { "minimum": 1 };
        /// How the entries of a batch are put together.
        concat_method: ConcatMethod = ConcatMethod::Json;
        /// Whether the log server's certificate is verified, for an https URI.
        ssl_verify: bool = false;
    }
    { "encrypt_fields": ["auth_header"] }
}

/// The compiled plugin: an entry is a JSON object.
struct HttpLogger;

impl LogPlugin for HttpLogger {
    type TcpLoggerConfig = HttpLoggerConfig;
    type Sink = HttpLogServer;

    const NAME: &'static str = "http-logger";
    const QUEUE_NAME: &'static str = "http logger";

    fn compile(config: &HttpLoggerConfig, _metadata: Option<&Value>) -> Result<HttpLogger, String> {
        collector::check("uri", &config.uri)?;
        Ok(HttpLogger)
    }

    fn sink(
        &self,
        build: &Build<'_>,
        config: &HttpLoggerConfig,
        settings: &QueueSettings,
    ) -> Result<HttpLogServer, String> {
        HttpLogServer::new(build.services, config, settings.batch_max_entries == 1)
    }

    fn entry(&self, exchange: &Exchange, contents: &Contents) -> Option<Vec<u8>> {
        Some(contents.json(exchange))
    }
}

#[cfg(test)]
mod tests;
