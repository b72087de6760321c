//! The pages that name tests: `docs/reference/hardening.md` for every check, `SECURITY.md` for every class of
//! vulnerabilities. Checks that the tests exist; does not run them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// The repository's root.
pub(crate) fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The texts between backquotes in `line`.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The tests in a line of a table, as file and function: a file under `crates`, then functions in it.
pub(crate) fn tests_of(line: &str) -> Vec<(String, String)> {
    let mut tests = Vec::new();
    let mut file = None;
    for word in quoted(line) {
        if word.ends_with(".rs") {
            file = Some(format!("crates/{word}"));
        } else if let Some(file) = &file
            && word.len() > 3
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        {
            tests.push((file.clone(), word.to_owned()));
        }
    }
    tests
}

/// The rows of a page's tables that name a file of tests.
fn rows(page: &str) -> Vec<&str> {
    page.lines().filter(|line| line.starts_with('|') && line.contains(".rs`")).collect()
}

#[test]
fn every_test_that_a_page_names_exists() {
    for page in ["SECURITY.md", "docs/reference/hardening.md"] {
        let text = read(page);
        let mut named = 0;
        for row in rows(&text) {
            let tests = tests_of(row);
            assert!(!tests.is_empty(), "{page}: names a file and no test: {row}");
            for (file, test) in tests {
                assert!(read(&file).contains(&format!("fn {test}(")), "{page}: there is no {test} in {file}");
                named += 1;
            }
        }
        assert!(named > 40, "{page} names {named} tests");
    }
}

#[test]
fn the_page_has_every_check_with_its_tests() {
    let text = read("docs/reference/hardening.md");
    let mut checks: BTreeMap<u32, &str> = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("| ")) {
        if let Some(number) = line[2..].split(' ').next().and_then(|number| number.parse().ok()) {
            assert!(checks.insert(number, line).is_none(), "check {number} stands twice");
        }
    }
    let numbers: Vec<u32> = checks.keys().copied().collect();
    assert_eq!(numbers, (1..=CHECKS).collect::<Vec<_>>());
    let folder = repository().join("crates/weir/tests/it/hardening");
    let mut found = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.ends_with(".rs") {
            continue;
        }
        for line in fs::read_to_string(&path).unwrap().lines() {
            let Some(test) = line.strip_prefix("fn check_") else { continue };
            let test = format!("check_{}", test.split('(').next().unwrap());
            let number: u32 = test["check_".len()..].split('_').next().unwrap().parse().unwrap();
            let wanted = (format!("crates/weir/tests/it/hardening/{name}"), test);
            assert!(tests_of(checks[&number]).contains(&wanted), "check {number} does not name {wanted:?}");
            found += 1;
        }
    }
    assert!(found > 15, "{found} tests");
}

/// Number of checks in the project's hardening list.
const CHECKS: u32 = 48;
