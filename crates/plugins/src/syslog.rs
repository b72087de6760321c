//! # syslog
//!
//! Reports every request to a syslog server, as lines of RFC 5424 with a JSON object as their message. No
//! request waits for it.
//!
//! ```json
//! {
//!   "host": "127.0.0.1",
//!   "port": 514,
//!   "sock_type": "udp",
//!   "log_format": { "host": "$host", "status": "$status", "client_ip": "$remote_addr" }
//! }
//! ```
//!
//! A line is `<46>1 2026-11-25T20:15:00.123Z HOST apisix PID - - {…}`: facility `syslog`, severity
//! `informational`, the host that the request asked for, the name `apisix` that filters of existing servers
//! look for, and this process.
//!
//! With `sock_type` `tcp` (the default) lines go over connections that are kept, at most `pool_size`, and end
//! with a line feed (RFC 6587, section 3.4.2); with `tls` they are encrypted, and the certificate is not
//! verified, as in APISIX, unless the setting `tls_verify_all` asks for it. With `udp` each line is a
//! datagram (RFC 5426). A line longer than `drop_limit` bytes, or than a datagram, is dropped and counted.
//!
//! A batch is written at once, so that `flush_limit`, the size at which APISIX writes its buffer, has no
//! effect. Entries, bodies and formats are those of [`http-logger`](http-logger.md), on stream routes too;
//! the line of a session has no host. [The guide](../../guide/plugins.md#calls-and-queues) says when a batch
//! is sent, repeated and dropped.

use exchange::Exchange;
use exchange::plugin::batch::{BatchEntry, Delivery, DeliveryFailure, QueueSettings, Sink};
use exchange::plugin::outbound::{DATAGRAM_MAX_BYTES, HttpClient, OutboundTls};
use exchange::plugin::stream::StreamSession;
use exchange::plugin::{Build, PluginKind};
use serde_json::Value;

use crate::shared::attributes::{attributes, words};
use crate::shared::logger::byte_stream::{self, ByteStream, Reaching};
use crate::shared::logger::contents::Contents;
use crate::shared::logger::datagrams::Datagrams;
use crate::shared::logger::log_server::LogTransport;
use crate::shared::logger::{self, LogPlugin, rfc5424};

/// The plugin.
pub(crate) const KIND: PluginKind = logger::log_plugin_kind::<Syslog>(401, include_str!("syslog.rs"))
    .on_streams(logger::sessions::build_log_stream_kind::<Syslog>());

words! {
    /// How lines are carried.
    pub(crate) enum SockType {
        /// Over connections.
        Tcp = "tcp",
        /// A datagram each.
        Udp = "udp",
    }
}

attributes! {
    pub(crate) struct SyslogConfig {
        /// The host of the syslog server.
        host: String;
        /// The port of the syslog server.
        port: u16;
        /// No effect: batches are written at once.
        flush_limit: u64 = 4_096, { "minimum": 1 };
        /// The longest line that is sent, in bytes.
        drop_limit: i64 = 1_048_576;
        /// Milliseconds until a connection is open, and until a batch is written.
        timeout: u64 = 3_000, { "minimum": 1 };
        /// How lines are carried.
        sock_type: SockType = SockType::Tcp;
        /// The most connections that are kept.
        pool_size: usize = 5, { "minimum": 5 };
        /// Whether connections are encrypted.
        tls: bool = false;
    }
}

/// Milliseconds a connection is kept without use: syslog servers keep theirs for long.
const IDLE_MS: u64 = 60_000;

/// The compiled plugin: an entry is a line.
struct Syslog;

/// The syslog server of one instance.
struct SyslogServer {
    transport: LogTransport,
    line_max_bytes: usize,
}

impl LogPlugin for Syslog {
    type TcpLoggerConfig = SyslogConfig;
    type Sink = SyslogServer;

    const NAME: &'static str = "syslog";
    const QUEUE_NAME: &'static str = "sys logger";

    fn compile(config: &SyslogConfig, _metadata: Option<&Value>) -> Result<Syslog, String> {
        byte_stream::check(&config.host, config.port)?;
        Ok(Syslog)
    }

    fn sink(
        &self,
        build: &Build<'_>,
        config: &SyslogConfig,
        _settings: &QueueSettings,
    ) -> Result<SyslogServer, String> {
        let SyslogConfig { host, port, timeout, .. } = config;
        let drop_limit = usize::try_from(config.drop_limit).unwrap_or(0);
        if config.sock_type == SockType::Udp {
            let datagrams = Datagrams::new(build.services, host, *port, *timeout)?;
            let line_max_bytes = drop_limit.min(DATAGRAM_MAX_BYTES);
            return Ok(SyslogServer { transport: LogTransport::Datagrams(datagrams), line_max_bytes });
        }
        let reaching = Reaching {
            host,
            port: *port,
            tls: config.tls.then(OutboundTls::default),
            timeout_ms: *timeout,
            kept_max: config.pool_size,
            idle_ms: IDLE_MS,
        };
        let stream = ByteStream::new(build.services, reaching)?;
        Ok(SyslogServer { transport: LogTransport::Stream(stream), line_max_bytes: drop_limit })
    }

    fn entry(&self, exchange: &Exchange, contents: &Contents) -> Option<Vec<u8>> {
        let message = contents.json_of_route(exchange);
        Some(rfc5424::format_syslog_line(exchange.host(), "-", &message))
    }

    /// A session has asked for no host.
    fn session_entry(&self, session: &StreamSession, contents: &Contents) -> Vec<u8> {
        rfc5424::format_syslog_line(&[], "-", &contents.session_json(session))
    }
}

impl SyslogServer {
    /// Sends lines, each with its index in a batch of `count`.
    ///
    /// # Errors
    /// The first line that could not be sent is left for another attempt, with all entries of the batch
    /// behind it.
    async fn send(&self, lines: &[(usize, &BatchEntry)], count: usize) -> Result<(), DeliveryFailure> {
        let failed = |sent: usize, reason: String| {
            let begin = lines.get(sent).map_or(count, |(index, _)| *index);
            DeliveryFailure::with_left(sent, (begin..count).collect(), reason)
        };
        match &self.transport {
            // The lines that are too long stay in the batch, to be counted once the others have arrived.
            LogTransport::Stream(stream) => Ok(stream.send(&concatenated(lines)).await?),
            LogTransport::Datagrams(datagrams) => {
                for (sent, (_, line)) in lines.iter().enumerate() {
                    // A datagram is a line, so that nothing has to end it.
                    let line = line.strip_suffix(b"\n").unwrap_or(line);
                    datagrams.send(line).await.map_err(|reason| failed(sent, reason))?;
                }
                Ok(())
            }
        }
    }
}

fn concatenated(lines: &[(usize, &BatchEntry)]) -> Vec<u8> {
    let mut data = Vec::with_capacity(lines.iter().map(|(_, line)| line.len()).sum());
    lines.iter().for_each(|(_, line)| data.extend_from_slice(line));
    data
}

impl Sink for SyslogServer {
    fn deliver<'a>(&'a self, _client: &'a HttpClient, batch: &'a [BatchEntry]) -> Delivery<'a> {
        Box::pin(async move {
            let fits = |line: &BatchEntry| line.len() <= self.line_max_bytes;
            let lines: Vec<_> = batch.iter().enumerate().filter(|(_, line)| fits(line)).collect();
            self.send(&lines, batch.len()).await?;
            if lines.len() == batch.len() {
                return Ok(());
            }
            let reason = format!(
                "failed to log message: {} of {} lines are longer than {} bytes",
                batch.len() - lines.len(),
                batch.len(),
                self.line_max_bytes
            );
            Err(DeliveryFailure::last_after(lines.len(), reason))
        })
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::check_configuration;
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
                "flush_limit": 1, "drop_limit": 5, "timeout": 3, "sock_type": "udp", "pool_size": 6, "tls": true,
                "batch_max_size": 1, "name": "sys", "log_format": {"a": "$host"},
            }),
            None,
        );
        check(json!({"pool_size": 4}), Some("pool_size"));
        check(json!({"sock_type": "unix"}), Some("sock_type"));
        check(json!({"flush_limit": 0}), Some("flush_limit"));
        check(json!({"timeout": 0}), Some("timeout"));
        check(json!({"port": "3000"}), Some("port"));
        check_configuration(
            &KIND,
            SchemaType::Plugin,
            &json!({"host": "127.0.0.1"}),
            Some("property \"port\" is required"),
        );
    }

    #[test]
    fn line_that_is_too_long_is_not_sent_again() {
        let services = exchange::testing::services();
        let datagrams = Datagrams::new(&services, "169.254.169.254", 514, 60_000).unwrap();
        let server = SyslogServer { transport: LogTransport::Datagrams(datagrams), line_max_bytes: 10 };
        // Nothing reaches this address, so that the first entry that fits fails.
        let batch = [20, 2, 20, 2].map(|bytes| BatchEntry::from(vec![b'x'; bytes]));
        let client = HttpClient::default();
        let failure = net::env::block_on(server.deliver(&client, &batch)).unwrap().unwrap_err();
        assert_eq!((failure.delivered, failure.left), (0, Some(vec![1, 2, 3])));
    }

    #[test]
    fn entry_is_a_line_with_the_host_of_the_request() {
        let config = json!({"host": "h", "port": 1, "log_format": {"status": "$status"}});
        let line = String::from_utf8(logger::testing::entry::<Syslog>(&config, None)).unwrap();
        assert!(line.starts_with("<46>1 20"), "{line}");
        let pid = std::process::id();
        let end = format!("Z shop.example apisix {pid} - - {{\"status\":200,\"route_id\":\"r1\"}}\n");
        assert!(line.ends_with(&end), "{line}");
    }
}
