//! Configurations of `grpc-web`, and the bodies and trailers that it translates in both directions.

use exchange::failure::{Cause, ExchangeFailure};
use exchange::testing::{Scene, configuration_check, decide, finish, lines, respond};
use serde_json::json;

use super::*;

const TYPE: &str = "application/grpc-web-text+proto";

#[test]
fn configurations() {
    let check = configuration_check(&KIND);
    check(json!({}), None);
    check(json!({"max_req_body_size": 1, "cors_allow_headers": "a,b"}), None);
    check(json!({"max_req_body_size": 0}), Some("max_req_body_size"));
    check(json!({"cors_allow_headers": 1}), Some("cors_allow_headers"));
}

#[test]
fn content_types_tell_the_form_of_bodies() {
    let check = |text: &str, expected: Option<Encoding>| {
        assert_eq!(encoding(text.as_bytes()), expected, "{text}");
    };
    check("application/grpc-web", Some(Encoding::Binary));
    check("Application/gRPC-Web+proto; charset=utf-8", Some(Encoding::Binary));
    check("application/grpc-web-text", Some(Encoding::Text));
    check(TYPE, Some(Encoding::Text));
    for other in
        ["", "application/json", "application/grpc", "application/grpc-web+json", "application/grpc-webs"]
    {
        check(other, None);
    }
}

#[test]
fn requests_become_calls_or_are_refused() {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &json!({"max_req_body_size": 8}));
    let mut check = |method: &str, fields: &str, body: &str, status: Option<u16>, sent: &str| {
        let head = format!("{method} /a.B/C HTTP/1.1\r\nHost: h\r\n{fields}\r\n{body}");
        let mut exchange = scene.exchange(head.as_bytes());
        let reply = decide(plugin.access(&mut exchange));
        assert_eq!(reply.map(|reply| reply.status), status, "{head}");
        assert_eq!(exchange.grpc.is_some_and(|call| call.is_translated), status.is_none(), "{head}");
        if status.is_none() {
            assert_eq!(content_type(&exchange), b"application/grpc");
            assert_eq!(exchange.request_body().unwrap_or_default(), sent.as_bytes(), "{head}");
        }
    };
    let text = format!("Content-Type: {TYPE}\r\n");
    check("POST", &text, "aGVsbG8=aGk=", None, "hellohi");
    check("POST", "Content-Type: application/grpc-web\r\n", "hello", None, "hello");
    check("POST", &text, "aGVsbG8", Some(400), "");
    check("POST", "Content-Type: application/json\r\n", "hello", Some(400), "");
    check("POST", "", "hello", Some(400), "");
    check("GET", &text, "", Some(405), "");
    check("OPTIONS", "", "", Some(204), "");
}

#[test]
fn only_bodies_that_need_it_are_read_whole() {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &json!({"max_req_body_size": 8}));
    let mut check = |head: &str, expected: BodyNeed| {
        let exchange = scene.exchange(format!("{head}\r\nHost: h\r\n\r\n").as_bytes());
        assert_eq!(plugin.wants_request_body(&exchange), expected, "{head}");
    };
    let whole = BodyNeed::Buffer { limit_bytes: 8 };
    let binary = "POST / HTTP/1.1\r\nContent-Type: application/grpc-web";
    check(&format!("{binary}\r\nContent-Length: 8"), BodyNeed::None);
    check(&format!("{binary}\r\nContent-Length: 9"), whole);
    check(binary, whole);
    check(&format!("{binary}-text\r\nContent-Length: 8"), whole);
    check("POST / HTTP/1.1\r\nContent-Type: text/plain", BodyNeed::None);
    check("OPTIONS / HTTP/1.1\r\nContent-Type: application/grpc-web-text", BodyNeed::None);
}

/// Passes a response to a call of type [`TYPE`] through the plugin: the fields of its head, and its body.
fn response(
    status: u16,
    fields: &[(&str, &str)],
    failure: Option<Cause>,
    pieces: &[&str],
    trailers: &[(&str, &str)],
) -> (Vec<String>, String) {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &json!({}));
    let head = format!("POST /a.B/C HTTP/1.1\r\nHost: h\r\nContent-Type: {TYPE}\r\n\r\naGk=");
    let mut exchange = scene.exchange(head.as_bytes());
    assert!(decide(plugin.access(&mut exchange)).is_none());
    respond(&mut exchange, status, fields);
    exchange.failure = failure.map(|cause| ExchangeFailure::new(cause, "of the test"));
    finish(plugin.response_head(&mut exchange));
    assert_eq!(plugin.wants_response_body(&exchange), BodyNeed::Stream);
    let mut sent = Vec::new();
    for piece in pieces {
        let mut piece = piece.as_bytes().to_vec();
        finish(plugin.response_body(&mut exchange, &mut piece, Portion::Piece));
        sent.extend_from_slice(&piece);
    }
    let mut list = Headers::new();
    for (name, value) in trailers {
        list.append(name, value.as_bytes()).unwrap();
    }
    plugin.response_trailers(&mut exchange, &mut list);
    assert!(list.is_empty(), "trailers are sent in the body only");
    let mut last = Vec::new();
    finish(plugin.response_body(&mut exchange, &mut last, Portion::Last));
    sent.extend_from_slice(&last);
    let body = String::from_utf8(
        text::decode_grpc_text(&sent).unwrap().into_iter().filter(|byte| *byte < 0x80).collect(),
    );
    (lines(&exchange.response.headers), body.unwrap())
}

#[test]
fn trailers_stand_in_the_last_frame() {
    let grpc = [("Content-Type", "application/grpc"), ("Trailer", "grpc-status")];
    let (fields, body) = response(200, &grpc, None, &["a", "bc"], &[("grpc-status", "0"), ("x", "y")]);
    let expected = [
        "Content-Type: application/grpc-web-text+proto",
        "Access-Control-Allow-Origin: *",
        "Access-Control-Expose-Headers: grpc-message,grpc-status",
    ];
    assert!(expected.iter().all(|line| fields.iter().any(|field| field == line)), "{fields:?}");
    assert!(!fields.iter().any(|line| line.starts_with("Trailer")), "{fields:?}");
    assert_eq!(body, "abc\0\0\0#grpc-status:0\r\ngrpc-message:\r\nx:y\r\n");
    let (_, body) = response(200, &grpc, None, &["a"], &[]);
    assert!(body.ends_with("grpc-status:2\r\ngrpc-message:upstream grpc status not received\r\n"), "{body}");
}

#[test]
fn status_in_the_head_leaves_the_body_empty() {
    let head = [("Content-Type", "application/grpc"), ("grpc-status", "13"), ("grpc-message", "no")];
    let (fields, body) = response(200, &head, None, &[], &[]);
    assert!(fields.contains(&"grpc-status: 13".to_owned()), "{fields:?}");
    assert_eq!(body, "");
}

#[test]
fn responses_without_messages_get_a_status() {
    let check = |status: u16, cause: Option<Cause>, expected: &str| {
        let (_, body) = response(status, &[("Content-Type", "text/html")], cause, &["<html>"], &[]);
        assert!(body.contains(expected) && !body.contains("html"), "{status}: {body}");
    };
    check(502, Some(Cause::ConnectFailed), "grpc-status:14\r\ngrpc-message:Bad Gateway");
    check(504, Some(Cause::ReadTimeout), "grpc-status:4\r\n");
    check(503, None, "grpc-status:14\r\n");
    check(200, None, "grpc-status:2\r\ngrpc-message:upstream grpc status not received");
}

#[test]
fn origins_are_allowed_unless_decided_elsewhere() {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &json!({"cors_allow_headers": "x-own"}));
    let mut check = |method: &str, has_cors: bool, given: &[(&str, &str)], expected: &[&str]| {
        let mut exchange = scene.exchange(format!("{method} / HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
        let _ = decide(plugin.access(&mut exchange));
        respond(&mut exchange, 200, given);
        exchange.decision.has_cors = has_cors;
        finish(plugin.response_head(&mut exchange));
        assert_eq!(lines(&exchange.response.headers), expected, "{method}");
        assert_eq!(plugin.wants_response_body(&exchange), BodyNeed::None, "{method}");
    };
    let exposed = "Access-Control-Expose-Headers: grpc-message,grpc-status";
    let (any, own) = ("Access-Control-Allow-Origin: *", "Access-Control-Allow-Origin: http://a");
    check("GET", false, &[], &[any, exposed]);
    check("GET", true, &[], &[exposed]);
    check("GET", true, &[("Access-Control-Allow-Origin", "http://a")], &[own, exposed]);
    let preflight =
        ["Access-Control-Allow-Methods: POST", "Access-Control-Allow-Headers: x-own", any, exposed];
    check("OPTIONS", false, &[], &preflight);
}
