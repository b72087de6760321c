//! The page's charts as files of their own, for use in other documents. They are taken from the page's
//! sections, so that both are the same drawing. It draws nothing.

use super::svg::escape;
use super::{CHART_STYLE, People, overview, scenario};
use crate::report::number;
use crate::report::table::wrapped;
use crate::result::RunReport;

/// Every chart of the page: a file name that says scenario and figure, and an SVG that holds its title, its
/// source and its own style, light or dark as its reader's system is.
pub fn charts(report: &RunReport) -> Vec<(String, String)> {
    let people = People::of(report);
    let source = format!("weir lab, Weir {}, {}", report.weir, number::moment(&report.started));
    let source = escape(&source);
    let mut charts = drawings("all", &overview::render_overview_section(report, &people), &source);
    for result in &report.scenarios {
        let section = scenario::render_scenario_section(report, result, &people, "");
        charts.extend(drawings(&result.scenario.name, &section, &source));
    }
    charts
}

fn drawings(of: &str, section: &str, source: &str) -> Vec<(String, String)> {
    let drawing = |figure: &str| {
        let caption = between(figure, "<b>", "</b>")?;
        let explanation = between(figure, "<span>", "</span>")?;
        let drawing = between(figure, "<svg ", "</svg>")?;
        let chart = standalone(drawing, explanation, source).unwrap_or_default();
        Some((format!("{}-{}.svg", make_safe_file_name(of), make_safe_file_name(caption)), chart))
    };
    section.split("<figure ").skip(1).filter_map(drawing).collect()
}

fn between<'t>(text: &'t str, begin: &str, end: &str) -> Option<&'t str> {
    let (_, behind) = text.split_once(begin)?;
    Some(behind.split_once(end)?.0)
}

/// `drawing` is an element of the page without its name and its end. On the page the caption is above it; in
/// a file of its own, title, explanation and source are inside, above the drawing at negative heights.
fn standalone(drawing: &str, explanation: &str, source: &str) -> Option<String> {
    let (attributes, body) = drawing.split_once('>')?;
    let label = between(attributes, "aria-label=\"", "\"")?;
    let size = between(attributes, "viewBox=\"0 0 ", "\"")?;
    let (width, height): (f64, f64) =
        size.split_once(' ').and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)))?;
    let lines = |text: &str, most: usize, class: &'static str| -> Vec<(String, &'static str)> {
        wrapped(text, most, 0).lines().map(|line| (line.to_owned(), class)).collect()
    };
    let heading = [
        lines(label, TITLE_CHARACTERS, "title"),
        lines(explanation, TEXT_CHARACTERS, "axis"),
        lines(source, TEXT_CHARACTERS, "axis"),
    ]
    .concat();
    let above = heading.len() as f64 * LINE + MARGIN;
    let texts: String = heading
        .iter()
        .enumerate()
        .map(|(index, (line, class))| {
            let y = (index + 1) as f64 * LINE - above;
            format!("<text x=\"0\" y=\"{y:.0}\" class=\"{class}\">{line}</text>")
        })
        .collect();
    let (left, top) = (-MARGIN, -above - MARGIN / 2.0);
    let (whole_width, whole_height) = (width + 2.0 * MARGIN, height + above + 1.5 * MARGIN);
    Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{left} {top} {whole_width} {whole_height}\" width=\"{:.0}\" height=\"{:.0}\" role=\"img\" aria-label=\"{label}\"><style>{CHART_STYLE}svg {{ background: var(--card); }}</style>{texts}{body}</svg>\n",
        whole_width * SHOWN_SCALE,
        whole_height * SHOWN_SCALE,
    ))
}

/// Most characters in a line of the title.
const TITLE_CHARACTERS: usize = 50;
/// Most characters in a line of smaller text.
const TEXT_CHARACTERS: usize = 66;
/// Height of a line of the heading.
const LINE: f64 = 16.0;
/// Margin around the drawing.
const MARGIN: f64 = 10.0;
/// Default scale of a chart in a file of its own.
const SHOWN_SCALE: f64 = 1.4;

/// A safe file name, because a report from elsewhere may have any text as the name of a scenario.
pub(super) fn make_safe_file_name(name: &str) -> String {
    let kept = |character: char| {
        if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '-' }
    };
    name.chars().map(kept).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::report::{html, sample};

    #[test]
    fn every_chart_of_the_page_is_a_file() {
        let report = sample::report();
        let charts = charts(&report);
        let names: BTreeSet<&str> = charts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.len(), charts.len(), "every name once");
        assert_eq!(charts.len(), html::render_html_page(&report).matches("<svg").count());
        for name in ["all-cpu-per-request.svg", "small-requests-per-second.svg", "small-loss-in-percent.svg"]
        {
            assert!(names.contains(name), "{name}: {names:?}");
        }
        for (name, chart) in &charts {
            assert!(chart.starts_with("<svg xmlns=") && chart.ends_with("</svg>\n"), "{name}");
            assert!(chart.contains("viewBox=") && chart.contains(".bar.weir"), "{name}");
            let says = |text: &str| chart.contains(text);
            assert!(says("class=\"title\"") && says("22 November 2026") && says("class=\"key\""), "{name}");
            assert!(!chart.contains("<script") && !chart.contains("&nbsp;"), "{name}");
        }
    }

    #[test]
    fn no_scenario_names_a_file_elsewhere() {
        let mut report = sample::small(1, 3, 1.0);
        report.scenarios[0].scenario.name = "../../etc/x".to_owned();
        let charts = charts(&report);
        assert!(!charts.is_empty());
        assert!(charts.iter().all(|(name, _)| !name.contains('/') && !name.contains("..")), "{charts:?}");
    }
}
