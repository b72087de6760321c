//! State that the pages about the running instance share: answers that are kept for a second, so that many open pages cost as
//! much as one, and places for readers of event streams.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::attention::{self, Attention};
use crate::admin::server::AdminParts;
use crate::reconcile::versions::VersionFilter;

/// See the module.
#[derive(Debug)]
pub(crate) struct Live {
    attention: Mutex<Option<(Instant, Arc<Attention>)>>,
    /// The lost lines of logs at the last reading, and when they grew last.
    lost_lines: Mutex<(u64, Option<Instant>)>,
    marks: Mutex<Option<(u64, Arc<[Value]>)>>,
    /// Places for readers of `weir/events`.
    pub(super) events: Arc<Semaphore>,
}

impl Default for Live {
    fn default() -> Live {
        Live {
            attention: Mutex::default(),
            lost_lines: Mutex::default(),
            marks: Mutex::default(),
            events: Arc::new(Semaphore::new(EVENT_READERS_MAX)),
        }
    }
}

impl Live {
    /// The faults that need the attention of users now, at most [`FRESH`] old. Blocks for milliseconds with many objects.
    pub(super) fn attention(&self, parts: &AdminParts) -> Arc<Attention> {
        let mut kept = self.attention.lock();
        if let Some((at, attention)) = &*kept
            && at.elapsed() < FRESH
        {
            return Arc::clone(attention);
        }
        let attention = Arc::new(attention::find(parts));
        *kept = Some((Instant::now(), Arc::clone(&attention)));
        attention
    }

    /// Whether lines of logs were lost within the last [`LOST_LINES_SHOWN`], when `lost` is their number.
    pub(super) fn has_lost_lines(&self, lost: u64) -> bool {
        let mut last = self.lost_lines.lock();
        if lost > last.0 {
            *last = (lost, Some(Instant::now()));
        }
        last.1.is_some_and(|at| at.elapsed() < LOST_LINES_SHOWN)
    }

    /// The newest revisions, newest first: `{"revision", "at_ms", "by", "source"}`. None where the source keeps no history.
    pub(super) async fn marks(&self, parts: &AdminParts) -> Arc<[Value]> {
        let revision = parts.view.load().revision();
        if let Some((kept, marks)) = &*self.marks.lock()
            && *kept == revision
        {
            return Arc::clone(marks);
        }
        let all = VersionFilter::default();
        let listed =
            parts.reconcile.run(move |reconciler| reconciler.versions(u64::MAX, MARKS_MAX, &all)).await;
        // Busy is a state of a moment, which is not kept.
        let Some(listed) = listed else { return Arc::from([]) };
        let versions = listed.map(|list| list.versions).unwrap_or_default();
        let mark = |version: &crate::source::store::Version| {
            json!({
                "revision": version.revision,
                "at_ms": version.label.at_ms,
                "by": &*version.label.by,
                "source": version.label.source,
            })
        };
        let marks: Arc<[Value]> = versions.iter().map(mark).collect();
        *self.marks.lock() = Some((revision, Arc::clone(&marks)));
        marks
    }
}

/// How old an answer may be that is given again. Less than a second, because readers ask once a second.
const FRESH: Duration = Duration::from_millis(900);
/// How long the loss of log lines is shown after the last one.
const LOST_LINES_SHOWN: Duration = Duration::from_secs(600);
/// Revisions that are marked on a chart: more would be a row of lines without a gap.
const MARKS_MAX: usize = 200;
/// Readers of event streams at the same time: each has a task and a connection.
const EVENT_READERS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_lines_are_shown_for_a_while() {
        let live = Live::default();
        assert!(!live.has_lost_lines(0));
        assert!(live.has_lost_lines(3));
        assert!(live.has_lost_lines(3), "they stay");
    }
}
