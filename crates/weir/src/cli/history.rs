//! `weir history`: the revisions of the configuration, and the changes of one of them.

use std::process::ExitCode;

use control::plan::ObjectChange;
use serde::Deserialize;
use serde_json::Value;
use stdx::clock::HttpDate;

use crate::admin_client::{AdminOutcome, NodeArguments, agreed};
use crate::boot;
use crate::changes;
use crate::terminal::{Paint, print, print_error};

/// List the versions of the configuration, or show what one changed
///
/// Every change of the configuration is a version: a write of the Admin API, `weir apply`, `weir rollback`, a
/// whole set by another tool, objects that expired. The newest comes first. Where no instance runs, the data
/// folder is read.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct HistoryArguments {
    /// Show what this version changed
    #[arg(value_name = "VERSION")]
    version: Option<u64>,
    /// List at most so many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    node: NodeArguments,
}

/// The JSON of `GET weir/versions`.
#[derive(Debug, Deserialize)]
struct Listed {
    revision: u64,
    oldest: u64,
    versions: Vec<RevisionEntry>,
}

#[derive(Debug, Deserialize)]
struct RevisionEntry {
    version: u64,
    at_ms: u64,
    source: String,
    by: String,
    objects: u64,
    #[serde(default)]
    changes: Vec<ObjectChange>,
}

/// Asks, and prints the answer.
pub(crate) fn execute_history(arguments: &HistoryArguments) -> anyhow::Result<ExitCode> {
    let node = arguments.node.node()?;
    let target = match arguments.version {
        Some(version) => format!("weir/versions/{version}"),
        None => format!("weir/versions?limit={}", arguments.limit),
    };
    let answer: Value = match node.ask("GET", &target, "")? {
        AdminOutcome::Answered(answer) => agreed(answer)?,
        AdminOutcome::Nobody => {
            print_error("no instance runs here; reading its data folder");
            boot::history_offline(&node.settings, arguments.version, arguments.limit)?
        }
    };
    let paint = Paint::for_stdout();
    if arguments.json {
        print(serde_json::to_string_pretty(&answer)?);
    } else if arguments.version.is_some() {
        let version: RevisionEntry = serde_json::from_value(answer)?;
        print(format_args!("{HEADINGS}\n{}\n", line(&version)));
        print(changes::render_changes(&version.changes, paint).trim_end());
    } else {
        let listed: Listed = serde_json::from_value(answer)?;
        print(paint.faint(HEADINGS));
        listed.versions.iter().for_each(|version| print(line(version)));
        let ways = format!("in force: {}; the oldest to go back to: {}", listed.revision, listed.oldest);
        print(paint.faint(&ways));
    }
    Ok(ExitCode::SUCCESS)
}

fn line(version: &RevisionEntry) -> String {
    let RevisionEntry { version, at_ms, source, by, objects, .. } = version;
    let mut date = HttpDate::new();
    // The first five bytes are the name of the day.
    let when = String::from_utf8_lossy(&date.at(at_ms / 1000)[5..]).into_owned();
    format!("{version:>9}  {when:<24}  {source:<8}  {objects:>7}  {by}").trim_end().to_owned()
}

const HEADINGS: &str = "  VERSION  WHEN                      SOURCE    OBJECTS  BY";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_one_line_below_its_headings() {
        let version = RevisionEntry {
            version: 12,
            at_ms: 1_767_225_661_999,
            source: "rollback".to_owned(),
            by: "ann (127.0.0.1)".to_owned(),
            objects: 3,
            changes: Vec::new(),
        };
        assert_eq!(line(&version), "       12  01 Jan 2026 00:01:01 GMT  rollback        3  ann (127.0.0.1)");
        for (name, value) in [("WHEN", "01 Jan"), ("SOURCE", "rollback"), ("BY", "ann")] {
            assert_eq!(HEADINGS.find(name), line(&version).find(value), "{name}");
        }
    }
}
