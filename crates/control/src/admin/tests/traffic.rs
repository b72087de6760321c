//! Single requests: `weir/tap` and `weir/failures`.

use serde_json::Value;

use super::Talk;
use crate::testing::{ask, block_on};

fn get(talk: &Talk, target: &str, key: &str) -> (u16, http::HeaderMap, Value) {
    let target = format!("/apisix/admin/weir/{target}");
    let fields = [("X-API-KEY", key)];
    let (status, headers, body) = block_on(ask(&talk.rig.admin, "GET", &target, &fields, ""));
    (status, headers, serde_json::from_str(&body).unwrap_or_default())
}

#[test]
fn followed_requests_are_an_event_stream() {
    let talk = Talk::new();
    let (status, headers, _) = get(&talk, "tap?q=status:5xx&rate=500&timeline=1", "guest");
    assert_eq!((status, &headers["content-type"]), (200, &"text/event-stream".parse().unwrap()));
    for (target, said) in [
        ("tap?rate=0", "the argument rate must be 1 to 500"),
        ("tap?rate=501", "the argument rate must be 1 to 500"),
        ("failures?limit=x", "the argument limit must be a whole number from 0"),
    ] {
        let (status, _, answer) = get(&talk, target, "boss");
        assert_eq!((status, answer["error_msg"].as_str()), (400, Some(said)), "{target}");
    }
}

#[test]
fn wrong_filter_names_place_and_fields() {
    let talk = Talk::new();
    for target in ["tap?q=method:GET+rute:x", "failures?q=method:GET+rute:x"] {
        let (status, _, answer) = get(&talk, target, "boss");
        assert_eq!((status, answer["at"].as_u64()), (400, Some(11)), "{target}: {answer}");
        let expected = answer["expected"].as_array().unwrap();
        assert!(expected.contains(&"route".into()), "{answer}");
    }
}

#[test]
fn viewer_sees_failures_without_queries() {
    let talk = Talk::new();
    for (key, path) in [("boss", "/a?k=s3cr3t"), ("guest", "/a?…")] {
        let (status, _, answer) = get(&talk, "failures", key);
        assert_eq!((status, &answer["list"][0]["path"], &answer["lost"]), (200, &path.into(), &3.into()));
    }
    let (_, _, none) = get(&talk, "failures?q=status:200", "boss");
    assert_eq!(none["list"], Value::Array(Vec::new()));
}
