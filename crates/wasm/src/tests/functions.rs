//! Host functions one by one, by guests in text. Each guest traps where a status or a value is not the
//! expected one.

use exchange::plugin::{BodyNeed, Portion};
use exchange::testing::{Scene, finish, respond};
use message::Headers;
use serde_json::json;

use super::{conf, detail, end, load, module, plugin, run};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Ends the guest where two numbers differ.
const IS: &str = "(func $is (param i32 i32) (if (i32.ne (local.get 0) (local.get 1)) (then unreachable)))";

fn on_head(body: &str) -> String {
    format!(
        "(func (export \"proxy_on_request_headers\") (param i32 i32 i32) (result i32) {body} (i32.const 0))"
    )
}

/// Asserts that a request passes a guest with these imports and this callback of heads.
fn passes(name: &str, imports: &str, code: &str) {
    run(async {
        let extension = load(name, &module(imports, &format!("{IS} {code}"))).unwrap();
        let mut scene = Scene::new();
        let plugin = plugin(&extension, &scene, &conf());
        for _ in 0..2 {
            let mut exchange = scene.exchange(GET);
            let reply = end(plugin.access(&mut exchange)).await;
            assert!(reply.is_none(), "{name}: {}", detail(&exchange));
            plugin.before_log(&mut exchange);
            assert!(exchange.failure.is_none(), "{name}: {}", detail(&exchange));
        }
    });
}

#[test]
fn shared_data_and_queues_work_between_requests() {
    let imports = r#"
        (import "env" "proxy_set_shared_data" (func $set (param i32 i32 i32 i32 i32) (result i32)))
        (import "env" "proxy_get_shared_data" (func $get (param i32 i32 i32 i32 i32) (result i32)))
        (import "env" "proxy_register_shared_queue" (func $register (param i32 i32 i32) (result i32)))
        (import "env" "proxy_resolve_shared_queue" (func $resolve (param i32 i32 i32 i32 i32) (result i32)))
        (import "env" "proxy_enqueue_shared_queue" (func $push (param i32 i32 i32) (result i32)))
        (import "env" "proxy_dequeue_shared_queue" (func $pop (param i32 i32 i32) (result i32)))"#;
    let code = on_head(
        r#"(call $is (call $set (i32.const 16) (i32.const 3) (i32.const 19) (i32.const 5) (i32.const 0)) (i32.const 0))
        (call $is (call $get (i32.const 16) (i32.const 3) (i32.const 64) (i32.const 68) (i32.const 72)) (i32.const 0))
        (call $is (i32.load (i32.const 68)) (i32.const 5))
        (call $is (i32.load8_u (i32.load (i32.const 64))) (i32.const 118))
        (call $is (call $set (i32.const 16) (i32.const 3) (i32.const 19) (i32.const 5) (i32.const 999)) (i32.const 8))
        (call $is (call $set (i32.const 16) (i32.const 3) (i32.const 19) (i32.const 1) (i32.load (i32.const 72))) (i32.const 0))
        (call $is (call $get (i32.const 17) (i32.const 1) (i32.const 64) (i32.const 68) (i32.const 72)) (i32.const 1))
        (call $is (call $register (i32.const 16) (i32.const 3) (i32.const 80)) (i32.const 0))
        (call $is (call $resolve (i32.const 0) (i32.const 0) (i32.const 16) (i32.const 3) (i32.const 84)) (i32.const 0))
        (call $is (i32.load (i32.const 80)) (i32.load (i32.const 84)))
        (call $is (call $resolve (i32.const 16) (i32.const 3) (i32.const 16) (i32.const 3) (i32.const 84)) (i32.const 1))
        (call $is (call $push (i32.load (i32.const 80)) (i32.const 19) (i32.const 5)) (i32.const 0))
        (call $is (call $pop (i32.load (i32.const 80)) (i32.const 64) (i32.const 68)) (i32.const 0))
        (call $is (i32.load (i32.const 68)) (i32.const 5))
        (call $is (call $pop (i32.load (i32.const 80)) (i32.const 64) (i32.const 68)) (i32.const 7))
        (call $is (call $pop (i32.const 99) (i32.const 64) (i32.const 68)) (i32.const 1))"#,
    );
    passes("functions-shared", imports, &format!("(data (i32.const 16) \"keyvalue\") {code}"));
}

#[test]
fn queue_wakes_the_guest_that_registered_it() {
    let imports = r#"
        (import "env" "proxy_register_shared_queue" (func $register (param i32 i32 i32) (result i32)))
        (import "env" "proxy_enqueue_shared_queue" (func $push (param i32 i32 i32) (result i32)))
        (import "env" "proxy_dequeue_shared_queue" (func $pop (param i32 i32 i32) (result i32)))
        (import "env" "proxy_add_header_map_value" (func $add (param i32 i32 i32 i32 i32) (result i32)))"#;
    // Three items; each request has as many fields `k` as items were taken before it.
    let code = format!(
        r#"(data (i32.const 16) "key") (global $taken (mut i32) (i32.const 0)) (global $sent (mut i32) (i32.const 0))
        (func (export "proxy_on_configure") (param i32 i32) (result i32)
            (call $register (i32.const 16) (i32.const 3) (i32.const 80)) (i32.eqz))
        (func (export "proxy_on_queue_ready") (param i32) (param $number i32)
            (call $is (call $pop (local.get $number) (i32.const 64) (i32.const 68)) (i32.const 0))
            (global.set $taken (i32.add (global.get $taken) (i32.const 1))))
        {}"#,
        on_head(
            r#"(local $left i32)
            (if (i32.eqz (global.get $sent)) (then (global.set $sent (i32.const 1))
                (drop (call $push (i32.load (i32.const 80)) (i32.const 16) (i32.const 1)))
                (drop (call $push (i32.load (i32.const 80)) (i32.const 16) (i32.const 1)))
                (drop (call $push (i32.load (i32.const 80)) (i32.const 16) (i32.const 1)))))
            (local.set $left (global.get $taken))
            (block $end (loop $again (br_if $end (i32.eqz (local.get $left)))
                (drop (call $add (i32.const 0) (i32.const 16) (i32.const 1) (i32.const 16) (i32.const 1)))
                (local.set $left (i32.sub (local.get $left) (i32.const 1))) (br $again)))"#
        )
    );
    run(async {
        let extension = load("functions-queue", &module(imports, &format!("{IS} {code}"))).unwrap();
        let mut scene = Scene::new();
        let plugin = plugin(&extension, &scene, &conf());
        loop {
            let mut exchange = scene.exchange(GET);
            assert!(end(plugin.access(&mut exchange)).await.is_none(), "{}", detail(&exchange));
            if exchange.request.headers.get_all("k").count() == 3 {
                break;
            }
            net::env::sleep_ms(2).await;
        }
    });
}

#[test]
fn metrics_properties_and_clock_answer() {
    let imports = r#"
        (import "env" "proxy_define_metric" (func $define (param i32 i32 i32 i32) (result i32)))
        (import "env" "proxy_increment_metric" (func $add (param i32 i64) (result i32)))
        (import "env" "proxy_record_metric" (func $record (param i32 i64) (result i32)))
        (import "env" "proxy_get_metric" (func $value (param i32 i32) (result i32)))
        (import "env" "proxy_set_property" (func $set (param i32 i32 i32 i32) (result i32)))
        (import "env" "proxy_get_property" (func $get (param i32 i32 i32 i32) (result i32)))
        (import "env" "proxy_get_current_time_nanoseconds" (func $now (param i32) (result i32)))
        (import "env" "proxy_get_log_level" (func $level (param i32) (result i32)))
        (import "env" "proxy_call_foreign_function" (func $foreign (param i32 i32 i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))"#;
    let code = on_head(
        r#"(call $is (call $define (i32.const 1) (i32.const 16) (i32.const 3) (i32.const 64)) (i32.const 0))
        (call $is (call $define (i32.const 5) (i32.const 16) (i32.const 3) (i32.const 64)) (i32.const 2))
        (call $is (call $record (i32.load (i32.const 64)) (i64.const 40)) (i32.const 0))
        (call $is (call $add (i32.load (i32.const 64)) (i64.const 2)) (i32.const 0))
        (call $is (call $value (i32.load (i32.const 64)) (i32.const 72)) (i32.const 0))
        (call $is (i32.load (i32.const 72)) (i32.const 42))
        (call $is (call $value (i32.const 77) (i32.const 72)) (i32.const 1))
        (call $is (call $set (i32.const 16) (i32.const 3) (i32.const 19) (i32.const 5)) (i32.const 0))
        (call $is (call $get (i32.const 16) (i32.const 3) (i32.const 64) (i32.const 68)) (i32.const 0))
        (call $is (i32.load (i32.const 68)) (i32.const 5))
        (call $is (call $get (i32.const 17) (i32.const 3) (i32.const 64) (i32.const 68)) (i32.const 1))
        (call $is (call $now (i32.const 64)) (i32.const 0))
        (call $is (i64.gt_u (i64.load (i32.const 64)) (i64.const 1600000000000000000)) (i32.const 1))
        (call $is (call $level (i32.const 64)) (i32.const 0))
        (call $is (call $foreign (i32.const 16) (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 64) (i32.const 68)) (i32.const 1))
        (call $is (call $clock (i32.const 1) (i64.const 0) (i32.const 64)) (i32.const 0))
        (call $is (call $clock (i32.const 9) (i64.const 0) (i32.const 64)) (i32.const 58))"#,
    );
    passes("functions-facts", imports, &format!("(data (i32.const 16) \"keyvalue\") {code}"));
}

#[test]
fn trailers_and_bodies_are_edited_in_their_callbacks() {
    let imports = r#"
        (import "env" "proxy_add_header_map_value" (func $add (param i32 i32 i32 i32 i32) (result i32)))
        (import "env" "proxy_get_header_map_size" (func $size (param i32 i32) (result i32)))
        (import "env" "proxy_set_buffer_bytes" (func $set (param i32 i32 i32 i32 i32) (result i32)))
        (import "env" "proxy_get_buffer_status" (func $status (param i32 i32 i32) (result i32)))"#;
    let code = format!(
        r#"(data (i32.const 16) "keyvalue")
        {}
        (func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32) (i32.const 0))
        (func (export "proxy_on_response_trailers") (param i32 i32) (result i32)
            (call $is (local.get 1) (i32.const 1))
            (call $is (call $add (i32.const 3) (i32.const 16) (i32.const 3) (i32.const 19) (i32.const 5)) (i32.const 0))
            (i32.const 0))
        (func (export "proxy_on_response_body") (param i32 i32 i32) (result i32)
            (call $is (call $status (i32.const 1) (i32.const 64) (i32.const 68)) (i32.const 0))
            (call $is (i32.load (i32.const 64)) (local.get 1))
            (call $is (call $status (i32.const 0) (i32.const 64) (i32.const 68)) (i32.const 1))
            (call $is (call $set (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 16) (i32.const 3)) (i32.const 0))
            (call $is (call $set (i32.const 1) (i32.const -1) (i32.const 0) (i32.const 19) (i32.const 5)) (i32.const 0))
            (call $is (call $set (i32.const 6) (i32.const 0) (i32.const 0) (i32.const 19) (i32.const 5)) (i32.const 2))
            (i32.const 0))"#,
        on_head(
            r#"(call $is (call $size (i32.const 3) (i32.const 64)) (i32.const 2))
            (call $is (call $size (i32.const 2) (i32.const 64)) (i32.const 2))
            (call $is (call $size (i32.const 0) (i32.const 64)) (i32.const 0))
            (call $is (call $status (i32.const 1) (i32.const 64) (i32.const 68)) (i32.const 1))"#
        )
    );
    run(async {
        let extension = load("functions-bodies", &module(imports, &format!("{IS} {code}"))).unwrap();
        let mut scene = Scene::new();
        let plugin = plugin(&extension, &scene, &conf());
        let mut exchange = scene.exchange(GET);
        assert!(end(plugin.access(&mut exchange)).await.is_none(), "{}", detail(&exchange));
        respond(&mut exchange, 200, &[]);
        finish(plugin.response_head(&mut exchange));
        let mut body = b" - ".to_vec();
        finish(plugin.response_body(&mut exchange, &mut body, Portion::Piece));
        assert_eq!(body, b"key - value");
        let mut trailers = Headers::new();
        trailers.append("t", b"1").unwrap();
        plugin.response_trailers(&mut exchange, &mut trailers);
        assert_eq!((trailers.get("t"), trailers.get("key")), (Some(&b"1"[..]), Some(&b"value"[..])));
        plugin.before_log(&mut exchange);
        assert!(exchange.failure.is_none(), "{}", detail(&exchange));
    });
}

#[test]
fn body_that_is_held_back_for_good_ends_the_request() {
    let code = "(func (export \"proxy_on_request_body\") (param i32 i32 i32) (result i32) (i32.const 1))";
    run(async {
        let extension = load("functions-held", &module("", code)).unwrap();
        let mut scene = Scene::new();
        let plugin = plugin(&extension, &scene, &json!({ "conf": "x", "request_body": "stream" }));
        let head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let mut exchange = scene.exchange(head);
        assert!(end(plugin.access(&mut exchange)).await.is_none());
        assert_eq!(plugin.wants_request_body(&exchange), BodyNeed::Stream);
        let mut body = b"piece".to_vec();
        plugin.request_body(&mut exchange, &mut body, Portion::Piece);
        assert!(body.is_empty() && exchange.request_fault.is_none());
        plugin.request_body(&mut exchange, &mut body, Portion::Last);
        let fault = exchange.request_fault.take().unwrap();
        assert!(
            fault.detail.contains("paused_at_end") && fault.detail.contains("buffer"),
            "{}",
            fault.detail
        );
        let mut large = scene.exchange(head);
        assert!(end(plugin.access(&mut large)).await.is_none());
        let mut body = vec![0; crate::limits::BODY_BUFFER_MAX + 1];
        plugin.request_body(&mut large, &mut body, Portion::Piece);
        assert!(large.request_fault.take().unwrap().detail.contains("body_limit"));
        let off = super::plugin(&extension, &scene, &json!({ "conf": "x", "request_body": "off" }));
        assert_eq!(off.wants_request_body(&scene.exchange(head)), BodyNeed::None);
    });
}

#[test]
fn local_reply_takes_the_place_of_a_response() {
    let imports = r#"(import "env" "proxy_send_local_response"
        (func $reply (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))"#;
    let code = r#"(data (i32.const 16) "instead")
        (func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32)
            (drop (call $reply (i32.const 502) (i32.const 0) (i32.const 0) (i32.const 16) (i32.const 7) (i32.const 0)
                (i32.const 0) (i32.const -1))) (i32.const 1))"#;
    run(async {
        let extension = load("functions-reply", &module(imports, code)).unwrap();
        let mut scene = Scene::new();
        let plugin = plugin(&extension, &scene, &conf());
        let mut exchange = scene.exchange(GET);
        assert!(end(plugin.access(&mut exchange)).await.is_none());
        respond(&mut exchange, 200, &[("X-Secret", "1")]);
        finish(plugin.response_head(&mut exchange));
        assert_eq!((exchange.response.status, exchange.response.headers.get("x-secret")), (502, None));
        assert_eq!(plugin.wants_response_body(&exchange), BodyNeed::Stream);
        let mut sent = Vec::new();
        for portion in [Portion::Piece, Portion::Last] {
            let mut body = b"origin".to_vec();
            finish(plugin.response_body(&mut exchange, &mut body, portion));
            sent.extend_from_slice(&body);
        }
        assert_eq!(sent, b"instead");
    });
}
