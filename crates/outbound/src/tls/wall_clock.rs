//! The wall clock as rustls asks for it. The clock that it has by default panics at a time before 1970.

use std::sync::Arc;

use rustls::time_provider::TimeProvider;
use rustls_pki_types::UnixTime;

/// The clock of all handshakes.
pub fn handshake_clock() -> Arc<dyn TimeProvider> {
    Arc::new(WallClock)
}

#[derive(Debug)]
struct WallClock;

impl TimeProvider for WallClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(stdx::clock::unix_time()))
    }
}
