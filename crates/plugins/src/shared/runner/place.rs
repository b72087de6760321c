//! The place of the runner: the socket that calls connect to, which changes when another runner takes over,
//! and the facts about the process that the control API shows. It starts no process.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use exchange::plugin::state::StateRegistry;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// Where the runner is in the state of plugins.
const KEY: &str = "plugin runner";
/// The reason of calls where no setting names a runner.
const NOT_CONFIGURED: &str = "neither `plugin_runner` nor `plugin_runner_socket` is set";
/// The default of [`Runner::timeout_ms`]: just less than a plugin may wait in one phase, and more than the 56
/// seconds after which the Go runner ends a plugin.
const TIMEOUT_MS: u64 = 59_000;

/// See the module. One for the process, shared by all workers.
pub struct Runner {
    place: Mutex<Result<PathBuf, String>>,
    /// Changes with the place, so that workers close connections to a runner that was replaced.
    epoch: AtomicU32,
    timeout_ms: AtomicU64,
    status: Mutex<RunnerStatus>,
}

/// The state of the process of the runner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunnerState {
    /// There is none, or another program starts it.
    #[default]
    Unmanaged,
    /// It was started and does not take connections yet.
    Starting,
    /// It takes connections.
    Running,
    /// It has ended and is started again after a pause.
    Waiting,
    /// It has been ended.
    Stopped,
}

/// Facts about the process of the runner.
#[derive(Clone, Debug, Default)]
pub struct RunnerStatus {
    /// Its state.
    pub state: RunnerState,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The id of the process.
    pub process: Option<u32>,
    /// How often one that had ended was started again.
    pub restarts: u64,
    /// How the last one ended.
    pub last_end: Option<String>,
    /// Lines of its output that were not logged because there were too many.
    pub dropped_lines: u64,
}

impl RunnerState {
    fn word(self) -> &'static str {
        match self {
            RunnerState::Unmanaged => "unmanaged",
            RunnerState::Starting => "starting",
            RunnerState::Running => "running",
            RunnerState::Waiting => "waiting",
            RunnerState::Stopped => "stopped",
        }
    }
}

impl Default for Runner {
    fn default() -> Runner {
        Runner {
            place: Mutex::new(Err(NOT_CONFIGURED.to_owned())),
            epoch: AtomicU32::new(0),
            timeout_ms: AtomicU64::new(TIMEOUT_MS),
            status: Mutex::default(),
        }
    }
}

/// The runner of this process, for the control API.
static SHOWN: OnceLock<Mutex<Weak<Runner>>> = OnceLock::new();

impl Runner {
    /// The runner of the plugins that have their state in `states`, as long as the result is held. The
    /// control API shows it.
    pub fn serve(states: &StateRegistry) -> Arc<Runner> {
        let runner = Runner::of(states);
        *SHOWN.get_or_init(Mutex::default).lock() = Arc::downgrade(&runner);
        runner
    }

    /// The runner of these plugins.
    pub(super) fn of(states: &StateRegistry) -> Arc<Runner> {
        states.keep(KEY, Runner::default)
    }

    /// Sets the longest time of a call, in milliseconds.
    pub fn set_timeout_ms(&self, timeout_ms: u64) {
        self.timeout_ms.store(timeout_ms, Ordering::Relaxed);
    }

    /// The longest time of a call, in milliseconds.
    pub(super) fn timeout_ms(&self) -> u64 {
        self.timeout_ms.load(Ordering::Relaxed)
    }

    /// Sends calls to the socket at `path` from now on.
    pub fn listens_at(&self, path: &Path) {
        self.move_to(Ok(path.to_owned()));
    }

    /// Fails calls from now on, because of `reason`.
    pub fn is_away(&self, reason: String) {
        self.move_to(Err(reason));
    }

    fn move_to(&self, place: Result<PathBuf, String>) {
        let mut held = self.place.lock();
        *held = place;
        // Inside the lock, so that a connection never has the place of one runner and the epoch of another
        // one.
        self.epoch.fetch_add(1, Ordering::Release);
    }

    /// The number of the present place.
    pub(super) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The present place and its number, or the reason why there is none.
    pub(super) fn place(&self) -> (Result<PathBuf, String>, u32) {
        let held = self.place.lock();
        (held.clone(), self.epoch())
    }

    /// Changes the facts about the process.
    pub fn update(&self, change: impl FnOnce(&mut RunnerStatus)) {
        change(&mut self.status.lock());
    }

    /// The facts about the process.
    pub fn status(&self) -> RunnerStatus {
        self.status.lock().clone()
    }
}

/// The runner of this process as JSON: `GET /v1/plugin_runner` of the control API.
pub(crate) fn render_runner_status() -> Value {
    let runner = SHOWN.get().and_then(|shown| shown.lock().upgrade());
    let Some(runner) = runner else { return json!({ "state": RunnerState::Unmanaged.word() }) };
    let status = runner.status();
    let (place, _) = runner.place();
    let (socket, reason) = match place {
        Ok(path) => (Some(path.to_string_lossy().into_owned()), None),
        Err(reason) => (None, Some(reason)),
    };
    json!({
        "state": status.state.word(),
        "command": status.command,
        "process": status.process,
        "socket": socket,
        "reason": reason,
        "restarts": status.restarts,
        "last_end": status.last_end,
        "dropped_lines": status.dropped_lines,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_changes_with_its_number() {
        let states = StateRegistry::default();
        let runner = Runner::serve(&states);
        assert!(Arc::ptr_eq(&runner, &Runner::of(&states)));
        assert_eq!(runner.place(), (Err(NOT_CONFIGURED.to_owned()), 0));
        runner.listens_at(Path::new("/a.sock"));
        assert_eq!(runner.place(), (Ok("/a.sock".into()), 1));
        runner.is_away("it has ended".to_owned());
        assert_eq!(runner.place(), (Err("it has ended".to_owned()), 2));
        runner.update(|status| status.restarts += 1);
        assert_eq!(render_runner_status()["restarts"], 1);
        assert_eq!(render_runner_status()["reason"], "it has ended");
    }
}
