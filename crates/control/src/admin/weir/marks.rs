//! The newest revisions as marks on charts. It keeps no history of its own.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::admin::call::AdminParts;
use crate::reconcile::versions::VersionFilter;
use crate::source::store::RevisionInfo;

/// The newest revisions, newest first: `{"revision", "at_ms", "by", "source"}`. Empty where the source keeps
/// no history.
pub(super) async fn revision_marks(parts: &AdminParts) -> Arc<[Value]> {
    let revision = parts.view.load().revision();
    if let Some(marks) = parts.live.marks_at(revision) {
        return marks;
    }
    let all = VersionFilter::default();
    let listed = parts.reconcile.run(move |reconciler| reconciler.versions(u64::MAX, MARKS_MAX, &all)).await;
    // Busy is a state of a moment, which is not kept.
    let Some(listed) = listed else { return Arc::from([]) };
    let versions = listed.map(|list| list.versions).unwrap_or_default();
    let marks: Arc<[Value]> = versions.iter().map(mark_value).collect();
    parts.live.keep_marks(revision, Arc::clone(&marks));
    marks
}

fn mark_value(version: &RevisionInfo) -> Value {
    json!({
        "revision": version.revision,
        "at_ms": version.label.at_ms,
        "by": &*version.label.by,
        "source": version.label.source,
    })
}

/// Revisions that are marked on a chart: more would be a row of lines without a gap.
const MARKS_MAX: usize = 200;
