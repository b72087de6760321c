//! Tests of the registry Kubernetes against an API server that is scripted by lists and watches.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use model::discovery::ServiceKey;
use serde_json::{Value, json};
use testkit::{Origin, Reply, Request, Signal, Step, wait_until};

use crate::followed::Followed;

fn slice(name: &str, version: u32, addresses: &[&str]) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop", "resourceVersion": version.to_string(),
            "labels": {"kubernetes.io/service-name": "web"}},
        "endpoints": addresses.iter().map(|address| json!({"addresses": [address]})).collect::<Vec<_>>(),
        "ports": [{"name": "http", "port": 80}]})
}

fn list(version: &str, next: &str, items: &[Value]) -> Reply {
    Reply::ok(
        &json!({"metadata": {"resourceVersion": version, "continue": next}, "items": items}).to_string(),
    )
}

/// The head of a watch that stays open.
fn watch() -> Reply {
    Reply::raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
}

fn event(kind: &str, object: &Value) -> Vec<u8> {
    let line = format!("{}\n", json!({"type": kind, "object": object}));
    format!("{:x}\r\n{line}\r\n", line.len()).into_bytes()
}

fn is_watch(request: &Request) -> bool {
    request.target.contains("watch=1")
}

fn block(server: &Origin) -> Value {
    json!({
        "service": {"schema": "http", "host": "127.0.0.1", "port": server.port().to_string()},
        "client": {"token": "abc"}
    })
}

#[test]
fn event_of_the_watch_changes_the_nodes() {
    let go = Signal::new();
    let signal = go.clone();
    let server = Origin::start(move |request| match is_watch(request) {
        true => watch()
            .wait(&signal)
            .send(event("MODIFIED", &slice("web-1", 6, &["10.0.0.2", "10.0.0.3"])))
            .then(Step::AwaitClose),
        false if request.target.contains("continue=") => list("5", "", &[slice("web-2", 4, &["10.0.0.9"])]),
        false => list("5", "more", &[slice("web-1", 5, &["10.0.0.1"])]),
    });
    let followed = Followed::start("kubernetes", &block(&server), "shop/web:http");
    followed.wait_for(&["10.0.0.1:80 50", "10.0.0.9:80 50"]);
    go.set();
    followed.wait_for(&["10.0.0.2:80 50", "10.0.0.3:80 50", "10.0.0.9:80 50"]);
    let watched = server.requests().into_iter().find(is_watch).unwrap();
    assert!(watched.target.contains("resourceVersion=5"), "{}", watched.target);
    assert_eq!(watched.header("authorization"), Some("Bearer abc"));
}

#[test]
fn expired_version_lists_everything_again() {
    let lists = Arc::new(AtomicUsize::new(0));
    let server =
        Origin::start(move |request| match (is_watch(request), request.target.contains("Version=9")) {
            (true, true) => watch().then(Step::AwaitClose),
            (true, false) => {
                watch().send(event("ERROR", &json!({"code": 410, "message": "too old"}))).send(b"0\r\n\r\n")
            }
            _ => match lists.fetch_add(1, Ordering::SeqCst) {
                0 => list("5", "", &[slice("web-1", 5, &["10.0.0.1"])]),
                _ => list("9", "", &[slice("web-1", 9, &["10.0.0.2"])]),
            },
        });
    Followed::start("kubernetes", &block(&server), "shop/web:80").wait_for(&["10.0.0.2:80 50"]);
}

#[test]
fn rotated_token_is_used_by_the_next_request() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, "old").unwrap();
    let server = Origin::start(move |request| {
        if request.header("authorization") != Some("Bearer new") {
            return Reply::status(401, "Unauthorized");
        }
        match is_watch(request) {
            true => watch().then(Step::AwaitClose),
            false => list("5", "", &[slice("web-1", 5, &["10.0.0.1"])]),
        }
    });
    let mut block = block(&server);
    block["client"] = json!({"token_file": file});
    let followed = Followed::start("kubernetes", &block, "shop/web:http");
    followed.wait_for_note("status 401");
    std::fs::write(&file, "new\n").unwrap();
    followed.wait_for(&["10.0.0.1:80 50"]);
}

#[test]
fn clusters_are_named_by_their_id() {
    let server = Origin::start(|request| match is_watch(request) {
        true => watch().then(Step::AwaitClose),
        false => list("5", "", &[slice("web-1", 5, &["10.0.0.1"])]),
    });
    let mut one = block(&server);
    one["id"] = json!("one");
    one["default_weight"] = json!(7);
    let mut two = one.clone();
    two["id"] = json!("two");
    two["service"]["port"] = json!(Origin::nowhere().port().to_string());
    let both = json!([one, two]);
    Followed::start("kubernetes", &both, "one/shop/web:http").wait_for(&["10.0.0.1:80 7"]);
    Followed::start("kubernetes", &both, "two/shop/web:http").wait_for_note("it fails");
    Followed::start("kubernetes", &both, "six/shop/web:http").wait_for_note("no cluster has the id `six`");
    Followed::start("kubernetes", &both, "shop/web:http")
        .wait_for_note("has not the form ID/NAMESPACE/NAME:PORT");
}

#[test]
fn last_nodes_stay_when_the_server_refuses() {
    let is_refusing = Signal::new();
    let refuse = is_refusing.clone();
    let server = Origin::start(move |request| match (is_watch(request), refuse.is_set()) {
        (_, true) => Reply::status(403, "forbidden"),
        (true, _) => watch().wait(&refuse).close(),
        _ => list("5", "", &[slice("web-1", 5, &["10.0.0.1"])]),
    });
    let followed = Followed::start("kubernetes", &block(&server), "shop/web:http");
    followed.wait_for(&["10.0.0.1:80 50"]);
    is_refusing.set();
    followed.wait_for_failure("needs the rights list and watch");
    assert_eq!(followed.shown(), ["10.0.0.1:80 50"]);
}

#[test]
fn unreadable_object_does_not_end_the_watch() {
    let watches = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&watches);
    let server = Origin::start(move |request| match is_watch(request) {
        true => {
            counted.fetch_add(1, Ordering::SeqCst);
            let mut unreadable = slice("web-1", 6, &[]);
            unreadable["endpoints"] = json!(7);
            watch()
                .send(event("MODIFIED", &unreadable))
                .send(event("ADDED", &slice("web-2", 7, &["10.0.0.2"])))
                .then(Step::AwaitClose)
        }
        false => list("5", "", &[slice("web-1", 5, &["10.0.0.1"])]),
    });
    let followed = Followed::start("kubernetes", &block(&server), "shop/web:http");
    followed.wait_for(&["10.0.0.1:80 50", "10.0.0.2:80 50"]);
    assert_eq!(watches.load(Ordering::SeqCst), 1);
}

#[test]
fn garbage_in_the_watch_lists_everything_again() {
    let lists = Arc::new(AtomicUsize::new(0));
    let server =
        Origin::start(move |request| match (is_watch(request), request.target.contains("Version=9")) {
            (true, true) => watch().then(Step::AwaitClose),
            (true, false) => watch().send(b"4\r\nabc\n\r\n").then(Step::AwaitClose),
            _ => match lists.fetch_add(1, Ordering::SeqCst) {
                0 => list("5", "", &[slice("web-1", 5, &["10.0.0.1"])]),
                _ => list("9", "", &[slice("web-1", 9, &["10.0.0.2"])]),
            },
        });
    Followed::start("kubernetes", &block(&server), "shop/web:http").wait_for(&["10.0.0.2:80 50"]);
}

#[test]
fn slice_with_a_new_label_leaves_its_service() {
    let go = Signal::new();
    let signal = go.clone();
    let server = Origin::start(move |request| match is_watch(request) {
        true => {
            let mut moved = slice("web-1", 6, &["10.0.0.1"]);
            moved["metadata"]["labels"] = json!({"kubernetes.io/service-name": "shop"});
            watch().wait(&signal).send(event("MODIFIED", &moved)).then(Step::AwaitClose)
        }
        false => list("5", "", &[slice("web-1", 5, &["10.0.0.1"]), slice("web-2", 5, &["10.0.0.2"])]),
    });
    let web = Followed::start("kubernetes", &block(&server), "shop/web:http");
    let shop = web.follow(&ServiceKey::new("kubernetes", "shop/shop:http"));
    web.wait_for(&["10.0.0.1:80 50", "10.0.0.2:80 50"]);
    go.set();
    web.wait_for(&["10.0.0.2:80 50"]);
    shop.wait_for(&["10.0.0.1:80 50"]);
}

#[test]
fn endless_list_is_refused() {
    let server = Origin::start(|_| list("5", "more", &[]));
    let followed = Followed::start("kubernetes", &block(&server), "shop/web:http");
    followed.wait_for_note("the list has more than 2000 pages");
}

#[test]
fn service_followed_again_gets_its_answer() {
    let server = Origin::start(|request| match is_watch(request) {
        true => watch().then(Step::AwaitClose),
        false => list("5", "", &[slice("web-1", 5, &["10.0.0.1"])]),
    });
    let keeper = Followed::start("kubernetes", &block(&server), "shop/web:80");
    keeper.wait_for(&["10.0.0.1:80 50"]);
    let key = ServiceKey::new("kubernetes", "shop/web:http");
    for _ in 0..3 {
        let followed = keeper.follow(&key);
        followed.wait_for(&["10.0.0.1:80 50"]);
        // The first state is that of an earlier following.
        wait_until("an answer", || followed.all_shown().len() > 1);
    }
}
