//! Compares two runs and distinguishes changes from noise. Machines drift between runs, so a contender is
//! compared by its ratio to the baseline that both runs measured beside it; only without a baseline by its
//! own numbers.

use std::collections::BTreeMap;

use super::figure::Figure;
use super::number;
use super::statistics::{CONFIDENCE_PERCENT, Ratio, RatioSignificance, Spread, unpaired};
use super::summary;
use super::table::{Cell, TextTable, Tone, wrapped};
use crate::result::{ContenderResult, RunReport, ScenarioResult};
use crate::terminal::Paint;

/// The compared figures of a contender.
pub const FIGURES: [Figure; 4] =
    [Figure::RequestsPerSecond, Figure::P99Ms, Figure::CpuUs, Figure::MemoryBytes];

/// Two runs beside each other.
#[derive(Clone, Debug, PartialEq)]
pub struct RunComparison {
    /// Differences other than figures, in plain sentences.
    pub differences: Vec<String>,
    /// Scenarios of both runs.
    pub scenarios: Vec<ScenarioComparison>,
}

/// One scenario of both.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioComparison {
    /// Its name.
    pub name: String,
    /// The contender of the ratios, if both runs have it.
    pub baseline: Option<String>,
    /// Contenders that both runs measured, in the order of the later run.
    pub contenders: Vec<ContenderComparison>,
    /// Contenders and settings that only one of the runs has.
    pub differences: Vec<String>,
}

/// One contender of both.
#[derive(Clone, Debug, PartialEq)]
pub struct ContenderComparison {
    /// Its name.
    pub name: String,
    /// Whether it was compared by ratios to the baseline instead of its own numbers.
    pub by_ratio: bool,
    /// The changes by figure.
    pub changes: BTreeMap<Figure, FigureChange>,
}

/// One figure of both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FigureChange {
    /// The figure in the earlier run.
    pub before: Spread,
    /// The figure in the later run.
    pub after: Spread,
    /// After over before.
    pub ratio: Ratio,
}

/// Compares two runs.
pub fn of(before: &RunReport, after: &RunReport) -> RunComparison {
    let find =
        |report: &'_ RunReport, name: &str| report.scenarios.iter().position(|one| one.scenario.name == name);
    let mut scenarios = Vec::new();
    for result in &after.scenarios {
        if let Some(index) = find(before, &result.scenario.name) {
            scenarios.push(of_scenarios(&before.scenarios[index], result));
        }
    }
    RunComparison { differences: differences(before, after), scenarios }
}

impl RunComparison {
    /// How many figures were judged; of a hundred unchanged ones, one is reported as changed.
    pub fn judged(&self) -> usize {
        self.changes().filter(|(.., change)| change.ratio.verdict != RatioSignificance::TooFewRounds).count()
    }

    /// Scenario, contender and figure of each change to slower, of the named contenders. The baseline is
    /// never listed, because its own numbers depend on the machine.
    pub fn slower(&self, contenders: &[String]) -> Vec<(&str, &str, Figure)> {
        let wanted = |name: &str| contenders.iter().any(|contender| contender == name);
        self.changes()
            .filter(|(_, contender, figure, change)| {
                wanted(&contender.name)
                    && *figure != Figure::MemoryBytes
                    && figure.good(change.ratio.verdict) == Some(false)
            })
            .filter(|(scenario, contender, ..)| scenario.baseline.as_deref() != Some(contender.name.as_str()))
            .map(|(scenario, contender, figure, _)| (scenario.name.as_str(), contender.name.as_str(), figure))
            .collect()
    }

    /// The comparison as a table for a terminal.
    pub fn table(&self, paint: Paint) -> String {
        let mut out = String::new();
        for sentence in &self.differences {
            out += &paint.noted(&format!("(!) {}", wrapped(sentence, WIDTH - 4, 4)));
            out.push('\n');
        }
        for scenario in &self.scenarios {
            out += &format!("\n{}", paint.strong(&scenario.name));
            out += &match &scenario.baseline {
                Some(baseline) => format!("  changes are of ratios to {baseline} within a round\n"),
                None => "  changes are of the numbers themselves: the runs share no baseline\n".to_owned(),
            };
            let mut table = TextTable::with_numbers(
                std::iter::once("").chain(FIGURES.iter().map(|figure| figure.title())),
            );
            table.rows = scenario.contenders.iter().map(row).collect();
            out += &table.aligned(paint, WIDTH);
            for sentence in &scenario.differences {
                out += &format!("  {}\n", wrapped(sentence, WIDTH - 2, 4));
            }
        }
        let judged = self.judged();
        let chance = judged as f64 * (1.0 - CONFIDENCE_PERCENT / 100.0);
        let sentence = format!(
            "{judged} figures were judged at {CONFIDENCE_PERCENT:.0} %: where nothing changed, {chance:.1} of so many are told \
             as changed by chance. ≈ within noise, ? too few rounds, * compared by its own numbers"
        );
        out += &format!("\n{}\n", wrapped(&sentence, WIDTH, 0));
        out
    }

    fn changes(
        &self,
    ) -> impl Iterator<Item = (&ScenarioComparison, &ContenderComparison, Figure, &FigureChange)> {
        self.scenarios.iter().flat_map(|scenario| {
            scenario.contenders.iter().flat_map(move |contender| {
                contender.changes.iter().map(move |(figure, change)| (scenario, contender, *figure, change))
            })
        })
    }
}

fn of_scenarios(before: &ScenarioResult, after: &ScenarioResult) -> ScenarioComparison {
    let find = |result: &'_ ScenarioResult, name: &str| {
        result.contenders.iter().position(|one| one.name == name && !one.runs.is_empty())
    };
    let shared = after.baseline.as_deref().filter(|name| before.baseline.as_deref() == Some(*name));
    let baselines = shared.and_then(|name| Some((find(before, name)?, find(after, name)?)));
    let mut differences = Vec::new();
    if before.scenario != after.scenario {
        differences.push("(!) the scenario itself is not the same in both runs".to_owned());
    }
    let mut contenders = Vec::new();
    for contender in after.contenders.iter().filter(|contender| !contender.runs.is_empty()) {
        let Some(index) = find(before, &contender.name) else {
            differences.push(format!("{}: measured in the later run only", contender.name));
            continue;
        };
        let baselines = baselines.map(|(one, other)| (&before.contenders[one], &after.contenders[other]));
        contenders.push(of_contenders(&before.contenders[index], contender, baselines));
    }
    for contender in before.contenders.iter().filter(|contender| !contender.runs.is_empty()) {
        if find(after, &contender.name).is_none() {
            differences.push(format!("{}: measured in the earlier run only", contender.name));
        }
    }
    let baseline = baselines.and(shared).map(str::to_owned);
    ScenarioComparison { name: after.scenario.name.clone(), baseline, contenders, differences }
}

fn of_contenders(
    before: &ContenderResult,
    after: &ContenderResult,
    baselines: Option<(&ContenderResult, &ContenderResult)>,
) -> ContenderComparison {
    let baselines = baselines.filter(|(baseline, _)| baseline.name != after.name);
    let mut changes = BTreeMap::new();
    for figure in FIGURES {
        let values = |contender: &ContenderResult| -> Vec<f64> {
            contender.runs.iter().filter_map(|run| figure.of(run)).collect()
        };
        let compared = |contender: &ContenderResult, baseline: Option<&ContenderResult>| match baseline {
            Some(baseline) => summary::within_rounds(&contender.runs, &baseline.runs, figure),
            None => values(contender),
        };
        let ratio = unpaired(
            compared(before, baselines.map(|(baseline, _)| baseline)),
            compared(after, baselines.map(|(_, baseline)| baseline)),
        );
        let spreads = super::statistics::spread(values(before)).zip(super::statistics::spread(values(after)));
        if let (Some(ratio), Some((before, after))) = (ratio, spreads) {
            changes.insert(figure, FigureChange { before, after, ratio });
        }
    }
    ContenderComparison { name: after.name.clone(), by_ratio: baselines.is_some(), changes }
}

/// Differences that make two runs hard to compare.
fn differences(before: &RunReport, after: &RunReport) -> Vec<String> {
    let mut out = Vec::new();
    let mut note = |what: &str, one: &str, other: &str| {
        if one != other {
            out.push(format!("{what}: {one} before, {other} after"));
        }
    };
    let (one, other) = (&before.machine, &after.machine);
    note("another processor", &one.cpu, &other.cpu);
    note("another number of cores", &one.cores.to_string(), &other.cores.to_string());
    note("another kernel", &one.kernel, &other.kernel);
    note("another system", &one.system, &other.system);
    note(
        "other cores for the gateway",
        &format!("{:?}", one.gateway_cores),
        &format!("{:?}", other.gateway_cores),
    );
    note("other cores for the load", &format!("{:?}", one.load_cores), &format!("{:?}", other.load_cores));
    note("another Weir measured", &before.weir, &after.weir);
    for facts in &after.contenders {
        let name = &facts.definition.name;
        let earlier = before.contenders.iter().find(|earlier| earlier.definition.name == *name);
        if let Some((earlier, later)) =
            earlier.and_then(|earlier| earlier.version.as_deref().zip(facts.version.as_deref()))
        {
            note(&format!("another version of {name}"), earlier, later);
        }
    }
    for (report, which) in [(before, "earlier"), (after, "later")] {
        if report.interrupted {
            out.push(format!("the {which} run was ended before its time"));
        }
    }
    let scenarios = |report: &RunReport| -> Vec<String> {
        report.scenarios.iter().map(|result| result.scenario.name.clone()).collect()
    };
    let (earlier, later) = (scenarios(before), scenarios(after));
    let only = |these: &[String], those: &[String]| -> Vec<String> {
        these.iter().filter(|name| !those.contains(name)).cloned().collect()
    };
    for (names, which) in [(only(&earlier, &later), "earlier"), (only(&later, &earlier), "later")] {
        if !names.is_empty() {
            out.push(format!("scenarios of the {which} run only: {}", names.join(", ")));
        }
    }
    out
}

fn row(contender: &ContenderComparison) -> Vec<Cell> {
    let mark = if contender.by_ratio { "" } else { " *" };
    let mut cells = vec![Cell::text(format!("{}{mark}", contender.name))];
    cells.extend(FIGURES.iter().map(|figure| match contender.changes.get(figure) {
        Some(change) => cell(*figure, change),
        None => Cell::text(number::MISSING).toned(Tone::Faint),
    }));
    cells
}

fn cell(figure: Figure, change: &FigureChange) -> Cell {
    let word = match change.ratio.verdict {
        RatioSignificance::WithinNoise => "≈",
        RatioSignificance::TooFewRounds => "?",
        verdict => figure.word(verdict),
    };
    let tone = match figure.good(change.ratio.verdict) {
        Some(true) => Tone::Good,
        Some(false) => Tone::Bad,
        None => Tone::Faint,
    };
    let (before, after) = (figure.shown(change.before.median), figure.shown(change.after.median));
    let percent = (change.ratio.median - 1.0) * 100.0;
    Cell::number(format!("{before}→{after} {percent:+.1}% {word}"), Some(percent)).toned(tone)
}

/// Columns of a terminal that tables may take.
const WIDTH: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{golden, sample};

    fn weir() -> Vec<String> {
        vec!["weir".to_owned()]
    }

    #[test]
    fn planted_slowdown_is_found_and_only_that() {
        let (before, same, slower) =
            (sample::small(1, 15, 1.0), sample::small(2, 15, 1.0), sample::small(3, 15, 1.08));
        assert!(of(&before, &same).slower(&weir()).is_empty());
        let comparison = of(&before, &slower);
        assert!(comparison.slower(&weir()).contains(&("small", "weir", Figure::CpuUs)), "{comparison:?}");
        assert!(of(&slower, &before).slower(&weir()).is_empty(), "faster is not slower");
    }

    #[test]
    fn slower_machine_is_no_slower_contender() {
        let before = sample::small(1, 15, 1.0);
        let mut after = sample::small(2, 15, 1.0);
        for run in after.scenarios[0].contenders.iter_mut().flat_map(|contender| &mut contender.runs) {
            run.load.requests_per_second /= 2.0;
            run.usage.user_us_per_request *= 2.0;
            run.usage.system_us_per_request *= 2.0;
            run.load.latency.p99_ms = run.load.latency.p99_ms.map(|ms| ms * 2.0);
        }
        let comparison = of(&before, &after);
        assert!(comparison.slower(&["weir".to_owned(), "haproxy".to_owned(), "nginx".to_owned()]).is_empty());
        let nginx = comparison.scenarios[0].contenders.iter().find(|one| one.name == "nginx").unwrap();
        assert_eq!(
            (nginx.by_ratio, nginx.changes[&Figure::CpuUs].ratio.verdict),
            (false, RatioSignificance::Above)
        );
        // Without a shared baseline only the numbers themselves can be compared.
        let mut other = after.clone();
        other.scenarios[0].baseline = Some("haproxy".to_owned());
        assert!(of(&before, &other).slower(&weir()).contains(&("small", "weir", Figure::CpuUs)));
    }

    #[test]
    fn differences_between_runs_are_listed() {
        let before = sample::report();
        let mut after = sample::report();
        after.machine.cpu = "Another".to_owned();
        after.machine.gateway_cores = vec![0, 1];
        after.weir = "0.2.0".to_owned();
        after.contenders[1].version = Some("nginx 2".to_owned());
        after.scenarios[0].scenario.load.connections = 65;
        after.scenarios[0].contenders.remove(2);
        after.scenarios.remove(3);
        let comparison = of(&before, &after);
        let all = comparison.table(Paint::Plain);
        for expected in [
            "another processor: A processor with a name as long as they make them, 2.60 GHz before, Another after",
            "other cores for the gateway: [0] before, [0, 1] after",
            "another Weir measured: 0.1.0 before, 0.2.0 after",
            "another version of nginx: nginx 1.0.0 before, nginx 2 after",
            "scenarios of the earlier run only: ab-short",
            "the scenario itself is not the same",
            "haproxy: measured in the earlier run only",
        ] {
            let flat = all.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(flat.contains(expected), "{expected}: {all:.2000}");
        }
        assert!(all.lines().all(|line| line.chars().count() <= WIDTH + 40), "it stays a table");
    }

    #[test]
    fn a_comparison_looks_like_this() {
        let (before, after) = (sample::small(1, 15, 1.0), sample::small(3, 15, 1.08));
        golden::check_golden("compare.txt", &of(&before, &after).table(Paint::Plain));
    }
}
