//! # lago
//!
//! Reports every request to Lago as an event for billing, in batches. No request waits for it.
//!
//! ```json
//! {
//!   "endpoint_addrs": ["http://127.0.0.1:3000"],
//!   "token": "$env://LAGO_API_KEY",
//!   "event_transaction_id": "${request_id}",
//!   "event_subscription_id": "cus_${consumer_name}",
//!   "event_code": "requests",
//!   "event_properties": { "status": "${status}" }
//! }
//! ```
//!
//! **Events.** An event has the billable metric `event_code`, the time when the request began,
//! `event_transaction_id` (events with the same one count once), `event_subscription_id` and the texts of
//! `event_properties`. The identifiers and properties may hold variables; a property in which no variable is
//! set stays as it was written.
//!
//! **How it is sent.** By POST to `endpoint_uri` of the endpoints by turns, with `token` as the bearer. A
//! status below 300 within `timeout` milliseconds means that the batch has arrived. Lago takes 100 events at
//! once, the default of `batch_max_size`. Idle connections are kept as `keepalive`, `keepalive_timeout`
//! (milliseconds) and `keepalive_pool` say. [The guide](../../guide/logging.md) says when a batch is sent,
//! repeated and dropped: events for bills are better repeated than lost, so set `max_retry_count`.

use exchange::Exchange;
use exchange::plugin::batch::{BatchEntry, Delivery, QueueSettings, Sink};
use exchange::plugin::outbound::HttpClient;
use exchange::plugin::{Build, PluginKind};
use serde_json::{Map, Value, json};

use crate::shared::attributes::attributes;
use crate::shared::logger::collector::{
    self, Calling, LogCollector, URI_PATTERN, json_list, kept_connections,
};
use crate::shared::logger::contents::Contents;
use crate::shared::logger::text::LogText;
use crate::shared::logger::times::{started, unix_seconds};
use crate::shared::logger::{self, CommonFields, LogPlugin};

/// The plugin.
pub(crate) const KIND: PluginKind = logger::log_plugin_kind::<LagoLogger>(415, include_str!("lago.rs"));

attributes! {
    pub(crate) struct LagoConfig {
        /// The addresses of Lago, which take turns.
        endpoint_addrs: Vec<String>, { "minItems": 1, "items": { "type": "string", "pattern": URI_PATTERN } };
        /// The path for batches of events, which is appended to an address.
        endpoint_uri: String = "/api/v1/events/batch".to_owned(), { "minLength": 1 };
        /// The API key.
        token: String, { "minLength": 1 };
        /// The identifier of an event; it may hold variables.
        event_transaction_id: String;
        /// The subscription of the customer; it may hold variables.
        event_subscription_id: String;
        /// The code of the billable metric.
        event_code: String;
        /// Properties of an event; their values may hold variables.
        event_properties: Option<Map<String, Value>>,
            { "patternProperties": { ".*": { "type": "string", "minLength": 1 } } };
        /// Whether Lago's certificate is verified, for https addresses.
        ssl_verify: bool = true;
        /// Milliseconds until Lago has to have answered.
        timeout: u64 = 3_000, { "minimum": 1, "maximum": 60_000 };
        /// Whether connections are kept for further batches.
        keepalive: bool = true;
        /// Milliseconds that a connection may be idle.
        keepalive_timeout: u64 = 60_000, { "minimum": 1_000 };
        /// The most idle connections.
        keepalive_pool: u32 = 5, { "minimum": 1 };
    }
    { "encrypt_fields": ["token"] }
}

/// The compiled plugin: an entry is a JSON object.
struct LagoLogger {
    transaction_id: LogText,
    subscription_id: LogText,
    code: Box<str>,
    properties: Option<Vec<(Box<str>, LogText)>>,
}

impl LogPlugin for LagoLogger {
    type TcpLoggerConfig = LagoConfig;
    type Sink = Lago;

    const NAME: &'static str = "lago";
    const QUEUE_NAME: &'static str = "lago logger";
    const BATCH_MAX_SIZE: usize = 100;
    const COMMON: CommonFields = CommonFields::None;

    fn compile(config: &LagoConfig, _metadata: Option<&Value>) -> Result<LagoLogger, String> {
        config.endpoint_addrs.iter().try_for_each(|uri| collector::check("endpoint_addrs", uri))?;
        let properties = config.event_properties.as_ref();
        Ok(LagoLogger {
            transaction_id: LogText::compile("event_transaction_id", &config.event_transaction_id)?,
            subscription_id: LogText::compile("event_subscription_id", &config.event_subscription_id)?,
            code: (&*config.event_code).into(),
            properties: properties
                .map(|written| LogText::compile_all("event_properties", written))
                .transpose()?,
        })
    }

    fn sink(&self, build: &Build<'_>, config: &LagoConfig, _: &QueueSettings) -> Result<Lago, String> {
        let calling = Calling {
            timeout_ms: config.timeout,
            verifies: config.ssl_verify,
            keep_alive: kept_connections(config.keepalive, config.keepalive_pool, config.keepalive_timeout),
        };
        let uris: Vec<String> =
            config.endpoint_addrs.iter().map(|address| format!("{address}{}", config.endpoint_uri)).collect();
        let mut collector = LogCollector::new(build.services, uris.iter().map(String::as_str), calling)?;
        collector.set("token", "Authorization", &format!("Bearer {}", config.token))?;
        collector.set("token", "Content-Type", "application/json")?;
        Ok(Lago(collector))
    }

    fn entry(&self, exchange: &Exchange, _contents: &Contents) -> Option<Vec<u8>> {
        let mut event = json!({
            "transaction_id": self.transaction_id.render(exchange),
            "external_subscription_id": self.subscription_id.render(exchange),
            "code": &*self.code,
            "timestamp": unix_seconds(started(exchange)),
        });
        if let Some(properties) = &self.properties {
            let property = |(name, text): &(Box<str>, LogText)| {
                (name.to_string(), Value::from(text.render_or_keep(exchange)))
            };
            event["properties"] = properties.iter().map(property).collect::<Map<_, _>>().into();
        }
        Some(event.to_string().into_bytes())
    }
}

/// Lago, as one plugin instance reaches it.
struct Lago(LogCollector);

impl Sink for Lago {
    fn deliver<'a>(&'a self, client: &'a HttpClient, batch: &'a [BatchEntry]) -> Delivery<'a> {
        Box::pin(async move {
            let body = [b"{\"events\":", &*json_list(batch), b"}"].concat();
            let answer = self.0.post(client, body).await?;
            if answer.status() < 300 {
                return Ok(());
            }
            let (status, excerpt) = (answer.status(), answer.body_excerpt());
            Err(format!("lago api returned status: {status}, body: {excerpt}").into())
        })
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::{configuration_check, with_fields};

    use super::*;

    fn with(fields: Value) -> Value {
        with_fields(
            json!({
                "endpoint_addrs": ["http://127.0.0.1:1"], "token": "t", "event_transaction_id": "tx_${arg_n}",
                "event_subscription_id": "$host", "event_code": "c",
            }),
            &fields,
        )
    }

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        check(with(json!({})), None);
        check(with(json!({"event_properties": {"a": "${status}"}, "keepalive": false, "name": "n"})), None);
        for name in ["endpoint_addrs", "token", "event_transaction_id", "event_subscription_id", "event_code"]
        {
            let mut config = with(json!({}));
            config.as_object_mut().unwrap().shift_remove(name);
            check(config, Some(&format!("property \"{name}\" is required")));
        }
        for (field, value) in [
            ("endpoint_addrs", json!([])),
            ("endpoint_addrs", json!(["a"])),
            ("endpoint_uri", json!("")),
            ("event_properties", json!({"a": 1})),
            ("event_properties", json!({"a": "${"})),
            ("event_subscription_id", json!("${")),
            ("timeout", json!(60_001)),
            ("log_format", json!({})),
        ] {
            check(with(json!({field: value})), Some(field));
        }
        assert_eq!((KIND.schema)()["properties"]["batch_max_size"]["default"], 100);
    }

    #[test]
    fn events_hold_rendered_texts() {
        let event = |config: Value| -> Value {
            serde_json::from_slice(&logger::testing::entry::<LagoLogger>(&with(config), None)).unwrap()
        };
        let properties =
            json!({"status": "${status}", "plain": "a", "kept": "$arg_none", "both": "$arg_n$arg_none"});
        let whole = event(json!({"event_properties": properties}));
        let expected = json!({
            "transaction_id": "tx_1", "external_subscription_id": "shop.example", "code": "c",
            "timestamp": whole["timestamp"],
            "properties": {"status": "200", "plain": "a", "kept": "$arg_none", "both": "1"},
        });
        assert_eq!(whole, expected);
        assert!(whole["timestamp"].as_f64().unwrap() > 1.6e9);
        assert!(event(json!({})).get("properties").is_none());
    }
}
