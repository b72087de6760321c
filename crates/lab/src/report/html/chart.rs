//! Charts of rows: bars, and ranges on a logarithmic axis, with the parts that rows of all charts share. They
//! take numbers with names and do not know the figures.

use super::legend::{self, DotShape, LegendEntry, Sign};
use super::scale::{Linear, LogScale};
use super::svg::{Anchor, Mark, Svg, shorten_middle};
use crate::report::number;

/// The contender of a row.
#[derive(Clone, Debug)]
pub(super) struct ChartRow {
    /// Text of the label.
    pub(super) title: String,
    /// The contender's number.
    pub(super) who: usize,
    /// `weir`, `direct`, `base` or `peer`: the colour.
    pub(super) class: &'static str,
}

/// A bar, possibly of several parts.
pub(super) struct Bar {
    pub(super) row: ChartRow,
    /// Lengths; the second part is paler.
    pub(super) parts: Vec<f64>,
    /// From the least to the greatest round.
    pub(super) whisker: Option<(f64, f64)>,
    /// Text after the bar.
    pub(super) label: String,
    pub(super) tip: String,
}

/// Latencies of one contender, ascending.
pub(super) struct Range {
    pub(super) row: ChartRow,
    pub(super) p50: f64,
    pub(super) p90: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) p99_9: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) tip: String,
}

/// Rows of bars. `most` fixes the axis' end (100 for percentages); `colours` explains the colours.
pub(super) fn bars(bars: &[Bar], most: Option<f64>, mut colours: Vec<LegendEntry>, label: &str) -> String {
    let sum = |bar: &Bar| bar.parts.iter().sum::<f64>();
    let greatest = |bar: &Bar| bar.whisker.map_or(0.0, |(_, high)| high).max(sum(bar));
    let left = label_room(bars.iter().map(|bar| &bar.row));
    let right = WIDTH - text_width(bars.iter().map(|bar| bar.label.as_str())) - GAP;
    let axis =
        Linear::new(most.unwrap_or_else(|| bars.iter().map(greatest).fold(0.0, f64::max)), left, right);
    if bars.iter().any(|bar| bar.parts.len() > 1) {
        colours.push(LegendEntry::new(Sign::Pale, "pale: in the kernel"));
    }
    if bars.iter().any(|bar| bar.whisker.is_some()) {
        colours.push(LegendEntry::new(Sign::Whisker, "least to greatest round"));
    }
    let mut svg = Svg::new(WIDTH);
    legend::draw(&mut svg, &colours);
    let bottom = TOP + ROW * bars.len() as f64;
    for tick in axis.ticks() {
        grid(&mut svg, axis.at(tick), bottom, &number::axis(tick));
    }
    for (index, bar) in bars.iter().enumerate() {
        let y = row_top(index);
        name(&mut svg, &bar.row, left, y);
        let (mut from, mut end) = (0.0, left);
        for (part, length) in bar.parts.iter().enumerate() {
            let class = format!("bar {}{}", bar.row.class, if part > 0 { " pale" } else { "" });
            let mark = Mark { class: &class, tip: &bar.tip, who: Some(bar.row.who) };
            let start = axis.at(from);
            end = axis.at(from + length);
            svg.bar((start, y + 4.0), (end - start, ROW - 8.0), mark);
            from += length;
        }
        if let Some((low, high)) = bar.whisker {
            whisker(&mut svg, (axis.at(low), axis.at(high)), y + ROW / 2.0);
            end = end.max(axis.at(high));
        }
        let mark = Mark { class: "value", tip: "", who: Some(bar.row.who) };
        svg.text((end + GAP, y + BASELINE), Anchor::Start, mark, &bar.label);
    }
    svg.finish(bottom + GAP, label)
}

/// Percentiles on a logarithmic axis: p50 a disc, p90 a dot, p99 a diamond, p99.9 a dot, the longest a
/// stroke.
pub(super) fn ranges(ranges: &[Range], label: &str) -> String {
    let shown = |range: &Range| number::optional(range.p99);
    let values: Vec<String> = ranges.iter().map(shown).collect();
    let left = label_room(ranges.iter().map(|range| &range.row));
    let right = WIDTH - text_width(values.iter().map(String::as_str)) - 2.0 * GAP;
    let ends =
        |range: &Range| [range.max, range.p99_9, range.p99].into_iter().flatten().fold(range.p50, f64::max);
    let least = ranges.iter().map(|range| range.p50).filter(|p50| *p50 > 0.0).fold(f64::INFINITY, f64::min);
    let axis =
        LogScale::new(least * 0.8, ranges.iter().map(ends).fold(0.0, f64::max) * 1.1, left + GAP, right);
    let mut svg = Svg::new(WIDTH);
    legend::draw(&mut svg, &range_legend(ranges));
    let bottom = TOP + ROW * ranges.len() as f64;
    for tick in axis.ticks() {
        grid(&mut svg, axis.at(tick), bottom, &number::axis(tick));
    }
    for ((index, range), value) in ranges.iter().enumerate().zip(values) {
        let (y, class) = (row_top(index), range.row.class);
        let middle = y + ROW / 2.0;
        name(&mut svg, &range.row, left, y);
        let of = |class: &'static str| Mark { class, tip: &range.tip, who: Some(range.row.who) };
        let (thread, dot, stroke) = classes(class);
        svg.line((axis.at(range.p50), middle), (axis.at(ends(range)), middle), of(thread));
        for small in [range.p90, range.p99_9].into_iter().flatten() {
            svg.circle((axis.at(small), middle), 1.8, of(dot));
        }
        if let Some(max) = range.max {
            svg.line((axis.at(max), middle - 4.5), (axis.at(max), middle + 4.5), of(stroke));
        }
        if let Some(p99) = range.p99 {
            svg.diamond((axis.at(p99), middle), 5.0, of(dot));
        }
        svg.circle((axis.at(range.p50), middle), 4.0, of(dot));
        let mark = Mark { class: "value", tip: "", who: Some(range.row.who) };
        svg.text((WIDTH - 1.0, y + BASELINE), Anchor::End, mark, &value);
    }
    svg.text((WIDTH - 1.0, 11.0), Anchor::End, Mark { class: "axis", ..Mark::default() }, "p99");
    svg.finish(bottom + GAP, label)
}

fn range_legend(ranges: &[Range]) -> Vec<LegendEntry> {
    let mut entries = vec![
        LegendEntry::new(Sign::Dot(4.0, "direct"), "p50"),
        LegendEntry::new(Sign::Shape(DotShape::Diamond, "direct"), "p99"),
    ];
    if ranges.iter().any(|range| range.p90.is_some() || range.p99_9.is_some()) {
        entries.push(LegendEntry::new(Sign::Dot(1.8, "direct"), "p90, p99.9"));
    }
    if ranges.iter().any(|range| range.max.is_some()) {
        entries.push(LegendEntry::new(Sign::Stroke, "longest"));
    }
    entries.extend(legend::list_colour_entries(ranges.iter().map(|range| &range.row), Sign::Line));
    entries
}

fn row_top(index: usize) -> f64 {
    TOP + ROW * index as f64
}

/// A vertical line down to `bottom`, with its number above.
pub(super) fn grid(svg: &mut Svg, x: f64, bottom: f64, label: &str) {
    svg.line((x, TOP - 4.0), (x, bottom), Mark { class: "grid", ..Mark::default() });
    svg.text((x, 11.0), Anchor::Middle, Mark { class: "axis", ..Mark::default() }, label);
}

fn name(svg: &mut Svg, row: &ChartRow, left: f64, y: f64) {
    let class = if row.class == "weir" { "name strong" } else { "name" };
    let mark = Mark { class, tip: &row.title, who: Some(row.who) };
    svg.text((left - GAP, y + BASELINE), Anchor::End, mark, &shorten_middle(&row.title, LABEL_CHARACTERS));
}

fn whisker(svg: &mut Svg, (low, high): (f64, f64), y: f64) {
    let mark = Mark { class: "whisker", ..Mark::default() };
    svg.line((low, y), (high, y), mark);
    svg.line((low, y - 3.0), (low, y + 3.0), mark);
    svg.line((high, y - 3.0), (high, y + 3.0), mark);
}

/// The classes of a thread, a dot and a stroke in a row's colour.
fn classes(class: &str) -> (&'static str, &'static str, &'static str) {
    match class {
        "weir" => ("thread weir", "dot weir", "stroke weir"),
        "base" => ("thread base", "dot base", "stroke base"),
        "direct" => ("thread direct", "dot direct", "stroke direct"),
        _ => ("thread peer", "dot peer", "stroke peer"),
    }
}

fn label_room<'a>(rows: impl Iterator<Item = &'a ChartRow>) -> f64 {
    let longest = rows.map(|row| row.title.chars().count()).max().unwrap_or(0);
    longest.min(LABEL_CHARACTERS) as f64 * CHARACTER + 2.0 * GAP
}

pub(super) fn text_width<'a>(texts: impl Iterator<Item = &'a str>) -> f64 {
    texts.map(|text| text.chars().count()).max().unwrap_or(0) as f64 * CHARACTER
}

/// Units of a drawing's width. A card on a phone is about 340 pixels wide, so that text keeps five sixths of
/// its size there; on a desktop it is about 490.
pub(super) const WIDTH: f64 = 400.0;
/// Height of a row.
const ROW: f64 = 22.0;
/// Vertical position of text in a row.
const BASELINE: f64 = 15.0;
/// Height of the numbers of the axis.
pub(super) const TOP: f64 = 22.0;
/// Gap between elements.
pub(super) const GAP: f64 = 7.0;
/// Width of a character of 11.5 units in the widest of the usual fonts.
pub(super) const CHARACTER: f64 = 6.9;
/// Most characters of a row's label.
const LABEL_CHARACTERS: usize = 24;
