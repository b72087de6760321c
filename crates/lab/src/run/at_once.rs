//! Rounds in which the load generators of all contenders are there at the same time: competing for the machine, or in
//! turns. Everything else about a round, it does not know.
//!
//! **Turns.** A shared machine is slower for some tenths of a second now and then; two contenders that are measured one
//! after the other meet different machines. Here one load generator goes on for a few milliseconds while the others are
//! held up (`SIGSTOP`), so that all meet the same. Where rounds of a second scattered by 13 %, rounds in turns of 20 ms did
//! by about 2 %. What a clock measures is spoilt by it, so only CPU per answer is told.

use std::time::Duration;

use anyhow::bail;

use super::interrupt::Interrupt;
use super::measure::{LOOK_EVERY, Measurement};
use super::plan::Step;
use super::rounds::{bounded, drop_out, keep};
use super::stage::Stage;
use crate::result::ScenarioResult;
use crate::scenario::Scenario;

/// A load generator is not held up longer: wrk's answers are late after two seconds.
const LONGEST_HOLD_MS: u64 = 1000;

/// One round of all that take part.
pub(super) fn round(
    stage: &mut Stage,
    step: &Step,
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
            // Each has the time of a run for itself.
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
    fn nobody_waits_longer_than_a_load_generator_can() {
        for (turn_ms, contenders, fits) in
            [(None, 100, true), (Some(20), 0, true), (Some(20), 51, true), (Some(20), 52, false)]
        {
            assert_eq!(check_hold(turn_ms, contenders).is_ok(), fits, "{turn_ms:?} {contenders}");
        }
        let told = check_hold(Some(250), 6).unwrap_err().to_string();
        assert!(told.contains("6 contenders in turns would wait 1250 ms"), "{told}");
    }
}
