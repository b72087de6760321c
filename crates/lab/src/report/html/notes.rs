//! Notes beside the numbers of a scenario: the notes of the run as sentences, and the notes of single
//! contenders as one counting line with the details folded below it.

use super::svg::escape;
use crate::report::libraries;
use crate::report::summary::{self, Summary};
use crate::report::terminal;
use crate::result::{RunReport, ScenarioResult};

/// The notes of a scenario; empty if there are none.
pub(super) fn render_scenario_notes(
    report: &RunReport,
    result: &ScenarioResult,
    summaries: &[Summary<'_>],
) -> String {
    let measured: Vec<&Summary<'_>> = summaries.iter().filter(|summary| summary.rounds > 0).collect();
    let sentences = result.notes.iter().cloned().chain(libraries::note_tls_libraries(report, result));
    let mut out: String = sentences.map(|note| format!("<p class=\"noted\">{}</p>", escape(&note))).collect();
    let mut details = terminal::collect_remarks(summaries, &measured);
    details.extend(terminal::missing(summaries));
    out += &folded(&line(summaries, &measured), &details);
    out
}

/// A counting line, and its details.
pub(super) fn folded(line: &str, details: &[String]) -> String {
    if details.is_empty() {
        return String::new();
    }
    let items: String = details.iter().map(|detail| format!("<li>{}</li>", escape(detail))).collect();
    format!(r#"<details class="notes"><summary>{}</summary><ul>{items}</ul></details>"#, escape(line))
}

fn line(summaries: &[Summary<'_>], measured: &[&Summary<'_>]) -> String {
    let count = |wanted: &dyn Fn(&Summary<'_>) -> bool| measured.iter().filter(|one| wanted(one)).count();
    let gateway = |one: &Summary<'_>| one.name != summary::DIRECT;
    let absent = summaries.iter().filter(|one| one.rounds == 0).count();
    let dropped = count(&|one| one.absent.is_some());
    let failed = count(&|one| one.failures.all() + one.unsent > 0);
    let warm_up = summaries.iter().filter(|one| one.warm_up_failures > 0).count();
    let parts = [
        (
            count(&|one| one.disturbed()),
            "did not have the core to itself",
            "did not have the core to themselves",
        ),
        (
            count(&|one| one.unsaturated() && gateway(one)),
            "did not fill the core (!)",
            "did not fill the core (!)",
        ),
        (failed, "had failures", "had failures"),
        (warm_up, "had failures while warming up", "had failures while warming up"),
        (dropped, "dropped out", "dropped out"),
        (absent, "is absent", "are absent"),
    ];
    let phrases: Vec<String> = parts
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, several)| format!("{count} {}", if count == 1 { one } else { several }))
        .collect();
    if phrases.is_empty() {
        return "What the marks mean".to_owned();
    }
    format!("Of {} contenders {}", summaries.len(), phrases.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    fn render_notes(name: &str) -> String {
        let report = sample::report();
        let result = report.scenarios.iter().find(|result| result.scenario.name == name).unwrap();
        render_scenario_notes(&report, result, &summary::summarise_scenario(result))
    }

    #[test]
    fn one_line_counts_and_the_rest_is_folded() {
        let rows = [
            (
                "ab-page",
                "Of 17 contenders 1 had failures, 1 had failures while warming up, 1 dropped out, 1 is absent",
            ),
            (
                "idle-10k",
                "Of 17 contenders 1 did not fill the core (!), 1 had failures while warming up, 1 is absent",
            ),
            ("http2", "Of 17 contenders 1 had failures while warming up, 2 are absent"),
        ];
        for (name, expected) in rows {
            let notes = render_notes(name);
            assert!(notes.contains(&format!("<summary>{expected}</summary>")), "{name}: {notes}");
            assert!(notes.starts_with("<details class=\"notes\">"), "{notes}");
        }
    }

    #[test]
    fn notes_of_the_run_stay_in_sight() {
        let notes = render_notes("small");
        assert!(notes.starts_with("<p class=\"noted\">Read &lt;this&gt; first.</p><details"), "{notes}");
        assert_eq!(folded("line", &[]), "");
    }
}
