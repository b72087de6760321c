//! Shared parts of these tests: files of the repository, programs with their output, and the program that
//! renders the chart. Holds no test.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// The binary under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_weir");

/// The root of the repository.
pub(crate) fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The end of a program: whether it succeeded, its standard output, its standard error.
pub(crate) struct Ended {
    pub(crate) is_good: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The standard output of a success; panics with both outputs after a failure.
    pub(crate) fn text(self) -> String {
        assert!(self.is_good, "{}{}", self.stdout, self.stderr);
        self.stdout
    }
}

/// Runs a program in a folder of the repository.
pub(crate) fn run(program: &str, arguments: &[&str], folder: &str) -> Ended {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(repository().join(folder))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // As in a pod, for settings that follow services of the cluster.
        .env("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        .env("KUBERNETES_SERVICE_PORT", "443")
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}; run lab/install.sh test"));
    Ended {
        is_good: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs the program that renders and checks the chart, in `packaging/helm`.
pub(crate) fn weirchart(arguments: &[&str]) -> Ended {
    let program = repository().join("target/test-go/bin/weirchart");
    assert!(program.exists(), "{} is not there; run lab/install.sh test", program.display());
    run(program.to_str().unwrap(), arguments, "packaging/helm")
}

/// The objects of the chart with these values, after all checks.
pub(crate) fn rendered(arguments: &[&str]) -> Vec<Value> {
    let ended = weirchart(&[&["-json"], arguments].concat());
    serde_json::from_str(&ended.text()).unwrap()
}

/// The only object of a kind with this end of its name.
pub(crate) fn object<'o>(objects: &'o [Value], kind: &str, end: &str) -> &'o Value {
    let is_it = |object: &&Value| {
        object["kind"] == kind && object["metadata"]["name"].as_str().unwrap().ends_with(end)
    };
    let found: Vec<&Value> = objects.iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "objects of the kind {kind} that end with {end:?}");
    found[0]
}
