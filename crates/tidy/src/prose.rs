//! Counts comment blocks and Markdown blocks that break the project's style, and test names that are too
//! long. Fails when a count rises. A count that has fallen is lowered in [`MOST`], so that it cannot rise
//! again.
//!
//! `cargo test -p tidy -- --nocapture` prints the counts in the form of [`MOST`].

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::crates;

/// The longest name of a test, in characters.
const TEST_NAME_MAX: usize = 50;

/// The most that each group may have: blocks with a person as a stand-in for a thing, blocks that begin with
/// a relative clause, and test names over [`TEST_NAME_MAX`]. Lower a number when a change allows it; never
/// raise one.
const MOST: &[(&str, [usize; 3])] = &[
    ("crates/control", [0, 0, 0]),
    ("crates/discovery", [0, 0, 0]),
    ("crates/exchange", [0, 0, 0]),
    ("crates/gateway", [0, 0, 0]),
    ("crates/http1", [0, 0, 0]),
    ("crates/http2", [0, 0, 0]),
    ("crates/http3", [0, 0, 0]),
    ("crates/jsonx", [0, 0, 0]),
    ("crates/lab", [0, 0, 0]),
    ("crates/lua", [0, 0, 0]),
    ("crates/message", [0, 0, 0]),
    ("crates/model", [0, 0, 0]),
    ("crates/multiplex", [0, 0, 0]),
    ("crates/net", [0, 0, 0]),
    ("crates/outbound", [0, 0, 0]),
    ("crates/peer", [0, 0, 0]),
    ("crates/plugins", [0, 0, 0]),
    ("crates/router", [0, 0, 0]),
    ("crates/stdx", [0, 0, 0]),
    ("crates/testkit", [0, 0, 0]),
    ("crates/tidy", [0, 0, 0]),
    ("crates/wasm", [0, 0, 0]),
    ("crates/weir", [0, 0, 0]),
    ("crates/yaml", [0, 0, 0]),
    ("docs", [0, 0, 0]),
    ("fuzz", [0, 0, 0]),
    ("lab", [0, 0, 0]),
    ("root", [0, 0, 0]),
];

/// Words for people that stand in for things of the program.
const PERSONS: [&str; 6] = ["who", "whom", "whoever", "whose", "nobody", "somebody"];
/// Words that begin a relative clause in the place of a subject.
const CLAUSES: [&str; 4] = ["what", "who", "whose", "whoever"];

#[test]
fn prose_and_names_do_not_get_worse() {
    let root = crates().join("..");
    let mut found: BTreeMap<&str, [Vec<String>; 3]> = BTreeMap::new();
    for file in tracked(&root) {
        let Some(group) = group_of(&file) else { continue };
        let Ok(text) = fs::read_to_string(root.join(&file)) else { continue };
        let counts = found.entry(group).or_default();
        for (line, block) in blocks_of(&file, &text) {
            let place = || format!("{}:{line}", file.display());
            let words: Vec<String> = words(&block).collect();
            if words.iter().any(|word| PERSONS.contains(&word.as_str())) {
                counts[0].push(place());
            }
            if words.first().is_some_and(|word| CLAUSES.contains(&word.as_str())) {
                counts[1].push(place());
            }
        }
        for (line, name) in long_test_names(&file, &text) {
            counts[2].push(format!("{}:{line} {name}", file.display()));
        }
    }
    let mut worse = Vec::new();
    for (group, counts) in &found {
        let lengths = [counts[0].len(), counts[1].len(), counts[2].len()];
        let most = MOST.iter().find(|(name, _)| name == group).map_or([0; 3], |(_, most)| *most);
        for kind in (0..3).filter(|kind| lengths[*kind] > most[*kind]) {
            worse.push(format!("{group}: {} where {} were: {:#?}", lengths[kind], most[kind], counts[kind]));
        }
    }
    assert!(
        worse.is_empty(),
        "comments and documents name things, not persons (CONTRIBUTING.md):\n{}",
        worse.join("\n")
    );
}

/// The files that git tracks; none in a folder without git.
fn tracked(root: &Path) -> Vec<PathBuf> {
    let output =
        Command::new("git").args(["ls-files", "-z"]).current_dir(root).output().expect("git can be started");
    String::from_utf8_lossy(&output.stdout)
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)
        .collect()
}

/// The group of a file. Generated pages, measurements and golden files are in none.
fn group_of(file: &Path) -> Option<&'static str> {
    let text = file.to_str()?;
    let is_code = [".rs", ".sh", ".py"].iter().any(|end| text.ends_with(end)) || text == "Makefile";
    let is_generated = text.contains("/golden/") || text.starts_with("docs/reference/measurements");
    if is_generated || !(is_code || text.ends_with(".md")) {
        return None;
    }
    let group = MOST.iter().map(|(name, _)| *name).find(|name| text.starts_with(&format!("{name}/")));
    Some(group.unwrap_or("root"))
}

/// The blocks of prose of a file with the number of their first line: runs of adjacent comment lines, or the
/// paragraphs, list items and table rows of a Markdown document outside its code.
fn blocks_of(file: &Path, text: &str) -> Vec<(usize, String)> {
    let is_markdown = file.extension().is_some_and(|end| end == "md");
    let mut blocks: Vec<(usize, String)> = Vec::new();
    let (mut is_open, mut in_code) = (false, false);
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if is_markdown && line.starts_with("```") {
            in_code = !in_code;
            is_open = false;
            continue;
        }
        let prose = match is_markdown {
            true => Some(line).filter(|line| !in_code && !line.is_empty()),
            false => comment(line),
        };
        let Some(prose) = prose else {
            is_open = false;
            continue;
        };
        let is_item = ["- ", "* ", "|", "#", "> "].iter().any(|mark| prose.starts_with(mark))
            || prose.starts_with(|first: char| first.is_ascii_digit());
        let begins = is_markdown && is_item;
        if !is_open || begins {
            blocks.push((number + 1, String::new()));
        }
        is_open = true;
        let block = &mut blocks.last_mut().expect("a block was opened").1;
        block.push_str(prose.trim_start_matches(['-', '*', '|', '#', '>', ' ']));
        block.push(' ');
    }
    blocks
}

/// The text of a line that is a comment.
fn comment(line: &str) -> Option<&str> {
    let marks = ["///", "//!", "//", "# "];
    let text = marks.iter().find_map(|mark| line.strip_prefix(mark))?.trim();
    (!text.is_empty()).then_some(text)
}

/// The words of a text in lower case, without the code in it.
fn words(text: &str) -> impl Iterator<Item = String> {
    let outside_code: String =
        text.split('`').enumerate().filter(|(index, _)| index % 2 == 0).map(|(_, part)| part).collect();
    let words: Vec<String> = outside_code
        .split(|letter: char| !letter.is_alphanumeric() && letter != '\'' && letter != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.into_iter()
}

/// The names of tests that are too long, with their lines.
fn long_test_names(file: &Path, text: &str) -> Vec<(usize, String)> {
    if file.extension().is_none_or(|end| end != "rs") {
        return Vec::new();
    }
    let mut is_test = false;
    let mut names = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("#[test]") {
            is_test = true;
        } else if let Some(rest) = line.strip_prefix("fn ").or_else(|| line.strip_prefix("async fn ")) {
            let name: String =
                rest.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
            if std::mem::take(&mut is_test) && name.len() > TEST_NAME_MAX {
                names.push((number + 1, name));
            }
        }
    }
    names
}
