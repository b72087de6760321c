//! The wall clock of the control side, as a trait so that tests set the time.

/// Reads the time of day.
pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn unix_ms(&self) -> u64;
}

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn unix_ms(&self) -> u64 {
        // 584 million years fit into the number.
        u64::try_from(stdx::clock::unix_time().as_millis()).unwrap_or(u64::MAX)
    }
}
