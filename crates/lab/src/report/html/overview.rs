//! The first charts of the page: one row per scenario, one mark per contender, one figure per chart.

use super::dots::{Dot, DotRow, FARTHEST, SUBJECT_RADIUS, dots};
use super::legend::{DotShape, LegendEntry, Sign};
use super::{People, figure, rule, subject};
use crate::report::figure::Figure;
use crate::report::group::groups;
use crate::report::headline::{self, SUBJECT};
use crate::report::number;
use crate::report::summary::{self, DIRECT};
use crate::report::table::{Cell, TextTable};
use crate::result::{RunReport, ScenarioResult};

/// Ratios to the baseline over all scenarios, and scenarios in which the subject is not first.
pub(super) fn render_overview_section(report: &RunReport, people: &People<'_>) -> String {
    let baseline = report.scenarios.iter().find_map(|result| result.baseline.as_deref());
    let Some(baseline) = baseline else { return String::new() };
    let mut charts = String::new();
    let kinds = [
        (Figure::CpuUs, "CPU per request", "left is cheaper"),
        (Figure::RequestsPerSecond, "Requests per second", "right is more"),
    ];
    for (kind, caption, direction) in kinds {
        charts += &chart(report, people, baseline, kind, caption, direction).unwrap_or_default();
    }
    format!(r#"<section class="overview"><div class="wide">{charts}</div>{}</section>"#, not_first(report))
}

fn chart(
    report: &RunReport,
    people: &People<'_>,
    baseline: &str,
    kind: Figure,
    caption: &str,
    direction: &str,
) -> Option<String> {
    let mut table = TextTable::with_numbers(["scenario", "contender", "ratio", "interval", "verdict"]);
    table.columns[1].numeric = false;
    table.columns[4].numeric = false;
    let mut rows = Vec::new();
    let is_shown = |result: &&ScenarioResult| {
        result.baseline.as_deref() == Some(baseline)
            && !(kind == Figure::RequestsPerSecond && summary::paced(result))
    };
    for (group, members) in groups(report) {
        let mut heading = Some(group.title());
        for result in members.iter().map(|index| &report.scenarios[*index]).filter(is_shown) {
            let dots = marks(result, people, baseline, kind, &mut table);
            if dots.is_empty() {
                continue;
            }
            let measured = dots.iter().any(|dot| dot.is_subject);
            rows.push(DotRow {
                heading: heading.take(),
                name: result.scenario.name.clone(),
                tip: result.scenario.title.clone(),
                dots,
                note: if measured { None } else { subject::absence(report, result) },
            });
        }
    }
    if rows.is_empty() {
        return None;
    }
    let explanation = format!(
        "as a multiple of {baseline} in the same round; {direction}; beyond {FARTHEST:.0}× stands at the edge. {}",
        rule()
    );
    let label = format!("{caption} of every contender over {baseline}, by scenario");
    let drawing = dots(&rows, &legend(&rows, baseline), &label);
    Some(figure("overview", caption, &explanation, &drawing, &table, &report.command))
}

/// The marks of one row, topmost last; their numbers go into the table.
fn marks(
    result: &ScenarioResult,
    people: &People<'_>,
    baseline: &str,
    kind: Figure,
    table: &mut TextTable,
) -> Vec<Dot> {
    let mut dots: Vec<Dot> = Vec::new();
    let summaries = summary::summarise_scenario(result);
    for summary in summaries.iter().filter(|summary| summary.name != DIRECT) {
        let Some(ratio) = summary.ratios.get(&kind) else { continue };
        let row = people.row(summary.name, Some(baseline));
        let word = kind.word(ratio.verdict);
        let tip = format!("{}: {} × {baseline}, {word}", row.title, number::format_ratio(ratio.median));
        let interval = ratio.interval.map_or_else(
            || number::MISSING.to_owned(),
            |(low, high)| format!("{}..{}", number::format_ratio(low), number::format_ratio(high)),
        );
        table.rows.push(vec![
            Cell::text(&result.scenario.name),
            Cell::text(summary.name),
            Cell::number(number::format_ratio(ratio.median), Some(ratio.median)),
            Cell::text(interval),
            Cell::text(word),
        ]);
        let shape = people.variant(summary.name).map_or(DotShape::Disc, DotShape::of_variant);
        dots.push(Dot { row, ratio: ratio.median, tip, shape, is_subject: summary.name == SUBJECT });
    }
    // The subject last, so that its mark is above the others; its own variants before it.
    dots.sort_by_key(|dot| (dot.row.class == "weir", dot.is_subject));
    dots
}

/// The meaning of the marks of these rows.
fn legend(rows: &[DotRow], baseline: &str) -> Vec<LegendEntry> {
    let all = || rows.iter().flat_map(|line| &line.dots);
    let mut entries = Vec::new();
    if all().any(|dot| dot.is_subject) {
        entries.push(LegendEntry::new(Sign::Dot(SUBJECT_RADIUS, "weir"), "Weir"));
    }
    let mut variants: Vec<(DotShape, &str)> = Vec::new();
    for dot in all().filter(|dot| dot.row.class == "weir" && !dot.is_subject) {
        if !variants.iter().any(|(shape, _)| *shape == dot.shape) {
            variants.push((dot.shape, &dot.row.title));
        }
    }
    variants.sort_by_key(|(shape, _)| *shape as u8);
    for (shape, title) in variants {
        let meaning = match shape {
            DotShape::Ring => "further variants of Weir".to_owned(),
            _ => title.replacen("Weir, ", "Weir with ", 1),
        };
        entries.push(LegendEntry::new(Sign::Shape(shape, "weir"), meaning));
    }
    if all().any(|dot| dot.row.class == "peer") {
        entries.push(LegendEntry::new(Sign::Shape(DotShape::Disc, "peer"), "another gateway"));
    }
    entries.push(LegendEntry::new(Sign::One, format!("1×: {baseline}")));
    entries
}

fn not_first(report: &RunReport) -> String {
    let standings = headline::standings(report);
    if standings.is_empty() {
        return String::new();
    }
    let mut table =
        TextTable::with_numbers(["scenario", "place", "of", "least CPU", "× the least", "loss %", "failed"]);
    table.columns[3].numeric = false;
    for one in &standings {
        table.rows.push(vec![
            Cell::text(one.scenario),
            Cell::number(one.place.to_string(), Some(one.place as f64)),
            Cell::number(one.of.to_string(), Some(one.of as f64)),
            Cell::text(one.first),
            Cell::number(number::format_ratio(one.over_first), Some(one.over_first)),
            Cell::number(number::optional_percent(one.loss_percent), one.loss_percent),
            Cell::number(number::format_count(one.failures), Some(one.failures as f64)),
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
