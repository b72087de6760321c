//! A summary of one contender in a run: its place in every scenario, and where it is not first. Variants of
//! it and the origin alone are left out.

use super::figure::Figure;
use super::statistics::{Ratio, RatioSignificance, spread};
use super::summary::{self, DIRECT, Summary};
use crate::contender::Definition;
use crate::result::{RunReport, ScenarioResult};

/// The contender that a run is about, if it took part.
pub const SUBJECT: &str = "weir";

/// The subject's place in one scenario, by CPU per request.
#[derive(Clone, Debug, PartialEq)]
pub struct SubjectStanding<'a> {
    /// The scenario's name.
    pub scenario: &'a str,
    /// 1 for the least CPU per request.
    pub place: usize,
    /// Number of contenders, itself included.
    pub of: usize,
    /// The contender with the least.
    pub first: &'a str,
    /// The subject's CPU over that of the first, from the medians.
    pub over_first: f64,
    /// The baseline of the scenario.
    pub baseline: Option<&'a str>,
    /// CPU over the baseline's.
    pub ratio: Option<Ratio>,
    /// Lost against the origin alone, in percent.
    pub loss_percent: Option<f64>,
    /// Failures of all rounds.
    pub failures: u64,
}

/// The subject in every scenario in which its CPU was measured.
pub fn standings(report: &RunReport) -> Vec<SubjectStanding<'_>> {
    report.scenarios.iter().filter_map(|result| standing(report, result)).collect()
}

/// One or two sentences.
pub fn sentences(report: &RunReport) -> Vec<String> {
    let standings = standings(report);
    let mut out = Vec::new();
    let Some(baseline) = report.scenarios.iter().find_map(|result| result.baseline.as_deref()) else {
        return out;
    };
    // A study may have another baseline, for example the origin alone.
    let ratios: Vec<Ratio> =
        standings.iter().filter(|one| one.baseline == Some(baseline)).filter_map(|one| one.ratio).collect();
    let Some(cpu) = spread(ratios.iter().map(|ratio| ratio.median)) else { return out };
    let count = |wanted: RatioSignificance| ratios.iter().filter(|ratio| ratio.verdict == wanted).count();
    out.push(format!(
        "Weir takes {:.2} of the CPU per request that {baseline} takes (the median of {}; {:.2} to {:.2}): less in {}, \
         more in {}, within noise in {}.",
        cpu.median,
        scenarios(cpu.rounds),
        cpu.min,
        cpu.max,
        count(RatioSignificance::Below),
        count(RatioSignificance::Above),
        count(RatioSignificance::WithinNoise),
    ));
    let first = standings.iter().filter(|one| one.place == 1).count();
    out.push(match standings.len() - first {
        0 => format!("Of all gateways it takes the least in all {}.", scenarios(standings.len())),
        _ => format!("Of all gateways it takes the least in {first} of {}.", scenarios(standings.len())),
    });
    out
}

fn standing<'a>(report: &RunReport, result: &'a ScenarioResult) -> Option<SubjectStanding<'a>> {
    let summaries = summary::summarise_scenario(result);
    let peer = |summary: &&Summary<'_>| {
        let usual = report.contenders.iter().find(|facts| facts.definition.name == summary.name);
        let own = summary.name.starts_with(SUBJECT) && summary.name != SUBJECT;
        // A contender that forwards bytes without parsing them does different work.
        let gateway = |definition: &Definition| {
            definition.usual && definition.environment.get("LAYER").is_none_or(|layer| layer != "4")
        };
        summary.name != DIRECT && !own && usual.is_none_or(|facts| gateway(&facts.definition))
    };
    let cpu = |summary: &Summary<'a>| Some((summary.name, summary.median(Figure::CpuUs)?));
    let mut all: Vec<(&str, f64)> = summaries.iter().filter(peer).filter_map(cpu).collect();
    all.sort_by(|one, other| one.1.total_cmp(&other.1));
    let place = all.iter().position(|(name, _)| *name == SUBJECT)?;
    let subject = summaries.iter().find(|summary| summary.name == SUBJECT)?;
    Some(SubjectStanding {
        scenario: &result.scenario.name,
        place: place + 1,
        of: all.len(),
        first: all[0].0,
        over_first: all[place].1 / all[0].1,
        baseline: result.baseline.as_deref(),
        ratio: subject.ratios.get(&Figure::CpuUs).copied(),
        loss_percent: subject.loss_percent.map(|loss| loss.median),
        failures: subject.failures.all() + subject.unsent,
    })
}

fn scenarios(count: usize) -> String {
    if count == 1 { "1 scenario".to_owned() } else { format!("{count} scenarios") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn places_count_gateways_and_not_variants() {
        let report = sample::report();
        let standings = standings(&report);
        assert_eq!(standings.len(), 19, "the thread-model study has no weir");
        let small = &standings[0];
        // direct, traefik (absent), weir-five and weir-ten are not among them.
        assert_eq!((small.place, small.of, small.first), (1, 13, "weir"));
        let sentences = sentences(&report);
        assert!(
            sentences[0].starts_with("Weir takes 0.84 of the CPU per request that nginx takes"),
            "{sentences:?}"
        );
        assert_eq!(sentences[1], "Of all gateways it takes the least in all 19 scenarios.");
    }

    #[test]
    fn only_ratios_to_same_baseline_are_summed() {
        let mut report = sample::report();
        for contender in &mut report.scenarios[1].contenders {
            contender.runs.iter_mut().filter(|_| contender.name == SUBJECT).for_each(|run| {
                run.usage.user_us_per_request *= 50.0;
            });
        }
        assert!(sentences(&report)[0].contains("the median of 19 scenarios"), "{:?}", sentences(&report));
        report.scenarios[1].baseline = Some(DIRECT.to_owned());
        let sentence = &sentences(&report)[0];
        assert!(sentence.contains("that nginx takes (the median of 18 scenarios"), "{sentence}");
        assert!(sentence.contains("more in 0"), "{sentence}");
    }

    #[test]
    fn scenarios_where_not_first_are_listed() {
        let report = sample::small(1, 5, 1.3);
        let standings = standings(&report);
        assert_eq!((standings[0].place, standings[0].first), (2, "nginx"));
        assert!(standings[0].over_first > 1.03);
        assert_eq!(sentences(&report)[1], "Of all gateways it takes the least in 0 of 1 scenario.");
    }

    #[test]
    fn run_without_subject_has_no_headline() {
        let mut report = sample::small(1, 5, 1.0);
        report.scenarios[0].contenders.retain(|contender| contender.name != SUBJECT);
        assert_eq!((standings(&report).len(), sentences(&report).len()), (0, 0));
    }
}
