//! # udp-logger
//!
//! Reports every request to a log server, in batches of JSON objects over UDP. No request waits for it.
//!
//! ```json
//! {
//!   "host": "127.0.0.1",
//!   "port": 3000,
//!   "log_format": { "host": "$host", "status": "$status", "client_ip": "$remote_addr" },
//!   "batch_max_size": 1
//! }
//! ```
//!
//! A batch is one datagram with a list of JSON objects, with `batch_max_size` 1 the object alone. A datagram
//! holds at most 65,507 bytes: a longer batch is sent in several, each with a list of its own, and an entry
//! that is too long alone is dropped and counted. Networks may lose datagrams, and the longer they are the
//! more likely; a closed port is noticed only if the server's host says so. `timeout` is how many seconds the
//! address of a new name is waited for.
//!
//! Entries, bodies and formats are those of [`http-logger`](http-logger.md). [The
//! guide](../../guide/plugins.md#calls-and-queues) says when a batch is sent, repeated and dropped.

use exchange::Exchange;
use exchange::plugin::batch::QueueSettings;
use exchange::plugin::{Build, PluginKind};
use serde_json::Value;

use crate::shared::attributes::attributes;
use crate::shared::logger::byte_stream;
use crate::shared::logger::contents::Contents;
use crate::shared::logger::datagrams::Datagrams;
use crate::shared::logger::log_server::{JsonListServer, LogTransport};
use crate::shared::logger::{self, LogPlugin};

/// The plugin.
pub(crate) const KIND: PluginKind = logger::log_plugin_kind::<UdpLogger>(400, include_str!("udp_logger.rs"))
    .on_streams(logger::sessions::build_log_stream_kind::<UdpLogger>());

attributes! {
    pub(crate) struct UdpLoggerConfig {
        /// The host of the log server.
        host: String;
        /// The port of the log server.
        port: u16, { "minimum": 0 };
        /// Seconds that the address of a new name is waited for.
        timeout: u64 = 3, { "minimum": 1 };
    }
}

/// The compiled plugin: an entry is a JSON object.
struct UdpLogger;

impl LogPlugin for UdpLogger {
    type TcpLoggerConfig = UdpLoggerConfig;
    type Sink = JsonListServer;

    const NAME: &'static str = "udp-logger";
    const QUEUE_NAME: &'static str = "udp logger";

    fn compile(config: &UdpLoggerConfig, _metadata: Option<&Value>) -> Result<UdpLogger, String> {
        byte_stream::check(&config.host, config.port)?;
        Ok(UdpLogger)
    }

    fn sink(
        &self,
        build: &Build<'_>,
        config: &UdpLoggerConfig,
        settings: &QueueSettings,
    ) -> Result<JsonListServer, String> {
        let timeout_ms = config.timeout.saturating_mul(1_000);
        let datagrams = Datagrams::new(build.services, &config.host, config.port, timeout_ms)?;
        Ok(JsonListServer {
            transport: LogTransport::Datagrams(datagrams),
            is_single: settings.batch_max_entries == 1,
        })
    }

    fn entry(&self, exchange: &Exchange, contents: &Contents) -> Option<Vec<u8>> {
        Some(contents.json_of_route(exchange))
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::configuration_check;
    use serde_json::json;

    use super::*;

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        check(json!({"host": "127.0.0.1", "port": 3000}), None);
        check(
            json!({"host": "h", "port": 1, "timeout": 1, "batch_max_size": 1, "include_req_body": true}),
            None,
        );
        check(json!({"port": 3000}), Some("property \"host\" is required"));
        check(json!({"host": "h"}), Some("property \"port\" is required"));
        check(json!({"host": "h", "port": 1, "timeout": 0}), Some("timeout"));
        check(json!({"host": "h", "port": 1, "tls": true}), Some("tls"));
        check(json!({"host": "h", "port": "1"}), Some("port"));
    }
}
