//! Runs the committed corpus of a fuzz target in an ordinary test. It refuses to know what must hold.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

/// Shows every file of the target's corpus to `check`.
///
/// # Panics
/// At the first file that does not pass, with its name; and when there is none.
pub fn run(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    for file in files {
        let data = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        if catch_unwind(|| check(&data)).is_err() {
            panic!("{target} does not hold for {}", file.display());
        }
    }
}
