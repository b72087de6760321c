//! The manual pages of `weir man`, and whether the programs that show manual pages accept them.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::command::{weir, weir_with};

/// Runs a program of the system on a page; `None` if it is not installed.
fn output(program: &str, arguments: &[&str], page: &Path) -> Option<(bool, String)> {
    let mut command = Command::new(program);
    command.args(arguments).arg(page).env("MANWIDTH", "100").env("MANROFFOPT", "").stdin(Stdio::null());
    let output = command.output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

#[test]
fn each_command_has_a_page_that_renders() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = weir(folder.path(), &["man", "pages/man1"], &[]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{outcome:?}");
    let pages = folder.path().join("pages/man1");
    let mut files: Vec<_> = fs::read_dir(&pages).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(outcome.stdout, format!("wrote {} pages into pages/man1\n", files.len()));
    for name in ["weir.1", "weir-run.1", "weir-check.1", "weir-man.1", "weir-lab.1", "weir-lab-run.1"] {
        assert!(files.contains(&pages.join(name)), "{name}: {files:?}");
    }
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        let title = file.file_stem().unwrap().to_str().unwrap();
        assert!(text.contains(&format!(".TH {title} 1")), "{title}: {text}");
        if let Some((_, faults)) = output("mandoc", &["-Tlint", "-Werror"], file) {
            assert_eq!(faults, "", "{title}");
        }
        if let Some((is_good, shown)) = output("man", &["-P", "cat", "-l"], file) {
            assert!(is_good && shown.contains("SYNOPSIS"), "{title}: {shown}");
        }
    }
}

#[test]
fn program_page_tells_statuses_and_signals() {
    let outcome = weir_with(&[], &["man"], &[]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    for part in [".TH weir 1", "EXIT STATUS", "SIGNALS", "USR2", "WEIR_ADMIN_KEY", "weir\\-upgrade"] {
        assert!(outcome.stdout.contains(part), "{part}: {}", outcome.stdout);
    }
}

#[test]
fn folder_that_cannot_be_made_is_named() {
    let outcome = weir_with(&[("file", "")], &["man", "file/below"], &[]);
    assert_eq!(outcome.code, 1);
    assert!(outcome.stderr.contains("cannot make file/below"), "{}", outcome.stderr);
}
