//! The guard between the laboratory and a program: `weir lab guard`, not meant to be typed. It pins and
//! limits itself, starts the program, which inherits that, and waits for the end of the program or of its own
//! standard input. That is a pipe that the laboratory holds: when the laboratory ends, even by a crash, the
//! pipe closes and every process of the program is ended.
//!
//! It adopts orphans, so a program that goes to the background or leaves workers behind is ended and
//! accounted as well.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions};

use super::cores;
use super::tree::descendants;
use crate::terminal::print_error;

/// Arguments of `weir lab guard`.
#[derive(Clone, Debug, clap::Args)]
pub struct GuardArguments {
    /// Cores that the program may use; all if none is named
    #[arg(long, value_delimiter = ',')]
    core: Vec<usize>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Time that a program has to end before it is ended by force.
const GRACE: Duration = Duration::from_secs(2);
/// Interval of checks whether all processes have ended.
const PAUSE: Duration = Duration::from_millis(10);
/// The exit code of a guard with a program that could not be started, as in shells.
const NOT_STARTED: u8 = 127;

/// Runs the program to its end; its exit code is the guard's.
pub fn execute_lab_guard(arguments: &GuardArguments) -> anyhow::Result<ExitCode> {
    // Ctrl-C at the terminal must reach the laboratory alone.
    rustix::process::setsid().context("the guard has no session of its own")?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .context("orphans are not adopted")?;
    if !arguments.core.is_empty() {
        cores::pin(&arguments.core)?;
    }
    raise_descriptor_limit();
    let (program, rest) = arguments.command.split_first().expect("clap asks for one");
    let mut child = match Command::new(program).args(rest).stdin(Stdio::null()).spawn() {
        Ok(child) => child,
        Err(error) => {
            print_error(format_args!("cannot start {program}: {error}"));
            return Ok(ExitCode::from(NOT_STARTED));
        }
    };
    let status = wait(&mut child)?;
    end_all();
    Ok(ExitCode::from(code(status)))
}

/// As many descriptors as this machine allows: thousands of connections are the rule here.
pub fn raise_descriptor_limit() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    // If the limit stays lower than wanted, the failures of a run show it.
    let _ = rustix::process::setrlimit(
        Resource::Nofile,
        Rlimit { current: limit.maximum, maximum: limit.maximum },
    );
}

/// Waits until the program ends or the laboratory closes the pipe; then the program is asked to end.
fn wait(child: &mut Child) -> anyhow::Result<Option<ExitStatus>> {
    let ended: OwnedFd = rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let laboratory = io::stdin();
    loop {
        let mut watched =
            [PollFd::new(&ended, PollFlags::IN), PollFd::from_borrowed_fd(laboratory.as_fd(), PollFlags::IN)];
        match poll(&mut watched, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        if !watched[0].revents().is_empty() {
            // Reaped, so that its CPU counts among the guard's children.
            return Ok(Some(child.wait()?));
        }
        if !watched[1].revents().is_empty() {
            return Ok(None);
        }
    }
}

/// Ends every process below this one: in order first, by force after [`GRACE`].
fn end_all() {
    let begun = Instant::now();
    let mut asked = false;
    while reap() {
        let forced = begun.elapsed() >= GRACE;
        if !asked || forced {
            for pid in descendants(rustix::process::getpid().as_raw_nonzero().get()) {
                if let Some(pid) = Pid::from_raw(pid) {
                    // A process that has just ended needs no signal.
                    let _ =
                        rustix::process::kill_process(pid, if forced { Signal::KILL } else { Signal::TERM });
                    // A process that is stopped between its turns would not receive the signal.
                    let _ = rustix::process::kill_process(pid, Signal::CONT);
                }
            }
            asked = true;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Takes the status of every child that has ended; returns whether there are others.
fn reap() -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// The code as in shells: the program's own, or 128 plus the signal's number.
fn code(status: Option<ExitStatus>) -> u8 {
    let Some(status) = status else { return 0 };
    let number = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(number).unwrap_or(u8::MAX)
}
