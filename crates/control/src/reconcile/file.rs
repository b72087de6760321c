//! Taking over a changed file: the objects that differ from the configuration in force are applied, the others stay. It
//! does not know the file's format.

use std::collections::HashSet;
use std::sync::Arc;

use model::{Change, Fault, Key, Kind, Policy, Snapshot, Written};

use super::{Reconciler, Refused, Source};
use crate::source::file::{Document, FileFault};

impl Reconciler {
    /// Reads the file and applies it; returns every fault, each as one line. With etcd, starts reading everything
    /// again. With the store it does nothing.
    pub(super) fn reload(&mut self) -> Vec<String> {
        self.read_etcd_again(false);
        let Source::File { file, strict } = &mut self.parts.source else { return Vec::new() };
        let strict = *strict;
        let faults = match file.read() {
            Ok(document) => self.take_over(&document, strict),
            Err(faults) => lines(faults),
        };
        // Faults that are not new were logged before.
        let known: HashSet<&String> = self.faults.iter().collect();
        for fault in faults.iter().filter(|fault| !known.contains(fault)) {
            tracing::error!("{fault}");
        }
        self.faults.clone_from(&faults);
        self.show();
        faults
    }

    fn take_over(&mut self, document: &Document, strict: bool) -> Vec<String> {
        if strict && !document.faults.is_empty() {
            return lines(document.faults.clone());
        }
        self.settle_document_faults(lines(document.faults.clone()));
        let revision = self.snapshot.revision() + 1;
        let changes = self.changes(document, revision);
        let policy = if strict { Policy::Strict } else { Policy::Lenient };
        if !strict && self.snapshot.revision() == 0 {
            self.announce(revision, changes.len());
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
            self.announce(revision, changes.len());
            self.publish(applied);
        }
        faults
    }

    /// The faults of the file and of its objects, each as a line, in the file's order.
    fn faults_of(document: &Document, of_objects: &[Fault]) -> Vec<String> {
        let mut faults = document.faults.clone();
        // An object that is kept although the file has no item for it is not in the document; its fault is already
        // among the document's faults.
        faults.extend(of_objects.iter().filter_map(|fault| document.place(fault)));
        faults.sort_by_key(|fault| fault.line);
        // An item with a stand-in is reported twice with the same text: by the file and by the stand-in.
        faults.dedup();
        lines(faults)
    }

    /// The objects that are new or differ, and those that are removed.
    fn changes(&self, document: &Document, revision: u64) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut present: HashSet<&Key> = HashSet::with_capacity(document.objects.len());
        for object in document.objects.iter().chain(&document.stand_ins) {
            present.insert(&object.key);
            let before = self.written(&object.key);
            if before.is_none_or(|before| before.text != object.text) {
                let written = Written {
                    key: object.key.clone(),
                    text: Arc::clone(&object.text),
                    created_index: before.map_or(revision, |before| before.created_index),
                    modified_index: revision,
                };
                changes.push(Change { key: object.key.clone(), written: Some(written) });
            }
        }
        let good = Kind::ALL.into_iter().flat_map(|kind| self.snapshot.iter(kind)).map(|object| object.key());
        let faulty = self.snapshot.faulty().map(|faulty| &faulty.written.key);
        let gone: HashSet<&Key> = good.chain(faulty).filter(|key| !present.contains(key)).collect();
        // If an item has no usable key, an object that seems to be removed may be that item.
        let gone = gone.into_iter().filter(|key| !document.unclear.contains(&key.kind));
        changes.extend(gone.map(|key| Change { key: key.clone(), written: None }));
        changes
    }

    /// The refusal of writes; its text names the source that can be changed instead.
    pub(super) fn read_only(&self) -> Refused {
        match &self.parts.source {
            Source::File { file, .. } => Refused::ReadOnly(format!(
                "the configuration comes from the file {}; change it there, it is read again at once",
                file.path().display()
            )),
            Source::Etcd(_) => Refused::ReadOnly(
                "the configuration comes from etcd, which has other owners too: write objects, or a set with \
                 `weir apply`"
                    .to_owned(),
            ),
            Source::Store(_) => Refused::Store("the store takes no writes".to_owned()),
        }
    }

    pub(super) fn written(&self, key: &Key) -> Option<&Written> {
        match self.snapshot.faulty_at(key) {
            Some(faulty) => Some(&faulty.written),
            None => self.snapshot.get(key).map(|object| &object.written),
        }
    }

    fn announce(&self, revision: u64, changes: usize) {
        let Source::File { file, .. } = &self.parts.source else { return };
        let path = file.path().display();
        tracing::info!(%path, revision, changes, "took over the resource file");
    }
}

/// Logs the parts without effect in objects that are new or differ.
fn warn(document: &Document, snapshot: &Snapshot, changes: &[Change]) {
    let lines = changes.iter().flat_map(|change| {
        let warnings = snapshot.warnings_at(&change.key).iter();
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
