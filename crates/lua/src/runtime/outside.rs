//! The world outside of the gateway, as code of users reaches it: servers under the outbound policy, and
//! counters.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use exchange::plugin::events::EventCounter;
use exchange::plugin::outbound::StreamDestinations;
use exchange::plugin::services::Services;

/// See the module. One for each program; any thread may use it.
pub(crate) struct Outside {
    pub(crate) destinations: StreamDestinations,
    /// Calls that failed or exceeded a limit.
    errors: EventCounter,
    /// Runs of timers that failed.
    timer_errors: EventCounter,
}

impl Outside {
    /// The outside for the plugin `name`.
    pub(crate) fn new(name: &'static str, services: &Services) -> Arc<Outside> {
        Arc::new(Outside {
            destinations: services.stream_destinations(None),
            errors: services.event_counter(name, "lua_error"),
            timer_errors: services.event_counter(name, "lua_timer_error"),
        })
    }

    pub(crate) fn count_error(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_timer_error(&self) {
        self.timer_errors.fetch_add(1, Ordering::Relaxed);
    }
}
