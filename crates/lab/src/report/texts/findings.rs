//! The findings of the published study of thread models, one a row, beside the same ratios of a run. A ratio
//! carries over to another machine; requests per second do not.

use crate::contender::Definition;
use crate::report::figure::Figure;
use crate::report::number;
use crate::report::summary::Summary;
use crate::report::table::{Cell, TextTable};
use crate::result::RunReport;

/// A finding: the words for it, the number of the text, and how it follows from the forms of one forwarder.
struct Finding {
    words: &'static str,
    text: &'static str,
    /// Whether the text found it at layer 4 only.
    layer4_only: bool,
    of: fn(&Forms<'_>) -> Option<String>,
}

const FINDINGS: &[Finding] = &[
    Finding {
        words: "requests/s lost, same loop, pooled",
        text: "3 %",
        layer4_only: true,
        of: |forms| {
            Some(format!("{} %", number::percent(forms.find("SameLoop", true)?.loss_percent?.median)))
        },
    },
    Finding {
        words: "switches, separate pools / same loop",
        text: "about 4",
        layer4_only: false,
        of: |forms| forms.ratio(Figure::Switches, ("SeparatePools", true), ("SameLoop", true)),
    },
    Finding {
        words: "requests/s, same loop / separate pools",
        text: "above 1",
        layer4_only: false,
        of: |forms| forms.ratio(Figure::RequestsPerSecond, ("SameLoop", true), ("SeparatePools", true)),
    },
    Finding {
        words: "requests/s, same loop / shared pool",
        text: "above 1",
        layer4_only: false,
        of: |forms| forms.ratio(Figure::RequestsPerSecond, ("SameLoop", true), ("SharedPool", true)),
    },
    Finding {
        words: "CPU, separate pools / same loop",
        text: "above 1",
        layer4_only: false,
        of: |forms| forms.ratio(Figure::CpuUs, ("SeparatePools", true), ("SameLoop", true)),
    },
    Finding {
        words: "requests/s, pooled / fresh, same loop",
        text: "about 1.03",
        layer4_only: false,
        of: |forms| forms.ratio(Figure::RequestsPerSecond, ("SameLoop", true), ("SameLoop", false)),
    },
];

/// The forms of one forwarder in a scenario.
struct Forms<'r> {
    /// The folder with its program.
    program: &'r str,
    measured: Vec<(&'r Definition, &'r Summary<'r>)>,
}

impl Forms<'_> {
    fn find(&self, model: &str, is_pooled: bool) -> Option<&Summary<'_>> {
        let has = |definition: &Definition, name: &str, value: &str| {
            definition.environment.get(name).is_some_and(|set| set == value)
        };
        let found = self.measured.iter().find(|(definition, _)| {
            has(definition, "THREAD_MODEL", model) && has(definition, "BUFFERS", "pooled") == is_pooled
        });
        found.map(|(_, summary)| *summary)
    }

    fn ratio(&self, figure: Figure, over: (&str, bool), under: (&str, bool)) -> Option<String> {
        let over = self.find(over.0, over.1)?.median(figure)?;
        let under = self.find(under.0, under.1)?.median(figure).filter(|under| *under > 0.0)?;
        Some(format!("{:.2}", over / under))
    }
}

/// The table of a scenario of the study: one column for each forwarder that has several forms in it. `None`
/// without one.
pub(super) fn build_study_table(report: &RunReport, measured: &[&Summary<'_>]) -> Option<TextTable> {
    let mut all: Vec<Forms<'_>> = Vec::new();
    let mut is_layer4 = true;
    for summary in measured {
        let facts = report.contenders.iter().find(|facts| facts.definition.name == summary.name)?;
        let definition = &facts.definition;
        is_layer4 &= definition.environment.get("LAYER").is_some_and(|layer| layer == "4");
        let program = definition.variant_of.as_deref().unwrap_or(&definition.name);
        match all.iter_mut().find(|forms| forms.program == program) {
            Some(forms) => forms.measured.push((definition, *summary)),
            None => all.push(Forms { program, measured: vec![(definition, *summary)] }),
        }
    }
    all.retain(|forms| forms.measured.len() > 1);
    if all.is_empty() {
        return None;
    }
    let mut headings = vec!["".to_owned(), "the text".to_owned()];
    headings.extend(all.iter().map(|forms| format!("ours: {}", shown(forms.program))));
    let mut table = TextTable::with_numbers(headings);
    for finding in FINDINGS.iter().filter(|finding| is_layer4 || !finding.layer4_only) {
        let ours: Vec<Option<String>> = all.iter().map(finding.of).collect();
        // A forwarder with other models has nothing to say about this one.
        if ours.iter().any(Option::is_some) {
            let ours = ours.into_iter().map(|value| value.unwrap_or_else(|| number::MISSING.to_owned()));
            let words = [finding.words.to_owned(), finding.text.to_owned()];
            table.rows.push(words.into_iter().chain(ours).map(Cell::text).collect());
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// The forwarder's name without the layer and model of the folder that has its program.
fn shown(program: &str) -> &str {
    program.split('-').next().unwrap_or(program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{sample, summary};

    /// The table of the sample's study at layer 4, with these names of its models.
    fn rows(models: &[(&str, &str)]) -> Option<TextTable> {
        let mut report = sample::report();
        for facts in &mut report.contenders {
            if let Some(model) = facts.definition.environment.get_mut("THREAD_MODEL") {
                for (from, to) in models {
                    *model = model.replace(from, to);
                }
            }
        }
        let result = report.scenarios.iter().find(|result| result.scenario.name == "thread-model")?;
        let summaries = summary::summarise_scenario(result);
        let at_layer4 = |summary: &&Summary<'_>| summary.name.starts_with("forward-l4");
        let measured: Vec<&Summary<'_>> = summaries.iter().filter(at_layer4).collect();
        build_study_table(&report, &measured)
    }

    #[test]
    fn findings_are_ratios_of_medians() {
        let known = [("same-loop", "SameLoop"), ("own-pool", "SeparatePools"), ("shared-pool", "SharedPool")];
        let table = rows(&known).unwrap();
        assert_eq!(table.rows.len(), FINDINGS.len());
        let switches = table.rows.iter().find(|row| row[0].text.starts_with("switches")).unwrap();
        // (1.9 + 0.001) / (0.2 + 0.001)
        assert_eq!((switches[1].text.as_str(), switches[2].text.as_str()), ("about 4", "9.46"));
        assert_eq!(table.columns[2].heading, "ours: forward");
        assert!(table.rows[0][2].text.ends_with(" %"), "{:?}", table.rows[0]);
    }

    #[test]
    fn unknown_models_have_no_findings() {
        assert_eq!(rows(&[]), None);
    }
}
