//! The conditions of a run: machine, warnings, versions, absent contenders with reasons, and the method.

use super::svg::escape;
use super::{command_line, html_table, notes};
use crate::report::machine_line;
use crate::report::statistics::{CONFIDENCE_PERCENT, LEAST_EFFECT};
use crate::report::summary::DIRECT;
use crate::report::table::{Cell, TextTable, Tone};
use crate::result::{RunReport, ScenarioResult};

/// Reasons to be careful with this run; empty if there are none.
pub(super) fn warnings(report: &RunReport) -> String {
    let mut sentences = report.machine.warnings.clone();
    if report.interrupted {
        sentences
            .insert(0, "The run was ended before its time; what is here was measured in full.".to_owned());
    }
    match sentences.as_slice() {
        [] => String::new(),
        [one] => format!("<p class=\"noted\">{}</p>", escape(one)),
        several => notes::folded(&format!("{} things to know about this run", several.len()), several),
    }
}

/// The number of contenders by kind, because most may be variants for a study.
pub(super) fn contenders_line(report: &RunReport) -> String {
    let (mut gateways, mut variants, mut studied, mut direct) = (0, 0, 0, 0);
    for definition in report.contenders.iter().map(|facts| &facts.definition) {
        match definition {
            _ if definition.name == DIRECT => direct += 1,
            _ if !definition.usual => studied += 1,
            _ if definition.variant_of.is_some() => variants += 1,
            _ => gateways += 1,
        }
    }
    let counted = |count: usize, one: &str, several: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        _ => Some(format!("{count} {several}")),
    };
    let parts = [
        counted(gateways, "gateway", "gateways"),
        counted(variants, "variant of one", "variants of them"),
        counted(studied, "forwarder of the thread-model study", "forwarders of the thread-model study"),
        (direct > 0).then(|| "the origin alone".to_owned()),
    ];
    let phrases: Vec<String> = parts.into_iter().flatten().collect();
    let measured = |result: &ScenarioResult| {
        result.contenders.iter().filter(|one| !one.runs.is_empty() && one.name != DIRECT).count()
    };
    let counts: Vec<usize> = report.scenarios.iter().map(measured).filter(|count| *count > 0).collect();
    let mut line = phrases.join(", ");
    if let (Some(least), Some(most)) = (counts.iter().min(), counts.iter().max()) {
        line += &match least == most {
            true => format!("; {most} in each scenario"),
            false => format!("; {least} to {most} in a scenario"),
        };
    }
    line
}

/// The last section of the page.
pub(super) fn render_facts_section(report: &RunReport) -> String {
    let mut contenders =
        TextTable::with_numbers(["contender", "what it is", "language", "version", "told", "absent because"]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn contenders_are_counted_by_kind() {
        assert_eq!(
            contenders_line(&sample::report()),
            "16 gateways, 12 forwarders of the thread-model study, the origin alone; 12 to 15 in a scenario"
        );
        assert_eq!(
            contenders_line(&sample::small(1, 3, 1.0)),
            "3 gateways, the origin alone; 3 in each scenario"
        );
    }

    #[test]
    fn warnings_are_one_line() {
        let mut report = sample::report();
        assert!(warnings(&report).contains("<summary>3 things to know about this run</summary>"));
        report.interrupted = false;
        report.machine.warnings.truncate(1);
        assert!(warnings(&report).starts_with("<p class=\"noted\">Load and origin share a core"));
        report.machine.warnings.clear();
        assert_eq!(warnings(&report), "");
    }
}
