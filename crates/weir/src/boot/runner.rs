//! The process of the plugin runner: started at the start of the instance, started again when it ends,
//! replaced at HUP, ended with the instance. All of it happens on a thread of its own. Calls of the runner
//! are those of the plugins `ext-plugin-…`.

mod backoff;
pub(crate) mod child;
mod output;
mod process;
mod settings;
mod socket;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use exchange::plugin::events::EventCounter;
use exchange::plugin::services::Services;
use parking_lot::Mutex;
use plugins::{Runner, RunnerState};

use backoff::RestartBackoff;
use process::Process;
pub(super) use settings::RunnerSettings;

/// How often the process is looked at.
const TICK: Duration = Duration::from_millis(50);
/// The longest time until a new runner takes connections. A runner in Java takes 12 seconds on a slow
/// machine.
const START_LIMIT: Duration = Duration::from_secs(120);
/// How long a runner that was replaced goes on, so that calls which it has are answered.
const REPLACED_GRACE: Duration = Duration::from_secs(5);
/// The name under which events of the process are counted.
const COUNTED_AS: &str = "ext-plugin";

/// See the module. Dropping it ends the runner and waits for that.
pub(super) struct Supervisor {
    runner: Arc<Runner>,
    counters: RunnerCounters,
    running: Mutex<Option<RunnerThread>>,
}

/// The thread that has the process.
struct RunnerThread {
    orders: Sender<RunnerSettings>,
    thread: JoinHandle<()>,
}

/// Counts of events for the metrics.
#[derive(Clone)]
struct RunnerCounters {
    started: EventCounter,
    ended: EventCounter,
}

impl Supervisor {
    /// Follows `settings`: starts the runner that they name, or sends calls to a socket that another program
    /// listens at.
    pub(super) fn start(settings: RunnerSettings, runner: Arc<Runner>, services: &Services) -> Supervisor {
        let counter = |event| services.event_counter(COUNTED_AS, event);
        let counters =
            RunnerCounters { started: counter("runners started"), ended: counter("runners ended") };
        let supervisor = Supervisor { runner, counters, running: Mutex::default() };
        supervisor.reload(settings);
        supervisor
    }

    /// Follows changed settings. A runner is replaced in any case, because its program may have changed; the
    /// old one goes on until the new one takes connections.
    pub(super) fn reload(&self, settings: RunnerSettings) {
        self.runner.set_timeout_ms(settings.timeout_ms);
        let mut running = self.running.lock();
        if settings.command.is_empty() {
            end(running.take());
            match &settings.socket {
                Some(socket) => self.runner.listens_at(socket),
                None => self
                    .runner
                    .is_away("neither `plugin_runner` nor `plugin_runner_socket` is set".to_owned()),
            }
            return;
        }
        if let Some(running) = &*running {
            // The thread ends only when this side does.
            let _ = running.orders.send(settings);
            return;
        }
        let (orders, received) = channel();
        let (runner, counters) = (self.runner.clone(), self.counters.clone());
        let run = move || Supervised::new(settings, runner, counters).run(&received);
        match std::thread::Builder::new().name("plugin-runner".to_owned()).spawn(run) {
            Ok(thread) => *running = Some(RunnerThread { orders, thread }),
            Err(error) => self.runner.is_away(format!("its thread cannot be started: {error}")),
        }
    }

    /// Waits until the runner takes connections, at most for `limit`; at once if there is none to wait for.
    pub(super) fn await_running(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let is_wanted = || self.running.lock().is_some();
        while is_wanted() && self.runner.status().state != RunnerState::Running && Instant::now() < deadline {
            std::thread::sleep(TICK);
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        end(self.running.lock().take());
    }
}

/// Ends the process, and waits for it.
fn end(running: Option<RunnerThread>) {
    let Some(RunnerThread { orders, thread }) = running else { return };
    drop(orders);
    if thread.join().is_err() {
        tracing::error!("the thread of the plugin runner panicked at its end");
    }
}

/// The state of the thread.
struct Supervised {
    settings: RunnerSettings,
    runner: Arc<Runner>,
    counters: RunnerCounters,
    backoff: RestartBackoff,
    /// The runner that takes calls.
    current: Option<Process>,
    /// One that was started and does not take connections yet.
    next: Option<Process>,
    /// Those that were replaced, and when they are ended.
    replaced: Vec<(Process, Instant)>,
    /// When a runner is started if there is none.
    due: Instant,
}

impl Supervised {
    fn new(settings: RunnerSettings, runner: Arc<Runner>, counters: RunnerCounters) -> Supervised {
        Supervised {
            settings,
            runner,
            counters,
            backoff: RestartBackoff::default(),
            current: None,
            next: None,
            replaced: Vec::new(),
            due: Instant::now(),
        }
    }

    /// Runs until the other side of `orders` is dropped.
    fn run(mut self, orders: &Receiver<RunnerSettings>) {
        loop {
            let now = Instant::now();
            if self.current.is_none() && self.next.is_none() && now >= self.due {
                self.begin();
            }
            self.follow_next();
            self.follow_current();
            self.replaced.retain_mut(|(process, until)| now < *until && process.ended().is_none());
            match orders.recv_timeout(TICK) {
                Ok(settings) => self.replace(settings),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.runner.is_away("the gateway ends".to_owned());
        self.runner.update(|status| (status.state, status.process) = (RunnerState::Stopped, None));
        // Each process ends when it is dropped; all are asked first, so that they end at the same time.
        let all =
            self.current.iter().chain(&self.next).chain(self.replaced.iter().map(|(process, _)| process));
        all.for_each(Process::ask_to_end);
    }

    /// Starts a runner.
    fn begin(&mut self) {
        match Process::start(&self.settings, &self.runner) {
            Ok(process) => {
                self.counters.started.fetch_add(1, Ordering::Relaxed);
                tracing::info!(process = process.id(), program = %self.settings.command[0], "the plugin runner was started");
                if self.current.is_none() {
                    let id = process.id();
                    let command = self.settings.command.clone();
                    self.runner.is_away("it was started and does not take connections yet".to_owned());
                    self.runner.update(|status| {
                        status.state = RunnerState::Starting;
                        (status.process, status.command) = (Some(id), command);
                    });
                }
                self.next = Some(process);
            }
            Err(reason) => self.failed(&reason),
        }
    }

    /// Looks whether the new runner takes connections, has ended, or takes too long.
    fn follow_next(&mut self) {
        let Some(process) = &mut self.next else { return };
        let reason = match process.ended() {
            Some(end) => format!("{end}, before it took a connection"),
            None if process.takes_connections() => return self.take_over(),
            None if process.age() > START_LIMIT => {
                format!("it has taken no connection within {} seconds", START_LIMIT.as_secs())
            }
            None => return,
        };
        self.next = None;
        self.counters.ended.fetch_add(1, Ordering::Relaxed);
        match &self.current {
            Some(_) => tracing::error!(reason, "the new plugin runner has failed; the one that runs stays"),
            None => self.failed(&reason),
        }
    }

    /// Sends calls to the new runner.
    fn take_over(&mut self) {
        let Some(process) = self.next.take() else { return };
        self.runner.listens_at(process.socket());
        let (id, command) = (process.id(), self.settings.command.clone());
        self.runner.update(|status| {
            status.state = RunnerState::Running;
            (status.process, status.command) = (Some(id), command);
        });
        tracing::info!(process = id, socket = %process.socket().display(), "the plugin runner takes calls");
        if let Some(old) = self.current.replace(process) {
            self.replaced.push((old, Instant::now() + REPLACED_GRACE));
        }
    }

    /// Looks whether the runner has ended.
    fn follow_current(&mut self) {
        let Some(end) = self.current.as_mut().and_then(Process::ended) else { return };
        if self.current.take().is_some_and(|process| process.age() >= backoff::STABLE_AGE) {
            self.backoff = RestartBackoff::default();
        }
        self.counters.ended.fetch_add(1, Ordering::Relaxed);
        if self.next.is_none() {
            self.failed(&end);
        }
    }

    /// Notes that there is no runner, and when the next one is started.
    fn failed(&mut self, reason: &str) {
        let pause = self.backoff.next();
        let next_start_ms = pause.as_millis() as u64;
        tracing::error!(reason, next_start_ms, "the plugin runner does not run");
        self.runner.is_away(format!("{reason}; it is started again after {next_start_ms} ms"));
        self.runner.update(|status| {
            status.state = RunnerState::Waiting;
            status.process = None;
            status.restarts += 1;
            status.last_end = Some(reason.to_owned());
        });
        self.due = Instant::now() + pause;
    }

    /// Starts a runner in place of the one that runs.
    fn replace(&mut self, settings: RunnerSettings) {
        self.settings = settings;
        self.backoff = RestartBackoff::default();
        self.next = None;
        self.due = Instant::now();
        if self.settings.socket.is_some() {
            // Two runners cannot listen at one path.
            self.current = None;
        }
        if self.current.is_some() {
            self.begin();
        }
    }
}
