//! `weir lab install`: gets what contenders need, by their own scripts. It measures nothing.

use std::process::ExitCode;
use std::time::Duration;

use crate::files::{FilesArguments, LabFiles, select};
use crate::ports::Ports;
use crate::run::{Binaries, Interrupt, Interrupted, RunningPrograms};
use crate::terminal::{Paint, print_error, print_line};

/// Arguments of `weir lab install`.
#[derive(Clone, Debug, clap::Args)]
pub struct InstallArguments {
    /// Only these contenders [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    files: FilesArguments,
}

/// Long, because Maven projects and Rust programs are built.
const INSTALL_LIMIT: Duration = Duration::from_secs(45 * 60);

/// Installs one contender after another. Exit code 1 if one cannot be installed.
pub fn execute_lab_install(arguments: &InstallArguments) -> anyhow::Result<ExitCode> {
    let files = LabFiles::open(&arguments.files)?;
    let contenders = select("contender", &files.contenders()?, &arguments.names, |one| &one.name, |_| true)?;
    let interrupt = Interrupt::listen()?;
    let program = std::env::current_exe()?;
    let stage =
        RunningPrograms::new(program, files, Binaries::new(), Ports::default(), Vec::new(), interrupt)?;
    let paint = Paint::for_stdout();
    let mut all = true;
    for contender in &contenders {
        match stage.script(contender, "install", INSTALL_LIMIT) {
            Ok(_) => print_line(format_args!("{} {}", paint.good("installed"), contender.name)),
            Err(error) if error.is::<Interrupted>() => {
                print_error("interrupted");
                return Ok(ExitCode::from(INTERRUPTED));
            }
            Err(error) => {
                all = false;
                print_line(format_args!("{} {}: {error:#}", paint.noted("not to be had"), contender.name));
            }
        }
    }
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The exit code of a shell after Ctrl-C.
const INTERRUPTED: u8 = 130;
