//! Tests of the registry of ServiceComb against a service-center that is scripted by its API.

use std::sync::atomic::{AtomicUsize, Ordering};

use model::discovery::ServiceKey;
use serde_json::{Value, json};
use testkit::{Origin, Reply};

use crate::followed::Followed;

fn listed(address: &str, revision: &str) -> Reply {
    let body = json!({"instances": [{"status": "UP", "endpoints": [format!("rest://{address}")]}]});
    Reply::with(200, &[("X-Resource-Revision", revision)], body.to_string().as_bytes())
}

fn block(server: &Origin) -> Value {
    json!({"host": [format!("http://{}", server.address())], "app_id": "shop", "domain": "tenant", "fetch_interval": 1})
}

#[test]
fn unchanged_revision_keeps_the_nodes() {
    let asked = AtomicUsize::new(0);
    let server = Origin::start(move |request| {
        match (asked.fetch_add(1, Ordering::SeqCst), request.target.split_once("&rev=")) {
            (0, None) => listed("10.0.0.1:80", "r1"),
            (1..4, Some((_, "r1"))) => Reply::with(304, &[], b""),
            (_, Some((_, "r1"))) => listed("10.0.0.2:80", "r2"),
            _ => Reply::status(500, "a call without the revision"),
        }
    });
    let followed = Followed::start("servicecomb", &block(&server), "orders");
    followed.wait_for(&["10.0.0.1:80 100"]);
    // The second of these calls was answered before the third one was sent.
    let requests = server.wait_for_requests(3);
    assert_eq!(followed.shown(), ["10.0.0.1:80 100"]);
    assert_eq!(
        requests[0].target,
        "/v4/default/registry/instances?appId=shop&serviceName=orders&version=0%2B"
    );
    assert_eq!(requests[1].header("x-domain-name"), Some("tenant"));
    assert!(requests[1..].iter().all(|request| request.target.ends_with("&rev=r1")), "{requests:?}");
    followed.wait_for(&["10.0.0.2:80 100"]);
    let states = followed.all_shown();
    let with_nodes = states.iter().skip_while(|nodes| nodes.is_empty());
    assert!(
        with_nodes.clone().count() >= 2 && with_nodes.into_iter().all(|nodes| !nodes.is_empty()),
        "{states:?}"
    );
}

#[test]
fn service_followed_again_is_asked_for_in_whole() {
    let asked = AtomicUsize::new(0);
    let server = Origin::start(move |request| {
        match (request.target.contains("serviceName=orders"), request.target.contains("&rev=")) {
            (false, _) => listed("10.0.0.9:80", "r9"),
            (true, true) => Reply::with(304, &[], b""),
            (true, false) => {
                let number = asked.fetch_add(1, Ordering::SeqCst) + 1;
                listed(&format!("10.0.0.{number}:80"), "r1")
            }
        }
    });
    let mut block = block(&server);
    block["fetch_interval"] = json!(3600);
    let keeper = Followed::start("servicecomb", &block, "other");
    let key = ServiceKey::new("servicecomb", "orders");
    let first = keeper.follow(&key);
    first.wait_for(&["10.0.0.1:80 100"]);
    drop(first);
    keeper.follow(&key).wait_for(&["10.0.0.2:80 100"]);
}

#[test]
fn expired_token_is_replaced() {
    let logins = AtomicUsize::new(0);
    let server = Origin::start(move |request| match (request.path(), request.header("authorization")) {
        ("/v4/token", _) => {
            let number = logins.fetch_add(1, Ordering::SeqCst);
            Reply::ok(&json!({"token": format!("t{number}")}).to_string())
        }
        (_, Some("Bearer t1")) => listed("10.0.0.1:80", "r1"),
        _ => Reply::status(401, r#"{"errorCode":"401201","errorMessage":"expired"}"#),
    });
    let mut block = block(&server);
    block["user"] = json!("me");
    block["password"] = json!("secret");
    Followed::start("servicecomb", &block, "orders").wait_for(&["10.0.0.1:80 100"]);
}

#[test]
fn unknown_service_differs_from_a_refusal() {
    let server = Origin::start(|request| match request.target.contains("serviceName=unknown") {
        true => Reply::status(400, r#"{"errorCode":"400012","errorMessage":"Micro-service does not exist"}"#),
        false => Reply::status(400, r#"{"errorCode":"400001","errorMessage":"Invalid parameter(s)"}"#),
    });
    Followed::start("servicecomb", &block(&server), "unknown").wait_for_note("does not know the service");
    Followed::start("servicecomb", &block(&server), "faulty")
        .wait_for_note("code 400001: Invalid parameter(s)");
}

#[test]
fn arguments_choose_application_and_version() {
    let server = Origin::start(|_| listed("10.0.0.1:80", "r1"));
    let mut key = ServiceKey::new("servicecomb", "orders");
    key.args.insert("app_id".into(), "other".into());
    key.args.insert("version".into(), "1.0.0+".into());
    Followed::start_with("servicecomb", &block(&server), &key).wait_for(&["10.0.0.1:80 100"]);
    assert!(server.requests()[0].target.contains("appId=other&serviceName=orders&version=1.0.0%2B"));
}
