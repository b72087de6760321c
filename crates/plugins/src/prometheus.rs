//! # prometheus
//!
//! Counts the requests of a route for a Prometheus scrape: statuses, latencies (in all, at the nodes, in the
//! gateway) and bytes in both directions, each by route, service, consumer and node.
//!
//! ```json
//! {
//!     "prefer_name": true
//! }
//! ```
//!
//! The counters are read at the metrics listener, by default
//! `http://127.0.0.1:9091/apisix/prometheus/metrics`; its connection counters and totals exist whether or not
//! this plugin is in use. A route with `public-api` serves the same text at `GET /apisix/prometheus/metrics`.
//! In a global rule this plugin counts every request, also those that match no route; if a route has a copy
//! of its own, only that one counts.
//!
//! With `prefer_name` the labels `route` and `service` hold names if there are any, otherwise ids. Ids are
//! unique and names need not be: requests of routes that share a name add up in one series.
//!
//! The label `response_source` of `apisix_http_status` is `upstream` for responses of nodes, `nginx` (the
//! word of APISIX) for responses of the gateway because a node gave none, and `apisix` for all others.
//! `request_type` is `traditional_http`, and the labels of models are empty.
//!
//! A reader that asks for OpenMetrics by its `Accept`, as Prometheus does, gets it, with **exemplars**: where
//! [`opentelemetry`](opentelemetry.md) or [`zipkin`](zipkin.md) report the traces of requests, each bucket of
//! `apisix_http_latency` with the type `request` has the ids of the newest trace in it, so that a slow bucket
//! leads to a request that was as slow. In the plain text they are comments. Names and labels are the same in
//! both formats; counters without `_total` are `unknown` in OpenMetrics.
//!
//! The metadata can leave labels empty, which lowers the number of series, and add labels with variables,
//! which raises it:
//!
//! ```json
//! {
//!   "disabled_labels": { "http_status": ["node", "consumer"], "http_latency": ["node"] },
//!   "extra_labels": { "http_status": [{ "tenant": "$http_x_tenant" }] }
//! }
//! ```
//!
//! The value of an added label is cut at 128 bytes. A variable that clients choose, as in this example, lets
//! them make 10,000 series of each worker; from then on the values of requests that would make another one
//! are left empty.
//!
//! **On a stream route** sessions are counted, as in APISIX by `apisix_stream_connection_total` (label
//! `route`), `apisix_stream_status` (`code`, `listen_addr`, `node`), `apisix_stream_active_connections`
//! (`listen_addr`) and `apisix_stream_bandwidth` (`listen_addr`, `type`, `side`). The codes are those of
//! nginx: 200 for a session that was served, 400 and 502 for one that the client or the node has cut, 403 for
//! a refused one, 500, 502 and 503 for one without a node. Beyond APISIX, `weir_stream_route_sessions_total`
//! has the cause of the end, `weir_stream_route_bytes_total` the bytes, and
//! `weir_stream_route_session_seconds` the durations, each by route. Counters and bytes of a session are
//! added when it ends. There are at most 2,000 routes, listeners, and sums of statuses each; further ones are
//! counted as `other`.

mod streams;

use std::collections::BTreeSet;
use std::sync::Arc;

use exchange::Exchange;
use exchange::observe::extra_labels::ExtraLabels;
use exchange::observe::labels::{DisabledLabels, LabelBy, LabelPolicy, LabelSet, OptionalLabel};
use exchange::observe::metrics::WorkerMetrics;
use exchange::plugin::scrapes::{NoMetrics, Scrapes};
use exchange::plugin::stream::{StreamKind, StreamPhase};
use exchange::plugin::{
    BufferedReply, Build, Flow, PhaseDecision, Plugin, PluginApi, PluginKind, PluginPhase,
};
use message::Method;
use router::vars::Template;
use serde_json::{Value, json};
use stdx::open_metrics;

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("prometheus", 500, &[PluginPhase::Log], PrometheusConfig::schema, build)
        .with_metadata(metadata_schema)
        .checked_metadata(|metadata| extra_labels(metadata).map(drop))
        .with_apis(&[PluginApi { method: Method::Get, path: "/apisix/prometheus/metrics" }])
        .prefers_route()
        .on_streams(StreamKind { phases: &[StreamPhase::Preread, StreamPhase::Log], build: streams::build })
        .documented(include_str!("prometheus.rs"));

/// The Prometheus text exposition format.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

attributes! {
    struct PrometheusConfig {
        /// Labels routes and services by name instead of id, where they have one.
        prefer_name: bool = false;
    }
    {"title": "Count requests for Prometheus"}
}

fn metadata_schema() -> Value {
    let labels = |names: &[&str]| {
        json!({
            "type": "array",
            "description": "The labels to leave empty.",
            "items": { "type": "string", "enum": names }
        })
    };
    let mut metrics = json!({
        "http_status": labels(&OptionalLabel::ALL.map(OptionalLabel::name)),
        "http_latency": labels(COMMON_LABELS),
        "bandwidth": labels(COMMON_LABELS),
    });
    for name in METRICS_OF_MODELS {
        metrics[*name] = json!({
            "type": "array",
            "description": "No effect, because there are no metrics of models.",
            "items": { "type": "string" }
        });
    }
    let added = || {
        json!({
            "type": "array",
            "description": "The labels to add: each an object of one name and its value, such as `$upstream_addr`.",
            "maxItems": EXTRA_LABELS_MAX,
            "items": {
                "type": "object",
                "minProperties": 1,
                "maxProperties": 1,
                "additionalProperties": { "type": "string" }
            }
        })
    };
    json!({
        "type": "object",
        "title": "Labels that are left empty or added",
        "properties": {
            "extra_labels": {
                "type": "object",
                "description": "Labels to add, by metric. APISIX has them in its `config.yaml`.",
                "properties": { "http_status": added(), "http_latency": added(), "bandwidth": added() },
                "additionalProperties": false
            },
            "disabled_labels": {
                "type": "object",
                "description": "Labels to leave empty, by metric.",
                "properties": metrics,
                "additionalProperties": false
            }
        },
        "additionalProperties": false
    })
}

/// Labels added to one metric; each multiplies the number of series.
const EXTRA_LABELS_MAX: usize = 8;
/// The labels that latency and bandwidth have besides `type`, which cannot be left empty.
const COMMON_LABELS: &[&str] =
    &["route", "service", "consumer", "node", "request_type", "request_llm_model", "llm_model"];
/// Metrics of APISIX that this gateway does not have. Metadata may name them.
const METRICS_OF_MODELS: &[&str] = &[
    "llm_latency",
    "llm_prompt_tokens",
    "llm_completion_tokens",
    "llm_active_connections",
    "llm_prompt_tokens_dist",
    "llm_completion_tokens_dist",
    "ai_cache_hits_total",
    "ai_cache_misses_total",
    "ai_cache_bypasses_total",
    "ai_cache_embedding_latency",
];

/// The compiled plugin.
struct Prometheus {
    policy: LabelPolicy,
    extra: Option<ExtraLabels>,
    scrapes: Arc<Scrapes>,
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let config: PrometheusConfig = config::parse_config(config)?;
    let by = if config.prefer_name { LabelBy::Name } else { LabelBy::Id };
    let policy = LabelPolicy { by, disabled: disabled_labels(build.metadata) };
    let extra = build.metadata.map(extra_labels).transpose()?.filter(|extra| !extra.is_empty());
    Ok(Arc::new(Prometheus { policy, extra, scrapes: build.services.scrapes().clone() }))
}

fn extra_labels(metadata: &Value) -> Result<ExtraLabels, String> {
    let of = |metric: &str| -> Result<Vec<(Box<str>, Template)>, String> {
        let written = metadata["extra_labels"][metric].as_array();
        let labels = written.into_iter().flatten().filter_map(Value::as_object).flatten();
        let compile = |(name, value): (&String, &Value)| {
            let fault = |reason: &str| format!("extra_labels.{metric}: {name}: {reason}");
            if !is_label_name(name) {
                return Err(fault("a label has letters, digits and _, and no digit first"));
            }
            if ["code", "type", "le"].contains(&&**name) || OptionalLabel::named(name).is_some() {
                return Err(fault("the metric has a label of this name"));
            }
            let template = Template::compile(value.as_str().unwrap_or_default());
            Ok((name.as_str().into(), template.map_err(|error| fault(&error.to_string()))?))
        };
        let labels: Vec<(Box<str>, Template)> = labels.map(compile).collect::<Result<_, String>>()?;
        let names: BTreeSet<&str> = labels.iter().map(|(name, _)| &**name).collect();
        if names.len() < labels.len() {
            return Err(format!("extra_labels.{metric}: a label is written twice"));
        }
        Ok(labels)
    };
    Ok(ExtraLabels {
        http_status: of("http_status")?,
        http_latency: of("http_latency")?,
        bandwidth: of("bandwidth")?,
    })
}

/// As the text format allows, without the names that begin with two underscores, which Prometheus has for
/// itself.
fn is_label_name(name: &str) -> bool {
    let is_first = |first: char| first == '_' || first.is_ascii_alphabetic();
    name.starts_with(is_first)
        && !name.starts_with("__")
        && name.chars().all(|letter| letter == '_' || letter.is_ascii_alphanumeric())
}

fn disabled_labels(metadata: Option<&Value>) -> DisabledLabels {
    let set = |metric: &str| {
        let names = metadata.and_then(|metadata| metadata["disabled_labels"][metric].as_array());
        let labels = names.into_iter().flatten().filter_map(Value::as_str).filter_map(OptionalLabel::named);
        LabelSet::of(&labels.collect::<Vec<_>>())
    };
    DisabledLabels {
        http_status: set("http_status"),
        http_latency: set("http_latency"),
        bandwidth: set("bandwidth"),
    }
}

impl Plugin for Prometheus {
    fn log(&self, exchange: &Exchange) {
        exchange.local().resource(WorkerMetrics::default).record(exchange, self.policy, self.extra.as_ref());
    }

    fn api<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let accept = exchange.request.headers.get("accept").unwrap_or_default();
        let is_open = open_metrics::is_wanted(&String::from_utf8_lossy(accept));
        Flow::Wait(Box::pin(async move {
            let format = if is_open { open_metrics::CONTENT_TYPE } else { TEXT_FORMAT };
            PhaseDecision::Reply(Box::new(match self.scrapes.text(is_open).await {
                Ok(text) => BufferedReply::status(200)
                    .with_header("Content-Type", format)
                    .with_body(text.into_bytes()),
                Err(NoMetrics::Busy) => BufferedReply::message(503, "Too many scrapes run"),
                Err(NoMetrics::Absent) => {
                    BufferedReply::message(500, "Failed to retrieve metrics: no data available")
                }
            }))
        }))
    }
}

#[cfg(test)]
mod tests {
    use exchange::observe::labels::ResponseSource;
    use exchange::testing::{Scene, accepts, consumer, decide, respond, route};
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
        for (labels, good) in [
            (json!({}), true),
            (json!({"http_status": ["node", "response_source"], "bandwidth": ["route"]}), true),
            (json!({"llm_latency": ["node"]}), true),
            (json!({"http_status": ["code"]}), false),
            (json!({"http_latency": ["matched_uri"]}), false),
            (json!({"http_state": ["node"]}), false),
        ] {
            assert_eq!(metadata(json!({"disabled_labels": labels})), good, "{labels}");
        }
        assert!(metadata(json!({})));
        for (labels, good) in [
            (json!([{"tenant": "$http_x_tenant"}, {"zone": "a"}]), true),
            (json!([{"tenant": "$http_x_tenant", "zone": "a"}]), false),
            (json!([{"te-nant": "a"}]), false),
            (json!([{"__name": "a"}]), false),
            (json!([{"route": "a"}]), false),
            (json!([{"code": "a"}]), false),
            (json!([{"a": "${b"}]), false),
            (json!([{"a": "1"}, {"a": "2"}]), false),
            (json!([{"a": 1}]), false),
        ] {
            let checked =
                accepts(&KIND, SchemaType::Metadata, &json!({"extra_labels": {"http_status": labels}}));
            assert_eq!(checked.is_ok(), good, "{labels}: {checked:?}");
        }
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
        let counted: Vec<(u64, u64)> =
            series.statuses().map(|(code, _, count)| (u64::from(code), count)).collect();
        assert_eq!((&*series.labels.route, &*series.labels.service, &counted[..]), expected);
    }

    #[test]
    fn requests_are_counted_by_id_or_name() {
        check(json!({}), true, &[200, 200, 404], ("r1", "s1", &[(200, 2), (404, 1)]));
        check(json!({"prefer_name": true}), true, &[200], ("invoices", "billing", &[(200, 1)]));
        check(json!({"prefer_name": true}), false, &[503], ("r1", "s1", &[(503, 1)]));
    }

    #[test]
    fn disabled_labels_leave_fewer_series() {
        let mut scene = Scene::new().with_route(route("r1")).with_named_consumer(consumer("jack"));
        let disabled = json!(["consumer"]);
        let metadata = json!({"disabled_labels": {
            "http_status": disabled, "http_latency": disabled, "bandwidth": disabled,
        }});
        let plugin = scene.build_with(&KIND, &json!({}), Some(&metadata));
        for is_known in [true, false] {
            let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            if is_known {
                let jack = exchange.consumer_named("jack").unwrap();
                exchange.authenticate(jack);
            }
            respond(&mut exchange, 200, &[]);
            plugin.log(&exchange);
        }
        let exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let shared = exchange.local().resource(WorkerMetrics::default).shared();
        let series = shared.lock();
        let [series] = &series[..] else { panic!("one series, not {}", series.len()) };
        let counted: Vec<_> = series.statuses().collect();
        assert_eq!((&*series.labels.consumer, &counted[..]), ("", &[(200, ResponseSource::Gateway, 2)][..]));
    }

    #[test]
    fn added_labels_keep_series_apart() {
        let mut scene = Scene::new().with_route(route("r1"));
        let metadata = json!({"extra_labels": {"http_status": [{"tenant": "$http_x_tenant"}], "bandwidth": [{"z": "1"}]}});
        let plugin = scene.build_with(&KIND, &json!({}), Some(&metadata));
        let long = "x".repeat(200);
        for tenant in ["a", "b", "a", &long] {
            let head = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Tenant: {tenant}\r\n\r\n");
            let mut exchange = scene.exchange(head.as_bytes());
            respond(&mut exchange, 200, &[]);
            plugin.log(&exchange);
        }
        let exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let shared = exchange.local().resource(WorkerMetrics::default).shared();
        let series = shared.lock();
        let tenants: Vec<(&str, usize, u64)> = series
            .iter()
            .map(|one| {
                let (name, value) = &one.labels.extra.http_status[0];
                assert_eq!((&**name, &*one.labels.extra.bandwidth[0].1), ("tenant", "1"));
                (&value[..1], value.len(), one.statuses().map(|(.., count)| count).sum())
            })
            .collect();
        assert_eq!(tenants, [("a", 1, 2), ("b", 1, 1), ("x", 128, 1)]);
    }

    #[test]
    fn endpoint_without_metrics_is_answered_500() {
        let mut scene = Scene::new();
        let plugin = scene.build(&KIND, &json!({}));
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let reply = decide(plugin.api(&mut exchange)).unwrap();
        assert_eq!(reply.status, 500);
        assert!(String::from_utf8_lossy(&reply.body).contains("no data available"));
    }
}
