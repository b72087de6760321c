//! The rate of interim (1xx) responses of one attempt. An endpoint may send one now and then for hours (102
//! Processing, RFC 2518), so that their number is no measure; a flood of them is ended. It knows no clock.

/// Interim responses that an endpoint may send at once, as a browser's page has early hints.
const BURST_MAX: u32 = 32;
/// Milliseconds after which one more is admitted.
const REFILL_MS: u64 = 1_000;

/// The failure of an endpoint that exceeds the rate.
pub(crate) const TOO_MANY_INTERIM: &str = "it sent too many interim responses in a short time";

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct InterimRate {
    /// Responses admitted and not yet refilled.
    counted: u32,
    /// When the last one of them was refilled, or the first one came.
    since_ms: u64,
}

impl InterimRate {
    /// Counts an interim response at `now_ms`; false if it exceeds the rate.
    pub(crate) fn admits(&mut self, now_ms: u64) -> bool {
        let refills = now_ms.saturating_sub(self.since_ms) / REFILL_MS;
        if self.counted == 0 || refills >= u64::from(self.counted) {
            (self.counted, self.since_ms) = (0, now_ms);
        } else {
            self.counted -= refills as u32;
            self.since_ms += refills * REFILL_MS;
        }
        self.counted += 1;
        self.counted <= BURST_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `count` responses, `every_ms` apart, are admitted before the first that is not.
    fn admitted(count: u64, every_ms: u64) -> u64 {
        let mut rate = InterimRate::default();
        (0..count).take_while(|number| rate.admits(5 + number * every_ms)).count() as u64
    }

    #[test]
    fn interim_responses_are_bounded_by_rate() {
        let table = [(0, 32), (1, 32), (500, 63), (1_000, 10_000), (15_000, 10_000)];
        for (every_ms, expected) in table {
            assert_eq!(admitted(10_000, every_ms), expected, "every {every_ms} ms");
        }
        let mut rate = InterimRate::default();
        assert!((0..32).all(|_| rate.admits(0)) && !rate.admits(0));
        assert!(rate.admits(60_000), "a pause fills the burst");
    }
}
