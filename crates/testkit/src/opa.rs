//! Open Policy Agent as a peer of a test. `lab/install.sh peers` installs it.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::foreign::{ATTEMPTS, free_address, go_program, listens};
use crate::process::Process;

/// A running server; killed when dropped.
#[derive(Debug)]
pub struct Opa {
    address: SocketAddr,
    _folder: TempDir,
    _process: Process,
}

impl Opa {
    /// Starts a server with these policies, over HTTP.
    pub fn start(policies: &[&str]) -> Opa {
        Opa::start_with(policies, None)
    }

    /// Starts a server with these policies, over HTTPS.
    pub fn start_with_tls(policies: &[&str], certificates: &Certificates) -> Opa {
        Opa::start_with(policies, Some(certificates))
    }

    fn start_with(policies: &[&str], certificates: Option<&Certificates>) -> Opa {
        for _ in 0..ATTEMPTS {
            let folder = tempfile::tempdir().expect("a temporary directory");
            let address = free_address();
            let mut command = Command::new(go_program("opa"));
            command.args(["run", "--server", "--disable-telemetry", "--log-level", "error"]);
            command.args(["--addr", &address.to_string()]);
            if let Some(certificates) = certificates {
                command.arg("--tls-cert-file").arg(certificates.certificate());
                command.arg("--tls-private-key-file").arg(certificates.key());
            }
            for (index, policy) in policies.iter().enumerate() {
                let file = folder.path().join(format!("policy{index}.rego"));
                fs::write(&file, policy).expect("a writable temporary directory");
                command.arg(file);
            }
            let mut process = Process::spawn(&mut command).expect("opa can be started");
            if listens(address, &mut process) {
                return Opa { address, _folder: folder, _process: process };
            }
            let errors = process.stderr.text();
            assert!(errors.contains("address already in use"), "opa did not start: {errors}");
        }
        panic!("opa found no free port in {ATTEMPTS} attempts");
    }

    /// The address of its API.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
