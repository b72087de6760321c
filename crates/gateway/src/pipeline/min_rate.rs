//! The minimum rate of a client: it is waited for until it has moved nothing for the timeout, or less than the minimum
//! rate over a whole window. Time in which the endpoint is waited for does not count. It knows no sockets and no
//! causes.

use std::task::Context;

use exchange::deadline::Deadline;
use exchange::options::Limits;

/// Why a client is waited for no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TooSlow {
    /// It moved nothing at all.
    Idle,
    /// It moved less than the least rate.
    BelowMinRate,
}

/// The state of a wait for a client.
#[derive(Debug)]
pub(super) struct MinRateGuard {
    timeout_ms: u64,
    window_ms: u64,
    /// The bytes that the client must move in a window; 0 is without limit.
    window_bytes: u64,
    /// Reading how much the client has moved costs nothing. Otherwise it is first read when a wait has lasted half its
    /// timeout.
    asks_at_once: bool,
    waiting: Option<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    /// When it last moved anything.
    moved_ms: u64,
    /// When the last look was, and how much it had moved in all by then.
    look: Option<Look>,
    /// The look that the window began with.
    window: Option<Look>,
    /// The deadline is set for the next look.
    is_armed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    at_ms: u64,
    total_bytes: u64,
}

impl MinRateGuard {
    /// With a client that sends a request body.
    pub(super) fn for_body(limits: &Limits) -> MinRateGuard {
        MinRateGuard::new(limits.body_timeout_ms, limits.min_body_rate, limits.rate_window_ms, true)
    }

    /// With a client that takes a response.
    pub(super) fn for_response(limits: &Limits) -> MinRateGuard {
        MinRateGuard::new(limits.send_timeout_ms, limits.min_send_rate, limits.rate_window_ms, false)
    }

    fn new(timeout_ms: u64, rate: u64, window_ms: u64, asks_at_once: bool) -> MinRateGuard {
        let window_bytes = rate.saturating_mul(window_ms).div_ceil(1_000);
        MinRateGuard { timeout_ms, window_ms, window_bytes, asks_at_once, waiting: None }
    }

    /// For the next wait for the same client: the bytes it has moved are known, the deadline may have been set for
    /// something else.
    pub(super) fn handed_on(mut self) -> MinRateGuard {
        if let Some(waiting) = &mut self.waiting {
            waiting.is_armed = false;
        }
        self
    }

    /// The endpoint is waited for, not the client.
    #[inline]
    pub(super) fn pause(&mut self) {
        self.waiting = None;
    }

    /// The client is waited for. `moved` says whether it has moved anything since the last call, `total_bytes` how much
    /// it has moved in all. Sets the deadline for the next look.
    pub(super) fn wait(
        &mut self,
        deadline: &Deadline,
        now_ms: u64,
        cx: &Context<'_>,
        moved: bool,
        total_bytes: impl FnOnce() -> u64,
    ) -> Result<(), TooSlow> {
        let expired = deadline.expired();
        if expired && deadline.is_overdue() {
            return Err(TooSlow::Idle);
        }
        if let Some(look_ms) = self.look(now_ms, moved, expired, total_bytes)? {
            deadline.set(cx, look_ms);
        }
        Ok(())
    }

    /// The client is waited for at `now_ms`. `moved` says whether it has moved anything since the last call, `expired`
    /// whether the deadline has rung, `total_bytes` how much it has moved in all. Says in how many milliseconds the deadline
    /// is to ring; nothing leaves it as it is.
    fn look(
        &mut self,
        now_ms: u64,
        moved: bool,
        expired: bool,
        total_bytes: impl FnOnce() -> u64,
    ) -> Result<Option<u64>, TooSlow> {
        let Some(waiting) = &mut self.waiting else {
            let look = self.asks_at_once.then(|| Look { at_ms: now_ms, total_bytes: total_bytes() });
            let waiting =
                self.waiting.insert(Waiting { moved_ms: now_ms, look, window: look, is_armed: true });
            let look_ms = waiting.next_look_ms(now_ms, self.timeout_ms, self.window_ms, self.window_bytes);
            return Ok(Some(look_ms));
        };
        if moved {
            waiting.moved_ms = now_ms;
        }
        let is_armed = std::mem::replace(&mut waiting.is_armed, true);
        if !expired {
            // The deadline stays where it is, however much moves: what it finds then is looked at then.
            let next_ms = || waiting.next_look_ms(now_ms, self.timeout_ms, self.window_ms, self.window_bytes);
            return Ok((!is_armed).then(next_ms));
        }
        let now = Look { at_ms: now_ms, total_bytes: total_bytes() };
        // Bytes in the kernel's buffers may have been taken although nothing new has gone into them. Bytes that a
        // client sends are reported as they come.
        if !self.asks_at_once
            && waiting
                .look
                .is_some_and(|last| last.total_bytes < now.total_bytes && waiting.moved_ms <= last.at_ms)
        {
            waiting.moved_ms = now_ms;
        }
        waiting.look = Some(now);
        if now_ms >= waiting.moved_ms.saturating_add(self.timeout_ms) {
            return Err(TooSlow::Idle);
        }
        let window = *waiting.window.get_or_insert(now);
        if now_ms >= window.at_ms.saturating_add(self.window_ms) {
            if now.total_bytes.saturating_sub(window.total_bytes) < self.window_bytes {
                return Err(TooSlow::BelowMinRate);
            }
            waiting.window = Some(now);
        }
        Ok(Some(waiting.next_look_ms(now_ms, self.timeout_ms, self.window_ms, self.window_bytes)))
    }
}

impl Waiting {
    /// When something may be due next.
    fn next_look_ms(&self, now_ms: u64, timeout_ms: u64, window_ms: u64, window_bytes: u64) -> u64 {
        let timeout_at = self.moved_ms.saturating_add(timeout_ms);
        let window_from = self.window.map_or(now_ms, |window| window.at_ms);
        let window_at = if window_bytes == 0 { u64::MAX } else { window_from.saturating_add(window_ms) };
        // Whether anything has moved only two looks can tell.
        let first_at = if self.look.is_none() { now_ms.saturating_add(timeout_ms / 2) } else { u64::MAX };
        timeout_at.min(window_at).min(first_at).saturating_sub(now_ms).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a client that has moved `total(second)` bytes by each second; says when it is given up and why. The deadline
    /// rings when it was told to; a second in which bytes move is also a call.
    fn play(mut guard: MinRateGuard, told: bool, total: impl Fn(u64) -> u64) -> Option<(u64, TooSlow)> {
        let mut rings_at = 0;
        for now_ms in 0..600_000 {
            let second = now_ms / 1_000;
            let moves = told && now_ms % 1_000 == 0 && second > 0 && total(second) > total(second - 1);
            let expired = now_ms > 0 && now_ms >= rings_at;
            if now_ms > 0 && !moves && !expired {
                continue;
            }
            match guard.look(now_ms, moves, expired, || total(second)) {
                Ok(Some(in_ms)) => rings_at = now_ms + in_ms,
                Ok(None) => {}
                Err(lost) => return Some((now_ms, lost)),
            }
        }
        None
    }

    #[test]
    fn idle_or_slow_client_is_closed_on_time() {
        let body = |timeout_ms, rate| MinRateGuard::new(timeout_ms, rate, 30_000, true);
        let response = |timeout_ms, rate| MinRateGuard::new(timeout_ms, rate, 30_000, false);
        assert_eq!(play(body(60_000, 0), true, |_| 0), Some((60_000, TooSlow::Idle)));
        assert_eq!(play(body(10_000, 128), true, |_| 0), Some((10_000, TooSlow::Idle)));
        // The timeout runs from the last byte.
        let five_seconds = |second: u64| second.min(5) * 100_000;
        assert_eq!(play(body(60_000, 128), true, five_seconds), Some((60_000, TooSlow::BelowMinRate)));
        assert_eq!(play(body(20_000, 128), true, five_seconds), Some((25_000, TooSlow::Idle)));
        // One byte a second, or every fifty, lives on for ever without a rate, and one window with it.
        assert_eq!(play(body(60_000, 0), true, |second| second / 50), None);
        assert_eq!(play(body(60_000, 128), true, |second| second), Some((30_000, TooSlow::BelowMinRate)));
        assert_eq!(play(body(60_000, 128), true, |second| second * 128), None);
        assert_eq!(
            play(body(60_000, 128), true, |second| second * 127),
            Some((30_000, TooSlow::BelowMinRate))
        );
        // A client that takes a response is first checked when the wait has lasted a window.
        assert_eq!(play(response(60_000, 128), true, |second| second), Some((60_000, TooSlow::BelowMinRate)));
        assert_eq!(play(response(60_000, 128), true, |_| 0), Some((60_000, TooSlow::Idle)));
        // A client that only empties the kernel's buffers is seen to.
        assert_eq!(play(response(60_000, 128), false, |second| second * 200), None);
        assert_eq!(play(response(60_000, 0), false, |second| second), None);
    }

    #[test]
    fn early_bytes_do_not_restart_the_wait() {
        let mut guard = MinRateGuard::new(60_000, 0, 30_000, true);
        assert_eq!(guard.look(5, false, false, || 0), Ok(Some(60_000)));
        assert_eq!(guard.look(5, true, false, || 100), Ok(None));
        assert_eq!(guard.look(60_005, false, true, || 100), Err(TooSlow::Idle));
    }

    #[test]
    fn who_is_handed_on_owes_what_it_owed() {
        let mut guard = MinRateGuard::new(60_000, 128, 30_000, true);
        assert_eq!(guard.look(0, false, false, || 0), Ok(Some(30_000)));
        assert_eq!(guard.look(20_000, true, false, || 2_000), Ok(None));
        let mut guard = guard.handed_on();
        assert_eq!(
            guard.look(20_500, true, false, || 2_048),
            Ok(Some(9_500)),
            "the deadline is set anew, once"
        );
        assert_eq!(guard.look(20_600, true, false, || 2_060), Ok(None));
        assert_eq!(
            guard.look(30_000, false, true, || 3_000),
            Err(TooSlow::BelowMinRate),
            "when it always was"
        );
    }

    #[test]
    fn time_in_which_another_is_waited_for_does_not_count() {
        let mut guard = MinRateGuard::new(60_000, 128, 30_000, true);
        for turn in 0..100 {
            let now_ms = turn * 29_000;
            assert_eq!(guard.look(now_ms, false, true, || 0), Ok(Some(30_000)));
            guard.pause();
        }
    }
}
