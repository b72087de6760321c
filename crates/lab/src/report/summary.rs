//! The medians of one contender in one scenario, for every table, chart and page. It formats nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::figure::Figure;
use super::statistics::{self, Ratio, Spread};
use crate::result::{ContenderResult, Failures, MeasuredRun, ScenarioResult};

/// The origin without a gateway, the reference for losses.
pub const DIRECT: &str = "direct";

/// Below this share of busy cores the gateway was not the limit of the run, and its figures are misleading.
pub const SATURATED_PERCENT: f64 = 95.0;

/// Below this share of its busy cores a contender was not alone on them: its CPU per request is valid, its
/// requests per second and latencies are not. Interrupts, which are counted for no process, take a part of
/// the rest.
pub const OWN_PERCENT: f64 = 80.0;

/// Most notes of one contender that are shown; further ones repeat them.
const MOST_NOTES: usize = 4;

/// One contender of one scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary<'a> {
    /// Its name.
    pub name: &'a str,
    /// Why it did not take part, or the error with which it dropped out.
    pub absent: Option<&'a str>,
    /// Measured rounds.
    pub rounds: usize,
    /// Every figure that at least one round had.
    pub figures: BTreeMap<Figure, Spread>,
    /// Every figure over the baseline's of the same round; empty for the baseline itself.
    pub ratios: BTreeMap<Figure, Ratio>,
    /// Percentage of requests per second lost against the origin alone, within a round. `None` if a rate was
    /// given.
    pub loss_percent: Option<Spread>,
    /// Responses of all rounds.
    pub requests: u64,
    /// Failures in all rounds.
    pub failures: Failures,
    /// Failures during the warm-up.
    pub warm_up_failures: u64,
    /// Requests that were due and never sent, in all rounds.
    pub unsent: u64,
    /// The load generator's notes on failures and on itself, without repetitions.
    pub notes: Vec<&'a str>,
    /// Busy share of the gateway's cores, in percent; `None` if nothing was pinned.
    pub busy_percent: Option<f64>,
    /// The contender's own share of the busy time, in percent.
    pub own_percent: Option<f64>,
}

impl Summary<'_> {
    /// The median of a figure.
    pub fn median(&self, figure: Figure) -> Option<f64> {
        self.figures.get(&figure).map(|spread| spread.median)
    }

    /// Whether something else than the gateway was the limit, so that the row did not measure it alone.
    pub fn unsaturated(&self) -> bool {
        self.busy_percent.is_some_and(|busy| busy < SATURATED_PERCENT)
    }

    /// Whether another program ran on its cores.
    pub fn disturbed(&self) -> bool {
        !self.unsaturated() && self.own_percent.is_some_and(|own| own < OWN_PERCENT)
    }
}

/// Summaries of all contenders, in the order of the run.
pub fn summarise_scenario(result: &ScenarioResult) -> Vec<Summary<'_>> {
    let find = |name: &str| result.contenders.iter().find(|contender| contender.name == name);
    let baseline = result.baseline.as_deref().and_then(find);
    let direct = if paced(result) { None } else { find(DIRECT) };
    result.contenders.iter().map(|contender| of_contender(contender, baseline, direct)).collect()
}

/// Whether requests are due at a given rate, so that their number says nothing about a contender that keeps
/// up.
pub fn paced(result: &ScenarioResult) -> bool {
    result.scenario.load.rate.is_some() || result.scenario.load.rate_share.is_some()
}

fn of_contender<'a>(
    contender: &'a ContenderResult,
    baseline: Option<&ContenderResult>,
    direct: Option<&ContenderResult>,
) -> Summary<'a> {
    let runs = &contender.runs;
    let figures = Figure::ALL.into_iter().filter_map(|figure| {
        Some((figure, statistics::spread(runs.iter().filter_map(|run| figure.of(run)))?))
    });
    let ratios = baseline.filter(|baseline| baseline.name != contender.name).map(|baseline| {
        let judged =
            |figure| Some((figure, statistics::paired(within_rounds(runs, &baseline.runs, figure))?));
        Figure::ALL.into_iter().filter_map(judged).collect()
    });
    let losses = direct.filter(|direct| direct.name != contender.name).and_then(|direct| {
        let shares = within_rounds(runs, &direct.runs, Figure::RequestsPerSecond);
        statistics::spread(shares.into_iter().map(|share| (1.0 - share) * 100.0))
    });
    let busy =
        runs.iter().filter_map(|run| Some(run.usage.cores_busy_percent? / run.usage.cores.max(1) as f64));
    let own = runs.iter().filter_map(|run| {
        let busy = run.usage.cores_busy_percent.filter(|busy| *busy > 0.0)?;
        Some(run.usage.own_percent / busy * 100.0)
    });
    Summary {
        name: &contender.name,
        absent: contender.absent.as_deref(),
        rounds: runs.len(),
        figures: figures.collect(),
        ratios: ratios.unwrap_or_default(),
        loss_percent: losses,
        requests: runs.iter().map(|run| run.load.requests).sum(),
        failures: failures(runs),
        warm_up_failures: contender.warm_up.as_ref().map_or(0, |warm_up| warm_up.failures.all()),
        unsent: runs.iter().map(|run| run.load.unsent).sum(),
        notes: notes(runs),
        busy_percent: statistics::spread(busy).map(|busy| busy.median),
        own_percent: statistics::spread(own).map(|own| own.median),
    }
}

/// A figure over another contender's of the same round, for the rounds that both have.
pub fn within_rounds(runs: &[MeasuredRun], others: &[MeasuredRun], figure: Figure) -> Vec<f64> {
    let mut seen = BTreeSet::new();
    let ratio = |run: &MeasuredRun| {
        let other = others.iter().find(|other| other.round == run.round)?;
        let below = figure.of(other).filter(|below| *below > 0.0)?;
        let ratio = figure.of(run)? / below;
        seen.insert(run.round).then_some(ratio)
    };
    runs.iter().filter_map(ratio).collect()
}

fn failures(runs: &[MeasuredRun]) -> Failures {
    let mut sum = Failures::default();
    runs.iter().for_each(|run| sum.add(run.load.failures));
    sum
}

fn notes(runs: &[MeasuredRun]) -> Vec<&str> {
    let mut notes = Vec::new();
    for note in runs.iter().flat_map(|run| &run.load.notes) {
        if notes.len() < MOST_NOTES && !notes.contains(&note.as_str()) {
            notes.push(note.as_str());
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;
    use crate::report::statistics::RatioSignificance;

    #[test]
    fn losses_and_ratios_are_taken_within_a_round() {
        let mut report = sample::small(3, 5, 1.0);
        let result = &mut report.scenarios[0];
        // The machine is three times as slow in every other round, for all contenders, so the ratios stay the
        // same.
        for contender in &mut result.contenders {
            for run in contender.runs.iter_mut().filter(|run| run.round % 2 == 1) {
                run.load.requests_per_second /= 3.0;
                run.usage.user_us_per_request *= 3.0;
                run.usage.system_us_per_request *= 3.0;
            }
        }
        let summaries = summarise_scenario(result);
        let weir = summaries.iter().find(|summary| summary.name == "weir").unwrap();
        let throughput = weir.figures[&Figure::RequestsPerSecond];
        assert!(throughput.max / throughput.min > 2.5, "{throughput:?}");
        let loss = weir.loss_percent.unwrap();
        assert!(loss.max - loss.min < 10.0, "{loss:?}");
        assert_eq!(weir.ratios[&Figure::CpuUs].verdict, RatioSignificance::Below);
        assert!((0.8..0.9).contains(&weir.ratios[&Figure::CpuUs].median));
    }

    #[test]
    fn rounds_that_one_side_lacks_are_left_out() {
        let mut report = sample::small(4, 5, 1.0);
        let result = &mut report.scenarios[0];
        result.contenders[1].runs.retain(|run| run.round != 0);
        result.contenders[3].runs.retain(|run| run.round != 4);
        let shared = within_rounds(&result.contenders[3].runs, &result.contenders[1].runs, Figure::CpuUs);
        assert_eq!(shared.len(), 3);
        result.contenders[1].runs.clear();
        let summaries = summarise_scenario(result);
        assert!(summaries[3].ratios.is_empty() && summaries[1].figures.is_empty());
    }

    #[test]
    fn unsaturated_and_disturbed_rows_are_known() {
        // Busy and own percent of one core, cores, then: unsaturated, disturbed.
        let rows = [
            (Some(99.0), 95.0, 1, (false, false)),
            (Some(94.0), 90.0, 1, (true, false)),
            (Some(99.0), 60.0, 1, (false, true)),
            (Some(198.0), 190.0, 2, (false, false)),
            (Some(150.0), 140.0, 2, (true, false)),
            (None, 20.0, 1, (false, false)),
        ];
        for (busy, own, cores, expected) in rows {
            let mut report = sample::small(5, 3, 1.0);
            let result = &mut report.scenarios[0];
            for run in &mut result.contenders[3].runs {
                (run.usage.cores, run.usage.cores_busy_percent, run.usage.own_percent) = (cores, busy, own);
            }
            let summaries = summarise_scenario(result);
            let weir = &summaries[3];
            assert_eq!((weir.unsaturated(), weir.disturbed()), expected, "{busy:?} {own} {cores}");
        }
    }

    #[test]
    fn a_given_rate_loses_nothing() {
        let report = sample::report();
        for result in &report.scenarios {
            let loses = summarise_scenario(result).iter().any(|summary| summary.loss_percent.is_some());
            assert_eq!(loses, !paced(result), "{}", result.scenario.name);
        }
    }
}
