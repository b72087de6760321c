//! # loggly
//!
//! Reports every request to SolarWinds Loggly, in batches, as syslog over UDP or over HTTP. No request waits
//! for it.
//!
//! ```json
//! {
//!   "customer_token": "$env://LOGGLY_TOKEN",
//!   "tags": ["shop"],
//!   "severity": "INFO",
//!   "severity_map": { "503": "ERR", "410": "ALERT" }
//! }
//! ```
//!
//! **Entries and bodies** are those of [http-logger](http-logger.md).
//!
//! **The server** stands in the metadata: `host` (`logs-01.loggly.com`), `port` (514), `protocol` (`syslog`,
//! `http` or `https`) and `timeout` (milliseconds).
//!
//! **As syslog**, each entry is a datagram in the form of RFC 5424 with the token and the `tags`. Its
//! severity is `severity`, or that of the response status in `severity_map`. A datagram that was sent counts
//! as arrived; an entry that is longer than a datagram (65,507 bytes) is dropped and counted as failed.
//!
//! **Over HTTP**, a batch is a POST to the bulk endpoint of `host`, which may have a path, with an entry a
//! line and the `tags` in `X-LOGGLY-TAG`. Status 200 means that the batch has arrived. Over `https` the
//! certificate is verified unless `ssl_verify` is `false`. [The guide](../../guide/logging.md) says when a
//! batch is sent, repeated and dropped.

mod sink;
mod syslog;

use exchange::Exchange;
use exchange::plugin::batch::QueueSettings;
use exchange::plugin::{Build, PluginKind};
use serde_json::{Map, Value};

use crate::shared::attributes::{Attribute, attributes, words};
use crate::shared::config::fields_of;
use crate::shared::logger::contents::Contents;
use crate::shared::logger::{self, LogPlugin};
use sink::Loggly;
use syslog::{LogglySyslogFormat, SEVERITIES, level};

/// The plugin.
pub(crate) const KIND: PluginKind =
    logger::log_plugin_kind::<LogglyLogger>(411, include_str!("loggly.rs")).checked_metadata(check_metadata);

/// A tag: printable characters, without the word that stands before tags anyway.
const TAG_PATTERN: &str = "^(?!tag=)[ -~]*";

words! {
    /// How entries are sent.
    pub(crate) enum LogglyProtocol {
        /// RFC 5424 over UDP.
        Syslog = "syslog",
        /// The bulk endpoint.
        Http = "http",
        /// The bulk endpoint, with TLS.
        Https = "https",
    }
}

attributes! {
    pub(crate) struct LogglyConfig {
        /// The token of the customer.
        customer_token: String, { "minLength": 1 };
        /// The severity of entries, in upper or lower case.
        severity: String = "INFO".to_owned(), { "enum": SEVERITIES };
        /// Tags of entries.
        tags: Vec<String> = vec!["apisix".to_owned()],
            { "minItems": 1, "items": { "type": "string", "pattern": TAG_PATTERN } };
        /// Whether the server's certificate is verified, for https.
        ssl_verify: bool = true;
        /// The severity of entries by response status.
        severity_map: Option<Map<String, Value>>, {
            "patternProperties": { "^[1-5][0-9]{2}$": { "type": "string", "enum": SEVERITIES } },
            "additionalProperties": false,
        };
    }
    { "encrypt_fields": ["customer_token"] }
}

attributes! {
    pub(crate) struct LogglyMetadata {
        /// The host of the server; over HTTP it may have a scheme, a port and a path.
        host: String = "logs-01.loggly.com".to_owned();
        /// The port of the server, for syslog.
        port: u16 = 514;
        /// How entries are sent.
        protocol: LogglyProtocol = LogglyProtocol::Syslog;
        /// Milliseconds until the server has to have answered.
        timeout: u64 = 5_000, { "minimum": 1 };
    }
}

fn check_metadata(metadata: &Value) -> Result<(), String> {
    logger::check_log_metadata(metadata)?;
    sink::check(&fields_of::<LogglyMetadata>(Some(metadata))?)
}

/// The compiled plugin: an entry is a JSON object, behind the head of a syslog message if it is sent as such.
struct LogglyLogger {
    metadata: LogglyMetadata,
    syslog: Option<LogglySyslogFormat>,
}

impl LogPlugin for LogglyLogger {
    type TcpLoggerConfig = LogglyConfig;
    type Sink = Loggly;

    const NAME: &'static str = "loggly";

    fn compile(config: &LogglyConfig, metadata: Option<&Value>) -> Result<LogglyLogger, String> {
        let metadata = fields_of::<LogglyMetadata>(metadata)?;
        let is_syslog = metadata.protocol == LogglyProtocol::Syslog;
        let mut by_status = Vec::new();
        for (status, severity) in config.severity_map.iter().flatten() {
            let status = status.parse().map_err(|_| format!("severity_map: {status} is no status"))?;
            by_status.push((status, level(severity.as_str().unwrap_or_default())));
        }
        let syslog = is_syslog.then(|| {
            LogglySyslogFormat::new(&config.customer_token, &config.tags, level(&config.severity), by_status)
        });
        Ok(LogglyLogger { metadata, syslog })
    }

    fn sink(&self, build: &Build<'_>, config: &LogglyConfig, _: &QueueSettings) -> Result<Loggly, String> {
        Loggly::new(build.services, config, &self.metadata)
    }

    fn entry(&self, exchange: &Exchange, contents: &Contents) -> Option<Vec<u8>> {
        let entry = contents.entry(exchange).into_json();
        Some(match &self.syslog {
            Some(syslog) => syslog.message(exchange, &entry),
            None => entry,
        })
    }

    fn metadata_properties() -> Value {
        LogglyMetadata::schema()["properties"].take()
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::{accepts, configuration_check};
    use model::catalog::SchemaType;
    use serde_json::json;

    use super::*;

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        check(json!({"customer_token": "t"}), None);
        check(
            json!({
                "customer_token": "t", "severity": "crit", "tags": ["special-route", "a=b"], "ssl_verify": false,
                "severity_map": {"503": "ERR", "410": "alert"}, "max_retry_count": 0, "include_req_body": true,
            }),
            None,
        );
        check(json!({"severity": "DEBUG"}), Some("property \"customer_token\" is required"));
        let with = |field: &str, value: Value| json!({"customer_token": "t", field: value});
        check(with("severity", json!("UNKNOWN")), Some("matches none of the enum values"));
        check(with("tags", json!([])), Some("tags"));
        check(with("tags", json!(["tag=a"])), Some("tags"));
        check(with("severity_map", json!({"600": "ERR"})), Some("severity_map"));
        check(with("severity_map", json!({"500": "bad"})), Some("severity_map"));
        let metadata = |config: Value| accepts(&KIND, SchemaType::Metadata, &config);
        assert_eq!(metadata(json!({"host": "a", "port": 1, "protocol": "https", "timeout": 1})), Ok(()));
        assert_eq!(metadata(json!({"host": "127.0.0.1:10420/loggly", "protocol": "http"})), Ok(()));
        for bad in [
            json!({"protocol": "tcp"}),
            json!({"timeout": 0}),
            json!({"host": ""}),
            json!({"host": "a b", "protocol": "http"}),
            json!({"port": 0}),
        ] {
            assert!(metadata(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn entries_are_syslog_or_json() {
        let entry = |metadata: Option<Value>| {
            let config = json!({"customer_token": "t", "log_format": {"n": "$arg_n"}});
            let bytes = logger::testing::entry::<LogglyLogger>(&config, metadata.as_ref());
            String::from_utf8(bytes).unwrap()
        };
        let json = "{\"n\":\"1\",\"route_id\":\"r1\"}";
        assert_eq!(entry(Some(json!({"protocol": "http"}))), json);
        let syslog = entry(None);
        assert!(
            syslog.starts_with("<14>1 ") && syslog.ends_with(&format!(" - [t@41058 tag=\"apisix\"] {json}")),
            "{syslog}"
        );
    }
}
