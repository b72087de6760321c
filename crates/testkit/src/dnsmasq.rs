//! A real dnsmasq that answers for one name. `lab/install.sh test` installs it.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;

use crate::foreign::{ATTEMPTS, free_address, listens};
use crate::process::Process;

/// A running server that answers with `address` for `name`; killed when dropped.
#[derive(Debug)]
pub struct Dnsmasq {
    address: SocketAddr,
    _process: Process,
}

impl Dnsmasq {
    /// Starts a server.
    pub fn start(name: &str, address: &str) -> Dnsmasq {
        for _ in 0..ATTEMPTS {
            let own = free_address();
            let mut command = Command::new("/usr/sbin/dnsmasq");
            command.args([
                "--keep-in-foreground",
                "--no-resolv",
                "--no-hosts",
                "--bind-interfaces",
                "--user=",
            ]);
            command.args(["--conf-file=/dev/null", "--pid-file=", "--listen-address=127.0.0.1"]);
            command.arg(format!("--port={}", own.port())).arg(format!("--address=/{name}/{address}"));
            let mut process =
                Process::spawn(&mut command).expect("dnsmasq: `lab/install.sh test` installs it");
            // It listens on TCP and UDP alike.
            if listens(own, &mut process) {
                return Dnsmasq { address: own, _process: process };
            }
        }
        panic!("dnsmasq found no free port in {ATTEMPTS} attempts");
    }

    /// The address of both protocols.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Asks the server that `client` is connected to for the address of `name`; none without an answer in the
/// time that the socket waits.
pub fn ask(client: &UdpSocket, name: &str) -> Option<[u8; 4]> {
    const ID: [u8; 2] = [0x12, 0x34];
    let mut question = [&ID[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]].concat();
    for label in name.split('.') {
        question.push(label.len() as u8);
        question.extend_from_slice(label.as_bytes());
    }
    question.extend_from_slice(&[0, 0, 1, 0, 1]);
    client.send(&question).ok()?;
    let mut room = [0; 512];
    let length = client.recv(&mut room).ok()?;
    let answer = &room[..length];
    // The address ends an answer with one record and nothing behind it.
    (answer[..2] == ID && answer[7] == 1).then(|| answer[length - 4..].try_into().ok())?
}
