//! Starting a server of another project: choosing a port, and waiting until the server listens on it.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::process::Process;
use crate::wait::{wait_for, wait_until};

/// Attempts to start a server, each on another port, if the port was taken in the meantime.
pub(crate) const ATTEMPTS: usize = 5;

/// The result of a start.
pub(crate) enum Started {
    /// The server listens.
    Up,
    /// Another process took the port first.
    PortTaken,
}

/// The ports that [`free_address`] chooses from. They lie below those that Linux gives to sockets that ask
/// for port 0 and to connections (`net.ipv4.ip_local_port_range`, from 32768 on), so that no test running at
/// the same time gets one between the choice and the start of the program that is told of it.
const FREE_PORTS: Range<u16> = 16_000..32_000;

/// A loopback address with a port that is free at this moment for TCP and for UDP, and that no second call in
/// this process returns.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    // Test programs that run side by side begin at different places.
    let start = std::process::id() as usize * 997;
    let ports = usize::from(FREE_PORTS.end - FREE_PORTS.start);
    for _ in 0..ports {
        let chosen = (start + NEXT.fetch_add(1, Ordering::Relaxed)) % ports;
        let address = SocketAddr::from(([127, 0, 0, 1], FREE_PORTS.start + chosen as u16));
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no port of {FREE_PORTS:?} is free");
}

/// Waits until `process` listens at `address` or has ended; in the second case panics with its errors unless
/// they contain `port_taken`.
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

/// The first line of `program -v`; `None` if the program cannot be run.
pub(crate) fn program_version(program: &str) -> Option<String> {
    let output = Command::new(program).arg("-v").output().ok().filter(|output| output.status.success())?;
    let text = [output.stdout, output.stderr].concat();
    Some(String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned())
}

/// Whether the process listens; false if it has ended, because another one took its port.
pub(crate) fn listens(address: SocketAddr, process: &mut Process) -> bool {
    let mut has_ended = false;
    wait_until(&format!("{address} is listened on"), || {
        has_ended = process.ended().is_some();
        has_ended || TcpStream::connect(address).is_ok()
    });
    !has_ended
}

/// A program that `lab/install.sh test peers` builds from Go modules.
pub(crate) fn go_program(name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-go/bin").join(name);
    assert!(program.exists(), "{} is not there; run lab/install.sh test peers", program.display());
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_addresses_differ_and_are_in_the_range() {
        let chosen: Vec<SocketAddr> = (0..100).map(|_| free_address()).collect();
        let ports: std::collections::BTreeSet<u16> = chosen.iter().map(SocketAddr::port).collect();
        assert_eq!(ports.len(), chosen.len());
        assert!(ports.iter().all(|port| FREE_PORTS.contains(port)), "{ports:?}");
    }
}
