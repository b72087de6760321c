//! A chart of lines over time. It takes numbers with names.

use super::chart::{CHARACTER, ChartRow, GAP, TOP, WIDTH, text_width};
use super::legend::{self, Sign};
use super::scale::Linear;
use super::svg::{Anchor, Mark, Svg, shorten_middle};
use crate::report::number;

/// One line.
pub(super) struct LineSeries {
    pub(super) row: ChartRow,
    pub(super) values: Vec<f64>,
}

/// Draws lines over time. Those that are not peers are named at their end.
pub(super) fn draw_lines(series: &[LineSeries], interval_s: f64, label: &str) -> String {
    let named = |one: &&LineSeries| one.row.class != "peer";
    let right = WIDTH
        - text_width(series.iter().filter(named).map(|one| one.row.title.as_str())).min(NAME_WIDTH)
        - GAP;
    let greatest = series.iter().flat_map(|one| one.values.iter().copied()).fold(0.0, f64::max);
    let (top, bottom) = (TOP, HEIGHT - 22.0);
    let (up, longest) =
        (Linear::new(greatest * 1.05, bottom, top), series.iter().map(|one| one.values.len()).max());
    let left = text_width(
        up.ticks()
            .iter()
            .map(|tick| number::format_number(*tick))
            .collect::<Vec<_>>()
            .iter()
            .map(String::as_str),
    ) + GAP;
    let along = Linear::new((longest.unwrap_or(1).max(2) - 1) as f64 * interval_s, left, right);
    let mut svg = Svg::new(WIDTH);
    legend::draw(&mut svg, &legend::list_colour_entries(series.iter().map(|one| &one.row), Sign::Line));
    let axis = Mark { class: "axis", ..Mark::default() };
    for tick in up.ticks() {
        svg.line((left, up.at(tick)), (right, up.at(tick)), Mark { class: "grid", ..Mark::default() });
        svg.text((left - 6.0, up.at(tick) + 4.0), Anchor::End, axis, &number::format_number(tick));
    }
    for tick in along.ticks() {
        svg.text((along.at(tick), HEIGHT - 6.0), Anchor::Middle, axis, &format!("{} s", number::axis(tick)));
    }
    let mut ends: Vec<(f64, &LineSeries)> = Vec::new();
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
            &shorten_middle(&one.row.title, (NAME_WIDTH / CHARACTER) as usize),
        );
        free = y + 14.0;
    }
    svg.finish(HEIGHT, label)
}

/// Height of the chart.
const HEIGHT: f64 = 240.0;
/// Largest width of the names at the ends of lines.
const NAME_WIDTH: f64 = 130.0;
