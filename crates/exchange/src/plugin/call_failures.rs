//! How often plugins could not do their work because a server that they ask failed: a counter for each
//! plugin, which its instances share. It knows no plugin.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use stdx::prometheus_text::{header, sample};

/// The counter of one plugin.
#[derive(Clone, Debug, Default)]
pub struct CallFailures(Arc<AtomicU64>);

impl CallFailures {
    /// Counts one failure.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The counters of all plugins. There are at most as many as kinds of plugins.
#[derive(Default)]
pub(super) struct AllCallFailures(Mutex<BTreeMap<&'static str, CallFailures>>);

impl AllCallFailures {
    /// The counter of `plugin`, which outlives its instances.
    pub(super) fn of(&self, plugin: &'static str) -> CallFailures {
        self.0.lock().entry(plugin).or_default().clone()
    }

    /// Appends the counters in the Prometheus text format; nothing without one.
    pub(super) fn write_metrics(&self, text: &mut String) {
        let counters = self.0.lock();
        if counters.is_empty() {
            return;
        }
        let name = "weir_plugin_call_failures_total";
        header(text, name, "counter", "Requests for which a server that a plugin asks has failed.");
        for (plugin, counter) in counters.iter() {
            sample(text, name, &[("plugin", plugin)], counter.0.load(Ordering::Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_of_a_plugin_share_a_counter() {
        let all = AllCallFailures::default();
        let mut text = String::new();
        all.write_metrics(&mut text);
        assert_eq!(text, "");
        all.of("a").add();
        all.of("a").add();
        all.of("b");
        all.write_metrics(&mut text);
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let name = "weir_plugin_call_failures_total";
        assert_eq!(samples, [format!("{name}{{plugin=\"a\"}} 2"), format!("{name}{{plugin=\"b\"}} 0")]);
    }
}
