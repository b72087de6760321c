//! # datadog
//!
//! Reports the latencies and sizes of every request to an agent of Datadog, as metrics of DogStatsD over UDP.
//! No request waits for it.
//!
//! ```json
//! {
//!   "prefer_name": true,
//!   "include_path": true,
//!   "constant_tags": ["team:shop"]
//! }
//! ```
//!
//! **Metrics.** For each request `request.counter`, `request.latency`, `upstream.latency` (if an upstream was
//! asked), `apisix.latency` (histograms, milliseconds), `ingress.size` and `egress.size` (timers, bytes),
//! each behind the namespace.
//!
//! **Tags.** The constant tags of the metadata and of the instance, then `route_name`, `path` (the pattern of
//! the route, with `include_path`), `method` (with `include_method`), `service_name`, `consumer`,
//! `balancer_ip`, `response_status`, `response_status_class` and `scheme`, as far as there are such. With
//! `prefer_name: false`, routes and services are named by their ids.
//!
//! **The agent** stands in the metadata: `host` and `port` (127.0.0.1 and 8125), `namespace` (`apisix`) and
//! `constant_tags` (`source:apisix`). The metrics of a request are one datagram, or one each if they are
//! longer than 8192 bytes together. A datagram that was sent counts as arrived. [The
//! guide](../../guide/logging.md) says when a batch is sent, repeated and dropped.

mod metrics;

use exchange::Exchange;
use exchange::plugin::batch::{BatchEntry, Delivery, DeliveryFailure, QueueSettings, Sink};
use exchange::plugin::outbound::HttpClient;
use exchange::plugin::{Build, PluginKind};
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config::fields_of;
use crate::shared::logger::contents::Contents;
use crate::shared::logger::datagrams::Datagrams;
use crate::shared::logger::{self, CommonFields, LogPlugin};
use metrics::DatadogMetrics;

/// The plugin.
pub(crate) const KIND: PluginKind = logger::log_plugin_kind::<Datadog>(495, include_str!("datadog.rs"));

/// A tag of Datadog: it begins with a letter and does not end in a colon.
const TAG_PATTERN: &str = r"^[\p{L}][\p{L}\p{N}_.:/-]*(?<!:)$";

/// The longest datagram that holds several metrics: agents cut off what is beyond (`dogstatsd_buffer_size`).
const DATAGRAM_MAX_BYTES: usize = 8_192;

/// Milliseconds that a batch waits for the address of the agent, if its name is new.
const LOOKUP_MS: u64 = 5_000;

attributes! {
    pub(crate) struct DatadogConfig {
        /// Whether routes and services are named by their names, if they have such.
        prefer_name: bool = true;
        /// Whether the path pattern of the route is a tag.
        include_path: bool = false;
        /// Whether the method of the request is a tag.
        include_method: bool = false;
        /// Further tags of every metric.
        constant_tags: Vec<String> = Vec::new(), {
            "items": { "type": "string", "minLength": 1, "maxLength": 200, "pattern": TAG_PATTERN },
        };
    }
}

attributes! {
    pub(crate) struct DatadogMetadata {
        /// The host of the agent.
        host: String = "127.0.0.1".to_owned();
        /// The port of the agent.
        port: u16 = 8_125, { "minimum": 0 };
        /// The text before the names of metrics; empty: nothing.
        namespace: String = "apisix".to_owned();
        /// Tags of every metric of all instances.
        constant_tags: Vec<String> = vec!["source:apisix".to_owned()], {
            "items": { "type": "string", "minLength": 1, "maxLength": 200, "pattern": TAG_PATTERN },
        };
    }
}

/// The compiled plugin: an entry is the metrics of a request, a line each.
struct Datadog {
    metrics: DatadogMetrics,
    host: String,
    port: u16,
}

impl LogPlugin for Datadog {
    type TcpLoggerConfig = DatadogConfig;
    type Sink = Agent;

    const NAME: &'static str = "datadog";
    const COMMON: CommonFields = CommonFields::None;

    fn compile(config: &DatadogConfig, metadata: Option<&Value>) -> Result<Datadog, String> {
        let metadata = fields_of::<DatadogMetadata>(metadata)?;
        let metrics = DatadogMetrics::new(config, &metadata);
        Ok(Datadog { metrics, host: metadata.host, port: metadata.port })
    }

    fn sink(&self, build: &Build<'_>, _: &DatadogConfig, _: &QueueSettings) -> Result<Agent, String> {
        Ok(Agent(Datagrams::new(build.services, &self.host, self.port, LOOKUP_MS)?))
    }

    fn entry(&self, exchange: &Exchange, _contents: &Contents) -> Option<Vec<u8>> {
        Some(self.metrics.of(exchange))
    }

    fn metadata_properties() -> Value {
        DatadogMetadata::schema()["properties"].take()
    }
}

/// The agent, as one plugin instance reaches it.
struct Agent(Datagrams);

impl Sink for Agent {
    fn deliver<'a>(&'a self, _client: &'a HttpClient, batch: &'a [BatchEntry]) -> Delivery<'a> {
        Box::pin(async move {
            for (index, entry) in batch.iter().enumerate() {
                for datagram in datagrams(entry) {
                    let sent = self.0.send(datagram).await;
                    sent.map_err(|reason| DeliveryFailure::after(index, reason))?;
                }
            }
            Ok(())
        })
    }
}

/// The datagrams of an entry: one, or one for each line if that would be too long.
fn datagrams(entry: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_long = entry.len() > DATAGRAM_MAX_BYTES;
    entry.split(move |byte| is_long && *byte == b'\n')
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
        check(json!({}), None);
        check(
            json!({"batch_max_size": 10, "prefer_name": false, "include_path": true, "include_method": true}),
            None,
        );
        for tag in ["a", "env:prod", "é1", "a.b/c-d_e:f", &"x".repeat(200)] {
            check(json!({"constant_tags": [tag]}), None);
        }
        for tag in ["", "1a", "a:", "a b", "a|b", "a,b", "a\nb", &"x".repeat(201)] {
            check(json!({"constant_tags": [tag]}), Some("constant_tags"));
        }
        check(json!({"prefer_name": 1}), Some("prefer_name"));
        let metadata = |config: Value| accepts(&KIND, SchemaType::Metadata, &config);
        let whole = json!({"host": "a", "port": 1, "namespace": "", "constant_tags": ["a:b"], "max_pending_entries": 1});
        assert_eq!(metadata(whole), Ok(()));
        assert!(metadata(json!({"port": -1})).is_err());
        assert!(metadata(json!({"constant_tags": ["a b"]})).is_err());
    }

    #[test]
    fn long_metrics_are_a_datagram_each() {
        let check = |entry: &str, expected: &[&str]| {
            let got: Vec<&str> =
                datagrams(entry.as_bytes()).map(|part| str::from_utf8(part).unwrap()).collect();
            assert_eq!(got, expected);
        };
        check("a\nb", &["a\nb"]);
        let long = "x".repeat(DATAGRAM_MAX_BYTES);
        check(&long, &[&long]);
        check(&format!("{long}\nb"), &[&long, "b"]);
    }

    #[test]
    fn agent_stands_in_the_metadata() {
        let agent = |metadata: Option<Value>| {
            let config = DatadogConfig::read(json!({})).unwrap();
            let plugin = Datadog::compile(&config, metadata.as_ref()).unwrap();
            (plugin.host, plugin.port)
        };
        assert_eq!(agent(None), ("127.0.0.1".to_owned(), 8_125));
        let metadata = json!({"host": "dd", "port": 1, "max_pending_entries": 7});
        assert_eq!(agent(Some(metadata)), ("dd".to_owned(), 1));
        assert!(logger::testing::sink::<Datadog>(&json!({}), Some(&json!({"host": "::1"}))).is_ok());
        assert!(logger::testing::sink::<Datadog>(&json!({}), Some(&json!({"port": 0}))).is_err());
    }
}
