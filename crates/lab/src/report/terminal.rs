//! A run as text for a terminal. It chooses the parts of a row that are shown; other modules compute the
//! numbers, and it prints nothing itself.

use super::figure::Figure;
use super::libraries;
use super::number;
use super::statistics::{LEAST_ROUNDS, RatioSignificance, SCATTERED_SHARE, Spread};
use super::summary::{self, OWN_PERCENT, SATURATED_PERCENT, Summary};
use super::table::{Cell, TextTable, Tone, wrapped};
use crate::result::{RunReport, ScenarioResult};
use crate::terminal::Paint;

/// One scenario, for standard output.
pub fn render_scenario(report: &RunReport, result: &ScenarioResult) -> String {
    painted(report, result, Paint::for_stdout())
}

/// A whole run, for standard output.
pub fn render_report(report: &RunReport) -> String {
    whole_painted(report, Paint::for_stdout())
}

/// One scenario: heading, table, notes, absent contenders.
pub fn painted(report: &RunReport, result: &ScenarioResult, paint: Paint) -> String {
    let asked = &result.scenario;
    let mut out = format!("{}  {}\n", paint.strong(&asked.name), asked.title);
    let summaries = summary::summarise_scenario(result);
    let measured: Vec<&Summary<'_>> = summaries.iter().filter(|summary| summary.rounds > 0).collect();
    if measured.is_empty() {
        out += "  nothing was measured\n";
    } else {
        out += &table(result, &measured).aligned(paint, WIDTH);
    }
    for sentence in collect_remarks(&summaries, &measured) {
        out += &line(&sentence);
    }
    for note in result.notes.iter().chain(&libraries::note_tls_libraries(report, result)) {
        out += &line(note);
    }
    // A contender that is absent from the whole run is only named here; the reasons are at the end of the
    // run.
    let everywhere = |name: &str| {
        report.contenders.iter().any(|facts| facts.definition.name == name && facts.absent.is_some())
    };
    let (throughout, here): (Vec<Summary<'_>>, Vec<Summary<'_>>) =
        summaries.into_iter().partition(|summary| everywhere(summary.name));
    for sentence in missing(&here) {
        out += &line(&sentence);
    }
    if !throughout.is_empty() {
        let names: Vec<&str> = throughout.iter().map(|summary| summary.name).collect();
        out += &paint.faint(line(&format!("absent from the whole run: {}", names.join(", "))).trim_end());
        out.push('\n');
    }
    out
}

/// The machine, every scenario, and the contenders that were absent throughout.
pub fn whole_painted(report: &RunReport, paint: Paint) -> String {
    let machine = &report.machine;
    let mut out = format!(
        "weir {}, {}, {}\n",
        report.weir,
        number::moment(&report.started),
        number::duration(report.seconds)
    );
    out += &line(&super::machine_line(machine));
    for warning in &machine.warnings {
        out += &paint.noted(&line(&format!("(!) {warning}")));
    }
    if report.interrupted {
        out +=
            &paint.noted(&line("(!) The run was ended before its time; what is here was measured in full."));
    }
    for result in &report.scenarios {
        out.push('\n');
        out += &painted(report, result, paint);
    }
    if report.faults.is_some() {
        out += &format!("\n{}", super::faults::render_faults(report, paint));
    }
    let absent = report.contenders.iter().filter_map(|facts| Some((facts, facts.absent.as_deref()?)));
    for (index, (facts, reason)) in absent.enumerate() {
        if index == 0 {
            out += "\nabsent\n";
        }
        out += &line(&format!("{}: {reason}", facts.definition.name));
    }
    out
}

fn table(result: &ScenarioResult, measured: &[&Summary<'_>]) -> TextTable {
    let ratio_heading = result.baseline.as_ref().map_or_else(String::new, |name| format!("CPU ×{name}"));
    let mut table = TextTable::with_numbers([
        "",
        "req/s",
        "loss %",
        "p50 ms",
        "p99 ms",
        "max ms",
        "CPU µs/req",
        "user+sys",
        &ratio_heading,
        "sw/req",
        "MB",
        "failed",
        "core",
    ]);
    table.rows = measured.iter().map(|summary| row(summary)).collect();
    table
}

fn row(summary: &Summary<'_>) -> Vec<Cell> {
    let shown = |figure: Figure| match summary.median(figure) {
        Some(median) => Cell::number(figure.shown(median), Some(median)),
        None => Cell::text(number::MISSING).toned(Tone::Faint),
    };
    let scattering = |figure: Figure| {
        let Some(spread) = summary.figures.get(&figure) else { return shown(figure) };
        let cell =
            Cell::number(format!("{} {}", figure.shown(spread.median), around(spread)), Some(spread.median));
        if spread.is_scattered() { cell.toned(Tone::Faint) } else { cell }
    };
    let parts = summary.median(Figure::UserUs).zip(summary.median(Figure::SystemUs)).map_or_else(
        || number::MISSING.to_owned(),
        |(user, system)| format!("{}+{}", number::format_number(user), number::format_number(system)),
    );
    let failed = summary.failures.all() + summary.unsent;
    vec![
        Cell::text(summary.name),
        scattering(Figure::RequestsPerSecond),
        Cell::text(number::optional_percent(summary.loss_percent.map(|loss| loss.median))),
        shown(Figure::P50Ms),
        shown(Figure::P99Ms),
        shown(Figure::MaxMs),
        scattering(Figure::CpuUs),
        Cell::text(parts),
        ratio(summary),
        shown(Figure::Switches),
        shown(Figure::MemoryBytes),
        Cell::text(number::format_count(failed)).toned(if failed > 0 { Tone::Bad } else { Tone::Faint }),
        core(summary),
    ]
}

/// The distance of the outermost round from the median, in percent. A large percentage would suggest a
/// precision that the number does not have, so scattered rounds have a mark instead.
fn around(spread: &Spread) -> String {
    if spread.is_scattered() { SCATTERED.to_owned() } else { format!("±{:.0}%", spread.farthest() * 100.0) }
}

fn ratio(summary: &Summary<'_>) -> Cell {
    let Some(ratio) = summary.ratios.get(&Figure::CpuUs) else {
        return Cell::text(number::MISSING).toned(Tone::Faint);
    };
    let word = match ratio.verdict {
        RatioSignificance::WithinNoise => "≈",
        RatioSignificance::TooFewRounds => "?",
        verdict => Figure::CpuUs.word(verdict),
    };
    let tone = match Figure::CpuUs.good(ratio.verdict) {
        Some(true) => Tone::Good,
        Some(false) => Tone::Bad,
        None => Tone::Faint,
    };
    Cell::number(format!("{} {word}", number::format_ratio(ratio.median)), Some(ratio.median)).toned(tone)
}

fn core(summary: &Summary<'_>) -> Cell {
    match summary.busy_percent {
        None => Cell::text(number::MISSING).toned(Tone::Faint),
        Some(busy) if summary.unsaturated() && summary.name != summary::DIRECT => {
            Cell::text(format!("{busy:.0}% (!)")).toned(Tone::Noted)
        }
        Some(busy) => Cell::text(format!("{busy:.0}%")),
    }
}

/// The meaning of the marks, if there are any, and the failures beside the numbers.
pub(super) fn collect_remarks(summaries: &[Summary<'_>], measured: &[&Summary<'_>]) -> Vec<String> {
    let mut out = Vec::new();
    let verdict = |wanted| {
        let of = |summary: &&Summary<'_>| {
            summary.ratios.get(&Figure::CpuUs).is_some_and(|ratio| ratio.verdict == wanted)
        };
        measured.iter().any(of)
    };
    if verdict(RatioSignificance::WithinNoise) {
        out.push(
            "≈ within noise: these rounds do not tell the two apart, or they differ by less than 1 %"
                .to_owned(),
        );
    }
    let scattered = |summary: &&Summary<'_>| {
        [Figure::RequestsPerSecond, Figure::CpuUs]
            .iter()
            .any(|figure| summary.figures.get(figure).is_some_and(Spread::is_scattered))
    };
    if measured.iter().any(scattered) {
        out.push(format!(
            "{SCATTERED} scattered: a round is more than {:.0} % from the median, so compare by the ratio, which is taken \
             within a round",
            SCATTERED_SHARE * 100.0
        ));
    }
    if verdict(RatioSignificance::TooFewRounds) {
        out.push(format!("? too few rounds to tell: {LEAST_ROUNDS} are needed"));
    }
    if measured.iter().any(|summary| summary.unsaturated() && summary.name != summary::DIRECT) {
        out.push(format!(
            "(!) the gateway's core was less than {SATURATED_PERCENT:.0} % busy: the row did not measure the gateway alone"
        ));
    }
    for summary in measured.iter().filter(|summary| summary.disturbed()) {
        let own = summary.own_percent.unwrap_or_default();
        out.push(format!(
            "{}: had only {own:.0} % of its busy core (under {OWN_PERCENT:.0} %), the rest went to something else on this machine",
            summary.name
        ));
    }
    for summary in measured.iter().filter(|summary| summary.failures.all() + summary.unsent > 0) {
        out.push(format!("{}: {}", summary.name, format_failures(summary)));
    }
    for (summary, note) in
        measured.iter().flat_map(|summary| summary.notes.iter().map(move |note| (summary, note)))
    {
        out.push(format!("{}: {note}", summary.name));
    }
    for summary in summaries.iter().filter(|summary| summary.warm_up_failures > 0) {
        out.push(format!(
            "{}: {} failed while warming up",
            summary.name,
            number::format_count(summary.warm_up_failures)
        ));
    }
    out
}

/// Failures by kind.
pub(super) fn format_failures(summary: &Summary<'_>) -> String {
    let failures = &summary.failures;
    let kinds = [
        (failures.connect, "not connected"),
        (failures.broken, "broken off"),
        (failures.timeout, "not answered in time"),
        (failures.status, "with another status"),
        (failures.content, "with other bytes"),
        (summary.unsent, "due and never sent"),
    ];
    let counts: Vec<String> = kinds
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, kind)| format!("{} {kind}", number::format_count(*count)))
        .collect();
    format!("{}, of {} answers", counts.join(", "), number::format_count(summary.requests))
}

/// Contenders without a row, or without all rounds, and the reasons.
pub(super) fn missing(summaries: &[Summary<'_>]) -> Vec<String> {
    let describe = |summary: &Summary<'_>| match (summary.absent, summary.rounds) {
        (Some(reason), 0) => Some(format!("{}: absent: {reason}", summary.name)),
        (Some(reason), rounds) => {
            Some(format!("{}: dropped out after {rounds} rounds: {reason}", summary.name))
        }
        (None, 0) => Some(format!("{}: no round was finished", summary.name)),
        (None, _) => None,
    };
    summaries.iter().filter_map(describe).collect()
}

fn line(sentence: &str) -> String {
    let clean: String = sentence.chars().filter(|character| !character.is_control()).collect();
    format!("  {}\n", wrapped(&clean, WIDTH - 2, 4))
}

/// The mark after a median of scattered rounds.
pub(super) const SCATTERED: &str = "~";

/// Columns of a terminal that tables may take.
const WIDTH: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{golden, sample};

    #[test]
    fn a_whole_run_looks_like_this() {
        golden::check_golden("whole.txt", &whole_painted(&sample::report(), Paint::Plain));
    }

    #[test]
    fn it_fits_a_terminal() {
        for line in whole_painted(&sample::report(), Paint::Plain).lines() {
            assert!(line.chars().count() <= WIDTH, "{} columns: {line}", line.chars().count());
        }
    }

    #[test]
    fn colour_changes_no_letter() {
        let report = sample::report();
        let mut painted = whole_painted(&report, Paint::Colour);
        assert!(painted.contains("\u{1b}[3"));
        for code in ["0", "1", "2", "31", "32", "33"] {
            painted = painted.replace(&format!("\u{1b}[{code}m"), "");
        }
        assert_eq!(painted, whole_painted(&report, Paint::Plain));
    }
}
