//! Transcripts of Admin API requests and their answers, each line of the contract's section 2.1 once.

mod access;
mod conditional;
mod extensions;
mod front;
mod hidden;
mod history;
mod lists;
mod objects;
mod places;
mod properties;
mod schemas;
mod sets;
mod traffic;
mod whole;

use serde_json::Value;

use crate::testing::Rig;

/// An Admin API over an empty store.
struct Talk {
    rig: Rig,
    _directory: tempfile::TempDir,
}

impl Talk {
    fn new() -> Talk {
        let directory = tempfile::tempdir().unwrap();
        Talk { rig: Rig::store(directory.path()), _directory: directory }
    }

    /// Sends a request and compares status and body, except `create_time` and `update_time`.
    #[track_caller]
    fn check(&self, method: &str, target: &str, body: Value, status: u16, expected: Value) {
        let (found_status, mut found) = self.rig.json(method, target, &body);
        strip_times(&mut found);
        assert_eq!((found_status, &found), (status, &expected), "{method} {target} {body}");
    }
}

fn strip_times(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.remove("create_time");
            object.remove("update_time");
            object.values_mut().for_each(strip_times);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_times),
        _ => {}
    }
}
