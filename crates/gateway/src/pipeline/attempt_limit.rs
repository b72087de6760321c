//! The time limit of an attempt until its response head, by the retry policy of its upstream. It shortens the
//! timeouts of the steps; without a limit it leaves them as they are.

use crate::upstream::Upstream;
use exchange::deadline::Expired;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttemptLimit {
    /// 0 is without limit.
    timeout_ms: u64,
    ends_ms: u64,
}

impl AttemptLimit {
    /// The limit of an attempt at `upstream` that begins now.
    #[inline]
    pub(super) fn new(upstream: &Upstream, now_ms: u64) -> AttemptLimit {
        let timeout_ms = upstream.retry.as_ref().map_or(0, |policy| policy.attempt_timeout_ms);
        AttemptLimit { timeout_ms, ends_ms: now_ms.saturating_add(timeout_ms) }
    }

    /// Begins the limit now, because the gateway waits for the client: its time is not the endpoint's.
    #[inline]
    pub(super) fn begin(&mut self, now_ms: u64) {
        self.ends_ms = now_ms.saturating_add(self.timeout_ms);
    }

    /// The same limit, or the earlier one of `timeout_ms` from now.
    pub(super) fn at_most(&self, timeout_ms: u64, now_ms: u64) -> AttemptLimit {
        let ends_ms = now_ms.saturating_add(timeout_ms);
        match self.timeout_ms {
            0 => AttemptLimit { timeout_ms, ends_ms },
            own_ms => AttemptLimit { timeout_ms: own_ms.min(timeout_ms), ends_ms: self.ends_ms.min(ends_ms) },
        }
    }

    /// Whether the attempt has had its time.
    pub(super) fn is_over(&self, now_ms: u64) -> bool {
        self.timeout_ms != 0 && now_ms >= self.ends_ms
    }

    /// The timeout of a step (0 is without limit), and no longer than the attempt may take.
    ///
    /// # Errors
    /// When the attempt has had its time.
    #[inline]
    pub(super) fn shorten(&self, step_ms: u64, now_ms: u64) -> Result<u64, Expired> {
        if self.timeout_ms == 0 {
            return Ok(step_ms);
        }
        match (self.ends_ms.saturating_sub(now_ms), step_ms) {
            (0, _) => Err(Expired::Step),
            (left_ms, 0) => Ok(left_ms),
            (left_ms, step_ms) => Ok(left_ms.min(step_ms)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_is_shortened_to_the_rest_of_the_attempt() {
        let mut limit = AttemptLimit { timeout_ms: 100, ends_ms: 1_100 };
        assert_eq!(limit.shorten(60, 1_000), Ok(60));
        assert_eq!(limit.shorten(60, 1_080), Ok(20));
        assert_eq!(limit.shorten(0, 1_080), Ok(20));
        assert_eq!(limit.shorten(60, 1_100), Err(Expired::Step));
        limit.begin(1_100);
        assert_eq!(limit.shorten(0, 1_100), Ok(100));
        let earlier = limit.at_most(30, 1_100);
        assert_eq!(earlier.shorten(0, 1_100), Ok(30));
        assert!(earlier.is_over(1_130) && !limit.is_over(1_130) && limit.is_over(1_200));
        let unlimited = AttemptLimit { timeout_ms: 0, ends_ms: 0 };
        assert_eq!((unlimited.shorten(0, 5), unlimited.shorten(7, 5)), (Ok(0), Ok(7)));
    }
}
