//! Log lines about faulty objects: one line when an object becomes faulty or has other faults, one when it is
//! repaired or removed, and none while it stays the same. It does not know the cause of the faults.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use model::{ConfigFault, Difference, ObjectKey};

use crate::verdict::{ObjectVerdict, VerdictState};
use crate::view::View;

/// The faulty objects that were logged, each with a hash of the logged verdict.
#[derive(Debug, Default)]
pub(super) struct FaultLog {
    marks: BTreeMap<ObjectKey, u64>,
}

impl FaultLog {
    /// Logs the differences in `view`. `touched`: the objects that may have become faulty, or have other
    /// faults. `elsewhere`: new faults are logged elsewhere, with their lines in a file; only faults of the
    /// compiler are logged here.
    pub(super) fn report(&mut self, view: &View, touched: BTreeSet<ObjectKey>, elsewhere: bool) {
        let mut candidates = touched;
        candidates.extend(self.marks.keys().cloned());
        let mut lines_left = MAX_LINES;
        for key in candidates {
            let verdict = view.verdict(&key);
            let faulty = verdict.as_ref().filter(|verdict| verdict.state != VerdictState::InForce);
            let before = self.marks.get(&key).copied();
            let now = faulty.map(mark);
            if before == now {
                continue;
            }
            match now {
                Some(mark) => self.marks.insert(key.clone(), mark),
                None => self.marks.remove(&key),
            };
            if lines_left > 0 {
                lines_left -= 1;
                say(view, &key, verdict.as_ref(), elsewhere);
                if lines_left == 0 {
                    tracing::warn!(
                        "more objects changed; all that are faulty: GET /apisix/admin/weir/verdicts"
                    );
                }
            }
        }
    }
}

/// Logs the plugins that objects run without from now on, because `ignore_faulty_plugins` names them.
pub(super) fn report_skipped(diff: &[Difference]) {
    let skipping = diff.iter().filter_map(|difference| {
        let before = difference.before.as_ref().map(|object| object.skipped()).unwrap_or_default();
        let skipped = difference.after.as_ref()?.skipped();
        (!skipped.is_empty() && skipped != before).then_some((&difference.key, skipped))
    });
    for (key, skipped) in skipping.take(MAX_LINES) {
        let reason = skipped.iter().take(MAX_FAULTS).map(in_words).collect::<Vec<_>>().join("; ");
        tracing::warn!(
            object = key.path(),
            reason,
            "an object runs without faulty plugins (ignore_faulty_plugins)"
        );
    }
}

fn say(view: &View, key: &ObjectKey, verdict: Option<&ObjectVerdict>, elsewhere: bool) {
    let object = key.path();
    match verdict {
        None => tracing::info!(object, "a faulty object is gone"),
        Some(verdict) if verdict.state == VerdictState::InForce => {
            tracing::info!(object, revision = verdict.revision_written, "mended: in force as it is written");
        }
        Some(verdict) => {
            let compiled = view.compile_faults.iter().any(|fault| fault.key.as_ref() == Some(key));
            if elsewhere && !compiled {
                return;
            }
            let (state, revision) = (verdict.state.as_str(), verdict.revision_written);
            let faults: Vec<String> = verdict.faults.iter().take(MAX_FAULTS).map(in_words).collect();
            let reason = faults.join("; ");
            tracing::warn!(object, state, revision, reason, "a faulty object is not in force as written");
        }
    }
}

fn in_words(fault: &ConfigFault) -> String {
    if fault.pointer.is_empty() {
        fault.reason.clone()
    } else {
        format!("{}: {}", fault.pointer, fault.reason)
    }
}

/// A hash that is equal for verdicts with the same text. The revision is left out, because the same fault in
/// a new revision is not worth a line.
fn mark(verdict: &ObjectVerdict) -> u64 {
    let mut hasher = DefaultHasher::new();
    verdict.state.as_str().hash(&mut hasher);
    for fault in &verdict.faults {
        (&fault.pointer, &fault.reason).hash(&mut hasher);
    }
    hasher.finish()
}

/// Limit of log lines for one change, so that a set with ten thousand faulty objects does not flood the log.
const MAX_LINES: usize = 100;
/// Faults in one line; the API has the rest.
const MAX_FAULTS: usize = 5;

#[cfg(test)]
mod tests;
