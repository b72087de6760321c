//! How many requests may wait for one upstream's answers at once, found by their latency: when answers take
//! clearly longer than they use to, fewer are let through until they do not. Time is handed in; it knows no
//! clock, node or request.
//!
//! The rule is a gradient limit as in Netflix's *concurrency-limits* (its `Gradient2Limit`: the long-term
//! latency over that of now says by how much to shrink) and Envoy's *adaptive concurrency* filter (windows of
//! samples), with two differences. Nothing is limited before there is a sign of overload, so that a fresh
//! start or a burst is not mistaken for one; and growth is slow next to the last overload and quick once that
//! is over.

use std::cell::RefCell;
use std::rc::Rc;

use super::Priority;

/// How long samples are collected before the limit is judged: ten steps a second follow an origin that
/// stalls.
const WINDOW_US: u64 = 100_000;
/// Fewer samples say too little; then the window goes on, up to [`WINDOW_MAX_US`].
const SAMPLES_MIN: u32 = 5;
const WINDOW_MAX_US: u64 = 1_000_000;
/// Half as much again as the usual latency is overload: the mean of a window is held there, and the slowest
/// of a window wait up to twice the usual then,
const TOLERANCE: f64 = 1.5;
/// but never a rise of less than this: a queue of ten milliseconds is harmless.
const SLACK_US: f64 = 10_000.0;
/// One step takes at least so much and at most so much of the concurrency away.
const SHRINK: (f64, f64) = (0.5, 0.95);
/// Requests that always pass, in each worker: below it latency says more about the work than about its queue.
const LIMIT_MIN: u32 = 8;
/// Beyond it nothing is limited.
const LIMIT_MAX: u32 = 100_000;
/// The rise of the limit after a window without overload, doubled with each in a row.
const GROWTH: (f64, f64) = (0.02, 0.5);
/// The share of a window in the usual latency: it falls quickly and rises slowly, so that a minute of
/// overload does not become the usual.
const USUAL_FALLS: f64 = 1.0 / 8.0;
const USUAL_RISES: f64 = 1.0 / 600.0;

/// The limit of one upstream in one worker.
#[derive(Debug)]
pub struct Limiter(RefCell<LimiterState>);

#[derive(Debug)]
struct LimiterState {
    limit: u32,
    under_way: u32,
    /// The most that were under way in this window.
    peak: u32,
    window_us: u64,
    samples: u32,
    sum_us: u64,
    /// 0 before the first window.
    usual_us: f64,
    healthy_windows: u32,
    /// When the limit last shrank: what began before says nothing of what it has brought.
    shrank_us: u64,
    answered_us: u64,
    admitted_us: u64,
}

impl Limiter {
    /// Without a limit yet.
    pub fn new(now_us: u64) -> Limiter {
        Limiter(RefCell::new(LimiterState {
            limit: LIMIT_MAX,
            under_way: 0,
            peak: 0,
            window_us: now_us,
            samples: 0,
            sum_us: 0,
            usual_us: 0.0,
            healthy_windows: 0,
            shrank_us: 0,
            answered_us: now_us,
            admitted_us: now_us,
        }))
    }

    /// Lets a request through, or not. One every window passes in any case: without it the
    /// upstream would never be seen to work again.
    pub fn admit(self: &Rc<Limiter>, now_us: u64, priority: Priority) -> Option<Permit> {
        let mut state = self.0.borrow_mut();
        state.turn(now_us);
        let allowed = match priority {
            Priority::Sheddable => state.limit / 2,
            Priority::Default => state.limit,
            Priority::Critical => state.limit.saturating_mul(2),
        };
        if state.under_way >= allowed && now_us < state.admitted_us + WINDOW_US {
            return None;
        }
        state.admitted_us = now_us;
        state.under_way += 1;
        state.peak = state.peak.max(state.under_way);
        Some(Permit { limiter: self.clone(), started_us: now_us })
    }

    /// Requests that may be under way.
    #[cfg(test)]
    fn limit(&self) -> u32 {
        self.0.borrow().limit
    }
}

impl LimiterState {
    /// Judges the window if it is over.
    fn turn(&mut self, now_us: u64) {
        let lasted_us = now_us.saturating_sub(self.window_us);
        if lasted_us < WINDOW_US || (1..SAMPLES_MIN).contains(&self.samples) && lasted_us < WINDOW_MAX_US {
            return;
        }
        let latency_us = match self.samples {
            // No response came while many requests wait: latency is at least as long as that time. A short
            // time says nothing, least of all that the upstream is well: what it answers may have begun
            // before the last step.
            0 if self.under_way >= LIMIT_MIN => Some(now_us.saturating_sub(self.answered_us) as f64)
                .filter(|silence| *silence > self.tolerated_us()),
            0 => None,
            samples => Some(self.sum_us as f64 / f64::from(samples)),
        };
        if let Some(latency_us) = latency_us {
            self.judge(now_us, latency_us);
        }
        (self.window_us, self.samples, self.sum_us, self.peak) = (now_us, 0, 0, self.under_way);
    }

    /// Beyond this it is overload.
    fn tolerated_us(&self) -> f64 {
        (self.usual_us * TOLERANCE).max(self.usual_us + SLACK_US)
    }

    fn judge(&mut self, now_us: u64, latency_us: f64) {
        if self.usual_us == 0.0 {
            // A silence says nothing of what is usual.
            if self.samples > 0 {
                self.usual_us = latency_us;
            }
            return;
        }
        let tolerated_us = self.tolerated_us();
        let share = if latency_us < self.usual_us { USUAL_FALLS } else { USUAL_RISES };
        self.usual_us += (latency_us - self.usual_us) * share;
        if latency_us > tolerated_us {
            let shrink = (tolerated_us / latency_us).clamp(SHRINK.0, SHRINK.1);
            let shrunk = f64::from(self.limit.min(self.peak)) * shrink;
            self.limit = (shrunk as u32).max(LIMIT_MIN);
            self.healthy_windows = 0;
            self.shrank_us = now_us;
        } else if self.peak >= self.limit / 2 {
            let growth = (GROWTH.0 * f64::from(1_u32 << self.healthy_windows.min(8))).min(GROWTH.1);
            let grown = f64::from(self.limit) * (1.0 + growth);
            self.limit = (grown as u32).max(self.limit + 1).min(LIMIT_MAX);
            self.healthy_windows += 1;
        }
    }
}

/// One request under way; dropping it ends that without saying anything of the upstream.
#[derive(Debug)]
pub struct Permit {
    limiter: Rc<Limiter>,
    started_us: u64,
}

impl Permit {
    /// The request is sent only now, after a wait for something else than the upstream.
    pub fn restart(&mut self, now_us: u64) {
        self.started_us = now_us;
    }

    /// The upstream has answered, or was waited for in vain until now.
    pub fn answered(self, now_us: u64) {
        let mut state = self.limiter.0.borrow_mut();
        state.answered_us = now_us;
        if self.started_us >= state.shrank_us {
            state.samples += 1;
            state.sum_us += now_us.saturating_sub(self.started_us);
        }
        state.turn(now_us);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limiter.0.borrow_mut().under_way -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const MS: u64 = 1_000;

    /// An origin that serves `servers` requests at a time, each for a time; whatever is more waits its turn.
    struct Origin {
        limiter: Rc<Limiter>,
        now_us: u64,
        queue: VecDeque<Permit>,
        busy: Vec<(u64, Permit)>,
    }

    impl Origin {
        fn new() -> Origin {
            Origin { limiter: Rc::new(Limiter::new(0)), now_us: 0, queue: VecDeque::new(), busy: Vec::new() }
        }

        /// Runs for `ms` with `asked_per_ms` arrivals; says how many of them were let through, and the 99th
        /// percentile of the latency of those that were answered, in milliseconds.
        fn run(&mut self, ms: u64, asked_per_ms: u64, servers: usize, service_us: u64) -> (f64, f64) {
            let (mut admitted, mut waited_us) = (0_u64, Vec::new());
            for _ in 0..ms {
                for _ in 0..asked_per_ms {
                    if let Some(permit) = self.limiter.admit(self.now_us, Priority::Default) {
                        admitted += 1;
                        self.queue.push_back(permit);
                    }
                }
                let now_us = self.now_us;
                for (_, permit) in self.busy.extract_if(.., |(ends_us, _)| *ends_us <= now_us) {
                    waited_us.push(now_us - permit.started_us);
                    permit.answered(now_us);
                }
                while self.busy.len() < servers
                    && let Some(permit) = self.queue.pop_front()
                {
                    self.busy.push((now_us + service_us, permit));
                }
                self.now_us += MS;
            }
            waited_us.sort_unstable();
            let p99_us = waited_us.get(waited_us.len() * 99 / 100).copied().unwrap_or_default();
            (admitted as f64 / (ms * asked_per_ms) as f64, p99_us as f64 / MS as f64)
        }
    }

    #[test]
    fn below_capacity_nothing_is_refused() {
        let mut origin = Origin::new();
        // Five servers of 10 ms take one request every 2 ms; here come fewer, more, and a burst.
        let (share, p99_ms) = origin.run(60_000, 1, 20, 10 * MS);
        assert_eq!((share, origin.limiter.limit()), (1.0, LIMIT_MAX), "{p99_ms}");
        let (share, _) = origin.run(20, 20, 20, 10 * MS);
        assert_eq!(share, 1.0, "a burst of 20 ms");
    }

    #[test]
    fn threefold_load_is_shed_and_rest_stays_fast() {
        let mut origin = Origin::new();
        // One request a millisecond is half of what 80 servers of 40 ms take.
        let (_, usual_ms) = origin.run(5_000, 1, 80, 40 * MS);
        origin.run(3_000, 6, 80, 40 * MS);
        let (share, p99_ms) = origin.run(10_000, 6, 80, 40 * MS);
        assert!((0.25..0.5).contains(&share), "a third can be served: {share}");
        assert!(p99_ms <= 2.0 * usual_ms, "{usual_ms} ms before, {p99_ms} ms now");
        let (share, p99_ms) = origin.run(2_000, 1, 80, 40 * MS);
        assert!(share > 0.95 && p99_ms <= 2.0 * usual_ms, "{share} {p99_ms}");
    }

    #[test]
    fn earlier_write_does_not_reopen_the_gate() {
        let mut origin = Origin::new();
        origin.run(5_000, 1, 4, 3 * MS);
        // A backlog forms before the gate closes, and for a while all answers are to what waited there.
        origin.run(4_000, 1, 4, 100 * MS);
        assert!(origin.queue.len() < 100, "no more waits than came at first: {}", origin.queue.len());
    }

    #[test]
    fn a_stalled_upstream_gets_little_and_is_found_again() {
        let mut origin = Origin::new();
        origin.run(5_000, 1, 20, 10 * MS);
        // Nothing is answered at all for five seconds.
        origin.run(1_000, 1, 20, 5_000 * MS);
        assert!(origin.limiter.limit() <= 40, "{}", origin.limiter.limit());
        let (share, _) = origin.run(4_000, 1, 20, 5_000 * MS);
        assert!(share < 0.1, "{share}");
        let (share, _) = origin.run(4_000, 1, 20, 10 * MS);
        assert!(share > 0.5, "{share}");
        let (share, _) = origin.run(2_000, 1, 20, 10 * MS);
        assert!(share > 0.99, "{share}");
    }

    #[test]
    fn critical_requests_pass_where_others_do_not() {
        let limiter = Rc::new(Limiter::new(0));
        limiter.0.borrow_mut().limit = LIMIT_MIN;
        let admitted = |priority| {
            let held: Vec<Permit> = std::iter::from_fn(|| limiter.admit(1, priority)).collect();
            held.len()
        };
        use Priority::{Critical, Default, Sheddable};
        assert_eq!([Sheddable, Default, Critical].map(admitted), [4, 8, 16]);
        // They do not add up: the last request in line counts all requests in flight.
        let held: Vec<Permit> = (0..8).map_while(|_| limiter.admit(1, Default)).collect();
        assert!(limiter.admit(1, Sheddable).is_none() && limiter.admit(1, Default).is_none());
        assert!(limiter.admit(1, Critical).is_some());
        drop(held);
        assert!(limiter.admit(1, Sheddable).is_some());
    }

    #[test]
    fn one_passes_every_window_whatever_is_stuck() {
        let limiter = Rc::new(Limiter::new(0));
        limiter.0.borrow_mut().limit = LIMIT_MIN;
        let mut stuck: Vec<Permit> = std::iter::from_fn(|| limiter.admit(1, Priority::Default)).collect();
        assert!(limiter.admit(WINDOW_US, Priority::Default).is_none());
        stuck.extend(limiter.admit(1 + WINDOW_US, Priority::Default));
        assert_eq!(stuck.len(), 9);
        assert!(limiter.admit(2 + WINDOW_US, Priority::Default).is_none());
    }
}
