//! Counters of events in plugins for the metrics, such as copies that a mirror did not get. A counter belongs
//! to a plugin and an event, and is shared by all instances that ask for it; it lives as long as the process,
//! so that a change of the configuration does not reset it. It knows no plugin.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use stdx::prometheus_text;

/// The metric.
const NAME: &str = "weir_plugin_events_total";

/// A counter of one event.
pub type EventCounter = Arc<AtomicU64>;

/// See the module.
#[derive(Default)]
pub struct PluginEvents {
    /// By plugin and event. Both are names in the program, so that the table is as long as the sources make
    /// it.
    counters: Mutex<BTreeMap<(&'static str, &'static str), EventCounter>>,
}

impl PluginEvents {
    /// The counter of `event` in the plugin `plugin`.
    pub fn counter(&self, plugin: &'static str, event: &'static str) -> EventCounter {
        self.counters.lock().entry((plugin, event)).or_default().clone()
    }

    /// Appends the counters that were asked for in the Prometheus text format.
    pub(super) fn write_metrics(&self, text: &mut String) {
        let counters = self.counters.lock();
        if counters.is_empty() {
            return;
        }
        prometheus_text::header(text, NAME, "counter", "Events in plugins.");
        for ((plugin, event), count) in counters.iter() {
            let count = count.load(Ordering::Relaxed);
            prometheus_text::sample(text, NAME, &[("plugin", plugin), ("event", event)], count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_share_the_counter_of_an_event() {
        let events = PluginEvents::default();
        let mut text = String::new();
        events.write_metrics(&mut text);
        assert_eq!(text, "");
        events.counter("b", "lost").fetch_add(2, Ordering::Relaxed);
        events.counter("b", "lost").fetch_add(1, Ordering::Relaxed);
        events.counter("a", "sent");
        events.write_metrics(&mut text);
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            samples,
            [
                "weir_plugin_events_total{plugin=\"a\",event=\"sent\"} 0",
                "weir_plugin_events_total{plugin=\"b\",event=\"lost\"} 3",
            ]
        );
    }
}
