//! Texts that are compared with a stored file, which `UPDATE=1 cargo test -p lab` rewrites.

use std::fs;
use std::path::Path;

/// Compares `text` with `golden/NAME` beside this file.
pub(crate) fn check_golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/report/golden").join(name);
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        return;
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let differs = kept.lines().zip(text.lines()).position(|(kept, now)| kept != now);
    let at = differs.unwrap_or(kept.lines().count().min(text.lines().count()));
    assert!(
        kept == text,
        "{name} is no longer what it was from line {}:\n  was {:?}\n  now {:?}\nUPDATE=1 cargo test -p lab writes it",
        at + 1,
        kept.lines().nth(at),
        text.lines().nth(at),
    );
}
