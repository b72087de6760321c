//! Damaged files: whichever bytes change, a store serves all of its objects or reports the damage; it never
//! panics and never has other objects than the written ones.

use std::fs;
use std::path::Path;

use super::*;

/// The number of objects of a small team.
const OBJECTS_WRITTEN: usize = 300;
/// Number of damages of each kind.
const SEEDS: u64 = 60;

fn text(number: usize) -> String {
    format!("{{\"uri\":\"/{number}\",\"desc\":\"{}\"}}", "x".repeat(number % 90))
}

/// A store's file, closed properly, and the objects in it.
fn written(directory: &Path) -> (Vec<u8>, Vec<(String, StoredRecord)>) {
    let mut store = ConfigStore::open(directory).unwrap();
    for part in 0..3 {
        let mut transaction = store.begin().unwrap();
        for number in (part..OBJECTS_WRITTEN).step_by(3) {
            transaction.advance();
            let label = RevisionLabel { at_ms: 5, by: "127.0.0.1".into(), source: VersionSource::Admin };
            transaction.sign(label);
            transaction.put(&format!("routes/{number}"), &text(number), Expect::Any, None).unwrap();
        }
        transaction.commit().unwrap();
    }
    let objects = store.load().unwrap();
    drop(store);
    (fs::read(directory.join(STORE_FILE)).unwrap(), objects)
}

/// Pseudo-random numbers that are the same in each run (Steele and others, "Fast splittable pseudorandom
/// number generators", 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

/// Damages the bytes by a seed: some bits flipped, a page overwritten, swapped with another or emptied, or
/// the end cut off.
fn damage(bytes: &mut Vec<u8>, seed: u64) -> String {
    const PAGE: usize = 4096;
    let mut random = Random(seed);
    let pages = bytes.len() / PAGE;
    let (page, other) = (random.below(pages) * PAGE, random.below(pages) * PAGE);
    match seed % 6 {
        0 => {
            for _ in 0..200 {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
            "200 bits".to_owned()
        }
        1 => {
            // Bytes that are certainly in use: the header, or the first pages of the trees.
            let at = random.below(PAGE * 8.min(pages));
            bytes[at] ^= 1 << random.below(8);
            format!("a bit at {at}")
        }
        2 => {
            bytes[page..page + PAGE].iter_mut().for_each(|byte| *byte = random.below(256) as u8);
            format!("page at {page} overwritten")
        }
        3 => {
            bytes.copy_within(page..page + PAGE, other);
            format!("page at {page} written to {other}")
        }
        4 => {
            bytes[page..page + PAGE].fill(0);
            format!("page at {page} emptied")
        }
        _ => {
            let length = random.below(bytes.len());
            bytes.truncate(length);
            format!("cut to {length}")
        }
    }
}

#[test]
fn damaged_store_is_whole_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (good, objects) = written(directory.path());
    let path = directory.path().join(STORE_FILE);
    let (mut refused, mut served) = (0, 0);
    for seed in 0..SEEDS * 6 {
        let mut bytes = good.clone();
        let kind = damage(&mut bytes, seed);
        fs::write(&path, &bytes).unwrap();
        match ConfigStore::open(directory.path())
            .and_then(|mut store| store.load().map(|found| (store, found)))
        {
            Ok((mut store, found)) => {
                assert!(found == objects, "seed {seed}, {kind}: {} objects", found.len());
                store.versions(u64::MAX, 1_000).unwrap();
                let mut transaction = store.begin().unwrap();
                transaction.advance();
                transaction.put("routes/new", "{}", Expect::Any, None).unwrap();
                transaction.commit().unwrap();
                served += 1;
            }
            Err(fault) => {
                let message = fault.to_string();
                assert!(message.starts_with(path.to_str().unwrap()), "seed {seed}, {kind}: {message}");
                assert!(message.contains("restore the file from a backup"), "seed {seed}, {kind}: {message}");
                assert_eq!(fs::read(&path).unwrap(), bytes, "seed {seed}, {kind}: the file was changed");
                refused += 1;
            }
        }
    }
    assert!(refused > 100 && served > 20, "{refused} refused, {served} served");
}

#[test]
fn store_damaged_in_use_answers_with_errors() {
    let directory = tempfile::tempdir().unwrap();
    let (good, _) = written(directory.path());
    let path = directory.path().join(STORE_FILE);
    let mut failed = 0;
    for seed in 0..SEEDS {
        fs::write(&path, &good).unwrap();
        let mut store = ConfigStore::open(directory.path()).unwrap();
        store.load().unwrap();
        store.close();
        // Opening the file again does not check it, and no page is in memory.
        let mut random = Random(seed);
        let mut bytes = good.clone();
        match seed % 3 {
            0 => bytes[4096..].iter_mut().for_each(|byte| *byte = random.below(256) as u8),
            1 => bytes[4096..].fill(0),
            _ => {
                for _ in 0..2_000 {
                    let at = 4096 + random.below(bytes.len() - 4096);
                    bytes[at] ^= 1 << random.below(8);
                }
            }
        }
        fs::write(&path, &bytes).unwrap();
        for number in 0..3 {
            if number == seed % 3 {
                let _ = store.load();
                let _ = store.versions(u64::MAX, 10);
            }
            let wrote = store.begin().and_then(|mut transaction| {
                transaction.advance();
                transaction.put(&format!("routes/{number}"), "{}", Expect::Any, None)?;
                transaction.commit()
            });
            failed += usize::from(wrote.is_err());
        }
    }
    assert!(failed > 0, "the damages were never met");
}

#[test]
fn store_is_not_used_after_a_panic_of_the_library() {
    let directory = tempfile::tempdir().unwrap();
    let check = |panics: fn(&mut ConfigStore) -> StoreError| {
        let mut store = ConfigStore::open(directory.path()).unwrap();
        let first = panics(&mut store);
        let later = [store.load().unwrap_err(), store.begin().map(drop).unwrap_err()];
        for fault in [first].into_iter().chain(later) {
            assert!(fault.to_string().contains(DAMAGED), "{fault}");
        }
        assert!(store.is_damaged());
        std::fs::remove_file(directory.path().join(STORE_FILE)).unwrap();
    };
    check(|store| store.read::<()>(|_| panic!("a page is damaged")).unwrap_err());
    check(|store| {
        let mut transaction = store.begin().unwrap();
        transaction.advance();
        transaction.put("routes/1", "{}", Expect::Any, None).unwrap();
        let fault = transaction.guarded::<()>(|_| panic!("a page is damaged")).unwrap_err();
        transaction.put("routes/2", "{}", Expect::Any, None).unwrap_err();
        transaction.commit().unwrap_err();
        fault
    });
}

#[test]
fn store_without_checksums_is_read_and_raised() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(STORE_FILE);
    drop(ConfigStore::open(directory.path()).unwrap());
    let database = Database::open(&path).unwrap();
    let write = database.begin_write().unwrap();
    let mut old =
        StoredRecord { text: "{}".to_owned(), created_index: 1, modified_index: 1, expires_at_ms: None }
            .encode();
    old.truncate(old.len() - 4);
    old[0] = 1;
    write.open_table(OBJECTS).unwrap().insert("routes/old", old.as_slice()).unwrap();
    put_number(&write, FORMAT_VERSION, FORMAT_WITHOUT_CHECKSUMS).unwrap();
    write.commit().unwrap();
    drop(database);
    for format in [FORMAT_WITHOUT_CHECKSUMS, FORMAT] {
        let mut store = ConfigStore::open(directory.path()).unwrap();
        assert_eq!(store.format, format);
        assert!(store.load().unwrap().iter().any(|(key, record)| key == "routes/old" && record.text == "{}"));
        let mut transaction = store.begin().unwrap();
        transaction.advance();
        transaction.put("routes/new", "{}", Expect::Any, None).unwrap();
        transaction.commit().unwrap();
    }
}

#[test]
fn checksum_fault_names_the_object() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(STORE_FILE);
    drop(written(directory.path()));
    let database = Database::open(&path).unwrap();
    let write = database.begin_write().unwrap();
    let mut bytes = write.open_table(OBJECTS).unwrap().get("routes/7").unwrap().unwrap().value().to_vec();
    bytes[30] ^= 1;
    write.open_table(OBJECTS).unwrap().insert("routes/7", bytes.as_slice()).unwrap();
    write.commit().unwrap();
    drop(database);
    let message = ConfigStore::open(directory.path()).unwrap().load().unwrap_err().to_string();
    assert!(
        message.contains("object routes/7: its checksum does not fit") && message.contains("backup"),
        "{message}"
    );
}
