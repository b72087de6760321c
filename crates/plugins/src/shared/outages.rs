//! Servers that a plugin asks and that fail: each failure is counted in the metrics, and from time to time a
//! line in the log is due. It asks no server and writes no line.

use exchange::observe::pace::Pace;
use exchange::plugin::Build;
use exchange::plugin::call_failures::CallFailures;

/// Milliseconds between two lines of one instance.
const LOG_INTERVAL_MS: u64 = 1_000;

/// See the module.
pub(crate) struct Outages {
    pace: Pace,
    counter: CallFailures,
}

impl Outages {
    /// Counts under the name `plugin`.
    pub(crate) fn new(build: &Build<'_>, plugin: &'static str) -> Outages {
        Outages { pace: Pace::every_ms(LOG_INTERVAL_MS), counter: build.services.call_failures(plugin) }
    }

    /// Outages that no metric shows.
    #[cfg(test)]
    pub(crate) fn uncounted() -> Outages {
        Outages { pace: Pace::every_ms(LOG_INTERVAL_MS), counter: CallFailures::default() }
    }

    /// Counts a request for which the server has failed. Gives the number of such requests since the last
    /// line if a line is due.
    pub(crate) fn add(&self, now_ms: u64) -> Option<u64> {
        self.counter.add();
        self.pace.add(1, now_ms)
    }
}
