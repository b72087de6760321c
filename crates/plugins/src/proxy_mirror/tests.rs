//! Configurations and targets; tests of the binary use a real mirror.

use exchange::testing::{Scene, configuration_check, decide, with_fields};
use serde_json::json;

use super::*;

#[test]
fn configurations() {
    let check = configuration_check(&KIND);
    let with = |fields: Value| with_fields(json!({ "host": "http://127.0.0.1:1999" }), &fields);
    check(with(json!({})), None);
    check(with(json!({ "sample_ratio": 0.5, "path": "/a/b", "path_concat_mode": "prefix" })), None);
    for host in ["http://mirror.example", "https://[::1]:443", "http://a-b.c:80"] {
        check(json!({ "host": host }), None);
    }
    check(json!({}), Some("property \"host\" is required"));
    for host in ["127.0.0.1:1999", "http://127.0.0.1:1999/a", "http://a_b", "ftp://a", "http://a:b"] {
        check(json!({ "host": host }), Some("host"));
    }
    check(json!({ "host": "http://a:99999" }), Some("99999 is not a number from 1 to 65535"));
    check(
        json!({ "host": "grpc://127.0.0.1:1" }),
        Some("grpc is not supported, because copies are sent by HTTP/1.1"),
    );
    check(json!({ "host": "grpcs://127.0.0.1:1" }), Some("grpcs is not supported"));
    for path in ["a", "/", "/a?b=c", "/a&b"] {
        check(with(json!({ "path": path })), Some("path"));
    }
    check(with(json!({ "path_concat_mode": "suffix" })), Some("path_concat_mode"));
    check(with(json!({ "sample_ratio": 0 })), Some("sample_ratio"));
    check(with(json!({ "sample_ratio": 1.1 })), Some("sample_ratio"));
}

/// The target of the copy of a request; `None` if there is none.
fn target(config: Value, target: &str) -> Option<String> {
    let mut all = json!({ "host": "http://127.0.0.1:1" });
    all.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &all);
    let mut exchange = scene.exchange(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
    assert!(decide(plugin.rewrite(&mut exchange)).is_none());
    exchange.peek_state::<PendingCopy>().and_then(|pending| pending.target.clone())
}

#[test]
fn target_of_copy_follows_path_and_mode() {
    let check = |config: Value, own: &str, expected: &str| {
        assert_eq!(target(config.clone(), own).as_deref(), Some(expected), "{config}");
    };
    check(json!({}), "/a%20b?c=d&e", "/a%20b?c=d&e");
    check(json!({}), "/a", "/a");
    check(json!({ "path": "/m" }), "/a?c=d", "/m?c=d");
    check(json!({ "path": "/m", "path_concat_mode": "prefix" }), "/a?c=d", "/m/a?c=d");
}

#[test]
fn sample_ratio_is_drawn_for_each_request() {
    fastrand::seed(3);
    let copied = (0..400).filter(|_| target(json!({ "sample_ratio": 0.25 }), "/").is_some()).count();
    assert!((60..140).contains(&copied), "{copied}");
}

/// A copy that is sent needs an event loop, which this test does not have.
#[test]
fn whole_body_over_the_limit_is_not_copied() {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &json!({ "host": "http://127.0.0.1:1" }));
    let mut exchange = scene.exchange(b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1048577\r\n\r\n");
    assert!(decide(plugin.rewrite(&mut exchange)).is_none());
    exchange.body.keep_whole(vec![0; BODY_MAX_BYTES + 1], None);
    assert!(decide(plugin.before_proxy(&mut exchange)).is_none());
    assert!(exchange.peek_state::<PendingCopy>().unwrap().target.is_none());
}
