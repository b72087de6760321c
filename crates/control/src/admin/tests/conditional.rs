//! `ETag`, `If-Match` and `If-None-Match` on single objects.

use http::HeaderMap;
use serde_json::{Value, json};

use super::Talk;
use crate::testing::{ask, block_on};

/// Status, fields and body of a request with the admin's key and these fields.
fn send(
    talk: &Talk,
    method: &str,
    target: &str,
    fields: &[(&str, &str)],
    body: &Value,
) -> (u16, HeaderMap, Value) {
    let fields = [&[("X-API-KEY", "boss"), ("X-Weir-Author", "ana")], fields].concat();
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let target = format!("/apisix/admin/{target}");
    let (status, headers, answer) = block_on(ask(&talk.rig.admin, method, &target, &fields, &body));
    (status, headers, serde_json::from_str(&answer).unwrap_or_default())
}

fn tag(headers: &HeaderMap) -> String {
    headers.get("etag").map(|tag| tag.to_str().unwrap().to_owned()).unwrap_or_default()
}

fn route(uri: &str) -> Value {
    json!({"uri": uri, "upstream": {"nodes": {"127.0.0.1:1": 1}}})
}

#[test]
fn every_answer_about_an_object_has_its_tag() {
    let talk = Talk::new();
    let (status, headers, _) = send(&talk, "PUT", "routes/1", &[], &route("/a"));
    assert_eq!((status, tag(&headers).as_str()), (201, "\"1\""));
    let (_, headers, read) = send(&talk, "GET", "routes/1", &[], &Value::Null);
    assert_eq!((tag(&headers).as_str(), &read["modifiedIndex"]), ("\"1\"", &json!(1)));
    let (_, headers, _) = send(&talk, "PATCH", "routes/1", &[], &json!({"desc": "d"}));
    assert_eq!(tag(&headers), "\"2\"");
    let (status, headers, _) = send(&talk, "POST", "routes", &[], &route("/b"));
    assert_eq!(status, 201);
    let revision = headers["x-weir-revision"].to_str().unwrap();
    assert_eq!(tag(&headers), format!("\"{revision}\""));
    let (_, headers, _) = send(&talk, "DELETE", "routes/1", &[], &Value::Null);
    assert_eq!(tag(&headers), "");
    let (_, headers, _) = send(&talk, "GET", "routes", &[], &Value::Null);
    assert_eq!(tag(&headers), "", "a list is no object");
}

#[test]
fn write_with_an_old_tag_changes_nothing() {
    let talk = Talk::new();
    send(&talk, "PUT", "routes/1", &[], &route("/a"));
    send(&talk, "PUT", "routes/1", &[], &route("/b"));
    for (method, body) in
        [("PUT", route("/c")), ("PATCH", json!({"uri": "/c"})), ("DELETE", Value::Null), ("GET", Value::Null)]
    {
        let (status, headers, answer) = send(&talk, method, "routes/1", &[("If-Match", "\"1\"")], &body);
        assert_eq!((status, tag(&headers).as_str()), (412, "\"2\""), "{method}: {answer}");
        assert_eq!((&answer["current"]["uri"], &answer["modifiedIndex"]), (&json!("/b"), &json!(2)));
        assert_eq!(
            (&answer["by"], &answer["at_ms"]),
            (&json!("ana (127.0.0.1)"), &json!(1_767_225_600_000_u64))
        );
        assert!(
            answer["error_msg"].as_str().unwrap().starts_with("routes/1 is at revision 2, written by ana")
        );
    }
    let (status, _, _) = send(&talk, "PUT", "routes/1", &[("If-Match", "\"1\", \"2\"")], &route("/c"));
    assert_eq!(status, 200);
    let (status, _, _) = send(&talk, "DELETE", "routes/1", &[("If-Match", "\"3\"")], &Value::Null);
    assert_eq!(status, 200);
    let (status, _, answer) = send(&talk, "PUT", "routes/1", &[("If-Match", "\"3\"")], &route("/d"));
    assert_eq!((status, &answer["current"], &answer["modifiedIndex"]), (412, &Value::Null, &Value::Null));
    assert_eq!(talk.rig.view.load().revision(), 4);
}

#[test]
fn object_is_created_only_once() {
    let talk = Talk::new();
    let first = [("If-None-Match", "*")];
    assert_eq!(send(&talk, "PUT", "routes/1", &first, &route("/a")).0, 201);
    let (status, _, answer) = send(&talk, "PUT", "routes/1", &first, &route("/b"));
    assert_eq!((status, &answer["current"]["uri"]), (412, &json!("/a")));
    assert_eq!(send(&talk, "PUT", "routes/2", &[("If-Match", "*")], &route("/b")).0, 412);
    assert_eq!(send(&talk, "POST", "routes", &first, &route("/c")).0, 201);
    assert_eq!(send(&talk, "POST", "routes", &[("If-Match", "\"1\"")], &route("/c")).0, 400);
}

#[test]
fn unchanged_object_is_not_sent_again() {
    let talk = Talk::new();
    send(&talk, "PUT", "routes/1", &[], &route("/a"));
    for (tags, expected) in [("\"1\"", 304), ("W/\"1\"", 304), ("*", 304), ("\"2\"", 200)] {
        let (status, headers, answer) =
            send(&talk, "GET", "routes/1", &[("If-None-Match", tags)], &Value::Null);
        assert_eq!((status, tag(&headers).as_str()), (expected, "\"1\""), "{tags}");
        assert_eq!(answer.is_null(), expected == 304);
    }
    assert_eq!(send(&talk, "GET", "routes/1", &[("If-Match", "1")], &Value::Null).0, 400);
}

#[test]
fn conflict_hides_secrets() {
    let talk = Talk::new();
    let jack = json!({"username": "jack", "plugins": {"auth": {"key": "s3cr3t"}}});
    send(&talk, "PUT", "consumers", &[], &jack);
    let (status, _, answer) = send(&talk, "PUT", "consumers", &[("If-Match", "\"9\"")], &jack);
    assert_eq!((status, &answer["current"]["plugins"]["auth"]["key"]), (412, &json!("(hidden)")));
    assert!(!answer.to_string().contains("s3cr3t"));
}
