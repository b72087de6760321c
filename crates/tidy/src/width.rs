//! Comments are at most [`WIDTH_MAX`] columns wide, as rustfmt keeps the code.

use std::fs;

use crate::{collect, crates};

/// The width of code by `rustfmt.toml`.
const WIDTH_MAX: usize = 110;

/// The most comment lines that may be wider. Lower it when a change allows it; never raise it.
const WIDER_MAX: usize = 53;

#[test]
fn comments_are_as_wide_as_code() {
    let mut files = Vec::new();
    collect(&crates(), &mut files);
    let mut wider = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a source can be read");
        for (number, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("//") && line.chars().count() > WIDTH_MAX {
                wider.push(format!("{}:{}", file.display(), number + 1));
            }
        }
    }
    assert!(
        wider.len() <= WIDER_MAX,
        "{} comment lines have over {WIDTH_MAX} columns: {wider:#?}",
        wider.len()
    );
}
