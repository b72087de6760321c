//! One process of a runner, with its socket and its output. It decides nothing.

use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plugins::{CONF_EXPIRE_SECONDS, Runner};
use rustix::process::{Pid, Signal, kill_process_group};

use super::child::PARENT_VARIABLE;
use super::output;
use super::settings::RunnerSettings;
use super::socket::RunnerSocket;

/// How long a process gets to end by itself after TERM, as in APISIX; then it is killed.
const END_LIMIT: Duration = Duration::from_secs(1);
/// How often an ending process is looked at.
const END_POLL: Duration = Duration::from_millis(5);
/// Variables of the gateway that every runner gets: those by which programs find their parts and their
/// language.
const COMMON_VARIABLES: [&str; 7] = ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME"];

/// See the module. Dropping it ends the process and waits for that.
pub(super) struct Process {
    child: Child,
    socket: RunnerSocket,
    started: Instant,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts a runner as `settings` say, in a process group of its own, so that signals of a terminal do not
    /// reach it and children of it end with it.
    ///
    /// # Errors
    /// The socket has no place, or the process cannot be started.
    pub(super) fn start(settings: &RunnerSettings, runner: &Arc<Runner>) -> Result<Process, String> {
        let socket = RunnerSocket::make(settings)?;
        let mut command = Command::new(itself());
        command.args(&settings.command).env_clear().process_group(0).stdin(Stdio::null());
        let common = COMMON_VARIABLES.iter().map(|name| (*name).to_owned());
        for (name, value) in settings.variables(common) {
            command.env(name, value);
        }
        command.env("APISIX_LISTEN_ADDRESS", format!("unix:{}", socket.path().display()));
        command.env("APISIX_CONF_EXPIRE_TIME", CONF_EXPIRE_SECONDS.to_string());
        command.env(PARENT_VARIABLE, std::process::id().to_string());
        if let Some(user) = settings.user {
            command.uid(user.uid).gid(user.gid);
        }
        let started = std::io::pipe().and_then(|(output, writer)| {
            command.stdout(writer.try_clone()?).stderr(writer);
            Ok((command.spawn()?, output))
        });
        // The command has ends of the pipe, which would keep it open.
        drop(command);
        let (child, output) = started.map_err(|error| format!("a process cannot be started: {error}"))?;
        output::log_runner_output(output, child.id(), runner.clone());
        Ok(Process { child, socket, started: Instant::now(), status: None })
    }

    /// Its id.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The path of its socket.
    pub(super) fn socket(&self) -> &Path {
        self.socket.path()
    }

    /// The time since its start.
    pub(super) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// How it has ended; none while it runs.
    pub(super) fn ended(&mut self) -> Option<String> {
        let status = match self.child.try_wait() {
            Ok(status) => status?,
            Err(error) => return Some(format!("its end cannot be waited for: {error}")),
        };
        self.status = Some(status);
        Some(format!("it has ended with {status}"))
    }

    /// Whether it takes connections.
    pub(super) fn takes_connections(&self) -> bool {
        UnixStream::connect(self.socket.path()).is_ok()
    }

    /// Asks it to end, without waiting.
    pub(super) fn ask_to_end(&self) {
        self.signal(Signal::TERM);
    }

    fn signal(&self, signal: Signal) {
        // Its group may go on when the process itself has ended; without one the call has no effect.
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, signal);
        }
    }
}

/// The path of this program. A program has no path any more when its file was replaced; then it is started by
/// its process, which another user has no right to.
fn itself() -> PathBuf {
    let path = std::env::current_exe().ok().filter(|path| path.is_file());
    path.unwrap_or_else(|| PathBuf::from("/proc/self/exe"))
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.status.is_none() {
            self.signal(Signal::TERM);
            let deadline = Instant::now() + END_LIMIT;
            while self.ended().is_none() && Instant::now() < deadline {
                std::thread::sleep(END_POLL);
            }
        }
        // Also children of a process that has ended.
        self.signal(Signal::KILL);
        if self.status.is_none() {
            let _ = self.child.wait();
        }
    }
}
