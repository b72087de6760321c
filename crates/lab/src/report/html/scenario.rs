//! One scenario on the page: its load, a chart for each measured figure, absent contenders. The order of
//! contenders is the same in all its charts.

use super::chart::{Bar, ChartRow, Range, bars, ranges};
use super::legend::{self, LegendEntry, Sign};
use super::lines::{LineSeries, draw_lines};
use super::svg::escape;
use super::{People, command_line, figure, notes, study, subject};
use crate::report::figure::Figure;
use crate::report::number;
use crate::report::statistics::Spread;
use crate::report::summary::{self, Summary};
use crate::report::table::{Cell, TextTable, Tone};
use crate::result::{MeasuredRun, RunReport, ScenarioResult};

/// The whole section with the anchor `anchor`.
pub(super) fn render_scenario_section(
    report: &RunReport,
    result: &ScenarioResult,
    people: &People<'_>,
    anchor: &str,
) -> String {
    let summaries = summary::summarise_scenario(result);
    let mut measured: Vec<&Summary<'_>> = summaries.iter().filter(|summary| summary.rounds > 0).collect();
    sort(&mut measured, summary::paced(result));
    let view = View { result, people, measured };
    let asked = &result.scenario;
    let charts = if view.measured.is_empty() {
        "<p>Nothing was measured.</p>".to_owned()
    } else {
        let study = study::draw_study_charts(report, &view);
        [view.throughput(), view.loss(), view.latency(), view.cpu(), view.memory(), view.over_time(), study]
            .concat()
    };
    let absence = subject::absence(report, result)
        .map_or_else(String::new, |reason| format!("<p class=\"noted\">{}.</p>", escape(&reason)));
    format!(
        r##"<section id="{anchor}"><h3>{title} <code>{name}</code><a class="back" href="#scenarios">All scenarios</a></h3><p>{about}</p>{command}{absence}{notes}<div class="charts">{charts}</div></section>"##,
        name = escape(&asked.name),
        title = escape(&asked.title),
        about = escape(&asked.about),
        command = command_line(&result.command),
        notes = notes::render_scenario_notes(report, result, &summaries),
    )
}

/// Sorts by most responses; if a rate was given by latency; in turns, which have neither, by CPU.
fn sort(measured: &mut [&Summary<'_>], paced: bool) {
    let key = |summary: &Summary<'_>| {
        if paced {
            summary.median(Figure::P99Ms).unwrap_or(f64::INFINITY)
        } else {
            let cpu = || summary.median(Figure::CpuUs).unwrap_or(f64::INFINITY);
            summary.median(Figure::RequestsPerSecond).map_or_else(cpu, |per_second| -per_second)
        }
    };
    measured.sort_by(|one, other| key(one).total_cmp(&key(other)));
}

/// A scenario and the order of its lines.
pub(super) struct View<'a> {
    pub(super) result: &'a ScenarioResult,
    pub(super) people: &'a People<'a>,
    pub(super) measured: Vec<&'a Summary<'a>>,
}

impl View<'_> {
    pub(super) fn row(&self, summary: &Summary<'_>) -> ChartRow {
        self.people.row(summary.name, self.result.baseline.as_deref())
    }

    fn throughput(&self) -> String {
        let figure = Figure::RequestsPerSecond;
        let explanation = if summary::paced(self.result) {
            "a rate was given: all that keep up are alike"
        } else {
            "more is better"
        };
        self.simple("throughput", "Requests per second", explanation, figure)
    }

    fn memory(&self) -> String {
        self.simple(
            "memory",
            "Memory",
            "MB at the end of a round, pages that processes share counted once",
            Figure::MemoryBytes,
        )
    }

    fn simple(&self, kind: &str, caption: &str, explanation: &str, of: Figure) -> String {
        let bar = |summary: &&Summary<'_>| {
            let spread = summary.figures.get(&of)?;
            let unit = if of == Figure::MemoryBytes { 1e6 } else { 1.0 };
            let mark = if of == Figure::RequestsPerSecond && marked(summary) { " (!)" } else { "" };
            Some(Bar {
                row: self.row(summary),
                parts: vec![spread.median / unit],
                whisker: Some((spread.min / unit, spread.max / unit)),
                label: format!("{}{mark}", of.shown(spread.median)),
                tip: format!("{}: {}", self.row(summary).title, describe_spread(of, spread)),
            })
        };
        let drawn: Vec<Bar> = self.measured.iter().filter_map(bar).collect();
        if drawn.is_empty() {
            return String::new();
        }
        let drawing =
            bars(&drawn, None, colours(&drawn), &format!("{caption}: {}", self.result.scenario.title));
        figure(kind, caption, explanation, &drawing, &self.table(&[of]), &self.result.command)
    }

    fn loss(&self) -> String {
        let bar = |summary: &&Summary<'_>| {
            let spread = summary.loss_percent?;
            Some(Bar {
                row: self.row(summary),
                parts: vec![spread.median.max(0.0)],
                whisker: Some((spread.min.max(0.0), spread.max.max(0.0))),
                label: format!("{} %", number::percent(spread.median)),
                tip: format!(
                    "{}: loses {} % against the origin alone ({} to {})",
                    self.row(summary).title,
                    number::percent(spread.median),
                    number::percent(spread.min),
                    number::percent(spread.max)
                ),
            })
        };
        let drawn: Vec<Bar> = self.measured.iter().filter_map(bar).collect();
        if drawn.is_empty() {
            return String::new();
        }
        let mut table = TextTable::with_numbers(["contender", "loss %", "least", "most"]);
        for (summary, loss) in
            self.measured.iter().filter_map(|summary| Some((summary, summary.loss_percent?)))
        {
            let mut cells = vec![Cell::text(summary.name)];
            cells.extend(
                [loss.median, loss.min, loss.max]
                    .map(|value| Cell::number(number::percent(value), Some(value))),
            );
            table.rows.push(cells);
        }
        let drawing = bars(
            &drawn,
            Some(100.0),
            colours(&drawn),
            &format!("Loss against direct: {}", self.result.scenario.title),
        );
        let explanation = "of the requests per second that the origin alone answers in the same round";
        figure("loss", "Loss in percent", explanation, &drawing, &table, &self.result.command)
    }

    fn latency(&self) -> String {
        let range = |summary: &&Summary<'_>| {
            let of = |figure| summary.median(figure);
            let row = self.row(summary);
            let latencies: Vec<String> = LATENCIES
                .into_iter()
                .filter_map(|figure| Some(format!("{} {}", figure.title(), figure.shown(of(figure)?))))
                .collect();
            Some(Range {
                p50: of(Figure::P50Ms).filter(|p50| *p50 > 0.0)?,
                p90: of(Figure::P90Ms),
                p99: of(Figure::P99Ms),
                p99_9: of(Figure::P999Ms),
                max: of(Figure::MaxMs),
                tip: format!("{}: {}", row.title, latencies.join(", ")),
                row,
            })
        };
        let drawn: Vec<Range> = self.measured.iter().filter_map(range).collect();
        if drawn.is_empty() {
            return String::new();
        }
        let due = self.result.contenders.iter().flat_map(|contender| &contender.runs);
        let since = if due.clone().any(|run| run.load.latency.from_due_time) {
            "from when a request was due"
        } else {
            "closed loop: stalls count once"
        };
        let drawing = ranges(&drawn, &format!("Latency: {}", self.result.scenario.title));
        let explanation = format!("ms, logarithmic; {since}");
        figure("latency", "Latency", &explanation, &drawing, &self.table(&LATENCIES), &self.result.command)
    }

    fn cpu(&self) -> String {
        let bar = |summary: &&Summary<'_>| {
            let whole = summary.figures.get(&Figure::CpuUs)?;
            let (user, system) = (summary.median(Figure::UserUs)?, summary.median(Figure::SystemUs)?);
            // The length of the bar is the median of the whole, and medians of parts need not add up to it.
            let scale = if user + system > 0.0 { whole.median / (user + system) } else { 1.0 };
            Some(Bar {
                row: self.row(summary),
                parts: vec![user * scale, system * scale],
                whisker: Some((whole.min, whole.max)),
                label: number::format_number(whole.median),
                tip: format!(
                    "{}: {}; user {}, kernel {}",
                    self.row(summary).title,
                    describe_spread(Figure::CpuUs, whole),
                    number::format_number(user),
                    number::format_number(system)
                ),
            })
        };
        let drawn: Vec<Bar> = self.measured.iter().filter_map(bar).collect();
        if drawn.is_empty() {
            return String::new();
        }
        let drawing =
            bars(&drawn, None, colours(&drawn), &format!("CPU per request: {}", self.result.scenario.title));
        let figures = [Figure::CpuUs, Figure::UserUs, Figure::SystemUs, Figure::Switches];
        let explanation = "µs of all its processes, in user space and in the kernel";
        figure("cpu", "CPU per request", explanation, &drawing, &self.table(&figures), &self.result.command)
    }

    fn over_time(&self) -> String {
        let runs =
            |name: &str| self.result.contenders.iter().find(|one| one.name == name).map(|one| &one.runs);
        let series = |summary: &&Summary<'_>| {
            let values = median_series(runs(summary.name)?);
            (values.len() > 1).then(|| LineSeries { row: self.row(summary), values })
        };
        let drawn: Vec<LineSeries> = self.measured.iter().filter_map(series).collect();
        let interval_ms =
            self.result.contenders.iter().flat_map(|one| &one.runs).map(|run| run.load.series_interval_ms);
        let interval_s = interval_ms.max().unwrap_or_default() as f64 / 1000.0;
        if drawn.is_empty() || interval_s <= 0.0 {
            return String::new();
        }
        let steps = drawn.iter().map(|one| one.values.len()).max().unwrap_or_default();
        let mut table = TextTable::with_numbers(
            std::iter::once("contender".to_owned())
                .chain((0..steps).map(|step| format!("{} s", number::axis(step as f64 * interval_s)))),
        );
        for one in &drawn {
            let mut cells = vec![Cell::text(&one.row.title)];
            cells.extend(
                one.values.iter().map(|value| Cell::number(number::format_number(*value), Some(*value))),
            );
            cells.resize(steps + 1, Cell::text(number::MISSING));
            table.rows.push(cells);
        }
        let drawing = draw_lines(
            &drawn,
            interval_s,
            &format!("Requests per second over time: {}", self.result.scenario.title),
        );
        let explanation = "requests per second, the median of the rounds at each moment";
        figure("time", "Over time", explanation, &drawing, &table, &self.result.command)
    }

    /// The numbers behind a chart: spread, ratio to the baseline, verdict.
    pub(super) fn table(&self, figures: &[Figure]) -> TextTable {
        let mut headings = vec!["contender".to_owned(), "rounds".to_owned()];
        let lead = figures[0];
        for of in figures {
            headings.extend([of.title().to_owned(), "least".to_owned(), "most".to_owned()]);
        }
        if let Some(baseline) = &self.result.baseline {
            headings.extend([
                format!("{} × {baseline}", lead.title()),
                "interval".to_owned(),
                "verdict".to_owned(),
            ]);
        }
        headings.push("failed".to_owned());
        let mut table = TextTable::with_numbers(headings);
        table.rows = self.measured.iter().map(|summary| self.cells(summary, figures)).collect();
        table
    }

    fn cells(&self, summary: &Summary<'_>, figures: &[Figure]) -> Vec<Cell> {
        let mut cells = vec![
            Cell::text(summary.name),
            Cell::number(summary.rounds.to_string(), Some(summary.rounds as f64)),
        ];
        for of in figures {
            let spread = summary.figures.get(of);
            let pick = |value: Option<f64>| {
                Cell::number(value.map_or_else(|| number::MISSING.to_owned(), |value| of.shown(value)), value)
            };
            cells.extend([
                pick(spread.map(|spread| spread.median)),
                pick(spread.map(|spread| spread.min)),
                pick(spread.map(|spread| spread.max)),
            ]);
        }
        if self.result.baseline.is_some() {
            cells.extend(ratio_cells(summary, figures[0]));
        }
        let failed = summary.failures.all() + summary.unsent;
        let tone = if failed > 0 { Tone::Bad } else { Tone::Usual };
        cells.push(Cell::number(number::format_count(failed), Some(failed as f64)).toned(tone));
        cells
    }
}

fn ratio_cells(summary: &Summary<'_>, of: Figure) -> [Cell; 3] {
    let Some(ratio) = summary.ratios.get(&of) else { return [(); 3].map(|()| Cell::text(number::MISSING)) };
    let tone = match of.good(ratio.verdict) {
        Some(true) => Tone::Good,
        Some(false) => Tone::Bad,
        None => Tone::Faint,
    };
    let interval = ratio.interval.map_or_else(
        || number::MISSING.to_owned(),
        |(low, high)| format!("{}..{}", number::format_ratio(low), number::format_ratio(high)),
    );
    [
        Cell::number(number::format_ratio(ratio.median), Some(ratio.median)),
        Cell::text(interval),
        Cell::text(of.word(ratio.verdict)).toned(tone),
    ]
}

fn colours(bars: &[Bar]) -> Vec<LegendEntry> {
    legend::list_colour_entries(bars.iter().map(|bar| &bar.row), Sign::Bar)
}

/// Whether the gateway was not the only limit, so that its requests per second are not its own.
fn marked(summary: &Summary<'_>) -> bool {
    (summary.unsaturated() || summary.disturbed()) && summary.name != summary::DIRECT
}

fn describe_spread(of: Figure, spread: &Spread) -> String {
    format!(
        "{} {} ({} to {}, {} rounds)",
        of.shown(spread.median),
        of.title(),
        of.shown(spread.min),
        of.shown(spread.max),
        spread.rounds
    )
}

fn median_series(runs: &[MeasuredRun]) -> Vec<f64> {
    let longest = runs.iter().map(|run| run.load.requests_per_second_series.len()).max().unwrap_or_default();
    let at = |step: usize| {
        let values = runs.iter().filter_map(|run| run.load.requests_per_second_series.get(step).copied());
        crate::report::statistics::spread(values).map(|spread| spread.median)
    };
    (0..longest).map_while(at).collect()
}

const LATENCIES: [Figure; 5] = [Figure::P50Ms, Figure::P90Ms, Figure::P99Ms, Figure::P999Ms, Figure::MaxMs];
