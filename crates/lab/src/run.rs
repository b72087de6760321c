//! `weir lab run` from its plan to its report. The modules below start the programs and measure single runs.

mod at_once;
mod beside;
mod interrupt;
mod measure;
mod plan;
mod probe;
mod progress;
mod rounds;
mod stage;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use stdx::clock::HttpDate;

use crate::contender::Definition;
use crate::files::LabFiles;
use crate::placement::{self, Placement};
use crate::ports::Ports;
use crate::process::cores;
use crate::process::guard::raise_descriptor_limit;
use crate::report::{json, number, terminal};
use crate::result::{ContenderFacts, ContenderResult, FORMAT, RunReport, ScenarioResult};
use crate::scenario::Scenario;
use crate::terminal::{Paint, print_error, print_line};
use crate::{machine, tools};
pub use interrupt::{Interrupt, Interrupted};
pub use plan::{Binaries, Wishes};
use plan::{PlannedScenario, estimated_seconds};
use progress::Progress;
pub use stage::RunningPrograms;

/// The arguments of the command line, parsed and checked.
#[derive(Debug)]
pub struct RunSettings {
    /// The files of scenarios and contenders.
    pub files: LabFiles,
    /// The scenarios, in this order as far as setups allow.
    pub scenarios: Vec<Scenario>,
    /// The contenders.
    pub contenders: Vec<Definition>,
    /// Names of contenders that are further builds of Weir.
    pub also: Vec<String>,
    /// The binary that each of these contenders runs.
    pub measured: Binaries,
    /// Rounds, seconds and other choices.
    pub wishes: Wishes,
    /// Whether gateway, load generator and origin have cores of their own.
    pub pins: bool,
    /// Whether missing programs may be installed.
    pub installs: bool,
    /// The first port, if one was requested.
    pub port: Option<u16>,
    /// Where the report is kept.
    pub save: PathBuf,
    /// The words of the command line, for the command that repeats the run.
    pub words: Vec<String>,
    /// The part of the words that the command of each scenario repeats.
    pub choices: Vec<String>,
}

/// Long, because Maven projects and Rust programs are built.
const INSTALL_LIMIT: Duration = Duration::from_secs(45 * 60);
/// Longest time of a contender to print its version, which for a virtual machine may take long.
const VERSION_LIMIT: Duration = Duration::from_secs(60);
/// The exit code of a shell after Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;

/// Runs the measurement. The report is stored after every scenario, so that an interrupted run keeps its
/// finished part.
pub fn measure_scenarios(settings: RunSettings) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::listen()?;
    raise_descriptor_limit();
    let program = std::env::current_exe()?;
    tools::need("curl", "curl", settings.installs)?;
    let mut warnings = placement::disturbances();
    let usable = cores::usable();
    let pinned = if settings.pins { usable.clone() } else { Vec::new() };
    let placement = Placement::on(&pinned, 1);
    warnings.extend(placement.warnings());
    if usable.len() < 2 {
        warnings.push(
            "This machine has one core: everybody shares it, and only CPU per request says something."
                .to_owned(),
        );
    }
    if !placement.load.is_empty() {
        // The laboratory's own work must not disturb the gateway.
        cores::pin(&placement.load)?;
    }
    let mut report = RunReport {
        format: FORMAT,
        weir: env!("CARGO_PKG_VERSION").to_owned(),
        started: now(),
        seconds: 0.0,
        command: quote_lab_command("run", &settings.words),
        interrupted: false,
        machine: machine::describe(usable.len(), &placement, warnings),
        contenders: Vec::new(),
        scenarios: Vec::new(),
        faults: None,
    };
    let ports = Ports::from(settings.port);
    let measured = settings.measured.clone();
    let files = settings.files.clone();
    let mut stage = RunningPrograms::new(program, files, measured, ports, pinned, interrupt.clone())?;
    let began = Instant::now();
    let outcome = measure_all(&settings, &mut stage, &mut report, &interrupt, began);
    stage.clear();
    report.seconds = began.elapsed().as_secs_f64();
    report.interrupted = matches!(&outcome, Err(error) if error.is::<Interrupted>());
    if !report.scenarios.is_empty() {
        json::write_report(&report, &settings.save)?;
    }
    match outcome {
        Err(error) if error.is::<Interrupted>() => {
            let kept = if report.scenarios.is_empty() {
                "nothing was measured yet"
            } else {
                "what was measured is kept as"
            };
            print_error(format_args!("interrupted; {kept} {}", settings.kept(&report)));
            Ok(ExitCode::from(INTERRUPTED))
        }
        Err(error) => Err(error),
        Ok(()) => {
            print_line(format_args!("kept as {}", settings.kept(&report)));
            let measured = |result: &ScenarioResult| result.contenders.iter().any(|one| !one.runs.is_empty());
            let all = report.scenarios.iter().all(measured);
            Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

fn measure_all(
    settings: &RunSettings,
    stage: &mut RunningPrograms,
    report: &mut RunReport,
    interrupt: &Interrupt,
    began: Instant,
) -> anyhow::Result<()> {
    let present = install(&settings.contenders, settings.installs, stage, report)?;
    let all: Vec<PlannedScenario> = settings
        .scenarios
        .iter()
        .map(|scenario| PlannedScenario::new(scenario, &present, &settings.also, &settings.wishes))
        .collect();
    let mut steps = all;
    plan::sort_by_setup(&mut steps);
    announce(&steps, report);
    let progress = Progress::new(estimated_seconds(&steps));
    for (index, step) in steps.iter().enumerate() {
        interrupt.check()?;
        progress.say(
            format_args!("{} of {}: {}, {}", index + 1, steps.len(), step.scenario.name, step.scenario.title),
            true,
        );
        report.scenarios.push(settings.empty_result(step));
        let result = report.scenarios.last_mut().expect("it was just pushed");
        let outcome = measure_step(settings, stage, step, result, &progress, interrupt);
        let is_over = !matches!(&outcome, Err(error) if error.is::<Interrupted>());
        let has_runs = result.contenders.iter().any(|one| !one.runs.is_empty());
        if !is_over && !has_runs {
            report.scenarios.pop();
        }
        outcome?;
        report.seconds = began.elapsed().as_secs_f64();
        json::write_report(report, &settings.save)?;
        let result = report.scenarios.last().expect("it was pushed above");
        progress.print(format_args!("\n{}", terminal::render_scenario(report, result)));
    }
    Ok(())
}

/// Measures one scenario; if it cannot be measured, a note says why, and the run continues.
fn measure_step(
    settings: &RunSettings,
    stage: &mut RunningPrograms,
    step: &PlannedScenario,
    result: &mut ScenarioResult,
    progress: &Progress,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let needed = tools::package(step.scenario.load.tool);
    let outcome = match needed {
        Some((program, package)) => tools::need(program, package, settings.installs).map(drop),
        None => Ok(()),
    };
    let outcome = outcome.and_then(|()| rounds::measure_rounds(stage, step, result, progress, interrupt));
    // Settings differ from step to step, so a warning about the cores is reported with its step.
    let cores = stage.placement().warnings();
    if step.scenario.workers > 1 {
        result.notes.extend(cores);
    }
    match outcome {
        Err(error) if !error.is::<Interrupted>() => {
            let reason = format!("{error:#}");
            progress.say(format_args!("{}: {reason}", step.scenario.name), true);
            for contender in &mut result.contenders {
                contender.absent.get_or_insert_with(|| reason.clone());
            }
            stage.clear();
            Ok(())
        }
        other => other,
    }
}

/// Installs all contenders; one that cannot be installed is absent from the whole run, with the reason.
pub(crate) fn install(
    contenders: &[Definition],
    installs: bool,
    stage: &RunningPrograms,
    report: &mut RunReport,
) -> anyhow::Result<Vec<Definition>> {
    let mut present = Vec::new();
    let paint = Paint::for_stderr();
    for definition in contenders {
        let installed =
            if installs { stage.script(definition, "install", INSTALL_LIMIT).map(drop) } else { Ok(()) };
        let version = installed.and_then(|()| stage.script(definition, "version", VERSION_LIMIT));
        let (version, absent) = match version {
            Ok(text) => (text.lines().next().map(|line| line.trim().to_owned()), None),
            Err(error) if error.is::<Interrupted>() => return Err(error),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        match &absent {
            None => present.push(definition.clone()),
            Some(reason) => {
                print_error(format_args!("{} {}: {reason}", paint.noted("absent:"), definition.name))
            }
        }
        report.contenders.push(ContenderFacts { definition: definition.clone(), version, absent });
    }
    Ok(present)
}

/// Announces the steps, and how long they will take.
fn announce(steps: &[PlannedScenario], report: &RunReport) {
    let paint = Paint::for_stdout();
    let runs: usize = steps.iter().map(|step| step.contenders.len() * step.rounds as usize).sum();
    print_line(format_args!(
        "{} scenarios, {} contenders, {runs} measured runs in interleaved rounds: about {}",
        steps.len(),
        report.contenders.iter().filter(|facts| facts.absent.is_none()).count(),
        number::duration(estimated_seconds(steps)),
    ));
    let machine = &report.machine;
    if !machine.gateway_cores.is_empty() {
        print_line(format_args!(
            "cores: gateway {:?}, load {:?}, origin {:?}",
            machine.gateway_cores, machine.load_cores, machine.origin_cores
        ));
    }
    for facts in &report.contenders {
        if let Some(version) = &facts.version {
            print_line(format_args!("  {}: {version}", facts.definition.name));
        }
    }
    for warning in &machine.warnings {
        print_line(format_args!("{} {warning}", paint.noted("(!)")));
    }
}

impl RunSettings {
    fn empty_result(&self, step: &PlannedScenario) -> ScenarioResult {
        let missing = |definition: &Definition| ContenderResult {
            name: definition.name.clone(),
            absent: None,
            warm_up: None,
            runs: Vec::new(),
        };
        let mut words = vec!["--scenario".to_owned(), step.scenario.name.clone()];
        words.extend(["--rounds".to_owned(), step.rounds.to_string()]);
        words.extend(["--seconds".to_owned(), step.seconds.to_string()]);
        words.extend(self.choices.iter().cloned());
        let mut contenders: Vec<ContenderResult> = step.contenders.iter().map(missing).collect();
        contenders.extend(step.absent.iter().cloned());
        ScenarioResult {
            scenario: step.scenario.clone(),
            command: quote_lab_command("run", &words),
            baseline: step.baseline(&self.wishes),
            contenders,
            notes: step.note_turns(&self.wishes).into_iter().collect(),
        }
    }

    fn kept(&self, report: &RunReport) -> String {
        if report.scenarios.is_empty() { String::new() } else { shown(&self.save) }
    }
}

/// A command of the laboratory that a shell reads as these words.
pub(crate) fn quote_lab_command(name: &str, words: &[String]) -> String {
    let plain = |word: &str| {
        !word.is_empty() && word.chars().all(|one| one.is_ascii_alphanumeric() || "-_./=:,@%+".contains(one))
    };
    let quoted = words.iter().map(|word| match plain(word) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    });
    [format!("weir lab {name}")].into_iter().chain(quoted).collect::<Vec<_>>().join(" ")
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The present time in the form of RFC 3339, in UTC.
pub(crate) fn now() -> String {
    let seconds = stdx::clock::unix_time().as_secs();
    rfc3339(&String::from_utf8_lossy(HttpDate::new().at(seconds)))
}

/// Converts a date of HTTP (`Sun, 06 Nov 1994 08:49:37 GMT`) to the form of RFC 3339.
fn rfc3339(date: &str) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = MONTHS.iter().position(|&name| name == &date[8..11]).map_or(0, |index| index + 1);
    format!("{}-{month:02}-{}T{}Z", &date[12..16], &date[5..7], &date[17..25])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_copied() {
        let words = ["--also", "b=c/weir", "--save", "my result's.json", ""].map(str::to_owned);
        assert_eq!(
            quote_lab_command("run", &words),
            r"weir lab run --also b=c/weir --save 'my result'\''s.json' ''"
        );
    }

    #[test]
    fn moments() {
        assert_eq!(rfc3339("Sun, 06 Nov 1994 08:49:37 GMT"), "1994-11-06T08:49:37Z");
        assert!(now().starts_with("20") && now().len() == 20, "{}", now());
    }
}
