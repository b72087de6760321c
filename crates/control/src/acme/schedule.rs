//! When a certificate is ordered: renewal in good time with jitter, the authority's own advice (RFC 9773),
//! and pauses after failures. Pure: times and random numbers are handed in. All times are milliseconds since
//! the Unix epoch.

use serde::{Deserialize, Serialize};

/// When a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) not_before_ms: u64,
    pub(super) not_after_ms: u64,
}

/// The window in which the authority advises to renew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Advice {
    pub(super) start_ms: u64,
    pub(super) end_ms: u64,
    /// When to ask again.
    pub(super) check_at_ms: u64,
    /// The certificate that it is about.
    pub(super) serial: String,
}

/// The past of a certificate's orders.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Past {
    /// When the certificate in use was issued; 0: not here.
    pub(super) issued_at_ms: u64,
    /// Renewals in a row that were much earlier than usual.
    pub(super) early_renewals: u32,
}

impl Validity {
    /// Whether it has begun and not ended.
    pub(super) fn holds_at(&self, now_ms: u64) -> bool {
        (self.not_before_ms..self.not_after_ms).contains(&now_ms)
    }

    pub(super) fn lifetime_ms(&self) -> u64 {
        self.not_after_ms.saturating_sub(self.not_before_ms)
    }

    /// The usual time of renewal: two thirds of the lifetime, up to a twenty-fourth earlier so that
    /// certificates that were issued together are not renewed together. `random` is any number that stays the
    /// same for a certificate.
    pub(super) fn usual_ms(&self, random: u64) -> u64 {
        let jitter = self.lifetime_ms() / 24;
        self.not_before_ms + self.lifetime_ms() / 3 * 2 - spread(random, jitter)
    }

    /// When to renew. The authority's advice counts where it is earlier than the usual time: a certificate
    /// that will be revoked has to be replaced at once. Advice that always says "now" is followed once, then
    /// after growing pauses.
    pub(super) fn renew_at_ms(&self, advice: Option<&Advice>, past: Past, random: u64) -> u64 {
        let usual = self.usual_ms(random);
        let Some(advice) = advice.filter(|advice| advice.start_ms < advice.end_ms) else { return usual };
        let advised = advice.start_ms + spread(random, advice.end_ms - advice.start_ms);
        let pause = EARLY_PAUSES_MS.get(past.early_renewals as usize).or(EARLY_PAUSES_MS.last());
        let floor = past.issued_at_ms.saturating_add(pause.copied().unwrap_or_default());
        usual.min(advised.max(floor))
    }

    /// Whether a renewal at `now_ms` is so early that only advice can be the reason.
    pub(super) fn is_early(&self, now_ms: u64) -> bool {
        now_ms < self.not_before_ms + self.lifetime_ms() / 2
    }
}

/// The pause after this many failures in a row, in milliseconds: it grows to a day, and varies by a fifth.
pub(super) fn pause_ms(failures: u32, random: u64) -> u64 {
    let index = (failures.max(1) as usize - 1).min(PAUSES_S.len() - 1);
    let pause = PAUSES_S[index] * 1000;
    pause - pause / 10 + spread(random, pause / 5)
}

/// A number below `bound` made from `random`.
fn spread(random: u64, bound: u64) -> u64 {
    let bound = u128::from(bound);
    u64::try_from((u128::from(random) * bound) >> 64).unwrap_or_default()
}

/// After failures in a row, in seconds. The first ones are short, because a record of DNS or a firewall is
/// often repaired while it is watched; the last one keeps a name that never validates far below the limits of
/// authorities (Let's Encrypt allows five failed validations of a name in an hour).
const PAUSES_S: [u64; 8] = [60, 300, 900, 3_600, 10_800, 21_600, 43_200, 86_400];
/// Between an issue and a renewal that is advised early, by how many such renewals came before it: none, an
/// hour, a day.
const EARLY_PAUSES_MS: [u64; 3] = [0, 3_600_000, 86_400_000];

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400_000;

    fn advice(start_ms: u64, end_ms: u64) -> Advice {
        Advice { start_ms, end_ms, check_at_ms: 0, serial: String::new() }
    }

    #[test]
    fn usual_renewal_is_at_two_thirds_with_jitter() {
        let validity = Validity { not_before_ms: 100 * DAY, not_after_ms: 190 * DAY };
        assert_eq!(validity.renew_at_ms(None, Past::default(), 0), 160 * DAY);
        let earliest = validity.renew_at_ms(None, Past::default(), u64::MAX);
        assert!((156 * DAY..157 * DAY).contains(&earliest), "{earliest}");
        let short = Validity { not_before_ms: 0, not_after_ms: 30_000 };
        assert_eq!(short.usual_ms(0), 20_000);
        let odd = Validity { not_before_ms: DAY, not_after_ms: 0 };
        assert_eq!(odd.usual_ms(u64::MAX), DAY, "an impossible validity is due at its beginning");
    }

    #[test]
    fn advice_counts_only_if_it_is_earlier() {
        let validity = Validity { not_before_ms: 100 * DAY, not_after_ms: 190 * DAY };
        let past = Past { issued_at_ms: 100 * DAY, early_renewals: 0 };
        let check = |start, end, random, expected| {
            assert_eq!(validity.renew_at_ms(Some(&advice(start, end)), past, random), expected);
        };
        check(120 * DAY, 122 * DAY, 1 << 63, 121 * DAY);
        check(170 * DAY, 172 * DAY, 0, 160 * DAY);
        check(0, DAY, 0, 100 * DAY);
        check(122 * DAY, 120 * DAY, 0, 160 * DAY);
    }

    #[test]
    fn repeated_early_advice_is_followed_ever_later() {
        let validity = Validity { not_before_ms: 100 * DAY, not_after_ms: 190 * DAY };
        let now = advice(0, 1);
        let at = |early_renewals| {
            let past = Past { issued_at_ms: 100 * DAY, early_renewals };
            validity.renew_at_ms(Some(&now), past, 0) - 100 * DAY
        };
        assert_eq!([at(0), at(1), at(2), at(9)], [0, DAY / 24, DAY, DAY]);
        assert!(validity.is_early(101 * DAY) && !validity.is_early(150 * DAY));
    }

    #[test]
    fn pauses_grow_to_a_day() {
        let check = |failures, seconds: u64| {
            let (least, most) = (pause_ms(failures, 0), pause_ms(failures, u64::MAX));
            assert_eq!(least, seconds * 900, "after {failures}");
            assert!(most < seconds * 1100, "after {failures}: {most}");
        };
        check(0, 60);
        check(1, 60);
        check(2, 300);
        check(8, 86_400);
        check(u32::MAX, 86_400);
    }
}
