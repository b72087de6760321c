//! The documentation site: it is built without a warning, each of its links leads somewhere, and it works
//! from its folder in a browser, with its search.

use std::path::Path;
use std::process::Command;

use crate::place::repository;

/// Runs a program in the repository; panics with its output if it fails.
fn run(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(repository()).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{} {arguments:?}:\n{text}", program.display());
    text
}

#[test]
fn site_has_no_broken_link_and_works_from_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("site");
    let built = run(&repository().join("docs/site/build.py"), &["--out", site.to_str().unwrap()]);
    assert!(built.contains(" 0 of them broken"), "{built}");
    let node = repository().join("target/test-node/node");
    let looked = run(&node, &["docs/site/look.mjs", site.to_str().unwrap()]);
    assert!(looked.contains("0 faults"), "{looked}");
}

#[test]
fn broken_link_and_anchor_are_found() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.html"), "<a href='b.html#x'></a><a href='b.html#y'></a>").unwrap();
    std::fs::write(folder.path().join("b.html"), "<p id='x'></p><img src='gone.png'>").unwrap();
    let program = repository().join("docs/site/links.py");
    let output = Command::new(program).arg(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let faults = [
        "a.html:1: b.html#y names no element of b.html",
        "b.html:1: gone.png leads nowhere",
        "3 links, 2 of them broken",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), faults);
}
