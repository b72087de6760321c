//! A run as one page that needs no network and no other file. Charts are drawn here, as SVG; the script on
//! the page only points, sorts, folds and copies. Texts of files and programs are escaped wherever they are
//! written.

#[cfg(test)]
mod browser;
mod chart;
mod charts;
mod dots;
mod facts;
mod faults;
mod legend;
mod lines;
mod notes;
mod overview;
mod scale;
mod scenario;
mod study;
mod subject;
mod svg;

pub use charts::charts;
use svg::escape;

use super::group::{ScenarioGroup, groups};
use super::headline;
use super::number;
use super::statistics::{CONFIDENCE_PERCENT, LEAST_EFFECT};
use super::summary;
use super::table::{TextTable, Tone};
use crate::result::RunReport;

/// The whole page.
pub fn render_html_page(report: &RunReport) -> String {
    let people = People::of(report);
    let title = format!("Weir {} beside others", report.weir);
    let anchors = anchors(report);
    let (mut index, mut scenarios) = (String::new(), String::new());
    for (group, members) in groups(report) {
        index += &index_entries(report, group, &members, &anchors);
        scenarios += &format!("<h2 class=\"group\">{}</h2>", group.title());
        for member in members {
            scenarios += &scenario::render_scenario_section(
                report,
                &report.scenarios[member],
                &people,
                &anchors[member],
            );
        }
    }
    let sentences: String = headline::sentences(report)
        .iter()
        .map(|sentence| format!("<p class=\"lead\">{}</p>", escape(sentence)))
        .collect();
    format!(
        r##"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'nonce-{NONCE}'; script-src 'nonce-{NONCE}'; img-src data:; base-uri 'none'; form-action 'none'">
<link rel="icon" href="data:,">
<title>{title}</title>
<style nonce="{NONCE}">{CHART_STYLE}{STYLE}</style>
</head>
<body>
<header class="top"><a href="#top">Weir lab</a><span class="grow"></span>
<button type="button" id="data" aria-pressed="false">All data</button>
<button type="button" id="theme" title="Light, dark, or as the system is">Theme: system</button></header>
<main id="top">
<h1>{title}</h1>
<p class="meta">{when}, {length}, {count} scenarios: {contenders}</p>
{sentences}
{warnings}
{overview}
{faults}
<nav id="scenarios" aria-label="Scenarios"><h2>Scenarios</h2><div class="index">{index}</div></nav>
{scenarios}
{facts}
</main>
<div id="tip" role="status"></div>
<script nonce="{NONCE}">{SCRIPT}</script>
</body>
</html>
"##,
        title = escape(&title),
        when = escape(&number::moment(&report.started)),
        length = number::duration(report.seconds),
        count = report.scenarios.len(),
        contenders = facts::contenders_line(report),
        warnings = facts::warnings(report),
        overview = overview::render_overview_section(report, &people),
        faults = faults::render_faults_section(report),
        facts = facts::render_facts_section(report),
    )
}

fn index_entries(report: &RunReport, group: ScenarioGroup, members: &[usize], anchors: &[String]) -> String {
    let entry = |member: &usize| {
        let asked = &report.scenarios[*member].scenario;
        let (name, title) = (escape(&asked.name), escape(&asked.title));
        format!(r##"<li><a href="#{}">{title}</a> <code>{name}</code></li>"##, anchors[*member])
    };
    let entries: String = members.iter().map(entry).collect();
    format!("<div><h3>{}</h3><ul>{entries}</ul></div>", group.title())
}

/// The anchor of every scenario: its name, so that a link to a scenario finds it in another run's page as
/// well. A name that the page uses itself, or a repeated name, gets a number.
fn anchors(report: &RunReport) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for result in &report.scenarios {
        let slug = charts::make_safe_file_name(&result.scenario.name);
        let slug = slug.trim_matches('-');
        let slug = if slug.is_empty() { "scenario" } else { slug };
        let is_taken = |anchor: &String| OWN_ANCHORS.contains(&anchor.as_str()) || anchors.contains(anchor);
        let numbered = (2..).map(|number| format!("{slug}-{number}"));
        let free = std::iter::once(slug.to_owned()).chain(numbered).find(|anchor| !is_taken(anchor));
        anchors.extend(free);
    }
    anchors
}

/// Anchors of the page that are not scenarios.
const OWN_ANCHORS: [&str; 7] = ["top", "scenarios", "faults", "facts", "data", "theme", "tip"];

/// The contenders on the page: each has a number, a title and a colour, the same everywhere.
struct People<'a> {
    names: Vec<(&'a str, &'a str)>,
}

impl<'a> People<'a> {
    fn of(report: &'a RunReport) -> Self {
        let mut names: Vec<(&str, &str)> = report
            .contenders
            .iter()
            .map(|facts| (facts.definition.name.as_str(), facts.definition.title.as_str()))
            .collect();
        // A report written by hand may measure a contender that its list lacks.
        for contender in report.scenarios.iter().flat_map(|result| &result.contenders) {
            if !names.iter().any(|(name, _)| *name == contender.name) {
                names.push((&contender.name, &contender.name));
            }
        }
        Self { names }
    }

    /// The number of a variant of the subject among its variants.
    fn variant(&self, name: &str) -> Option<usize> {
        let is_variant = |name: &str| name.starts_with(headline::SUBJECT) && name != headline::SUBJECT;
        let mut variants = self.names.iter().map(|(known, _)| *known).filter(|known| is_variant(known));
        variants.position(|known| known == name)
    }

    fn row(&self, name: &str, baseline: Option<&str>) -> chart::ChartRow {
        let who = self.names.iter().position(|(known, _)| *known == name).unwrap_or(self.names.len());
        let title = self.names.get(who).map_or(name, |(_, title)| title);
        let class = match name {
            summary::DIRECT => "direct",
            _ if name.starts_with(headline::SUBJECT) => "weir",
            _ if Some(name) == baseline => "base",
            _ => "peer",
        };
        chart::ChartRow { title: title.to_owned(), who, class }
    }
}

/// A drawing with its caption, its numbers and the command that makes them again.
fn figure(
    kind: &str,
    caption: &str,
    explanation: &str,
    drawing: &str,
    table: &TextTable,
    command: &str,
) -> String {
    format!(
        r#"<figure class="{kind}"><figcaption><b>{caption}</b> <span>{explanation}</span></figcaption><div class="drawing">{drawing}</div><details><summary>Data</summary>{table}{command}</details></figure>"#,
        caption = escape(caption),
        explanation = escape(explanation),
        table = html_table(table),
        command = command_line(command),
    )
}

fn command_line(command: &str) -> String {
    format!(
        r#"<p class="command"><code>{}</code><button type="button" class="copy">Copy</button></p>"#,
        escape(command)
    )
}

fn html_table(table: &TextTable) -> String {
    let headings: String = table
        .columns
        .iter()
        .map(|column| {
            let class = if column.numeric { r#" class="n""# } else { "" };
            format!(
                r#"<th scope="col"{class}><button type="button">{}</button></th>"#,
                escape(&column.heading)
            )
        })
        .collect();
    let mut rows = String::new();
    for row in &table.rows {
        rows += "<tr>";
        for (cell, column) in row.iter().zip(&table.columns) {
            let tone = match cell.tone {
                Tone::Good => " good",
                Tone::Bad => " bad",
                Tone::Noted => " noted",
                Tone::Usual | Tone::Faint => "",
            };
            let class = format!("{}{tone}", if column.numeric { "n" } else { "" });
            let number = cell.number.map_or_else(String::new, |number| format!(r#" data-n="{number}""#));
            rows += &format!(r#"<td class="{class}"{number}>{}</td>"#, escape(&cell.text));
        }
        rows += "</tr>";
    }
    format!(
        r#"<div class="scroll" tabindex="0" role="region" aria-label="Table"><table><thead><tr>{headings}</tr></thead><tbody>{rows}</tbody></table></div>"#
    )
}

/// The rule by which ratios are judged, for captions.
fn rule() -> String {
    format!(
        "{CONFIDENCE_PERCENT:.0} % interval of the rounds' ratios; under {:.0} % is called noise",
        LEAST_EFFECT * 100.0
    )
}

/// Scripts and styles without this nonce do not run, so that a program's version stays text even if escaping
/// failed.
const NONCE: &str = "weir-laboratory";
/// The style of charts, also outside of the page.
const CHART_STYLE: &str = include_str!("html/chart.css");
const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn text_of_files_and_programs_is_escaped() {
        let page = render_html_page(&sample::report());
        assert_eq!(page.matches("<script").count(), 1, "the page's own");
        assert!(
            !page.contains("<img") && !page.contains("<b>b</b>") && page.contains("&lt;script&gt;alert(1)")
        );
        assert!(page.contains("The clock is virtual &amp; &lt;odd&gt;."));
    }

    #[test]
    fn page_makes_no_request() {
        let page = render_html_page(&sample::report());
        for outside in ["http://", "https://", "url(", "@import", "fetch(", "XMLHttpRequest"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    /// Writes a page to look at: `LOOK=FILE cargo test -p lab a_page_to_look_at`.
    #[test]
    fn a_page_to_look_at() {
        let page = render_html_page(&sample::report());
        if let Some(file) = std::env::var_os("LOOK") {
            std::fs::write(file, &page).unwrap();
        }
        assert!(page.len() < 4_000_000, "{} bytes", page.len());
    }

    #[test]
    fn only_the_subject_is_drawn_large_and_labelled() {
        let mut report = sample::small(1, 5, 1.0);
        let large = |report: &RunReport| {
            overview::render_overview_section(report, &People::of(report)).matches("r=\"5.2\"").count()
        };
        assert_eq!(large(&report), 4, "mark and legend in the charts of CPU and of requests per second");
        report.scenarios[0].contenders.retain(|contender| contender.name != headline::SUBJECT);
        assert_eq!(large(&report), 0);
    }

    #[test]
    fn anchors_are_the_names_of_scenarios() {
        let mut report = sample::report();
        assert_eq!(anchors(&report)[..3], ["small", "ab-10000", "ab-page"]);
        report.scenarios.truncate(4);
        for (result, name) in report.scenarios.iter_mut().zip(["a b", "a-b", "top", "<\"'>"]) {
            result.scenario.name = name.to_owned();
        }
        assert_eq!(anchors(&report), ["a-b", "a-b-2", "top-2", "scenario"]);
        let page = render_html_page(&report);
        assert!(page.contains("<section id=\"a-b-2\">") && page.contains("href=\"#a-b-2\""));
    }

    #[test]
    fn scenarios_stand_below_their_group() {
        let page = render_html_page(&sample::report());
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}"));
        assert!(at("<h2 class=\"group\">TLS</h2>") < at("<section id=\"tls\">"));
        assert!(at("<section id=\"tls\">") < at("<section id=\"http2\">"));
        assert_eq!(page.matches("href=\"#scenarios\"").count(), 20, "each scenario has a way back");
        assert!(page.contains("22 November 2026, 04:51 UTC") && !page.contains("T04:51"));
    }

    #[test]
    fn an_empty_run_is_a_page_too() {
        let mut report = sample::small(1, 3, 1.0);
        report.scenarios[0].contenders.iter_mut().for_each(|contender| contender.runs.clear());
        assert!(render_html_page(&report).contains("Nothing was measured."));
        report.scenarios.clear();
        report.contenders.clear();
        assert!(render_html_page(&report).contains("0 scenarios"));
    }

    #[test]
    fn every_chart_has_its_numbers_and_its_command() {
        let page = render_html_page(&sample::report());
        let figures = page.matches("<figure").count();
        assert!(figures > 100, "{figures}");
        assert_eq!(page.matches("<svg").count(), figures);
        assert_eq!(page.matches("<details><summary>Data</summary><div class=\"scroll\" ").count(), figures);
        assert_eq!(
            page.matches("class=\"copy\"").count(),
            figures + 20 + 1,
            "one more for each scenario and the run"
        );
    }
}
