//! `weir lab list`: the scenarios and the contenders, and which of those are installed. It starts no gateway.

use std::process::ExitCode;
use std::time::Duration;

use crate::files::{FilesArguments, LabFiles};
use crate::ports::Ports;
use crate::run::{Binaries, Interrupt, Interrupted, RunningPrograms};
use crate::terminal::{Paint, print_line};

/// Arguments of `weir lab list`.
#[derive(Clone, Debug, clap::Args)]
pub struct ListArguments {
    #[command(flatten)]
    files: FilesArguments,
}

/// Longest time of a contender to print its version, which for a virtual machine may take long.
const VERSION_LIMIT: Duration = Duration::from_secs(60);

/// Prints both lists.
pub fn execute_lab_list(arguments: &ListArguments) -> anyhow::Result<ExitCode> {
    let files = LabFiles::open(&arguments.files)?;
    let paint = Paint::for_stdout();
    print_line(paint.strong("Scenarios (weir lab run --scenario NAME)"));
    let scenarios = files.scenarios()?;
    let width = scenarios.iter().map(|scenario| scenario.name.len()).max().unwrap_or(0);
    for scenario in &scenarios {
        let quick = if scenario.quick { paint.faint("  --quick") } else { String::new() };
        print_line(format_args!("  {:width$}  {}{quick}", scenario.name, scenario.title));
    }
    print_line("");
    print_line(paint.strong("Contenders (weir lab run --contender NAME)"));
    let contenders = files.contenders()?;
    let width = contenders.iter().map(|contender| contender.name.len()).max().unwrap_or(0);
    let program = std::env::current_exe()?;
    let stage = RunningPrograms::new(
        program,
        files,
        Binaries::new(),
        Ports::default(),
        Vec::new(),
        Interrupt::listen()?,
    )?;
    for contender in &contenders {
        let state = match stage.script(contender, "version", VERSION_LIMIT) {
            Ok(_) => paint.good("installed"),
            Err(error) if error.is::<Interrupted>() => return Err(error),
            Err(_) => paint.faint("not installed"),
        };
        let usual = if contender.usual { "" } else { ", only where named" };
        print_line(format_args!(
            "  {:width$}  {}, {}: {state}{usual}",
            contender.name, contender.title, contender.version
        ));
    }
    Ok(ExitCode::SUCCESS)
}
