//! A real rsyslog that writes the parts of each message to a file. `lab/install.sh test` installs it.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use tempfile::TempDir;

use crate::foreign::{ATTEMPTS, free_address, listens};
use crate::process::Process;

/// A running server that takes messages over UDP and TCP at the same port; killed when dropped.
#[derive(Debug)]
pub struct Rsyslog {
    address: SocketAddr,
    folder: TempDir,
    _process: Process,
}

impl Rsyslog {
    /// Starts a server.
    pub fn start() -> Rsyslog {
        for _ in 0..ATTEMPTS {
            let (address, folder) = (free_address(), tempfile::tempdir().expect("a temporary directory"));
            let path = |name: &str| folder.path().join(name);
            let text = CONFIGURATION
                .replace("$PORT", &address.port().to_string())
                .replace("$FOLDER", &folder.path().display().to_string());
            fs::write(path("rsyslog.conf"), text).expect("a writable directory");
            let mut command = Command::new("/usr/sbin/rsyslogd");
            command.arg("-n").arg("-f").arg(path("rsyslog.conf")).arg("-i").arg(path("pid"));
            let mut process =
                Process::spawn(&mut command).expect("rsyslogd: `lab/install.sh test` installs it");
            if listens(address, &mut process) {
                return Rsyslog { address, folder, _process: process };
            }
        }
        panic!("rsyslogd found no free port in {ATTEMPTS} attempts");
    }

    /// The address of both protocols.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The messages so far: priority, version, host, application, process, structured data and text, with `|`
    /// between them.
    pub fn messages(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join("messages")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

const CONFIGURATION: &str = r#"module(load="imudp")
module(load="imtcp")
global(workDirectory="$FOLDER")
template(name="parts" type="string" string="%pri%|%protocol-version%|%hostname%|%app-name%|%procid%|%structured-data%|%msg%\n")
input(type="imudp" address="127.0.0.1" port="$PORT" ruleset="kept")
input(type="imtcp" address="127.0.0.1" port="$PORT" ruleset="kept")
ruleset(name="kept") { action(type="omfile" file="$FOLDER/messages" template="parts") }
"#;
