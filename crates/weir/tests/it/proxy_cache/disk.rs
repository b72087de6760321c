//! Zones on disk: kept over a restart, and never trusted.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use testkit::{Origin, Reply, Weir, wait_until};

use super::{ask, check, metric, numbered, route};
use crate::support::BINARY;

const ON_DISK: &str = "disk";

/// A gateway with one route that is cached in the zone of the default settings.
fn cached(origin: &Origin) -> Weir {
    let weir = Weir::start(BINARY);
    route(&weir, origin, json!({"cache_strategy": ON_DISK}));
    weir
}

/// All files of entries below `path`.
fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

fn folder(weir: &Weir) -> PathBuf {
    weir.data().join("cache/disk_cache_one")
}

/// Asks until the answer comes from the cache: it is there once its file has its name.
/// The authority that requests ask for, which is part of the key: ports of the tests change with a restart.
const HOST: (&str, &str) = ("Host", "a.example:80");

fn wait_for_hit(weir: &Weir, path: &str, body: &str) {
    wait_until("the response is on disk", || {
        let (status, got) = ask(weir, path, &[]);
        status == "HIT" && got == body
    });
}

#[test]
fn entries_on_disk_survive_a_restart() {
    let origin = Origin::start(|request| {
        let body = request.path().repeat(40_000);
        Reply::with(200, &[("Cache-Control", "max-age=600"), ("Vary", "X-Kind")], body.as_bytes())
    });
    let mut weir = cached(&origin);
    let body = "/long".repeat(40_000);
    check(ask(&weir, "/long", &[HOST, ("X-Kind", "a")]), "MISS", &body);
    wait_until("the variant is on disk", || ask(&weir, "/long", &[HOST, ("X-Kind", "a")]).0 == "HIT");
    check(ask(&weir, "/a", &[HOST]), "MISS", &"/a".repeat(40_000));
    wait_until("it is on disk", || ask(&weir, "/a", &[HOST]).0 == "HIT");
    let before = origin.requests().len();
    weir.terminate();
    weir.wait_for_exit();
    let weir = weir.restart();
    wait_until("the index is read", || {
        weir.stderr().iter().any(|line| line.contains("the index of the cache on disk was read"))
    });
    wait_until("it is on disk", || ask(&weir, "/a", &[HOST]).0 == "HIT");
    check(ask(&weir, "/long", &[HOST, ("X-Kind", "a")]), "HIT", &body);
    assert_eq!(origin.requests().len(), before);
    let part = weir.client().request("GET", "/a", &[HOST, ("Range", "bytes=79998-")], b"");
    assert_eq!((part.status, &*part.text()), (206, "/a"));
    assert_eq!(files(&folder(&weir)).len(), 2);
}

#[test]
fn purged_entry_leaves_no_file() {
    let origin = numbered(&[("Cache-Control", "max-age=600")]);
    let weir = cached(&origin);
    check(ask(&weir, "/", &[]), "MISS", "response 0");
    wait_for_hit(&weir, "/", "response 0");
    let part = weir.client().request("GET", "/", &[("Range", "bytes=0-3")], b"");
    assert_eq!((part.status, &*part.text()), (206, "resp"), "from the short body beside its open file");
    check(ask(&weir, "/", &[]), "HIT", "response 0");
    assert_eq!(weir.client().request("PURGE", "/", &[], b"").status, 200);
    wait_until("the file is removed", || files(&folder(&weir)).is_empty());
    assert_eq!(weir.client().request("PURGE", "/", &[], b"").status, 404);
}

#[test]
fn damaged_files_are_removed_at_start() {
    let origin = numbered(&[("Cache-Control", "max-age=600")]);
    let mut weir = cached(&origin);
    check(ask(&weir, "/", &[]), "MISS", "response 0");
    wait_for_hit(&weir, "/", "response 0");
    weir.kill();
    let [file] = &files(&folder(&weir))[..] else { panic!("one file") };
    let mut bytes = fs::read(file).unwrap();
    bytes[40] ^= 1;
    fs::write(file, bytes).unwrap();
    let foreign = file.with_file_name("not-of-the-cache");
    fs::write(&foreign, "x").unwrap();
    let weir = weir.restart();
    wait_until("the file is removed", || files(&folder(&weir)) == [foreign.clone()]);
    check(ask(&weir, "/", &[]), "MISS", "response 1");
}

#[test]
fn vanished_file_is_a_miss() {
    let origin = numbered(&[("Cache-Control", "max-age=600")]);
    let mut weir = cached(&origin);
    check(ask(&weir, "/", &[]), "MISS", "response 0");
    wait_for_hit(&weir, "/", "response 0");
    weir.kill();
    let weir = weir.restart();
    wait_until("the index is read", || {
        weir.stderr().iter().any(|line| line.contains("the index of the cache on disk was read"))
    });
    for file in files(&folder(&weir)) {
        fs::remove_file(file).unwrap();
    }
    check(ask(&weir, "/", &[]), "MISS", "response 1");
    wait_for_hit(&weir, "/", "response 1");
}

#[test]
fn failing_disk_lets_requests_pass() {
    let long = "x".repeat(300_000);
    let sent = long.clone();
    let origin =
        Origin::start(move |_| Reply::with(200, &[("Cache-Control", "max-age=600")], sent.as_bytes()));
    let weir = cached(&origin);
    check(ask(&weir, "/", &[]), "MISS", &long);
    wait_for_hit(&weir, "/", &long);
    let temporary = folder(&weir).join("weir-incomplete");
    fs::remove_dir(&temporary).unwrap();
    fs::write(&temporary, "no folder").unwrap();
    for _ in 0..3 {
        check(ask(&weir, "/other", &[]), "MISS", &long);
    }
    wait_until("the failures are counted", || {
        metric(&weir, "weir_cache_disk_failures_total{zone=\"disk_cache_one\"}") >= 3
    });
    check(ask(&weir, "/", &[]), "HIT", &long);
    fs::remove_file(&temporary).unwrap();
    fs::create_dir(&temporary).unwrap();
    check(ask(&weir, "/other", &[]), "MISS", &long);
    wait_for_hit(&weir, "/other", &long);
}

#[test]
fn folder_that_others_can_write_to_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let origin = numbered(&[("Cache-Control", "max-age=600")]);
    let weir = Weir::start(BINARY);
    let folder = folder(&weir);
    let foreign = ["tmp", "weir-incomplete"].map(|name| folder.join(name).join("not-of-the-cache"));
    for file in &foreign {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "x").unwrap();
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    route(&weir, &origin, json!({"cache_strategy": ON_DISK}));
    check(ask(&weir, "/", &[]), "MISS", "response 0");
    check(ask(&weir, "/", &[]), "MISS", "response 1");
    let warning = "other users may write to its folder";
    assert!(weir.stderr().iter().any(|line| line.contains(warning)), "{:?}", weir.stderr());
    assert!(foreign.iter().all(|file| file.exists()), "files of others stay");
}
