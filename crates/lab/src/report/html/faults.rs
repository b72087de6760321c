//! The section of the runs with faulty endpoints: a table for each fault, with its remarks folded below it.

use super::svg::escape;
use super::{html_table, notes};
use crate::faults::EndpointFault;
use crate::report::faults as tables;
use crate::result::RunReport;

/// The section; empty if the report has no such runs.
pub(super) fn render_faults_section(report: &RunReport) -> String {
    let Some(faults) = &report.faults else { return String::new() };
    let mut out = format!(
        r#"<section id="faults"><h2>Faulty endpoints</h2><p class="lead">{}</p>"#,
        escape(&tables::load(faults))
    );
    for fault in EndpointFault::ALL {
        let runs = tables::runs(faults, fault);
        if !runs.is_empty() {
            out += &format!(
                "<h3>{}</h3>{}",
                escape(fault.title()),
                html_table(&tables::build_fault_table(&runs))
            );
            out += &notes::folded("Columns, and failures by kind", &tables::collect_fault_remarks(&runs));
        }
    }
    out + "</section>"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::html::render_html_page;
    use crate::report::sample;

    #[test]
    fn faults_are_a_section_of_the_page() {
        let mut report = sample::small(1, 3, 1.0);
        assert_eq!(render_faults_section(&report), "");
        report.faults = Some(tables::tests::sample());
        let page = render_html_page(&report);
        for text in ["id=\"faults\"", "One of three endpoints hangs", "one recommended", "&lt;b&gt; ended"] {
            assert!(page.contains(text), "{text}");
        }
        assert!(!page.contains("answers 500"), "a fault without runs has no heading");
    }
}
