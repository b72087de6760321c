//! Failures of etcd: traffic goes on, no acknowledged write is lost, older data is never served after newer
//! data, and in the end every instance has the data of etcd.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};
use testkit::{Client, Etcd, Origin, Relay, Weir, wait_until};

use super::{etcd_status, listed, node, node_at, route, serves, wait_for_state};

/// Requests `path` without a pause until `done`; each response must be a 200. Returns their number.
fn traffic(node: &Weir, path: &str, done: &AtomicBool) -> usize {
    let mut count = 0;
    let mut client = Client::connect(node.proxy());
    while !done.load(Ordering::Relaxed) {
        let response = client.get(path);
        assert_eq!(response.status, 200, "{}", response.text());
        count += 1;
    }
    count
}

#[test]
fn a_node_starts_from_its_disk_when_etcd_is_down() {
    let (mut etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    let node = node(&etcd);
    node.put("routes/a", route("a", &origin));
    etcd.kill_all();
    let status = wait_for_state(&node, "unreachable");
    assert!(status["reason"].as_str().unwrap().contains("etcd cannot be reached"), "{status}");
    let node = node.restart();
    assert_eq!(node.get("/a").status, 200);
    assert_eq!(etcd_status(&node)["state"], "unreachable");
    assert_eq!(Client::connect(node.address("status")).get("/status/ready").status, 200);
    let (status, refusal) = node.admin("PUT", "routes/b", route("b", &origin));
    assert_eq!(status, 503, "{refusal}");
    let reason = refusal["error_msg"].as_str().unwrap();
    assert!(reason.contains("etcd cannot be reached"), "{refusal}");
    assert!(reason.ends_with("; nothing was written"), "etcd refused the connection: {refusal}");
    for (method, target) in [("POST", "routes"), ("POST", "weir/apply")] {
        let body = if target == "routes" { route("b", &origin) } else { json!({"routes": []}) };
        let (status, refusal) = node.admin(method, target, body);
        assert!(
            status == 503 && refusal.to_string().contains("; nothing was written"),
            "{target}: {refusal}"
        );
    }
    assert_eq!(node.get("/b").status, 404);
    etcd.restart();
    etcd.put("/apisix/routes/c", &route("c", &origin).to_string());
    serves(&node, "/c", 200);
    wait_for_state(&node, "following");
    wait_until("writes are taken", || node.admin("PUT", "routes/d", route("d", &origin)).0 == 201);
    assert_eq!(node.get("/d").status, 200);
}

#[test]
fn without_etcd_and_without_a_copy_there_is_no_start() {
    let node = node_at("http://127.0.0.1:1").arguments(&["--etcd-start-timeout", "1"]);
    let exited = node.try_start().unwrap_err();
    assert_eq!(exited.status.code(), Some(1));
    let said = exited.stderr;
    assert!(
        said.contains(
            "there is no configuration to start with: etcd cannot be reached: http://127.0.0.1:1: "
        ),
        "{said}"
    );
    assert!(said.contains("Connection refused"), "{said}");
}

#[test]
fn killed_etcd_member_loses_no_write_or_request() {
    let (mut etcd, origin) = (Etcd::start(3), Origin::answering("served"));
    let node = node(&etcd);
    node.put("routes/base", route("base", &origin));
    let (done, written) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let requests = scope.spawn(|| traffic(&node, "/base", &done));
        let writer = scope.spawn(|| {
            let mut acknowledged = Vec::new();
            for number in 0_usize.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let id = format!("w{number}");
                let (status, answer) = node.admin("PUT", &format!("routes/{id}"), route(&id, &origin));
                assert!(matches!(status, 201 | 503), "{status} {answer}");
                if status == 201 {
                    acknowledged.push(format!("/apisix/routes/{id}"));
                    written.fetch_add(1, Ordering::Relaxed);
                }
            }
            acknowledged
        });
        for member in 0..3 {
            let before = written.load(Ordering::Relaxed);
            wait_until("some writes are done", || written.load(Ordering::Relaxed) > before + 10);
            etcd.kill(member);
            let before = written.load(Ordering::Relaxed);
            wait_until("writes go on with two members", || written.load(Ordering::Relaxed) > before + 10);
            etcd.restart();
        }
        etcd.kill_all();
        wait_for_state(&node, "unreachable");
        etcd.restart();
        let before = written.load(Ordering::Relaxed);
        wait_until("writes go on", || written.load(Ordering::Relaxed) > before + 10);
        done.store(true, Ordering::Relaxed);
        let acknowledged = writer.join().unwrap();
        assert!(requests.join().unwrap() > 100);
        let stored = etcd.keys("/apisix/routes/");
        for key in &acknowledged {
            assert!(stored.contains(key), "{key} was acknowledged");
        }
        wait_until("the node has what etcd has", || {
            let mut keys: Vec<String> =
                listed(&node, "routes").iter().map(|(key, _)| key.as_str().unwrap().to_owned()).collect();
            keys.sort();
            keys == etcd.keys("/apisix/routes/")
        });
    });
}

#[test]
fn kill_during_writes_keeps_acknowledged_ones() {
    let (etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    let mut node = node(&etcd);
    for round in 0..3 {
        let admin = node.address("admin");
        let count = AtomicUsize::new(0);
        let acknowledged = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut client = Client::connect(admin);
                let mut acknowledged = Vec::new();
                for number in 0.. {
                    let id = format!("r{round}n{number}");
                    let headers = [("X-API-KEY", testkit::ADMIN_KEY)];
                    let body = route(&id, &origin).to_string();
                    let path = format!("/apisix/admin/routes/{id}");
                    match client.try_request("PUT", &path, &headers, body.as_bytes()) {
                        Ok(response) => {
                            assert_eq!(response.status, 201, "{}", response.text());
                            acknowledged.push(format!("/apisix/routes/{id}"));
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(_) => break,
                    }
                }
                acknowledged
            });
            wait_until("writes are under way", || count.load(Ordering::Relaxed) > 20 + 7 * round);
            node.kill();
            writer.join().unwrap()
        });
        let stored = etcd.keys("/apisix/routes/");
        for key in &acknowledged {
            assert!(stored.contains(key), "{key} was acknowledged");
        }
        node = node.restart();
        assert_eq!(listed(&node, "routes").len(), stored.len());
    }
}

#[test]
fn older_data_is_not_served_after_newer() {
    let (mut etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    let node = node(&etcd);
    node.put("routes/old", route("old", &origin));
    let saved = etcd.save();
    node.put("routes/new", route("new", &origin));
    node.delete("routes/old");
    etcd.restore(&saved);
    let status = wait_for_state(&node, "behind");
    assert!(status["reason"].as_str().unwrap().contains("keeps serving"), "{status}");
    assert_eq!((node.get("/new").status, node.get("/old").status), (200, 404));
    let (status, refusal) = node.admin("PUT", "routes/more", route("more", &origin));
    assert_eq!(status, 503, "{refusal}");
    // A restart does not change that.
    let node = node.restart();
    wait_for_state(&node, "behind");
    assert_eq!((node.get("/new").status, node.get("/old").status), (200, 404));
    // Until an operator accepts the older data.
    assert_eq!(node.admin("POST", "weir/adopt", Value::Null), (202, json!({"adopting": true})));
    serves(&node, "/new", 404);
    serves(&node, "/old", 200);
    wait_for_state(&node, "following");
    node.put("routes/more", route("more", &origin));
    assert_eq!(node.get("/more").status, 200);
    let node = node.restart();
    assert_eq!((node.get("/old").status, node.get("/more").status), (200, 200));
}

#[test]
fn older_data_that_has_become_newer_is_taken_over() {
    let (mut etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    let node = node(&etcd);
    node.put("routes/old", route("old", &origin));
    let saved = etcd.save();
    for number in 0..5 {
        node.put("routes/new", route(&format!("new{number}"), &origin));
    }
    etcd.restore(&saved);
    wait_for_state(&node, "behind");
    assert_eq!(node.get("/new4").status, 200);
    for number in 0..6 {
        etcd.put("/apisix/routes/other", &route(&format!("other{number}"), &origin).to_string());
    }
    serves(&node, "/other5", 200);
    serves(&node, "/new4", 404);
    assert_eq!(node.get("/old").status, 200);
}

#[test]
fn instance_catches_up_after_a_network_cut() {
    let (etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    let relay = Relay::to(etcd.address(0));
    let node = node_at(&format!("http://{}", relay.address())).start();
    node.put("routes/a", route("a", &origin));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let requests = scope.spawn(|| traffic(&node, "/a", &done));
        relay.cut();
        let (status, refusal) = node.admin("PUT", "routes/b", route("b", &origin));
        assert_eq!(status, 503, "{refusal}");
        wait_for_state(&node, "unreachable");
        // Compacted away meanwhile, so that the watch cannot report it.
        for number in 0..10 {
            etcd.put("/apisix/routes/c", &route(&format!("c{number}"), &origin).to_string());
        }
        etcd.ctl(&["compact", &etcd.revision().to_string()]);
        relay.restore();
        serves(&node, "/c9", 200);
        wait_for_state(&node, "following");
        done.store(true, Ordering::Relaxed);
        assert!(requests.join().unwrap() > 100);
    });
    let whole = node.stderr().iter().filter(|line| line.contains("took over what etcd has")).count();
    assert_eq!(whole, 2, "at the start, and when the watch could not go on where it was");
    let mut stored = etcd.keys("/apisix/routes/");
    stored.sort();
    let mut keys: Vec<String> =
        listed(&node, "routes").iter().map(|(key, _)| key.as_str().unwrap().to_owned()).collect();
    keys.sort();
    assert_eq!(keys, stored);
}
