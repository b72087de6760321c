//! A run as Markdown, for pages in a repository: tables with every spread, no drawings. It says of the method only what
//! the numbers need.

use super::figure::Figure;
use super::headline;
use super::machine_line;
use super::number;
use super::statistics::{CONFIDENCE_PERCENT, LEAST_EFFECT, Ratio, Spread};
use super::summary::{self, Summary};
use super::table::{Cell, Table, markdown_text};
use super::terminal;
use crate::result::{Report, ScenarioResult};

/// The whole page.
pub fn page(report: &Report) -> String {
    let mut out = format!("# Weir {} beside others\n\n", markdown_text(&report.weir));
    out += &format!(
        "Measured {} in {}: {}.\n",
        markdown_text(&number::moment(&report.started)),
        number::duration(report.seconds),
        markdown_text(&machine_line(&report.machine))
    );
    for sentence in headline::sentences(report) {
        out += &format!("\n{}\n", markdown_text(&sentence));
    }
    let mut warnings = report.machine.warnings.clone();
    if report.interrupted {
        warnings.push("The run was ended before its time; what is here was measured in full.".to_owned());
    }
    out += &list(&warnings);
    out += &format!(
        "\nA number is the median of its rounds, with the least and the greatest; a ratio is taken within a round. A \
         difference is one if the {CONFIDENCE_PERCENT:.0} % confidence interval leaves one out and the median is at \
         least {:.0} % from it.\n\n{}",
        LEAST_EFFECT * 100.0,
        code(&report.command)
    );
    for result in &report.scenarios {
        out += &scenario(result);
    }
    out + &contenders(report)
}

fn scenario(result: &ScenarioResult) -> String {
    let asked = &result.scenario;
    let mut out = format!(
        "\n## {}: {}\n\n{}\n\n{}",
        markdown_text(&asked.name),
        markdown_text(&asked.title),
        markdown_text(&asked.about),
        code(&result.command)
    );
    let summaries = summary::of_scenario(result);
    let measured: Vec<&Summary<'_>> = summaries.iter().filter(|summary| summary.rounds > 0).collect();
    if measured.is_empty() {
        return out + "\nNothing was measured.\n";
    }
    out.push('\n');
    out += &table(result, &measured).markdown();
    let mut sentences = result.notes.clone();
    sentences.extend(terminal::remarks(&summaries, &measured));
    sentences.extend(terminal::missing(&summaries));
    out + &list(&sentences)
}

fn table(result: &ScenarioResult, measured: &[&Summary<'_>]) -> Table {
    let mut headings: Vec<String> =
        ["", "rounds", "requests/s", "loss %", "p50 ms", "p90 ms", "p99 ms", "max ms"]
            .into_iter()
            .chain(["CPU µs/request", "user", "system"])
            .map(str::to_owned)
            .collect();
    if let Some(baseline) = &result.baseline {
        headings.extend([format!("requests/s × {baseline}"), format!("CPU × {baseline}")]);
    }
    headings.extend(["switches", "MB", "failed", "core %"].map(str::to_owned));
    let mut table = Table::with_numbers(headings);
    for summary in measured {
        table.rows.push(row(result, summary));
    }
    table
}

fn row(result: &ScenarioResult, summary: &Summary<'_>) -> Vec<Cell> {
    let spread = |figure: Figure| {
        Cell::text(summary.figures.get(&figure).map_or_else(missing, |spread| with_ends(figure, spread)))
    };
    let median = |figure: Figure| {
        Cell::text(summary.median(figure).map_or_else(missing, |median| figure.shown(median)))
    };
    let ratio = |figure: Figure| {
        Cell::text(summary.ratios.get(&figure).map_or_else(missing, |ratio| judged(figure, ratio)))
    };
    let mut cells = vec![
        Cell::text(summary.name),
        Cell::text(summary.rounds.to_string()),
        spread(Figure::RequestsPerSecond),
        Cell::text(number::optional_percent(summary.loss_percent.map(|loss| loss.median))),
        median(Figure::P50Ms),
        median(Figure::P90Ms),
        spread(Figure::P99Ms),
        median(Figure::MaxMs),
        spread(Figure::CpuUs),
        median(Figure::UserUs),
        median(Figure::SystemUs),
    ];
    if result.baseline.is_some() {
        cells.extend([ratio(Figure::RequestsPerSecond), ratio(Figure::CpuUs)]);
    }
    let unsaturated = summary.unsaturated() && summary.name != summary::DIRECT;
    let mark = if unsaturated { " (!)" } else { "" };
    let busy = summary.busy_percent.map_or_else(missing, |busy| format!("{busy:.0}{mark}"));
    cells.extend([
        median(Figure::Switches),
        median(Figure::MemoryBytes),
        Cell::text(number::count(summary.failures.all() + summary.unsent)),
        Cell::text(busy),
    ]);
    cells
}

fn with_ends(figure: Figure, spread: &Spread) -> String {
    let mark = if spread.is_scattered() && figure != Figure::P99Ms { terminal::SCATTERED } else { "" };
    let [median, min, max] = [spread.median, spread.min, spread.max].map(|value| figure.shown(value));
    format!("{median}{mark} ({min}..{max})")
}

fn judged(figure: Figure, ratio: &Ratio) -> String {
    let interval = ratio.interval.map_or_else(String::new, |(low, high)| {
        format!(" ({}..{})", number::ratio(low), number::ratio(high))
    });
    format!("{}{interval} {}", number::ratio(ratio.median), figure.word(ratio.verdict))
}

fn contenders(report: &Report) -> String {
    let mut table =
        Table::with_numbers(["contender", "what it is", "language", "version", "told", "absent because"]);
    table.columns.iter_mut().for_each(|column| column.numeric = false);
    for facts in &report.contenders {
        let definition = &facts.definition;
        let cells = [
            &definition.name,
            &definition.title,
            &definition.language,
            &definition.version,
            facts.version.as_ref().unwrap_or(&missing()),
            facts.absent.as_ref().unwrap_or(&String::new()),
        ]
        .map(Cell::text);
        table.rows.push(cells.into());
    }
    format!("\n## Contenders\n\n{}", table.markdown())
}

fn list(sentences: &[String]) -> String {
    if sentences.is_empty() {
        return String::new();
    }
    let items: String = sentences.iter().map(|sentence| format!("- {}\n", markdown_text(sentence))).collect();
    format!("\n{items}")
}

/// Indented, since a fence could be ended by what stands in it.
fn code(command: &str) -> String {
    let clean: String = command.chars().filter(|character| !character.is_control()).collect();
    format!("    {clean}\n")
}

fn missing() -> String {
    number::MISSING.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{golden, sample};

    #[test]
    fn a_run_looks_like_this() {
        let mut report = sample::report();
        // One usual scenario, one with a contender that dropped out, one at a given rate.
        report
            .scenarios
            .retain(|result| ["small", "ab-page", "rate-half"].contains(&result.scenario.name.as_str()));
        golden::check("page.md", &page(&report));
    }

    #[test]
    fn names_stay_in_their_cells() {
        let page = page(&sample::report());
        assert!(!page.contains("<script>") && page.contains("&lt;script&gt;alert(1)"));
        let columns = |line: &str| line.replace("\\|", "").matches('|').count();
        for table in page.split("\n\n").filter(|part| part.starts_with("| ")) {
            let first = columns(table.lines().next().unwrap());
            for line in table.lines().filter(|line| line.starts_with('|')) {
                assert_eq!(columns(line), first, "{line}");
            }
        }
    }
}
