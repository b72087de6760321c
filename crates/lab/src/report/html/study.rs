//! The thread-model study: contenders that differ in layer, thread model and buffers only, according to their
//! folders' environment, grouped so that each difference is beside its counterpart.

use super::chart::{Bar, ChartRow, bars};
use super::figure;
use super::legend::{LegendEntry, Sign};
use super::scenario::View;
use crate::contender::Definition;
use crate::report::figure::Figure;
use crate::report::number;
use crate::report::summary::Summary;
use crate::report::table::{Cell, TextTable};
use crate::result::RunReport;

/// The properties of one contender of the study.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Variant {
    program: String,
    layer: String,
    model: String,
    buffers: String,
}

/// The study's charts, if a scenario has at least two of its contenders.
pub(super) fn draw_study_charts(report: &RunReport, view: &View<'_>) -> String {
    let of = |summary: &&Summary<'_>| {
        let facts = report.contenders.iter().find(|facts| facts.definition.name == summary.name)?;
        variant(&facts.definition)
    };
    let mut points: Vec<(Variant, &Summary<'_>)> =
        view.measured.iter().filter_map(|summary| Some((of(summary)?, *summary))).collect();
    // A scenario with fewer contenders of the study is about something else.
    if points.len() < STUDY_LEAST {
        return String::new();
    }
    points.sort_by(|one, other| one.0.cmp(&other.0));
    let kinds = [
        (Figure::RequestsPerSecond, "Thread models: requests per second", "by layer, model and buffers"),
        (Figure::CpuUs, "Thread models: CPU per request", "µs, by layer, model and buffers"),
        (Figure::Switches, "Thread models: context switches", "per request, of both kinds"),
    ];
    kinds.map(|(kind, caption, explanation)| one(view, &points, kind, caption, explanation)).concat()
}

fn one(
    view: &View<'_>,
    points: &[(Variant, &Summary<'_>)],
    kind: Figure,
    caption: &str,
    explanation: &str,
) -> String {
    let mut table =
        TextTable::with_numbers(["contender", "layer", "model", "buffers", kind.title(), "least", "most"]);
    for column in &mut table.columns[1..4] {
        column.numeric = false;
    }
    let several = points.iter().any(|(variant, _)| variant.program != points[0].0.program);
    let mut drawn = Vec::new();
    for (variant, summary) in points {
        let Some(spread) = summary.figures.get(&kind) else { continue };
        let program = if several { format!("{} ", variant.program) } else { String::new() };
        let title = format!("{program}L{} {} {}", variant.layer, variant.model, variant.buffers);
        // Layers also differ by shade.
        let class = if variant.layer == "4" { "base" } else { "peer" };
        drawn.push(Bar {
            row: ChartRow { title: title.clone(), who: view.row(summary).who, class },
            parts: vec![spread.median],
            whisker: Some((spread.min, spread.max)),
            label: kind.shown(spread.median),
            tip: format!("{title}: {} {}", kind.shown(spread.median), kind.title()),
        });
        let mut cells =
            [summary.name, &variant.layer, &variant.model, &variant.buffers].map(Cell::text).to_vec();
        cells.extend(
            [spread.median, spread.min, spread.max]
                .map(|value| Cell::number(number::format_number(value), Some(value))),
        );
        table.rows.push(cells);
    }
    if drawn.is_empty() {
        return String::new();
    }
    let layers = [("base", "layer 4"), ("peer", "layer 7")];
    let drawn_class = |class: &str| drawn.iter().any(|bar| bar.row.class == class);
    let colours = layers
        .into_iter()
        .filter(|(class, _)| drawn_class(class))
        .map(|(class, meaning)| LegendEntry::new(Sign::Bar(class), meaning))
        .collect();
    let drawing = bars(&drawn, None, colours, &format!("{caption}: {}", view.result.scenario.title));
    figure("study", caption, explanation, &drawing, &table, &view.result.command)
}

/// The study has twelve variants of a program.
const STUDY_LEAST: usize = 4;

/// The properties in a folder's environment; `None` for contenders that are not part of the study.
fn variant(definition: &Definition) -> Option<Variant> {
    let variable = |name: &str| definition.environment.get(name).cloned();
    Some(Variant {
        program: definition.variant_of.clone().unwrap_or_else(|| definition.name.clone()),
        model: variable("THREAD_MODEL")?,
        layer: variable("LAYER")?,
        buffers: variable("BUFFERS")?,
    })
}
