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
//! A batch is one datagram with a list of JSON objects, with `batch_max_size` 1 the object alone. A datagram holds at most
//! 65,507 bytes: a longer batch is sent in several, each with a list of its own, and an entry that is too long alone is
//! dropped and counted. Networks may lose datagrams, and the longer they are the more likely; a closed port is noticed only
//! if the server's host says so. `timeout` is how many seconds the address of a new name is waited for.
//!
//! Entries, bodies and formats are those of [`http-logger`](#http-logger). [The
//! guide](../guide/plugins.md#calls-and-queues) says when a batch is sent, repeated and dropped.

use exchange::Exchange;
use exchange::plugin::batch::{Delivery, DeliveryFailure, Entry, QueueSettings, Sink};
use exchange::plugin::outbound::{DATAGRAM_MAX_BYTES, HttpClient};
use exchange::plugin::{Build, PluginKind};
use serde_json::Value;

use crate::shared::attributes::attributes;
use crate::shared::logger::byte_stream;
use crate::shared::logger::collector::json_list;
use crate::shared::logger::contents::Contents;
use crate::shared::logger::datagrams::Datagrams;
use crate::shared::logger::{self, LogPlugin};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    UdpLogger::NAME,
    400,
    logger::PHASES,
    logger::schema::<UdpLogger>,
    logger::build::<UdpLogger>,
)
.checked(logger::check::<UdpLogger>)
.with_metadata(logger::metadata_schema::<UdpLogger>)
.checked_metadata(logger::check_metadata)
.on_streams(logger::sessions::kind::<UdpLogger>())
.documented(include_str!("udp_logger.rs"));

attributes! {
    pub(crate) struct Config {
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

/// The log server of one instance.
struct LogServer {
    datagrams: Datagrams,
    /// A batch is one entry, sent without a list around it.
    is_single: bool,
}

impl LogPlugin for UdpLogger {
    type Config = Config;
    type Sink = LogServer;

    const NAME: &'static str = "udp-logger";
    const QUEUE_NAME: &'static str = "udp logger";

    fn compile(config: &Config, _metadata: Option<&Value>) -> Result<UdpLogger, String> {
        byte_stream::check(&config.host, config.port)?;
        Ok(UdpLogger)
    }

    fn sink(
        &self,
        build: &Build<'_>,
        config: &Config,
        settings: &QueueSettings,
    ) -> Result<LogServer, String> {
        let timeout_ms = config.timeout.saturating_mul(1_000);
        let datagrams = Datagrams::new(build.services, &config.host, config.port, timeout_ms)?;
        Ok(LogServer { datagrams, is_single: settings.batch_max_entries == 1 })
    }

    fn entry(&self, exchange: &Exchange, contents: &Contents) -> Option<Vec<u8>> {
        Some(contents.json_of_route(exchange))
    }
}

impl Sink for LogServer {
    fn deliver<'a>(&'a self, _client: &'a HttpClient, batch: &'a [Entry]) -> Delivery<'a> {
        Box::pin(async move {
            if let ([entry], true) = (batch, self.is_single) {
                return Ok(self.datagrams.send(entry).await?);
            }
            let (mut delivered, mut begin) = (0, 0);
            let mut too_long = None;
            for part in parts(batch) {
                match self.datagrams.send(&json_list(part)).await {
                    Ok(()) => delivered += part.len(),
                    // The others of the batch are sent all the same; this one never can be.
                    Err(reason) if !fits(part) => too_long = Some(reason),
                    Err(reason) => {
                        let left = (begin..batch.len()).collect();
                        return Err(DeliveryFailure::with_left(delivered, left, reason));
                    }
                }
                begin += part.len();
            }
            match too_long {
                Some(reason) => Err(DeliveryFailure::last_after(delivered, reason)),
                None => Ok(()),
            }
        })
    }
}

/// The bytes of a list of these entries: brackets, and a comma between two.
fn list_bytes(part: &[Entry]) -> usize {
    part.iter().map(|entry| entry.len() + 1).sum::<usize>() + 1
}

fn fits(part: &[Entry]) -> bool {
    list_bytes(part) <= DATAGRAM_MAX_BYTES
}

/// A batch in parts that fit into a datagram; an entry that is too long stands alone.
fn parts(batch: &[Entry]) -> Vec<&[Entry]> {
    let mut parts = Vec::new();
    let mut left = batch;
    while !left.is_empty() {
        let mut bytes = 1;
        let count = left.iter().take_while(|entry| {
            bytes += entry.len() + 1;
            bytes <= DATAGRAM_MAX_BYTES
        });
        let (part, rest) = left.split_at(count.count().max(1));
        parts.push(part);
        left = rest;
    }
    parts
}

#[cfg(test)]
mod tests {
    use exchange::testing::check_configuration;
    use model::catalog::SchemaType;
    use serde_json::json;

    use super::*;

    #[test]
    fn configurations() {
        let check = |config: Value, fault: Option<&str>| {
            check_configuration(&KIND, SchemaType::Plugin, &config, fault);
        };
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

    #[test]
    fn entry_that_is_too_long_is_not_sent_again() {
        let services = exchange::testing::services();
        let datagrams = Datagrams::new(&services, "169.254.169.254", 514, 60_000).unwrap();
        let server = LogServer { datagrams, is_single: false };
        // Nothing reaches this address, so that the first entry that fits fails.
        let batch = [70_000, 2, 2].map(|bytes| Entry::from(vec![b'x'; bytes]));
        let client = HttpClient::default();
        let failure = net::env::block_on(server.deliver(&client, &batch)).unwrap().unwrap_err();
        assert_eq!((failure.delivered, failure.left), (0, Some(vec![1, 2])));
    }

    #[test]
    fn batch_is_parted_where_a_datagram_ends() {
        let entry = |bytes: usize| Entry::from(vec![b'x'; bytes]);
        let check = |lengths: &[usize], expected: &[usize]| {
            let batch: Vec<Entry> = lengths.iter().map(|bytes| entry(*bytes)).collect();
            let parts = parts(&batch);
            assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), expected, "{lengths:?}");
            for part in parts {
                assert_eq!(json_list(part).len(), list_bytes(part), "{lengths:?}");
            }
        };
        check(&[], &[]);
        check(&[2, 2], &[2]);
        check(&[65_505], &[1]);
        check(&[65_506], &[1]);
        check(&[65_502, 2], &[2]);
        check(&[65_503, 2], &[1, 1]);
        check(&[1, 70_000, 1], &[1, 1, 1]);
        assert!(fits(&[entry(65_505)]) && !fits(&[entry(65_506)]));
    }
}
