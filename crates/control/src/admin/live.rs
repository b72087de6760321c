//! State that the pages about the running instance share: answers that are kept for a second, so that many
//! open pages cost as much as one, and places for readers of event streams. It does not know how an answer is
//! made.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::report::UnusableNodes;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Semaphore;

/// The list of what needs the attention of users.
#[derive(Debug, Default)]
pub(in crate::admin) struct Attention {
    /// The lines, most urgent first, at most `LINES_MAX` of each sort.
    pub(in crate::admin) lines: Vec<Value>,
    /// Objects that are not in force as they were written, and faults of the source.
    pub(in crate::admin) faults: usize,
    /// The nodes that are not used.
    pub(in crate::admin) unusable: Vec<UnusableNodes>,
}

/// The state; one for each Admin API.
#[derive(Debug)]
pub(crate) struct LiveState {
    attention: Mutex<Option<(Instant, Arc<Attention>)>>,
    /// The lost lines of logs at the last reading, and when they grew last.
    lost_lines: Mutex<(u64, Option<Instant>)>,
    marks: Mutex<Option<(u64, Arc<[Value]>)>>,
    /// Places for readers of `weir/events`.
    pub(super) events: Arc<Semaphore>,
}

impl Default for LiveState {
    fn default() -> LiveState {
        LiveState {
            attention: Mutex::default(),
            lost_lines: Mutex::default(),
            marks: Mutex::default(),
            events: Arc::new(Semaphore::new(EVENT_READERS_MAX)),
        }
    }
}

impl LiveState {
    /// The faults that need the attention of users now, at most [`FRESH`] old; `find` finds them anew.
    /// Readers that ask meanwhile wait for the result.
    pub(super) fn attention_or_find(&self, find: impl FnOnce() -> Attention) -> Arc<Attention> {
        let mut kept = self.attention.lock();
        if let Some((at, attention)) = &*kept
            && at.elapsed() < FRESH
        {
            return Arc::clone(attention);
        }
        let attention = Arc::new(find());
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

    /// The newest revisions as they were shown at `revision`; none if another one was shown last.
    pub(super) fn marks_at(&self, revision: u64) -> Option<Arc<[Value]>> {
        let kept = self.marks.lock();
        kept.as_ref().filter(|(at, _)| *at == revision).map(|(_, marks)| Arc::clone(marks))
    }

    /// Keeps the newest revisions for later readers at `revision`.
    pub(super) fn keep_marks(&self, revision: u64, marks: Arc<[Value]>) {
        *self.marks.lock() = Some((revision, marks));
    }
}

/// How old an answer may be that is given again. Less than a second, because readers ask once a second.
const FRESH: Duration = Duration::from_millis(900);
/// How long the loss of log lines is shown after the last one.
const LOST_LINES_SHOWN: Duration = Duration::from_secs(600);
/// Readers of event streams at the same time: each has a task and a connection.
const EVENT_READERS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_lines_are_shown_for_a_while() {
        let live = LiveState::default();
        assert!(!live.has_lost_lines(0));
        assert!(live.has_lost_lines(3));
        assert!(live.has_lost_lines(3), "they stay");
    }
}
