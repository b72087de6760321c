//! The recorded changes: the state of any kept revision can be derived from the present objects, nothing is
//! kept beyond the limits, and a log with a gap is not used.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::source::store::Expect;

type State = BTreeMap<String, String>;

fn state(store: &ConfigStore) -> State {
    store.read_all().unwrap().into_iter().map(|(key, record)| (key, record.text)).collect()
}

/// The state of a revision, derived from the present one.
fn state_at(store: &ConfigStore, revision: u64) -> Option<State> {
    let mut found = state(store);
    for (key, record) in store.since(revision).unwrap()? {
        match record {
            Some(record) => found.insert(key, record.text),
            None => found.remove(&key),
        };
    }
    Some(found)
}

/// Writes one revision: keys with their new texts.
fn write(store: &mut ConfigStore, source: VersionSource, changes: &[(&str, Option<&str>)]) -> u64 {
    let mut transaction = store.begin().unwrap();
    transaction.sign(RevisionLabel { at_ms: 7, source, by: "ann".into() });
    transaction.advance();
    for (key, text) in changes {
        match text {
            Some(text) => drop(transaction.put(key, text, Expect::Any, None).unwrap()),
            None => drop(transaction.delete(key).unwrap()),
        }
    }
    transaction.commit().unwrap()
}

#[test]
fn revision_has_author_changes_and_old_objects() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = ConfigStore::open(directory.path()).unwrap();
    write(&mut store, VersionSource::Admin, &[("routes/1", Some("a")), ("routes/2", Some("b"))]);
    write(&mut store, VersionSource::Apply, &[("routes/1", Some("c")), ("routes/2", None)]);
    write(&mut store, VersionSource::Rollback, &[("routes/1", None), ("routes/3", Some("d"))]);
    let versions: Vec<_> = store.versions(u64::MAX, 2).unwrap();
    let of =
        |version: &RevisionInfo| (version.revision, version.parent, version.label.source, version.objects);
    assert_eq!(
        versions.iter().map(of).collect::<Vec<_>>(),
        [(3, 2, VersionSource::Rollback, 2), (2, 1, VersionSource::Apply, 2)]
    );
    assert_eq!((versions[0].label.at_ms, &*versions[0].label.by), (7, "ann"));
    assert_eq!(store.versions(2, 9).unwrap().len(), 1);
    let (_, changed) = store.version(2).unwrap().unwrap();
    let text = |record: &Option<StoredRecord>| record.as_ref().map(|record| record.text.clone());
    let changed: Vec<_> = changed
        .iter()
        .map(|change| (change.key.as_str(), text(&change.before), text(&change.after)))
        .collect();
    let owned = |text: &str| Some(text.to_owned());
    assert_eq!(changed, [("routes/1", owned("a"), owned("c")), ("routes/2", owned("b"), None)]);
    assert!(store.version(4).unwrap().is_none() && store.version(0).unwrap().is_none());
    assert!(store.since(4).unwrap().is_none());
}

#[test]
fn oldest_are_dropped_beyond_the_limits() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = ConfigStore::open(directory.path()).unwrap();
    store.log.limits = RevisionLogLimits { versions: 3, bytes: 10_000 };
    for number in 1..=5 {
        write(&mut store, VersionSource::Admin, &[("routes/1", Some(&number.to_string()))]);
    }
    let kept = |store: &ConfigStore| -> Vec<u64> {
        store.versions(u64::MAX, 99).unwrap().iter().map(|version| version.revision).collect()
    };
    assert_eq!((kept(&store), store.oldest_version()), (vec![5, 4, 3], 2));
    assert_eq!(state_at(&store, 2).unwrap()["routes/1"], "2");
    assert_eq!(state_at(&store, 1), None);
    let large = "x".repeat(20_000);
    write(&mut store, VersionSource::Admin, &[("routes/1", Some(&large))]);
    write(&mut store, VersionSource::Admin, &[("routes/1", Some("small"))]);
    assert_eq!(
        (kept(&store), store.oldest_version()),
        (vec![7], 6),
        "what takes too much is kept while it is new"
    );
    assert_eq!(state_at(&store, 6).unwrap()["routes/1"], large);
    drop(store);
    let store = ConfigStore::open(directory.path()).unwrap();
    assert_eq!((kept(&store), store.oldest_version(), store.latest_change()), (vec![7], 6, Some((7, 7))));
    assert!(!store.log.leftover);
}

#[test]
fn rows_of_dropped_revisions_are_removed_later() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = ConfigStore::open(directory.path()).unwrap();
    store.log.limits = RevisionLogLimits { versions: 1, bytes: 10_000 };
    let keys: Vec<String> = (0..2 * REMOVED_ROWS_MAX + 1).map(|number| format!("routes/{number}")).collect();
    let all: Vec<(&str, Option<&str>)> = keys.iter().map(|key| (key.as_str(), Some("{}"))).collect();
    write(&mut store, VersionSource::Apply, &all);
    for expected in [true, true, false] {
        write(&mut store, VersionSource::Admin, &[("routes/1", Some("a"))]);
        assert_eq!(store.log.leftover, expected);
        drop(store);
        store = ConfigStore::open(directory.path()).unwrap();
        assert_eq!(store.log.leftover, expected, "it is known after opening again");
        store.log.limits = RevisionLogLimits { versions: 1, bytes: 10_000 };
    }
}

#[test]
fn log_with_a_gap_starts_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = ConfigStore::open(directory.path()).unwrap();
    write(&mut store, VersionSource::Admin, &[("routes/1", Some("a"))]);
    let mut unsigned = store.begin().unwrap();
    unsigned.advance();
    unsigned.put("routes/1", "b", Expect::Any, None).unwrap();
    unsigned.commit().unwrap();
    assert_eq!((store.oldest_version(), store.versions(9, 9).unwrap().len()), (2, 0));
    drop(store);
    let mut store = ConfigStore::open(directory.path()).unwrap();
    assert_eq!((store.revision(), store.oldest_version(), store.versions(9, 9).unwrap().len()), (2, 2, 0));
    assert!(store.since(1).unwrap().is_none() && store.since(2).unwrap().unwrap().is_empty());
    write(&mut store, VersionSource::Admin, &[("routes/1", Some("c"))]);
    assert_eq!((store.oldest_version(), store.versions(9, 9).unwrap().len()), (2, 1));
    assert_eq!(state_at(&store, 2).unwrap()["routes/1"], "b");
}

#[test]
fn records_and_objects_share_a_transaction() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = ConfigStore::open(directory.path()).unwrap();
    assert_eq!(store.kept("configs").unwrap(), None);
    let mut transaction = store.begin().unwrap();
    transaction.keep("configs", b"lost").unwrap();
    drop(transaction);
    assert_eq!(store.kept("configs").unwrap(), None);
    let mut transaction = store.begin().unwrap();
    transaction.keep("configs", b"stays").unwrap();
    transaction.commit().unwrap();
    drop(store);
    assert_eq!(
        ConfigStore::open(directory.path()).unwrap().kept("configs").unwrap().as_deref(),
        Some(&b"stays"[..])
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn every_kept_revision_can_be_derived(
        revisions in prop::collection::vec(
            prop::collection::vec((0_u8..5, prop::option::of("[a-z]{1,4}")), 1..4),
            1..20,
        ),
        limit in 1_usize..20,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let mut store = ConfigStore::open(directory.path()).unwrap();
        store.log.limits = RevisionLogLimits { versions: limit, bytes: u64::MAX };
        let mut states = vec![State::new()];
        for revision in &revisions {
            let keys: Vec<String> = revision.iter().map(|(key, _)| format!("routes/{key}")).collect();
            let changes: Vec<(&str, Option<&str>)> =
                keys.iter().zip(revision).map(|(key, (_, text))| (key.as_str(), text.as_deref())).collect();
            write(&mut store, VersionSource::Admin, &changes);
            states.push(state(&store));
        }
        for (revision, expected) in states.iter().enumerate() {
            let revision = revision as u64;
            match state_at(&store, revision) {
                Some(found) => prop_assert_eq!(&found, expected),
                None => prop_assert!(revision < store.oldest_version()),
            }
        }
        prop_assert!(store.versions(u64::MAX, 99).unwrap().len() <= limit);
    }
}
