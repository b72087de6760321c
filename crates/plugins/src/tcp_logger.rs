//! # tcp-logger
//!
//! Reports every request to a log server, in batches of JSON objects over TCP or TLS. No request waits for
//! it.
//!
//! ```json
//! {
//!   "host": "127.0.0.1",
//!   "port": 5044,
//!   "log_format": { "host": "$host", "@timestamp": "$time_iso8601", "client_ip": "$remote_addr" },
//!   "batch_max_size": 1
//! }
//! ```
//!
//! A batch is a list of JSON objects, with `batch_max_size` 1 the object alone. Each batch has a connection
//! of its own, and the end of the connection is the end of the batch: nothing else separates batches. It
//! counts as delivered once the kernel has taken it within `timeout` milliseconds, because a log server
//! confirms nothing.
//!
//! With `tls` the connection is encrypted; `tls_options` is the name that is sent as SNI, instead of `host`.
//! The certificate is not verified, as in APISIX, unless the setting `tls_verify_all` asks for it.
//!
//! Entries, bodies and formats are those of [`http-logger`](http-logger.md). [The
//! guide](../../guide/plugins.md#calls-and-queues) says when a batch is sent, repeated and dropped.

use exchange::Exchange;
use exchange::plugin::batch::QueueSettings;
use exchange::plugin::outbound::OutboundTls;
use exchange::plugin::{Build, PluginKind};
use serde_json::Value;

use crate::shared::attributes::attributes;
use crate::shared::logger::byte_stream::{self, ByteStream, Reaching};
use crate::shared::logger::contents::Contents;
use crate::shared::logger::log_server::{JsonListServer, LogTransport};
use crate::shared::logger::{self, LogPlugin};

/// The plugin.
pub(crate) const KIND: PluginKind = logger::log_plugin_kind::<TcpLogger>(405, include_str!("tcp_logger.rs"))
    .on_streams(logger::sessions::build_log_stream_kind::<TcpLogger>());

attributes! {
    pub(crate) struct Config {
        /// The host of the log server.
        host: String;
        /// The port of the log server.
        port: u16, { "minimum": 0 };
        /// Whether connections are encrypted.
        tls: bool = false;
        /// The name that is sent as SNI, with tls.
        tls_options: Option<Box<str>>;
        /// Milliseconds until a connection is open, and until a batch is written.
        timeout: u64 = 1_000, { "minimum": 1 };
    }
}

/// The compiled plugin: an entry is a JSON object.
struct TcpLogger;

impl LogPlugin for TcpLogger {
    type TcpLoggerConfig = Config;
    type Sink = JsonListServer;

    const NAME: &'static str = "tcp-logger";
    const QUEUE_NAME: &'static str = "tcp logger";

    fn compile(config: &Config, _metadata: Option<&Value>) -> Result<TcpLogger, String> {
        byte_stream::check(&config.host, config.port)?;
        Ok(TcpLogger)
    }

    fn sink(
        &self,
        build: &Build<'_>,
        config: &Config,
        settings: &QueueSettings,
    ) -> Result<JsonListServer, String> {
        let tls = OutboundTls { server_name: config.tls_options.clone(), ..OutboundTls::default() };
        let reaching = Reaching {
            host: &config.host,
            port: config.port,
            tls: config.tls.then_some(tls),
            timeout_ms: config.timeout,
            kept_max: 0,
            idle_ms: 0,
        };
        let stream = ByteStream::new(build.services, reaching)?;
        Ok(JsonListServer {
            transport: LogTransport::Stream(stream),
            is_single: settings.batch_max_entries == 1,
        })
    }

    fn entry(&self, exchange: &Exchange, contents: &Contents) -> Option<Vec<u8>> {
        Some(contents.json_of_route(exchange))
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::{accepts, check_configuration};
    use model::catalog::SchemaType;
    use serde_json::json;

    use super::*;

    #[test]
    fn configurations() {
        let check = |more: Value, fault: Option<&str>| {
            let mut config = json!({"host": "127.0.0.1", "port": 3000});
            config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            check_configuration(&KIND, SchemaType::Plugin, &config, fault);
        };
        check(json!({}), None);
        check(
            json!({
                "tls": true, "tls_options": "logs.example", "timeout": 1, "batch_max_size": 1, "name": "mine",
                "max_retry_count": 2, "retry_delay": 0, "buffer_duration": 1, "inactive_timeout": 1,
                "include_req_body": true, "include_resp_body": true, "log_format_extra": {"a": "$host"},
            }),
            None,
        );
        check(json!({"host": "::1"}), None);
        check(json!({"host": "a b:c"}), Some("host"));
        check(json!({"port": 0}), Some("port"));
        check(json!({"port": 65_536}), Some("port"));
        check(json!({"port": -1}), Some("port"));
        check(json!({"tls": "yes"}), Some("tls"));
        check(json!({"timeout": 0}), Some("timeout"));
        check(json!({"log_format": {"a": "${"}}), Some("log_format.a"));
        for (missing, given) in [("host", "port"), ("port", "host")] {
            let config = json!({given: if given == "port" { json!(1) } else { json!("h") }});
            let reason = format!("property \"{missing}\" is required");
            check_configuration(&KIND, SchemaType::Plugin, &config, Some(&reason));
        }
        assert_eq!(accepts(&KIND, SchemaType::Metadata, &json!({"max_pending_entries": 1})), Ok(()));
        assert!(accepts(&KIND, SchemaType::Metadata, &json!({"log_format": {"a": "${"}})).is_err());
    }

    #[test]
    fn whole_entry_has_the_route() {
        let entry = logger::testing::entry::<TcpLogger>(&json!({"host": "h", "port": 1}), None);
        let entry: Value = serde_json::from_slice(&entry).unwrap();
        assert_eq!((&entry["route_id"], &entry["response"]["status"]), (&json!("r1"), &json!(200)));
    }
}
