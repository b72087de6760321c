//! One scenario: all contenders are started and warmed up, then the measured rounds follow. Measured runs are
//! put into the result at once, so that an interrupted run keeps them. It prints nothing but progress.

use anyhow::anyhow;

use super::at_once;
use super::interrupt::{Interrupt, Interrupted};
use super::measure::{LOOK_EVERY, Measurement};
use super::plan::PlannedScenario;
use super::progress::Progress;
use super::stage::{RunningPrograms, Setup};
use crate::result::{ContenderResult, MeasuredRun, ScenarioResult};
use crate::scenario::Scenario;

/// Measures a step; `result` has its contenders already, in the step's order.
pub(super) fn measure_rounds(
    stage: &mut RunningPrograms,
    step: &PlannedScenario,
    result: &mut ScenarioResult,
    progress: &Progress,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    stage.set(Setup::of(&step.scenario))?;
    stage.end_unusual(&step.contenders);
    let mut scenario = step.scenario.clone();
    for index in 0..step.contenders.len() {
        warm_up(stage, step, index, result, progress, interrupt)?;
    }
    pace(&mut scenario, result);
    result.scenario.load.rate = scenario.load.rate;
    for round in 0..step.rounds {
        if scenario.together {
            at_once::round(stage, step, &scenario, round, result, interrupt)?;
            progress.advance(step.run_seconds());
            continue;
        }
        if step.turn_ms.is_some() {
            if round > 0 {
                (0..step.contenders.len())
                    .try_for_each(|index| start_anew(stage, step, index, result, progress, interrupt))?;
            }
            let name = &scenario.name;
            progress.say(format_args!("{name}, round {} of {}: in turns", round + 1, step.rounds), false);
            at_once::round(stage, step, &scenario, round, result, interrupt)?;
            progress.advance(step.run_seconds() * step.contenders.len() as f64);
            continue;
        }
        for index in step.order(round) {
            let name = &step.contenders[index].name;
            if result.contenders[index].absent.is_none() {
                progress.say(
                    format_args!("{}, round {} of {}: {name}", scenario.name, round + 1, step.rounds),
                    false,
                );
                let scenario = bounded(&scenario, &result.contenders[index], step.seconds);
                let run = one(stage, &scenario, name, step.seconds, round, result, interrupt);
                keep(stage, name, &mut result.contenders[index], run)?;
            }
            progress.advance(step.run_seconds());
        }
    }
    Ok(())
}

/// Starts a contender if necessary and warms it up; one that cannot start is absent.
fn warm_up(
    stage: &mut RunningPrograms,
    step: &PlannedScenario,
    index: usize,
    result: &mut ScenarioResult,
    progress: &Progress,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let definition = &step.contenders[index];
    progress.say(format_args!("{}, warming up: {}", step.scenario.name, definition.name), false);
    let started = stage.contender(definition).and_then(|()| Ok(stage.running(&definition.name)?.is_warm));
    let outcome = match started {
        Ok(is_warm) => {
            let seconds = step.warm_up_seconds(definition, is_warm);
            let mut scenario = step.scenario.clone();
            // Without a rate, so that the rate can be derived from the warm-up; nothing runs beside it.
            (scenario.load.rate, scenario.load.rate_share, scenario.load.requests) = (None, None, None);
            (scenario.idle_connections, scenario.slow_clients, scenario.changes_per_second) = (0, 0, 0.0);
            let run = one(stage, &scenario, &definition.name, seconds, 0, result, interrupt);
            progress.advance(seconds);
            run
        }
        Err(error) => Err(error),
    };
    let contender = &mut result.contenders[index];
    match outcome {
        Ok(run) => {
            stage.running(&definition.name)?.is_warm = true;
            contender.warm_up.get_or_insert_default().add(&run.load);
            Ok(())
        }
        Err(error) => drop_out(stage, contender, error),
    }
}

/// A new process for each round, because two processes of one program differ by up to three percent for their
/// lifetime, which is not a property of the program. Virtual machines, which take seconds to warm up, are
/// kept.
fn start_anew(
    stage: &mut RunningPrograms,
    step: &PlannedScenario,
    index: usize,
    result: &mut ScenarioResult,
    progress: &Progress,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let definition = &step.contenders[index];
    if !step.starts_anew(definition) || result.contenders[index].absent.is_some() {
        return Ok(());
    }
    stage.end(&definition.name);
    warm_up(stage, step, index, result, progress, interrupt)
}

/// One run from its beginning to its end.
fn one(
    stage: &mut RunningPrograms,
    scenario: &Scenario,
    name: &str,
    seconds: f64,
    round: u32,
    result: &mut ScenarioResult,
    interrupt: &Interrupt,
) -> anyhow::Result<MeasuredRun> {
    interrupt.check()?;
    let mut measurement = Measurement::begin(stage, scenario, name, seconds)?;
    loop {
        std::thread::sleep(LOOK_EVERY);
        interrupt.check()?;
        if let Some(run) = measurement.look(stage.running(name)?, round)? {
            note(result, measurement.notes(name));
            return Ok(run);
        }
    }
}

/// Puts a run into the result, or removes its contender from the scenario.
pub(super) fn keep(
    stage: &mut RunningPrograms,
    name: &str,
    contender: &mut ContenderResult,
    run: anyhow::Result<MeasuredRun>,
) -> anyhow::Result<()> {
    match run {
        Ok(run) => {
            contender.runs.push(run);
            Ok(())
        }
        Err(error) => {
            let rounds = contender.runs.len();
            let error = match rounds {
                _ if error.is::<Interrupted>() => error,
                0 => error,
                1 => anyhow!("it dropped out after 1 round: {error:#}"),
                _ => anyhow!("it dropped out after {rounds} rounds: {error:#}"),
            };
            stage.end(name);
            drop_out(stage, contender, error)
        }
    }
}

/// A contender that cannot continue is absent from now on; only an interrupt ends the run.
pub(super) fn drop_out(
    stage: &mut RunningPrograms,
    contender: &mut ContenderResult,
    error: anyhow::Error,
) -> anyhow::Result<()> {
    if error.is::<Interrupted>() {
        return Err(error);
    }
    stage.end(&contender.name);
    contender.absent = Some(format!("{error:#}"));
    Ok(())
}

/// A number of requests that would take longer than a run may is replaced by the run's length.
pub(super) fn bounded(scenario: &Scenario, contender: &ContenderResult, seconds: f64) -> Scenario {
    let mut scenario = scenario.clone();
    let speed = contender.warm_up.as_ref().map_or(0.0, |one| one.requests as f64 / one.seconds.max(1e-9));
    scenario.load.requests = scenario.load.requests.filter(|&requests| requests as f64 <= speed * seconds);
    scenario
}

/// Converts a share of the slowest contender's throughput into a rate, the same for all.
fn pace(scenario: &mut Scenario, result: &mut ScenarioResult) {
    let Some(share) = scenario.load.rate_share.take() else { return };
    let speeds =
        result.contenders.iter().filter(|contender| contender.absent.is_none()).filter_map(|contender| {
            let warm_up = contender.warm_up.as_ref()?;
            Some((warm_up.requests as f64 / warm_up.seconds.max(1e-9), contender.name.clone()))
        });
    let Some((slowest, name)) = speeds.min_by(|one, other| one.0.total_cmp(&other.0)) else { return };
    let rate = (slowest * share).max(1.0).round();
    scenario.load.rate = Some(rate);
    let sentence = format!(
        "{rate:.0} requests are due in a second: {:.0} % of what {name} answered while warming up.",
        share * 100.0
    );
    note(result, vec![sentence]);
}

fn note(result: &mut ScenarioResult, notes: Vec<String>) {
    for note in notes {
        if !result.notes.contains(&note) {
            result.notes.push(note);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::WarmUp;

    #[test]
    fn a_number_of_requests_is_bounded_by_the_time() {
        let text = "title: a\nabout: b\nload: {tool: ab, connections: 3, requests: 10000}\n";
        let scenario = Scenario::parse("s", text).unwrap();
        let contender = |requests| ContenderResult {
            name: "one".to_owned(),
            absent: None,
            warm_up: Some(WarmUp { seconds: 2.0, requests, failures: Default::default() }),
            runs: Vec::new(),
        };
        assert_eq!(bounded(&scenario, &contender(10_000), 2.0).load.requests, Some(10_000));
        assert_eq!(bounded(&scenario, &contender(9_000), 2.0).load.requests, None);
        assert_eq!(bounded(&scenario, &contender(9_000), 600.0).load.requests, Some(10_000));
    }

    #[test]
    fn a_rate_is_a_share_of_the_slowest() {
        let text = "title: a\nabout: b\nload: {tool: weir, connections: 3, rate_share: 0.5}\n";
        let mut scenario = Scenario::parse("s", text).unwrap();
        let contender = |name: &str, requests, absent: Option<&str>| ContenderResult {
            name: name.to_owned(),
            absent: absent.map(ToOwned::to_owned),
            warm_up: Some(WarmUp { seconds: 2.0, requests, failures: Default::default() }),
            runs: Vec::new(),
        };
        let mut result = ScenarioResult {
            scenario: scenario.clone(),
            command: String::new(),
            baseline: None,
            contenders: vec![
                contender("fast", 9000, None),
                contender("slow", 4000, None),
                contender("gone", 10, Some("it ended")),
            ],
            notes: Vec::new(),
        };
        pace(&mut scenario, &mut result);
        assert_eq!((scenario.load.rate, scenario.load.rate_share), (Some(1000.0), None));
        assert!(result.notes[0].contains("50 % of what slow answered"), "{:?}", result.notes);
        pace(&mut scenario, &mut result);
        assert_eq!(result.notes.len(), 1, "a fixed rate stays");
    }
}
