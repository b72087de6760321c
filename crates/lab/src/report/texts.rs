//! The tables of the published texts beside the results of a run with the same load, row by row. Their
//! numbers were measured by their authors, on their machines: only losses and ratios can be compared with
//! ours.
//!
//! A row belongs to a scenario by its load (program, connections, requests, kept or not, bytes, workers), not
//! by its name.

mod findings;
mod published;

use self::published::{Ask, TEXTS, Text};
use super::figure::Figure;
use super::number;
use super::summary::{self, DIRECT, Summary};
use super::table::{Cell, TextTable, wrapped};
use crate::result::{RunReport, ScenarioResult};
use crate::scenario::ScenarioLoad;
use crate::terminal::Paint;

/// Contenders that are shown beside those of a text.
const OURS: &[&str] = &["nginx", "haproxy", "weir"];

/// All tables as text.
pub fn render_published_texts(report: &RunReport) -> String {
    let mut out = "The published tables beside ours\n\n".to_owned();
    out += &paragraph(&format!(
        "Left, what a text reports, taken on its author's machine with the versions of its day. Right, the median of \
         our rounds: Weir {}, {}. Compare losses and the order, not requests per second. The loss is the share of the \
         requests per second that the origin alone answers, (origin - gateway) / origin; where a text leaves it out it \
         is worked out from its numbers. A gateway that a text does not have is a row with an empty left half.",
        report.weir, report.started,
    ));
    out += &format!("\n{}", paragraph(&format!("{}.", super::machine_line(&report.machine))));
    for text in TEXTS {
        out += &one(report, text);
    }
    out + &thread_models(report)
}

fn one(report: &RunReport, text: &Text) -> String {
    let found = repeating(report, text);
    let summaries = found.map(summary::summarise_scenario);
    let here = match found {
        Some(result) => format!("Here: scenario {}.", result.scenario.name),
        None => "This run has no scenario that asks so.".to_owned(),
    };
    let mut out = heading(text.title);
    out += &paragraph(&format!("Asked: {}. {here}", text.asked));
    let find =
        |name: &str| summaries.as_ref().and_then(|all| all.iter().find(|summary| summary.name == name));
    let headings = [
        "",
        "text: req/s",
        "text: loss %",
        "text: mean ms",
        "ours: req/s",
        "ours: loss %",
        "ours: p50 ms",
        "p99 ms",
        "CPU µs/req",
    ];
    let mut table = TextTable::with_numbers(headings);
    let origin = text.origin.map_or_else(Vec::new, |origin| vec![origin]);
    table.rows.push(cells("origin alone", &origin, None, text.origin, find(DIRECT)));
    for row in text.rows {
        table.rows.push(cells(row.name, row.per_second, row.mean_ms, text.origin, find(row.ours)));
    }
    for name in OURS.iter().filter(|name| text.rows.iter().all(|row| row.ours != **name)) {
        table.rows.push(cells(name, &[], None, None, find(name)));
    }
    out += &aligned(&table);
    for row in text.rows.iter().filter(|row| !row.remark.is_empty()) {
        out += &paragraph(&format!("{}, in the text: {}.", row.name, row.remark));
    }
    if !text.remark.is_empty() {
        out += &paragraph(text.remark);
    }
    out + &lacking(text, summaries.as_deref())
}

fn heading(title: &str) -> String {
    format!("\n{title}\n{}\n\n", "-".repeat(title.chars().count()))
}

/// A paragraph broken into lines. Control characters are removed, because a result may come from another
/// machine.
fn paragraph(text: &str) -> String {
    let clean: String = text.chars().filter(|character| !character.is_control()).collect();
    format!("{}\n", wrapped(&clean, WIDTH, 0))
}

fn aligned(table: &TextTable) -> String {
    format!("\n{}\n", table.aligned(Paint::Plain, WIDTH))
}

fn cells(
    name: &str,
    per_second: &[f64],
    mean_ms: Option<f64>,
    origin: Option<f64>,
    ours: Option<&Summary<'_>>,
) -> Vec<Cell> {
    let listed = |of: &dyn Fn(f64) -> String| -> String {
        let all: Vec<String> = per_second.iter().map(|value| of(*value)).collect();
        if all.is_empty() { number::MISSING.to_owned() } else { all.join(", ") }
    };
    let loss = |value: f64| {
        let origin = origin.filter(|origin| *origin != value);
        number::optional_percent(origin.map(|origin| (origin - value) / origin * 100.0))
    };
    let of = |figure: Figure| number::optional(ours.and_then(|ours| ours.median(figure)));
    let our_loss = ours.and_then(|ours| Some(ours.loss_percent?.median));
    [
        name.to_owned(),
        listed(&number::format_number),
        listed(&loss),
        number::optional(mean_ms),
        of(Figure::RequestsPerSecond),
        number::optional_percent(our_loss),
        of(Figure::P50Ms),
        of(Figure::P99Ms),
        of(Figure::CpuUs),
    ]
    .map(Cell::text)
    .into()
}

/// The rows of the text without a counterpart in this run, and the reasons.
fn lacking(text: &Text, summaries: Option<&[Summary<'_>]>) -> String {
    let Some(summaries) = summaries else { return String::new() };
    let mut names: Vec<&str> = text.rows.iter().map(|row| row.ours).chain(OURS.iter().copied()).collect();
    names.sort_unstable();
    names.dedup();
    let mut out = String::new();
    for name in names {
        let reason = match summaries.iter().find(|summary| summary.name == name) {
            Some(summary) if summary.rounds > 0 => continue,
            Some(summary) => summary.absent.unwrap_or("no round was finished"),
            None => "this run did not ask it here",
        };
        out += &paragraph(&format!("No figures of ours for {name}: {reason}."));
    }
    out
}

/// The scenario with the load of the text: of several the one with the most of the text's contenders, the
/// first of equals.
fn repeating<'r>(report: &'r RunReport, text: &Text) -> Option<&'r ScenarioResult> {
    let shared = |result: &&ScenarioResult| {
        let asked = |ours: &str| result.contenders.iter().any(|one| one.name == ours && !one.runs.is_empty());
        text.rows.iter().filter(|row| asked(row.ours)).count()
    };
    report.scenarios.iter().filter(|result| repeats(result, &text.ask)).rev().max_by_key(shared)
}

/// Whether a scenario has the load of a text.
fn repeats(result: &ScenarioResult, ask: &Ask) -> bool {
    let asked = &result.scenario;
    let load: &ScenarioLoad = &asked.load;
    let plain = asked.routes == 0
        && asked.idle_connections == 0
        && asked.slow_clients == 0
        && asked.changes_per_second == 0.0
        && !asked.together;
    plain
        && load.tool == ask.tool
        && load.connections == ask.connections
        && load.requests == ask.requests
        && load.keep_alive == ask.keep_alive
        && (load.path.contains("26650") || load.expect.bytes == Some(BIG_BYTES)) == ask.big
        && asked.workers == ask.workers
}

/// The study of thread models: its findings, and those of this run. Its absolute numbers are not shown,
/// except those of the origin.
pub(super) fn thread_models(report: &RunReport) -> String {
    let mut out = heading("A Netty forwarder: layers, thread models, buffers");
    out += &paragraph(
        "The text forwards bytes (layer 4) or parsed HTTP (layer 7) before an origin of 266,000 requests per second, with \
        the upstream connection on the client's own event loop, on any loop of the same pool, or on a pool of its own. It \
        finds the same loop the cheapest and the fastest (at layer 4 it loses 3 %), a pool of its own the slowest, with \
        about four times the context switches, and pooled buffers about 3 % better than fresh ones.",
    );
    let variable = |name: &str, variable: &str| {
        let facts = report.contenders.iter().find(|facts| facts.definition.name == name)?;
        facts.definition.environment.get(variable).map(String::as_str)
    };
    let mut has_study = false;
    for result in &report.scenarios {
        let summaries = summary::summarise_scenario(result);
        let part =
            |summary: &&Summary<'_>| variable(summary.name, "THREAD_MODEL").is_some() && summary.rounds > 0;
        let measured: Vec<&Summary<'_>> = summaries.iter().filter(part).collect();
        // The study itself, and not another scenario with one of its contenders.
        if measured.len() < STUDY_LEAST {
            continue;
        }
        has_study = true;
        let headings = ["", "layer", "model", "buffers", "req/s", "loss %", "CPU µs/req", "switches/req"];
        let mut table = TextTable::with_numbers(headings);
        let findings = findings::build_study_table(report, &measured);
        for summary in measured {
            let text = |name: &str| variable(summary.name, name).unwrap_or(number::MISSING).to_owned();
            let of = |figure: Figure| number::optional(summary.median(figure));
            let cells = [
                summary.name.to_owned(),
                text("LAYER"),
                text("THREAD_MODEL"),
                text("BUFFERS"),
                of(Figure::RequestsPerSecond),
                number::optional_percent(summary.loss_percent.map(|loss| loss.median)),
                of(Figure::CpuUs),
                of(Figure::Switches),
            ];
            table.rows.push(cells.map(Cell::text).into());
        }
        out += &format!("\nHere, scenario {}:\n{}", result.scenario.name, aligned(&table));
        if let Some(findings) = findings {
            out += &format!(
                "\nThe findings of the text, beside the ratios of these medians:\n{}",
                aligned(&findings)
            );
        }
    }
    if !has_study {
        out += "This run has no scenario of the study.\n";
    }
    out
}

/// Columns of a line.
const WIDTH: usize = 120;
/// Length of the texts' big page.
const BIG_BYTES: u64 = 26_650;
/// The study has twelve variants of a program; a scenario with fewer is about something else.
const STUDY_LEAST: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{golden, sample};

    #[test]
    fn the_tables_look_like_this() {
        golden::check_golden("texts.txt", &render_published_texts(&sample::report()));
    }

    #[test]
    fn missing_losses_of_texts_are_computed() {
        let page = render_published_texts(&sample::report()).split_whitespace().collect::<Vec<_>>().join(" ");
        for expected in [
            // (6519.68 - 950.57) / 6519.68
            "Zuul 951 85.4 -",
            // (33014.70 - 27139.19) / 33014.70
            "EdgeService 27,139 17.8 3.80",
            "nginx 955, 953, 941 67.4, 67.5, 67.9 -",
        ] {
            assert!(page.contains(expected), "{expected}");
        }
    }

    #[test]
    fn missing_rows_of_texts_are_listed() {
        let mut report = sample::small(1, 3, 1.0);
        assert_eq!(
            render_published_texts(&report).matches("This run has no scenario that asks so.").count(),
            TEXTS.len()
        );
        let load = &mut report.scenarios[0].scenario.load;
        (load.connections, load.threads) = (100, 12);
        let page = render_published_texts(&report);
        assert_eq!(page.matches("This run has no scenario that asks so.").count(), TEXTS.len() - 1);
        assert!(page.contains("No figures of ours for edgeservice: this run did not ask it here."), "{page}");
    }

    #[test]
    fn scenario_with_published_contenders_counts() {
        let mut report = sample::small(1, 3, 1.0);
        report.scenarios[0].scenario.load.connections = 100;
        let mut second = report.scenarios[0].clone();
        second.scenario.name = "like-the-text".to_owned();
        second.contenders[1].name = "zuul1".to_owned();
        report.scenarios.push(second);
        assert!(
            render_published_texts(&report).contains("Here: scenario like-the-text."),
            "{}",
            render_published_texts(&report)
        );
        // The first of equals.
        report.scenarios[1].contenders[1].name = "somebody".to_owned();
        assert!(render_published_texts(&report).contains("Here: scenario small."));
    }
}
