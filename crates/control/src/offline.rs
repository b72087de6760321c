//! The configuration as it lies on disk, for commands that run beside no node. It starts nothing and changes nothing.

use std::path::Path;

use model::Change;

use crate::sealing::{Medium, Sealer};
use crate::source::etcd::LastGood;
use crate::source::file;
use crate::source::store::{DirectoryLock, Record, Store, StoreError};
use crate::stored_key;

/// The objects of an embedded store that no node has open; none where there is no store yet.
///
/// # Errors
/// The store cannot be opened, above all because a node runs on it.
pub fn from_store(directory: &Path, sealer: &Sealer) -> Result<Vec<Change>, StoreError> {
    if !Store::exists(directory) {
        return Ok(Vec::new());
    }
    let records = Store::open(directory)?.load()?;
    Ok(changes(sealer, Medium::Store, records))
}

/// The objects that etcd had last, as the copy on this disk has them; none where there is no copy.
///
/// # Errors
/// The copy cannot be opened, above all because a node runs on it.
pub fn from_etcd_copy(directory: &Path, prefix: &str, sealer: &Sealer) -> Result<Vec<Change>, StoreError> {
    if !LastGood::exists(directory) {
        return Ok(Vec::new());
    }
    let lock = DirectoryLock::take(directory)?;
    let (_, kept) = LastGood::open(&lock, prefix)?;
    Ok(changes(sealer, Medium::Etcd, kept.entries))
}

fn changes(sealer: &Sealer, medium: Medium, entries: Vec<(String, Record)>) -> Vec<Change> {
    let change = |(path, record): (String, Record)| {
        Some(stored_key::change(sealer, medium, stored_key::parse(&path)?, record))
    };
    entries.into_iter().filter_map(change).collect()
}

/// The objects of a declarative file.
///
/// # Errors
/// The faults that make it no document, one `file:line: path: reason` a line.
pub fn from_file(path: &Path) -> Result<Vec<Change>, String> {
    let document = file::read(path).map_err(|faults| {
        let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
        lines.join("\n")
    })?;
    Ok(document.objects.iter().map(|object| object.change(1)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_makes_no_store() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("weir-data");
        let sealer = crate::testing::sealer(&[]);
        assert!(from_store(&directory, &sealer).unwrap().is_empty());
        assert!(!directory.exists());
    }
}
