//! The embedded store through the real binary: acknowledged writes survive a kill at any moment, and an
//! unusable store is refused with the reason and left unchanged.

use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};
use testkit::{ADMIN_KEY, Client, Weir};

use crate::command::{FREE_PORTS, weir};

const BINARY: &str = env!("CARGO_BIN_EXE_weir");

#[test]
fn kill_during_writes_loses_no_acknowledged_one() {
    let mut weir = Weir::start(BINARY);
    let mut expected: HashMap<String, Option<u64>> = HashMap::new();
    for round in 0..ROUNDS {
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let admin = weir.address("admin");
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let acknowledged = Arc::clone(&acknowledged);
                thread::spawn(move || write_until_broken(admin, writer, round, &acknowledged))
            })
            .collect();
        // A different moment in each round: in the middle of a batch, of an fsync, of a response.
        let enough = WRITES_PER_ROUND + 37 * round;
        wait_for_writes(&acknowledged, enough);
        weir.kill();
        let mut open = HashMap::new();
        for writer in writers {
            let written = writer.join().unwrap();
            expected.extend(written.acknowledged);
            open.extend(written.open);
        }
        weir = weir.restart();
        let found = weights(&weir);
        for (id, value) in &expected {
            let value_found = found.get(id).copied();
            let unanswered = open.get(id);
            assert!(
                value_found == *value || unanswered == Some(&value_found),
                "round {round}: {id} is {value_found:?}, acknowledged {value:?}, unanswered {unanswered:?}"
            );
        }
        // A write without a response may have been done or not; from here on its outcome is known.
        for id in open.into_keys() {
            expected.insert(id.clone(), found.get(&id).copied());
        }
        assert_eq!(found.len(), expected.values().flatten().count(), "nothing is there that nobody wrote");
    }
}

/// Waits for so many acknowledged writes, in steps with a timeout each, because the time per write depends on
/// the disk.
fn wait_for_writes(acknowledged: &AtomicUsize, enough: usize) {
    for some in (0..enough).step_by(50).chain([enough]) {
        testkit::wait_until("more writes are acknowledged", || acknowledged.load(Ordering::Relaxed) >= some);
    }
}

#[test]
fn stop_during_writes_keeps_acknowledged_ones() {
    let mut weir = Weir::start(BINARY);
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let admin = weir.address("admin");
    let count = Arc::clone(&acknowledged);
    let writer = thread::spawn(move || write_until_broken(admin, 0, 0, &count));
    wait_for_writes(&acknowledged, 200);
    weir.terminate();
    assert!(weir.wait_for_exit().success());
    let written = writer.join().unwrap();
    let found = weights(&weir.restart());
    for (id, value) in &written.acknowledged {
        let value_found = found.get(id).copied();
        assert!(value_found == *value || written.open.get(id) == Some(&value_found), "{id}: {value_found:?}");
    }
}

/// The keys of one writer, with the writes that were answered and the one that was not.
#[derive(Default)]
struct Written {
    /// The last acknowledged value of each key; none is a deletion.
    acknowledged: HashMap<String, Option<u64>>,
    /// The one write without a response.
    open: HashMap<String, Option<u64>>,
}

/// Writes and deletes keys of its own, one after the other, until the gateway is killed or stops.
fn write_until_broken(admin: SocketAddr, writer: usize, round: usize, count: &AtomicUsize) -> Written {
    let mut written = Written::default();
    let mut client = Client::connect(admin);
    for number in 0_u64.. {
        let id = format!("w{writer}k{}", number % KEYS);
        let is_deletion = number % 7 == 3 && written.acknowledged.get(&id).is_some_and(Option::is_some);
        let value = (!is_deletion).then_some(round as u64 * 1_000_000 + number);
        let body = value.map_or(String::new(), |value| json!({"nodes": {"127.0.0.1:1": value}}).to_string());
        let method = if is_deletion { "DELETE" } else { "PUT" };
        let path = format!("/apisix/admin/upstreams/{id}");
        match client.try_request(method, &path, &[("X-API-KEY", ADMIN_KEY)], body.as_bytes()) {
            // A gateway that drains answers 503 as long as it can.
            Ok(response) if response.status == 503 => return written,
            Ok(response) => {
                assert!(matches!(response.status, 200 | 201), "{method} {id}: {}", response.text());
                written.acknowledged.insert(id, value);
                count.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => {
                written.open.insert(id, value);
                return written;
            }
        }
    }
    written
}

/// The weight of the one node of each stored upstream.
fn weights(weir: &Weir) -> HashMap<String, u64> {
    let (status, listed) = weir.admin("GET", "upstreams", Value::Null);
    assert_eq!(status, 200);
    let entry = |entry: &Value| {
        let value = &entry["value"];
        (value["id"].as_str().unwrap().to_owned(), value["nodes"]["127.0.0.1:1"].as_u64().unwrap())
    };
    listed["list"].as_array().unwrap().iter().map(entry).collect()
}

#[test]
fn unusable_store_is_refused_and_kept() {
    let good = store_with_a_route();
    let check = |bytes: &[u8], expected: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data").join(STORE_FILE);
        fs::create_dir(folder.path().join("data")).unwrap();
        fs::write(&path, bytes).unwrap();
        let outcome = start_on(folder.path());
        assert_eq!((outcome.code, outcome.stdout.as_str()), (1, ""), "{outcome:?}");
        for part in [&*path.to_string_lossy(), expected] {
            assert!(outcome.stderr.contains(part), "{part} is not in {}", outcome.stderr);
        }
        assert_eq!(fs::read(&path).unwrap(), bytes, "the file was changed");
    };
    check(b"", "is not a usable store");
    check(b"SQLite format 3\0 and more", "is not a usable store");
    check(&good[..good.len() / 2], "is not a usable store");
    check(&good[..100], "is not a usable store");
    let mut damaged = good.clone();
    damaged[..64].fill(0xff);
    check(&damaged, "Nothing was changed");
}

#[test]
fn damaged_store_is_a_clear_error() {
    let mut gateway = Weir::start(BINARY);
    for number in 0..100 {
        let id = format!("routes/{number}");
        gateway.put(&id, json!({"uri": format!("/needle-{number}"), "plugins": {"cors": {}}}));
    }
    gateway.terminate();
    assert!(gateway.wait_for_exit().success());
    let path = gateway.data().join(STORE_FILE);
    let good = fs::read(&path).unwrap();
    // All pages that hold this object, so that the page in use is among them.
    let needle = b"/needle-42\"";
    let pages: Vec<usize> = (0..good.len() / PAGE)
        .map(|page| page * PAGE)
        .filter(|page| good[*page..page + PAGE].windows(needle.len()).any(|bytes| bytes == needle))
        .collect();
    assert!(!pages.is_empty());
    let damages: [fn(&mut [u8]); 6] = [
        |page| page[0] ^= 1,
        |page| page[2] ^= 0x80,
        |page| page[5] ^= 4,
        |page| page[PAGE / 2] ^= 1,
        |page| page.fill(0),
        |page| page.fill(0xff),
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        let mut bytes = good.clone();
        pages.iter().for_each(|page| damage(&mut bytes[*page..page + PAGE]));
        fs::write(&path, &bytes).unwrap();
        let outcome = start_on(gateway.directory());
        assert_eq!((outcome.code, outcome.stdout.as_str()), (1, ""), "damage {number}: {outcome:?}");
        for part in [&*path.to_string_lossy(), "is not a usable store", "restore the file from a backup"] {
            assert!(outcome.stderr.contains(part), "damage {number}: {}", outcome.stderr);
        }
        for part in ["panicked", "backtrace"] {
            assert!(!outcome.stderr.contains(part), "damage {number}: {}", outcome.stderr);
        }
        assert_eq!(fs::read(&path).unwrap(), bytes, "damage {number}: the file was changed");
    }
    fs::write(&path, &good).unwrap();
    assert_eq!(gateway.restart().admin("GET", "routes/42", Value::Null).0, 200);
}

#[test]
fn unreadable_store_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    // A folder in place of the file cannot be read by any user, including root.
    fs::create_dir_all(folder.path().join("data").join(STORE_FILE)).unwrap();
    let outcome = start_on(folder.path());
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.stderr.contains("is not a usable store"), "{}", outcome.stderr);

    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("data"), "a file, no folder").unwrap();
    let outcome = start_on(folder.path());
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.stderr.contains("/data"), "{}", outcome.stderr);
}

#[test]
fn a_data_directory_belongs_to_one_process() {
    let running = Weir::start(BINARY);
    let outcome = start_on(running.directory());
    assert_eq!((outcome.code, outcome.stdout.as_str()), (1, ""));
    let holder = format!("is in use by process {}", running.pid());
    assert!(outcome.stderr.contains(&holder), "{}", outcome.stderr);
    running.put("routes/1", json!({"uri": "/", "plugins": {"cors": {}}}));
}

#[test]
fn a_port_of_the_proxy_is_not_shared_in_silence() {
    let running = Weir::start(BINARY);
    let folder = tempfile::tempdir().unwrap();
    for name in ["proxy", "admin", "metrics"] {
        let taken = running.address(name).to_string();
        let arguments = [&["run", "--data", "data"][..], &arguments_with(name, &taken)].concat();
        let outcome = weir(folder.path(), &arguments, &[]);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (1, ""), "{outcome:?}");
        let expected = format!("cannot listen on {taken}; give another address with `--{name}`");
        assert!(outcome.stderr.contains(&expected), "{}", outcome.stderr);
    }
}

/// [`FREE_PORTS`] with one listener at that address.
fn arguments_with<'a>(name: &str, address: &'a str) -> Vec<&'a str> {
    let flag = format!("--{name}");
    let mut arguments: Vec<&str> = FREE_PORTS.to_vec();
    let at = arguments.iter().position(|argument| *argument == flag).unwrap();
    arguments[at + 1] = address;
    arguments
}

fn start_on(folder: &Path) -> crate::command::Outcome {
    let data = folder.join("data");
    let arguments = [&["run", "--data", data.to_str().unwrap()], &FREE_PORTS[..]].concat();
    weir(folder, &arguments, &[("WEIR_ADMIN_KEY", ADMIN_KEY)])
}

/// The bytes of a store that was closed properly.
fn store_with_a_route() -> Vec<u8> {
    let mut weir = Weir::start(BINARY);
    weir.put("routes/1", json!({"uri": "/", "plugins": {"cors": {}}}));
    weir.terminate();
    assert!(weir.wait_for_exit().success());
    fs::read(weir.data().join(STORE_FILE)).unwrap()
}

/// The store's file in the data folder.
const STORE_FILE: &str = "store.redb";
/// The size of a page of the store's file.
const PAGE: usize = 4096;
/// Number of kills.
const ROUNDS: usize = 4;
/// Parallel writers, so that several writes share a transaction.
const WRITERS: usize = 6;
/// Acknowledged writes before the first kill.
const WRITES_PER_ROUND: usize = 2_500;
/// Keys of one writer: few, so that most writes replace or delete.
const KEYS: u64 = 40;
