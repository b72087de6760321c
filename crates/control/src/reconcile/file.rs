//! Taking over a changed file: the objects that differ from the configuration in force are applied, the
//! others stay. It does not know the file's format.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use model::{ConfigFault, FaultPolicy, ObjectKey, ObjectKind, Snapshot, SnapshotChange, WrittenObject};

use super::source::{ConfigSource, SourceFacts, Wake};
use super::{ControlLoop, LoadError, Reconciler, WriteRefusal};
use crate::source::file::{ConfigDocument, FileFault, FileSource};

/// A declarative file; the Admin API only reads.
pub(crate) struct DeclarativeFile {
    file: FileSource,
    /// A file with any fault changes nothing.
    strict: bool,
}

impl DeclarativeFile {
    pub(crate) fn new(file: FileSource, strict: bool) -> DeclarativeFile {
        DeclarativeFile { file, strict }
    }
}

impl ConfigSource for DeclarativeFile {
    fn facts(&self) -> SourceFacts {
        let path = self.file.path();
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        SourceFacts { identity: format!("file {}", path.display()), has_revisions: false, logs_faults: true }
    }

    fn load(&mut self, reconciler: &mut Reconciler, _wake: Wake) -> Result<(), LoadError> {
        let faults = self.reload(reconciler);
        // A file that cannot be taken over has no last good form yet: nothing would be served in its name.
        if reconciler.snapshot.revision() == 0 || (self.strict && !faults.is_empty()) {
            return Err(LoadError::File(faults.join("\n")));
        }
        Ok(())
    }

    fn tick(&mut self, reconciler: &mut Reconciler) {
        if self.file.changed() {
            self.reload(reconciler);
        }
    }

    /// Reads the file and applies it.
    fn reload(&mut self, reconciler: &mut Reconciler) -> Vec<String> {
        let faults = match self.file.read() {
            Ok(document) => reconciler.take_over(self.file.path(), &document, self.strict),
            Err(faults) => lines(faults),
        };
        // Faults that are not new were logged before.
        let known: HashSet<&String> = reconciler.faults.iter().collect();
        for fault in faults.iter().filter(|fault| !known.contains(fault)) {
            tracing::error!("{fault}");
        }
        reconciler.faults.clone_from(&faults);
        reconciler.show();
        faults
    }

    fn refusal(&self) -> WriteRefusal {
        WriteRefusal::ReadOnly(format!(
            "the configuration comes from the file {}; change it there, it is read again at once",
            self.file.path().display()
        ))
    }
}

impl Reconciler {
    fn take_over(&mut self, path: &Path, document: &ConfigDocument, strict: bool) -> Vec<String> {
        if strict && !document.faults.is_empty() {
            return lines(document.faults.clone());
        }
        self.settle_document_faults(lines(document.faults.clone()));
        let revision = self.snapshot.revision() + 1;
        let changes = self.changes(document, revision);
        let policy = if strict { FaultPolicy::Strict } else { FaultPolicy::Lenient };
        if !strict && self.snapshot.revision() == 0 {
            announce(path, revision, changes.len());
            self.apply_first(changes.clone(), revision);
            warn(document, &self.snapshot, &changes);
            return Self::faults_of(document, &self.snapshot.faults());
        }
        let applied = self.snapshot.apply(&self.parts.catalog, &changes, revision, policy);
        // Objects that were faulty before and are unchanged are not among the applied ones.
        let all = if strict { applied.faults.clone() } else { applied.snapshot.faults() };
        let faults = Self::faults_of(document, &all);
        let refused = strict && !faults.is_empty();
        if !refused {
            warn(document, &applied.snapshot, &changes);
        }
        if !refused && (!changes.is_empty() || self.snapshot.revision() == 0) {
            announce(path, revision, changes.len());
            self.publish(applied);
        }
        faults
    }

    /// The faults of the file and of its objects, each as a line, in the file's order.
    fn faults_of(document: &ConfigDocument, of_objects: &[ConfigFault]) -> Vec<String> {
        let mut faults = document.faults.clone();
        // An object that is kept although the file has no item for it is not in the document; its fault is
        // already among the document's faults.
        faults.extend(of_objects.iter().filter_map(|fault| document.place(fault)));
        faults.sort_by_key(|fault| fault.line);
        // An item with a stand-in is reported twice with the same text: by the file and by the stand-in.
        faults.dedup();
        lines(faults)
    }

    /// The objects that are new or differ, and those that are removed.
    fn changes(&self, document: &ConfigDocument, revision: u64) -> Vec<SnapshotChange> {
        let mut changes = Vec::new();
        let mut present: HashSet<&ObjectKey> = HashSet::with_capacity(document.objects.len());
        let of_file = document.objects.iter().chain(&document.stand_ins);
        let of_file = of_file.map(|object| (&object.key, &object.text));
        for (key, text) in of_file.chain(self.parts.beside_file.iter().map(|(key, text)| (key, text))) {
            if !present.insert(key) {
                continue;
            }
            let before = self.written(key);
            if before.is_none_or(|before| before.text != *text) {
                let written = WrittenObject {
                    key: key.clone(),
                    text: Arc::clone(text),
                    created_index: before.map_or(revision, |before| before.created_index),
                    modified_index: revision,
                };
                changes.push(SnapshotChange { key: key.clone(), written: Some(written) });
            }
        }
        let good =
            ObjectKind::ALL.into_iter().flat_map(|kind| self.snapshot.iter(kind)).map(|object| object.key());
        let faulty = self.snapshot.faulty().map(|faulty| &faulty.written.key);
        let gone: HashSet<&ObjectKey> = good.chain(faulty).filter(|key| !present.contains(key)).collect();
        // If an item has no usable key, an object that seems to be removed may be that item.
        let gone = gone.into_iter().filter(|key| !document.unclear.contains(&key.kind));
        changes.extend(gone.map(|key| SnapshotChange { key: key.clone(), written: None }));
        changes
    }
}

impl ControlLoop {
    /// Brings the objects that are kept beside the file into force, in place of those before. Other sources
    /// ignore them.
    pub(crate) fn set_beside_file(&mut self, objects: Vec<(ObjectKey, Arc<str>)>) {
        self.reconciler.parts.beside_file = objects;
        self.source.reload(&mut self.reconciler);
    }
}

fn announce(path: &Path, revision: u64, changes: usize) {
    tracing::info!(path = %path.display(), revision, changes, "took over the resource file");
}

/// Logs the parts without effect in objects that are new or differ.
fn warn(document: &ConfigDocument, snapshot: &Snapshot, changes: &[SnapshotChange]) {
    let lines = changes.iter().flat_map(|change| {
        let warnings = snapshot.warnings_at(&change.key).into_iter();
        warnings.filter_map(move |warning| document.warning(&change.key, &warning.pointer, &warning.reason))
    });
    for line in lines.take(MAX_WARNING_LINES) {
        tracing::warn!("{line}");
    }
}

/// Limit of logged warnings for one version of a file; `weir check` shows all.
const MAX_WARNING_LINES: usize = 100;

fn lines(faults: Vec<FileFault>) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}
