//! The runs with faulty endpoints as tables, for the terminal and the page. It measures nothing.

use super::number;
use super::table::{Cell, TextTable, Tone, wrapped};
use crate::faults::EndpointFault;
use crate::result::{FaultResults, FaultRun, PeriodOutcome, RunReport};
use crate::terminal::Paint;

/// One fault as text: heading, table, and the failures by kind and phase. Empty if the report has no run of
/// it.
pub fn of_fault(report: &RunReport, fault: EndpointFault, paint: Paint) -> String {
    let Some(faults) = &report.faults else { return String::new() };
    let runs = runs(faults, fault);
    if runs.is_empty() {
        return String::new();
    }
    let mut out = format!("{}  {}\n", paint.strong(fault.name()), fault.title());
    out += &build_fault_table(&runs).aligned(paint, WIDTH);
    for sentence in collect_fault_remarks(&runs) {
        out += &format!("  {}\n", wrapped(&sentence, WIDTH - 2, 4));
    }
    out
}

/// All faults as text, with the load that they had in common. Empty if the report has none.
pub fn render_faults(report: &RunReport, paint: Paint) -> String {
    let Some(faults) = &report.faults else { return String::new() };
    let mut out = format!("{}\n", wrapped(&load(faults), WIDTH, 0));
    for fault in EndpointFault::ALL {
        let text = of_fault(report, fault, paint);
        if !text.is_empty() {
            out += &format!("\n{text}");
        }
    }
    out
}

/// The load of all runs, in one sentence or two.
pub fn load(faults: &FaultResults) -> String {
    let from = match &faults.rate_from {
        Some(name) => format!(", half of what {name} forwards at most"),
        None => String::new(),
    };
    format!(
        "{} requests are due in a second{from}, on {} connections; clients give a request up after {} ms. Each fault lasts \
         for {} s. Latency is from when a request was due until it was answered or given up.",
        number::format_count(faults.rate as u64),
        faults.connections,
        number::format_count(faults.timeout_ms),
        number::format_number(faults.fault_seconds),
    )
}

/// The runs of one fault.
pub fn runs(faults: &FaultResults, fault: EndpointFault) -> Vec<&FaultRun> {
    faults.runs.iter().filter(|run| run.fault == fault).collect()
}

/// A row for each run.
pub fn build_fault_table(runs: &[&FaultRun]) -> TextTable {
    let mut table = TextTable::with_numbers([
        "",
        "requests",
        "failed",
        "p50 before",
        "p99",
        "p50 during",
        "p99",
        "p50 after",
        "p99",
        "late",
        "off s",
        "back s",
    ]);
    table.rows = runs.iter().map(|run| row(run)).collect();
    table
}

/// The meaning of the last columns, the failures by kind and phase, and the reasons of absence.
pub fn collect_fault_remarks(runs: &[&FaultRun]) -> Vec<String> {
    let mut out = Vec::new();
    if runs.iter().any(|run| run.faulty.is_some()) {
        out.push(
            "late: requests to the endpoint after the first second of its fault; off, back: seconds until the traffic left \
             it and returned to it"
                .to_owned(),
        );
    }
    for run in runs {
        let name = name(run);
        if let Some(reason) = &run.absent {
            out.push(format!("{name}: {reason}"));
        }
        let phases = ["before", "during", "after"].iter().zip(&run.phases);
        let failures: Vec<String> = phases
            .filter_map(|(phase, outcome)| Some(format!("{} {phase} the fault", kinds(outcome)?)))
            .collect();
        if !failures.is_empty() {
            out.push(format!("{name}: {}", failures.join("; ")));
        }
        if run.unsent > 0 {
            out.push(format!("{name}: {} more were due and not kept", number::format_count(run.unsent)));
        }
    }
    out
}

/// All requests and failures of a run.
pub fn totals(run: &FaultRun) -> (u64, u64) {
    let requests: u64 = run.phases.iter().map(|phase| phase.requests).sum();
    let failed: u64 = run.phases.iter().map(|phase| phase.failures.all()).sum();
    (requests + run.unsent, failed + run.unsent)
}

fn name(run: &FaultRun) -> String {
    format!("{} {}", run.contender, run.protection.name())
}

fn row(run: &FaultRun) -> Vec<Cell> {
    let (requests, failed) = totals(run);
    let missing = || Cell::text(number::MISSING).toned(Tone::Faint);
    let mut cells = vec![Cell::text(name(run))];
    if run.absent.is_some() {
        cells.extend((0..11).map(|_| missing()));
        return cells;
    }
    cells.push(Cell::number(number::format_count(requests), Some(requests as f64)));
    cells.push(Cell::number(number::format_count(failed), Some(failed as f64)).toned(if failed > 0 {
        Tone::Bad
    } else {
        Tone::Good
    }));
    for index in 0..3 {
        let latency = run.phases.get(index).map(|phase| &phase.latency);
        for value in [latency.and_then(|one| one.p50_ms), latency.and_then(|one| one.p99_ms)] {
            cells.push(Cell::number(number::optional(value), value));
        }
    }
    match run.faulty {
        None => cells.extend((0..3).map(|_| missing())),
        Some(faulty) => {
            cells.push(Cell::number(
                number::format_count(faulty.late_requests),
                Some(faulty.late_requests as f64),
            ));
            for seconds in [faulty.off_after_s, faulty.back_after_s] {
                cells.push(match seconds {
                    Some(seconds) => Cell::number(format!("{seconds:.1}"), Some(seconds)),
                    None => Cell::text("never").toned(Tone::Bad),
                });
            }
        }
    }
    cells
}

/// The failures of a phase by kind; `None` without failures.
fn kinds(outcome: &PeriodOutcome) -> Option<String> {
    let failures = &outcome.failures;
    let kinds = [
        (failures.connect, "not connected"),
        (failures.broken, "broken off"),
        (failures.timeout, "given up"),
        (failures.status, "with another status"),
        (failures.content, "with other bytes"),
    ];
    let counts: Vec<String> = kinds
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, kind)| format!("{} {kind}", number::format_count(*count)))
        .collect();
    (!counts.is_empty()).then(|| counts.join(", "))
}

/// Columns of a line in the terminal.
const WIDTH: usize = 120;

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::report::sample as reports;
    use crate::result::{Failures, FaultyTraffic, Latency, Protection};

    /// Three runs: one with failures, one that never left the endpoint, one that is absent.
    pub(in crate::report) fn sample() -> FaultResults {
        let phase = |requests, timeout, status| PeriodOutcome {
            seconds: 1.0,
            requests,
            failures: Failures { timeout, status, ..Failures::default() },
            latency: Latency { p50_ms: Some(2.5), p99_ms: Some(1999.0), ..Latency::default() },
        };
        let run = |contender: &str, protection, off_after_s| FaultRun {
            fault: EndpointFault::Hangs,
            contender: contender.to_owned(),
            protection,
            absent: None,
            phases: vec![phase(1000, 0, 0), phase(5000, 4000, 12), phase(1000, 3, 0)],
            faulty: Some(FaultyTraffic { late_requests: 1234, off_after_s, back_after_s: Some(1.5) }),
            unsent: 0,
            notes: Vec::new(),
        };
        let gone = FaultRun {
            absent: Some("<b> ended".to_owned()),
            phases: Vec::new(),
            faulty: None,
            ..run("two", Protection::Default, None)
        };
        FaultResults {
            fault_seconds: 5.0,
            connections: 64,
            rate: 1000.0,
            rate_from: Some("two".to_owned()),
            timeout_ms: 2000,
            runs: vec![
                run("one", Protection::Default, None),
                run("one", Protection::Recommended, Some(0.4)),
                gone,
            ],
        }
    }

    #[test]
    fn runs_stand_below_each_other_with_their_failures() {
        let mut report = reports::small(1, 3, 1.0);
        assert_eq!(render_faults(&report, Paint::Plain), "");
        report.faults = Some(sample());
        let text = render_faults(&report, Paint::Plain);
        assert!(
            text.starts_with("1,000 requests are due in a second, half of what two forwards at most,"),
            "{text}"
        );
        let row = |name: &str| {
            let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
            line.split_whitespace().skip(2).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(row("one default"), "7,000 4,015 2.50 1,999 2.50 1,999 2.50 1,999 1,234 never 1.5");
        assert_eq!(row("one recommended"), "7,000 4,015 2.50 1,999 2.50 1,999 2.50 1,999 1,234 0.4 1.5");
        assert_eq!(row("two default"), "- - - - - - - - - - -");
        assert!(
            text.contains(
                "one default: 4,000 given up, 12 with another status during the fault; 3 given up after"
            ),
            "{text}"
        );
        assert!(text.contains("two default: <b> ended"), "{text}");
        assert!(!text.contains("restart"), "a fault without runs is left out: {text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    }

    #[test]
    fn faults_are_part_of_the_stored_report() {
        let mut report = reports::small(1, 3, 1.0);
        report.faults = Some(sample());
        let text = crate::report::json::text(&report).unwrap();
        assert_eq!(crate::report::json::parse(&text).unwrap(), report);
        assert!(
            crate::report::terminal::whole_painted(&report, Paint::Plain)
                .contains("One of three endpoints hangs")
        );
    }
}
