//! A run as one page that needs nothing but itself: no network, no file beside it. Charts are drawn here, as SVG; the
//! script on the page only points, sorts, folds and copies. What comes from files and programs is escaped wherever it
//! is written.

#[cfg(test)]
mod browser;
mod chart;
mod charts;
mod facts;
mod overview;
mod scale;
mod scenario;
mod study;
mod svg;

pub use charts::charts;
use svg::escape;

use super::headline;
use super::number;
use super::statistics::{CONFIDENCE_PERCENT, LEAST_EFFECT};
use super::summary;
use super::table::{Table, Tone};
use crate::result::{Report, ScenarioResult};

/// The whole page.
pub fn page(report: &Report) -> String {
    let people = People::of(report);
    let title = format!("Weir {} beside others", report.weir);
    let scenarios: String = report
        .scenarios
        .iter()
        .enumerate()
        .map(|(index, result)| scenario::section(report, result, &people, index))
        .collect();
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
<p class="meta">{when}, {length}, {count} scenarios, {contenders} contenders</p>
{sentences}
{warnings}
{overview}
<nav aria-label="Scenarios"><h2>Scenarios</h2><ol>{index}</ol></nav>
{scenarios}
{facts}
</main>
<div id="tip" role="status"></div>
<script nonce="{NONCE}">{SCRIPT}</script>
</body>
</html>
"##,
        title = escape(&title),
        when = escape(&report.started),
        length = number::duration(report.seconds),
        count = report.scenarios.len(),
        contenders = report.contenders.len(),
        warnings = facts::warnings(report),
        overview = overview::section(report, &people),
        index = report.scenarios.iter().enumerate().map(index_entry).collect::<String>(),
        facts = facts::section(report),
    )
}

fn index_entry((index, result): (usize, &ScenarioResult)) -> String {
    let (name, title) = (escape(&result.scenario.name), escape(&result.scenario.title));
    format!(r##"<li><a href="#s{index}">{name}</a> <span>{title}</span></li>"##)
}

/// Who is on the page: each has a number, a title and a colour, the same everywhere.
struct People<'a> {
    names: Vec<(&'a str, &'a str)>,
}

impl<'a> People<'a> {
    fn of(report: &'a Report) -> Self {
        let mut names: Vec<(&str, &str)> = report
            .contenders
            .iter()
            .map(|facts| (facts.definition.name.as_str(), facts.definition.title.as_str()))
            .collect();
        // A report written by hand may measure somebody whom its list of contenders lacks.
        for contender in report.scenarios.iter().flat_map(|result| &result.contenders) {
            if !names.iter().any(|(name, _)| *name == contender.name) {
                names.push((&contender.name, &contender.name));
            }
        }
        Self { names }
    }

    fn row(&self, name: &str, baseline: Option<&str>) -> chart::Row {
        let who = self.names.iter().position(|(known, _)| *known == name).unwrap_or(self.names.len());
        let title = self.names.get(who).map_or(name, |(_, title)| title);
        let class = match name {
            summary::DIRECT => "direct",
            _ if name.starts_with(headline::SUBJECT) => "weir",
            _ if Some(name) == baseline => "base",
            _ => "peer",
        };
        chart::Row { title: title.to_owned(), who, class }
    }
}

/// A drawing with its caption, its numbers and the command that makes them again.
fn figure(
    kind: &str,
    caption: &str,
    explanation: &str,
    drawing: &str,
    table: &Table,
    command: &str,
) -> String {
    format!(
        r#"<figure class="{kind}"><figcaption><b>{caption}</b> <span>{explanation}</span></figcaption>{drawing}<details><summary>Data</summary>{table}{command}</details></figure>"#,
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

fn html_table(table: &Table) -> String {
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
        r#"<div class="scroll"><table><thead><tr>{headings}</tr></thead><tbody>{rows}</tbody></table></div>"#
    )
}

/// How ratios are judged, for captions.
fn rule() -> String {
    format!(
        "{CONFIDENCE_PERCENT:.0} % interval of the rounds' ratios; under {:.0} % is called noise",
        LEAST_EFFECT * 100.0
    )
}

/// Scripts and styles without it do not run: what a program's version says is text, even if escaping failed.
const NONCE: &str = "weir-laboratory";
/// What charts look like, also outside of the page.
const CHART_STYLE: &str = include_str!("html/chart.css");
const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn what_comes_from_files_and_programs_is_text() {
        let page = page(&sample::report());
        assert_eq!(page.matches("<script").count(), 1, "the page's own");
        assert!(
            !page.contains("<img") && !page.contains("<b>b</b>") && page.contains("&lt;script&gt;alert(1)")
        );
        assert!(page.contains("The clock is virtual &amp; &lt;odd&gt;."));
    }

    #[test]
    fn the_page_asks_nobody() {
        let page = page(&sample::report());
        for outside in ["http://", "https://", "url(", "@import", "fetch(", "XMLHttpRequest"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    /// For looking at it: `LOOK=FILE cargo test -p lab a_page_to_look_at`.
    #[test]
    fn a_page_to_look_at() {
        let page = page(&sample::report());
        if let Some(file) = std::env::var_os("LOOK") {
            std::fs::write(file, &page).unwrap();
        }
        assert!(page.len() < 4_000_000, "{} bytes", page.len());
    }

    #[test]
    fn only_the_subject_is_drawn_large_and_told_beside_the_line() {
        let mut report = sample::small(1, 5, 1.0);
        let large =
            |report: &Report| overview::section(report, &People::of(report)).matches("r=\"5.5\"").count();
        assert_eq!(large(&report), 2, "in the charts of CPU and of requests per second");
        report.scenarios[0].contenders.retain(|contender| contender.name != headline::SUBJECT);
        assert_eq!(large(&report), 0);
    }

    #[test]
    fn an_empty_run_is_a_page_too() {
        let mut report = sample::small(1, 3, 1.0);
        report.scenarios[0].contenders.iter_mut().for_each(|contender| contender.runs.clear());
        assert!(page(&report).contains("Nothing was measured."));
        report.scenarios.clear();
        report.contenders.clear();
        assert!(page(&report).contains("0 scenarios"));
    }

    #[test]
    fn every_chart_has_its_numbers_and_its_command() {
        let page = page(&sample::report());
        let figures = page.matches("<figure").count();
        assert!(figures > 100, "{figures}");
        assert_eq!(page.matches("<svg").count(), figures);
        assert_eq!(
            page.matches("<details><summary>Data</summary><div class=\"scroll\"><table>").count(),
            figures
        );
        assert_eq!(
            page.matches("class=\"copy\"").count(),
            figures + 20 + 1,
            "one more for each scenario and the run"
        );
    }
}
