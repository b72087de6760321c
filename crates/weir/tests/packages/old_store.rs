//! Stores of other versions: one that the code of 0.1.0 has written is served, with a copy of it kept, and
//! one of a newer format is refused with the reason.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testkit::{Client, Weir, wait_until};

use crate::host::{self, BINARY};

/// Two routes, a consumer and an upstream, written by the store of 0.1.0 (its own code and the same library)
/// in format 1.
const OLD_STORE: &str = "store-0.1.0.redb.gz";
/// The same store under the number of a format that does not exist yet.
const NEWER_STORE: &str = "store-of-format-3.redb.gz";

/// Puts a packed store into a data folder.
fn unpack(packed: &str, data: &Path) {
    fs::create_dir_all(data).unwrap();
    let store = File::create(data.join("store.redb")).unwrap();
    let packed = host::root().join("crates/weir/tests/packages").join(packed);
    let status = Command::new("gunzip").arg("--stdout").arg(packed).stdout(store).status().unwrap();
    assert!(status.success());
}

/// Starts the program on a data folder, on which it cannot start; its status and message.
fn refused(data: &Path) -> (Option<i32>, String) {
    let run = Command::new(BINARY)
        .args([
            "run",
            "--proxy",
            "127.0.0.1:0",
            "--proxy-tls",
            "off",
            "--admin",
            "127.0.0.1:0",
            "--control",
            "off",
        ])
        .args(["--status", "off", "--metrics", "off", "--data"])
        .arg(data)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (run.status.code(), String::from_utf8_lossy(&run.stderr).into_owned())
}

/// The routes of the store answer, one of them for its consumer only.
fn serves_the_old_objects(weir: &Weir) {
    assert_eq!(weir.get("/kept").text(), "kept since 0.1.0");
    let key = [("apikey", "the-key-of-jack")];
    let guarded = Client::connect(weir.proxy()).request("GET", "/guarded", &key, b"");
    assert_eq!((guarded.status, guarded.text().as_str()), (200, "for jack"));
    assert_eq!(weir.get("/guarded").status, 401);
}

#[test]
fn store_of_0_1_0_is_raised_and_a_copy_kept() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    unpack(OLD_STORE, &data);
    let copy = data.join("store.redb.format-1");
    let arguments = ["--data", data.to_str().unwrap()];
    let mut weir = Weir::builder(BINARY).arguments(&arguments).start();
    serves_the_old_objects(&weir);
    let logged = weir.stderr().join("\n");
    assert!(logged.contains(&*copy.to_string_lossy()) && logged.contains("a copy was kept"), "{logged}");
    assert_eq!(weir.admin("GET", "routes/kept", Value::Null).1["modifiedIndex"], 1);
    weir.put("routes/new", json!({"uri": "/new", "plugins": {"mocking": {"response_example": "new"}}}));
    wait_until("the new route answers", || weir.get("/new").status == 200);
    weir.terminate();
    assert!(weir.wait_for_exit().success());

    let kept = fs::read(&copy).unwrap();
    let weir = Weir::builder(BINARY).arguments(&arguments).start();
    serves_the_old_objects(&weir);
    assert_eq!(weir.get("/new").status, 200);
    assert!(!weir.stderr().join("\n").contains("a copy was kept"), "the store has the present format");
    assert_eq!(fs::read(&copy).unwrap(), kept);

    // The copy is a whole store of the old format: it has what was there before the first write.
    let back = folder.path().join("back");
    fs::create_dir(&back).unwrap();
    fs::copy(&copy, back.join("store.redb")).unwrap();
    let weir = Weir::builder(BINARY).arguments(&["--data", back.to_str().unwrap()]).start();
    serves_the_old_objects(&weir);
    assert_eq!(weir.get("/new").status, 404);
    assert!(back.join("store.redb.format-1").exists());
}

#[test]
fn copy_that_cannot_be_kept_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    unpack(OLD_STORE, &data);
    let before = fs::read(data.join("store.redb")).unwrap();
    // A folder in the place of the copy cannot be replaced by a file, not even by root.
    fs::create_dir_all(data.join("store.redb.format-1/full")).unwrap();
    let (code, message) = refused(&data);
    assert_eq!(code, Some(1), "{message}");
    for part in ["store.redb has the format 1 of an older version", "store.redb.format-1 cannot be kept"] {
        assert!(message.contains(part), "{part} is not in\n{message}");
    }
    assert_eq!(fs::read(data.join("store.redb")).unwrap().len(), before.len());
}

#[test]
fn store_of_a_newer_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    unpack(NEWER_STORE, folder.path());
    let store = folder.path().join("store.redb");
    let before = fs::read(&store).unwrap();
    let (code, message) = refused(folder.path());
    assert_eq!(code, Some(78), "{message}");
    for part in
        ["has store format 3, this version knows 2", "start the newer version again", "store.redb.format-2"]
    {
        assert!(message.contains(part), "{part} is not in\n{message}");
    }
    assert_eq!(fs::read(&store).unwrap().len(), before.len());
}
