//! The first charts of the page: every scenario in one line, every contender a dot. One figure each.

use super::chart::{Dot, FARTHEST, Line, dots};
use super::{People, figure, rule};
use crate::report::figure::Figure;
use crate::report::headline::{self, SUBJECT};
use crate::report::number;
use crate::report::summary::{self, DIRECT};
use crate::report::table::{Cell, Table};
use crate::result::{Report, ScenarioResult};

/// Ratios to the baseline over all scenarios, and where the subject is not first.
pub(super) fn section(report: &Report, people: &People<'_>) -> String {
    let baseline = report.scenarios.iter().find_map(|result| result.baseline.as_deref());
    let Some(baseline) = baseline else { return String::new() };
    let mut charts = String::new();
    let kinds = [
        (Figure::CpuUs, "CPU per request", "Left is cheaper"),
        (Figure::RequestsPerSecond, "Requests per second", "Right is more"),
    ];
    for (kind, caption, direction) in kinds {
        charts += &chart(report, people, baseline, kind, caption, direction).unwrap_or_default();
    }
    format!(r#"<section class="overview"><div class="wide">{charts}</div>{}</section>"#, not_first(report))
}

fn chart(
    report: &Report,
    people: &People<'_>,
    baseline: &str,
    kind: Figure,
    caption: &str,
    direction: &str,
) -> Option<String> {
    let mut table = Table::with_numbers(["scenario", "contender", "ratio", "interval", "verdict"]);
    table.columns[1].numeric = false;
    table.columns[4].numeric = false;
    let mut rows = Vec::new();
    let told = |result: &&ScenarioResult| {
        result.baseline.as_deref() == Some(baseline)
            && !(kind == Figure::RequestsPerSecond && summary::paced(result))
    };
    for result in report.scenarios.iter().filter(told) {
        let summaries = summary::of_scenario(result);
        let mut line: Vec<Dot> = Vec::new();
        for summary in summaries.iter().filter(|summary| summary.name != DIRECT) {
            let Some(ratio) = summary.ratios.get(&kind) else { continue };
            let row = people.row(summary.name, Some(baseline));
            let word = kind.word(ratio.verdict);
            let tip = format!("{}: {} × {baseline}, {word}", row.title, number::ratio(ratio.median));
            let interval = ratio.interval.map_or_else(
                || number::MISSING.to_owned(),
                |(low, high)| format!("{}..{}", number::ratio(low), number::ratio(high)),
            );
            table.rows.push(vec![
                Cell::text(&result.scenario.name),
                Cell::text(summary.name),
                Cell::number(number::ratio(ratio.median), Some(ratio.median)),
                Cell::text(interval),
                Cell::text(word),
            ]);
            let told = summary.name == SUBJECT;
            line.push(Dot { row, ratio: ratio.median, tip, told });
        }
        // The subject last, so that it lies above the others; its own variants before it.
        let subject = people.row(SUBJECT, None).who;
        line.sort_by_key(|dot| (dot.row.class == "weir", dot.row.who == subject));
        if !line.is_empty() {
            rows.push(Line { title: result.scenario.name.clone(), dots: line });
        }
    }
    if rows.is_empty() {
        return None;
    }
    let explanation = format!(
        "as a multiple of {baseline} in the same round. {direction}; beyond {FARTHEST:.0} × stands at the edge. {}",
        rule()
    );
    let drawing =
        dots(&rows, baseline, &format!("{caption} of every contender over {baseline}, by scenario"));
    Some(figure("overview", caption, &explanation, &drawing, &table, &report.command))
}

fn not_first(report: &Report) -> String {
    let standings = headline::standings(report);
    if standings.is_empty() {
        return String::new();
    }
    let mut table =
        Table::with_numbers(["scenario", "place", "of", "least CPU", "× the least", "loss %", "failed"]);
    table.columns[3].numeric = false;
    for one in &standings {
        table.rows.push(vec![
            Cell::text(one.scenario),
            Cell::number(one.place.to_string(), Some(one.place as f64)),
            Cell::number(one.of.to_string(), Some(one.of as f64)),
            Cell::text(one.first),
            Cell::number(number::ratio(one.over_first), Some(one.over_first)),
            Cell::number(number::optional_percent(one.loss_percent), one.loss_percent),
            Cell::number(number::count(one.failures), Some(one.failures as f64)),
        ]);
    }
    let behind = standings.iter().filter(|one| one.place > 1).count();
    let open = if behind > 0 { " open" } else { "" };
    format!(
        r#"<details class="places"{open}><summary>Where Weir stands: not first in {behind} of {} by CPU per request</summary>{}</details>"#,
        standings.len(),
        super::html_table(&table)
    )
}
