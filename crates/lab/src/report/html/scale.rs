//! Axes: convert a figure into a position on the drawing, and choose the round numbers beside it.

/// A linear axis that begins at zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Linear {
    /// The greatest number on it, a round one.
    pub(super) max: f64,
    step: f64,
    from: f64,
    to: f64,
}

/// A logarithmic axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogScale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Linear {
    /// An axis for figures up to `greatest`, drawn between `from` and `to`.
    pub(super) fn new(greatest: f64, from: f64, to: f64) -> Self {
        let greatest = if greatest.is_finite() && greatest > 0.0 { greatest } else { 1.0 };
        let rough = greatest / TICKS;
        let magnitude = 10_f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|one| one * magnitude).into_iter().find(|step| *step >= rough * 0.999);
        let step = step.unwrap_or(10.0 * magnitude);
        Self { max: greatest, step, from, to }
    }

    /// Position of a figure; a figure beyond the end is drawn at the end.
    pub(super) fn at(&self, value: f64) -> f64 {
        self.from + (value / self.max).clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Round numbers on the axis, zero included.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let count = (self.max / self.step * 1.0001).floor() as u32;
        (0..=count).map(|index| f64::from(index) * self.step).collect()
    }
}

impl LogScale {
    /// An axis for figures between `least` and `greatest`, which are above zero.
    pub(super) fn new(least: f64, greatest: f64, from: f64, to: f64) -> Self {
        let low = if least.is_finite() && least > 0.0 { least } else { 0.1 };
        let high = if greatest.is_finite() && greatest > low { greatest } else { low * 10.0 };
        Self { low, high, from, to }
    }

    /// Position of a figure; a figure beyond an end is drawn at that end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln();
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Round numbers on the axis, as many as fit.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let steps: [&[f64]; 3] = [&[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let inside = |digits: &[f64], every: i32| -> Vec<f64> {
            (first..=last)
                .filter(|power| (power - first) % every == 0)
                .flat_map(|power| digits.iter().map(move |digit| digit * 10_f64.powi(power)))
                .filter(|tick| *tick >= self.low * 0.999 && *tick <= self.high * 1.001)
                .collect()
        };
        let finest =
            steps.into_iter().map(|digits| inside(digits, 1)).find(|ticks| ticks.len() <= MOST_TICKS);
        finest.unwrap_or_else(|| inside(&[1.0], (last - first) / 4 + 1))
    }
}

/// Approximate number of ticks of a linear axis.
const TICKS: f64 = 4.0;
/// Most ticks of a logarithmic axis; more would touch.
const MOST_TICKS: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_axes_have_round_numbers() {
        let rows: &[(f64, &[f64])] = &[
            (100.0, &[0.0, 50.0, 100.0]),
            (62_714.0, &[0.0, 20_000.0, 40_000.0, 60_000.0]),
            (0.37, &[0.0, 0.1, 0.2, 0.30000000000000004]),
            (0.0, &[0.0, 0.5, 1.0]),
            (f64::NAN, &[0.0, 0.5, 1.0]),
        ];
        for (greatest, expected) in rows {
            assert_eq!(Linear::new(*greatest, 0.0, 1.0).ticks(), *expected, "{greatest}");
        }
        let axis = Linear::new(10.0, 100.0, 200.0);
        assert_eq!((axis.at(0.0), axis.at(5.0), axis.at(99.0)), (100.0, 150.0, 200.0));
    }

    #[test]
    fn logarithmic_axes_too() {
        let rows: &[(f64, f64, &[f64])] = &[
            (1.0, 10.0, &[1.0, 2.0, 5.0, 10.0]),
            (0.5, 80.0, &[1.0, 3.0, 10.0, 30.0]),
            (0.01, 1000.0, &[0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]),
            (1e-3, 1e9, &[1e-3, 10.0, 1e5, 1e9]),
            (0.0, 0.0, &[0.1, 0.2, 0.5, 1.0]),
        ];
        for (least, greatest, expected) in rows {
            let ticks = LogScale::new(*least, *greatest, 0.0, 1.0).ticks();
            assert_eq!(ticks.len(), expected.len(), "{least} {greatest}: {ticks:?}");
            for (tick, expected) in ticks.iter().zip(*expected) {
                assert!((tick / expected - 1.0).abs() < 1e-9, "{least} {greatest}: {ticks:?}");
            }
        }
        let axis = LogScale::new(1.0, 100.0, 0.0, 10.0);
        assert!((axis.at(10.0) - 5.0).abs() < 1e-9);
        assert_eq!((axis.at(0.0), axis.at(1e9)), (0.0, 10.0));
    }
}
