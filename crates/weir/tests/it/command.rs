//! Runs the binary as a command that ends by itself; knows nothing of gateways that are meant to go on running.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

/// What one call of the binary did.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the binary with these arguments in `folder`, with these variables and no others of its own. One that does not
/// end is killed and fails the test: a start that should have been refused.
pub(crate) fn weir(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("WEIR_") {
            command.env_remove(name);
        }
    }
    command.current_dir(folder).args(arguments).envs(environment.iter().copied()).stdin(Stdio::null());
    // Files take any amount of output while nobody reads.
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

/// Runs it in a fresh folder that holds `files`.
pub(crate) fn weir_with(files: &[(&str, &str)], arguments: &[&str], environment: &[(&str, &str)]) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    weir(folder.path(), arguments, environment)
}

/// The flags that keep every listener off the usual ports.
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

/// A child that is killed when the test gives up on it.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
