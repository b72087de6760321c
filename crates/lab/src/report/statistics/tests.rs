//! Tables and properties of medians, ratios and intervals.

use proptest::prelude::*;

use super::*;

#[test]
fn median_and_median_deviation() {
    let rows: &[(&[f64], [f64; 4])] = &[
        (&[4.0], [4.0, 4.0, 4.0, 0.0]),
        (&[3.0, 1.0], [2.0, 1.0, 3.0, 1.0]),
        (&[5.0, 1.0, 2.0], [2.0, 1.0, 5.0, 1.0]),
        // One round on a busy machine changes neither.
        (&[10.0, 11.0, 12.0, 13.0, 900.0], [12.0, 10.0, 900.0, 1.0]),
        (&[f64::NAN, 7.0], [7.0, 7.0, 7.0, 0.0]),
    ];
    for (values, expected) in rows {
        let got = spread(values.iter().copied()).unwrap();
        assert_eq!([got.median, got.min, got.max, got.median_deviation], *expected, "{values:?}");
    }
    assert_eq!(spread([]), None);
    assert_eq!(spread([f64::NAN, f64::INFINITY]), None);
}

#[test]
fn verdicts_of_ratios_within_rounds() {
    use RatioSignificance::{Above, Below, TooFewRounds, WithinNoise};
    let rows: &[(&[f64], RatioSignificance)] = &[
        (&[2.0], TooFewRounds),
        (&[2.0, 2.1], TooFewRounds),
        // A large difference needs few rounds, ...
        (&[2.9, 3.0, 3.1], Above),
        (&[0.30, 0.31, 0.32], Below),
        // ... a small one many or steady ones.
        (&[1.02, 1.05, 1.08], WithinNoise),
        (&[1.048, 1.05, 1.052], Above),
        (&[1.02, 1.04, 1.05, 1.05, 1.06, 1.08, 1.03, 1.07], Above),
        // A steady but tiny difference is not reported.
        (&[1.005, 1.005, 1.005, 1.005], WithinNoise),
        (&[0.995, 0.995, 0.995, 0.995], WithinNoise),
        (&[0.9, 1.0, 1.1, 0.95, 1.05], WithinNoise),
        // Ten rounds tolerate a disturbed one.
        (&[1.05, 1.06, 1.04, 1.05, 1.06, 1.05, 1.04, 1.05, 1.06, 0.60], Above),
        (&[1.0, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0, 1.01, 0.99, 3.0], WithinNoise),
    ];
    for (ratios, expected) in rows {
        assert_eq!(paired(ratios.iter().copied()).unwrap().verdict, *expected, "{ratios:?}");
    }
    assert_eq!(paired([0.0, f64::NAN, -1.0, f64::INFINITY]), None);
}

#[test]
fn verdicts_of_two_runs() {
    use RatioSignificance::{Above, Below, TooFewRounds, WithinNoise};
    let rows: &[(&[f64], &[f64], RatioSignificance)] = &[
        (&[1.0, 1.0], &[2.0, 2.0, 2.0], TooFewRounds),
        (&[1.0, 1.02, 0.98], &[1.0, 1.01, 1.03], WithinNoise),
        (&[10.0, 10.1, 9.9], &[20.0, 20.3, 19.8], Above),
        (&[10.0, 10.1, 9.9, 10.0], &[9.0, 9.1, 8.9, 9.0], Below),
        (&[5.0, 5.0, 5.0], &[5.0, 5.0, 5.0], WithinNoise),
        (&[5.0, 5.0, 5.0], &[6.0, 6.0, 6.0], Above),
        // Rounds that scatter by a third do not show a tenth.
        (&[1.0, 1.3, 0.8], &[1.1, 1.43, 0.88], WithinNoise),
    ];
    for (before, after, expected) in rows {
        let got = unpaired(before.iter().copied(), after.iter().copied()).unwrap();
        assert_eq!(got.verdict, *expected, "{before:?} {after:?} {got:?}");
    }
    assert_eq!(unpaired([], [1.0, 2.0, 3.0]), None);
    assert_eq!(unpaired([1.0, 2.0, 3.0], []), None);
}

/// The share of Student's t between `-reach` and `reach`, by Simpson's rule over its density.
fn share_within(reach: f64, freedom: f64) -> f64 {
    let density = |t: f64| (1.0 + t * t / freedom).powf(-(freedom + 1.0) / 2.0);
    // t = tan(x) keeps the tail of one degree of freedom within reach of a fixed number of steps.
    let at = |x: f64| density(x.tan()) / x.cos().powi(2);
    let integral = |end: f64| {
        let steps = 20_000;
        let step = end / f64::from(steps);
        let inner: f64 = (1..steps).map(|i| f64::from(2 + 2 * (i % 2)) * at(f64::from(i) * step)).sum();
        (at(0.0) + inner + at(end)) * step / 3.0
    };
    integral(reach.atan()) / integral(std::f64::consts::FRAC_PI_2 - 1e-9)
}

#[test]
fn quantiles_leave_one_in_a_hundred_outside() {
    for freedom in (1..=31).chain([40, 60, 120, 1000]) {
        let freedom = f64::from(freedom);
        let share = share_within(t_quantile(freedom), freedom);
        assert!((share - 0.99).abs() < 1e-4, "{freedom} degrees of freedom: {share}");
    }
}

fn ratios() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(0.01f64..100.0, 1..30)
}

proptest! {
    #[test]
    fn a_median_lies_between_the_least_and_the_greatest(values in prop::collection::vec(-1e12f64..1e12, 1..40)) {
        let got = spread(values.iter().copied()).unwrap();
        prop_assert!(got.min <= got.median && got.median <= got.max);
        prop_assert!(got.median_deviation <= got.max - got.min);
        let below = values.iter().filter(|value| **value < got.median).count();
        prop_assert!(below * 2 <= values.len());
    }

    #[test]
    fn the_order_of_rounds_changes_nothing(ratios in ratios(), seed: u64) {
        let mut shuffled = ratios.clone();
        fastrand::Rng::with_seed(seed).shuffle(&mut shuffled);
        prop_assert_eq!(paired(ratios), paired(shuffled));
    }

    /// Exchanging the two sides inverts the ratio and the verdict.
    #[test]
    fn exchanged_sides_give_the_inverse(ratios in ratios()) {
        let there = paired(ratios.iter().copied()).unwrap();
        let back = paired(ratios.iter().map(|ratio| 1.0 / ratio)).unwrap();
        let expected = match there.verdict {
            RatioSignificance::Above => RatioSignificance::Below,
            RatioSignificance::Below => RatioSignificance::Above,
            other => other,
        };
        prop_assert_eq!(back.verdict, expected);
        prop_assert!((there.median * back.median - 1.0).abs() < 1e-9);
    }

    /// A machine that is slower for a whole round slows both, and the ratio stays the same.
    #[test]
    fn drift_common_to_a_round_cancels(
        rounds in prop::collection::vec((0.5f64..2.0, 0.5f64..2.0, 0.2f64..5.0), 1..20),
    ) {
        let quiet = paired(rounds.iter().map(|(one, other, _)| one / other)).unwrap();
        let drifting = paired(rounds.iter().map(|(one, other, drift)| (one * drift) / (other * drift))).unwrap();
        prop_assert!((quiet.median / drifting.median - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_verdict_needs_an_interval_that_leaves_one_out(ratios in ratios()) {
        let got = paired(ratios.iter().copied()).unwrap();
        prop_assert_eq!(got.interval.is_none(), ratios.len() < LEAST_ROUNDS);
        match (got.verdict, got.interval) {
            (RatioSignificance::Above, Some((low, _))) => prop_assert!(low > 1.0 && got.median > 1.0),
            (RatioSignificance::Below, Some((_, high))) => prop_assert!(high < 1.0 && got.median < 1.0),
            (RatioSignificance::WithinNoise, Some((low, high))) => prop_assert!(low <= high),
            (verdict, interval) => prop_assert!(verdict == RatioSignificance::TooFewRounds && interval.is_none()),
        }
    }
}
