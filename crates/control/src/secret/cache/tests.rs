//! Requests of the cache, validity of values, and reported changes. Times are passed in, answers are made by
//! hand.

use serde_json::json;

use super::*;

const REFRESH: Duration = Duration::from_secs(60);
const STALE: Duration = Duration::from_secs(300);
const TIMEOUT: Duration = Duration::from_secs(5);
const SECOND: Duration = Duration::from_secs(1);

struct Stage {
    cache: SecretCache,
    now: Instant,
}

impl Stage {
    /// A cache with the manager `vault/1` and these references.
    fn new(references: &[&str]) -> Stage {
        let now = Instant::now();
        let mut stage = Stage { cache: SecretCache::new(REFRESH, STALE, TIMEOUT), now };
        assert!(stage.manager(Some(json!({"uri": "http://v"}))).is_empty());
        for reference in references {
            stage.cache.follow(&(*reference).into(), now);
        }
        stage
    }

    fn manager(&mut self, manager: Option<Value>) -> Vec<Arc<str>> {
        self.cache.set_manager(&"vault/1".into(), manager, self.now)
    }

    /// The documents that are requested now.
    fn asked(&mut self) -> Vec<SecretTask> {
        self.cache.due(self.now, 100)
    }

    /// Requests the one document and answers it; returns the count of references with a changed value.
    fn answer(&mut self, answer: Result<&[(&str, &str)], SecretFailure>) -> usize {
        let task = self.asked().pop().expect("something is due");
        self.answer_to(&task, answer)
    }

    fn answer_to(&mut self, task: &SecretTask, answer: Result<&[(&str, &str)], SecretFailure>) -> usize {
        let fields = |fields: &[(&str, &str)]| {
            fields.iter().map(|(name, value)| ((*name).into(), (*value).to_owned())).collect()
        };
        self.cache.answered(task, answer.map(fields), self.now).len()
    }

    fn value(&self, reference: &str) -> Result<String, String> {
        self.cache.value(reference)
    }
}

const KEY: &str = "$secret://vault/1/jack/key";
const OTHER: &str = "$secret://vault/1/jack/other";

#[test]
fn one_answer_serves_all_references_to_its_path() {
    let mut stage = Stage::new(&[KEY, OTHER, "$env://A", "$secret://broken"]);
    assert!(!stage.cache.all_tried());
    assert!(stage.value(KEY).unwrap_err().contains("has not answered yet"));
    let tasks = stage.asked();
    assert_eq!(tasks.len(), 1);
    assert!(stage.asked().is_empty(), "asked once");
    assert_eq!(stage.answer_to(&tasks[0], Ok(&[("key", "one")])), 2);
    assert!(stage.cache.all_tried());
    assert_eq!(stage.value(KEY).unwrap(), "one");
    assert!(stage.value(OTHER).unwrap_err().contains("no text under `other`"));
    assert_eq!(stage.cache.counts(), ReferenceCounts { fresh: 1, stale: 0, unresolved: 1 });
    stage.cache.forget(&KEY.into());
    stage.cache.forget(&OTHER.into());
    assert!(stage.cache.is_empty());
    assert_eq!(stage.answer_to(&tasks[0], Ok(&[("key", "late")])), 0);
}

#[test]
fn value_is_refreshed_and_change_is_reported() {
    let mut stage = Stage::new(&[KEY]);
    assert_eq!(stage.answer(Ok(&[("key", "one")])), 1);
    assert_eq!(stage.cache.next(stage.now), stage.now + REFRESH);
    stage.now += REFRESH - SECOND;
    assert!(stage.asked().is_empty());
    stage.now += SECOND;
    assert_eq!(stage.answer(Ok(&[("key", "one"), ("unused", "two")])), 0, "the same value");
    stage.now += REFRESH;
    assert_eq!(stage.answer(Ok(&[("key", "two")])), 1);
    assert_eq!(stage.value(KEY).unwrap(), "two");
}

#[test]
fn last_secret_value_holds_while_manager_fails() {
    let mut stage = Stage::new(&[KEY]);
    stage.answer(Ok(&[("key", "one")]));
    stage.now += REFRESH;
    assert_eq!(stage.answer(Err(SecretFailure::passing("down"))), 0);
    assert_eq!(stage.value(KEY).unwrap(), "one");
    assert_eq!(stage.cache.counts(), ReferenceCounts { fresh: 0, stale: 1, unresolved: 0 });
    // The pauses grow up to the refresh interval.
    let mut pauses = Vec::new();
    for _ in 0..10 {
        let next = stage.cache.next(stage.now);
        pauses.push((next - stage.now).as_millis());
        stage.now = next;
        if !stage.cache.expire(stage.now).is_empty() {
            break;
        }
        stage.answer(Err(SecretFailure::passing("down")));
    }
    assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000, 56500]);
    assert_eq!(stage.value(KEY).unwrap_err(), "down", "after five minutes nobody is let in");
    let task = stage.cache.due(stage.now + REFRESH, 1).pop().unwrap();
    assert_eq!(stage.answer_to(&task, Ok(&[("key", "two")])), 1);
    assert_eq!(stage.value(KEY).unwrap(), "two");
}

#[test]
fn secret_removed_by_manager_is_dropped_at_once() {
    let mut stage = Stage::new(&[KEY]);
    stage.answer(Ok(&[("key", "one")]));
    stage.now += REFRESH;
    assert_eq!(stage.answer(Err(SecretFailure { reason: "404".to_owned(), gone: true })), 1);
    assert_eq!(stage.value(KEY).unwrap_err(), "404");
    stage.now += REFRESH;
    assert_eq!(stage.answer(Err(SecretFailure { reason: "404".to_owned(), gone: true })), 0, "nothing new");
}

#[test]
fn changed_secret_manager_is_asked_again() {
    let mut stage = Stage::new(&[KEY]);
    let old = stage.asked().pop().unwrap();
    stage.manager(Some(json!({"uri": "http://other"})));
    assert_eq!(stage.answer_to(&old, Ok(&[("key", "old")])), 0);
    assert!(stage.value(KEY).is_err());
    assert_eq!(stage.answer(Ok(&[("key", "new")])), 1);
    assert_eq!(stage.manager(None).len(), 1);
    assert_eq!(stage.value(KEY).unwrap_err(), NO_MANAGER);
    assert!(stage.asked().is_empty() && stage.cache.all_tried());
    stage.manager(Some(json!({"uri": "http://v"})));
    assert_eq!(stage.answer(Ok(&[("key", "back")])), 1);
    assert_eq!(stage.value(KEY).unwrap(), "back");
}

#[test]
fn reference_before_its_manager_waits_for_it() {
    let now = Instant::now();
    let mut stage = Stage { cache: SecretCache::new(REFRESH, STALE, TIMEOUT), now };
    stage.cache.follow(&KEY.into(), now);
    assert_eq!(stage.value(KEY).unwrap_err(), NO_MANAGER);
    assert!(stage.asked().is_empty() && stage.cache.all_tried());
    stage.manager(Some(json!({"uri": "http://v"})));
    assert!(!stage.cache.all_tried(), "the start waits for it");
    assert_eq!(stage.answer(Ok(&[("key", "one")])), 1);
}

#[test]
fn lost_answer_is_requested_again() {
    let mut stage = Stage::new(&[KEY]);
    assert_eq!(stage.asked().len(), 1);
    stage.now += 2 * TIMEOUT;
    assert_eq!(stage.asked().len(), 1);
    assert_eq!(stage.cache.due(stage.now + 2 * TIMEOUT, 0).len(), 0, "only where there is room");
}
