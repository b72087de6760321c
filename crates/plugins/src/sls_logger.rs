//! # sls-logger
//!
//! Reports every request to Alibaba Cloud's log service (SLS), as lines of RFC 5424 over TLS. No request
//! waits for it.
//!
//! ```json
//! {
//!   "host": "100.100.99.135",
//!   "port": 10009,
//!   "project": "your-project",
//!   "logstore": "your-logstore",
//!   "access_key_id": "your-access-key-id",
//!   "access_key_secret": "$env://SLS_SECRET"
//! }
//! ```
//!
//! Each line names project, logstore and access key in its structured data, as the service's syslog protocol
//! asks for; its message is the entry as a JSON object. Lines go over connections that are kept. The
//! service's certificate has to be valid for `host` unless `ssl_verify` is false.
//!
//! Entries, bodies and formats are those of [`http-logger`](http-logger.md). [The
//! guide](../../guide/plugins.md#calls-and-queues) says when a batch is sent, repeated and dropped.

use exchange::Exchange;
use exchange::plugin::batch::{BatchEntry, Delivery, QueueSettings, Sink};
use exchange::plugin::outbound::{HttpClient, OutboundTls};
use exchange::plugin::{Build, PluginKind};
use serde_json::Value;

use crate::shared::attributes::attributes;
use crate::shared::logger::byte_stream::{self, ByteStream, Reaching};
use crate::shared::logger::contents::Contents;
use crate::shared::logger::{self, LogPlugin, rfc5424};

/// The plugin.
pub(crate) const KIND: PluginKind = logger::log_plugin_kind::<SlsLogger>(406, include_str!("sls_logger.rs"));

attributes! {
    pub(crate) struct SlsLoggerConfig {
        /// The host of the service.
        host: String;
        /// The port of the service.
        port: u16;
        /// The project.
        project: String;
        /// The logstore.
        logstore: String;
        /// The identifier of the access key.
        access_key_id: String, { "minLength": 1 };
        /// The secret of the access key.
        access_key_secret: String, { "minLength": 1 };
        /// Milliseconds until a connection is open, and until a batch is written.
        timeout: u64 = 5_000, { "minimum": 1 };
        /// Whether the service's certificate is verified.
        ssl_verify: bool = true;
    }
    { "encrypt_fields": ["access_key_secret"] }
}

/// The most connections that are kept, and for how many milliseconds without use: the numbers of APISIX.
const KEPT_MAX: usize = 20;
const IDLE_MS: u64 = 120_000;

/// The compiled plugin: an entry is a line with this structured data.
struct SlsLogger {
    structured: String,
}

/// The service, as one instance reaches it.
struct SlsService(ByteStream);

impl LogPlugin for SlsLogger {
    type TcpLoggerConfig = SlsLoggerConfig;
    type Sink = SlsService;

    const NAME: &'static str = "sls-logger";

    fn compile(config: &SlsLoggerConfig, _metadata: Option<&Value>) -> Result<SlsLogger, String> {
        byte_stream::check(&config.host, config.port)?;
        let structured = rfc5424::structured_data(&[
            ("project", &config.project),
            ("logstore", &config.logstore),
            ("access-key-id", &config.access_key_id),
            ("access-key-secret", &config.access_key_secret),
        ]);
        if structured.contains(char::is_control) {
            return Err("project, logstore and the access key are a single line each".to_owned());
        }
        Ok(SlsLogger { structured })
    }

    fn sink(
        &self,
        build: &Build<'_>,
        config: &SlsLoggerConfig,
        _settings: &QueueSettings,
    ) -> Result<SlsService, String> {
        let reaching = Reaching {
            host: &config.host,
            port: config.port,
            tls: Some(OutboundTls::verifying(config.ssl_verify)),
            timeout_ms: config.timeout,
            kept_max: KEPT_MAX,
            idle_ms: IDLE_MS,
        };
        ByteStream::new(build.services, reaching).map(SlsService)
    }

    fn entry(&self, exchange: &Exchange, contents: &Contents) -> Option<Vec<u8>> {
        let message = contents.json_of_route(exchange);
        Some(rfc5424::format_syslog_line(exchange.host(), &self.structured, &message))
    }
}

impl Sink for SlsService {
    fn deliver<'a>(&'a self, _client: &'a HttpClient, batch: &'a [BatchEntry]) -> Delivery<'a> {
        Box::pin(async move { Ok(self.0.send(&batch.concat()).await?) })
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::{configuration_check, with_fields};
    use serde_json::json;

    use super::*;

    fn with(more: Value) -> Value {
        with_fields(
            json!({
                "host": "100.100.99.135", "port": 10009, "project": "p", "logstore": "l", "access_key_id": "id",
                "access_key_secret": "s]\"",
            }),
            &more,
        )
    }

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        check(with(json!({})), None);
        check(with(json!({"ssl_verify": false, "timeout": 1, "batch_max_size": 2})), None);
        check(with(json!({"timeout": 0})), Some("timeout"));
        check(with(json!({"project": "a\nb"})), Some("single line"));
        for name in ["host", "port", "project", "logstore", "access_key_id", "access_key_secret"] {
            let mut config = with(json!({}));
            config.as_object_mut().unwrap().remove(name);
            check(config, Some(&format!("property \"{name}\" is required")));
        }
    }

    #[test]
    fn line_names_project_and_access_key() {
        let config = with(json!({"log_format": {"n": "$arg_n"}}));
        let line = String::from_utf8(logger::testing::entry::<SlsLogger>(&config, None)).unwrap();
        let end = concat!(
            r#" - [logservice project="p" logstore="l" access-key-id="id" access-key-secret="s\]\""]"#,
            " {\"n\":\"1\",\"route_id\":\"r1\"}\n"
        );
        assert!(line.ends_with(end), "{line}");
    }
}
