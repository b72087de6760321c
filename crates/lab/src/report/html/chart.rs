//! The kinds of charts: rows of bars, ranges on a logarithmic axis, dots, and lines over time. They take numbers with
//! names; which figures those are is said elsewhere.

use super::scale::{Linear, Log};
use super::svg::{Anchor, Mark, Svg, shortened};
use crate::report::number;

/// Who a row belongs to.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// For the label.
    pub(super) title: String,
    /// The contender's number.
    pub(super) who: usize,
    /// `weir`, `direct`, `base` or `peer`: how it is coloured.
    pub(super) class: &'static str,
}

/// A bar, possibly of parts that follow each other.
pub(super) struct Bar {
    pub(super) row: Row,
    /// Lengths; the second part is paler.
    pub(super) parts: Vec<f64>,
    /// From the least to the greatest round.
    pub(super) whisker: Option<(f64, f64)>,
    /// Stands behind the bar.
    pub(super) label: String,
    pub(super) tip: String,
}

/// Latencies of one contender, ascending.
pub(super) struct Range {
    pub(super) row: Row,
    pub(super) p50: f64,
    pub(super) p90: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) p99_9: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) tip: String,
}

/// One scenario of the overview.
pub(super) struct Line {
    pub(super) title: String,
    pub(super) dots: Vec<Dot>,
}

/// One contender of it.
pub(super) struct Dot {
    pub(super) row: Row,
    pub(super) ratio: f64,
    pub(super) tip: String,
    /// The one that the chart is about.
    pub(super) told: bool,
}

/// One line of a chart over time.
pub(super) struct Series {
    pub(super) row: Row,
    pub(super) values: Vec<f64>,
}

/// Rows of bars. `most` fixes the axis' end (100 for percentages).
pub(super) fn bars(bars: &[Bar], most: Option<f64>, label: &str) -> String {
    let sum = |bar: &Bar| bar.parts.iter().sum::<f64>();
    let greatest = |bar: &Bar| bar.whisker.map_or(0.0, |(_, high)| high).max(sum(bar));
    let left = label_room(bars.iter().map(|bar| &bar.row));
    let right = WIDTH - text_width(bars.iter().map(|bar| bar.label.as_str())) - GAP;
    let axis =
        Linear::new(most.unwrap_or_else(|| bars.iter().map(greatest).fold(0.0, f64::max)), left, right);
    let mut svg = frame(bars.len());
    for tick in axis.ticks() {
        grid(&mut svg, axis.at(tick), bars.len(), &number::axis(tick));
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
    svg.finish(label)
}

/// Percentiles on a logarithmic axis: p50 a disc, p90 a dot, p99 a diamond, p99.9 a dot, the longest a stroke.
pub(super) fn ranges(ranges: &[Range], label: &str) -> String {
    let shown = |range: &Range| number::optional(range.p99);
    let values: Vec<String> = ranges.iter().map(shown).collect();
    let left = label_room(ranges.iter().map(|range| &range.row));
    let right = WIDTH - text_width(values.iter().map(String::as_str)) - 2.0 * GAP;
    let ends =
        |range: &Range| [range.max, range.p99_9, range.p99].into_iter().flatten().fold(range.p50, f64::max);
    let least = ranges.iter().map(|range| range.p50).filter(|p50| *p50 > 0.0).fold(f64::INFINITY, f64::min);
    let axis = Log::new(least * 0.8, ranges.iter().map(ends).fold(0.0, f64::max) * 1.1, left + GAP, right);
    let mut svg = frame(ranges.len());
    for tick in axis.ticks() {
        grid(&mut svg, axis.at(tick), ranges.len(), &number::axis(tick));
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
    svg.finish(label)
}

/// One row a scenario, one dot a contender, at its ratio to the baseline. The dot that the chart is about is larger, and its
/// number stands at the right; where it is missing, none does.
pub(super) fn dots(rows: &[Line], baseline: &str, label: &str) -> String {
    let left = text_width(rows.iter().map(|line| line.title.as_str())).min(WIDE_LABEL) + GAP;
    let all =
        || rows.iter().flat_map(|line| line.dots.iter().map(|dot| dot.ratio)).filter(|ratio| *ratio > 0.0);
    let least = all().fold(0.8, f64::min).max(1.0 / FARTHEST);
    let greatest = all().fold(1.25, f64::max).min(FARTHEST);
    let axis = Log::new(least * 0.9, greatest * 1.1, left + GAP, OVERVIEW_WIDTH - 56.0);
    let mut svg = Svg::new(OVERVIEW_WIDTH, TOP + ROW * rows.len() as f64 + GAP);
    for tick in axis.ticks() {
        grid(&mut svg, axis.at(tick), rows.len(), &format!("{}×", number::axis(tick)));
    }
    let one = axis.at(1.0);
    svg.line(
        (one, TOP - 4.0),
        (one, TOP + ROW * rows.len() as f64),
        Mark { class: "one", ..Mark::default() },
    );
    svg.text(
        (OVERVIEW_WIDTH - 1.0, 11.0),
        Anchor::End,
        Mark { class: "axis", ..Mark::default() },
        &format!("× {baseline}"),
    );
    for (index, Line { title, dots }) in rows.iter().enumerate() {
        let y = row_top(index);
        let most = (WIDE_LABEL / CHARACTER) as usize;
        let mark = Mark { class: "name", tip: title, who: None };
        svg.text((left, y + BASELINE), Anchor::End, mark, &shortened(title, most));
        for Dot { row, ratio, tip, told } in dots {
            let class = classes(row.class).1;
            let mark = Mark { class, tip, who: Some(row.who) };
            svg.circle((axis.at(*ratio), y + ROW / 2.0), if *told { 5.5 } else { 3.4 }, mark);
            if *told {
                let mark = Mark { class: "value", tip: "", who: Some(row.who) };
                svg.text((OVERVIEW_WIDTH - 1.0, y + BASELINE), Anchor::End, mark, &number::ratio(*ratio));
            }
        }
    }
    svg.finish(label)
}

/// Lines over time. Those that are not peers are named at their end.
pub(super) fn lines(series: &[Series], interval_s: f64, label: &str) -> String {
    let named = |one: &&Series| one.row.class != "peer";
    let right = WIDTH
        - text_width(series.iter().filter(named).map(|one| one.row.title.as_str())).min(WIDE_LABEL)
        - GAP;
    let greatest = series.iter().flat_map(|one| one.values.iter().copied()).fold(0.0, f64::max);
    let (top, bottom) = (TOP, LINES_HEIGHT - 22.0);
    let (up, longest) =
        (Linear::new(greatest * 1.05, bottom, top), series.iter().map(|one| one.values.len()).max());
    let left = text_width(
        up.ticks().iter().map(|tick| number::plain(*tick)).collect::<Vec<_>>().iter().map(String::as_str),
    ) + GAP;
    let along = Linear::new((longest.unwrap_or(1).max(2) - 1) as f64 * interval_s, left, right);
    let mut svg = Svg::new(WIDTH, LINES_HEIGHT);
    let axis = Mark { class: "axis", ..Mark::default() };
    for tick in up.ticks() {
        svg.line((left, up.at(tick)), (right, up.at(tick)), Mark { class: "grid", ..Mark::default() });
        svg.text((left - 6.0, up.at(tick) + 4.0), Anchor::End, axis, &number::plain(tick));
    }
    for tick in along.ticks() {
        svg.text(
            (along.at(tick), LINES_HEIGHT - 6.0),
            Anchor::Middle,
            axis,
            &format!("{} s", number::axis(tick)),
        );
    }
    let mut ends: Vec<(f64, &Series)> = Vec::new();
    for one in series {
        let place = |(index, value): (usize, &f64)| (along.at(index as f64 * interval_s), up.at(*value));
        let points: Vec<(f64, f64)> = one.values.iter().enumerate().map(place).collect();
        let class = format!("line {}", one.row.class);
        svg.path(&points, Mark { class: &class, tip: &one.row.title, who: Some(one.row.who) });
        if let Some((_, y)) = points.last().filter(|_| named(&one)) {
            ends.push((*y, one));
        }
    }
    ends.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut free = 0.0_f64;
    for (y, one) in ends {
        let y = y.max(free);
        let class = format!("value {}", one.row.class);
        let mark = Mark { class: &class, tip: "", who: Some(one.row.who) };
        svg.text(
            (right + 6.0, y + 4.0),
            Anchor::Start,
            mark,
            &shortened(&one.row.title, (WIDE_LABEL / CHARACTER) as usize),
        );
        free = y + 14.0;
    }
    svg.finish(label)
}

fn frame(rows: usize) -> Svg {
    Svg::new(WIDTH, TOP + ROW * rows as f64 + GAP)
}

fn row_top(index: usize) -> f64 {
    TOP + ROW * index as f64
}

fn grid(svg: &mut Svg, x: f64, rows: usize, label: &str) {
    svg.line((x, TOP - 4.0), (x, TOP + ROW * rows as f64), Mark { class: "grid", ..Mark::default() });
    svg.text((x, 11.0), Anchor::Middle, Mark { class: "axis", ..Mark::default() }, label);
}

fn name(svg: &mut Svg, row: &Row, left: f64, y: f64) {
    let class = if row.class == "weir" { "name strong" } else { "name" };
    let mark = Mark { class, tip: &row.title, who: Some(row.who) };
    svg.text((left - GAP, y + BASELINE), Anchor::End, mark, &shortened(&row.title, LABEL_CHARACTERS));
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

fn label_room<'a>(rows: impl Iterator<Item = &'a Row>) -> f64 {
    let longest = rows.map(|row| row.title.chars().count()).max().unwrap_or(0);
    longest.min(LABEL_CHARACTERS) as f64 * CHARACTER + 2.0 * GAP
}

fn text_width<'a>(texts: impl Iterator<Item = &'a str>) -> f64 {
    texts.map(|text| text.chars().count()).max().unwrap_or(0) as f64 * CHARACTER
}

/// Units of a drawing's width. It is shown about as wide, so that text has about its own size.
const WIDTH: f64 = 460.0;
/// Likewise of the overview, which has the page's whole width.
const OVERVIEW_WIDTH: f64 = 560.0;
/// Ratios beyond it, or below its inverse, stand at the edge: one contender that is lost would press all others together.
pub(super) const FARTHEST: f64 = 20.0;
/// Height of a chart over time.
const LINES_HEIGHT: f64 = 260.0;
/// Height of a row.
const ROW: f64 = 22.0;
/// Where text stands in a row.
const BASELINE: f64 = 15.0;
/// Room for the numbers of the axis.
const TOP: f64 = 22.0;
/// Between things.
const GAP: f64 = 7.0;
/// Width of a character of 11.5 units in the widest of the usual fonts.
const CHARACTER: f64 = 6.9;
/// A label of a row is cut to so many.
const LABEL_CHARACTERS: usize = 28;
/// A label that stands alone may take more.
const WIDE_LABEL: f64 = 200.0;
