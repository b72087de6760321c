//! What the figures depend on: machine, warnings, versions, who is absent and why, how it is measured.

use super::svg::escape;
use super::{command_line, html_table};
use crate::report::machine_line;
use crate::report::statistics::{CONFIDENCE_PERCENT, LEAST_EFFECT};
use crate::report::table::{Cell, Table, Tone};
use crate::result::Report;

/// What makes this run one to be careful with; nothing where nothing does.
pub(super) fn warnings(report: &Report) -> String {
    let mut sentences = report.machine.warnings.clone();
    if report.interrupted {
        sentences
            .insert(0, "The run was ended before its time; what is here was measured in full.".to_owned());
    }
    if sentences.is_empty() {
        return String::new();
    }
    let items: String = sentences.iter().map(|sentence| format!("<li>{}</li>", escape(sentence))).collect();
    format!(r#"<ul class="notes warnings">{items}</ul>"#)
}

/// The end of the page.
pub(super) fn section(report: &Report) -> String {
    let mut contenders =
        Table::with_numbers(["contender", "what it is", "language", "version", "told", "absent because"]);
    contenders.columns.iter_mut().for_each(|column| column.numeric = false);
    for facts in &report.contenders {
        let definition = &facts.definition;
        contenders.rows.push(vec![
            Cell::text(&definition.name),
            Cell::text(format!("{}. {}", definition.title, definition.about)),
            Cell::text(&definition.language),
            Cell::text(&definition.version),
            Cell::text(facts.version.as_deref().unwrap_or("-")),
            Cell::text(facts.absent.as_deref().unwrap_or_default()).toned(Tone::Noted),
        ]);
    }
    format!(
        r#"<section id="facts"><h2>How this was measured</h2>
<p>{machine}.</p>
<p>Rounds are interleaved: every contender is asked once in a round, in a changing order, each after a warm-up of its own.
A number is the median of its rounds; a ratio is taken within a round, where the machine was the same for both, and then the
median is. A difference is one if the {confidence:.0} % confidence interval of the rounds' ratios
leaves one out and their median is at least {least:.0} % from it. A mark (!) says that the gateway was not what limited the round, or was not alone on
its core: its CPU per request stands, its requests per second do not.</p>
{command}
<h2>Contenders</h2>{contenders}</section>"#,
        machine = escape(&machine_line(&report.machine)),
        confidence = CONFIDENCE_PERCENT,
        least = LEAST_EFFECT * 100.0,
        command = command_line(&report.command),
        contenders = html_table(&contenders),
    )
}
