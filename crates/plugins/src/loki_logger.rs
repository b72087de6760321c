//! # loki-logger
//!
//! Reports every request to Grafana Loki, in batches over its push API. No request waits for it.
//!
//! ```json
//! {
//!   "endpoint_addrs": ["http://127.0.0.1:3100"],
//!   "log_labels": { "job": "weir", "service": "$service_name" },
//!   "log_format": { "host": "$host", "status": "$status", "client_ip": "$remote_addr" }
//! }
//! ```
//!
//! **Entries and bodies** are those of [http-logger](http-logger.md). A log line is the entry as JSON; its
//! time is when the request began.
//!
//! **Streams.** `log_labels` are the labels of the stream of a line. Their values may hold variables; a value
//! in which no variable is set stays as it was written. Lines of a batch with equal labels are sent as one
//! stream. Labels with many values (addresses, identifiers) cost Loki much memory: put those into the line.
//!
//! **How it is sent.** By POST to `endpoint_uri` of the endpoints by turns, with `tenant_id` in
//! `X-Scope-OrgID`. `headers` are sent as well; `X-Scope-OrgID` and `Content-Type` among them are ignored. A
//! status below 300 within `timeout` milliseconds means that the batch has arrived. [The
//! guide](../../guide/logging.md) says when a batch is sent, repeated and dropped.
//!
//! Idle connections are kept as `keepalive`, `keepalive_timeout` (milliseconds) and `keepalive_pool` say.
//! Over `https` the certificate is verified only with `ssl_verify: true` (the default is `false`, as in
//! APISIX).

mod sink;

use exchange::Exchange;
use exchange::plugin::batch::QueueSettings;
use exchange::plugin::{Build, PluginKind};
use serde_json::{Map, Value, json};

use crate::shared::attributes::attributes;
use crate::shared::logger::collector::{self, URI_PATTERN};
use crate::shared::logger::contents::Contents;
use crate::shared::logger::text::LogText;
use crate::shared::logger::times::{started, unix_ms};
use crate::shared::logger::{self, LogPlugin};
use sink::Loki;

/// The plugin.
pub(crate) const KIND: PluginKind =
    logger::log_plugin_kind::<LokiLogger>(414, include_str!("loki_logger.rs"));

attributes! {
    pub(crate) struct LokiLoggerConfig {
        /// The endpoints of Loki, which take turns.
        endpoint_addrs: Vec<String>, { "minItems": 1, "items": { "type": "string", "pattern": URI_PATTERN } };
        /// The path of the push API, which is appended to an endpoint.
        endpoint_uri: String = "/loki/api/v1/push".to_owned(), { "minLength": 1 };
        /// The tenant.
        tenant_id: String = "fake".to_owned();
        /// Further fields of requests to Loki.
        headers: Option<Map<String, Value>>, { "patternProperties": { ".*": { "type": "string", "minLength": 1 } } };
        /// The labels of log lines; values may hold variables.
        log_labels: Map<String, Value> = default_labels(),
            { "patternProperties": { ".*": { "type": "string", "minLength": 1 } } };
        /// Whether Loki's certificate is verified, for https endpoints.
        ssl_verify: bool = false;
        /// Milliseconds until Loki has to have answered.
        timeout: u64 = 3_000, { "minimum": 1, "maximum": 60_000 };
        /// Whether connections are kept for further batches.
        keepalive: bool = true;
        /// Milliseconds that a connection may be idle.
        keepalive_timeout: u64 = 60_000, { "minimum": 1_000 };
        /// The most idle connections.
        keepalive_pool: u32 = 5, { "minimum": 1 };
    }
    { "encrypt_fields": ["headers"] }
}

fn default_labels() -> Map<String, Value> {
    Map::from_iter([("job".to_owned(), Value::from("apisix"))])
}

/// The compiled plugin. An entry is two lines of JSON: the labels, and the value (time and log line).
struct LokiLogger {
    labels: Vec<(Box<str>, LogText)>,
}

impl LogPlugin for LokiLogger {
    type TcpLoggerConfig = LokiLoggerConfig;
    type Sink = Loki;

    const NAME: &'static str = "loki-logger";
    const QUEUE_NAME: &'static str = "loki logger";

    fn compile(config: &LokiLoggerConfig, _metadata: Option<&Value>) -> Result<LokiLogger, String> {
        for uri in &config.endpoint_addrs {
            collector::check("endpoint_addrs", uri)?;
        }
        Ok(LokiLogger { labels: LogText::compile_all("log_labels", &config.log_labels)? })
    }

    fn sink(&self, build: &Build<'_>, config: &LokiLoggerConfig, _: &QueueSettings) -> Result<Loki, String> {
        Loki::new(build.services, config)
    }

    fn entry(&self, exchange: &Exchange, contents: &Contents) -> Option<Vec<u8>> {
        let line = contents.json(exchange);
        let label = |(name, text): &(Box<str>, LogText)| {
            (name.to_string(), Value::from(text.render_or_keep(exchange)))
        };
        let labels: Map<String, Value> = self.labels.iter().map(label).collect();
        // Milliseconds with six zeros, as the contract's data plane writes nanoseconds.
        let time = format!("{}000000", unix_ms(started(exchange)));
        let value = json!([time, String::from_utf8_lossy(&line)]);
        Some(format!("{}\n{value}", Value::Object(labels)).into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::{accepts, configuration_check, with_fields};
    use model::catalog::SchemaType;

    use super::*;

    fn with(fields: Value) -> Value {
        with_fields(json!({"endpoint_addrs": ["http://127.0.0.1:3100"]}), &fields)
    }

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        check(with(json!({})), None);
        check(
            with(json!({
                "endpoint_uri": "/push", "tenant_id": "t", "headers": {"X-A": "b"}, "log_labels": {"a": "$host"},
                "timeout": 60_000, "keepalive": false, "keepalive_timeout": 1_000, "keepalive_pool": 1,
                "name": "mine", "include_resp_body": true,
            })),
            None,
        );
        check(json!({}), Some("property \"endpoint_addrs\" is required"));
        for (field, value) in [
            ("endpoint_addrs", json!([])),
            ("endpoint_addrs", json!(["127.0.0.1"])),
            ("endpoint_uri", json!("")),
            ("headers", json!({"a": ""})),
            ("headers", json!({"a": 1})),
            ("log_labels", json!({"a": ""})),
            ("log_labels", json!({"a": "${"})),
            ("timeout", json!(60_001)),
            ("keepalive_timeout", json!(999)),
            ("keepalive_pool", json!(0)),
        ] {
            check(with(json!({field: value})), Some(field));
        }
        assert_eq!(accepts(&KIND, SchemaType::Metadata, &json!({"max_pending_entries": 1})), Ok(()));
    }

    #[test]
    fn entry_is_labels_and_value() {
        let config = with(json!({
            "log_format": {"n": "$arg_n"},
            "log_labels": {"z": "$host", "job": "weir", "kept": "$arg_none", "half": "a-$arg_n-$arg_none"},
        }));
        let entry = logger::testing::entry::<LokiLogger>(&config, None);
        let entry = String::from_utf8(entry).unwrap();
        let (labels, value) = entry.split_once('\n').unwrap();
        assert_eq!(labels, r#"{"half":"a-1-","job":"weir","kept":"$arg_none","z":"shop.example"}"#);
        let value: Value = serde_json::from_str(value).unwrap();
        assert!(value[0].as_str().unwrap().ends_with("000000") && value[0].as_str().unwrap().len() == 19);
        assert_eq!(value[1], r#"{"n":"1","route_id":"r1"}"#);
    }
}
