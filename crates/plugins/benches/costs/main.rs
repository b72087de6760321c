//! The cost of each plugin for one request: nanoseconds, allocations, and instructions under valgrind. Each
//! plugin of the list has a row; `costs/rows.rs` holds those that need another configuration or request than
//! the default.
//!
//! `cargo bench -p plugins --bench costs` prints the table; with `-- --write` it writes
//! docs/reference/plugin-costs.md.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its figures")]
#![allow(clippy::unwrap_used, reason = "a bench that cannot go on says so by panicking")]

mod page;
mod rows;
mod run;

use std::process::{Command, ExitCode};

use page::Measured;
use stdx::noting_allocator::NotingAllocator;

#[global_allocator]
static ALLOCATOR: NotingAllocator = NotingAllocator(run::note_allocation);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["--one", name] => {
            println!("{}", run::measure(name));
            ExitCode::SUCCESS
        }
        ["--window", name] => {
            run::window(name);
            ExitCode::SUCCESS
        }
        [] | ["--write"] => all(words.contains(&"--write")),
        _ => {
            eprintln!("usage: costs [--write]");
            ExitCode::FAILURE
        }
    }
}

/// Measures every plugin in a process of its own, so that no state and no fault of one touches another.
fn all(writes: bool) -> ExitCode {
    let mut measured: Vec<(&str, Result<Measured, String>)> = Vec::new();
    for kind in plugins::ALL {
        let result = one(kind.name);
        match &result {
            Ok(found) => println!("{}", page::row(kind.name, found)),
            Err(reason) => println!("{}: {reason}", kind.name),
        }
        measured.push((kind.name, result));
    }
    let failed: Vec<&str> =
        measured.iter().filter(|(_, result)| result.is_err()).map(|(name, _)| *name).collect();
    if writes {
        page::write(&measured);
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("not measured: {failed:?}; add a row for each to crates/plugins/benches/costs/rows.rs");
    ExitCode::FAILURE
}

fn one(name: &str) -> Result<Measured, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let run = Command::new(&this).args(["--one", name]).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&run.stdout);
    let figures: Measured = text.trim().parse().map_err(|()| {
        let fault = String::from_utf8_lossy(&run.stderr);
        fault
            .lines()
            .find(|line| !line.is_empty() && !line.starts_with("thread"))
            .unwrap_or("no figures")
            .to_owned()
    })?;
    let valgrind = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .arg(format!("--toggle-collect=*{}*", run::WINDOW))
        .arg(&this)
        .args(["--window", name])
        .output();
    let report = valgrind.map(|run| String::from_utf8_lossy(&run.stderr).into_owned()).unwrap_or_default();
    let collected =
        report.lines().find_map(|line| line.split("Collected :").nth(1)?.trim().parse::<u64>().ok());
    Ok(Measured { instructions: collected.map(|all| all / run::REQUESTS as u64), ..figures })
}
