//! `weir lab faults` from its settings to its report: gateways in front of endpoints that begin to fail and
//! recover under a load that does not wait for them. The modules below run the endpoints and follow single
//! runs.

mod arrivals;
mod course;
mod endpoint;
mod plan;
mod refused;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

pub use plan::EndpointFault;
use plan::Phases;

use crate::contender::Definition;
use crate::files::LabFiles;
use crate::placement::{self, Placement};
use crate::ports::Ports;
use crate::process::cores;
use crate::process::guard::raise_descriptor_limit;
use crate::report::{faults as tables, json, number};
use crate::result::{FORMAT, FaultResults, FaultRun, Protection, RunReport};
use crate::run::{self, Binaries, INTERRUPTED, Interrupt, Interrupted, RunningPrograms};
use crate::terminal::{Paint, print_error, print_line};
use crate::{machine, tools};
use course::{CONNECTIONS, Course, TIMEOUT};

/// The arguments of the command line, parsed and checked.
#[derive(Debug)]
pub struct FaultRunSettings {
    /// The files of the contenders.
    pub files: LabFiles,
    /// The contenders.
    pub contenders: Vec<Definition>,
    /// The settings with which each is measured.
    pub protections: Vec<Protection>,
    /// The faults, in this order.
    pub faults: Vec<EndpointFault>,
    /// Length of a fault in seconds.
    pub fault_seconds: f64,
    /// Requests per second; half of the lowest capacity if absent.
    pub rate: Option<f64>,
    /// The binary of Weir that is measured.
    pub measured: Binaries,
    /// Whether gateway, load generator and endpoints have cores of their own.
    pub pins: bool,
    /// Whether missing programs may be installed.
    pub installs: bool,
    /// Where the report is kept.
    pub save: PathBuf,
    /// The words of the command line, for the command that repeats the run.
    pub words: Vec<String>,
}

/// Part of the lowest capacity that the load is.
const RATE_SHARE: f64 = 0.5;
/// Seconds that a run takes beside its phases: start, warm-up, end.
const BESIDE_S: f64 = 2.0;

/// Runs the measurement. The report is stored after every fault, so that an interrupted run keeps its
/// finished part. The exit code is 1 if a contender that is installed has no result.
pub fn measure_faults(settings: &FaultRunSettings) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::listen()?;
    raise_descriptor_limit();
    tools::need("curl", "curl", settings.installs)?;
    let mut warnings = placement::disturbances();
    let usable = cores::usable();
    let pinned = if settings.pins { usable.clone() } else { Vec::new() };
    let placement = Placement::on(&pinned, 1);
    warnings.extend(placement.warnings());
    if !placement.load.is_empty() {
        cores::pin(&placement.load)?;
    }
    let mut report = RunReport {
        format: FORMAT,
        weir: env!("CARGO_PKG_VERSION").to_owned(),
        started: run::now(),
        seconds: 0.0,
        command: run::quote_lab_command("faults", &settings.words),
        interrupted: false,
        machine: machine::describe(usable.len(), &placement, warnings),
        contenders: Vec::new(),
        scenarios: Vec::new(),
        faults: None,
    };
    let (program, files) = (std::env::current_exe()?, settings.files.clone());
    let measured = settings.measured.clone();
    let mut stage =
        RunningPrograms::new(program, files, measured, Ports::default(), pinned, interrupt.clone())?;
    let began = Instant::now();
    let outcome = measure(settings, &mut stage, &mut report, &interrupt, began);
    report.seconds = began.elapsed().as_secs_f64();
    report.interrupted = matches!(&outcome, Err(error) if error.is::<Interrupted>());
    let has_runs = report.faults.as_ref().is_some_and(|faults| !faults.runs.is_empty());
    if has_runs {
        json::write_report(&report, &settings.save)?;
        print_line(format_args!("kept as {}", settings.save.display()));
    }
    match outcome {
        Err(error) if error.is::<Interrupted>() => {
            print_error(if has_runs {
                "interrupted; finished runs are kept"
            } else {
                "interrupted; nothing was measured yet"
            });
            Ok(ExitCode::from(INTERRUPTED))
        }
        Err(error) => Err(error),
        Ok(()) => {
            let is_whole = |faults: &FaultResults| faults.runs.iter().all(|run| run.absent.is_none());
            let is_whole = has_runs && report.faults.as_ref().is_some_and(is_whole);
            Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

fn measure(
    settings: &FaultRunSettings,
    stage: &mut RunningPrograms,
    report: &mut RunReport,
    interrupt: &Interrupt,
    began: Instant,
) -> anyhow::Result<()> {
    let present = run::install(&settings.contenders, settings.installs, stage, report)?;
    let phases = Phases::of(settings.fault_seconds);
    announce(settings, report, &phases, present.len());
    let mut course = Course { stage, interrupt, phases, rate: 1.0 };
    let (rate, rate_from) = rate(settings, &mut course, &present)?;
    course.rate = rate;
    report.faults = Some(FaultResults {
        fault_seconds: settings.fault_seconds,
        connections: CONNECTIONS,
        rate,
        rate_from,
        timeout_ms: TIMEOUT.as_millis() as u64,
        runs: Vec::new(),
    });
    for &fault in &settings.faults {
        for definition in &present {
            for &protection in &settings.protections {
                interrupt.check()?;
                let run = one(&mut course, fault, definition, protection)?;
                report.faults.as_mut().expect("it was just set").runs.push(run);
            }
        }
        report.seconds = began.elapsed().as_secs_f64();
        json::write_report(report, &settings.save)?;
        print_line(format_args!("\n{}", tables::of_fault(report, fault, Paint::for_stdout())));
    }
    Ok(())
}

/// One run; a contender that does not start or ends is absent, with the reason, and the others follow.
fn one(
    course: &mut Course<'_>,
    fault: EndpointFault,
    definition: &Definition,
    protection: Protection,
) -> anyhow::Result<FaultRun> {
    print_error(format_args!("{}: {} {}", fault.name(), definition.name, protection.name()));
    match course.run(fault, definition, protection) {
        Err(error) if !error.is::<Interrupted>() => Ok(FaultRun {
            fault,
            contender: definition.name.clone(),
            protection,
            absent: Some(format!("{error:#}")),
            phases: Vec::new(),
            faulty: None,
            unsent: 0,
            notes: Vec::new(),
        }),
        other => other,
    }
}

/// The rate of all runs, and the contender that it was made from: half of the lowest capacity with default
/// settings. Fails if no contender could be measured.
fn rate(
    settings: &FaultRunSettings,
    course: &mut Course<'_>,
    present: &[Definition],
) -> anyhow::Result<(f64, Option<String>)> {
    if let Some(rate) = settings.rate {
        return Ok((rate, None));
    }
    let mut lowest: Option<(f64, String)> = None;
    for definition in present {
        course.interrupt.check()?;
        match course.capacity(definition) {
            Ok(capacity) => {
                print_line(format_args!("  {}: {capacity:.0} requests a second at most", definition.name));
                if lowest.as_ref().is_none_or(|(least, _)| capacity < *least) {
                    lowest = Some((capacity, definition.name.clone()));
                }
            }
            Err(error) if error.is::<Interrupted>() => return Err(error),
            Err(error) => print_error(format_args!("{}: {error:#}", definition.name)),
        }
    }
    let (capacity, name) = lowest.ok_or_else(|| anyhow::anyhow!("no contender could be measured"))?;
    Ok(((capacity * RATE_SHARE).max(1.0).round(), Some(name)))
}

/// Announces the runs, and how long they will take.
fn announce(settings: &FaultRunSettings, report: &RunReport, phases: &Phases, present: usize) {
    let runs = settings.faults.len() * present * settings.protections.len();
    print_line(format_args!(
        "{} faults of {} s, {present} contenders, {runs} runs: about {}",
        settings.faults.len(),
        settings.fault_seconds,
        number::duration(runs as f64 * (phases.all().as_secs_f64() + BESIDE_S))
    ));
    for facts in &report.contenders {
        if let Some(version) = &facts.version {
            print_line(format_args!("  {}: {version}", facts.definition.name));
        }
    }
    for warning in &report.machine.warnings {
        print_line(format_args!("{} {warning}", Paint::for_stdout().noted("(!)")));
    }
}
