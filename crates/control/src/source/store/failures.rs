//! How often the store of this process could not be read or written, for metrics and alerts. It knows no
//! reason; the error of each call has that.

use std::sync::atomic::{AtomicU64, Ordering};

use stdx::prometheus_text::scalar;

static COUNT: AtomicU64 = AtomicU64::new(0);

/// Counts one failed call.
pub(super) fn count_store_failure() {
    COUNT.fetch_add(1, Ordering::Relaxed);
}

/// Appends the count in the Prometheus text format. Where etcd is the source, the store is the copy of its
/// data.
pub(crate) fn write_store_metrics(text: &mut String) {
    let help = "Reads and writes of the store on disk that failed, for a full disk or a damaged file.";
    scalar(text, "weir_store_failures_total", "counter", help, COUNT.load(Ordering::Relaxed));
}
