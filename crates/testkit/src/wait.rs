//! Waiting for a condition by polling.

use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for a condition. It is long because a shared build machine may stall for seconds; a passing
/// test does not reach it.
pub const WAIT_LIMIT: Duration = Duration::from_secs(20);

/// Polls `condition` until it is true; panics with `what` after [`WAIT_LIMIT`].
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}

/// Polls `probe` until it gives a value, and returns it; panics with `what` after [`WAIT_LIMIT`].
pub fn wait_for<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    wait_within(WAIT_LIMIT, what, probe)
}

/// As [`wait_for`], for conditions that take longer, such as the start of a slow program.
pub fn wait_within<T>(limit: Duration, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    let mut pause = FIRST_PAUSE;
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited {limit:?} in vain until {what}");
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The first interval is shorter than a scheduler tick, because many conditions hold almost at once.
const FIRST_PAUSE: Duration = Duration::from_micros(200);
/// The longest interval, so that a test ends soon after its condition holds.
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_first_value() {
        let mut left = 3;
        let got = wait_for("the countdown is over", || {
            left -= 1;
            (left == 0).then_some("over")
        });
        assert_eq!(got, "over");
    }
}
