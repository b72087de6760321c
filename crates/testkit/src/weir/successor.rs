//! A gateway that took over from the one that the test started. It is not a child of the test; the lock file
//! of the data directory has its process id.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, kill_process};

use super::Weir;
use crate::wait::{wait_for, wait_until};

/// A process that took over; killed when dropped.
#[derive(Debug)]
pub struct Successor {
    process: Pid,
}

impl Weir {
    /// Sends USR2: replace the binary.
    pub fn upgrade(&self) {
        self.signal(Signal::USR2);
    }

    /// The process that holds the lock of the data directory, if there is one.
    pub fn holder(&self) -> Option<u32> {
        holder(&self.data())
    }

    /// Waits until another process than `before` holds the lock of the data directory.
    pub fn wait_for_successor(&self, before: u32) -> Successor {
        let process =
            wait_for("another process has taken over", || self.holder().filter(|process| *process != before));
        Successor { process: pid(process) }
    }

    /// Waits until the first process ends. Its successor may still write to the same streams.
    pub fn wait_until_gone(&mut self) -> ExitStatus {
        wait_for("the first process has ended", || self.process.gone())
    }
}

impl Successor {
    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.as_raw_nonzero().get().unsigned_abs()
    }

    /// Sends USR2: replace the binary again.
    pub fn upgrade(&self) {
        self.signal(Signal::USR2);
    }

    /// Sends HUP: read the settings again.
    pub fn reload(&self) {
        self.signal(Signal::HUP);
    }

    /// Sends TERM: drain and stop.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Waits until the process ends.
    pub fn wait_until_gone(&self) {
        wait_until("the process has ended", || !self.runs());
    }

    fn signal(&self, signal: Signal) {
        assert!(kill_process(self.process, signal).is_ok(), "process {} is gone", self.pid());
    }

    /// Whether the process still runs. A zombie has ended, although its new parent may not have reaped it
    /// yet. After KILL the first thread may end before other threads, which hold the descriptors.
    fn runs(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid())).map_or(0, Iterator::count);
        threads > 1 || stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        if self.runs() {
            // It fails only if the process ends at this moment.
            let _ = kill_process(self.process, Signal::KILL);
        }
    }
}

fn holder(data: &Path) -> Option<u32> {
    let file = data.join("lock");
    match File::open(&file).ok()?.try_lock_shared() {
        Err(TryLockError::WouldBlock) => std::fs::read_to_string(file).ok()?.trim().parse().ok(),
        _ => None,
    }
}

fn pid(process: u32) -> Pid {
    i32::try_from(process).ok().and_then(Pid::from_raw).expect("a process id")
}
