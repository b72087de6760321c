//! A full disk. Under the embedded store, writes are refused and no acknowledged write is lost; under the
//! copy of etcd's data, the instance goes on and reports the fault. The disk is a small tmpfs, which only
//! root can mount.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use testkit::{Etcd, Origin, Weir, WeirBuilder, wait_until};

use super::{etcd_status, listed, node_at, route, serves};
use crate::support::BINARY;

/// A file system on a tmpfs; unmounted when dropped.
struct SmallDisk {
    directory: tempfile::TempDir,
}

impl SmallDisk {
    /// Mounts the file system; none without the permission.
    fn mount() -> Option<SmallDisk> {
        let directory = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={DISK_BYTES}"), "none"])
            .arg(directory.path())
            .output();
        mounted.ok()?.status.success().then_some(SmallDisk { directory })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Fills the disk; returns the file to remove.
    fn fill(&self) -> PathBuf {
        let file = self.path().join("filler");
        // Ends with an error when the disk is full, as intended.
        let _ = fs::write(&file, vec![0_u8; DISK_BYTES]);
        file
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazy, because a process with open files there may not have ended yet; the kernel then waits for it.
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).output();
    }
}

fn on(disk: &SmallDisk, node: WeirBuilder) -> Weir {
    let data = disk.path().join("data");
    node.arguments(&["--data", data.to_str().unwrap()]).start()
}

#[test]
fn full_disk_refuses_writes_and_loses_none() {
    let Some(disk) = SmallDisk::mount() else { return };
    let origin = Origin::answering("served");
    let node = on(&disk, Weir::builder(BINARY));
    node.put("routes/before", route("before", &origin));
    let filler = disk.fill();
    let mut acknowledged = vec!["before".to_owned()];
    let refusal = (0..MAX_WRITES).find_map(|number| {
        let id = format!("n{number}");
        let mut body = route(&id, &origin);
        body["desc"] = "x".repeat(200).into();
        match node.admin("PUT", &format!("routes/{id}"), body) {
            (201, _) => {
                acknowledged.push(id);
                None
            }
            refusal => Some(refusal),
        }
    });
    let (status, answer) = refusal.expect("the disk is full before so many writes");
    assert_eq!(status, 503, "{answer}");
    assert!(answer["error_msg"].as_str().unwrap().contains("the store cannot be written"), "{answer}");
    assert_eq!(node.get("/before").text(), "served");
    fs::remove_file(filler).unwrap();
    wait_until("writes are taken again", || {
        node.admin("PUT", "routes/after", route("after", &origin)).0 < 300
    });
    acknowledged.push("after".to_owned());
    let node = node.restart();
    let found: Vec<Value> = listed(&node, "routes").into_iter().map(|(key, _)| key).collect();
    for id in acknowledged {
        assert!(found.contains(&json!(format!("/apisix/routes/{id}"))), "{id} was acknowledged");
    }
}

#[test]
fn full_disk_under_the_copy_is_reported_only() {
    let Some(disk) = SmallDisk::mount() else { return };
    let (etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    let node = on(&disk, node_at(&etcd.endpoints()));
    node.put("routes/before", route("before", &origin));
    let filler = disk.fill();
    let mut number = 0;
    wait_until("the copy cannot be written", || {
        number += 1;
        let id = format!("n{number}");
        node.put(&format!("routes/{id}"), route(&id, &origin));
        assert_eq!(node.get(&format!("/{id}")).status, 200, "it is in force nevertheless");
        etcd_status(&node)["copy_fault"].is_string()
    });
    fs::remove_file(filler).unwrap();
    node.put("routes/after", route("after", &origin));
    wait_until("the copy is whole again", || etcd_status(&node)["copy_fault"].is_null());
    serves(&node, "/after", 200);
    let mut etcd = etcd;
    etcd.kill_all();
    let node = node.restart();
    assert_eq!(node.get(&format!("/n{number}")).status, 200, "from the copy, what was missing in it too");
    assert_eq!(node.get("/after").status, 200);
}

/// Room for a store and some writes.
const DISK_BYTES: usize = 6 << 20;
/// Many more writes than fit.
const MAX_WRITES: usize = 20_000;
