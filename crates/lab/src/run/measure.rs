//! One measured run: a load generator against one contender, with the contender's resources. It knows no
//! rounds and no other contender.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::beside::Beside;
use super::stage::{RunningContender, RunningPrograms};
use crate::load::tools::{self, ToolRun};
use crate::process::cores::Ticks;
use crate::process::{Cpu, Memory, ProcessGroup, ProcessTree, Start, Switches};
use crate::result::{LoadOutcome, MeasuredRun, Usage};
use crate::scenario::Scenario;

/// The beginning and the end of a run, when connections are opened and closed, are left out of the busy
/// share.
const EDGE_SECONDS: f64 = 0.3;
/// A load generator that is late by this much counts as hung: some gateways never answer `ab`'s HTTP/1.0.
const LATE_SECONDS: f64 = 20.0;

/// A run in progress.
#[derive(Debug)]
pub(super) struct Measurement {
    scenario: Scenario,
    load: ProcessGroup,
    beside: Beside,
    tree: ProcessTree,
    cores: Vec<usize>,
    began: Instant,
    /// Its planned length at most.
    seconds: f64,
    cpu_before: Cpu,
    switches_before: Switches,
    ticks: Vec<(f64, Ticks)>,
    memory: Option<Memory>,
    turn_ms: Option<u64>,
}

impl Measurement {
    /// Starts the load, after the scenario's activity beside it.
    pub(super) fn begin(
        stage: &mut RunningPrograms,
        scenario: &Scenario,
        name: &str,
        seconds: f64,
    ) -> anyhow::Result<Self> {
        let (program, placement) = (stage.program().to_owned(), stage.placement().clone());
        let directory = stage.fresh_directory("load")?;
        let running = stage.running(name)?;
        running.group.check_running()?;
        let beside = Beside::begin(scenario, running, &program, &placement.load, &directory)?;
        let command = command(scenario, running, seconds, &program)?;
        let tree = running.group.tree();
        let (cpu_before, switches_before) = (tree.cpu(), tree.switches());
        let load = ProcessGroup::start(&Start {
            guard: &program,
            name: "load",
            command: &command,
            environment: &[],
            cores: &placement.load,
            directory: &directory,
        })?;
        Ok(Self {
            scenario: scenario.clone(),
            load,
            beside,
            tree,
            cores: placement.gateway,
            began: Instant::now(),
            seconds,
            cpu_before,
            switches_before,
            ticks: Vec::new(),
            memory: None,
            turn_ms: None,
        })
    }

    /// From now on it runs in its turns only.
    pub(super) fn take_turns(&mut self, turn_ms: u64) {
        self.turn_ms = Some(turn_ms);
        self.load.hold();
    }

    /// Its turn: runs for this time and is stopped again.
    pub(super) fn turn(&mut self, length: Duration) {
        self.load.go_on();
        std::thread::sleep(length);
        self.load.hold();
    }

    /// Checks it; returns its result once the load has ended. To be called every few hundredths of a second.
    pub(super) fn look(
        &mut self,
        running: &mut RunningContender,
        round: u32,
    ) -> anyhow::Result<Option<MeasuredRun>> {
        let at = self.began.elapsed().as_secs_f64();
        self.ticks.push((at, Ticks::read(&self.cores)));
        if self.memory.is_none() && at >= self.seconds - EDGE_SECONDS {
            self.memory = Some(self.tree.memory());
        }
        self.beside.go_on(running)?;
        let Some(ended) = self.load.ended()? else {
            if at > self.seconds + LATE_SECONDS {
                bail!(
                    "{} did not end: answers stay away ({:.0} s instead of {:.0} s)",
                    tools::tool_program_name(self.scenario.load.tool),
                    at,
                    self.seconds
                );
            }
            return Ok(None);
        };
        let cpu = self.tree.cpu().since(self.cpu_before);
        let switches = self.tree.switches();
        running.group.check_running()?;
        if ended.code != 0 {
            bail!("{} failed: {}", tools::tool_program_name(self.scenario.load.tool), self.load.last_lines());
        }
        let mut load =
            tools::parse_tool_report(&self.scenario.load, &self.load.output()).with_context(|| {
                format!("{}'s report cannot be read", tools::tool_program_name(self.scenario.load.tool))
            })?;
        if self.turn_ms.is_some() {
            load.forget_the_clock();
        }
        if load.cpu_us_per_request == 0.0 {
            load.cpu_us_per_request = ended.cpu.seconds() * 1e6 / load.requests.max(1) as f64;
        }
        let usage = self.usage(cpu, switches, &load, at);
        Ok(Some(MeasuredRun { round, load, usage, turn_ms: self.turn_ms }))
    }

    /// Notes for the user about the activity beside it; once it has ended.
    pub(super) fn notes(&self, name: &str) -> Vec<String> {
        self.beside.notes(name)
    }

    /// CPU and switches are those of the whole run, like the responses; the busy share is without its edges.
    fn usage(&mut self, cpu: Cpu, switches: Switches, load: &LoadOutcome, seconds: f64) -> Usage {
        let requests = load.requests.max(1) as f64;
        let before = self.switches_before;
        // Threads that ended took their counts with them, so the difference may be negative.
        let voluntary = switches.voluntary.saturating_sub(before.voluntary);
        let involuntary = switches.involuntary.saturating_sub(before.involuntary);
        let memory = self.memory.unwrap_or_else(|| self.tree.memory());
        Usage {
            seconds,
            user_us_per_request: cpu.user_seconds * 1e6 / requests,
            system_us_per_request: cpu.system_seconds * 1e6 / requests,
            voluntary_switches_per_request: voluntary as f64 / requests,
            involuntary_switches_per_request: involuntary as f64 / requests,
            pss_bytes: memory.pss_bytes,
            rss_bytes: memory.rss_bytes,
            cores: self.cores.len(),
            // In turns, other contenders use the cores as well.
            cores_busy_percent: busy_percent(&self.ticks, self.cores.len())
                .filter(|_| self.turn_ms.is_none()),
            own_percent: 100.0 * cpu.seconds() / load.seconds.max(1e-9),
        }
    }
}

/// Busy time of the cores between the edges, in percent of one; `None` if there are no cores or the run was
/// too short.
fn busy_percent(ticks: &[(f64, Ticks)], cores: usize) -> Option<f64> {
    let end = ticks.last()?.0 - EDGE_SECONDS;
    let mut inner = ticks.iter().filter(|(at, _)| (EDGE_SECONDS..=end).contains(at));
    let (first, last) = (inner.next()?.1, inner.next_back()?.1);
    (cores > 0).then(|| last.since(first).busy_percent() * cores as f64)
}

fn command(
    scenario: &Scenario,
    running: &RunningContender,
    seconds: f64,
    program: &Path,
) -> anyhow::Result<Vec<String>> {
    tools::build_tool_command(&ToolRun {
        load: &scenario.load,
        protocol: scenario.protocol,
        address: running.address,
        seconds,
        weir: program,
    })
}

/// Interval at which a run is checked: often enough for its edges, seldom enough to cost nothing.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_cut_off() {
        let ticks = |busy, all| Ticks { busy, stolen: 0, all };
        let samples = [(0.0, ticks(0, 0)), (0.4, ticks(1, 40)), (1.0, ticks(61, 100)), (1.4, ticks(61, 140))];
        assert_eq!(busy_percent(&samples, 1), Some(100.0));
        assert_eq!(busy_percent(&samples, 2), Some(200.0));
        assert_eq!(busy_percent(&samples, 0), None);
        assert_eq!(busy_percent(&samples[..2], 1), None);
        assert_eq!(busy_percent(&[], 1), None);
    }
}
