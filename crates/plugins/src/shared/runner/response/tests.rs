//! Calls for responses, with a runner that answers as a test says.

use exchange::testing::{Scene, lines, respond};

use super::*;

const HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const FIELDS: [(&str, &str); 4] =
    [("Content-Type", "text/plain"), ("Content-Length", "12"), ("ETag", "\"1\""), ("X-Old", "1")];

#[test]
fn named_fields_change_and_others_stay() {
    let mut scene = Scene::new();
    let mut exchange = scene.exchange(HEAD);
    respond(&mut exchange, 200, &FIELDS);
    let change = ResponseChange {
        status: 0,
        headers: vec![
            (b"x-old", None),
            (b"X-Same", Some(b"one")),
            (b"x-same", Some(b"two")),
            (b"Content-Length", Some(b"99")),
        ],
        body: b"",
    };
    assert_eq!(apply(&mut exchange, &change).unwrap(), None);
    let expected =
        ["Content-Type: text/plain", "Content-Length: 12", "ETag: \"1\"", "X-Same: one", "x-same: two"];
    assert_eq!(lines(&exchange.response.headers), expected);
    assert_eq!(exchange.response.status, 200);
}

#[test]
fn new_body_has_a_head_of_its_own() {
    let mut scene = Scene::new();
    let mut exchange = scene.exchange(HEAD);
    respond(&mut exchange, 200, &FIELDS);
    let change = ResponseChange { status: 201, headers: Vec::new(), body: b"new" };
    assert_eq!(apply(&mut exchange, &change).unwrap(), Some(b"new".to_vec()));
    assert!(!exchange.response.headers.contains("ETag"));
    assert_eq!(exchange.response.status, 201);
    respond(&mut exchange, 304, &[]);
    let change = ResponseChange { body: b"new", ..ResponseChange::default() };
    assert_eq!(apply(&mut exchange, &change).unwrap(), None, "there is no body");
}

#[test]
fn faulty_changes_are_refused() {
    let mut scene = Scene::new();
    let mut exchange = scene.exchange(HEAD);
    respond(&mut exchange, 200, &FIELDS);
    let status = ResponseChange { status: 101, ..ResponseChange::default() };
    let field = ResponseChange { headers: vec![(b"a:", Some(b"1"))], ..ResponseChange::default() };
    assert!(apply(&mut exchange, &status).is_err());
    assert!(apply(&mut exchange, &field).is_err());
    refuse(&mut exchange);
    assert_eq!((exchange.response.status, exchange.response.headers.len()), (503, 0));
}
