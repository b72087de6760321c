//! Guests in sessions of layer 4: each callback, the buffer, refusals, and guests that do harm.

use std::sync::Arc;

use exchange::plugin::state::StateRegistry;
use exchange::plugin::stream::{SessionEnd, StreamFlow, StreamPlugin, StreamSession};
use exchange::testing::{build, local, services};
use serde_json::{Value, json};

use super::{load, module, run};
use crate::limits::FAILURES_MAX;

/// Imports of the guests here.
const IMPORTS: &str = r#"
    (import "env" "proxy_get_buffer_bytes" (func $get (param i32 i32 i32 i32 i32) (result i32)))
    (import "env" "proxy_set_buffer_bytes" (func $set (param i32 i32 i32 i32 i32) (result i32)))
    (import "env" "proxy_close_stream" (func $close (param i32) (result i32)))
    (import "env" "proxy_continue_stream" (func $continue (param i32) (result i32)))
    (import "env" "proxy_resume_downstream" (func $resume (result i32)))
    (import "env" "proxy_get_property" (func $property (param i32 i32 i32 i32) (result i32)))
    (import "env" "proxy_set_property" (func $put (param i32 i32 i32 i32) (result i32)))
    (import "env" "proxy_send_local_response"
        (func $reply (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
"#;

/// A guest with these callbacks, and a trap where a condition does not hold.
fn guest(code: &str) -> Vec<u8> {
    let check = "(func $is (param i32 i32) (if (i32.ne (local.get 0) (local.get 1)) (then unreachable)))";
    module(IMPORTS, &format!("{check} {code}"))
}

fn on_connection(body: &str) -> String {
    format!("(func (export \"proxy_on_new_connection\") (param i32) (result i32) {body})")
}

fn on_data(body: &str) -> String {
    format!("(func (export \"proxy_on_downstream_data\") (param i32 i32 i32) (result i32) {body})")
}

fn plugin(name: &str, code: &str, config: &Value) -> Arc<dyn StreamPlugin> {
    let extension = load(name, &guest(code)).unwrap();
    extension.check(config).unwrap();
    let (states, services) = (StateRegistry::default(), services());
    extension.build_stream(&build("/stream_routes/1", None, &states, &services), config).unwrap()
}

fn conf() -> Value {
    json!({ "conf": "x" })
}

fn session() -> StreamSession {
    let (client, server) = ("10.0.0.1:4000".parse().unwrap(), "127.0.0.1:9100".parse().unwrap());
    let mut session = StreamSession::new(client, server, 1);
    session.held.push(local(router::path::PathOptions::default()));
    session
}

/// How the session goes on: `continue`, `more`, or the reason of its end.
async fn preread(plugin: &dyn StreamPlugin, session: &mut StreamSession) -> String {
    let mut flow = plugin.preread(session);
    while let StreamFlow::Wait(decision) = flow {
        flow = decision.await;
    }
    match flow {
        StreamFlow::Continue | StreamFlow::Wait(_) => "continue".to_owned(),
        StreamFlow::More => "more".to_owned(),
        StreamFlow::Reject(reason) => reason.into_owned(),
        StreamFlow::Failed(reason) => format!("failed: {reason}"),
    }
}

/// How a session with `bytes` goes on.
fn decide(name: &str, code: &str, bytes: &[u8]) -> String {
    run(async {
        let (plugin, mut session) = (plugin(name, code, &conf()), session());
        session.first_bytes = bytes.to_vec();
        preread(&*plugin, &mut session).await
    })
}

#[test]
fn exports_decide_which_traffic_is_served() {
    let check = |name: &str, code: &str, on_streams: bool, on_http: bool| {
        let extension = load(name, &guest(code)).unwrap();
        assert_eq!((!extension.stream_phases().is_empty(), extension.serves_http()), (on_streams, on_http));
    };
    let head = "(func (export \"proxy_on_request_headers\") (param i32 i32 i32) (result i32) (i32.const 0))";
    check("l4", &on_connection("(i32.const 0)"), true, false);
    check("l4-data", &on_data("(i32.const 0)"), true, false);
    check("l7", head, false, true);
    check("l4-l7", &format!("{head} {}", on_connection("(i32.const 0)")), true, true);
    check("none", "", false, true);
}

#[test]
fn new_connection_passes_or_is_closed() {
    assert_eq!(decide("pass", &on_connection("(i32.const 0)"), b""), "continue");
    let close = on_connection("(call $is (call $close (i32.const 2)) (i32.const 0)) (i32.const 0)");
    assert_eq!(decide("close", &close, b""), "the plugin close closes the session (proxy_close_stream)");
    let resumed = on_connection("(call $is (call $resume) (i32.const 0)) (i32.const 1)");
    assert_eq!(decide("resumed", &resumed, b""), "continue");
    let paused = decide("paused", &on_connection("(i32.const 1)"), b"");
    assert!(paused.contains("neither a call nor first bytes could continue it"), "{paused}");
}

#[test]
fn first_bytes_are_shown_until_they_are_enough() {
    run(async {
        // Waits for four bytes, and closes unless the third is an `x`.
        let code = on_data(
            "(if (i32.lt_u (local.get 1) (i32.const 4)) (then (return (i32.const 1))))
             (call $is (local.get 2) (i32.const 0))
             (call $is (call $get (i32.const 2) (i32.const 2) (i32.const 1) (i32.const 16) (i32.const 20)) (i32.const 0))
             (call $is (i32.load (i32.const 20)) (i32.const 1))
             (if (i32.ne (i32.load8_u (i32.load (i32.const 16))) (i32.const 120))
                (then (call $is (call $close (i32.const 2)) (i32.const 0))))
             (i32.const 0)",
        );
        let plugin = plugin("bytes", &code, &conf());
        for (parts, expected) in [
            (vec![&b""[..], b"ab", b"abx", b"abxd"], vec!["more", "more", "more", "continue"]),
            (vec![&b"abcd"[..]], vec!["the plugin bytes closes the session (proxy_close_stream)"]),
        ] {
            let mut session = session();
            for (part, expected) in parts.into_iter().zip(expected) {
                session.first_bytes = part.to_vec();
                assert_eq!(preread(&*plugin, &mut session).await, expected, "{part:?}");
            }
        }
        let extension = load("bytes-off", &guest(&code)).unwrap();
        let (states, services) = (StateRegistry::default(), services());
        let config = json!({ "conf": "x", "downstream_data": "off" });
        let off =
            extension.build_stream(&build("/stream_routes/1", None, &states, &services), &config).unwrap();
        assert_eq!(preread(&*off, &mut session()).await, "continue");
    });
}

#[test]
fn session_cannot_be_changed_or_answered() {
    let code = on_data(
        "(call $is (call $set (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 1)) (i32.const 12))
         (call $is (call $set (i32.const 3) (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 1)) (i32.const 12))
         (call $is (call $get (i32.const 3) (i32.const 0) (i32.const 1) (i32.const 16) (i32.const 20)) (i32.const 1))
         (call $is (call $get (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 16) (i32.const 20)) (i32.const 1))
         (call $is (call $continue (i32.const 0)) (i32.const 12))
         (call $is (call $continue (i32.const 3)) (i32.const 12))
         (call $is (call $reply (i32.const 403) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
            (i32.const 0) (i32.const -1)) (i32.const 12))
         (i32.const 0)",
    );
    assert_eq!(decide("refused", &code, b"hello"), "continue");
}

#[test]
fn end_of_a_session_is_told_once() {
    run(async {
        // A property counts the callbacks: each must find the digit of the one before it.
        let step = |name: &str, parameters: &str, result: &str, from: u8, to: u8, value: &str| {
            format!(
                "(func (export \"{name}\") (param {parameters}) {result}
                    (call $is (call $property (i32.const 8) (i32.const 1) (i32.const 16) (i32.const 20)) (i32.const 0))
                    (call $is (i32.load8_u (i32.load (i32.const 16))) (i32.const {from}))
                    (i32.store8 (i32.const 12) (i32.const {to})) {value})"
            )
        };
        let set = "(i32.store8 (i32.const 12) (i32.const 49))
            (call $is (call $put (i32.const 8) (i32.const 1) (i32.const 12) (i32.const 1)) (i32.const 0))";
        let code = format!(
            "(data (i32.const 8) \"n\") {} {} {} {}",
            on_connection(&format!("{set} (i32.const 0)")),
            step(
                "proxy_on_downstream_connection_close",
                "i32 i32",
                "",
                49,
                50,
                "(call $is (local.get 1) (i32.const 2))"
            ),
            step("proxy_on_done", "i32", "(result i32)", 49, 51, "(i32.const 1)"),
            step("proxy_on_log", "i32", "", 49, 52, "unreachable"),
        );
        let plugin = plugin("ended", &code, &conf());
        let mut session = session();
        assert_eq!(preread(&*plugin, &mut session).await, "continue");
        session.end = Some(SessionEnd::Closed);
        plugin.log(&session);
        // The trap in `proxy_on_log` has ended the instance: the next session has a new one, and a second log
        // none.
        plugin.log(&session);
        let mut next = self::session();
        next.held[0] = session.held[0].clone();
        assert_eq!(preread(&*plugin, &mut next).await, "continue");
    });
}

#[test]
fn guest_that_does_harm_closes_its_session() {
    let trap = decide("trap", &on_connection("unreachable"), b"");
    assert!(trap.starts_with("failed: the plugin trap failed (trap)"), "{trap}");
    let endless = decide("endless", &on_data("(loop $again (br $again)) (i32.const 0)"), b"x");
    assert!(endless.contains("more than 20 ms of processor time"), "{endless}");
    run(async {
        let plugin = plugin("breaker", &on_connection("unreachable"), &conf());
        let worker = local(router::path::PathOptions::default());
        let mut ends = Vec::new();
        for _ in 0..=FAILURES_MAX {
            let mut session = session();
            session.held[0] = worker.clone();
            ends.push(preread(&*plugin, &mut session).await);
            let again = preread(&*plugin, &mut session).await;
            assert!(again.starts_with("failed: "), "a guest is not called again for it: {again}");
        }
        assert!(ends[0].contains("(trap)"), "{ends:?}");
        assert!(ends[FAILURES_MAX as usize].contains("(breaker_open)"), "{ends:?}");
    });
}
