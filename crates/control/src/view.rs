//! The view of the control side for its readers: the snapshot in force and its faults, as one value that the
//! reconciling thread replaces.

use std::sync::Arc;

use model::{Catalog, Fault, Key, Kind, Snapshot, Written};
use parking_lot::RwLock;

use crate::reconcile::{Configs, WriteFailure};
use crate::summary::Summaries;

/// The configuration at one revision, for reading.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The objects in force, and the faulty ones.
    pub snapshot: Snapshot,
    /// Faults of the source, each as a line: all faults of a file, or records of the store that are no objects.
    pub faults: Vec<String>,
    /// Faults of objects that only the compiler finds.
    pub compile_faults: Vec<Fault>,
    /// References to secrets that are not resolved, in objects that are in force nevertheless.
    pub reference_faults: Vec<Fault>,
    /// Whether the setting `ignore_faulty_plugins` names any plugin.
    pub skips_plugins: bool,
    /// The reasons in the configuration why this instance is not ready: faults that were present at its start and keep
    /// a route or a global rule out of force.
    pub unready: Vec<String>,
    /// The state of etcd, where it is the source.
    pub etcd: Option<EtcdStatus>,
    /// The statement of the last whole set by the Admin API about itself.
    pub configs: Arc<Configs>,
    /// The newest known change, and its time in milliseconds.
    pub changed: Option<(u64, u64)>,
    /// The last failure of a write, until one succeeds.
    pub write_failure: Option<WriteFailure>,
}

/// The state of etcd, as far as this instance knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdStatus {
    /// The state in one word.
    pub state: EtcdState,
    /// The reason why it is not followed.
    pub reason: Option<String>,
    /// The endpoint that calls go to.
    pub endpoint: String,
    /// The cluster that was read last; 0 before the first read.
    pub cluster_id: u64,
    /// The revision up to which all changes are known.
    pub revision: u64,
    /// The reason why the copy on this instance's disk is not up to date.
    pub copy_fault: Option<String>,
}

/// The state of etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EtcdState {
    /// No answer was received yet.
    Starting,
    /// Every change arrives.
    Following,
    /// No member answers; the last known configuration is served.
    Unreachable,
    /// etcd has an older state than the one that is served.
    Behind,
}

impl EtcdStatus {
    /// The state before the first answer.
    pub fn starting(endpoint: &str) -> EtcdStatus {
        EtcdStatus {
            state: EtcdState::Starting,
            reason: None,
            endpoint: endpoint.to_owned(),
            cluster_id: 0,
            revision: 0,
            copy_fault: None,
        }
    }
}

impl EtcdState {
    /// The name in the status.
    pub const fn as_str(self) -> &'static str {
        match self {
            EtcdState::Starting => "starting",
            EtcdState::Following => "following",
            EtcdState::Unreachable => "unreachable",
            EtcdState::Behind => "behind",
        }
    }

    /// The words for the log.
    pub(crate) const fn in_words(self) -> &'static str {
        match self {
            EtcdState::Starting => "etcd is asked for the first time",
            EtcdState::Following => "etcd is followed",
            EtcdState::Unreachable => "etcd cannot be followed; what was known last stays in force",
            EtcdState::Behind => "etcd has older data than this node serves",
        }
    }
}

impl View {
    /// The catalog with the plugins of the extensions in force.
    pub(crate) fn catalog(&self, catalog: &Arc<Catalog>) -> Arc<Catalog> {
        let extensions = self.snapshot.extensions();
        if extensions.is_empty() {
            Arc::clone(catalog)
        } else {
            Arc::new(catalog.with_extensions(extensions))
        }
    }

    /// The object as it was written last, in force or not.
    pub fn written(&self, key: &Key) -> Option<&Written> {
        match self.snapshot.faulty_at(key) {
            Some(faulty) => Some(&faulty.written),
            None => self.snapshot.get(key).map(|object| &object.written),
        }
    }

    /// All objects of a kind as they were written last, ordered by key.
    pub fn all_written(&self, kind: Kind) -> Vec<&Written> {
        let faulty =
            self.snapshot.faulty().map(|faulty| &faulty.written).filter(|written| written.key.kind == kind);
        let good = self.snapshot.iter(kind).map(|object| &object.written);
        let good = good.filter(|written| self.snapshot.faulty_at(&written.key).is_none());
        let mut all: Vec<&Written> = good.chain(faulty).collect();
        all.sort_by(|left, right| left.key.id.cmp(&right.key.id));
        all
    }

    /// The revision in force.
    pub fn revision(&self) -> u64 {
        self.snapshot.revision()
    }
}

/// The view that is current, shared by all readers.
#[derive(Debug, Clone, Default)]
pub struct SharedView {
    current: Arc<RwLock<Arc<View>>>,
    summaries: Arc<Summaries>,
}

impl SharedView {
    /// The view as it is now; it stays as it is while it is held.
    pub fn load(&self) -> Arc<View> {
        Arc::clone(&self.current.read())
    }

    /// The summaries that readers of lists share.
    pub(crate) fn shared_summaries(&self) -> &Summaries {
        &self.summaries
    }

    /// Replaces the view for later loads.
    pub(crate) fn store(&self, view: View) {
        let old = std::mem::replace(&mut *self.current.write(), Arc::new(view));
        // Dropped outside the lock, because the last holder of a large snapshot spends the time to free it.
        drop(old);
    }
}
