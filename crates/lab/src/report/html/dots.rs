//! The chart of the overview: one row per scenario, one mark per contender, at its ratio to the baseline.
//! Rows are below the heading of their group.

use super::chart::{CHARACTER, ChartRow, GAP, TOP, WIDTH, grid, text_width};
use super::legend::{self, DotShape, LegendEntry};
use super::scale::LogScale;
use super::svg::{Anchor, Mark, Svg, shorten_middle};
use crate::report::number;

/// One scenario.
pub(super) struct DotRow {
    /// The heading above this row, if it is the first of a group.
    pub(super) heading: Option<&'static str>,
    /// The scenario's name.
    pub(super) name: String,
    /// Text at the pointer.
    pub(super) tip: String,
    /// The marks, topmost last.
    pub(super) dots: Vec<Dot>,
    /// The reason below the row, if the subject of the chart has no mark.
    pub(super) note: Option<String>,
}

/// The mark of one contender.
pub(super) struct Dot {
    pub(super) row: ChartRow,
    pub(super) ratio: f64,
    pub(super) tip: String,
    pub(super) shape: DotShape,
    /// Whether the chart is about this one: its mark is larger, and its number is at the right.
    pub(super) is_subject: bool,
}

/// Draws the rows. Ratios beyond [`FARTHEST`] are drawn at the edge.
pub(super) fn dots(rows: &[DotRow], entries: &[LegendEntry], label: &str) -> String {
    let left = text_width(rows.iter().map(|line| line.name.as_str())).min(NAME_WIDTH) + GAP;
    let all =
        || rows.iter().flat_map(|line| line.dots.iter().map(|dot| dot.ratio)).filter(|ratio| *ratio > 0.0);
    let least = all().fold(0.8, f64::min).max(1.0 / FARTHEST);
    let greatest = all().fold(1.25, f64::max).min(FARTHEST);
    let axis = LogScale::new(least * 0.9, greatest * 1.1, left + GAP, WIDTH - VALUE_WIDTH);
    let mut svg = Svg::new(WIDTH);
    legend::draw(&mut svg, entries);
    let heights = rows.iter().map(height);
    let bottom = TOP + heights.sum::<f64>();
    for tick in axis.ticks() {
        grid(&mut svg, axis.at(tick), bottom, &format!("{}×", number::axis(tick)));
    }
    let one = axis.at(1.0);
    svg.line((one, TOP - 4.0), (one, bottom), Mark { class: "one", ..Mark::default() });
    let subject = rows.iter().flat_map(|line| &line.dots).find(|dot| dot.is_subject);
    if let Some(subject) = subject {
        let mark = Mark { class: "axis", ..Mark::default() };
        svg.text((WIDTH - 1.0, 11.0), Anchor::End, mark, &subject.row.title);
    }
    let mut y = TOP;
    for line in rows {
        row(&mut svg, line, (left, y), &axis);
        y += height(line);
    }
    svg.finish(bottom + GAP, label)
}

fn row(svg: &mut Svg, line: &DotRow, (left, top): (f64, f64), axis: &LogScale) {
    let mut y = top;
    if let Some(heading) = line.heading {
        let mark = Mark { class: "group", ..Mark::default() };
        svg.text((0.0, y + HEADING - 6.0), Anchor::Start, mark, heading);
        y += HEADING;
    }
    let most = (NAME_WIDTH / CHARACTER) as usize;
    let mark = Mark { class: "name", tip: &line.tip, who: None };
    svg.text((left, y + BASELINE), Anchor::End, mark, &shorten_middle(&line.name, most));
    for dot in &line.dots {
        let at = (axis.at(dot.ratio), y + ROW / 2.0);
        let mark = Mark { tip: &dot.tip, who: Some(dot.row.who), class: "" };
        if dot.is_subject {
            let class = format!("dot {}", dot.row.class);
            svg.circle(at, SUBJECT_RADIUS, Mark { class: &class, ..mark });
            let mark = Mark { class: "value", tip: "", who: Some(dot.row.who) };
            svg.text((WIDTH - 1.0, y + BASELINE), Anchor::End, mark, &number::format_ratio(dot.ratio));
        } else {
            dot.shape.draw(svg, at, dot.row.class, mark);
        }
    }
    if let Some(note) = &line.note {
        let mark = Mark { class: "note", tip: note, who: None };
        let most = ((WIDTH - left) / CHARACTER) as usize;
        svg.text((WIDTH - 1.0, y + ROW + NOTE - 5.0), Anchor::End, mark, &shorten_middle(note, most));
    }
}

fn height(line: &DotRow) -> f64 {
    let heading = if line.heading.is_some() { HEADING } else { 0.0 };
    let note = if line.note.is_some() { NOTE } else { 0.0 };
    heading + ROW + note
}

/// Ratios beyond it, or below its inverse, are drawn at the edge, because one far contender would press all
/// others together.
pub(super) const FARTHEST: f64 = 20.0;
/// Radius of the subject's mark.
pub(super) const SUBJECT_RADIUS: f64 = 5.2;
/// Height of a row, less than in other charts because there are many.
const ROW: f64 = 18.0;
/// Vertical position of text in a row.
const BASELINE: f64 = 13.0;
/// Height of a group's heading.
const HEADING: f64 = 24.0;
/// Height of a note below a row.
const NOTE: f64 = 14.0;
/// Largest width of scenario names.
const NAME_WIDTH: f64 = 152.0;
/// Width of the subject's number.
const VALUE_WIDTH: f64 = 46.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::html::legend::Sign;

    fn line(name: &str, note: Option<&str>) -> DotRow {
        let row = ChartRow { title: "Weir".to_owned(), who: 1, class: "weir" };
        let dot =
            Dot { row, ratio: 0.5, tip: "t".to_owned(), shape: DotShape::Disc, is_subject: note.is_none() };
        let (name, tip, note) = (name.to_owned(), String::new(), note.map(str::to_owned));
        DotRow { heading: Some("Group"), name, tip, dots: vec![dot], note }
    }

    #[test]
    fn row_without_subject_has_its_note() {
        let rows = [line("a", None), line("b", Some("Weir has no TLS"))];
        let entries = [LegendEntry::new(Sign::One, "1×: nginx")];
        let drawn = dots(&rows, &entries, "chart");
        assert_eq!(drawn.matches("Weir has no TLS</text>").count(), 1);
        assert_eq!(drawn.matches(">Group</text>").count(), 2);
        assert_eq!(drawn.matches("r=\"5.2\"").count(), 1, "only where the subject was measured");
        assert!(drawn.contains("1×: nginx"));
    }
}
