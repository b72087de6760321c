//! Medians, their scatter, and whether a ratio differs from one. It takes numbers and gives numbers; what was
//! measured, and which direction is good, it does not know.
//!
//! **The rule.** Rounds are compared by the logarithm of a ratio, so that twice and half are equally far from
//! one. The interval is Student's t around the mean of the rounds' logarithms, at a confidence of 99 %; from
//! ten rounds up the tenth of the rounds at either end is trimmed, so that one round in which a neighbour had
//! the machine does not hide what all others agree on (J. W. Tukey and D. H. McLaughlin, "Less vulnerable
//! confidence and significance procedures for location based on a single sample", Sankhyā A 25, 1963). Two
//! runs that share no rounds are compared likewise with separate variances (K. K. Yuen, "The two-sample
//! trimmed t for unequal population variances", Biometrika 61, 1974; without trimming it is B. L. Welch's
//! test). A ratio is told from one if the interval leaves one out and the median is at least [`LEAST_EFFECT`]
//! away, on the same side. It needs [`LEAST_ROUNDS`] rounds.
//!
//! A rank test would assume less, but cannot reach 99 % with fewer than eight rounds, however large the
//! difference is. `statistics/power.rs` shows how many rounds see a difference of 5 %.

#[cfg(test)]
mod power;
#[cfg(test)]
mod tests;

/// With fewer rounds no verdict is given, because the scatter itself is unknown.
pub const LEAST_ROUNDS: usize = 3;

/// A smaller difference is called noise, however steady it is: the order of the contenders in a round, the
/// place of a program in memory and the length of its environment make as much (T. Mytkowicz et al.,
/// "Producing wrong data without doing anything obviously wrong", ASPLOS 2009).
pub const LEAST_EFFECT: f64 = 0.01;

/// From this share on the rounds of one figure count as scattered. The machine was then half or twice as fast
/// in some of them, which is more than any difference between two gateways of one kind.
pub const SCATTERED_SHARE: f64 = 0.5;

/// How often the interval contains the true ratio.
pub const CONFIDENCE_PERCENT: f64 = 99.0;

/// One figure over the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// The median distance from the median, not scaled to a standard deviation.
    pub median_deviation: f64,
    /// How many rounds had the figure.
    pub rounds: usize,
}

impl Spread {
    /// The distance of the outermost round from the median, as a share of the median.
    pub fn farthest(&self) -> f64 {
        let farthest = (self.max - self.median).max(self.median - self.min);
        if self.median > 0.0 { farthest / self.median } else { 0.0 }
    }

    /// Whether the rounds differ so much that their median describes none of them; then only ratios within a
    /// round can be used.
    pub fn is_scattered(&self) -> bool {
        self.farthest() > SCATTERED_SHARE
    }
}

/// The ratio of a figure to another one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The median of the rounds' ratios.
    pub median: f64,
    /// The smallest ratio of a round.
    pub min: f64,
    /// The greatest ratio of a round.
    pub max: f64,
    /// The interval of the true ratio at [`CONFIDENCE_PERCENT`]; `None` with fewer than [`LEAST_ROUNDS`]
    /// rounds.
    pub interval: Option<(f64, f64)>,
    /// Whether the ratio differs from one.
    pub verdict: RatioSignificance,
}

/// Whether a ratio differs from one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RatioSignificance {
    /// It is above one.
    Above,
    /// It is below one.
    Below,
    /// It does not differ from one significantly, or is within [`LEAST_EFFECT`] of it.
    WithinNoise,
    /// There are fewer than [`LEAST_ROUNDS`] rounds.
    TooFewRounds,
}

/// Median and scatter of the finite numbers in `values`; `None` if there are none.
pub fn spread(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
    let sorted = sorted(values);
    let median = middle(&sorted)?;
    let deviations = self::sorted(sorted.iter().map(|value| (value - median).abs()));
    Some(Spread {
        median,
        min: sorted[0],
        max: sorted[sorted.len() - 1],
        median_deviation: middle(&deviations)?,
        rounds: sorted.len(),
    })
}

/// Judges ratios that were each taken within one round. Ratios that are not finite and above zero are left
/// out; `None` if none is left.
pub fn paired(ratios: impl IntoIterator<Item = f64>) -> Option<Ratio> {
    let logarithms = logarithms(ratios);
    let center = Center::of(&logarithms);
    let interval = center.map(|center| interval(center.mean, center.error, center.freedom));
    from_logarithms(&logarithms, interval)
}

/// Judges `after` over `before` if the two share no rounds: figures of two runs.
pub fn unpaired(
    before: impl IntoIterator<Item = f64>,
    after: impl IntoIterator<Item = f64>,
) -> Option<Ratio> {
    let (before, after) = (logarithms(before), logarithms(after));
    let interval = Center::of(&before).zip(Center::of(&after)).map(|(before, after)| {
        let (one, other) = (before.error.powi(2), after.error.powi(2));
        let sum = one + other;
        let freedom = if sum > 0.0 {
            sum.powi(2) / (one.powi(2) / before.freedom + other.powi(2) / after.freedom)
        } else {
            before.freedom + after.freedom
        };
        interval(after.mean - before.mean, sum.sqrt(), freedom)
    });
    let start = middle(&before)?;
    let shifted: Vec<f64> = after.iter().map(|value| value - start).collect();
    from_logarithms(&shifted, interval)
}

/// The middle of logarithms, and its standard error.
#[derive(Clone, Copy)]
struct Center {
    mean: f64,
    error: f64,
    freedom: f64,
}

impl Center {
    /// The trimmed mean of sorted values, with the standard error of Tukey and McLaughlin: from the deviation
    /// of the values after the trimmed ones were set to the outermost that are not trimmed.
    fn of(sorted: &[f64]) -> Option<Self> {
        let rounds = sorted.len();
        if rounds < LEAST_ROUNDS {
            return None;
        }
        let trimmed = rounds / TRIMMED_ONE_IN;
        let (low, high) = (sorted[trimmed], sorted[rounds - 1 - trimmed]);
        let kept = &sorted[trimmed..rounds - trimmed];
        let whole: Vec<f64> = sorted.iter().map(|value| value.clamp(low, high)).collect();
        let whole_mean = mean(&whole);
        let squares: f64 = whole.iter().map(|value| (value - whole_mean).powi(2)).sum();
        let deviation = (squares / (rounds - 1) as f64).sqrt();
        Some(Self {
            mean: mean(kept),
            error: deviation * (rounds as f64).sqrt() / kept.len() as f64,
            freedom: (kept.len() - 1) as f64,
        })
    }
}

fn interval(center: f64, error: f64, freedom: f64) -> (f64, f64) {
    let reach = t_quantile(freedom) * error;
    ((center - reach).exp(), (center + reach).exp())
}

fn from_logarithms(sorted: &[f64], interval: Option<(f64, f64)>) -> Option<Ratio> {
    let median = middle(sorted)?.exp();
    let verdict = match interval {
        None => RatioSignificance::TooFewRounds,
        Some((low, _)) if low > 1.0 && median >= 1.0 + LEAST_EFFECT => RatioSignificance::Above,
        // The same distance as above, by the logarithm.
        Some((_, high)) if high < 1.0 && median <= 1.0 / (1.0 + LEAST_EFFECT) => RatioSignificance::Below,
        Some(_) => RatioSignificance::WithinNoise,
    };
    Some(Ratio { median, min: sorted[0].exp(), max: sorted[sorted.len() - 1].exp(), interval, verdict })
}

/// The quantile of Student's t that is exceeded in one of two hundred cases (99 % between the signs), for
/// these degrees of freedom. A fraction is rounded down, which makes the interval wider.
fn t_quantile(freedom: f64) -> f64 {
    let whole = freedom.max(1.0) as usize;
    match T_QUANTILES.get(whole - 1) {
        Some(quantile) => *quantile,
        // E. A. Cornish and R. A. Fisher's expansion around the normal distribution, to its third term.
        None => {
            let (z, freedom) = (NORMAL_QUANTILE, whole as f64);
            let second = (z.powi(3) + z) / (4.0 * freedom);
            let third = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * freedom.powi(2));
            z + second + third
        }
    }
}

fn logarithms(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    sorted(values.into_iter().filter(|value| *value > 0.0).map(f64::ln))
}

fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[half]),
        _ => Some((sorted[half - 1] + sorted[half]) / 2.0),
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// One round in this many is trimmed at either end. Trimming more would cost power on a quiet machine: with a
/// fifth, a figure that scatters by 2.5 % takes fifteen rounds instead of thirteen to show 5 %.
const TRIMMED_ONE_IN: usize = 10;

/// The quantile of the normal distribution that is exceeded in one of two hundred cases.
const NORMAL_QUANTILE: f64 = 2.575_829;

/// The same quantiles of Student's t with 1, 2, ... degrees of freedom; `tests.rs` integrates its density.
const T_QUANTILES: [f64; 30] = [
    63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947,
    2.921, 2.898, 2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756, 2.750,
];
