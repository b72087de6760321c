//! The dashboard: its built files are those that the sources give, its own tests pass, and users walk through it in
//! Chromium with the real binary behind (`web/tests/e2e`).

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::{Origin, Weir};

use crate::support::BINARY;

/// The folder of the sources.
fn web() -> PathBuf {
    root().join("web")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Runs Node in the folder of the sources and returns what it printed; panics with that when it fails.
fn node(arguments: &[&str], environment: &[(&str, String)]) -> String {
    let mut command = Command::new(root().join("target/test-node/node"));
    command.current_dir(web()).args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
    let run = command.output().expect("Node is installed by `make install`");
    let said = format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "node {}:\n{said}", arguments.join(" "));
    said
}
