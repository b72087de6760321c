//! HAProxy as a peer of a test: a proxy of another project. Tests do not install it.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use tempfile::TempDir;

use crate::foreign::{ATTEMPTS, Started, free_address, program_version, when_listening};
use crate::process::Process;

/// A running HAProxy with one frontend and one backend; stopped when dropped.
#[derive(Debug)]
pub struct Haproxy {
    address: SocketAddr,
    process: Process,
    _directory: TempDir,
}

impl Haproxy {
    /// The first line of `haproxy -v`; `None` if it cannot be run. `make test` installs it; without it a test
    /// may skip itself.
    pub fn version() -> Option<String> {
        program_version("haproxy")
    }

    /// Starts HAProxy as a plain proxy of all requests to `origin`.
    pub fn proxying(origin: SocketAddr) -> Haproxy {
        // Another process may take the free port before HAProxy listens on it.
        for _ in 0..ATTEMPTS {
            if let Some(haproxy) = Haproxy::try_start(origin) {
                return haproxy;
            }
        }
        panic!("HAProxy found no free port in {ATTEMPTS} attempts");
    }

    /// The address of the frontend.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its standard error.
    pub fn errors(&self) -> String {
        self.process.stderr.text()
    }

    fn try_start(origin: SocketAddr) -> Option<Haproxy> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let address = free_address();
        let text = TEMPLATE.replace("$LISTEN", &address.to_string()).replace("$ORIGIN", &origin.to_string());
        let file = directory.path().join("haproxy.cfg");
        fs::write(&file, text).expect("a writable temporary directory");
        let mut command = Command::new("haproxy");
        // In the foreground and without a master process, so that no process remains after a kill.
        command.arg("-db").arg("-f").arg(&file).current_dir(directory.path());
        let mut process = Process::spawn(&mut command).expect("haproxy: not found; `make test` installs it");
        match when_listening("HAProxy", address, &mut process, "cannot bind") {
            Started::Up => Some(Haproxy { address, process, _directory: directory }),
            Started::PortTaken => None,
        }
    }
}

/// One thread, one backend for all requests, no logs. Other settings have their defaults.
const TEMPLATE: &str = "global
  nbthread 1
  maxconn 500
defaults
  mode http
  timeout connect 10s
  timeout server 60s
  timeout client 60s
frontend in
  bind $LISTEN
  default_backend out
backend out
  server origin $ORIGIN
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Client;
    use crate::origin::Origin;

    #[test]
    fn proxies_to_an_origin() {
        if Haproxy::version().is_none() {
            return;
        }
        let origin = Origin::answering("through HAProxy");
        let haproxy = Haproxy::proxying(origin.address());
        assert_eq!(
            Client::connect(haproxy.address()).get("/").text(),
            "through HAProxy",
            "{}",
            haproxy.errors()
        );
    }
}
