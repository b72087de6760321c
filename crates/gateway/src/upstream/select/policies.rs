//! The policies of an upstream that narrow the choice of its balancing method.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::slow_start::SlowStart;
use super::sticky::Sticky;
use super::subset::Subsets;
use super::zone::ZonePreference;

/// The policies of an upstream that narrow the choice of its balancing method. By default those of APISIX:
/// usable nodes of the highest priority.
#[derive(Default)]
pub struct Policies {
    /// Percent of a tier's weight that must be usable; below it all nodes are used. 0: only where none is
    /// usable.
    pub panic_percent: u32,
    /// Weights of new nodes that grow.
    pub slow_start: Option<SlowStart>,
    /// Percent of a tier's weight that must be usable for all its requests; below it a part goes to lower
    /// priorities. 0 is off: a lower priority is used when no higher one is left.
    pub overflow_percent: u32,
    /// Preference for nodes in the zone of this instance.
    pub zone: Option<ZonePreference>,
    /// Selection by metadata.
    pub subsets: Option<Box<Subsets>>,
    /// Requests of a session that stay at one node.
    pub sticky: Option<Arc<Sticky>>,
    /// Whether all nodes are used because too few are usable; for the log. Shared with the policies before a
    /// change of the configuration, so that a change does not log it again.
    pub(crate) is_in_panic: Arc<AtomicBool>,
}

impl Policies {
    /// Logs when all nodes begin or cease to be used because too few are usable: once for all workers.
    pub(crate) fn note_panic(&self, upstream: &str, is_in_panic: bool) {
        if self.is_in_panic.load(Ordering::Relaxed) == is_in_panic
            || self.is_in_panic.swap(is_in_panic, Ordering::Relaxed) == is_in_panic
        {
            return;
        }
        let upstream = upstream.trim_start_matches('/');
        let percent = self.panic_percent;
        if is_in_panic {
            tracing::warn!(%upstream, percent, "too few nodes of the upstream are usable: also unusable ones are used");
        } else {
            tracing::info!(%upstream, percent, "enough nodes of the upstream are usable again");
        }
    }

    /// Whether all nodes are used because too few are usable, as the last worker saw it.
    pub fn is_in_panic(&self) -> bool {
        self.is_in_panic.load(Ordering::Relaxed)
    }
}
