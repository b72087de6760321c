//! Faults that were present at the start and keep a route or a global rule out of force. An instance with
//! such a fault is not ready: otherwise a balancer would send it requests that it answers with 503, while
//! other instances, which have the last good form, serve them. Later faults do not count, because they would
//! make all instances unready at once.

use std::collections::BTreeSet;

use model::{ConfigFault, ObjectKey, ObjectKind, Snapshot};

use super::Reconciler;
use crate::verdict::VerdictState;
use crate::view::View;

/// Faults that make this instance unready.
#[derive(Debug, Default)]
pub(super) struct StartFaults {
    keys: BTreeSet<ObjectKey>,
    /// Faults of the resources file that belong to no object (an unknown collection, an item that is no
    /// mapping), each as a line. Any of them may hide a route.
    of_file: Vec<String>,
}

impl StartFaults {
    /// Drops the faults that were repaired or removed since.
    pub(super) fn settle(&mut self, snapshot: &Snapshot, compile_faults: &[ConfigFault]) {
        if self.keys.is_empty() {
            return;
        }
        let is_compiled = |key: &ObjectKey| {
            !compile_faults.iter().any(|fault| fault.key.as_ref() == Some(key) && !fault.kept)
        };
        self.keys.retain(|key| {
            let is_gone = snapshot.get(key).is_none() && snapshot.faulty_at(key).is_none();
            !(is_gone || snapshot.contains(key) && is_compiled(key))
        });
    }

    /// The reasons why the instance is not ready, one per line; empty when it is.
    pub(super) fn reasons(&self, view: &View) -> Vec<String> {
        let mut reasons: Vec<String> = Vec::new();
        reasons.extend(self.of_file.iter().take(MAX_REASONS).cloned());
        for key in self.keys.iter().take(MAX_REASONS) {
            let faults = view.verdict(key).map(|verdict| verdict.faults).unwrap_or_default();
            let first = faults.first().map_or("it is not in force", |fault| &fault.reason);
            reasons.push(format!("{} {} is faulty: {first}", key.kind.in_words(), key.id));
        }
        if self.keys.len() > MAX_REASONS {
            reasons.push(format!("{} more are faulty", self.keys.len() - MAX_REASONS));
        }
        reasons
    }
}

impl Reconciler {
    /// Notes which objects are out of force, once, after the first configuration was published.
    pub(super) fn note_start_faults(&mut self) {
        let view = self.view();
        let concerned = [ObjectKind::Route, ObjectKind::GlobalRule].into_iter();
        let out = concerned.flat_map(|kind| view.verdicts(Some(kind)));
        let out = out.filter(|verdict| matches!(verdict.state, VerdictState::Out | VerdictState::Unplaced));
        self.start_faults.keys = out.map(|verdict| verdict.key).collect();
        self.start_faults.of_file.clone_from(&self.document_faults);
        if !self.start_faults.keys.is_empty() || !self.start_faults.of_file.is_empty() {
            tracing::error!(
                "not ready: faults of the configuration keep routes or global rules out of force; \
                 GET /apisix/admin/weir/verdicts lists them"
            );
        }
        self.show();
    }

    /// Updates the faults of the file from its latest reading.
    pub(super) fn settle_document_faults(&mut self, faults: Vec<String>) {
        // Line numbers change when the file is edited, so faults cannot be compared: the instance is ready
        // once there is no such fault at all.
        if !self.start_faults.of_file.is_empty() {
            self.start_faults.of_file.clone_from(&faults);
        }
        self.document_faults = faults;
    }
}

/// Limit of reasons in one answer; `weir/verdicts` has all faults.
const MAX_REASONS: usize = 10;
