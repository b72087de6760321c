//! The pauses before a runner that has ended is started again: longer from time to time, so that one that
//! cannot run costs nothing, and short at first, so that one that ended by chance is back soon.

use std::time::Duration;

/// The first pause.
const FIRST: Duration = Duration::from_millis(500);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(60);
/// A runner that has lived so long has not failed at its start: the pauses begin anew.
pub(super) const STABLE_AGE: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Default)]
pub(super) struct RestartBackoff {
    /// How many pauses there were.
    count: u32,
}

impl RestartBackoff {
    /// The next pause.
    pub(super) fn next(&mut self) -> Duration {
        let pause = FIRST.saturating_mul(1 << self.count.min(16)).min(LONGEST);
        self.count = self.count.saturating_add(1);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute() {
        let mut backoff = RestartBackoff::default();
        let pauses: Vec<u64> = (0..9).map(|_| backoff.next().as_millis() as u64).collect();
        assert_eq!(pauses, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    }
}
