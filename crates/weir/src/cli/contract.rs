//! `weir contract`: documents of OpenAPI on their own, without a gateway: checks of one, changes between
//! two, a page.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Subcommand, ValueEnum};
use contract::diff::{ChangeLevel, ContractChange, DiffOptions, diff_documents, is_change_rule};
use contract::document::DOCUMENT_BYTES_MAX;
use contract::page::{PageOptions, html_page};
use contract::{ContractDocument, DocumentFault};
use serde_json::json;

use crate::terminal::{Paint, print};

/// Exit code of `contract diff` where a change breaks callers, as `plan` has for a difference.
const BREAKING: u8 = 3;

/// Check, compare and show OpenAPI documents
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ContractArguments {
    #[command(subcommand)]
    command: ContractCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum ContractCommand {
    /// Check a document and list its operations
    ///
    /// Reads OpenAPI 3.0, 3.1 and Swagger 2.0 in YAML or JSON, and prints a line for each operation: its
    /// name, method and path. A fault is printed as `file:line: place: reason` and ends the command with 1.
    Check {
        /// The document
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Show what changed between two documents
    ///
    /// Prints the changes that break callers first. The names of the rules are those of oasdiff. Ends with 3
    /// if a change is at the level of `--fail-on`, and with 0 otherwise.
    Diff {
        /// The document before
        #[arg(value_name = "OLD")]
        old: PathBuf,
        /// The document now
        #[arg(value_name = "NEW")]
        new: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// The level of a rule, such as `response-property-removed=info`; `off` leaves it out
        #[arg(long = "level", value_name = "RULE=LEVEL")]
        levels: Vec<String>,
        /// The order of properties counts, as in protobuf that is derived from the document
        #[arg(long)]
        wire_order: bool,
        /// Changes that end the command with 3
        #[arg(long, value_enum, default_value_t = FailOn::Breaking, value_name = "LEVEL")]
        fail_on: FailOn,
        /// Leave out changes that break nothing
        #[arg(long)]
        breaking_only: bool,
    },
    /// Write a page for readers of a document to standard output
    Page {
        /// The document
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The path in front of its paths, in place of its servers
        #[arg(long, value_name = "PATH", default_value = "")]
        base_path: String,
    },
}

/// Which changes fail a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOn {
    Breaking,
    Warning,
    None,
}

/// Runs a command of `weir contract`.
pub(crate) fn execute_contract(arguments: &ContractArguments) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        ContractCommand::Check { file } => list_operations(file),
        ContractCommand::Diff { old, new, json, levels, wire_order, fail_on, breaking_only } => {
            let mut options = DiffOptions { property_order_is_wire: *wire_order, ..DiffOptions::default() };
            for written in levels {
                let (rule, level) = read_level(written)?;
                options.levels.insert(rule, level);
            }
            let mut changes = compare(old, new, &options)?;
            if *breaking_only {
                changes.retain(|change| change.level == ChangeLevel::Breaking);
            }
            if *json {
                print_json(&changes)
            } else {
                print_lines(&changes)
            }
            let fails = |change: &ContractChange| match fail_on {
                FailOn::Breaking => change.level == ChangeLevel::Breaking,
                FailOn::Warning => change.level != ChangeLevel::Info,
                FailOn::None => false,
            };
            Ok(if changes.iter().any(fails) { BREAKING.into() } else { ExitCode::SUCCESS })
        }
        ContractCommand::Page { file, base_path } => {
            let document = read(file)?;
            let options =
                PageOptions { base_path: base_path.clone(), document_path: None, has_try_it: false };
            print(html_page(&document.value, &options).trim_end());
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn list_operations(file: &Path) -> anyhow::Result<ExitCode> {
    let document = read(file)?;
    let operations = document.operations().map_err(|fault| with_file(file, &fault))?;
    let width = operations.iter().map(|operation| operation.id.chars().count()).max().unwrap_or_default();
    for operation in &operations {
        print(format_args!("{:width$}  {:7} {}", operation.id, operation.method, operation.path));
    }
    let (count, version) = (operations.len(), &document.version);
    let good = Paint::for_stdout().good("ok");
    print(format_args!("{}: {good}, version {version}, operations: {count}", file.display()));
    Ok(ExitCode::SUCCESS)
}

fn compare(old: &Path, new: &Path, options: &DiffOptions) -> anyhow::Result<Vec<ContractChange>> {
    let (old, new) = (read(old)?, read(new)?);
    Ok(diff_documents(&old.value, &new.value, options)?)
}

fn read(file: &Path) -> anyhow::Result<ContractDocument> {
    let cannot = || format!("{}: cannot be read", file.display());
    // A larger file is not read whole.
    let length = fs::metadata(file).with_context(cannot)?.len();
    if length > DOCUMENT_BYTES_MAX as u64 {
        bail!("{}: the document has more than {DOCUMENT_BYTES_MAX} bytes", file.display());
    }
    let text = fs::read_to_string(file).with_context(cannot)?;
    ContractDocument::read(&text).map_err(|fault| with_file(file, &fault))
}

/// A fault in the form that editors parse.
fn with_file(file: &Path, fault: &DocumentFault) -> anyhow::Error {
    let place = if fault.pointer.is_empty() { String::new() } else { format!("{}: ", fault.pointer) };
    anyhow::anyhow!("{}:{}: {place}{}", file.display(), fault.line, fault.reason)
}

fn read_level(written: &str) -> anyhow::Result<(Box<str>, Option<ChangeLevel>)> {
    let Some((rule, level)) = written.split_once('=') else {
        bail!("--level {written}: write RULE=LEVEL, such as api-removed-without-deprecation=warning");
    };
    if !is_change_rule(rule) {
        bail!(
            "--level {written}: there is no rule {rule:?}; `weir contract diff --json` shows the names of rules"
        );
    }
    let level = match level {
        "breaking" => Some(ChangeLevel::Breaking),
        "warning" => Some(ChangeLevel::Warning),
        "info" => Some(ChangeLevel::Info),
        "off" => None,
        _ => bail!("--level {written}: the levels are breaking, warning, info and off"),
    };
    Ok((rule.into(), level))
}

const fn level_name(level: ChangeLevel) -> &'static str {
    match level {
        ChangeLevel::Breaking => "breaking",
        ChangeLevel::Warning => "warning",
        ChangeLevel::Info => "info",
    }
}

fn print_json(changes: &[ContractChange]) {
    let list: Vec<_> = changes
        .iter()
        .map(|change| {
            json!({
                "level": level_name(change.level),
                "rule": change.rule,
                "operation": change.operation,
                "operation_id": change.operation_id,
                "place": change.place,
                "text": change.text,
            })
        })
        .collect();
    print(serde_json::Value::Array(list));
}

fn print_lines(changes: &[ContractChange]) {
    let paint = Paint::for_stdout();
    for change in changes {
        let level = level_name(change.level);
        let level = match change.level {
            ChangeLevel::Breaking => paint.bad(level),
            ChangeLevel::Warning => paint.noted(level),
            ChangeLevel::Info => paint.faint(level),
        };
        let operation = if change.operation.is_empty() { "document" } else { &change.operation };
        print(format_args!("{level}  {operation}: {}", change.text));
        print(format_args!("    {}", paint.faint(&format!("{} at {}", change.rule, change.place))));
    }
    let count = |level: ChangeLevel| changes.iter().filter(|change| change.level == level).count();
    print(format_args!(
        "{} breaking, {} warnings, {} others",
        count(ChangeLevel::Breaking),
        count(ChangeLevel::Warning),
        count(ChangeLevel::Info)
    ));
}
