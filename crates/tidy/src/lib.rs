//! Rules that the sources of all crates keep, as tests that only read text: prose and names, which module may
//! import which, which files may read JSON without a bound, and how tests choose ports.
//!
//! `cargo test -p tidy` checks them in seconds, because this crate has no dependencies.
#![cfg(test)]

mod imports;
mod json_readers;
mod names;
mod ports;
mod prose;
mod width;

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of all crates.
fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Adds the Rust sources below `folder` to `files`.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
}
