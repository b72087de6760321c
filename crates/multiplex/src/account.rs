//! The account of cheap frames: what a peer sends that costs more than it pays. It does not know the frames
//! and their limits.

/// How many frames of one kind are accepted in an interval.
#[derive(Debug)]
pub struct Rate {
    /// Frames that every peer may send.
    pub base: u32,
    /// Further ones for each completed stream.
    pub per_stream: u64,
    /// Further ones for each DATA frame with data.
    pub per_data_frame: u64,
    /// The fault of a peer that sends more, in a few words.
    pub reason: &'static str,
}

/// A kind of frame is beyond its budget in the current interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Excess {
    /// The reason of the rate.
    pub reason: &'static str,
    /// How many budgets are used up, at least 1.
    pub budgets: u64,
}

/// Counts of the current interval, one for each kind of frame.
#[derive(Debug)]
pub struct Account<const KINDS: usize> {
    interval_start_ms: u64,
    counts: [u32; KINDS],
    /// Streams that were completed, which allow more of some frames.
    streams: u32,
    /// DATA frames with data in both directions, which allow more of some frames.
    data_frames: u32,
}

impl<const KINDS: usize> Default for Account<KINDS> {
    fn default() -> Self {
        Self { interval_start_ms: 0, counts: [0; KINDS], streams: 0, data_frames: 0 }
    }
}

impl<const KINDS: usize> Account<KINDS> {
    /// Starts a new interval when the current one is as long as `interval_ms`.
    #[inline]
    pub fn tick(&mut self, now_ms: u64, interval_ms: u64) {
        if now_ms.saturating_sub(self.interval_start_ms) >= interval_ms {
            *self = Self { interval_start_ms: now_ms, ..Self::default() };
        }
    }

    /// When the current interval began.
    pub fn interval_start_ms(&self) -> u64 {
        self.interval_start_ms
    }

    /// A stream was completed on both sides.
    pub fn stream_completed(&mut self) {
        self.streams = self.streams.saturating_add(1);
    }

    /// A DATA frame with data was sent or received.
    #[inline]
    pub fn data_frame(&mut self) {
        self.data_frames = self.data_frames.saturating_add(1);
    }

    /// Counts one frame of a kind.
    ///
    /// # Errors
    /// The peer sent too many of them in this interval.
    pub fn charge(&mut self, kind: usize, rates: &[Rate; KINDS]) -> Result<(), Excess> {
        let (rate, count) = (&rates[kind], &mut self.counts[kind]);
        *count = count.saturating_add(1);
        let earned =
            u64::from(self.streams) * rate.per_stream + u64::from(self.data_frames) * rate.per_data_frame;
        let (count, budget) = (u64::from(*count), u64::from(rate.base) + earned);
        if count <= budget {
            return Ok(());
        }
        Err(Excess { reason: rate.reason, budgets: (count - 1) / budget.max(1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: [Rate; 2] = [
        Rate { base: 3, per_stream: 1, per_data_frame: 2, reason: "too many" },
        Rate { base: 5, per_stream: 0, per_data_frame: 0, reason: "far too many" },
    ];

    fn accepted(account: &mut Account<2>, kind: usize) -> usize {
        (0..100).find(|_| account.charge(kind, &RATES).is_err()).unwrap()
    }

    #[test]
    fn rates_hold_and_an_interval_forgives() {
        let mut account = Account::default();
        account.stream_completed();
        account.data_frame();
        assert_eq!((accepted(&mut account, 0), accepted(&mut account, 1)), (6, 5));
        account.tick(9, 10);
        let excess = |budgets| Err(Excess { reason: "far too many", budgets });
        assert_eq!(account.charge(1, &RATES), excess(1));
        (8..=10).for_each(|_| assert_eq!(account.charge(1, &RATES), excess(1)));
        assert_eq!(account.charge(1, &RATES), excess(2), "eleven are more than two budgets of five");
        account.tick(10, 10);
        assert_eq!((accepted(&mut account, 0), accepted(&mut account, 1)), (3, 5));
    }
}
