//! A fault is logged once, and its end once.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;

use model::{FaultPolicy, ObjectKey, ObjectKind, SnapshotChange, WrittenObject};
use parking_lot::Mutex;

use super::*;
use crate::testing::catalog;

/// Collects the log lines.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct Log {
    fault_log: FaultLog,
    view: View,
    lines: Lines,
}

impl Log {
    /// Applies texts of routes (none: deleted) and returns the log lines of the change.
    fn after(&mut self, changes: &[(&str, Option<&str>)], elsewhere: bool) -> String {
        let revision = self.view.revision() + 1;
        let change = |(id, text): &(&str, Option<&str>)| {
            let key = ObjectKey::new(ObjectKind::Route, id).unwrap();
            let written = text.map(|text| WrittenObject {
                key: key.clone(),
                text: text.into(),
                created_index: revision,
                modified_index: revision,
            });
            SnapshotChange { key, written }
        };
        let changes: Vec<SnapshotChange> = changes.iter().map(change).collect();
        let applied = self.view.snapshot.apply(&catalog(), &changes, revision, FaultPolicy::Lenient);
        self.view.snapshot = applied.snapshot;
        let touched: BTreeSet<ObjectKey> = applied.faults.into_iter().filter_map(|fault| fault.key).collect();
        self.lines.0.lock().clear();
        let lines = self.lines.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || lines.clone()).finish();
        tracing::subscriber::with_default(subscriber, || {
            self.fault_log.report(&self.view, touched, elsewhere);
        });
        String::from_utf8(self.lines.0.lock().clone()).unwrap()
    }
}

const GOOD: &str = r#"{"uri":"/","plugins":{}}"#;
const BAD: &str = r#"{"uri":5,"plugins":{}}"#;
const WORSE: &str = r#"{"uri":"/","plugins":{},"colour":1}"#;

#[test]
fn fault_is_logged_when_it_begins_changes_and_ends() {
    let mut log = Log { fault_log: FaultLog::default(), view: View::default(), lines: Lines::default() };
    assert_eq!(log.after(&[("a", Some(GOOD))], false), "");
    let line = log.after(&[("a", Some(BAD))], false);
    assert!(
        line.contains("/routes/a") && line.contains("last_good") && line.contains("/uri: wrong type"),
        "{line}"
    );
    assert_eq!(line.lines().count(), 1);
    assert_eq!(log.after(&[("b", Some(GOOD))], false), "", "another change is no news of it");
    assert_eq!(log.after(&[("a", Some(BAD))], false), "", "the same fault again is no news");
    assert!(log.after(&[("a", Some(WORSE))], false).contains("found colour"));
    assert!(log.after(&[("a", Some(GOOD))], false).contains("mended"));
    assert_eq!(log.after(&[("a", Some(GOOD))], false), "");
    assert!(log.after(&[("c", Some(BAD))], false).contains("state=\"unplaced\""));
    assert!(log.after(&[("c", None)], false).contains("gone"));
    assert_eq!(log.after(&[("d", Some(BAD))], true), "", "a file tells it with its line");
    assert!(log.after(&[("d", Some(GOOD))], true).contains("mended"));
}

#[test]
fn many_faults_do_not_flood_the_log() {
    let mut log = Log { fault_log: FaultLog::default(), view: View::default(), lines: Lines::default() };
    let ids: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    let bad: Vec<(&str, Option<&str>)> = ids.iter().map(|id| (id.as_str(), Some(BAD))).collect();
    assert_eq!(log.after(&bad, false).lines().count(), MAX_LINES + 1);
    assert_eq!(log.after(&[("x", Some(GOOD))], false), "");
}
