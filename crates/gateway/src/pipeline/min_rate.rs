//! The minimum rate of a client: the gateway waits until the client has moved no byte for the timeout, or
//! less than the minimum rate over a whole window. Time spent waiting for the endpoint does not count. It
//! knows no sockets and no causes.

use std::task::Context;

use exchange::deadline::Deadline;
use exchange::options::EngineLimits;

/// Why the gateway stops waiting for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TooSlow {
    /// The client moved no byte.
    Idle,
    /// The client moved less than the minimum rate.
    BelowMinRate,
    /// The client of a stream moved no byte for as long as an endpoint may be silent.
    SilentStream,
}

/// The state of a wait for a client.
#[derive(Debug)]
pub(super) struct MinRateGuard {
    timeout_ms: u64,
    window_ms: u64,
    /// The bytes that the client must move in a window; 0 is without limit.
    window_bytes: u64,
    /// Whether reading the number of moved bytes is free. Otherwise it is read first when a wait has lasted
    /// half its timeout.
    asks_at_once: bool,
    /// The body may be a stream: a rule of its own holds, and the failure says so.
    is_stream: bool,
    waiting: Option<MinRateWait>,
}

#[derive(Debug)]
struct MinRateWait {
    /// When the client last moved a byte.
    moved_ms: u64,
    /// The time of the last check, and how much the client had moved by then.
    look: Option<Look>,
    /// The check at the beginning of the window.
    window: Option<Look>,
    /// The deadline is set for the next check.
    is_armed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    at_ms: u64,
    total_bytes: u64,
}

impl MinRateGuard {
    /// A guard for a client that sends a request body.
    pub(super) fn for_body(limits: &EngineLimits) -> MinRateGuard {
        MinRateGuard::new(limits.body_timeout_ms, limits.min_body_rate, limits.rate_window_ms, true)
    }

    /// A guard for a client with a body that may be a stream of messages, such as a call of gRPC: it may be
    /// silent as long as the endpoint may, `read_ms` between two pieces, and no rate is asked of it.
    pub(super) fn for_stream(read_ms: u64, limits: &EngineLimits) -> MinRateGuard {
        let guard = MinRateGuard::new(read_ms, 0, limits.rate_window_ms, true);
        MinRateGuard { is_stream: true, ..guard }
    }

    /// A guard for a client that reads a response.
    pub(super) fn for_response(limits: &EngineLimits) -> MinRateGuard {
        MinRateGuard::new(limits.send_timeout_ms, limits.min_send_rate, limits.rate_window_ms, false)
    }

    fn new(timeout_ms: u64, rate: u64, window_ms: u64, asks_at_once: bool) -> MinRateGuard {
        let window_bytes = rate.saturating_mul(window_ms).div_ceil(1_000);
        MinRateGuard { timeout_ms, window_ms, window_bytes, asks_at_once, is_stream: false, waiting: None }
    }

    /// The guard for the next wait for the same client: the number of moved bytes is known, and the deadline
    /// may have been set for something else.
    pub(super) fn handed_on(mut self) -> MinRateGuard {
        if let Some(waiting) = &mut self.waiting {
            waiting.is_armed = false;
        }
        self
    }

    /// Pauses the window while the endpoint is waited for.
    #[inline]
    pub(super) fn pause(&mut self) {
        self.waiting = None;
    }

    /// Waits for the client. `moved` says whether it has moved a byte since the last call, `total_bytes` how
    /// much it has moved in all. Sets the deadline for the next check.
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
            return Err(self.idle());
        }
        if let Some(look_ms) = self.look(now_ms, moved, expired, total_bytes)? {
            deadline.set(cx, look_ms);
        }
        Ok(())
    }

    fn idle(&self) -> TooSlow {
        if self.is_stream { TooSlow::SilentStream } else { TooSlow::Idle }
    }

    /// Checks the client at `now_ms`. `moved` says whether it has moved a byte since the last call, `expired`
    /// whether the deadline has expired, `total_bytes` how much it has moved in all. Returns the time until
    /// the next deadline in milliseconds; `None` leaves the deadline unchanged.
    fn look(
        &mut self,
        now_ms: u64,
        moved: bool,
        expired: bool,
        total_bytes: impl FnOnce() -> u64,
    ) -> Result<Option<u64>, TooSlow> {
        let idle = self.idle();
        let Some(waiting) = &mut self.waiting else {
            let look = self.asks_at_once.then(|| Look { at_ms: now_ms, total_bytes: total_bytes() });
            let waiting =
                self.waiting.insert(MinRateWait { moved_ms: now_ms, look, window: look, is_armed: true });
            let look_ms = waiting.next_look_ms(now_ms, self.timeout_ms, self.window_ms, self.window_bytes);
            return Ok(Some(look_ms));
        };
        if moved {
            waiting.moved_ms = now_ms;
        }
        let is_armed = std::mem::replace(&mut waiting.is_armed, true);
        if !expired {
            // The deadline stays unchanged while bytes move; the check that it triggers decides.
            let next_ms = || waiting.next_look_ms(now_ms, self.timeout_ms, self.window_ms, self.window_bytes);
            return Ok((!is_armed).then(next_ms));
        }
        let now = Look { at_ms: now_ms, total_bytes: total_bytes() };
        // Bytes in the kernel's buffers may have been taken although no new ones were written. Bytes that a
        // client sends are reported as they arrive.
        if !self.asks_at_once
            && waiting
                .look
                .is_some_and(|last| last.total_bytes < now.total_bytes && waiting.moved_ms <= last.at_ms)
        {
            waiting.moved_ms = now_ms;
        }
        waiting.look = Some(now);
        if now_ms >= waiting.moved_ms.saturating_add(self.timeout_ms) {
            return Err(idle);
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

impl MinRateWait {
    /// Milliseconds until the next check may decide something.
    fn next_look_ms(&self, now_ms: u64, timeout_ms: u64, window_ms: u64, window_bytes: u64) -> u64 {
        let timeout_at = self.moved_ms.saturating_add(timeout_ms);
        let window_from = self.window.map_or(now_ms, |window| window.at_ms);
        let window_at = if window_bytes == 0 { u64::MAX } else { window_from.saturating_add(window_ms) };
        // Two checks are needed to see whether bytes have moved.
        let first_at = if self.look.is_none() { now_ms.saturating_add(timeout_ms / 2) } else { u64::MAX };
        timeout_at.min(window_at).min(first_at).saturating_sub(now_ms).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a client that has moved `total(second)` bytes by each second; returns when and why the wait
    /// ends. The deadline expires when it was set to; each second in which bytes move is also a call.
    fn play(mut guard: MinRateGuard, notified: bool, total: impl Fn(u64) -> u64) -> Option<(u64, TooSlow)> {
        let mut rings_at = 0;
        for now_ms in 0..600_000 {
            let second = now_ms / 1_000;
            let moves = notified && now_ms % 1_000 == 0 && second > 0 && total(second) > total(second - 1);
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
        // Without a rate one byte a second, or one every fifty seconds, keeps the wait alive for ever, and
        // one window with it.
        assert_eq!(play(body(60_000, 0), true, |second| second / 50), None);
        assert_eq!(play(body(60_000, 128), true, |second| second), Some((30_000, TooSlow::BelowMinRate)));
        assert_eq!(play(body(60_000, 128), true, |second| second * 128), None);
        assert_eq!(
            play(body(60_000, 128), true, |second| second * 127),
            Some((30_000, TooSlow::BelowMinRate))
        );
        // A stream may be slow for ever, and silent for the time of the endpoint.
        let stream = |read_ms| MinRateGuard::for_stream(read_ms, &EngineLimits::default());
        assert_eq!(play(stream(60_000), true, |second| second / 50), None);
        assert_eq!(play(stream(60_000), true, five_seconds), Some((65_000, TooSlow::SilentStream)));
        assert_eq!(play(stream(300_000), true, |_| 0), Some((300_000, TooSlow::SilentStream)));
        // A client that takes a response is first checked when the wait has lasted a window.
        assert_eq!(play(response(60_000, 128), true, |second| second), Some((60_000, TooSlow::BelowMinRate)));
        assert_eq!(play(response(60_000, 128), true, |_| 0), Some((60_000, TooSlow::Idle)));
        // A client that only empties the kernel's buffers is not closed.
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
    fn handed_on_guard_keeps_its_window() {
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
    fn time_waiting_for_endpoint_does_not_count() {
        let mut guard = MinRateGuard::new(60_000, 128, 30_000, true);
        for turn in 0..100 {
            let now_ms = turn * 29_000;
            assert_eq!(guard.look(now_ms, false, true, || 0), Ok(Some(30_000)));
            guard.pause();
        }
    }
}
