//! Rounds with the load generators of all contenders at the same time: competing for the machine, or in
//! turns. It knows nothing else about a round.
//!
//! **Turns.** A shared machine is slower for some tenths of a second now and then, so two contenders that are
//! measured one after the other have different conditions. Here one load generator runs for a few
//! milliseconds while the others are stopped (`SIGSTOP`), so that all have the same conditions. Rounds of a
//! second scattered by 13 %, rounds in turns of 20 ms by about 2 %. Figures of the clock become invalid, so
//! only CPU per response is reported.

use std::time::Duration;

use anyhow::bail;

use super::interrupt::Interrupt;
use super::measure::{LOOK_EVERY, Measurement};
use super::plan::PlannedScenario;
use super::rounds::{bounded, drop_out, keep};
use super::stage::RunningPrograms;
use crate::result::ScenarioResult;
use crate::scenario::Scenario;

/// A load generator is stopped no longer than this, because wrk gives up responses after two seconds.
const LONGEST_HOLD_MS: u64 = 1000;

/// One round of all participants.
pub(super) fn round(
    stage: &mut RunningPrograms,
    step: &PlannedScenario,
    scenario: &Scenario,
    round: u32,
    result: &mut ScenarioResult,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let present = result.contenders.iter().filter(|one| one.absent.is_none()).count();
    check_hold(step.turn_ms, present)?;
    let mut under_way = Vec::new();
    for index in step.order(round) {
        let contender = &mut result.contenders[index];
        if contender.absent.is_some() {
            continue;
        }
        let begun = match step.turn_ms {
            None => Measurement::begin(stage, scenario, &contender.name, step.seconds),
            // Each has the time of a whole run for itself.
            Some(turn_ms) => {
                let scenario = bounded(scenario, contender, step.seconds);
                let seconds = step.seconds * present as f64;
                Measurement::begin(stage, &scenario, &contender.name, seconds).map(|mut measurement| {
                    measurement.take_turns(turn_ms);
                    measurement
                })
            }
        };
        match begun {
            Ok(measurement) => under_way.push((index, measurement)),
            Err(error) => drop_out(stage, contender, error)?,
        }
    }
    while !under_way.is_empty() {
        match step.turn_ms {
            None => std::thread::sleep(LOOK_EVERY),
            Some(turn_ms) => {
                under_way.iter_mut().for_each(|(_, one)| one.turn(Duration::from_millis(turn_ms)))
            }
        }
        interrupt.check()?;
        let mut still = Vec::new();
        for (index, mut measurement) in under_way {
            let name = result.contenders[index].name.clone();
            let looked = stage.running(&name).and_then(|running| measurement.look(running, round));
            match looked.transpose() {
                None => still.push((index, measurement)),
                Some(run) => keep(stage, &name, &mut result.contenders[index], run)?,
            }
        }
        under_way = still;
    }
    Ok(())
}

fn check_hold(turn_ms: Option<u64>, contenders: usize) -> anyhow::Result<()> {
    let hold_ms = turn_ms.unwrap_or(0) * contenders.saturating_sub(1) as u64;
    if hold_ms > LONGEST_HOLD_MS {
        bail!(
            "{contenders} contenders in turns would wait {hold_ms} ms for each other, {LONGEST_HOLD_MS} at most: \
             name fewer with --contender, or shorten --turn-ms"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_hold_exceeds_load_generator_limit() {
        for (turn_ms, contenders, fits) in
            [(None, 100, true), (Some(20), 0, true), (Some(20), 51, true), (Some(20), 52, false)]
        {
            assert_eq!(check_hold(turn_ms, contenders).is_ok(), fits, "{turn_ms:?} {contenders}");
        }
        let fault = check_hold(Some(250), 6).unwrap_err().to_string();
        assert!(fault.contains("6 contenders in turns would wait 1250 ms"), "{fault}");
    }
}
