//! Runs the committed corpus of a fuzz target in an ordinary test, with the oracle that the test hands in.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

/// Calls `check` with every file of the corpus of the target.
///
/// # Panics
/// With the names of the files that fail, and if the corpus is empty.
pub fn run(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files.retain(|file| {
        let data = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        catch_unwind(|| check(&data)).is_err()
    });
    assert!(files.is_empty(), "{target} does not hold for {files:?}");
}
