//! Calls for requests, with a runner that answers as a test says.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use exchange::testing::{Scene, WRITTEN_PATHS, lines, respond as upstream_responds};

use super::*;

const HEAD: &[u8] =
    b"PUT /a%20b?x=1&y&x=%202 HTTP/1.1\r\nHost: Shop.Example:81\r\nX-Req: foo\r\nx-req: bar\r\n\r\n";

/// Changes the request, which needs no wait here.
fn apply(exchange: &mut Exchange, changes: &Rewrite<'_>) -> Result<(), String> {
    match pin!(rewrite(exchange, changes)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done.map_err(|error| error.to_string()),
        Poll::Pending => panic!("it waits"),
    }
}

#[test]
fn request_is_written_as_apisix_does() {
    let mut scene = Scene::new();
    let exchange = scene.exchange(HEAD);
    let mut bytes = Vec::new();
    write(&mut FlatWriter::new(&mut bytes), &exchange, 7, 233).unwrap();
    let request = super::super::flat::FlatTable::root(&bytes).unwrap();
    assert_eq!((request.u32(0).unwrap(), request.u32(6).unwrap(), request.u8(2).unwrap()), (7, 233, 3));
    assert_eq!(request.bytes(3).unwrap(), Some(&b"/a b"[..]));
    assert_eq!(request.bytes(1).unwrap().map(<[u8]>::len), Some(4));
    let entries = |field| -> Vec<(String, Option<String>)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let list = request.tables(field).unwrap();
        let entry = |entry: super::super::flat::FlatTable<'_>| {
            (text(entry.bytes(0).unwrap().unwrap()), entry.bytes(1).unwrap().map(text))
        };
        list.iter().map(|one| entry(one.unwrap())).collect()
    };
    let entry = |name: &str, value: Option<&str>| (name.to_owned(), value.map(str::to_owned));
    assert_eq!(entries(4), [entry("x", Some("1")), entry("y", None), entry("x", Some(" 2"))]);
    let headers = entries(5);
    assert_eq!(headers[0].0, "host");
    assert_eq!(headers[1..], [entry("x-req", Some("foo")), entry("x-req", Some("bar"))]);
}

#[test]
fn methods_without_a_number_are_refused() {
    let mut scene = Scene::new();
    let exchange = scene.exchange(b"PURGE / HTTP/1.1\r\nHost: a\r\n\r\n");
    let error = write(&mut FlatWriter::new(&mut Vec::new()), &exchange, 1, 1).unwrap_err();
    assert_eq!(error.to_string(), "the protocol of plugin runners has no number for the method PURGE");
    assert_eq!(
        (method_number(b"GET"), method_number(b"TRACE"), method_number(b"get")),
        (Some(0), Some(14), None)
    );
}

#[test]
fn request_is_changed_as_a_whole() {
    let mut scene = Scene::new();
    let mut exchange = scene.exchange(HEAD);
    let changes = Rewrite {
        path: Some(b"/new?a=2"),
        headers: vec![
            (b"X-Req", None),
            (b"X-Add", Some(b"one")),
            (b"Host", Some(b"node.example")),
            (b"Content-Length", Some(b"99")),
            (b"Connection", Some(b"x-add")),
        ],
        args: vec![(b"x", Some(b"3"))],
        response_headers: vec![
            (b"X-Same", Some(b"one")),
            (b"X-Same", Some(b"two")),
            (b"Content-Type", Some(b"text/html")),
        ],
        body: b"",
    };
    apply(&mut exchange, &changes).unwrap();
    assert_eq!(exchange.forward_path(), b"/new%3Fa=2");
    assert_eq!(exchange.forward_query(), Some(&b"x=3&y"[..]));
    assert_eq!(exchange.target.forward_host.as_deref(), Some(&b"node.example"[..]));
    assert_eq!(lines(&exchange.request.headers)[1..], ["X-Add: one"]);
    upstream_responds(&mut exchange, 200, &[("x-same", "old"), ("Content-Type", "text/plain")]);
    respond(&mut exchange);
    assert_eq!(exchange.response.headers.get_all("x-same").collect::<Vec<_>>(), [b"one", b"two"]);
    assert_eq!(exchange.response.headers.get("content-type"), Some(&b"text/plain"[..]));
}

#[test]
fn new_path_has_the_form_of_a_client_path() {
    let mut scene = Scene::new();
    for (path, expected) in WRITTEN_PATHS.iter().chain(&[("/a b", Some("/a%20b"))]) {
        let mut exchange = scene.exchange(HEAD);
        let set = apply(&mut exchange, &Rewrite { path: Some(path.as_bytes()), ..Rewrite::default() });
        assert_eq!(set.is_ok(), expected.is_some(), "{path}");
        let expected = expected.unwrap_or("/a%20b");
        assert_eq!(String::from_utf8_lossy(exchange.forward_path()), expected, "{path}");
    }
}

#[test]
fn faulty_changes_leave_the_request_unchanged() {
    let mut scene = Scene::new();
    let mut exchange = scene.exchange(HEAD);
    let good: NameValueEntry<'_> = (b"X-Add", Some(b"1"));
    let faulty = [
        Rewrite { path: Some(b"new"), headers: vec![good], ..Rewrite::default() },
        Rewrite { path: Some(b"/../../admin"), headers: vec![good], ..Rewrite::default() },
        Rewrite { headers: vec![good, (b"a b", Some(b"1"))], ..Rewrite::default() },
        Rewrite { headers: vec![good, (b"a", Some(b"1\r\nb: 2"))], ..Rewrite::default() },
        Rewrite { headers: vec![good, (b"host", Some(b"a b"))], ..Rewrite::default() },
        Rewrite { headers: vec![good], response_headers: vec![(b"\xff", None)], ..Rewrite::default() },
        Rewrite { headers: vec![good], body: b"new", ..Rewrite::default() },
    ];
    for changes in &faulty {
        assert!(apply(&mut exchange, changes).is_err(), "{changes:?}");
    }
    assert!(!exchange.request.headers.contains("X-Add"));
    assert_eq!(exchange.forward_path(), b"/a%20b");
}

#[test]
fn replies_have_a_status_and_valid_fields() {
    let made = reply(&StopReply {
        status: 0,
        headers: vec![(b"X-Same", Some(b"one")), (b"X-Same", Some(b"two")), (b"Content-Length", Some(b"9"))],
        body: b"text",
    })
    .unwrap();
    assert_eq!((made.status, &*made.body, made.headers.len()), (200, &b"text"[..], 2));
    for status in [1, 101, 199, 1000] {
        assert!(reply(&StopReply { status, ..StopReply::default() }).is_err(), "{status}");
    }
    assert!(reply(&StopReply { headers: vec![(b"a", Some(b"\n"))], ..StopReply::default() }).is_err());
}
