//! Good forms of objects that have become faulty, on this instance's disk, so that a restart serves the same
//! last good form as the process before. The embedded store takes faulty objects only in a forced rollback.
//! It does not know the kinds of faults.
//!
//! The file is small, because it holds only objects that are faulty now. It is replaced as a whole: written
//! under another name, synced, renamed. Several instances may share a data directory in declarative mode;
//! each resources file has a file of its own.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use model::{FaultPolicy, ObjectKey, Snapshot, SnapshotChange, WrittenObject};
use serde::{Deserialize, Serialize};
use stdx::hash::crc32;

use super::Reconciler;
use super::stored_change::stored_change;
use crate::sealing::{Sealer, StorageMedium};
use crate::source::store::StoredRecord;
use crate::stored_key;

/// The good forms on disk.
#[derive(Debug, Default)]
pub(super) struct GoodForms {
    /// Their file and the name of the source; none: the forms are not kept.
    place: Option<(PathBuf, String)>,
    /// The forms on disk, by the text of their key.
    kept: BTreeMap<String, GoodForm>,
    /// Whether the disk did not take the last change, which was reported.
    is_behind: bool,
}

/// One object as it is on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct GoodForm {
    /// The text with encrypted secrets, as in the store.
    text: String,
    created_index: u64,
    modified_index: u64,
}

/// The whole file.
#[derive(Serialize, Deserialize)]
struct GoodFormsFile {
    /// The name of the source of the objects.
    source: String,
    objects: BTreeMap<String, GoodForm>,
}

impl GoodForms {
    /// Reads the forms that an earlier process has kept. A file that cannot be used is renamed and reported.
    pub(super) fn load(data: Option<&Path>, source: &str) -> GoodForms {
        let Some(data) = data else { return GoodForms::default() };
        let path = data.join(format!("last-good-{:08x}.json", crc32(source.as_bytes())));
        let kept = match read(&path, source) {
            Ok(kept) => kept,
            Err(fault) => {
                let aside = path.with_extension("json.unusable");
                tracing::error!(%fault, path = %path.display(), aside = %aside.display(),
                    "the last good forms on disk cannot be used and are put aside: faulty objects are answered 503");
                // If it cannot be renamed, the next change replaces it.
                let _ = fs::rename(&path, aside);
                BTreeMap::new()
            }
        };
        GoodForms { place: Some((path, source.to_owned())), kept, is_behind: false }
    }

    /// Returns the forms, decrypted, for the first configuration.
    fn opened(&self, sealer: &Sealer) -> BTreeMap<ObjectKey, WrittenObject> {
        let opened = self.kept.iter().filter_map(|(path, form)| {
            let record = StoredRecord {
                text: form.text.clone(),
                created_index: form.created_index,
                modified_index: form.modified_index,
                expires_at_ms: None,
            };
            let change =
                stored_change(sealer, StorageMedium::Store, stored_key::parse_stored_key(path)?, record);
            Some((change.key, change.written?))
        });
        opened.collect()
    }

    /// Writes the good forms that are in force for faulty objects of `snapshot` to disk, before requests are
    /// served by them. It costs nothing while no object is faulty.
    pub(super) fn keep(&mut self, sealer: &Sealer, snapshot: &Snapshot) {
        let Some((path, source)) = &self.place else { return };
        let good = snapshot.faulty().filter_map(|faulty| {
            let object = snapshot.get(&faulty.written.key)?;
            (object.written.text != faulty.written.text).then_some(&object.written)
        });
        let form = |written: &WrittenObject| GoodForm {
            text: sealer.seal_for(StorageMedium::Store, &written.key, &written.text).into_owned(),
            created_index: written.created_index,
            modified_index: written.modified_index,
        };
        let forms: BTreeMap<String, GoodForm> =
            good.map(|written| (stored_key::format_stored_key(&written.key), form(written))).collect();
        if forms == self.kept && !self.is_behind {
            return;
        }
        let written = replace(path, source, &forms);
        if let Err(fault) = &written
            && !self.is_behind
        {
            tracing::error!(%fault, path = %path.display(),
                "last good forms cannot be kept on disk: after a restart these objects answer 503");
        }
        self.is_behind = written.is_err();
        self.kept = forms;
    }
}

impl Reconciler {
    /// Whether a form on disk belongs to the present object, and not to one that was deleted in the meantime.
    /// A file has no revisions of its own, and a value of etcd that cannot be read has no known revision (0).
    fn is_one_object(&self, form: &WrittenObject, now: &WrittenObject) -> bool {
        !self.facts.has_revisions
            || [form.created_index, 0].contains(&now.created_index)
            || form.created_index == 0
    }

    /// Brings the first configuration into force: objects that an earlier process served in a good form get
    /// that form first and their present text after it, so that a faulty text keeps the good form.
    pub(super) fn apply_first(&mut self, changes: Vec<SnapshotChange>, revision: u64) {
        let good = self.good.opened(&self.parts.sealer);
        let (mut first, mut second) = (Vec::with_capacity(changes.len()), Vec::new());
        for change in changes {
            let is_of_it = |form: &&WrittenObject| {
                change.written.as_ref().is_some_and(|now| now != *form && self.is_one_object(form, now))
            };
            let form = good.get(&change.key).filter(is_of_it);
            match form {
                Some(form) => {
                    first.push(SnapshotChange { key: change.key.clone(), written: Some(form.clone()) });
                    second.push(change);
                }
                None => first.push(change),
            }
        }
        let applied = self.snapshot.apply(&self.parts.catalog, &first, revision, FaultPolicy::Lenient);
        if second.is_empty() {
            self.publish(applied);
        } else {
            // The file on disk must survive a crash between the two steps.
            self.hand_over(applied);
            let applied = self.snapshot.apply(&self.parts.catalog, &second, revision, FaultPolicy::Lenient);
            self.publish(applied);
        }
    }
}

fn read(path: &Path, source: &str) -> io::Result<BTreeMap<String, GoodForm>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(fault) => return Err(fault),
    };
    let document: GoodFormsFile = serde_json::from_slice(&text)?;
    Ok(if document.source == source { document.objects } else { BTreeMap::new() })
}

/// Replaces the file by one with these forms, or removes it where there are none.
fn replace(path: &Path, source: &str, forms: &BTreeMap<String, GoodForm>) -> io::Result<()> {
    if forms.is_empty() {
        return match fs::remove_file(path) {
            Err(fault) if fault.kind() != io::ErrorKind::NotFound => Err(fault),
            _ => Ok(()),
        };
    }
    let directory = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    // The name has the process id, because instances that share the directory write at the same time.
    let beside = path.with_extension(format!("json.{}", std::process::id()));
    let document = GoodFormsFile { source: source.to_owned(), objects: forms.clone() };
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(&serde_json::to_vec_pretty(&document)?)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forms(text: &str) -> BTreeMap<String, GoodForm> {
        let form = GoodForm { text: text.to_owned(), created_index: 1, modified_index: 2 };
        BTreeMap::from([("routes/1".to_owned(), form)])
    }

    #[test]
    fn forms_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data/last-good.json");
        replace(&path, "file a", &forms("{}")).unwrap();
        assert_eq!(read(&path, "file a").unwrap(), forms("{}"));
        assert_eq!(read(&path, "file b").unwrap(), BTreeMap::new(), "another source's");
        replace(&path, "file a", &forms("{\"uri\":1}")).unwrap();
        assert_eq!(read(&path, "file a").unwrap(), forms("{\"uri\":1}"));
        replace(&path, "file a", &BTreeMap::new()).unwrap();
        assert!(!path.exists());
        assert_eq!(read(&path, "file a").unwrap(), BTreeMap::new());
        fs::write(&path, "{\"source\"").unwrap();
        assert!(read(&path, "file a").is_err(), "cut");
    }
}
