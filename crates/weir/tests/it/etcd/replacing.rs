//! Replacement of an instance of a cluster while it serves: by a binary upgrade, or by a restart after TERM.

use serde_json::Value;
use testkit::{Etcd, Origin};

use super::{listed, node, node_at, route, serves};
use crate::load::Load;

#[test]
fn a_binary_upgrade_takes_the_copy_over() {
    let (etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    // The successor has the addresses of its predecessor, so that the test reaches both in the same way.
    let mut node = node_at(&etcd.endpoints()).arguments(&["--upgrade-grace", "10"]).start();
    node.put("routes/a", route("a", &origin));
    let load = Load::start(node.proxy(), "/a");
    node.upgrade();
    let _heir = node.wait_for_successor(node.pid());
    node.wait_until_gone();
    etcd.put("/apisix/routes/b", &route("b", &origin).to_string());
    serves(&node, "/b", 200);
    load.stop();
    node.put("routes/c", route("c", &origin));
    assert_eq!(node.get("/c").status, 200);
}

#[test]
fn a_node_that_was_away_gets_what_it_missed() {
    let (etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    let (one, mut other) = (node(&etcd), node(&etcd));
    one.put("routes/a", route("a", &origin));
    serves(&other, "/a", 200);
    other.terminate();
    assert!(other.wait_for_exit().success());
    one.put("routes/b", route("b", &origin));
    one.delete("routes/a");
    let other = other.restart();
    assert_eq!((other.get("/a").status, other.get("/b").status), (404, 200));
    assert_eq!(listed(&one, "routes"), listed(&other, "routes"));
    assert_eq!(other.admin("GET", "weir/status", Value::Null).1["faults"], serde_json::json!([]));
}

#[test]
fn damaged_copy_is_put_aside_and_etcd_is_used() {
    const PAGE: usize = 4096;
    let (etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    let mut node = node(&etcd);
    for number in 0..20 {
        let id = format!("needle-{number}");
        node.put(&format!("routes/{id}"), route(&id, &origin));
    }
    for damages in 1..=3 {
        node.terminate();
        assert!(node.wait_for_exit().success());
        let copy = node.data().join("etcd.redb");
        let mut bytes = std::fs::read(&copy).unwrap();
        let pages: Vec<usize> = (0..bytes.len() / PAGE)
            .map(|page| page * PAGE)
            .filter(|page| bytes[*page..page + PAGE].windows(9).any(|found| found == b"/needle-7"))
            .collect();
        assert!(!pages.is_empty());
        for page in pages {
            match damages {
                1 => bytes[page..page + PAGE].fill(0),
                2 => bytes[page..page + PAGE].fill(0xff),
                _ => bytes[page + 5] ^= 4,
            }
        }
        std::fs::write(&copy, &bytes).unwrap();
        node = node.restart();
        serves(&node, "/needle-7", 200);
        assert_eq!(listed(&node, "routes").len(), 20);
        let log = node.stderr().join("\n");
        assert!(log.contains("is put aside") && !log.contains("panicked"), "{log}");
        let aside = match damages {
            1 => "etcd.redb.unusable".to_owned(),
            number => format!("etcd.redb.unusable.{number}"),
        };
        assert_eq!(std::fs::read(node.data().join(aside)).unwrap(), bytes, "none is overwritten");
    }
}
