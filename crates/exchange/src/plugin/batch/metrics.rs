//! The counters of queues: one series for each name and owner, kept for the life of the process so that a
//! counter never goes back, within a bound. The losing or delivering task adds to them.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::settings::QueueSettings;
use stdx::prometheus_text::{header, sample};

/// Series kept apart; queues beyond it count together under the name `other`, so that no number of routes
/// makes a scrape grow without end.
const SERIES_MAX: usize = 1_000;

/// The labels of a series: the queue's name, and the object it belongs to.
type QueueLabels = (Box<str>, Box<str>);

/// The counters of one series.
#[derive(Default)]
pub(super) struct QueueTotals {
    sent: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
    /// The address of this gateway at which the request of the first entry came.
    server_address: OnceLock<IpAddr>,
}

impl QueueTotals {
    /// Names the address of the gateway for the series, once.
    pub(super) fn come_to(&self, address: IpAddr) {
        self.server_address.get_or_init(|| address);
    }

    pub(super) fn sent(&self, entries: u64) {
        self.sent.fetch_add(entries, Ordering::Relaxed);
    }

    pub(super) fn dropped(&self, entries: u64) {
        self.dropped.fetch_add(entries, Ordering::Relaxed);
    }

    pub(super) fn failed(&self, entries: u64) {
        self.failed.fetch_add(entries, Ordering::Relaxed);
    }
}

/// All series.
#[derive(Default)]
pub(super) struct QueueSeries {
    known: Mutex<BTreeMap<QueueLabels, Arc<QueueTotals>>>,
}

impl QueueSeries {
    /// The counters of a queue; the same as before for a queue that takes the place of another.
    pub(super) fn totals(&self, settings: &QueueSettings) -> Arc<QueueTotals> {
        let mut known = self.known.lock();
        let labels = (settings.name.clone(), route_id(&settings.owner).into());
        let is_full = known.len() >= SERIES_MAX && !known.contains_key(&labels);
        let labels = if is_full { ("other".into(), "".into()) } else { labels };
        known.entry(labels).or_default().clone()
    }

    /// Appends every series; `held` are the entries that queues hold now.
    pub(super) fn write(&self, held: &[(Arc<QueueTotals>, usize)], text: &mut String) {
        let known = self.known.lock().clone();
        if known.is_empty() {
            return;
        }
        header(
            text,
            "apisix_batch_process_entries",
            "gauge",
            "Entries of loggers that wait or are on their way.",
        );
        for (labels, totals) in &known {
            let of_it = held.iter().filter(|(other, _)| Arc::ptr_eq(other, totals));
            let entries: usize = of_it.map(|(_, entries)| entries).sum();
            let [name, route_id] = queue_labels(labels);
            // As in APISIX; empty until a request has left an entry.
            let address = totals.server_address.get().map(IpAddr::to_string).unwrap_or_default();
            let labels = [name, route_id, ("server_addr", &address)];
            sample(text, "apisix_batch_process_entries", &labels, entries);
        }
        header(text, "weir_batch_entries_total", "counter", "Entries of loggers by what became of them.");
        for (labels, totals) in &known {
            let results = [("sent", &totals.sent), ("dropped", &totals.dropped), ("failed", &totals.failed)];
            for (result, count) in results {
                let [name, route_id] = queue_labels(labels);
                let labels = [name, route_id, ("result", &result)];
                sample(text, "weir_batch_entries_total", &labels, count.load(Ordering::Relaxed));
            }
        }
    }
}

fn queue_labels((name, owner): &QueueLabels) -> [(&'static str, &dyn Display); 2] {
    [("name", name), ("route_id", owner)]
}

/// The label that the contract calls `route_id`: a route's id; of another object its path.
fn route_id(owner: &str) -> &str {
    let path = owner.trim_start_matches('/');
    path.strip_prefix("routes/").unwrap_or(path)
}
