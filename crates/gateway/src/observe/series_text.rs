//! Writes the counters of requests in the Prometheus text format, under the contract's names (section 2.6).
//! It runs on the scraper's thread, sums the workers' series and never stops a worker.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use exchange::observe::exemplars::{ByBucket, Exemplar};
use exchange::observe::extra_labels::{ExtraLabelValues, ExtraValues};
use exchange::observe::histogram::{BOUNDS_MS, Histogram, HistogramTotals};
use exchange::observe::labels::{DisabledLabels, LabelSet, OptionalLabel, RequestLabels, ResponseSource};
use exchange::observe::metrics::{RequestSeries, SharedSeries};
use stdx::prometheus_text::{exemplar, header, sample};

#[derive(Default)]
struct SeriesTotals {
    statuses: BTreeMap<(u16, ResponseSource), u64>,
    request: HistogramTotals,
    exemplars: ByBucket,
    upstream: HistogramTotals,
    gateway: HistogramTotals,
    ingress_bytes: u64,
    egress_bytes: u64,
}

impl SeriesTotals {
    fn add(&mut self, series: &RequestSeries) {
        for (status, source, count) in series.statuses() {
            *self.statuses.entry((status, source)).or_default() += count;
        }
        let add = |from: &Histogram, to: &mut HistogramTotals| from.add_to(to);
        add(&series.request, &mut self.request);
        series.exemplars.add_to(&mut self.exemplars);
        add(&series.upstream, &mut self.upstream);
        add(&series.gateway, &mut self.gateway);
        self.ingress_bytes += series.ingress_bytes.load(Ordering::Relaxed);
        self.egress_bytes += series.egress_bytes.load(Ordering::Relaxed);
    }
}

/// Appends the request counters of all workers.
pub fn write_series(workers: &[SharedSeries], text: &mut String) {
    let mut series: Vec<Arc<RequestSeries>> = Vec::new();
    for worker in workers {
        // Locked while the pointers are copied; the worker takes the lock only for a series that it has not
        // seen before.
        series.extend(worker.lock().iter().cloned());
    }
    write_statuses(&merged(&series, |disabled| disabled.http_status, |extra| &extra.http_status), text);
    write_bandwidth(&merged(&series, |disabled| disabled.bandwidth, |extra| &extra.bandwidth), text);
    write_latency(&merged(&series, |disabled| disabled.http_latency, |extra| &extra.http_latency), text);
}

/// The labels of one series of one metric: the others are none here, so that series that differ in them are
/// summed up.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct MetricLabels {
    labels: RequestLabels,
    disabled: LabelSet,
    extra: ExtraValues,
}

type Merged = BTreeMap<MetricLabels, SeriesTotals>;

/// The series of a metric, by those of its labels that are not disabled.
fn merged(
    series: &[Arc<RequestSeries>],
    disabled: impl Fn(&DisabledLabels) -> LabelSet,
    extra: impl Fn(&ExtraLabelValues) -> &ExtraValues,
) -> Merged {
    let mut totals = Merged::new();
    for one in series {
        let disabled = disabled(&one.labels.disabled);
        let labels = RequestLabels {
            disabled: DisabledLabels::default(),
            extra: ExtraLabelValues::default(),
            ..one.labels.without(disabled)
        };
        let key = MetricLabels { labels, disabled, extra: extra(&one.labels.extra).clone() };
        totals.entry(key).or_default().add(one);
    }
    totals
}

impl MetricLabels {
    /// Appends a sample with these labels, then those that a user added.
    fn sample(&self, text: &mut String, name: &str, labels: &[(&str, &dyn Display)], value: impl Display) {
        if self.extra.is_empty() {
            return sample(text, name, labels, value);
        }
        let added = self.extra.iter().map(|(name, value)| (&**name, value as &dyn Display));
        let all: Vec<(&str, &dyn Display)> = labels.iter().copied().chain(added).collect();
        sample(text, name, &all, value);
    }

    /// The kind of all requests that pass here: there are no calls of models.
    fn request_type(&self) -> &'static str {
        if self.disabled.has(OptionalLabel::RequestType) { "" } else { "traditional_http" }
    }
}

fn write_statuses(totals: &Merged, text: &mut String) {
    header(text, "apisix_http_status", "counter", "Requests by status, route, service, consumer and node.");
    for (key, totals) in totals {
        let hides_source = key.disabled.has(OptionalLabel::ResponseSource);
        let mut by_source: BTreeMap<(u16, &str), u64> = BTreeMap::new();
        for ((status, source), count) in &totals.statuses {
            let source = if hides_source { "" } else { source.name() };
            *by_source.entry((*status, source)).or_default() += count;
        }
        for ((status, source), count) in by_source {
            let (request_type, labels) = (key.request_type(), &key.labels);
            let labels: [(&str, &dyn Display); 11] = [
                ("code", &status),
                ("route", &labels.route),
                ("matched_uri", &labels.matched_uri),
                ("matched_host", &labels.matched_host),
                ("service", &labels.service),
                ("consumer", &labels.consumer),
                ("node", &labels.node),
                ("request_type", &request_type),
                ("request_llm_model", &""),
                ("llm_model", &""),
                ("response_source", &source),
            ];
            key.sample(text, "apisix_http_status", &labels, count);
        }
    }
}

fn write_bandwidth(totals: &Merged, text: &mut String) {
    header(text, "apisix_bandwidth", "counter", "Bytes received from and sent to clients.");
    for (key, totals) in totals {
        for (kind, bytes) in [("ingress", totals.ingress_bytes), ("egress", totals.egress_bytes)] {
            key.sample(text, "apisix_bandwidth", &common(&kind, &key.labels, &key.request_type()), bytes);
        }
    }
}

fn write_latency(totals: &Merged, text: &mut String) {
    header(
        text,
        "apisix_http_latency",
        "histogram",
        "Milliseconds of a request in all, at nodes, and in the gateway.",
    );
    for (key, totals) in totals {
        write_histogram(text, key, "request", &totals.request, &totals.exemplars);
        for (kind, histogram) in [("upstream", &totals.upstream), ("apisix", &totals.gateway)] {
            write_histogram(text, key, kind, histogram, &ByBucket::default());
        }
    }
}

fn write_histogram(
    text: &mut String,
    key: &MetricLabels,
    kind: &str,
    totals: &HistogramTotals,
    exemplars: &ByBucket,
) {
    let count: u64 = totals.counts.iter().sum();
    if count == 0 {
        return;
    }
    let request_type = key.request_type();
    let common = common(&kind, &key.labels, &request_type);
    let mut bucket = |bound: &dyn Display, below: u64, index: usize| {
        let [kind, route, service, consumer, node, request_type, asked, model] = common;
        let labels = [kind, route, service, consumer, node, request_type, asked, model, ("le", bound)];
        key.sample(text, "apisix_http_latency_bucket", &labels, below);
        if let Some(Exemplar { trace, us, unix_ms }) = &exemplars[index] {
            let ids = [("trace_id", trace.trace_id_text()), ("span_id", trace.span_id_text())];
            let ids = ids.map(|(name, text)| (name, String::from_utf8_lossy(&text).into_owned()));
            let labels = [(ids[0].0, &ids[0].1 as &dyn Display), (ids[1].0, &ids[1].1)];
            exemplar(text, &labels, *us as f64 / 1_000.0, *unix_ms);
        }
    };
    let mut below = 0;
    for (index, (bound, samples)) in BOUNDS_MS.iter().zip(&totals.counts).enumerate() {
        below += samples;
        bucket(bound, below, index);
    }
    bucket(&"+Inf", count, BOUNDS_MS.len());
    key.sample(text, "apisix_http_latency_sum", &common, totals.sum_us as f64 / 1_000.0);
    key.sample(text, "apisix_http_latency_count", &common, count);
}

/// The labels of the metrics with a `type`.
type CommonLabels<'a> = [(&'static str, &'a dyn Display); 8];

/// The labels that every metric of a series has after `type`.
fn common<'a>(
    kind: &'a dyn Display,
    labels: &'a RequestLabels,
    request_type: &'a &'static str,
) -> CommonLabels<'a> {
    [
        ("type", kind),
        ("route", &labels.route),
        ("service", &labels.service),
        ("consumer", &labels.consumer),
        ("node", &labels.node),
        ("request_type", request_type),
        ("request_llm_model", &""),
        ("llm_model", &""),
    ]
}
