//! Runs the binary as a command that ends by itself; for gateways that go on running there is
//! `testkit::Weir`.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

/// The exit code and the output of one run of the binary.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the binary in `folder` with these arguments, and with these `WEIR_` variables only. A command that
/// does not end is killed and fails the test, because it is a start that should have been refused.
pub(crate) fn weir(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("WEIR_") {
            command.env_remove(name);
        }
    }
    command.current_dir(folder).args(arguments).envs(environment.iter().copied()).stdin(Stdio::null());
    // Files, because a pipe that is not read would block the command.
    let output = tempfile::tempdir().unwrap();
    let (stdout, stderr) = (output.path().join("stdout"), output.path().join("stderr"));
    command.stdout(File::create(&stdout).unwrap()).stderr(File::create(&stderr).unwrap());
    let mut child = Ended(command.spawn().unwrap());
    let status = testkit::wait_for(&format!("weir {arguments:?} has ended"), || child.0.try_wait().unwrap());
    Outcome {
        code: status.code().unwrap(),
        stdout: std::fs::read_to_string(stdout).unwrap(),
        stderr: std::fs::read_to_string(stderr).unwrap(),
    }
}

/// Runs the binary in a fresh folder with `files`.
pub(crate) fn weir_with(files: &[(&str, &str)], arguments: &[&str], environment: &[(&str, &str)]) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    weir(folder.path(), arguments, environment)
}

/// The flags that put every listener on a free port.
pub(crate) const FREE_PORTS: [&str; 12] = [
    "--proxy",
    "127.0.0.1:0",
    "--proxy-tls",
    "off",
    "--admin",
    "127.0.0.1:0",
    "--control",
    "127.0.0.1:0",
    "--status",
    "127.0.0.1:0",
    "--metrics",
    "127.0.0.1:0",
];

/// A child process that is killed when it is dropped.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Both fail only if the process has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
