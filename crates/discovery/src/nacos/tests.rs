//! Tests of the registry Nacos against a server that is scripted by its API.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use model::discovery::ServiceKey;
use serde_json::{Value, json};
use testkit::{Origin, Reply};

use crate::followed::Followed;

fn listed(ip: &str) -> String {
    json!({"hosts": [{"ip": ip, "port": 80, "weight": 1.0, "healthy": true}]}).to_string()
}

fn block(server: &Origin, user: &str) -> Value {
    json!({"host": [format!("http://{user}{}", server.address())], "fetch_interval": 1})
}

#[test]
fn place_of_the_service_is_asked_for() {
    let server = Origin::start(|_| Reply::ok(&listed("10.0.0.1")));
    let key = ServiceKey {
        namespace: "prod".into(),
        group: "a b".into(),
        ..ServiceKey::new("nacos", "my service")
    };
    let followed = Followed::start_with("nacos", &block(&server, ""), &key);
    followed.wait_for(&["10.0.0.1:80 1"]);
    assert_eq!(
        server.requests()[0].target,
        "/nacos/v1/ns/instance/list?healthyOnly=true&serviceName=my%20service&namespaceId=prod&groupName=a%20b"
    );
}

#[test]
fn refused_token_is_replaced() {
    let logins = AtomicUsize::new(0);
    let server = Origin::start(move |request| {
        if request.path() == "/nacos/v1/auth/login" {
            assert_eq!(request.text(), "username=me&password=p%40ss");
            let number = logins.fetch_add(1, Ordering::SeqCst);
            return Reply::ok(&json!({"accessToken": format!("t{number}"), "tokenTtl": 18_000}).to_string());
        }
        match request.target.ends_with("&accessToken=t1") {
            true => Reply::ok(&listed("10.0.0.1")),
            false => Reply::status(403, "token expired!"),
        }
    });
    let followed = Followed::start("nacos", &block(&server, "me:p@ss@"), "a");
    followed.wait_for(&["10.0.0.1:80 1"]);
    let dump = followed.discovery.dump("nacos").unwrap().to_string();
    assert!(!dump.contains("ss@") && !dump.contains("me:"), "{dump}");
}

#[test]
fn refusal_of_a_service_logs_in_once_more_only() {
    let logins = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&logins);
    let server = Origin::start(move |request| {
        if request.path() == "/nacos/v1/auth/login" {
            let number = counted.fetch_add(1, Ordering::SeqCst);
            return Reply::ok(&json!({"accessToken": format!("t{number}"), "tokenTtl": 18_000}).to_string());
        }
        match request.target.contains("serviceName=a&") {
            true => Reply::status(403, "no right"),
            false => Reply::ok(&listed("10.0.0.1")),
        }
    });
    let followed = Followed::start("nacos", &block(&server, "me:secret@"), "a");
    let other = followed.follow(&ServiceKey::new("nacos", "b"));
    followed.wait_for_note("status 403");
    other.wait_for(&["10.0.0.1:80 1"]);
    let asked = server.requests().len();
    server.wait_for_requests(asked + 6);
    assert_eq!(logins.load(Ordering::SeqCst), 2);
}

#[test]
fn service_followed_again_is_asked_for_at_once() {
    let asked = AtomicUsize::new(0);
    let server = Origin::start(move |request| match request.target.contains("serviceName=a&") {
        true => Reply::ok(&listed(&format!("10.0.0.{}", asked.fetch_add(1, Ordering::SeqCst)))),
        false => Reply::ok(&listed("10.0.0.9")),
    });
    let mut block = block(&server, "");
    block["fetch_interval"] = json!(3600);
    let keeper = Followed::start("nacos", &block, "b");
    let key = ServiceKey::new("nacos", "a");
    let first = keeper.follow(&key);
    first.wait_for(&["10.0.0.0:80 1"]);
    drop(first);
    keeper.follow(&key).wait_for(&["10.0.0.1:80 1"]);
}

#[test]
fn list_of_registries_is_refused_with_the_reason() {
    let block = json!([{"id": "one", "hosts": ["http://127.0.0.1:8848"]}]);
    let faults = crate::check_discovery_blocks(&serde_json::Map::from_iter([("nacos".to_owned(), block)]));
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].reason.contains("list of registries with `id` is not supported"), "{faults:?}");
}

#[test]
fn wrong_password_has_a_readable_reason() {
    let server = Origin::start(|_| Reply::status(403, "unknown user!"));
    let followed = Followed::start("nacos", &block(&server, "me:secret@"), "a");
    followed.wait_for_note("the login of `me` failed: status 403");
    followed.wait_for_note("unknown user!");
    assert!(!followed.discovery.states().to_string().contains("secret"));
}

#[test]
fn third_api_answers_where_the_first_is_gone() {
    let server = Origin::start(|request| match request.path() {
        "/nacos/v3/client/ns/instance/list" => {
            let data = json!({"code": 0, "data": [{"ip": "10.0.0.1", "port": 80, "weight": 2}]});
            Reply::ok(&data.to_string())
        }
        _ => Reply::status(410, "gone"),
    });
    Followed::start("nacos", &block(&server, ""), "a").wait_for(&["10.0.0.1:80 2"]);
}

#[test]
fn last_answer_stays_while_the_server_fails() {
    let is_broken = Arc::new(AtomicBool::new(false));
    let broken = Arc::clone(&is_broken);
    let server = Origin::start(move |_| match broken.load(Ordering::SeqCst) {
        true => Reply::ok("{\"hosts\":[{\"ip\":\"10.0.0.9\""),
        false => Reply::ok(&listed("10.0.0.1")),
    });
    let followed = Followed::start("nacos", &block(&server, ""), "a");
    followed.wait_for(&["10.0.0.1:80 1"]);
    is_broken.store(true, Ordering::SeqCst);
    let asked = server.requests().len();
    server.wait_for_requests(asked + 2);
    assert_eq!(followed.shown(), ["10.0.0.1:80 1"]);
}

#[test]
fn too_many_instances_keep_the_last_answer() {
    let is_huge = Arc::new(AtomicBool::new(false));
    let huge = Arc::clone(&is_huge);
    let server = Origin::start(move |_| match huge.load(Ordering::SeqCst) {
        true => {
            let host = |number: u32| json!({"ip": format!("10.{}.{}.{}", number >> 16, (number >> 8) & 255, number & 255), "port": 80});
            Reply::ok(&json!({"hosts": (0..100_000).map(host).collect::<Vec<_>>()}).to_string())
        }
        false => Reply::ok(&listed("10.0.0.1")),
    });
    let followed = Followed::start("nacos", &block(&server, ""), "a");
    followed.wait_for(&["10.0.0.1:80 1"]);
    is_huge.store(true, Ordering::SeqCst);
    let asked = server.requests().len();
    server.wait_for_requests(asked + 2);
    assert_eq!(followed.shown(), ["10.0.0.1:80 1"]);
}

#[test]
fn refusal_of_one_service_leaves_the_others() {
    let server = Origin::start(|request| match request.target.contains("serviceName=a&") {
        true => Reply::status(403, "no right"),
        false => Reply::ok(&listed("10.0.0.1")),
    });
    let followed = Followed::start("nacos", &block(&server, ""), "a");
    let other = followed.follow(&ServiceKey::new("nacos", "b"));
    other.wait_for(&["10.0.0.1:80 1"]);
    followed.wait_for_note("status 403");
}

#[test]
fn thousand_services_are_asked_for() {
    let server = Origin::start(|request| match request.target.contains("serviceName=s999&") {
        true => Reply::ok(&listed("10.0.0.9")),
        false => Reply::ok(&listed("10.0.0.1")),
    });
    let first = Followed::start("nacos", &json!({"host": [format!("http://{}", server.address())]}), "s0");
    let others: Vec<_> =
        (1..1000).map(|number| first.follow(&ServiceKey::new("nacos", &format!("s{number}")))).collect();
    others[998].wait_for(&["10.0.0.9:80 1"]);
    others[499].wait_for(&["10.0.0.1:80 1"]);
    // Eight calls at a time, each over a connection that is kept.
    assert!(server.connections() <= 16, "{}", server.connections());
}
