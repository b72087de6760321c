//! Drawing: elements of SVG with classes, so that the page's style decides their appearance. It knows no
//! figures. Every text is escaped here. A mark's tip is its `<title>`, which a browser shows without a
//! script, also in a file of its own.

use std::fmt::Write;

/// A drawing under construction.
pub(super) struct Svg {
    width: f64,
    /// Added to every vertical position: the height of the legend above the drawing.
    above: f64,
    body: String,
}

/// The tip and the contender of a mark.
#[derive(Clone, Copy, Default)]
pub(super) struct Mark<'a> {
    /// Class names.
    pub(super) class: &'a str,
    /// Text at the pointer; none if empty.
    pub(super) tip: &'a str,
    /// The contender, so that all its marks are highlighted together.
    pub(super) who: Option<usize>,
}

/// Where a text is anchored.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Escapes text for HTML, attributes and SVG. Control characters, which XML does not allow, are removed.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            '\n' | '\t' => out.push(character),
            _ if character.is_control() => {}
            _ => out.push(character),
        }
    }
    out
}

/// Cut to `most` characters, with a mark at the cut, which is in the middle because variants of one name
/// differ at its end.
pub(super) fn shorten_middle(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    let head = most / 2;
    let tail = most.saturating_sub(head + 1);
    text.chars().take(head).chain(['…']).chain(text.chars().skip(length - tail)).collect()
}

impl Svg {
    pub(super) fn new(width: f64) -> Self {
        Self { width, above: 0.0, body: String::new() }
    }

    pub(super) fn width(&self) -> f64 {
        self.width
    }

    /// Moves all later elements down by `down`.
    pub(super) fn shift(&mut self, down: f64) {
        self.above += down;
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), mark: Mark<'_>) {
        let ((x1, y1), (x2, y2)) = ((from.0, from.1 + self.above), (to.0, to.1 + self.above));
        self.element("line", &format!(r#"x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}""#), mark);
    }

    pub(super) fn bar(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), mark: Mark<'_>) {
        let (y, width) = (y + self.above, width.max(LEAST_BAR));
        self.element(
            "rect",
            &format!(r#"x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}""#),
            mark,
        );
    }

    pub(super) fn circle(&mut self, (x, y): (f64, f64), radius: f64, mark: Mark<'_>) {
        let y = y + self.above;
        self.element("circle", &format!(r#"cx="{x:.1}" cy="{y:.1}" r="{radius}""#), mark);
    }

    /// A line through all points.
    pub(super) fn path(&mut self, points: &[(f64, f64)], mark: Mark<'_>) {
        let mut steps = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let y = y + self.above;
            let _ = write!(steps, "{}{x:.1} {y:.1}", if index == 0 { "M" } else { "L" });
        }
        self.element("path", &format!(r#"d="{steps}""#), mark);
    }

    /// A closed figure through these points, given as distances from its centre.
    pub(super) fn polygon(&mut self, (x, y): (f64, f64), corners: &[(f64, f64)], mark: Mark<'_>) {
        let mut steps = String::new();
        for (index, (right, down)) in corners.iter().enumerate() {
            let (x, y) = (x + right, y + down + self.above);
            let _ = write!(steps, "{}{x:.1} {y:.1}", if index == 0 { "M" } else { "L" });
        }
        self.element("path", &format!(r#"d="{steps}Z""#), mark);
    }

    /// A square on its point.
    pub(super) fn diamond(&mut self, at: (f64, f64), radius: f64, mark: Mark<'_>) {
        self.polygon(at, &[(-radius, 0.0), (0.0, -radius), (radius, 0.0), (0.0, radius)], mark);
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, mark: Mark<'_>, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let y = y + self.above;
        let attributes = format!(r#"x="{x:.1}" y="{y:.1}" text-anchor="{anchor}""#);
        self.open("text", &attributes, mark);
        let _ = write!(self.body, ">{}{}</text>", title(mark), escape(text));
    }

    /// Completes the drawing with this height below its legend; `label` describes it for screen readers.
    pub(super) fn finish(self, height: f64, label: &str) -> String {
        let Self { width, above, body } = self;
        let (height, label) = (height + above, escape(label));
        format!(r#"<svg viewBox="0 0 {width:.0} {height:.0}" role="img" aria-label="{label}">{body}</svg>"#)
    }

    fn element(&mut self, name: &str, attributes: &str, mark: Mark<'_>) {
        self.open(name, attributes, mark);
        match mark.tip {
            "" => self.body += "/>",
            _ => _ = write!(self.body, ">{}</{name}>", title(mark)),
        }
    }

    fn open(&mut self, name: &str, attributes: &str, mark: Mark<'_>) {
        let _ = write!(self.body, "<{name} {attributes}");
        if !mark.class.is_empty() {
            let _ = write!(self.body, r#" class="{}""#, mark.class);
        }
        if let Some(who) = mark.who {
            let _ = write!(self.body, r#" data-who="{who}""#);
        }
    }
}

fn title(mark: Mark<'_>) -> String {
    if mark.tip.is_empty() { String::new() } else { format!("<title>{}</title>", escape(mark.tip)) }
}

/// A smaller bar could not be seen or pointed at.
const LEAST_BAR: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        assert_eq!(escape("<a b='\"'>&\u{1b}\n"), "&lt;a b=&#39;&quot;&#39;&gt;&amp;\n");
        let mut svg = Svg::new(10.0);
        let mark = Mark { class: "name", tip: "\"><script>", who: Some(3) };
        svg.text((1.0, 2.0), Anchor::End, mark, "<script>");
        let drawn = svg.finish(10.0, "a \"chart\"");
        assert!(!drawn.contains("<script>") && drawn.contains("&lt;script&gt;</text>"), "{drawn}");
        assert!(drawn.contains(r#"data-who="3"><title>&quot;&gt;&lt;script&gt;</title>"#), "{drawn}");
    }

    #[test]
    fn a_legend_moves_the_drawing_down() {
        let mut svg = Svg::new(10.0);
        svg.shift(20.0);
        svg.circle((1.0, 2.0), 3.0, Mark::default());
        let drawn = svg.finish(10.0, "chart");
        assert!(drawn.contains(r#"cy="22.0""#) && drawn.contains(r#"viewBox="0 0 10 30""#), "{drawn}");
    }

    #[test]
    fn long_names_are_cut_with_a_mark() {
        for (most, expected) in [(8, "weir-ten"), (7, "wei…ten"), (6, "wei…en"), (1, "…")] {
            assert_eq!(shorten_middle("weir-ten", most), expected, "{most}");
        }
    }
}
