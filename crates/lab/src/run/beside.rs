//! Activity beside the load: idle connections, slow clients, changes of the configuration. It measures
//! nothing.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::interrupt::Interrupt;
use super::stage::RunningContender;
use crate::process::{ProcessGroup, Start};
use crate::scenario::Scenario;

/// All activity beside the load; ended when dropped.
#[derive(Debug)]
pub(super) struct Beside {
    crowds: Vec<ProcessGroup>,
    changes: Option<PeriodicChanges>,
}

#[derive(Debug)]
struct PeriodicChanges {
    every: Duration,
    next: Instant,
    program: PathBuf,
    cores: Vec<usize>,
    under_way: Option<ProcessGroup>,
    done: u64,
    failed: u64,
    last_failure: String,
}

/// Ten thousand connections are established long before.
const READY_LIMIT: Duration = Duration::from_secs(60);

impl Beside {
    /// Starts it, and waits until all connections are established.
    pub(super) fn begin(
        scenario: &Scenario,
        running: &RunningContender,
        program: &Path,
        cores: &[usize],
        directory: &Path,
    ) -> anyhow::Result<Self> {
        let mut crowds = Vec::new();
        let habits = [
            ("idle", scenario.idle_connections, &["--idle"][..]),
            ("slow", scenario.slow_clients, &["--slow", "heads", "--slow-interval-ms", "100"][..]),
        ];
        for (name, connections, habit) in habits.into_iter().filter(|(_, connections, _)| *connections > 0) {
            let mut command = vec![program.display().to_string(), "lab".to_owned(), "load".to_owned()];
            command.extend(habit.iter().map(|&word| word.to_owned()));
            command.extend(["--connections".to_owned(), connections.to_string()]);
            command.push(format!("http://{}/checked-out", running.address));
            let group = ProcessGroup::start(&Start {
                guard: program,
                name,
                command: &command,
                environment: &[],
                cores,
                directory,
            })?;
            let ready = Interrupt::default().wait(READY_LIMIT, || {
                group.check_running()?;
                Ok(group.output().lines().any(|line| line == "ready").then_some(()))
            })?;
            ready.with_context(|| {
                format!("{connections} {name} connections do not stand within {} s", READY_LIMIT.as_secs())
            })?;
            crowds.push(group);
        }
        let changes = (scenario.changes_per_second > 0.0).then(|| PeriodicChanges {
            every: Duration::from_secs_f64(1.0 / scenario.changes_per_second),
            next: Instant::now(),
            program: program.to_owned(),
            cores: cores.to_vec(),
            under_way: None,
            done: 0,
            failed: 0,
            last_failure: String::new(),
        });
        Ok(Self { crowds, changes })
    }

    /// Begins the next change when it is due.
    pub(super) fn go_on(&mut self, running: &mut RunningContender) -> anyhow::Result<()> {
        for crowd in &self.crowds {
            crowd.check_running()?;
        }
        match &mut self.changes {
            Some(changes) => changes.go_on(running),
            None => Ok(()),
        }
    }

    /// Notes about it for the user.
    pub(super) fn notes(&self, name: &str) -> Vec<String> {
        let Some(changes) = &self.changes else { return Vec::new() };
        let mut notes = Vec::new();
        if changes.failed > 0 {
            notes.push(format!(
                "{name}: {} of {} changes of the configuration failed: {}",
                changes.failed,
                changes.done + changes.failed,
                changes.last_failure
            ));
        }
        notes
    }
}

impl PeriodicChanges {
    fn go_on(&mut self, running: &mut RunningContender) -> anyhow::Result<()> {
        if let Some(group) = &mut self.under_way {
            let Some(ended) = group.ended()? else { return Ok(()) };
            if ended.code == 0 {
                self.done += 1;
            } else {
                self.failed += 1;
                self.last_failure = group.last_lines();
            }
            self.under_way = None;
        }
        if Instant::now() >= self.next {
            // A change that takes longer than the interval delays the following ones, so that they never pile
            // up.
            self.next = Instant::now() + self.every;
            self.under_way = Some(running.change(&self.program, &self.cores)?);
        }
        if self.failed > 0 && self.done == 0 && self.failed >= MOST_FAILURES {
            bail!("its configuration cannot be changed: {}", self.last_failure);
        }
        Ok(())
    }
}

/// If this many changes fail and none succeeds, the scenario is not what it claims to be.
const MOST_FAILURES: u64 = 3;
