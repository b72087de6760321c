//! `weir lab run`: converts the command line into the settings of a run. It measures nothing.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};

use crate::contender::Definition;
use crate::files::{FilesArguments, LabFiles, select};
use crate::run::{Binaries, RunSettings, Wishes};

/// Arguments of `weir lab run`.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArguments {
    /// A look of a few minutes: two scenarios, the origin alone, nginx, HAProxy and Weir
    #[arg(long)]
    quick: bool,
    /// Only these scenarios
    #[arg(long, value_name = "NAME", num_args = 1..)]
    scenario: Vec<String>,
    /// Only these contenders
    #[arg(long, value_name = "NAME", num_args = 1..)]
    contender: Vec<String>,
    /// Interleaved rounds of every scenario [default: as its file says, else 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Length of one run in seconds [default: as its file says, else 1.5]
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// The contender that others are compared with [default: as the scenario's file says, else nginx]
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// Send all requests of scenarios that have a number of them; else --seconds ends those too
    #[arg(long)]
    full_counts: bool,
    /// Where the result is kept, as JSON [default: weir-lab-TIME.json]
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// The binary of Weir that is measured [default: this program]
    #[arg(long, value_name = "PATH")]
    weir: Option<PathBuf>,
    /// Another binary of Weir, as a further contender of this name
    #[arg(long, value_name = "NAME=PATH")]
    also: Vec<String>,
    /// The contenders of a round take turns of so many milliseconds: CPU per request only, but of differences
    /// of few percent
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(TURN_MS))]
    turn_ms: Option<u64>,
    /// Pin no process to cores
    #[arg(long)]
    no_pin: bool,
    /// Install nothing: what is missing is absent
    #[arg(long)]
    no_install: bool,
    /// The first port of origin and contenders, the others follow [default: free ones]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    #[command(flatten)]
    files: FilesArguments,
}

/// Contenders of `--quick`.
const QUICK: [&str; 4] = ["direct", "nginx", "haproxy", "weir"];
/// Shorter runs consist only of their edges; a longer one is probably meant in another unit.
const SECONDS: std::ops::RangeInclusive<f64> = 0.1..=86_400.0;

/// Shorter turns consist only of their edges; in longer ones the machine changes, and other contenders wait.
const TURN_MS: std::ops::RangeInclusive<u64> = 5..=250;

/// Runs the measurement.
pub fn execute_lab_run(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    crate::run::measure_scenarios(arguments.settings()?)
}

impl RunArguments {
    fn settings(&self) -> anyhow::Result<RunSettings> {
        if self.seconds.is_some_and(|seconds| !SECONDS.contains(&seconds)) {
            bail!("--seconds is between {} and {}", SECONDS.start(), SECONDS.end());
        }
        let files = LabFiles::open(&self.files)?;
        let scenarios = select(
            "scenario",
            &files.scenarios()?,
            &self.scenario,
            |one| &one.name,
            |one| !self.quick || one.quick,
        )?;
        let mut all = files.contenders()?;
        let (measured, also) = self.binaries(&mut all)?;
        let usual = |one: &Definition| !self.quick || QUICK.contains(&one.name.as_str());
        let mut contenders = select("contender", &all, &self.contender, |one| &one.name, |one| usual(one))?;
        for name in &also {
            if !contenders.iter().any(|one| &one.name == name) {
                contenders.extend(all.iter().find(|one| &one.name == name).cloned());
            }
        }
        if self.contender.is_empty() {
            let wanted = |one: &Definition| {
                one.usual
                    || scenarios
                        .iter()
                        .flat_map(|scenario| scenario.contenders.iter().flatten())
                        .any(|name| name == &one.name)
            };
            contenders.retain(wanted);
        }
        if let Some(baseline) = &self.baseline {
            select("contender", &contenders, std::slice::from_ref(baseline), |one| &one.name, |_| true)
                .context("--baseline does not take part")?;
        }
        Ok(RunSettings {
            files,
            scenarios,
            contenders,
            also,
            measured,
            wishes: Wishes {
                rounds: self.rounds,
                seconds: self.seconds,
                baseline: self.baseline.clone(),
                named: !self.contender.is_empty(),
                quick: self.quick,
                full_counts: self.full_counts,
                turn_ms: self.turn_ms,
            },
            pins: !self.no_pin,
            installs: !self.no_install,
            port: self.port,
            save: self.save.clone().unwrap_or_else(unused_name),
            // Words after `weir lab run`.
            words: std::env::args().skip(3).collect(),
            choices: self.choices(),
        })
    }

    /// The part of this command line that the command of a single scenario has to repeat, besides its
    /// scenario, rounds and seconds.
    fn choices(&self) -> Vec<String> {
        let mut words = Vec::new();
        let named: Vec<String> = match (self.contender.is_empty(), self.quick) {
            (true, true) => QUICK.map(str::to_owned).to_vec(),
            _ => self.contender.clone(),
        };
        if !named.is_empty() {
            words.push("--contender".to_owned());
            words.extend(named);
        }
        let path = |path: &PathBuf| path.display().to_string();
        let valued = [
            ("--baseline", self.baseline.clone()),
            ("--turn-ms", self.turn_ms.map(|turn_ms| turn_ms.to_string())),
            ("--weir", self.weir.as_ref().map(path)),
            ("--files", self.files.files.as_ref().map(path)),
            ("--port", self.port.map(|port| port.to_string())),
        ];
        for (option, value) in valued {
            words.extend(value.into_iter().flat_map(|value| [option.to_owned(), value]));
        }
        words.extend(self.also.iter().flat_map(|also| ["--also".to_owned(), also.clone()]));
        let switches = [
            ("--full-counts", self.full_counts),
            ("--no-pin", self.no_pin),
            ("--no-install", self.no_install),
        ];
        words.extend(switches.into_iter().filter(|(_, on)| *on).map(|(option, _)| option.to_owned()));
        words
    }

    /// Which binaries of Weir are measured; those of `--also` become contenders.
    fn binaries(&self, all: &mut Vec<Definition>) -> anyhow::Result<(Binaries, Vec<String>)> {
        let mut measured = Binaries::new();
        // The origin is always this program's, whatever is measured.
        measured.insert("direct".to_owned(), std::env::current_exe()?);
        if let Some(path) = &self.weir {
            measured.insert("weir".to_owned(), resolve_program(path)?);
        }
        let mut also = Vec::new();
        for text in &self.also {
            let (name, path) =
                text.split_once('=').with_context(|| format!("--also {text}: it is NAME=PATH"))?;
            if all.iter().any(|one| one.name == name) {
                bail!("--also {text}: there is a contender `{name}` already");
            }
            let weir = all.iter().find(|one| one.name == "weir");
            let mut definition = weir.context("--also needs a contender `weir`")?.clone();
            definition.title = format!("{} ({name})", definition.title);
            name.clone_into(&mut definition.name);
            definition.variant_of = Some("weir".to_owned());
            all.push(definition);
            measured.insert(name.to_owned(), resolve_program(&PathBuf::from(path))?);
            also.push(name.to_owned());
        }
        Ok((measured, also))
    }
}

pub(super) fn resolve_program(path: &std::path::Path) -> anyhow::Result<PathBuf> {
    std::fs::canonicalize(path).with_context(|| format!("{}: no such program", path.display()))
}

pub(super) fn unused_name() -> PathBuf {
    let seconds = stdx::clock::unix_time().as_secs();
    PathBuf::from(format!("weir-lab-{seconds}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        run: RunArguments,
    }

    #[test]
    fn command_of_scenario_repeats_choices() {
        for (line, choices) in [
            ("", ""),
            ("--quick", "--contender direct nginx haproxy weir"),
            ("--quick --contender weir", "--contender weir"),
            ("--scenario small --rounds 7 --seconds 1 --save x.json --baseline weir", "--baseline weir"),
            (
                "--weir a/weir --also b=c/weir --no-pin --no-install --full-counts --port 9000",
                "--weir a/weir --port 9000 --also b=c/weir --full-counts --no-pin --no-install",
            ),
            ("--files lab", "--files lab"),
            ("--turn-ms 20 --seconds 2", "--turn-ms 20"),
        ] {
            let words = ["run"].into_iter().chain(line.split_whitespace());
            let run = Line::try_parse_from(words).unwrap().run;
            assert_eq!(run.choices().join(" "), choices, "{line}");
        }
    }
}
