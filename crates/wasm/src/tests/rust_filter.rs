//! The filter in `tests/fixtures/rust-filter`, made with the public library for Rust.

use std::io::{Read, Write};
use std::net::TcpListener;

use exchange::Exchange;
use exchange::plugin::{BodyNeed, Plugin, Portion};
use exchange::testing::{Scene, finish, lines, respond};
use serde_json::json;

use super::{end, load, plugin, run};

const FILTER: &[u8] = include_bytes!("../../tests/fixtures/rust-filter.wasm");

fn field(exchange: &Exchange, name: &str) -> Option<String> {
    exchange.request.headers.get(name).map(|value| String::from_utf8_lossy(value).into_owned())
}

#[test]
fn filter_reads_and_sets_fields_of_both_heads() {
    run(async {
        let extension = load("rust-a", FILTER).unwrap();
        let mut scene = Scene::new();
        let plugin = plugin(&extension, &scene, &json!({ "conf": { "any": 1 } }));
        let mut exchange =
            scene.exchange(b"GET /a?b HTTP/1.1\r\nHost: shop\r\nX-Ask: me\r\nX-Path: /new?q\r\n\r\n");
        assert!(end(plugin.access(&mut exchange)).await.is_none());
        assert_eq!(field(&exchange, "x-guest").as_deref(), Some("rust"));
        assert_eq!(field(&exchange, "x-seen").as_deref(), Some("me"));
        assert_eq!(field(&exchange, "x-ask"), None);
        assert_eq!(field(&exchange, "x-facts").as_deref(), Some("GET /a?b shop http HTTP/1.1 true true"));
        assert_eq!((exchange.forward_path(), exchange.forward_query()), (&b"/new"[..], Some(&b"q"[..])));
        respond(&mut exchange, 200, &[("X-Remove-Me", "1"), ("X-Teapot", "1")]);
        finish(plugin.response_head(&mut exchange));
        assert_eq!(exchange.response.status, 418);
        assert_eq!(lines(&exchange.response.headers), ["X-Teapot: 1", "x-status-seen: 200"]);
        assert_eq!(plugin.wants_response_body(&exchange), BodyNeed::Stream);
        let mut body = b"a sec".to_vec();
        finish(plugin.response_body(&mut exchange, &mut body, Portion::Piece));
        assert_eq!(body, b"", "the guest holds it back");
        body = b"ret word".to_vec();
        finish(plugin.response_body(&mut exchange, &mut body, Portion::Last));
        assert_eq!(body, b"a ****** word");
        plugin.before_log(&mut exchange);
    });
}

#[test]
fn filter_replies_itself() {
    run(async {
        let extension = load("rust-b", FILTER).unwrap();
        let mut scene = Scene::new();
        let plugin = plugin(&extension, &scene, &json!({ "conf": "text" }));
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\nX-Do: reply\r\n\r\n");
        let reply = end(plugin.access(&mut exchange)).await.unwrap();
        assert_eq!((reply.status, &*reply.body), (403, &b"no entry\n"[..]));
        assert!(reply.headers.iter().any(|(name, value)| name == "x-why" && value == "asked"), "{reply:?}");
        assert!(exchange.failure.is_none());
    });
}

#[test]
fn filter_changes_bodies_whole_and_in_pieces() {
    run(async {
        let extension = load("rust-c", FILTER).unwrap();
        let mut scene = Scene::new();
        let plugin = plugin(&extension, &scene, &json!({ "conf": "text" }));
        let mut exchange =
            scene.exchange(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nsecret word");
        assert!(matches!(plugin.wants_request_body(&exchange), BodyNeed::Buffer { .. }));
        assert!(end(plugin.access(&mut exchange)).await.is_none());
        assert_eq!(exchange.request_body(), Some(&b"****** word"[..]));
        let mut refused = scene.exchange(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nforbidden");
        assert_eq!(end(plugin.access(&mut refused)).await.unwrap().status, 400);
        let mut pieces = scene.exchange(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert!(end(plugin.access(&mut pieces)).await.is_none());
        assert_eq!(plugin.wants_request_body(&pieces), BodyNeed::Stream);
        let mut sent = Vec::new();
        for (piece, portion) in [("a sec", Portion::Piece), ("ret", Portion::Piece), ("", Portion::Last)] {
            let mut body = piece.as_bytes().to_vec();
            plugin.request_body(&mut pieces, &mut body, portion);
            sent.extend_from_slice(&body);
        }
        assert_eq!((&sent[..], pieces.request_fault.is_none()), (&b"a ******"[..], true));
        let mut late = b"forbidden".to_vec();
        plugin.request_body(&mut pieces, &mut late, Portion::Last);
        let fault = pieces.request_fault.take().unwrap();
        assert_eq!((late.len(), fault.answer.as_ref().unwrap().status), (0, 400));
    });
}

#[test]
fn configuration_that_the_guest_refuses_is_refused() {
    let extension = load("rust-d", FILTER).unwrap();
    let refused = extension.check(&json!({ "conf": "refuse" })).unwrap_err();
    assert!(
        refused.contains("refuses its configuration") && refused.contains("asks to be refused"),
        "{refused}"
    );
    assert_eq!(extension.check(&json!({ "conf": { "a": 1 } })), Ok(()));
}

#[test]
fn request_waits_for_the_answer_of_a_call() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        stream.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nhello").unwrap();
        String::from_utf8(head).unwrap().to_lowercase()
    });
    run(async {
        let extension = load("rust-e", FILTER).unwrap();
        let mut scene = Scene::new();
        let plugin = plugin(&extension, &scene, &json!({ "conf": format!("call {address}") }));
        let mut exchange = scene.exchange(b"GET /ask?1 HTTP/1.1\r\nHost: a\r\nX-Do: call\r\n\r\n");
        assert!(end(plugin.access(&mut exchange)).await.is_none());
        assert_eq!(field(&exchange, "x-called").as_deref(), Some("201 true hello"));
    });
    let head = server.join().unwrap();
    assert!(head.starts_with("get /ask?1 http/1.1\r\n"), "{head}");
    assert!(head.contains("host: callee.example\r\n") && head.contains("x-from: guest\r\n"), "{head}");
}

#[test]
fn call_without_an_answer_ends_the_wait_too() {
    let closed = testkit::Origin::nowhere();
    run(async {
        let extension = load("rust-f", FILTER).unwrap();
        let mut scene = Scene::new();
        let plugin = plugin(&extension, &scene, &json!({ "conf": format!("call {closed}") }));
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\nX-Do: call\r\n\r\n");
        assert!(end(plugin.access(&mut exchange)).await.is_none());
        assert_eq!(field(&exchange, "x-called").as_deref(), Some("none false"));
    });
}

#[test]
fn panic_of_the_guest_is_told_with_its_words() {
    run(async {
        let extension = load("rust-g", FILTER).unwrap();
        let mut scene = Scene::new();
        let plugin = plugin(&extension, &scene, &json!({ "conf": "text" }));
        for what in ["panic", "loop", "grow"] {
            let head = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Do: {what}\r\n\r\n");
            let mut exchange = scene.exchange(head.as_bytes());
            assert_eq!(end(plugin.access(&mut exchange)).await.unwrap().status, 500, "{what}");
            if what == "panic" {
                assert!(super::detail(&exchange).contains("asked to"), "{}", super::detail(&exchange));
            }
            let mut good = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            assert!(end(plugin.access(&mut good)).await.is_none(), "after {what}");
        }
    });
}

#[test]
fn timer_ticks_between_requests() {
    run(async {
        let extension = load("rust-h", FILTER).unwrap();
        let mut scene = Scene::new();
        let plugin = plugin(&extension, &scene, &json!({ "conf": "tick" }));
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(end(plugin.access(&mut exchange)).await.is_none());
        loop {
            let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            assert!(end(plugin.access(&mut exchange)).await.is_none());
            respond(&mut exchange, 200, &[]);
            finish(plugin.response_head(&mut exchange));
            if exchange.response.headers.get("x-ticks").is_some_and(|ticks| ticks != b"1") {
                break;
            }
            net::env::sleep_ms(5).await;
        }
        drop::<std::sync::Arc<dyn Plugin>>(plugin);
    });
}
