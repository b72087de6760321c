//! How many rounds show a difference of 5 %: a simulation of measured rounds, the same every time. The page
//! on the laboratory's method quotes the numbers asserted here.

use super::{RatioSignificance, paired, unpaired};

/// The noise of a machine.
struct Noise {
    /// Standard deviation of a figure's logarithm around its round.
    scatter: f64,
    /// Share of runs that another program disturbs, which makes them up to a fifth slower.
    disturbed: f64,
}

/// Standard deviation of the noise that a round has in common: the machine is slower or faster for all.
/// Ratios cancel it.
const DRIFT: f64 = 0.10;
/// Simulated runs of the laboratory behind each share.
const RUNS: u32 = 2000;

fn normal(random: &mut fastrand::Rng) -> f64 {
    // G. E. P. Box and M. E. Muller; 1 - x keeps the logarithm from zero.
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

/// Ratios of rounds between a contender that is `slower` times as slow and the baseline.
fn rounds(random: &mut fastrand::Rng, count: usize, slower: f64, noise: &Noise) -> Vec<f64> {
    let figure = |random: &mut fastrand::Rng, drift: f64| {
        let disturbance = if random.f64() < noise.disturbed { 0.2 * random.f64() } else { 0.0 };
        (drift + noise.scatter * normal(random) - disturbance).exp()
    };
    let mut rounds = Vec::new();
    for _ in 0..count {
        let drift = DRIFT * normal(random);
        let baseline = 20_000.0 * figure(random, drift);
        rounds.push(20_000.0 / slower * figure(random, drift) / baseline);
    }
    rounds
}

/// The share of runs with the verdict "slower", and the share with any verdict except "within noise".
fn shares(count: usize, slower: f64, noise: &Noise) -> (f64, f64) {
    let mut random = fastrand::Rng::with_seed(5);
    let verdicts: Vec<RatioSignificance> =
        (0..RUNS).map(|_| paired(rounds(&mut random, count, slower, noise)).unwrap().verdict).collect();
    let share = |wanted: &dyn Fn(&RatioSignificance) -> bool| {
        verdicts.iter().filter(|verdict| wanted(verdict)).count() as f64 / f64::from(RUNS)
    };
    (
        share(&|verdict| *verdict == RatioSignificance::Below),
        share(&|verdict| *verdict != RatioSignificance::WithinNoise),
    )
}

#[test]
fn five_percent_slowdown_is_seen_nine_of_ten_times() {
    // Scatter of a figure, share of disturbed runs, number of rounds that suffices, number that does not.
    let rows = [
        (0.005, 0.0, 4, 3),
        (0.010, 0.0, 5, 4),
        (0.015, 0.0, 7, 5),
        (0.020, 0.0, 9, 7),
        (0.025, 0.0, 13, 10),
        (0.030, 0.0, 17, 13),
        (0.025, 0.05, 17, 13),
    ];
    for (scatter, disturbed, enough, too_few) in rows {
        let noise = Noise { scatter, disturbed };
        let (seen, _) = shares(enough, 1.05, &noise);
        assert!(seen >= 0.9, "{enough} rounds, scatter {scatter}, disturbed {disturbed}: seen in {seen}");
        let (seen, _) = shares(too_few, 1.05, &noise);
        assert!(seen < 0.9, "{too_few} rounds, scatter {scatter}, disturbed {disturbed}: seen in {seen}");
    }
}

#[test]
fn without_a_slowdown_none_is_seen() {
    for (scatter, disturbed) in [(0.01, 0.0), (0.025, 0.0), (0.025, 0.05), (0.10, 0.0)] {
        for count in [3, 5, 7, 9, 12, 15, 20] {
            let (_, seen) = shares(count, 1.0, &Noise { scatter, disturbed });
            assert!(seen <= 0.02, "{count} rounds, scatter {scatter}, disturbed {disturbed}: told in {seen}");
        }
    }
}

#[test]
fn runs_are_compared_by_ratio_to_baseline() {
    // A second run beside the same baseline scatters as well, so each needs about twice the rounds.
    let noise = Noise { scatter: 0.015, disturbed: 0.0 };
    for (count, slower, least, most) in [(12, 1.05, 0.9, 1.0), (12, 1.0, 0.0, 0.02), (5, 1.0, 0.0, 0.02)] {
        let mut random = fastrand::Rng::with_seed(6);
        let changed = (0..RUNS).filter(|_| {
            let before = rounds(&mut random, count, 1.0, &noise);
            let after = rounds(&mut random, count, slower, &noise);
            unpaired(before, after).unwrap().verdict != RatioSignificance::WithinNoise
        });
        let share = changed.count() as f64 / f64::from(RUNS);
        assert!((least..=most).contains(&share), "{count} rounds, {slower}: told in {share}");
    }
}
