//! The legend inside a chart: each mark of the chart once, with its meaning. It is above the drawing, so that
//! a chart in a file of its own is understood as well.

use super::chart::{CHARACTER, ChartRow};
use super::svg::{Anchor, Mark, Svg};

/// A sign and its meaning.
#[derive(Clone, Debug)]
pub(super) struct LegendEntry {
    sign: Sign,
    meaning: String,
}

/// A mark as a chart draws it; the text is the class that colours it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sign {
    /// A bar.
    Bar(&'static str),
    /// The paler part of a bar.
    Pale,
    /// From the least to the greatest round.
    Whisker,
    /// A line over time.
    Line(&'static str),
    /// The vertical line at the baseline.
    One,
    /// A dot of this radius.
    Dot(f64, &'static str),
    /// A mark of a variant.
    Shape(DotShape, &'static str),
    /// A vertical stroke.
    Stroke,
}

/// Shapes that distinguish the dots of variants, which have the same colour.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum DotShape {
    Disc,
    Triangle,
    Square,
    Diamond,
    Ring,
}

impl DotShape {
    /// The shape of the variant of this number. Variants past the third share the ring.
    pub(super) fn of_variant(number: usize) -> Self {
        [Self::Triangle, Self::Square, Self::Diamond].get(number).copied().unwrap_or(Self::Ring)
    }

    pub(super) fn draw(self, svg: &mut Svg, at: (f64, f64), class: &str, mark: Mark<'_>) {
        let dot = format!("dot {class}");
        let mark = Mark { class: &dot, ..mark };
        match self {
            Self::Disc => svg.circle(at, 3.4, mark),
            Self::Triangle => svg.polygon(at, &[(-4.2, 3.2), (0.0, -4.2), (4.2, 3.2)], mark),
            Self::Square => svg.polygon(at, &[(-3.2, -3.2), (3.2, -3.2), (3.2, 3.2), (-3.2, 3.2)], mark),
            Self::Diamond => svg.diamond(at, 4.4, mark),
            Self::Ring => svg.circle(at, 3.2, Mark { class: &format!("ring {class}"), ..mark }),
        }
    }
}

impl LegendEntry {
    pub(super) fn new(sign: Sign, meaning: impl Into<String>) -> Self {
        Self { sign, meaning: meaning.into() }
    }

    fn width(&self) -> f64 {
        SIGN_WIDTH + self.meaning.chars().count() as f64 * CHARACTER * LEGEND_SHARE + ENTRY_GAP
    }
}

/// One entry per colour of the rows.
pub(super) fn list_colour_entries<'r>(
    rows: impl Iterator<Item = &'r ChartRow> + Clone,
    sign: impl Fn(&'static str) -> Sign,
) -> Vec<LegendEntry> {
    let titled = |class: &str| rows.clone().find(|row| row.class == class).map(|row| row.title.as_str());
    let mut entries = Vec::new();
    if titled("weir").is_some() {
        entries.push(LegendEntry::new(sign("weir"), "Weir"));
    }
    if let Some(baseline) = titled("base") {
        entries.push(LegendEntry::new(sign("base"), format!("{baseline}, the baseline")));
    }
    if titled("direct").is_some() {
        entries.push(LegendEntry::new(sign("direct"), "origin alone"));
    }
    if titled("peer").is_some() {
        entries.push(LegendEntry::new(sign("peer"), "other gateways"));
    }
    entries
}

/// Draws the entries in as many rows as they need, and moves the following elements below them.
pub(super) fn draw(svg: &mut Svg, entries: &[LegendEntry]) {
    let (mut x, mut y) = (0.0, ROW_HEIGHT / 2.0);
    for entry in entries {
        if x > 0.0 && x + entry.width() - ENTRY_GAP > svg.width() {
            (x, y) = (0.0, y + ROW_HEIGHT);
        }
        sign(svg, entry.sign, x, y);
        let mark = Mark { class: "key", ..Mark::default() };
        svg.text((x + SIGN_WIDTH, y + 3.8), Anchor::Start, mark, &entry.meaning);
        x += entry.width();
    }
    if !entries.is_empty() {
        svg.shift(y + ROW_HEIGHT / 2.0 + BELOW);
    }
}

fn sign(svg: &mut Svg, sign: Sign, x: f64, y: f64) {
    let middle = x + SIGN_WIDTH / 2.0 - 3.0;
    let whisker = Mark { class: "whisker", ..Mark::default() };
    match sign {
        Sign::Bar(class) => {
            svg.bar((x, y - 4.5), (12.0, 9.0), Mark { class: &format!("swatch {class}"), ..Mark::default() });
        }
        Sign::Pale => {
            svg.bar((x, y - 4.5), (12.0, 9.0), Mark { class: "swatch direct pale", ..Mark::default() });
        }
        Sign::Whisker => {
            svg.line((x, y), (x + 12.0, y), whisker);
            svg.line((x, y - 3.0), (x, y + 3.0), whisker);
            svg.line((x + 12.0, y - 3.0), (x + 12.0, y + 3.0), whisker);
        }
        Sign::Line(class) => {
            let class = format!("line {class}");
            svg.line((x, y), (x + 12.0, y), Mark { class: &class, ..Mark::default() });
        }
        Sign::One => {
            svg.line((middle, y - 6.0), (middle, y + 6.0), Mark { class: "one", ..Mark::default() });
        }
        Sign::Dot(radius, class) => {
            let class = format!("dot {class}");
            svg.circle((middle, y), radius, Mark { class: &class, ..Mark::default() });
        }
        Sign::Shape(shape, class) => shape.draw(svg, (middle, y), class, Mark::default()),
        Sign::Stroke => {
            let mark = Mark { class: "stroke direct", ..Mark::default() };
            svg.line((middle, y - 4.5), (middle, y + 4.5), mark);
        }
    }
}

/// Width of a sign.
const SIGN_WIDTH: f64 = 18.0;
/// Gap between two entries.
const ENTRY_GAP: f64 = 10.0;
/// Height of a row of entries.
const ROW_HEIGHT: f64 = 16.0;
/// Gap between the legend and the drawing.
const BELOW: f64 = 6.0;
/// Size of the legend's letters relative to those of the rows.
const LEGEND_SHARE: f64 = 0.9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_do_not_fit_begin_a_row() {
        let entry = || LegendEntry::new(Sign::Bar("weir"), "ten letter");
        let rows = [(0, 0.0), (1, 22.0), (2, 22.0), (3, 38.0)];
        for (count, expected) in rows {
            let mut svg = Svg::new(180.0);
            draw(&mut svg, &vec![entry(); count]);
            let drawn = svg.finish(0.0, "chart");
            assert!(drawn.contains(&format!("viewBox=\"0 0 180 {expected:.0}\"")), "{count}: {drawn}");
        }
    }

    #[test]
    fn only_colours_that_are_drawn_are_explained() {
        let row = |title: &str, class| ChartRow { title: title.to_owned(), who: 0, class };
        let rows = [row("nginx", "base"), row("Weir", "weir"), row("Weir, ten plugins", "weir")];
        let entries = list_colour_entries(rows.iter(), Sign::Bar);
        let meanings: Vec<&str> = entries.iter().map(|entry| entry.meaning.as_str()).collect();
        assert_eq!(meanings, ["Weir", "nginx, the baseline"]);
    }

    #[test]
    fn variants_past_the_third_share_a_shape() {
        let shapes = [0, 2, 3, 9].map(DotShape::of_variant);
        assert_eq!(shapes, [DotShape::Triangle, DotShape::Diamond, DotShape::Ring, DotShape::Ring]);
    }
}
