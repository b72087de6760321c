//! # splunk-hec-logging
//!
//! Reports every request to Splunk, in batches over its HTTP Event Collector. No request waits for it.
//!
//! ```json
//! {
//!   "endpoint": {
//!     "uri": "https://splunk.example:8088/services/collector",
//!     "token": "$env://SPLUNK_TOKEN"
//!   },
//!   "log_format_extra": { "tenant": "$http_x_tenant" }
//! }
//! ```
//!
//! **Events.** An event has `time` (seconds), `host` (the name of this machine), `source`, `sourcetype` and
//! `event`. Without `log_format`, `event` holds `request_url`, `request_method`, `request_headers`,
//! `request_query`, `request_size`, `response_headers`, `response_status`, `response_size`, `latency`
//! (milliseconds) and `upstream`, and the fields of `log_format_extra`. It includes header fields and so
//! credentials. With `log_format` it holds the chosen fields, as in [http-logger](http-logger.md).
//!
//! **How it is sent.** By POST of the events one behind the other, with `endpoint.token` in `Authorization`
//! and `endpoint.channel` in `X-Splunk-Request-Channel`. Status 200 within `endpoint.timeout` seconds means
//! that the batch has arrived. Idle connections are kept for `endpoint.keepalive_timeout` milliseconds. [The
//! guide](../../guide/logging.md) says when a batch is sent, repeated and dropped.

use exchange::Exchange;
use exchange::plugin::batch::{BatchEntry, Delivery, QueueSettings, Sink};
use exchange::plugin::outbound::HttpClient;
use exchange::plugin::{Build, PluginKind};
use jsonx::Bounds;
use net::endpoint::KeepAlive;
use serde_json::{Map, Value, json};

use crate::shared::attributes::attributes;
use crate::shared::log_entry::hostname;
use crate::shared::logger::collector::{self, Calling, CollectorResponse, LogCollector, URI_PATTERN};
use crate::shared::logger::contents::{Contents, LogEntry};
use crate::shared::logger::times::{now, unix_seconds};
use crate::shared::logger::{self, CommonFields, LogPlugin};

/// The plugin.
pub(crate) const KIND: PluginKind =
    logger::log_plugin_kind::<SplunkLogging>(409, include_str!("splunk_hec_logging.rs"));

attributes! {
    pub(crate) struct SplunkHecLoggingConfig {
        /// The event collector.
        endpoint: SplunkEndpoint;
        /// Whether Splunk's certificate is verified, for an https URI.
        ssl_verify: bool = true;
    }
    { "encrypt_fields": ["endpoint.token"] }
}

attributes! {
    pub(crate) struct SplunkEndpoint {
        /// The URI of the collector.
        uri: String, { "pattern": URI_PATTERN };
        /// The token of the collector.
        token: String, { "minLength": 1 };
        /// The channel, for collectors that acknowledge.
        channel: Option<String>;
        /// Seconds until Splunk has to have answered.
        timeout: u64 = 10, { "minimum": 1 };
        /// Milliseconds that a connection may be idle.
        keepalive_timeout: u64 = 60_000, { "minimum": 1_000 };
    }
}

/// The compiled plugin: an entry is a JSON object.
struct SplunkLogging;

impl LogPlugin for SplunkLogging {
    type TcpLoggerConfig = SplunkHecLoggingConfig;
    type Sink = Splunk;

    const NAME: &'static str = "splunk-hec-logging";
    const COMMON: CommonFields = CommonFields::Format;

    fn compile(config: &SplunkHecLoggingConfig, _metadata: Option<&Value>) -> Result<SplunkLogging, String> {
        collector::check("endpoint.uri", &config.endpoint.uri)?;
        Ok(SplunkLogging)
    }

    fn sink(
        &self,
        build: &Build<'_>,
        config: &SplunkHecLoggingConfig,
        _: &QueueSettings,
    ) -> Result<Splunk, String> {
        let endpoint = &config.endpoint;
        let calling = Calling {
            timeout_ms: endpoint.timeout.saturating_mul(1_000),
            verifies: config.ssl_verify,
            keep_alive: KeepAlive { idle_timeout_ms: endpoint.keepalive_timeout, ..KeepAlive::default() },
        };
        let mut collector = LogCollector::new(build.services, [&*endpoint.uri], calling)?;
        collector.set("endpoint", "Content-Type", "application/json")?;
        collector.set("endpoint.token", "Authorization", &format!("Splunk {}", endpoint.token))?;
        if let Some(channel) = &endpoint.channel {
            collector.set("endpoint.channel", "X-Splunk-Request-Channel", channel)?;
        }
        Ok(Splunk(collector))
    }

    fn entry(&self, exchange: &Exchange, contents: &Contents) -> Option<Vec<u8>> {
        let entry = contents.entry(exchange);
        let event = json!({
            "time": unix_seconds(now(exchange)),
            "host": hostname(),
            "source": SOURCE,
            "sourcetype": "_json",
            "event": event(entry),
        });
        Some(event.to_string().into_bytes())
    }
}

/// The contract's name of the source, which searches of users may hold.
const SOURCE: &str = "apache-apisix-splunk-hec-logging";

/// The chosen fields; without a choice, those that the contract takes of the whole entry, and further ones.
fn event(mut entry: LogEntry) -> Map<String, Value> {
    if entry.is_chosen {
        return entry.fields;
    }
    let mut event = Map::new();
    for (name, pointer) in PARTS {
        let (part, field) = pointer.split_once('/').unwrap_or((pointer, ""));
        let value = match entry.fields.get_mut(part) {
            Some(value) if field.is_empty() => value.take(),
            Some(Value::Object(fields)) => fields.get_mut(field).map(Value::take).unwrap_or_default(),
            _ => Value::Null,
        };
        if !value.is_null() {
            event.insert(name.to_owned(), value);
        }
    }
    for (name, value) in entry.extra {
        event.entry(name).or_insert(value);
    }
    event
}

/// The fields of an event, and where they stand in the whole entry.
const PARTS: [(&str, &str); 10] = [
    ("request_url", "request/url"),
    ("request_method", "request/method"),
    ("request_headers", "request/headers"),
    ("request_query", "request/querystring"),
    ("request_size", "request/size"),
    ("response_headers", "response/headers"),
    ("response_status", "response/status"),
    ("response_size", "response/size"),
    ("latency", "latency"),
    ("upstream", "upstream"),
];

/// Splunk, as one plugin instance reaches it.
struct Splunk(LogCollector);

impl Sink for Splunk {
    fn deliver<'a>(&'a self, client: &'a HttpClient, batch: &'a [BatchEntry]) -> Delivery<'a> {
        Box::pin(async move {
            let answer = self.0.post(client, batch.concat()).await?;
            if answer.status() == 200 { Ok(()) } else { Err(refusal(&answer).into()) }
        })
    }
}

/// The sentence for a response that is not 200: Splunk says the reason in `text`.
fn refusal(answer: &CollectorResponse<'_>) -> String {
    let body: Value = jsonx::read(&answer.response.body, Bounds::SMALL).unwrap_or_default();
    match body["text"].as_str() {
        Some(text) => {
            let text: String = text.chars().filter(|character| !character.is_control()).take(200).collect();
            format!("failed to send splunk, {text}")
        }
        None => format!("failed to send splunk, http status code: {}", answer.status()),
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::{configuration_check, with_fields};

    use super::*;

    fn with(fields: Value) -> Value {
        with_fields(
            json!({"endpoint": {"uri": "http://127.0.0.1:18088/services/collector", "token": "t"}}),
            &fields,
        )
    }

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        let uri = "http://127.0.0.1:18088/services/collector";
        check(with(json!({})), None);
        check(
            with(json!({
                "endpoint": {"uri": uri, "token": "t", "channel": "c", "timeout": 60, "keepalive_timeout": 5_000},
                "ssl_verify": false, "max_retry_count": 0, "batch_max_size": 10, "log_format": {"a": "$host"},
            })),
            None,
        );
        check(json!({}), Some("property \"endpoint\" is required"));
        check(json!({"endpoint": {"token": "t"}}), Some("property \"uri\" is required"));
        check(json!({"endpoint": {"uri": uri}}), Some("property \"token\" is required"));
        check(json!({"endpoint": {"uri": "a", "token": "t"}}), Some("uri"));
        check(json!({"endpoint": {"uri": "ftp://a", "token": "t"}}), Some("endpoint.uri"));
        check(
            json!({"endpoint": {"uri": uri, "token": "t", "keepalive_timeout": 999}}),
            Some("keepalive_timeout"),
        );
        check(with(json!({"include_req_body": true})), Some("include_req_body"));
    }

    #[test]
    fn events_hold_parts_or_chosen_fields() {
        let event = |config: Value| -> Value {
            let bytes = logger::testing::entry::<SplunkLogging>(&with(config), None);
            serde_json::from_slice(&bytes).unwrap()
        };
        let whole = event(json!({"log_format_extra": {"tenant": "$arg_n", "latency": "x"}}));
        assert_eq!(whole["source"], "apache-apisix-splunk-hec-logging");
        assert_eq!((&whole["sourcetype"], &whole["host"]), (&json!("_json"), &json!(hostname())));
        assert!(whole["time"].as_f64().unwrap() > 1.6e9, "{whole}");
        let headers = json!({"host": "shop.example", "user-agent": "ua"});
        let size = &whole["event"]["request_size"];
        let expected = json!({
            "request_url": "http://shop.example:9080/a?n=1", "request_method": "GET", "request_headers": headers,
            "request_query": {"n": "1"}, "request_size": size, "response_headers": {}, "response_status": 200,
            "response_size": 0, "latency": 2.5, "tenant": "1",
        });
        assert_eq!(whole["event"], expected);
        let chosen = event(json!({"log_format": {"n": "$arg_n"}}));
        assert_eq!(chosen["event"], json!({"n": "1", "route_id": "r1"}));
    }

    #[test]
    fn refusals_tell_the_text_of_splunk() {
        let services = exchange::testing::services();
        let place =
            services.destination("http://127.0.0.1:1", Default::default(), &Default::default()).unwrap();
        let message = |body: &str| refusal(&collector::testing::answer(&place, 403, body));
        assert_eq!(
            message(r#"{"text":"Invalid authorization","code":3}"#),
            "failed to send splunk, Invalid authorization"
        );
        assert_eq!(message("<html>"), "failed to send splunk, http status code: 403");
    }
}
