//! What starting another project's server takes, whichever it is: a port, and waiting until it listens there.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use crate::process::Process;
use crate::wait::wait_for;

/// How often a port that was taken meanwhile is replaced by another.
pub(crate) const ATTEMPTS: usize = 5;

/// How a start went.
pub(crate) enum Started {
    /// It listens.
    Up,
    /// Another process was quicker to take the port.
    PortTaken,
}

/// An address of this machine that was free a moment ago.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}

/// Waits until `process` listens at `address` or has ended; panics with what it said unless that contains
/// `port_taken`.
pub(crate) fn when_listening(
    name: &str,
    address: SocketAddr,
    process: &mut Process,
    port_taken: &str,
) -> Started {
    let up = wait_for(&format!("{name} listens"), || {
        if TcpStream::connect(address).is_ok() {
            return Some(true);
        }
        process.ended().map(|_| false)
    });
    if up {
        return Started::Up;
    }
    let errors = process.stderr.text();
    assert!(errors.contains(port_taken), "{name} did not start: {errors}");
    Started::PortTaken
}

/// The first line that `program -v` prints, `None` where it cannot be run.
pub(crate) fn program_version(program: &str) -> Option<String> {
    let output = Command::new(program).arg("-v").output().ok().filter(|output| output.status.success())?;
    let text = [output.stdout, output.stderr].concat();
    Some(String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned())
}
