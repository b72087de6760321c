//! Rotations in a folder, with logs that record what they are asked.

use std::cell::RefCell;
use std::sync::atomic::AtomicUsize;

use super::*;

fn rotation(files: &[&Path], compression: Option<Duration>) -> Rotation {
    Rotation {
        files: files.iter().map(|path| (*path).to_owned()).collect(),
        interval_seconds: 60,
        max_kept: 2,
        max_bytes: 3,
        compression,
    }
}

/// Logs that go into `held`, whatever their paths become.
#[derive(Default)]
struct TestLogs {
    reopened: AtomicUsize,
    held: RefCell<Vec<PathBuf>>,
}

impl TestLogs {
    fn reopened(&self) -> usize {
        self.reopened.load(Ordering::Relaxed)
    }
}

impl OpenLogs for TestLogs {
    fn reopen(&self) {
        self.reopened.fetch_add(1, Ordering::Relaxed);
    }

    fn are_in(&self, path: &Path) -> bool {
        self.held.borrow().iter().any(|held| held == path)
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn turns_are_multiples_of_the_interval() {
    assert_eq!([0, 1, 59, 60, 61].map(|now| next_turn(now, 60)), [60, 60, 60, 120, 120]);
    let name = rotated_name(Path::new("/a/access.log"), 1_577_836_801).unwrap();
    assert_eq!(name, Path::new("/a/2020-01-01_00-00-01__access.log"));
}

#[test]
fn only_rotated_files_of_the_log_are_known() {
    for name in ["2020-01-01_00-00-01__a.log", "2020-01-01_00-00-01__a.log.tar.gz"] {
        assert!(is_rotated(name, "a.log"), "{name}");
    }
    for name in [
        "a.log",
        "2020-01-01_00-00-01__b.log",
        "mine__a.log",
        "2020-01-01_00-00-0x__a.log",
        "2020-01-01_00-00-01__a.log.bak",
    ] {
        assert!(!is_rotated(name, "a.log"), "{name}");
    }
}

#[test]
fn oldest_files_of_a_log_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("a.log"), folder.path().join("2020-01-01_00-00-00__b.log"));
    fs::write(&other, "").unwrap();
    let rotation = rotation(&[&path], None);
    let logs = TestLogs::default();
    for second in 1..=4 {
        fs::write(&path, second.to_string()).unwrap();
        rotation.rotate(&[&path], second, &logs);
    }
    let kept = ["1970-01-01_00-00-03__a.log", "1970-01-01_00-00-04__a.log", "2020-01-01_00-00-00__b.log"];
    assert_eq!(names(folder.path()), kept);
    assert_eq!(fs::read_to_string(folder.path().join(kept[1])).unwrap(), "4");
    rotation.rotate(&[&path], 5, &logs);
    assert_eq!(logs.reopened(), 4, "without a log there is none to reopen");
}

#[test]
fn long_logs_are_due_and_compressed() {
    let folder = tempfile::tempdir().unwrap();
    let (long, short) = (folder.path().join("a.log"), folder.path().join("b.log"));
    fs::write(&long, "abc").unwrap();
    fs::write(&short, "ab").unwrap();
    let rotation = rotation(&[&long, &short], Some(Duration::from_secs(60)));
    let due = rotation.too_long();
    assert_eq!(due, [&long]);
    let logs = TestLogs::default();
    let mut renamed = rotation.rotate(&due, 1, &logs);
    rotation.compress_renamed(&mut renamed, &logs);
    assert_eq!(names(folder.path()), ["1970-01-01_00-00-01__a.log", "b.log"], "others may write there yet");
    rotation.compress_renamed(&mut renamed, &logs);
    assert_eq!(names(folder.path()), ["1970-01-01_00-00-01__a.log.tar.gz", "b.log"]);
    assert!(renamed.is_empty());
    let archive = folder.path().join("1970-01-01_00-00-01__a.log.tar.gz");
    let listed = Command::new("tar").arg("-tzf").arg(&archive).output().unwrap();
    assert_eq!(String::from_utf8(listed.stdout).unwrap(), "1970-01-01_00-00-01__a.log\n");
}

#[test]
fn file_that_cannot_be_compressed_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.log");
    assert!(compress(&path, Duration::from_secs(60)).is_err(), "it is not there");
    fs::write(&path, vec![0; 1024 * 1024]).unwrap();
    assert!(compress(&path, Duration::ZERO).unwrap_err().contains("longer than 0 ms"));
    assert_eq!(names(folder.path()), ["a.log"]);
}

#[test]
fn file_that_a_log_still_uses_is_not_compressed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.log");
    fs::write(&path, "abc").unwrap();
    let rotation = rotation(&[&path], Some(Duration::from_secs(60)));
    let logs = TestLogs::default();
    let mut renamed = rotation.rotate(&[&path], 1, &logs);
    // As after a failed `open` of the log's path.
    let old = renamed[0].path.clone();
    logs.held.borrow_mut().push(old.clone());
    for _ in 0..3 {
        rotation.compress_renamed(&mut renamed, &logs);
    }
    assert!(old.exists() && renamed.len() == 1);
    rotation.follow(&logs);
    assert_eq!(logs.reopened(), 2, "it is tried again");
    *logs.held.borrow_mut() = vec![path];
    rotation.follow(&logs);
    assert_eq!(logs.reopened(), 2);
    rotation.compress_renamed(&mut renamed, &logs);
    assert_eq!(names(folder.path()), ["1970-01-01_00-00-01__a.log.tar.gz"]);
}

#[test]
fn file_that_another_process_rotated_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.log");
    let rotation = rotation(&[&path], Some(Duration::from_secs(60)));
    for its in ["1970-01-01_00-00-01__a.log", "1970-01-01_00-00-02__a.log.tar.gz"] {
        fs::write(folder.path().join(its), "its lines").unwrap();
    }
    for second in [1, 2] {
        fs::write(&path, "new lines").unwrap();
        let logs = TestLogs::default();
        assert!(rotation.rotate(&[&path], second, &logs).is_empty());
        rotation.follow(&logs);
        assert_eq!(logs.reopened(), 1, "the path is another file now");
    }
    let kept = ["1970-01-01_00-00-01__a.log", "1970-01-01_00-00-02__a.log.tar.gz"];
    assert_eq!(names(folder.path()), [kept[0], kept[1], "a.log"]);
    for its in kept {
        assert_eq!(fs::read_to_string(folder.path().join(its)).unwrap(), "its lines");
    }
}
