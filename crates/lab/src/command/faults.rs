//! `weir lab faults`: converts the command line into the settings of a run with faulty endpoints. It measures
//! nothing.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::run::{resolve_program, unused_name};
use crate::contender::Definition;
use crate::faults::{self, EndpointFault, FaultRunSettings};
use crate::files::{FilesArguments, LabFiles, select};
use crate::result::Protection;
use crate::run::Binaries;

/// Arguments of `weir lab faults`.
#[derive(Clone, Debug, clap::Args)]
pub struct FaultsArguments {
    /// A look of two minutes: Weir alone, faults of three seconds
    #[arg(long)]
    quick: bool,
    /// Only these faults
    #[arg(long, value_enum, value_name = "NAME", num_args = 1..)]
    fault: Vec<EndpointFault>,
    /// Only these contenders, of those that take several endpoints
    #[arg(long, value_name = "NAME", num_args = 1..)]
    contender: Vec<String>,
    /// Only with these settings for failing endpoints [default: both]
    #[arg(long, value_enum, value_name = "SETTINGS", num_args = 1..)]
    protection: Vec<Protection>,
    /// Length of each fault in seconds [default: 30; with --quick 3]
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Requests that are due in a second [default: half of the lowest capacity of all contenders]
    #[arg(long, value_name = "PER-SECOND")]
    rate: Option<f64>,
    /// Where the result is kept, as JSON [default: weir-lab-TIME.json]
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// The binary of Weir that is measured [default: this program]
    #[arg(long, value_name = "PATH")]
    weir: Option<PathBuf>,
    /// Pin no process to cores
    #[arg(long)]
    no_pin: bool,
    /// Install nothing: what is missing is absent
    #[arg(long)]
    no_install: bool,
    #[command(flatten)]
    files: FilesArguments,
}

/// Contenders of `--quick`.
const QUICK: [&str; 1] = ["weir"];
/// Length of a fault without `--seconds`.
const USUAL_SECONDS: f64 = 30.0;
const QUICK_SECONDS: f64 = 3.0;
/// In a shorter fault no health check finds it; a longer one is probably meant in another unit.
const SECONDS: std::ops::RangeInclusive<f64> = 1.0..=3600.0;
/// A thread of the load generator sends no more.
const RATE: std::ops::RangeInclusive<f64> = 1.0..=100_000.0;

/// Runs the measurement.
pub fn execute_lab_faults(arguments: &FaultsArguments) -> anyhow::Result<ExitCode> {
    faults::measure_faults(&arguments.settings()?)
}

impl FaultsArguments {
    fn settings(&self) -> anyhow::Result<FaultRunSettings> {
        let usual_seconds = if self.quick { QUICK_SECONDS } else { USUAL_SECONDS };
        let fault_seconds = self.seconds.unwrap_or(usual_seconds);
        if !SECONDS.contains(&fault_seconds) {
            bail!("--seconds is between {} and {}", SECONDS.start(), SECONDS.end());
        }
        if self.rate.is_some_and(|rate| !RATE.contains(&rate)) {
            bail!("--rate is between {} and {}", RATE.start(), RATE.end());
        }
        let files = LabFiles::open(&self.files)?;
        let able: Vec<Definition> = files.contenders()?.into_iter().filter(|one| one.endpoints).collect();
        let usual = |one: &Definition| !self.quick || QUICK.contains(&one.name.as_str());
        let contenders = select("contender", &able, &self.contender, |one| &one.name, usual)
            .context("faults need a contender with `endpoints: true` in its contender.yaml")?;
        let mut measured = Binaries::new();
        if let Some(path) = &self.weir {
            measured.insert("weir".to_owned(), resolve_program(path)?);
        }
        Ok(FaultRunSettings {
            files,
            contenders,
            protections: named(&self.protection, &[Protection::Default, Protection::Recommended]),
            faults: named(&self.fault, &EndpointFault::ALL),
            fault_seconds,
            rate: self.rate,
            measured,
            pins: !self.no_pin,
            installs: !self.no_install,
            save: self.save.clone().unwrap_or_else(unused_name),
            // Words after `weir lab faults`.
            words: std::env::args().skip(3).collect(),
        })
    }
}

/// The named ones, each once; all if none is named.
fn named<T: Copy + PartialEq>(names: &[T], all: &[T]) -> Vec<T> {
    all.iter().copied().filter(|one| names.is_empty() || names.contains(one)).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        faults: FaultsArguments,
    }

    fn parse(line: &str) -> FaultsArguments {
        let words = ["faults"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).unwrap().faults
    }

    #[test]
    fn named_faults_keep_their_order() {
        let arguments = parse("--fault restart dies --protection recommended");
        assert_eq!(
            named(&arguments.fault, &EndpointFault::ALL),
            [EndpointFault::Dies, EndpointFault::Restart]
        );
        assert_eq!(arguments.protection, [Protection::Recommended]);
        assert_eq!(named(&parse("").fault, &EndpointFault::ALL), EndpointFault::ALL);
    }

    #[test]
    fn impossible_lengths_and_rates_are_refused() {
        for (line, reason) in [
            ("--seconds 0.5", "--seconds is between 1 and 3600"),
            ("--seconds NaN", "--seconds is between"),
            ("--rate 0", "--rate is between 1 and 100000"),
        ] {
            let error = parse(line).settings().unwrap_err().to_string();
            assert!(error.contains(reason), "{line}: {error}");
        }
    }
}
