//! Turns by weight, for plugins that divide requests: of as many requests in a row as the weights add up to,
//! each choice gets exactly its share, and the turns of a choice are spread. Workers share one counter and
//! take no lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counter of requests that were divided. Kept apart from the weights, so that a changed weight does not
/// begin anew.
pub(crate) type Counter = Arc<AtomicU64>;

/// See the module.
#[derive(Debug)]
pub(crate) struct WeightedTurns {
    /// Where the share of each choice ends in a round of all weights.
    ends: Box<[u64]>,
    /// The distance of two requests in a row, without a common divisor with the length of the round.
    stride: u64,
    counter: Counter,
}

impl WeightedTurns {
    /// Turns of choices with these weights; choices without any weight among them share equally, as in
    /// APISIX.
    ///
    /// # Errors
    /// There is no choice, or the weights add up to more than a number can hold.
    pub(crate) fn new(weights: &[u64], counter: Counter) -> Result<WeightedTurns, String> {
        if weights.is_empty() {
            return Err("at least one choice is needed".to_owned());
        }
        let divisor = weights.iter().fold(0, |divisor, weight| common_divisor(divisor, *weight));
        let mut total = 0_u64;
        let mut ends = Vec::with_capacity(weights.len());
        for weight in weights {
            let share = weight.checked_div(divisor).unwrap_or(1);
            total = total.checked_add(share).ok_or("the sum of the weights is too large")?;
            ends.push(total);
        }
        Ok(WeightedTurns { ends: ends.into(), stride: stride(total), counter })
    }

    /// The share of each choice, in percent.
    #[allow(clippy::cast_precision_loss)] // Shares are shown with one decimal.
    pub(crate) fn shares(&self) -> impl Iterator<Item = f64> {
        let total = self.ends.last().copied().unwrap_or_default().max(1);
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        self.ends.iter().zip(begins).map(move |(end, begin)| (end - begin) as f64 * 100.0 / total as f64)
    }

    /// The choice of the next request.
    pub(crate) fn next(&self) -> usize {
        let Some(total) = self.ends.last().copied().filter(|_| self.ends.len() > 1) else { return 0 };
        let turn = self.counter.fetch_add(1, Ordering::Relaxed) % total;
        let position = (u128::from(turn) * u128::from(self.stride) % u128::from(total)) as u64;
        self.ends.partition_point(|end| *end <= position)
    }
}

/// The golden section of a round: steps of this length stay far from each other for longest.
fn stride(total: u64) -> u64 {
    let wanted = (total as f64 * 0.618_034).round() as u64;
    (wanted.max(1)..=total).find(|stride| common_divisor(*stride, total) == 1).unwrap_or(1)
}

fn common_divisor(left: u64, right: u64) -> u64 {
    let (mut left, mut right) = (left, right);
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(weights: &[u64], expected: &[usize]) {
        let turns = WeightedTurns::new(weights, Counter::default()).unwrap();
        let got: Vec<usize> = expected.iter().map(|_| turns.next()).collect();
        assert_eq!(got, expected, "{weights:?}");
    }

    #[test]
    fn turns_follow_weights_and_are_spread() {
        check(&[5], &[0, 0, 0]);
        check(&[0], &[0, 0]);
        check(&[1, 1], &[0, 1, 0, 1]);
        check(&[200, 100], &[0, 1, 0, 0, 1, 0]);
        check(&[4, 1], &[0, 0, 0, 1, 0]);
        check(&[0, 1], &[1, 1]);
        check(&[1, 0, 1], &[0, 2, 0, 2]);
        check(&[0, 0], &[0, 1, 0, 1]);
    }

    #[test]
    fn every_round_has_each_share_exactly() {
        for weights in [&[1, 2, 3][..], &[90, 9, 1], &[7, 0, 13, 17], &[1_000_000, 1]] {
            let turns = WeightedTurns::new(weights, Counter::default()).unwrap();
            let mut counts = vec![0; weights.len()];
            (0..weights.iter().sum()).for_each(|_: u64| counts[turns.next()] += 1);
            assert_eq!(counts, weights);
        }
    }

    #[test]
    fn weights_beyond_a_number_are_refused() {
        assert!(WeightedTurns::new(&[], Counter::default()).is_err());
        assert!(WeightedTurns::new(&[u64::MAX, u64::MAX - 1], Counter::default()).is_err());
        let turns = WeightedTurns::new(&[u64::MAX - 1, 1], Counter::default()).unwrap();
        assert!((0..100).all(|_| turns.next() < 2));
    }

    #[test]
    fn changed_weights_go_on_with_the_counter() {
        let counter = Counter::default();
        let before = WeightedTurns::new(&[1, 1], counter.clone()).unwrap();
        assert_eq!(before.next(), 0);
        let after = WeightedTurns::new(&[1, 1], counter).unwrap();
        assert_eq!(after.next(), 1);
    }
}
