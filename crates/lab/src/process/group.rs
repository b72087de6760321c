//! A started program with all its descendants: its output goes into files, and it is certainly ended.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::tree::{Cpu, ProcessTree, descendants};

/// How a program is started.
#[derive(Clone, Debug)]
pub struct Start<'a> {
    /// The program that has the command `lab guard`.
    pub guard: &'a Path,
    /// Its name in messages and in the names of its output files.
    pub name: &'a str,
    /// The program and its arguments.
    pub command: &'a [String],
    /// Variables beside this process's own.
    pub environment: &'a [(String, String)],
    /// The cores it is pinned to; all cores if empty.
    pub cores: &'a [usize],
    /// Where its output files are; it exists.
    pub directory: &'a Path,
}

/// A running program. All its processes end when this is dropped.
#[derive(Debug)]
pub struct ProcessGroup {
    name: String,
    guard: Child,
    /// Held open as long as the program is to run.
    leash: Option<ChildStdin>,
    output: PathBuf,
    errors: PathBuf,
    /// Processes that are stopped now and then.
    held: Vec<Pid>,
}

/// How a program ended.
#[derive(Clone, Copy, Debug)]
pub struct ProcessExit {
    /// Its exit code, or 128 plus the number of the signal that ended it.
    pub code: i32,
    /// CPU of the program and all its descendants.
    pub cpu: Cpu,
}

/// The guard ends all processes within its grace; after this time it counts as stuck.
const END_LIMIT: Duration = Duration::from_secs(8);
const PAUSE: Duration = Duration::from_millis(5);
/// Interval of checks whether a guard has started its program.
const START_PAUSE: Duration = Duration::from_millis(1);
/// Lines of output that a message quotes.
const QUOTED_LINES: usize = 12;

impl ProcessGroup {
    /// Starts it. Fails if the guard itself cannot be started; a program that cannot be started shows as one
    /// that has ended.
    pub fn start(start: &Start<'_>) -> anyhow::Result<Self> {
        let output = start.directory.join(format!("{}.out", start.name));
        let errors = start.directory.join(format!("{}.err", start.name));
        let mut command = Command::new(start.guard);
        command.args(["lab", "guard"]);
        for core in start.cores {
            command.arg(format!("--core={core}"));
        }
        let file =
            |path: &Path| File::create(path).with_context(|| format!("cannot write {}", path.display()));
        command
            .arg("--")
            .args(start.command)
            .envs(start.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(file(&output)?).stderr(file(&errors)?);
        let mut guard = command.spawn().with_context(|| format!("cannot start {}", start.guard.display()))?;
        let leash = guard.stdin.take();
        Ok(Self { name: start.name.to_owned(), guard, leash, output, errors, held: Vec::new() })
    }

    /// The process tree, for its CPU and memory.
    pub fn tree(&self) -> ProcessTree {
        ProcessTree::beneath(Pid::from_child(&self.guard).as_raw_nonzero().get())
    }

    /// Stops its processes until [`ProcessGroup::go_on`], as soon as there are any. The list of processes is
    /// stored then, so that continuing and stopping again cost one system call each. Processes started later
    /// are not stopped.
    pub fn hold(&mut self) {
        while self.held.is_empty() && self.is_running() {
            let found = descendants(Pid::from_child(&self.guard).as_raw_nonzero().get());
            self.held = found.into_iter().filter_map(Pid::from_raw).collect();
            if self.held.is_empty() {
                std::thread::sleep(START_PAUSE);
            }
        }
        self.signal(Signal::STOP);
    }

    /// Continues the stopped processes.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        for pid in &self.held {
            // A process that has ended needs no signal, and its number is not reused within the milliseconds
            // until that is noticed.
            let _ = rustix::process::kill_process(*pid, signal);
        }
    }

    /// How it ended, once it has. It can be called once only, because the guard is gone then.
    pub fn ended(&mut self) -> io::Result<Option<ProcessExit>> {
        let pid = Pid::from_child(&self.guard);
        // Its figures exist until its status is taken.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if rustix::process::waitid(WaitId::Pid(pid), look)?.is_none() {
            return Ok(None);
        }
        let cpu = self.tree().cpu();
        let status = self.guard.wait()?;
        Ok(Some(ProcessExit { code: code(status), cpu }))
    }

    /// Whether it still runs, without taking its status.
    pub fn is_running(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(rustix::process::waitid(WaitId::Pid(Pid::from_child(&self.guard)), look), Ok(None))
    }

    /// Its output so far.
    pub fn output(&self) -> String {
        read(&self.output)
    }

    /// The end of its standard error, else of its standard output, as one line.
    pub fn last_lines(&self) -> String {
        let (errors, output) = (read(&self.errors), read(&self.output));
        let text = if errors.trim().is_empty() { output } else { errors };
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(QUOTED_LINES)..].join("\n")
    }

    /// A failure with the end of its output, if it has ended.
    pub fn check_running(&self) -> anyhow::Result<()> {
        if self.is_running() {
            return Ok(());
        }
        let lines = self.last_lines();
        bail!("{} ended{}{}", self.name, if lines.is_empty() { "" } else { ": " }, lines)
    }

    /// Ends all its processes: in order first, then by force.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.leash = None;
        let deadline = Instant::now() + END_LIMIT;
        // An error means that it is gone.
        while let Ok(None) = self.guard.try_wait() {
            if Instant::now() > deadline {
                let pid = Pid::from_child(&self.guard);
                let below = descendants(pid.as_raw_nonzero().get());
                for pid in below.into_iter().filter_map(Pid::from_raw).chain([pid]) {
                    // A process that has ended meanwhile needs no signal.
                    let _ = rustix::process::kill_process(pid, Signal::KILL);
                }
                let _ = self.guard.wait();
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.end();
    }
}

fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// A file that cannot be read has no lines to quote.
fn read(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}
