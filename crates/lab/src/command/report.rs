//! `weir lab report`: the forms of a kept run. It measures nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};

use crate::report::{html, json, terminal, texts};
use crate::result::RunReport;
use crate::terminal::{print_error, print_line};

/// Arguments of `weir lab report`.
#[derive(Clone, Debug, clap::Args)]
pub struct ReportArguments {
    /// A file that `weir lab run` wrote; it begins with `"format": 1`
    #[arg(value_name = "RESULT.json")]
    result: PathBuf,
    /// Write the page with charts here: one file that needs no network
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write every chart of the page into this folder, as SVG files
    #[arg(long, value_name = "DIR")]
    charts: Option<PathBuf>,
    /// Write the tables of published texts beside those of this run here, as text
    #[arg(long, value_name = "FILE")]
    texts: Option<PathBuf>,
    /// Compare with this contender instead of the one that each scenario names
    #[arg(long, value_name = "CONTENDER")]
    baseline: Option<String>,
    /// Show the page of --html in the desktop's browser
    #[arg(long, value_enum, default_value_t = Open::No, requires = "html")]
    open: Open,
}

/// Whether a page is shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum Open {
    /// Show it
    Yes,
    /// Only write it
    No,
}

/// Writes the requested forms, or prints the tables if none was requested.
pub fn execute_lab_report(arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    let mut report = json::read_report(&arguments.result)?;
    if let Some(baseline) = &arguments.baseline {
        compare_with(&mut report, baseline)?;
    }
    let mut written = false;
    let mut write = |path: &Option<PathBuf>, page: fn(&RunReport) -> String| -> anyhow::Result<()> {
        let Some(path) = path else { return Ok(()) };
        fs::write(path, page(&report)).with_context(|| format!("cannot write {}", path.display()))?;
        print_line(format_args!("wrote {}", path.display()));
        written = true;
        Ok(())
    };
    write(&arguments.html, html::render_html_page)?;
    write(&arguments.texts, texts::render_published_texts)?;
    if let Some(folder) = &arguments.charts {
        let count = write_charts(&report, folder)?;
        print_line(format_args!("wrote {count} charts into {}", folder.display()));
        written = true;
    }
    if !written {
        print_line(terminal::render_report(&report).trim_end());
    }
    if let (Open::Yes, Some(page)) = (arguments.open, &arguments.html) {
        show(page);
    }
    Ok(ExitCode::SUCCESS)
}

fn write_charts(report: &RunReport, folder: &Path) -> anyhow::Result<usize> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let charts = html::charts(report);
    for (name, chart) in &charts {
        let path = folder.join(name);
        fs::write(&path, chart).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(charts.len())
}

/// Sets every scenario's baseline. Fails if no contender of that name was measured.
fn compare_with(report: &mut RunReport, baseline: &str) -> anyhow::Result<()> {
    let mut found = false;
    for result in &mut report.scenarios {
        let measured =
            |name: &str| result.contenders.iter().any(|one| one.name == name && !one.runs.is_empty());
        let here = measured(baseline);
        result.baseline = here.then(|| baseline.to_owned());
        found |= here;
    }
    if !found {
        bail!("this run measured no contender {baseline}");
    }
    Ok(())
}

/// A desktop that cannot show the page is no failure, because the page is written.
fn show(page: &Path) {
    let opened = Command::new("xdg-open").arg(page).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !opened.is_ok_and(|status| status.success()) {
        print_error("xdg-open could not show it; open the file in a browser");
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::report::sample;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        arguments: ReportArguments,
    }

    fn report(directory: &Path, more: &[&str]) -> Result<ExitCode, String> {
        let result = directory.join("result.json");
        json::write_report(&sample::small(1, 3, 1.0), &result).unwrap();
        let given = ["report", result.to_str().unwrap()];
        let program = Program::try_parse_from(given.iter().chain(more)).unwrap();
        execute_lab_report(&program.arguments).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn requested_forms_are_written() {
        let directory = tempfile::tempdir().unwrap();
        let forms = [
            ("--html", "page.html", "<!doctype html>"),
            ("--texts", "texts.txt", "The published tables beside ours\n"),
        ];
        for (option, name, begins) in forms {
            let path = directory.path().join(name);
            report(directory.path(), &[option, path.to_str().unwrap()]).unwrap();
            assert!(fs::read_to_string(&path).unwrap().starts_with(begins), "{option}");
        }
        let folder = directory.path().join("charts");
        report(directory.path(), &["--charts", folder.to_str().unwrap()]).unwrap();
        let chart = fs::read_to_string(folder.join("small-requests-per-second.svg")).unwrap();
        assert!(chart.starts_with("<svg "), "{chart}");
        let lost = report(directory.path(), &["--html", "/nowhere/page.html"]).unwrap_err();
        assert!(lost.starts_with("cannot write /nowhere/page.html"), "{lost}");
    }

    #[test]
    fn other_baseline_is_used_if_measured() {
        let mut kept = sample::small(1, 3, 1.0);
        compare_with(&mut kept, "haproxy").unwrap();
        assert_eq!(kept.scenarios[0].baseline.as_deref(), Some("haproxy"));
        let error = compare_with(&mut kept, "envoy").unwrap_err();
        assert_eq!(error.to_string(), "this run measured no contender envoy");
    }
}
