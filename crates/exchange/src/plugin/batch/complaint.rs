//! Log lines of a queue that loses entries, each kind of loss at its own pace. It counts nothing for metrics.
//! Lines about the queue of error log lines are not put into that queue.

use super::settings::QueueSettings;
use crate::observe::error_tap;
use crate::observe::pace::Pace;

/// Milliseconds between two lines of the same kind.
const INTERVAL_MS: u64 = 10_000;

/// See the module.
pub(super) struct Complaints {
    dropped: Pace,
    failed: Pace,
    retried: Pace,
}

impl Default for Complaints {
    fn default() -> Complaints {
        let pace = || Pace::every_ms(INTERVAL_MS);
        Complaints { dropped: pace(), failed: pace(), retried: pace() }
    }
}

impl Complaints {
    /// An entry found no room.
    pub(super) fn dropped(&self, settings: &QueueSettings, now_ms: u64) {
        if let Some(entries) = self.dropped.add(1, now_ms) {
            let _muted = error_tap::mute_reports_of(&settings.owner);
            let QueueSettings { name, owner, .. } = settings;
            tracing::warn!(%name, %owner, entries, "a queue is full or memory is short: its peer is slower than what is reported; entries are dropped");
        }
    }

    /// A batch failed and will be sent again.
    pub(super) fn retried(&self, settings: &QueueSettings, entries: usize, reason: &str, now_ms: u64) {
        if let Some(entries) = self.retried.add(entries as u64, now_ms) {
            let _muted = error_tap::mute_reports_of(&settings.owner);
            let QueueSettings { name, owner, .. } = settings;
            tracing::warn!(%name, %owner, entries, %reason, "a batch could not be delivered and is sent again");
        }
    }

    /// A batch was given up.
    pub(super) fn failed(&self, settings: &QueueSettings, entries: usize, reason: &str, now_ms: u64) {
        if let Some(entries) = self.failed.add(entries as u64, now_ms) {
            let _muted = error_tap::mute_reports_of(&settings.owner);
            let QueueSettings { name, owner, .. } = settings;
            tracing::error!(%name, %owner, entries, %reason, "entries could not be delivered and are lost");
        }
    }
}
