//! Guests in WebAssembly on stream routes through the real gateway: decisions by the first bytes, calls to
//! other servers, and guests that do harm.

use std::io::Write;

use data_encoding::BASE64;
use serde_json::{Value, json};
use testkit::{Origin, Reply};

use crate::lua_streams::{Stage, answer};

/// The part that every guest has.
const HEAD: &str = include_str!("../../../wasm/src/tests/head.wat");
/// A check of two numbers.
const IS: &str = "(func $is (param i32 i32) (if (i32.ne (local.get 0) (local.get 1)) (then unreachable)))";

fn upload(stage: &Stage, imports: &str, code: &str) {
    let module = wat::parse_str(format!("(module {imports} {HEAD} {IS} {code})")).unwrap();
    let body = json!({"language": "wasm", "content": BASE64.encode(&module)});
    stage.weir.put("extensions/guest", body);
}

/// A guest that waits for three bytes, and closes unless the first is a `y`.
fn reader(stage: &Stage) {
    let imports =
        "(import \"env\" \"proxy_get_buffer_bytes\" (func $get (param i32 i32 i32 i32 i32) (result i32)))
        (import \"env\" \"proxy_close_stream\" (func $close (param i32) (result i32)))";
    let code = "(func (export \"proxy_on_downstream_data\") (param i32 i32 i32) (result i32)
        (if (i32.lt_u (local.get 1) (i32.const 3)) (then (return (i32.const 1))))
        (call $is (call $get (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 16) (i32.const 20)) (i32.const 0))
        (if (i32.ne (i32.load8_u (i32.load (i32.const 16))) (i32.const 121))
            (then (call $is (call $close (i32.const 2)) (i32.const 0))))
        (i32.const 0))";
    upload(stage, imports, code);
}

#[test]
fn guest_decides_by_first_bytes() {
    let stage = Stage::start();
    reader(&stage);
    stage.route(json!({"guest": {"conf": "x"}}));
    assert_eq!(stage.say(b"yes").as_deref(), Some("a:yes"));
    assert_eq!(stage.say(b"no!"), None);
    let line = stage.logged(" rejected ", 1);
    assert!(line.contains("the plugin guest closes the session (proxy_close_stream)"), "{line}");
    let mut slow = stage.open(b"y");
    slow.write_all(b"e").unwrap();
    slow.write_all(b"s!").unwrap();
    assert_eq!(answer(slow).as_deref(), Some("a:yes!"));
    assert_eq!(stage.say(b"ye"), None);
    stage.logged(" preread_closed ", 1);
    let long = "y".repeat(100_000);
    assert_eq!(stage.say(long.as_bytes()), Some(format!("a:{long}")), "later bytes pass no guest");
}

#[test]
fn admin_api_knows_guests_of_sessions() {
    let stage = Stage::start();
    reader(&stage);
    let (status, listed) = stage.weir.admin("GET", "plugins?all=true&subsystem=stream", Value::Null);
    assert_eq!(status, 200);
    assert!(listed["guest"].is_object(), "{listed}");
    let route =
        json!({"uri": "/", "upstream": {"nodes": {"127.0.0.1:1": 1}}, "plugins": {"guest": {"conf": "x"}}});
    let (status, refused) = stage.weir.admin("PUT", "routes/1", route);
    assert_eq!(status, 400);
    assert!(refused.to_string().contains("it serves layer 4 only"), "{refused}");
    let (status, refused) = stage.try_route(json!({"guest": {}}));
    assert_eq!(status, 400, "{refused}");
    let (status, refused) = stage.try_route(json!({"guest": {"conf": "x", "downstream_data": "all"}}));
    assert_eq!(status, 400, "{refused}");
}

#[test]
fn guest_waits_for_an_answer() {
    let stage = Stage::start();
    let origin = Origin::start(|request| match request.header("x-from") {
        Some(from) if from.starts_with("127.0.0.1:") => Reply::with(200, &[], b"y"),
        _ => Reply::with(200, &[], b"n"),
    });
    // The head of the call: three fields of the request, and the address of the client.
    let place = origin.address().to_string();
    let fields = [(":method", "GET"), (":path", "/"), (":authority", "origin")];
    let text = |bytes: &[u8]| bytes.iter().map(|byte| format!("\\{byte:02x}")).collect::<String>();
    let mut map = 4_u32.to_le_bytes().to_vec();
    for (name, value) in fields {
        map.extend((name.len() as u32).to_le_bytes());
        map.extend((value.len() as u32).to_le_bytes());
    }
    map.extend(6_u32.to_le_bytes());
    let length_of_client = 1_024 + map.len();
    map.extend(0_u32.to_le_bytes());
    for (name, value) in fields {
        map.extend([name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat());
    }
    map.extend(b"x-from\0");
    let client = 1_024 + map.len();
    let imports = "(import \"env\" \"proxy_get_property\" (func $property (param i32 i32 i32 i32) (result i32)))
        (import \"env\" \"proxy_http_call\" (func $call (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
        (import \"env\" \"proxy_get_buffer_bytes\" (func $get (param i32 i32 i32 i32 i32) (result i32)))
        (import \"env\" \"proxy_close_stream\" (func $close (param i32) (result i32)))
        (import \"env\" \"proxy_continue_stream\" (func $continue (param i32) (result i32)))";
    let code = format!(
        "(data (i32.const 512) \"source\\00address\") (data (i32.const 768) \"{place}\") (data (i32.const 1024) \"{}\")
        (func (export \"proxy_on_new_connection\") (param i32) (result i32)
            (call $is (call $property (i32.const 512) (i32.const 14) (i32.const 16) (i32.const 20)) (i32.const 0))
            (i32.store (i32.const {length_of_client}) (i32.load (i32.const 20)))
            (memory.copy (i32.const {client}) (i32.load (i32.const 16)) (i32.load (i32.const 20)))
            (i32.store8 (i32.add (i32.const {client}) (i32.load (i32.const 20))) (i32.const 0))
            (call $is (call $call (i32.const 768) (i32.const {}) (i32.const 1024)
                (i32.add (i32.const {}) (i32.load (i32.const 20))) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
                (i32.const 5000) (i32.const 24)) (i32.const 0))
            (i32.const 1))
        (func (export \"proxy_on_http_call_response\") (param i32 i32 i32 i32 i32)
            (call $is (call $get (i32.const 4) (i32.const 0) (i32.const 1) (i32.const 16) (i32.const 20)) (i32.const 0))
            (if (i32.eq (i32.load8_u (i32.load (i32.const 16))) (i32.const 121))
                (then (call $is (call $continue (i32.const 2)) (i32.const 0)))
                (else (call $is (call $close (i32.const 2)) (i32.const 0)))))",
        text(&map),
        place.len(),
        map.len() + 1,
    );
    upload(&stage, imports, &code);
    stage.route(json!({"guest": {"conf": "x"}}));
    assert_eq!(stage.say(b"hello").as_deref(), Some("a:hello"));
    assert!(origin.last_request().header("x-from").unwrap().starts_with("127.0.0.1:"));
}

#[test]
fn guest_that_does_harm_closes_its_sessions_alone() {
    let stage = Stage::start();
    let harmful = [
        ("trap", "(func (export \"proxy_on_new_connection\") (param i32) (result i32) unreachable)"),
        (
            "deadline",
            "(func (export \"proxy_on_downstream_data\") (param i32 i32 i32) (result i32)
                (loop $again (br $again)) (i32.const 0))",
        ),
    ];
    for (index, (event, code)) in harmful.into_iter().enumerate() {
        upload(&stage, "", code);
        stage.route(json!({"guest": {"conf": "x"}}));
        assert_eq!(stage.say(b"hello"), None, "{event}");
        let line = stage.logged(" plugin_failed ", index + 1);
        assert!(line.contains(&format!("the plugin guest failed ({event})")), "{line}");
        let counter = format!("weir_plugin_events_total{{plugin=\"guest\",event=\"{event}\"}}");
        assert_eq!(stage.metric(&counter), 1, "{event}");
    }
    reader(&stage);
    assert_eq!(stage.say(b"yes").as_deref(), Some("a:yes"));
}
