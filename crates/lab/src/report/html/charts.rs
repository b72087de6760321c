//! The page's charts as files of their own, for whoever shows them elsewhere. They are taken from the page's sections, so
//! that both are the same drawing. It draws nothing.

use super::{CHART_STYLE, People, overview, scenario};
use crate::result::Report;

/// Every chart of the page: a file name that says scenario and figure, and an SVG that holds its own style, light or dark
/// as its reader's system is.
pub fn charts(report: &Report) -> Vec<(String, String)> {
    let people = People::of(report);
    let mut charts = drawings("all", &overview::section(report, &people));
    for (index, result) in report.scenarios.iter().enumerate() {
        let section = scenario::section(report, result, &people, index);
        charts.extend(drawings(&result.scenario.name, &section));
    }
    charts
}

fn drawings(of: &str, section: &str) -> Vec<(String, String)> {
    let drawing = |figure: &str| {
        let caption = between(figure, "<b>", "</b>")?;
        let drawing = between(figure, "<svg ", "</svg>")?;
        Some((format!("{}-{}.svg", plain(of), plain(caption)), standalone(drawing)))
    };
    section.split("<figure ").skip(1).filter_map(drawing).collect()
}

fn between<'t>(text: &'t str, begin: &str, end: &str) -> Option<&'t str> {
    let (_, behind) = text.split_once(begin)?;
    Some(behind.split_once(end)?.0)
}

/// `drawing` is an element without its name and its end.
fn standalone(drawing: &str) -> String {
    let (attributes, body) = drawing.split_once('>').unwrap_or((drawing, ""));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" {attributes}><style>{CHART_STYLE}svg {{ background: var(--card); }}</style>{body}</svg>\n"
    )
}

/// What is a file name everywhere: a report from elsewhere may call a scenario anything.
fn plain(name: &str) -> String {
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
        assert_eq!(charts.len(), html::page(&report).matches("<svg").count());
        for name in ["all-cpu-per-request.svg", "small-requests-per-second.svg", "small-loss-in-percent.svg"]
        {
            assert!(names.contains(name), "{name}: {names:?}");
        }
        for (name, chart) in &charts {
            assert!(chart.starts_with("<svg xmlns=") && chart.ends_with("</svg>\n"), "{name}");
            assert!(chart.contains("viewBox=") && chart.contains(".bar.weir"), "{name}");
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
