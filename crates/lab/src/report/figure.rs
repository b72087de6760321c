//! The figures of a run, each under one name everywhere: how it is read from a run, its unit, and which
//! direction is good. It knows no medians.

use serde::Serialize;

use super::number;
use super::statistics::RatioSignificance;
use crate::result::MeasuredRun;

/// One figure of a run.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Responses per second.
    RequestsPerSecond,
    /// Latency that half of all are below, in milliseconds.
    P50Ms,
    /// Latency that 90 % are below, in milliseconds.
    P90Ms,
    /// Latency that 99 % are below, in milliseconds.
    P99Ms,
    /// Latency that 99.9 % are below, in milliseconds.
    P999Ms,
    /// The longest latency in milliseconds.
    MaxMs,
    /// CPU per response in microseconds.
    CpuUs,
    /// Its part in user space.
    UserUs,
    /// Its part in the kernel.
    SystemUs,
    /// Context switches per answer, of both kinds.
    Switches,
    /// Memory in bytes, shared pages counted once.
    MemoryBytes,
}

impl Figure {
    /// All figures.
    pub const ALL: [Self; 11] = [
        Self::RequestsPerSecond,
        Self::P50Ms,
        Self::P90Ms,
        Self::P99Ms,
        Self::P999Ms,
        Self::MaxMs,
        Self::CpuUs,
        Self::UserUs,
        Self::SystemUs,
        Self::Switches,
        Self::MemoryBytes,
    ];

    /// Reads the figure from one run; `None` if the run does not have it, or has an impossible value.
    pub fn of(self, run: &MeasuredRun) -> Option<f64> {
        let (load, usage) = (&run.load, &run.usage);
        // A process tree without any CPU was not accounted: the origin alone has none. Without responses
        // there is no CPU per response either.
        let accounted = load.requests > 0 && usage.cpu_us_per_request() > 0.0;
        let value = match self {
            Self::RequestsPerSecond => run.turn_ms.is_none().then_some(load.requests_per_second),
            Self::P50Ms => load.latency.p50_ms,
            Self::P90Ms => load.latency.p90_ms,
            Self::P99Ms => load.latency.p99_ms,
            Self::P999Ms => load.latency.p99_9_ms,
            Self::MaxMs => load.latency.max_ms,
            Self::CpuUs => accounted.then(|| usage.cpu_us_per_request()),
            Self::UserUs => accounted.then_some(usage.user_us_per_request),
            Self::SystemUs => accounted.then_some(usage.system_us_per_request),
            Self::Switches => accounted
                .then_some(usage.voluntary_switches_per_request + usage.involuntary_switches_per_request),
            Self::MemoryBytes => (usage.pss_bytes > 0).then_some(usage.pss_bytes as f64),
        };
        value.filter(|value| value.is_finite() && *value >= 0.0)
    }

    /// The heading, with the unit.
    pub fn title(self) -> &'static str {
        match self {
            Self::RequestsPerSecond => "requests/s",
            Self::P50Ms => "p50 ms",
            Self::P90Ms => "p90 ms",
            Self::P99Ms => "p99 ms",
            Self::P999Ms => "p99.9 ms",
            Self::MaxMs => "max ms",
            Self::CpuUs => "CPU µs/request",
            Self::UserUs => "user µs",
            Self::SystemUs => "system µs",
            Self::Switches => "switches/request",
            Self::MemoryBytes => "memory MB",
        }
    }

    /// The number in the unit of [`Figure::title`].
    pub fn shown(self, value: f64) -> String {
        match self {
            Self::MemoryBytes => number::megabytes(value),
            _ => number::format_number(value),
        }
    }

    /// The word for a verdict about this figure's ratio.
    pub fn word(self, verdict: RatioSignificance) -> &'static str {
        let more_is_better = self == Self::RequestsPerSecond;
        match (verdict, self) {
            (RatioSignificance::WithinNoise, _) => "within noise",
            (RatioSignificance::TooFewRounds, _) => "too few rounds",
            (RatioSignificance::Above, Self::MemoryBytes | Self::Switches) => "more",
            (RatioSignificance::Below, Self::MemoryBytes | Self::Switches) => "less",
            (RatioSignificance::Above, _) if more_is_better => "faster",
            (RatioSignificance::Below, _) if more_is_better => "slower",
            (RatioSignificance::Above, _) => "slower",
            (RatioSignificance::Below, _) => "faster",
        }
    }

    /// Whether a verdict about this figure's ratio is good (`true`), bad, or neither.
    pub fn good(self, verdict: RatioSignificance) -> Option<bool> {
        match verdict {
            RatioSignificance::Above => Some(self == Self::RequestsPerSecond),
            RatioSignificance::Below => Some(self != Self::RequestsPerSecond),
            RatioSignificance::WithinNoise | RatioSignificance::TooFewRounds => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Latency, LoadOutcome, Usage};

    #[test]
    fn missing_figure_is_not_zero() {
        let bare =
            MeasuredRun { round: 0, load: LoadOutcome::default(), usage: Usage::default(), turn_ms: None };
        for figure in Figure::ALL {
            let expected = (figure == Figure::RequestsPerSecond).then_some(0.0);
            assert_eq!(figure.of(&bare), expected, "{figure:?}");
        }
        // A run in turns reports nothing that a clock measures.
        assert_eq!(Figure::RequestsPerSecond.of(&MeasuredRun { turn_ms: Some(20), ..bare.clone() }), None);
        let latency = Latency { p99_ms: Some(f64::NAN), p50_ms: Some(-1.0), ..Latency::default() };
        let broken = MeasuredRun { load: LoadOutcome { latency, ..LoadOutcome::default() }, ..bare };
        assert_eq!((Figure::P99Ms.of(&broken), Figure::P50Ms.of(&broken)), (None, None));
        // A contender that used CPU and answered nothing has no CPU per request.
        let usage = Usage { user_us_per_request: 580_000.0, ..Usage::default() };
        let mute = MeasuredRun { round: 0, load: LoadOutcome::default(), usage, turn_ms: None };
        assert_eq!((Figure::CpuUs.of(&mute), Figure::UserUs.of(&mute)), (None, None));
    }

    #[test]
    fn words_follow_the_good_direction() {
        let rows = [
            (Figure::RequestsPerSecond, RatioSignificance::Above, "faster", Some(true)),
            (Figure::RequestsPerSecond, RatioSignificance::Below, "slower", Some(false)),
            (Figure::CpuUs, RatioSignificance::Above, "slower", Some(false)),
            (Figure::P99Ms, RatioSignificance::Below, "faster", Some(true)),
            (Figure::MemoryBytes, RatioSignificance::Above, "more", Some(false)),
            (Figure::Switches, RatioSignificance::Below, "less", Some(true)),
            (Figure::CpuUs, RatioSignificance::WithinNoise, "within noise", None),
            (Figure::CpuUs, RatioSignificance::TooFewRounds, "too few rounds", None),
        ];
        for (figure, verdict, word, good) in rows {
            assert_eq!((figure.word(verdict), figure.good(verdict)), (word, good), "{figure:?} {verdict:?}");
        }
    }
}
