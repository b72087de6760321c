//! When requests are due in an open loop: at a fixed rate, whatever the responses do. It reads no clock;
//! times are passed in, as nanoseconds since the run began.

use std::collections::VecDeque;

/// The due requests of one thread: every `threads`th of all, beginning with its own.
#[derive(Debug)]
pub(super) struct LoadSchedule {
    /// Nanoseconds between two of this thread's requests, and before the first.
    interval_ns: f64,
    offset_ns: f64,
    /// No request becomes due at or after this time.
    end_ns: u64,
    /// Number of requests that have become due.
    due: u64,
    most: u64,
    waiting: VecDeque<u64>,
    /// Requests that became due when the queue was full.
    refused: u64,
}

impl LoadSchedule {
    /// `rate` requests a second are due on all threads together, from 0 until before `end_ns`, and no more
    /// than `most` on this one.
    pub(super) fn new(rate: f64, thread: usize, threads: usize, end_ns: u64, most: u64) -> LoadSchedule {
        let apart_ns = NANOSECONDS / rate;
        LoadSchedule {
            interval_ns: apart_ns * threads as f64,
            offset_ns: apart_ns * thread as f64,
            end_ns,
            due: 0,
            most,
            waiting: VecDeque::new(),
            refused: 0,
        }
    }

    /// Puts requests that are due by `now_ns` into the queue.
    pub(super) fn advance(&mut self, now_ns: u64) {
        while let Some(at) = self.next_ns().filter(|at| *at <= now_ns) {
            self.due += 1;
            if self.waiting.len() < LONGEST_QUEUE {
                self.waiting.push_back(at);
            } else {
                self.refused += 1;
            }
        }
    }

    /// Takes the oldest waiting request; returns when it was due.
    pub(super) fn take(&mut self) -> Option<u64> {
        self.waiting.pop_front()
    }

    /// Takes the oldest waiting request if it was due before `before_ns`.
    pub(super) fn take_before(&mut self, before_ns: u64) -> Option<u64> {
        self.waiting.pop_front_if(|due_ns| *due_ns < before_ns)
    }

    /// When the next request becomes due; `None` if all have.
    pub(super) fn next_ns(&self) -> Option<u64> {
        // Computed from the number and not from the request before, because a sum of rounded intervals would
        // drift.
        let at = (self.offset_ns + self.due as f64 * self.interval_ns).round() as u64;
        (at < self.end_ns && self.due < self.most).then_some(at)
    }

    /// Whether no request is due or will be.
    pub(super) fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.next_ns().is_none()
    }

    /// Requests that were due and not taken; to be read after the end of sending.
    pub(super) fn unsent(&self) -> u64 {
        self.refused + self.waiting.len() as u64
    }
}

const NANOSECONDS: f64 = 1e9;
/// Most due requests of one thread that wait for a connection. Beyond that the server is so far behind that
/// waiting shows nothing more. At 100,000 per second it is a standstill of two and a half seconds; two
/// megabytes.
const LONGEST_QUEUE: usize = 1 << 18;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn taken(schedule: &mut LoadSchedule) -> Vec<u64> {
        std::iter::from_fn(|| schedule.take()).collect()
    }

    #[test]
    fn requests_are_due_whatever_the_responses_do() {
        let mut schedule = LoadSchedule::new(4.0, 0, 1, SECOND, u64::MAX);
        let mut check = |now_ms: u64, wanted_ms: &[u64]| {
            schedule.advance(now_ms * 1_000_000);
            let wanted: Vec<u64> = wanted_ms.iter().map(|ms| ms * 1_000_000).collect();
            assert_eq!(taken(&mut schedule), wanted, "at {now_ms}");
        };
        check(0, &[0]);
        check(249, &[]);
        check(250, &[250]);
        // After a gap of half a second both are due, each at its own time.
        check(800, &[500, 750]);
        check(5000, &[]);
        assert!(schedule.is_over() && schedule.unsent() == 0);
    }

    #[test]
    fn only_requests_due_before_a_time_expire() {
        let mut schedule = LoadSchedule::new(10.0, 0, 1, SECOND, u64::MAX);
        schedule.advance(SECOND / 2);
        let expired: Vec<u64> = std::iter::from_fn(|| schedule.take_before(SECOND / 5)).collect();
        assert_eq!(expired, [0, SECOND / 10]);
        assert_eq!((schedule.take(), schedule.unsent()), (Some(SECOND / 5), 3));
    }

    #[test]
    fn threads_take_turns() {
        let all: Vec<u64> = (0..3)
            .flat_map(|thread| {
                let mut schedule = LoadSchedule::new(1000.0, thread, 3, SECOND / 100, u64::MAX);
                schedule.advance(SECOND);
                taken(&mut schedule)
            })
            .collect();
        let mut sorted = all.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..10).map(|number| number * 1_000_000).collect::<Vec<_>>());
        assert_eq!(all[..2], [0, 3_000_000], "the first thread has every third");
    }

    #[test]
    fn an_odd_rate_does_not_drift() {
        let mut schedule = LoadSchedule::new(333.3, 0, 1, 1000 * SECOND, u64::MAX);
        let mut count = 0;
        for second in 1..=1000 {
            schedule.advance(second * SECOND);
            count += taken(&mut schedule).len();
        }
        assert_eq!(count, 333_300);
    }

    #[test]
    fn the_queue_and_the_number_have_limits() {
        let mut schedule = LoadSchedule::new(1e6, 0, 1, SECOND, u64::MAX);
        schedule.advance(SECOND);
        assert_eq!(schedule.unsent(), 1_000_000);
        assert_eq!(taken(&mut schedule).len(), LONGEST_QUEUE);
        assert_eq!(schedule.unsent(), 1_000_000 - LONGEST_QUEUE as u64);
        let mut schedule = LoadSchedule::new(10.0, 0, 1, u64::MAX, 3);
        schedule.advance(60 * SECOND);
        assert_eq!(taken(&mut schedule), [0, SECOND / 10, SECOND / 5]);
        assert!(schedule.is_over());
    }
}
