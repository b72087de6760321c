//! The store: order of revisions, compare-and-swap, survival of a crash, refusal of foreign files.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::{BufRead, Write};

fn put(store: &mut ConfigStore, key: &str, text: &str) -> StoredRecord {
    let mut transaction = store.begin().unwrap();
    transaction.advance();
    let record = transaction.put(key, text, Expect::Any, None).unwrap();
    transaction.commit().unwrap();
    record
}

#[test]
fn revisions_grow_and_survive_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = ConfigStore::open(directory.path()).unwrap();
    let cluster_id = store.cluster_id().to_owned();
    assert_eq!(store.revision(), 0);
    let first = put(&mut store, "routes/1", "{}");
    assert_eq!((first.created_index, first.modified_index), (1, 1));
    let second = put(&mut store, "routes/1", "{\"a\":1}");
    assert_eq!((second.created_index, second.modified_index), (1, 2));
    drop(store);
    let mut store = ConfigStore::open(directory.path()).unwrap();
    assert_eq!((store.revision(), store.cluster_id()), (2, cluster_id.as_str()));
    assert_eq!(store.load().unwrap(), vec![("routes/1".to_owned(), second)]);
}

#[test]
fn compare_and_swap_refuses_a_changed_object() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = ConfigStore::open(directory.path()).unwrap();
    put(&mut store, "routes/1", "a");
    put(&mut store, "routes/1", "b");
    let mut transaction = store.begin().unwrap();
    transaction.advance();
    transaction.put("routes/2", "kept", Expect::Any, None).unwrap();
    for index in [0, 1, 3] {
        let refusal = transaction.put("routes/1", "c", Expect::ModifiedIndex(index), None).unwrap_err();
        assert!(matches!(refusal, StoreError::Conflict));
    }
    assert!(matches!(
        transaction.put("routes/9", "c", Expect::ModifiedIndex(1), None),
        Err(StoreError::Conflict)
    ));
    transaction.put("routes/1", "c", Expect::ModifiedIndex(2), None).unwrap();
    transaction.commit().unwrap();
    let texts: Vec<_> = store.load().unwrap().into_iter().map(|(_, record)| record.text).collect();
    assert_eq!(texts, ["c", "kept"]);
}

#[test]
fn dropped_transaction_leaves_no_change() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = ConfigStore::open(directory.path()).unwrap();
    let mut transaction = store.begin().unwrap();
    transaction.advance();
    transaction.put("routes/1", "a", Expect::Any, Some(5)).unwrap();
    drop(transaction);
    assert_eq!((store.revision(), store.load().unwrap().len(), store.expired(9, 9).len()), (0, 0, 0));
}

#[test]
fn expiries_follow_the_objects() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = ConfigStore::open(directory.path()).unwrap();
    let mut transaction = store.begin().unwrap();
    transaction.advance();
    for (key, at_ms) in [("a", Some(30)), ("b", Some(10)), ("c", None), ("d", Some(20))] {
        transaction.put(key, "", Expect::Any, at_ms).unwrap();
    }
    transaction.commit().unwrap();
    assert_eq!(store.expired(9, 10), Vec::<String>::new());
    assert_eq!(store.expired(30, 2), ["b", "d"]);
    put(&mut store, "b", "without an end");
    drop(store);
    let mut store = ConfigStore::open(directory.path()).unwrap();
    store.load().unwrap();
    assert_eq!(store.expired(30, 10), ["d", "a"]);
    let mut transaction = store.begin().unwrap();
    transaction.advance();
    assert!(transaction.delete("d").unwrap());
    assert!(!transaction.delete("d").unwrap());
    transaction.commit().unwrap();
    assert_eq!(store.expired(30, 10), ["a"]);
}

#[test]
fn file_without_a_store_is_refused_and_kept() {
    let check = |bytes: &[u8], reason: &str| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(STORE_FILE);
        std::fs::write(&path, bytes).unwrap();
        let refusal = ConfigStore::open(directory.path()).unwrap_err().to_string();
        assert!(refusal.contains(reason), "{refusal}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "the file was changed");
    };
    check(b"", "is not a usable store");
    check(b"SQLite format 3\0", "is not a usable store");
    check(&[0; 70_000], "is not a usable store");
}

#[test]
fn foreign_or_newer_store_is_refused() {
    let check = |change: fn(&WriteTransaction), reason: &str| {
        let directory = tempfile::tempdir().unwrap();
        drop(ConfigStore::open(directory.path()).unwrap());
        let database = Database::open(directory.path().join(STORE_FILE)).unwrap();
        let write = database.begin_write().unwrap();
        change(&write);
        write.commit().unwrap();
        drop(database);
        let refusal = ConfigStore::open(directory.path()).unwrap_err().to_string();
        assert!(refusal.contains(reason), "{refusal}");
    };
    check(|write| put_number(write, FORMAT_VERSION, 3).unwrap(), "format 3");
    check(|write| put_bytes(write, APPLICATION, b"other").unwrap(), "another program");
    check(|write| assert!(write.delete_table(META).unwrap()), "another program");
}

#[test]
fn truncated_store_is_refused_without_a_panic() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = ConfigStore::open(directory.path()).unwrap();
    put(&mut store, "routes/1", &"x".repeat(100_000));
    drop(store);
    let path = directory.path().join(STORE_FILE);
    let bytes = std::fs::read(&path).unwrap();
    for length in [1, 100, 4096, 5000, bytes.len() / 2] {
        std::fs::write(&path, &bytes[..length]).unwrap();
        assert!(
            matches!(ConfigStore::open(directory.path()), Err(StoreError::Unusable { .. })),
            "{length} bytes"
        );
    }
}

/// The directory of the child process of the next test; without it the child does nothing.
const CHILD_DIRECTORY: &str = "WEIR_TEST_CHILD_STORE";

#[test]
fn child_writes_until_it_is_killed() {
    let Ok(directory) = std::env::var(CHILD_DIRECTORY) else { return };
    let mut store = ConfigStore::open(Path::new(&directory)).unwrap();
    for number in 0_u64.. {
        let record = put(&mut store, &format!("routes/{}", number % 50), &number.to_string());
        // Acknowledges only now, on the real standard output and not in the test harness's capture.
        writeln!(io::stdout(), "acknowledged {} {number}", record.modified_index).unwrap();
    }
}

/// A child process writes and acknowledges on its standard output. It is killed (SIGKILL) in between, and the
/// last acknowledged write of every key, or a later one, must be in the store.
#[test]
fn acknowledged_writes_survive_a_killed_process() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["source::store::tests::child_writes_until_it_is_killed", "--exact", "--nocapture"])
        .env(CHILD_DIRECTORY, directory.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut acknowledged: BTreeMap<u64, u64> = BTreeMap::new();
    let mut last_revision = 0;
    let output = io::BufReader::new(child.stdout.take().unwrap());
    for line in output.lines().map_while(Result::ok) {
        let mut words = line.split(' ').skip_while(|word| !word.ends_with("acknowledged")).skip(1);
        let (Some(revision), Some(number)) = (words.next(), words.next()) else { continue };
        last_revision = revision.parse().unwrap();
        let number: u64 = number.parse().unwrap();
        acknowledged.insert(number % 50, number);
        if number == 300 {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    let mut store = ConfigStore::open(directory.path()).unwrap();
    assert!(store.revision() >= last_revision && last_revision >= 300);
    let stored: BTreeMap<String, u64> =
        store.load().unwrap().into_iter().map(|(key, record)| (key, record.text.parse().unwrap())).collect();
    for (key, number) in acknowledged {
        assert!(stored[&format!("routes/{key}")] >= number, "routes/{key}");
    }
}

#[test]
fn reopened_store_reuses_no_revision() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = ConfigStore::open(directory.path()).unwrap();
    put(&mut store, "routes/1", "a");
    put(&mut store, "routes/1", "b");
    // The state after a commit with a failed fsync and bytes that reached the disk: the fields are set by
    // hand.
    store.database = None;
    store.revision = 1;
    assert_eq!(put(&mut store, "routes/2", "c").modified_index, 3);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Committed writes are present after a crash, others are not (the file as it was on disk while the store
    /// was still open).
    #[test]
    fn committed_writes_survive_a_crash(
        transactions in proptest::collection::vec(
            (proptest::collection::vec((0u8..6, proptest::option::of("[a-z]{0,8}")), 1..5), any::<bool>()), 1..8),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let mut store = ConfigStore::open(directory.path()).unwrap();
        let mut expected = BTreeMap::new();
        for (writes, committed) in transactions {
            let mut after = expected.clone();
            let mut transaction = store.begin().unwrap();
            transaction.advance();
            for (key, text) in writes {
                let key = format!("routes/{key}");
                match text {
                    Some(text) => { transaction.put(&key, &text, Expect::Any, None).unwrap(); after.insert(key, text); }
                    None => { transaction.delete(&key).unwrap(); after.remove(&key); }
                }
            }
            if committed {
                transaction.commit().unwrap();
                expected = after;
            }
            let crashed = tempfile::tempdir().unwrap();
            std::fs::copy(directory.path().join(STORE_FILE), crashed.path().join(STORE_FILE)).unwrap();
            let mut survivor = ConfigStore::open(crashed.path()).unwrap();
            let found: BTreeMap<_, _> = survivor.load().unwrap().into_iter().map(|(key, record)| (key, record.text)).collect();
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(survivor.revision(), store.revision());
        }
    }
}
