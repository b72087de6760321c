//! Runs `packaging/build.py`, and other programs that read packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The version of the packages that [`packages`] builds.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The program in the packages.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("WEIR_TEST_PROGRAM").map_or_else(|| env!("CARGO_BIN_EXE_weir").into(), PathBuf::from)
}

/// The root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A folder of this name that is empty at the start of a test and kept after it.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages").join(name);
    let _missing = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// `packaging/build.py` that packs a program quickly; arguments can be added.
pub(crate) fn build(program: &Path, out: &Path) -> Command {
    let mut command = Command::new("/usr/bin/python3");
    command.arg(repository().join("packaging/build.py")).arg("--fast").arg("--binary").arg(program);
    command.arg("--out").arg(out);
    command
}

/// All packages, built once for all tests.
pub(crate) fn packages() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let out = folder("all");
        output(build(&program(), &out).args(["--version", VERSION]));
        out
    })
}

/// The one package with this end of its name.
pub(crate) fn package(end: &str) -> PathBuf {
    only(packages(), end)
}

/// The one file of a folder with this end of its name.
pub(crate) fn only(folder: &Path, end: &str) -> PathBuf {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let found: Vec<PathBuf> = entries.filter(|path| path.to_str().unwrap().ends_with(end)).collect();
    assert_eq!(found.len(), 1, "*{end} in {}: {found:?}", folder.display());
    found[0].clone()
}

/// The output of a program that has to succeed.
pub(crate) fn output(command: &mut Command) -> String {
    let Output { status, stdout, stderr } =
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{command:?}: {status}\n{text}{}", String::from_utf8_lossy(&stderr));
    text
}

/// The errors of a program that has to fail.
pub(crate) fn failure(command: &mut Command) -> String {
    let Output { status, stdout, stderr } =
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&stderr).into_owned();
    assert!(!status.success(), "{command:?} succeeded\n{}{text}", String::from_utf8_lossy(&stdout));
    text
}

/// The output of a program with these arguments.
pub(crate) fn run(program: &str, arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> String {
    output(Command::new(program).args(arguments.iter().map(|argument| argument.as_ref())))
}

/// Whether the test has the rights of root, which some programs need. Prints the reason if it is left out.
pub(crate) fn is_root_for(reason: &str) -> bool {
    let is_root = run("id", &[&"-u"]).trim() == "0";
    if !is_root {
        skipped(reason, "it needs root");
    }
    is_root
}

/// Prints which part of a test is left out, and the reason.
pub(crate) fn skipped(part: &str, reason: &str) {
    println!("skipped: {part}: {reason}");
}
