//! Counters and latencies of commands by route: `apisix_redis_commands_total` and
//! `apisix_redis_commands_latency_seconds`. Sessions of all workers add to them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use model::report::MetricsText;
use parking_lot::Mutex;
use stdx::prometheus_text::{header, sample};

/// Most pairs of a route and a command, because clients choose the names of commands. Further ones are
/// counted under [`OTHER`].
const SERIES_MAX: usize = 2_000;
/// Longest name of a command that has a series of its own.
const NAME_MAX_BYTES: usize = 32;
/// Most series that a session remembers; others are looked up for each call.
const REMEMBERED_MAX: usize = 64;
/// The label of commands that have no series of their own.
const OTHER: &str = "other";
/// Upper bounds of latencies, those of APISIX.
const BOUNDS_S: [f64; 10] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0];

/// See the module.
#[derive(Default)]
pub(super) struct CommandMetrics(Mutex<CommandSeriesTable>);

/// By route and command.
type CommandSeriesTable = BTreeMap<(Arc<str>, Box<str>), Arc<CommandSeries>>;

#[derive(Default)]
struct CommandSeries {
    /// Not cumulated; the last one is above all bounds.
    counts: [AtomicU64; BOUNDS_S.len() + 1],
    sum_us: AtomicU64,
}

/// The counters of a session.
pub(super) struct RouteCounts {
    metrics: Arc<CommandMetrics>,
    route: Arc<str>,
    remembered: Vec<(Box<str>, Arc<CommandSeries>)>,
}

impl CommandMetrics {
    /// The counters of a session on this route.
    pub(super) fn of_route(self: &Arc<Self>, route: Arc<str>) -> RouteCounts {
        RouteCounts { metrics: self.clone(), route, remembered: Vec::new() }
    }

    fn series(&self, route: &Arc<str>, command: &str) -> Arc<CommandSeries> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-|".contains(&byte);
        let is_own = (1..=NAME_MAX_BYTES).contains(&command.len()) && command.bytes().all(is_name);
        let mut all = self.0.lock();
        let key = (route.clone(), if is_own { command } else { OTHER }.into());
        if all.len() >= SERIES_MAX && !all.contains_key(&key) {
            return all.entry((OTHER.into(), OTHER.into())).or_default().clone();
        }
        all.entry(key).or_default().clone()
    }
}

impl RouteCounts {
    /// Counts a call that took `us` microseconds.
    pub(super) fn count(&mut self, command: &str, us: u64) {
        let found = self.remembered.iter().find(|(name, _)| **name == *command);
        let series = match found {
            Some((_, series)) => series.clone(),
            None => {
                let series = self.metrics.series(&self.route, command);
                if self.remembered.len() < REMEMBERED_MAX {
                    self.remembered.push((command.into(), series.clone()));
                }
                series
            }
        };
        let seconds = us as f64 / 1e6;
        let bucket = BOUNDS_S.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS_S.len());
        series.counts[bucket].fetch_add(1, Ordering::Relaxed);
        series.sum_us.fetch_add(us, Ordering::Relaxed);
    }
}

impl MetricsText for CommandMetrics {
    fn write_metrics(&self, text: &mut String) {
        const TOTAL: &str = "apisix_redis_commands_total";
        let all = self.0.lock();
        header(text, TOTAL, "counter", "Calls of Redis by command.");
        for ((route, command), series) in all.iter() {
            sample(
                text,
                TOTAL,
                &[("route", route), ("command", command)],
                series.counts().iter().sum::<u64>(),
            );
        }
        let latency = "apisix_redis_commands_latency_seconds";
        header(text, latency, "histogram", "Latencies of calls of Redis by command.");
        for ((route, command), series) in all.iter() {
            let counts = series.counts();
            let mut total = 0;
            for (bound, count) in BOUNDS_S.iter().zip(counts) {
                total += count;
                let labels: [(&str, &dyn std::fmt::Display); 3] =
                    [("route", route), ("command", command), ("le", bound)];
                sample(text, &format!("{latency}_bucket"), &labels, total);
            }
            total += counts[BOUNDS_S.len()];
            let labels: [(&str, &dyn std::fmt::Display); 3] =
                [("route", route), ("command", command), ("le", &"+Inf")];
            sample(text, &format!("{latency}_bucket"), &labels, total);
            let sum_s = series.sum_us.load(Ordering::Relaxed) as f64 / 1e6;
            sample(text, &format!("{latency}_sum"), &labels[..2], sum_s);
            sample(text, &format!("{latency}_count"), &labels[..2], total);
        }
    }
}

impl CommandSeries {
    fn counts(&self) -> [u64; BOUNDS_S.len() + 1] {
        self.counts.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invented_commands_are_counted_as_other() {
        let metrics: Arc<CommandMetrics> = Arc::default();
        let mut counts = metrics.of_route("1".into());
        counts.count("get", 1_500);
        counts.count("get", 2_000_000);
        counts.count("a b", 1);
        counts.count(&"x".repeat(40), 1);
        (0..SERIES_MAX + 10).for_each(|number| counts.count(&format!("c{number}"), 1));
        assert_eq!(metrics.0.lock().len(), SERIES_MAX + 1);
        let mut text = String::new();
        metrics.write_metrics(&mut text);
        for line in [
            "apisix_redis_commands_total{route=\"1\",command=\"get\"} 2",
            "apisix_redis_commands_total{route=\"1\",command=\"other\"} 2",
            "apisix_redis_commands_total{route=\"other\",command=\"other\"} 12",
            "apisix_redis_commands_latency_seconds_bucket{route=\"1\",command=\"get\",le=\"0.002\"} 1",
            "apisix_redis_commands_latency_seconds_bucket{route=\"1\",command=\"get\",le=\"1\"} 1",
            "apisix_redis_commands_latency_seconds_bucket{route=\"1\",command=\"get\",le=\"+Inf\"} 2",
            "apisix_redis_commands_latency_seconds_sum{route=\"1\",command=\"get\"} 2.0015",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}");
        }
    }
}
