//! The metrics that guests define: numbers of the process, by plugin and name, with the lines of the
//! Prometheus text. It knows no guest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use model::report::MetricsText;
use parking_lot::Mutex;
use stdx::prometheus_text;

use crate::abi::AbiStatus;
use crate::limits::{METRIC_NAME_BYTES_MAX, METRICS_MAX};

/// The upper bounds of the buckets of histograms. Guests say no unit; powers of ten with a half serve
/// milliseconds and bytes.
const BOUNDS: [u64; 14] = [1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 100_000, 1_000_000];

/// The kinds of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

impl MetricKind {
    /// The kind of `number`.
    pub(crate) fn of(number: i32) -> Option<MetricKind> {
        match number {
            0 => Some(MetricKind::Counter),
            1 => Some(MetricKind::Gauge),
            2 => Some(MetricKind::Histogram),
            _ => None,
        }
    }

    fn text(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        }
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct GuestMetrics {
    metrics: Mutex<Vec<Arc<Metric>>>,
}

/// One metric.
pub(crate) struct Metric {
    plugin: &'static str,
    name: String,
    kind: MetricKind,
    value: AtomicU64,
    count: AtomicU64,
    buckets: [AtomicU64; BOUNDS.len()],
}

impl GuestMetrics {
    /// The number of the metric `name` of `plugin`, made if there is none.
    pub(crate) fn define(
        &self,
        plugin: &'static str,
        kind: MetricKind,
        name: &[u8],
    ) -> Result<u32, AbiStatus> {
        if name.is_empty() || name.len() > METRIC_NAME_BYTES_MAX {
            return Err(AbiStatus::BadArgument);
        }
        let name = cleaned(name);
        let mut metrics = self.metrics.lock();
        if let Some(found) = metrics.iter().position(|one| one.plugin == plugin && one.name == name) {
            let is_same = metrics[found].kind == kind;
            return if is_same { Ok(found as u32 + 1) } else { Err(AbiStatus::BadArgument) };
        }
        if metrics.iter().filter(|one| one.plugin == plugin).count() >= METRICS_MAX {
            return Err(AbiStatus::InternalFailure);
        }
        metrics.push(Arc::new(Metric {
            plugin,
            name,
            kind,
            value: AtomicU64::default(),
            count: AtomicU64::default(),
            buckets: Default::default(),
        }));
        Ok(metrics.len() as u32)
    }

    /// The metric with this number, if it belongs to `plugin`.
    pub(crate) fn get(&self, plugin: &'static str, number: u32) -> Result<Arc<Metric>, AbiStatus> {
        let index = number.checked_sub(1).ok_or(AbiStatus::NotFound)? as usize;
        let metrics = self.metrics.lock();
        metrics.get(index).filter(|one| one.plugin == plugin).cloned().ok_or(AbiStatus::NotFound)
    }
}

impl Metric {
    /// Sets a gauge to `value`, adds a measurement to a histogram, and raises a counter by `value`.
    pub(crate) fn record(&self, value: u64) {
        match self.kind {
            MetricKind::Counter => drop(self.value.fetch_add(value, Ordering::Relaxed)),
            MetricKind::Gauge => self.value.store(value, Ordering::Relaxed),
            MetricKind::Histogram => {
                self.value.fetch_add(value, Ordering::Relaxed);
                self.count.fetch_add(1, Ordering::Relaxed);
                if let Some(index) = BOUNDS.iter().position(|bound| value <= *bound) {
                    self.buckets[index].fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Changes the metric by `delta`. A counter only grows, and a histogram has no single value.
    pub(crate) fn increment(&self, delta: i64) -> Result<(), AbiStatus> {
        match self.kind {
            MetricKind::Counter if delta < 0 => return Err(AbiStatus::BadArgument),
            MetricKind::Histogram => return Err(AbiStatus::BadArgument),
            MetricKind::Counter | MetricKind::Gauge => {}
        }
        self.value.fetch_add(delta as u64, Ordering::Relaxed);
        Ok(())
    }

    /// The value; of a histogram, the sum of its measurements.
    pub(crate) fn value(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }
}

/// `name` in the letters of Prometheus, behind `wasm_`.
fn cleaned(name: &[u8]) -> String {
    let letter = |byte: &u8| if byte.is_ascii_alphanumeric() { char::from(*byte) } else { '_' };
    let mut clean: String = "weir_wasm_".to_owned();
    clean.extend(name.iter().map(letter));
    clean
}

impl MetricsText for GuestMetrics {
    fn write_metrics(&self, text: &mut String) {
        let metrics: Vec<Arc<Metric>> = self.metrics.lock().clone();
        // All samples of a name stand together; plugins may use one name for different kinds.
        let mut by_name: BTreeMap<(&str, MetricKind), Vec<&Metric>> = BTreeMap::new();
        for metric in &metrics {
            by_name.entry((&metric.name, metric.kind)).or_default().push(metric);
        }
        let mut last = "";
        for ((name, kind), samples) in &by_name {
            if last == *name {
                continue;
            }
            last = name;
            prometheus_text::header(text, name, kind.text(), "Defined by plugins in WebAssembly.");
            for metric in samples {
                metric.write(text);
            }
        }
    }
}

impl Metric {
    fn write(&self, text: &mut String) {
        let (name, plugin) = (&self.name, self.plugin);
        if self.kind != MetricKind::Histogram {
            let value = self.value();
            // A gauge may have gone below zero.
            return if self.kind == MetricKind::Gauge {
                prometheus_text::sample(text, name, &[("plugin", &plugin)], value as i64);
            } else {
                prometheus_text::sample(text, name, &[("plugin", &plugin)], value);
            };
        }
        let mut sum = 0;
        for (bound, bucket) in BOUNDS.iter().zip(&self.buckets) {
            sum += bucket.load(Ordering::Relaxed);
            let labels: [(&str, &dyn std::fmt::Display); 2] = [("plugin", &plugin), ("le", bound)];
            prometheus_text::sample(text, &format!("{name}_bucket"), &labels, sum);
        }
        let count = self.count.load(Ordering::Relaxed);
        prometheus_text::sample(
            text,
            &format!("{name}_bucket"),
            &[("plugin", &plugin), ("le", &"+Inf")],
            count,
        );
        prometheus_text::sample(text, &format!("{name}_sum"), &[("plugin", &plugin)], self.value());
        prometheus_text::sample(text, &format!("{name}_count"), &[("plugin", &plugin)], count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_show_under_clean_names() {
        let metrics = GuestMetrics::default();
        let counter = metrics.define("a", MetricKind::Counter, b"requests.total-1").unwrap();
        assert_eq!(metrics.define("a", MetricKind::Counter, b"requests.total-1"), Ok(counter));
        assert_eq!(metrics.define("a", MetricKind::Gauge, b"requests.total-1"), Err(AbiStatus::BadArgument));
        assert!(metrics.get("b", counter).is_err(), "another plugin's");
        let counted = metrics.get("a", counter).unwrap();
        counted.increment(2).unwrap();
        assert_eq!(counted.increment(-1), Err(AbiStatus::BadArgument));
        let gauge = metrics.define("a", MetricKind::Gauge, b"level").unwrap();
        metrics.get("a", gauge).unwrap().increment(-3).unwrap();
        let histogram = metrics.define("b", MetricKind::Histogram, b"size").unwrap();
        let measured = metrics.get("b", histogram).unwrap();
        for value in [3, 30, 3_000_000] {
            measured.record(value);
        }
        let mut text = String::new();
        metrics.write_metrics(&mut text);
        for line in [
            "weir_wasm_requests_total_1{plugin=\"a\"} 2",
            "weir_wasm_level{plugin=\"a\"} -3",
            "weir_wasm_size_bucket{plugin=\"b\",le=\"5\"} 1",
            "weir_wasm_size_bucket{plugin=\"b\",le=\"50\"} 2",
            "weir_wasm_size_bucket{plugin=\"b\",le=\"+Inf\"} 3",
            "weir_wasm_size_sum{plugin=\"b\"} 3000033",
            "weir_wasm_size_count{plugin=\"b\"} 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn metrics_of_a_plugin_are_bounded() {
        let metrics = GuestMetrics::default();
        for index in 0..METRICS_MAX {
            metrics.define("a", MetricKind::Counter, index.to_string().as_bytes()).unwrap();
        }
        assert_eq!(metrics.define("a", MetricKind::Counter, b"x"), Err(AbiStatus::InternalFailure));
        assert!(metrics.define("b", MetricKind::Counter, b"x").is_ok());
        for name in [&b""[..], &[b'x'; METRIC_NAME_BYTES_MAX + 1]] {
            assert_eq!(metrics.define("b", MetricKind::Counter, name), Err(AbiStatus::BadArgument));
        }
    }
}
