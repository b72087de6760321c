//! The machine that runs the tests: places of the repository, and the packages that are made of the binary
//! under test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// The binary under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_weir");

/// The program in the packages: the binary under test, or that of `WEIR_TEST_PROGRAM`, such as the static
/// one.
fn program() -> PathBuf {
    std::env::var_os("WEIR_TEST_PROGRAM").map_or_else(|| BINARY.into(), PathBuf::from)
}

/// The version that tests install first.
pub(crate) const OLDER: &str = "0.8.0";
/// The version that they upgrade to: the same program in a package with another number.
pub(crate) const NEWER: &str = "0.9.0";

/// The packages, made once for all tests of this process.
static PACKAGES: LazyLock<[PathBuf; 2]> = LazyLock::new(|| {
    let folder = target().join("test-packages");
    fs::create_dir_all(&folder).unwrap();
    let binary = folder.join("weir");
    // The symbols of a debug build are three quarters of its size.
    run(Command::new("strip").arg("-o").args([&binary, &program()]));
    [OLDER, NEWER].map(|version| {
        let mut build = Command::new("/usr/bin/python3");
        build.arg(root().join("packaging/build.py")).args(["--fast", "--only", "deb", "--version", version]);
        run(build.arg("--binary").arg(&binary).arg("--out").arg(&folder));
        folder.join(format!("weir_{version}_amd64.deb"))
    })
});

/// The Debian package of [`OLDER`].
pub(crate) fn older_package() -> &'static Path {
    &PACKAGES[0]
}

/// The Debian package of [`NEWER`].
pub(crate) fn newer_package() -> &'static Path {
    &PACKAGES[1]
}

/// The folder of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The folder of things that are made, which `lab/install.sh` uses too.
pub(crate) fn target() -> PathBuf {
    root().join("target")
}

/// Runs a command; panics with its output if it fails.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{command:?}\n{text}");
    text
}
