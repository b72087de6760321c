//! Starts the binary and reads the addresses that it prints.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;

use tempfile::TempDir;

use super::{ADMIN_KEY, Weir};
use crate::process::{Lines, Process};
use crate::wait::wait_for;

/// The start of a gateway under test.
#[derive(Clone, Debug)]
pub struct WeirBuilder {
    binary: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    resources: Option<String>,
    settings: Option<String>,
    off: Vec<String>,
    given_key: bool,
    stderr_is_read: bool,
}

/// A gateway that ended before it was ready.
#[derive(Debug)]
pub struct Exited {
    /// The exit status.
    pub status: ExitStatus,
    /// The standard output.
    pub stdout: String,
    /// The standard error.
    pub stderr: String,
}

impl WeirBuilder {
    pub(super) fn new(binary: &str) -> WeirBuilder {
        WeirBuilder {
            binary: binary.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            resources: None,
            settings: None,
            off: Vec::new(),
            given_key: true,
            stderr_is_read: true,
        }
    }

    /// Further arguments of `weir run`. `--workers 1` and a data directory are added unless they are among
    /// them.
    pub fn arguments(mut self, arguments: &[&str]) -> WeirBuilder {
        self.arguments.extend(arguments.iter().map(|&argument| argument.to_owned()));
        self
    }

    /// Sets an environment variable.
    pub fn environment(mut self, name: &str, value: &str) -> WeirBuilder {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Declarative mode with this text as the resource file.
    pub fn resources(mut self, text: &str) -> WeirBuilder {
        self.resources = Some(text.to_owned());
        self
    }

    /// A settings file with this text. Listeners in it get no flag, because a flag has precedence.
    pub fn settings(mut self, text: &str) -> WeirBuilder {
        self.settings = Some(text.to_owned());
        self
    }

    /// Disables a listener.
    pub fn without(mut self, listener: &str) -> WeirBuilder {
        self.off.push(listener.to_owned());
        self
    }

    /// Sets no `WEIR_ADMIN_KEY`, so that the gateway generates an Admin key at its first start.
    pub fn own_admin_key(mut self) -> WeirBuilder {
        self.given_key = false;
        self
    }

    /// Uses a full pipe as standard error, which is not read until [`Weir::read_stderr`].
    pub fn unread_stderr(mut self) -> WeirBuilder {
        self.stderr_is_read = false;
        self
    }

    /// Starts the gateway and waits until it is ready; panics with its output if it ends before.
    pub fn start(self) -> Weir {
        self.try_start().unwrap_or_else(|exited| panic!("{exited}"))
    }

    /// Starts the gateway and waits until it is ready or has ended.
    pub fn try_start(self) -> Result<Weir, Exited> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        if let Some(text) = &self.resources {
            write_resources(directory.path(), text);
        }
        if let Some(text) = &self.settings {
            write_settings(directory.path(), text);
        }
        self.start_in(Arc::new(directory))
    }

    /// Starts the gateway on the files in `directory`.
    pub(super) fn start_in(self, directory: Arc<TempDir>) -> Result<Weir, Exited> {
        let mut command = self.command(directory.path());
        let spawn = if self.stderr_is_read { Process::spawn } else { Process::spawn_unread };
        let mut process = spawn(&mut command)
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", self.binary.display()));
        let outcome = wait_for("the gateway is ready or has ended", || {
            announced(&process.stdout).map(Ok).or_else(|| process.ended().map(Err))
        });
        match outcome {
            Ok(addresses) => Ok(Weir { builder: self, directory, addresses, process }),
            Err(status) => {
                Err(Exited { status, stdout: process.stdout.text(), stderr: process.stderr.text() })
            }
        }
    }

    fn command(&self, directory: &Path) -> Command {
        let mut command = Command::new(&self.binary);
        // Settings in the environment of a developer must not affect a test.
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("WEIR_")) {
            command.env_remove(name);
        }
        command.current_dir(directory).arg("run");
        if !self.arguments.iter().any(|argument| argument == "--data") {
            command.arg("--data").arg(data_directory(directory));
        }
        let settings = self.settings.as_deref().unwrap_or_default();
        let named = |name: &str| settings.lines().any(|line| line.starts_with(&format!("{name}:")));
        for name in LISTENERS.into_iter().filter(|name| !named(name)) {
            let off = self.off.iter().any(|off| off == name);
            command.arg(format!("--{name}")).arg(if off { "off" } else { "127.0.0.1:0" });
        }
        if !self.arguments.iter().any(|argument| argument == "--proxy-tls") && !named("proxy_tls") {
            // Its default port would be taken by the first of several gateways.
            command.args(["--proxy-tls", "off"]);
        }
        if !self.arguments.iter().any(|argument| argument == "--workers") && !named("workers") {
            command.args(["--workers", "1"]);
        }
        if self.settings.is_some() {
            command.arg("--config").arg(settings_file(directory));
        }
        if self.resources.is_some() {
            command.arg("--resources").arg(resources_file(directory));
        }
        if self.given_key {
            command.env("WEIR_ADMIN_KEY", ADMIN_KEY);
        }
        command.args(&self.arguments).envs(self.environment.iter().cloned());
        command
    }
}

impl fmt::Display for Exited {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "the gateway ended ({}) before it was ready\n--- stdout\n{}\n--- stderr\n{}",
            self.status, self.stdout, self.stderr
        )
    }
}

pub(super) fn data_directory(directory: &Path) -> PathBuf {
    directory.join("data")
}

pub(super) fn write_resources(directory: &Path, text: &str) {
    write_whole(&resources_file(directory), text);
}

pub(super) fn write_settings(directory: &Path, text: &str) {
    write_whole(&settings_file(directory), text);
}

/// Writes a temporary file and renames it, so that a watching gateway does not read an incomplete text.
fn write_whole(file: &Path, text: &str) {
    let beside = file.with_extension("new");
    fs::write(&beside, text)
        .and_then(|()| fs::rename(&beside, file))
        .expect("a writable temporary directory");
}

fn settings_file(directory: &Path) -> PathBuf {
    directory.join("weir.yaml")
}

fn resources_file(directory: &Path) -> PathBuf {
    directory.join("resources.yaml")
}

/// The printed listeners after `ready` was printed. Of several with one name, the first counts.
fn announced(stdout: &Lines) -> Option<HashMap<String, SocketAddr>> {
    let lines = stdout.all();
    lines.iter().any(|line| line == "ready").then(|| {
        let mut addresses = HashMap::new();
        for line in &lines {
            if let Some((name, address)) =
                line.strip_prefix("listening ").and_then(|rest| rest.split_once(' '))
            {
                let address = address.parse().unwrap_or_else(|_| panic!("not an address: {line:?}"));
                addresses.entry(name.to_owned()).or_insert(address);
            }
        }
        addresses
    })
}

/// The listeners that get free ports. Tests that need `proxy-tls` set it themselves.
const LISTENERS: [&str; 5] = ["proxy", "admin", "control", "status", "metrics"];

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Runs a shell script in the place of the binary.
    fn with_script(body: &str) -> Result<Weir, Exited> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("weir");
        fs::write(&file, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        WeirBuilder::new(file.to_str().unwrap()).resources("routes: []").without("status").try_start()
    }

    #[test]
    fn reads_the_announced_addresses() {
        let script = "echo listening proxy 127.0.0.1:4711; echo \"$@\" >&2; echo ready; exec sleep 60";
        let mut weir = with_script(script).unwrap();
        assert_eq!(weir.proxy(), "127.0.0.1:4711".parse().unwrap());
        wait_for("the arguments were echoed", || {
            weir.stderr().first().cloned().filter(|line| {
                line.contains("--status off")
                    && line.contains("--proxy 127.0.0.1:0")
                    && line.contains("--resources")
            })
        });
        assert!(weir.is_running());
        weir.terminate();
        assert!(!weir.wait_for_exit().success());
    }

    #[test]
    fn tells_why_it_ended() {
        let exited = with_script("echo 'no such flag' >&2; exit 2").unwrap_err();
        assert_eq!((exited.status.code(), exited.stderr.as_str()), (Some(2), "no such flag"));
    }
}
