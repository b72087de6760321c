//! The measured pages of `docs/reference`: the text form of stored results in a frame of Markdown.
//! `UPDATE=1 cargo test -p lab` writes them; the results themselves are never changed.

use std::fs;
use std::path::{Path, PathBuf};

use super::table::wrapped;
use super::{headline, json, terminal, texts};
use crate::result::RunReport;
use crate::terminal::Paint;

#[test]
fn measured_pages_show_the_kept_results() {
    let all = kept("0.1.0-lab.json");
    check("measurements.md", &measured(&all, "0.1.0-lab.json", "Weir 0.1.0 beside others"));
    let turns = kept("0.1.0-turns.json");
    check(
        "measurements-in-turns.md",
        &measured(&turns, "0.1.0-turns.json", "Weir 0.1.0 beside others, in turns"),
    );
    let intro = "How it was asked, and what a text leaves open, stands with each table.";
    let command = "weir lab report lab/results/0.1.0-lab.json --texts FILE";
    check(
        "comparison.md",
        &page("Published tables beside ours", intro, command, &texts::render_published_texts(&all)),
    );
}

/// The page of `weir lab faults` is there as soon as a result is kept.
#[test]
fn page_of_faults_shows_the_kept_result() {
    const NAME: &str = "failing-endpoints.md";
    let result = repository().join("lab/results").join(FAULTS);
    if !result.exists() {
        let page = repository().join("docs/reference").join(NAME);
        assert!(!page.exists(), "docs/reference/{NAME} needs the result lab/results/{FAULTS}");
        return;
    }
    let intro = "[Endpoints that fail](../guide/laboratory.md#endpoints-that-fail) says what the columns mean, and \
                 [contenders](contenders.md#settings-for-failing-endpoints) which settings are recommended.";
    let text = terminal::whole_painted(&kept(FAULTS), Paint::Plain);
    let command = format!("weir lab report lab/results/{FAULTS}");
    check(
        NAME,
        &page("Gateways in front of endpoints that fail", &wrapped(intro, WIDTH, 0), &command, &text),
    );
}

/// The page of layer 4 is there as soon as a result is kept.
#[test]
fn page_of_layer_4_shows_the_kept_results() {
    const NAME: &str = "layer-4.md";
    let result = repository().join("lab/results").join(LAYER4);
    if !result.exists() {
        let page = repository().join("docs/reference").join(NAME);
        assert!(!page.exists(), "docs/reference/{NAME} needs the result lab/results/{LAYER4}");
        return;
    }
    let report = kept(LAYER4);
    let intro = "[Layer 4](../guide/laboratory.md#layer-4) says what a row counts: messages, megabytes, connections or \
                 datagrams. A microsecond for each megabyte is a millisecond of CPU for a gigabyte.";
    let mut text = terminal::whole_painted(&report, Paint::Plain);
    text += &texts::thread_models(&kept(LAYER4_STUDY));
    let mut whole = measured(&report, LAYER4, "Measurements at layer 4");
    let tables = whole.find("```text").expect("a page has a block with the tables");
    whole.truncate(tables);
    let charts =
        "![CPU for each message, megabyte, connection or datagram](../charts/layer-4-cpu-per-request.svg)";
    check(
        NAME,
        &format!("{whole}{}\n\n{charts}\n\n```text\n{}\n```\n", wrapped(intro, WIDTH, 0), text.trim_end()),
    );
}

fn measured(report: &RunReport, file: &str, title: &str) -> String {
    let mut intro = String::new();
    for sentence in headline::sentences(report) {
        intro += &format!("{}\n\n", wrapped(&sentence, WIDTH, 0));
    }
    let reading = format!(
        "A number is the median of its rounds; `±` is how far the outermost round was from it. Every round, its spread and \
         the intervals of the ratios are in [{file}](../../lab/results/{file}), and on the page with charts that \
         `weir lab report lab/results/{file} --html FILE` writes. [Reading measurements](../guide/reading-measurements.md) \
         says what the columns mean."
    );
    intro += &wrapped(&reading, WIDTH, 0);
    let text = terminal::whole_painted(report, Paint::Plain);
    page(title, &intro, &format!("weir lab report lab/results/{file}"), &text)
}

fn page(title: &str, intro: &str, command: &str, text: &str) -> String {
    format!(
        "# {title}\n\n<!-- Made by `{command}` and `UPDATE=1 cargo test -p lab`. -->\n\n{intro}\n\n```text\n{}\n```\n",
        text.trim_end()
    )
}

fn kept(name: &str) -> RunReport {
    json::read_report(&repository().join("lab/results").join(name)).unwrap()
}

fn check(name: &str, page: &str) {
    let path = repository().join("docs/reference").join(name);
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        fs::write(&path, page).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == page,
        "docs/reference/{name} is not what the result says; UPDATE=1 cargo test -p lab writes it"
    );
}

/// The kept result of `weir lab faults`.
const FAULTS: &str = "0.1.0-faults.json";
/// The kept result of layer 4, in turns.
const LAYER4: &str = "0.1.0-layer-4.json";
/// The kept result of the thread-model study with requests per second, which turns do not have.
const LAYER4_STUDY: &str = "0.1.0-thread-models.json";
/// Columns of a line of Markdown.
const WIDTH: usize = 120;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
