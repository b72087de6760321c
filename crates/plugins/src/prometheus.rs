//! # prometheus
//!
//! Counts the requests of a route for a Prometheus scrape: statuses, latencies (in all, at the nodes, in the gateway)
//! and bytes in both directions, each by route, service, consumer and node.
//!
//! ```json
//! {
//!     "prefer_name": true
//! }
//! ```
//!
//! The counters are read at the metrics listener, by default `http://127.0.0.1:9091/apisix/prometheus/metrics`; its
//! connection counters and totals exist whether or not this plugin is in use. In a global rule it counts every request,
//! also those that match no route; if a route has a copy of its own, only that one counts.
//!
//! With `prefer_name` the labels `route` and `service` hold names if there are any, otherwise ids. Ids are unique and
//! names need not be: requests of routes that share a name add up in one series.

use std::sync::Arc;

use exchange::Exchange;
use exchange::observe::metrics::{LabelBy, WorkerMetrics};
use exchange::plugin::{Build, Phase, Plugin, PluginKind};
use serde_json::{Value, json};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind = PluginKind::new("prometheus", 500, &[Phase::Log], Config::schema, build)
    .checked(|config| compile(config).map(drop))
    .with_metadata(metadata_schema)
    .prefers_route()
    .documented(include_str!("prometheus.rs"));

attributes! {
    struct Config {
        /// Labels routes and services by name instead of id, where they have one.
        prefer_name: bool = false;
    }
    {"title": "Count requests for Prometheus"}
}

fn metadata_schema() -> Value {
    json!({
        "type": "object",
        "title": "Nothing yet",
        "properties": {
            "disabled_labels": {
                "type": "object",
                "description": "Labels to leave empty, by metric. Not supported yet: only an empty object is taken.",
                "maxProperties": 0
            }
        },
        "additionalProperties": false
    })
}

struct Prometheus {
    label_by: LabelBy,
}

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(compile(config)?))
}

fn compile(config: &Value) -> Result<Prometheus, String> {
    let config: Config = config::parse(config)?;
    Ok(Prometheus { label_by: if config.prefer_name { LabelBy::Name } else { LabelBy::Id } })
}

impl Plugin for Prometheus {
    fn log(&self, exchange: &Exchange) {
        exchange.local().resource(WorkerMetrics::default).record(exchange, self.label_by);
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, accepts, respond, route};
    use model::catalog::SchemaType;

    use super::*;

    #[test]
    fn configurations() {
        let check = |config: Value, good: bool| {
            let got = accepts(&KIND, SchemaType::Plugin, &config);
            assert_eq!(got.is_ok(), good, "{config}: {got:?}");
        };
        check(json!({}), true);
        check(json!({"prefer_name": true}), true);
        check(json!({"_meta": {"priority": 1}}), true);
        check(json!({"prefer_name": "yes"}), false);
        check(json!({"prefer_names": true}), false);
        let metadata = |config: Value| accepts(&KIND, SchemaType::Metadata, &config).is_ok();
        assert!(metadata(json!({})) && metadata(json!({"disabled_labels": {}})));
        assert!(!metadata(json!({"disabled_labels": {"http_status": ["node"]}})), "it would have no effect");
    }

    /// The route and service labels, and the statuses, after these responses.
    fn check(config: Value, names: bool, statuses: &[u16], expected: (&str, &str, &[(u64, u64)])) {
        let mut matched = route("r1");
        matched.service = Some(Arc::new(exchange::exchange::ServiceName {
            id: "s1".into(),
            name: names.then(|| "billing".into()),
            written: "{}".into(),
        }));
        matched.name = names.then(|| "invoices".into());
        let mut scene = Scene::new().with_route(matched);
        let plugin = scene.build(&KIND, &config);
        for status in statuses {
            let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            respond(&mut exchange, *status, &[]);
            plugin.log(&exchange);
        }
        let shared = scene
            .exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .local()
            .resource(WorkerMetrics::default)
            .shared();
        let series = shared.lock();
        let [series] = &series[..] else { panic!("one series, not {}", series.len()) };
        let counted: Vec<(u64, u64)> = series.statuses().collect();
        assert_eq!((&*series.labels.route, &*series.labels.service, &counted[..]), expected);
    }

    #[test]
    fn requests_are_counted_by_id_or_name() {
        check(json!({}), true, &[200, 200, 404], ("r1", "s1", &[(200, 2), (404, 1)]));
        check(json!({"prefer_name": true}), true, &[200], ("invoices", "billing", &[(200, 1)]));
        check(json!({"prefer_name": true}), false, &[503], ("r1", "s1", &[(503, 1)]));
    }
}
