//! `weir lab list`: the scenarios and the contenders. It starts nothing.

use std::process::ExitCode;

use crate::files::{Files, FilesArguments};
use crate::terminal::{Paint, print};

/// What `weir lab list` takes.
#[derive(Clone, Debug, clap::Args)]
pub struct ListArguments {
    #[command(flatten)]
    files: FilesArguments,
}

/// Prints both lists.
pub fn run(arguments: &ListArguments) -> anyhow::Result<ExitCode> {
    let files = Files::open(&arguments.files)?;
    let paint = Paint::for_stdout();
    print(paint.strong("Scenarios (weir lab run --scenario NAME)"));
    let scenarios = files.scenarios()?;
    let width = scenarios.iter().map(|scenario| scenario.name.len()).max().unwrap_or(0);
    for scenario in &scenarios {
        let quick = if scenario.quick { paint.faint("  --quick") } else { String::new() };
        print(format_args!("  {:width$}  {}{quick}", scenario.name, scenario.title));
    }
    print("");
    print(paint.strong("Contenders (weir lab run --contender NAME)"));
    let contenders = files.contenders()?;
    let width = contenders.iter().map(|contender| contender.name.len()).max().unwrap_or(0);
    for contender in &contenders {
        let usual = if contender.usual { String::new() } else { paint.faint("  only where named") };
        print(format_args!("  {:width$}  {}, {}{usual}", contender.name, contender.title, contender.version));
    }
    Ok(ExitCode::SUCCESS)
}
