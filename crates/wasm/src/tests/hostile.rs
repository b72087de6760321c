//! Guests that do harm: each ends with its own request, and the next request has an instance again.

use std::time::{Duration, Instant};

use exchange::testing::Scene;

use super::{conf, detail, end, load, module, plugin, run};
use crate::limits::{BACKOFF_FIRST_MS, FAILURES_MAX, MEMORY_BYTES_MAX};
use crate::pool::InstancePool;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// The status and the failure of a request to a guest of which `code` is the callback of request heads.
fn request(name: &str, imports: &str, code: &str) -> (Option<u16>, String) {
    run(async {
        let extension = load(name, &module(imports, code)).unwrap();
        let mut scene = Scene::new();
        let plugin = plugin(&extension, &scene, &conf());
        let mut exchange = scene.exchange(GET);
        let reply = end(plugin.access(&mut exchange)).await;
        (reply.map(|reply| reply.status), detail(&exchange))
    })
}

/// A callback of request heads with this body.
fn on_head(body: &str) -> String {
    format!("(func (export \"proxy_on_request_headers\") (param i32 i32 i32) (result i32) {body})")
}

#[test]
fn endless_loop_ends_within_its_time() {
    let began = Instant::now();
    let (status, detail) = request("loop", "", &on_head("(loop $again (br $again)) (i32.const 0)"));
    assert_eq!(status, Some(500));
    assert!(detail.contains("more than 20 ms of processor time"), "{detail}");
    // A loaded machine may stretch it; a guest that was not interrupted would never come here.
    assert!(began.elapsed() < Duration::from_secs(20));
}

/// Code without a loop meets no place where the clock interrupts it, so that calls of the gateway look at its
/// time.
#[test]
fn calls_of_the_gateway_count_in_the_time() {
    let imports = r#"(import "env" "proxy_get_header_map_size" (func $size (param i32 i32) (result i32)))
        (import "env" "proxy_add_header_map_value" (func $add (param i32 i32 i32 i32 i32) (result i32)))
        (import "env" "proxy_done" (func $done (result i32)))"#;
    let fields = "(loop $more
        (drop (call $add (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 1)))
        (local.set 3 (i32.add (local.get 3) (i32.const 1)))
        (br_if $more (i32.lt_u (local.get 3) (i32.const 900))))";
    let sizes = "(drop (call $size (i32.const 0) (i32.const 8)))".repeat(5_000);
    let head = "(data (i32.const 0) \"x\") (func (export \"proxy_on_request_headers\") (param i32 i32 i32) (result i32)";
    let code = format!("{head} (local i32) {fields} {sizes} (i32.const 0))");
    let (status, detail) = request("straight", imports, &code);
    assert_eq!(status, Some(500));
    assert!(detail.contains("more than 20 ms of processor time"), "{detail}");
    // Whichever limit is met first on this machine.
    let endless = format!("{head} (loop $again (drop (call $done)) (br $again)) (i32.const 0))");
    let (status, detail) = request("calls", imports, &endless);
    assert_eq!(status, Some(500));
    assert!(["100000 times", "20 ms"].iter().any(|limit| detail.contains(limit)), "{detail}");
}

#[test]
fn traps_and_deep_stacks_end_the_request() {
    let (status, why) = request("trap", "", &on_head("unreachable"));
    assert_eq!(status, Some(500));
    assert!(why.contains("unreachable"), "{why}");
    let deep = format!(
        "(func $deep (param i32) (result i32) (i32.add (i32.const 1) (call $deep (local.get 0)))) {}",
        on_head("(call $deep (i32.const 0))")
    );
    let (status, why) = request("deep", "", &deep);
    assert_eq!(status, Some(500));
    assert!(why.contains("too deeply"), "{why}");
    let exit = "(import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))";
    let (status, why) = request("exit", exit, &on_head("(call $exit (i32.const 3)) (i32.const 0)"));
    assert_eq!(status, Some(500));
    assert!(why.contains("exits with code 3"), "{why}");
}

#[test]
fn memory_does_not_grow_beyond_its_limit() {
    // Grows until it cannot, and pauses with a reply of as many pages as it has.
    let code = on_head(
        "(loop $again (br_if $again (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) \
         (if (i32.gt_u (memory.size) (i32.const 1024)) (then unreachable)) (i32.const 0)",
    );
    assert_eq!(MEMORY_BYTES_MAX / 65_536, 1_024, "the number in the code of the guest");
    assert_eq!(request("grow", "", &code), (None, String::new()));
    let too_large = wat::parse_str(
        "(module (memory (export \"memory\") 2000) (func (export \"proxy_abi_version_0_2_1\")))",
    );
    let refused = load("large", &too_large.unwrap()).err().unwrap();
    assert!(refused.contains("memory"), "{refused}");
}

#[test]
fn modules_that_do_not_fit_are_refused_by_name() {
    let check = |name: &str, content: &[u8], expected: &[&str]| {
        let reason = load(name, content).err().unwrap_or_else(|| panic!("{name} is accepted"));
        assert!(expected.iter().all(|part| reason.contains(part)), "{name}: {reason}");
    };
    check("text", b"(module)", &["no module of WebAssembly"]);
    check("cut", &module("", "")[..40], &["no valid module"]);
    check("empty", &wat::parse_str("(module)").unwrap(), &["proxy_abi_version", "0.2.1"]);
    let newer = "(module (func (export \"proxy_abi_version_0_3_0\")))";
    check("newer", &wat::parse_str(newer).unwrap(), &["proxy_abi_version_0_3_0"]);
    let unknown = "(import \"env\" \"proxy_fly\" (func)) (import \"wasi_snapshot_preview1\" \"fd_fly\" (func)) \
                   (import \"env\" \"table\" (table 1 funcref))";
    check(
        "unknown",
        &module(unknown, ""),
        &["env.proxy_fly", "wasi_snapshot_preview1.fd_fly", "env.table (no function)"],
    );
    let types = "(import \"env\" \"proxy_log\" (func (param i64) (result i32)))";
    check("types", &module(types, ""), &["env.proxy_log", "(i32, i32, i32) -> (i32)"]);
    let export = "(func (export \"proxy_on_done\") (param i64) (result i32) (i32.const 1))";
    check("export", &module("", export), &["proxy_on_done", "another type"]);
    let none = "(module (func (export \"proxy_abi_version_0_2_1\")))";
    check("no-memory", &wat::parse_str(none).unwrap(), &["no memory"]);
    let start = "(func $s unreachable) (start $s)";
    check("start", &module("", start), &["cannot be started", "unreachable"]);
    let endless = "(func $s (loop $again (br $again))) (start $s)";
    check("endless-start", &module("", endless), &["cannot be started", "500 ms"]);
}

#[test]
fn refused_functions_answer_unimplemented() {
    let imports = "(import \"env\" \"proxy_grpc_stream\" (func $s (param i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
        (import \"wasi_snapshot_preview1\" \"path_open\" (func $o (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))";
    let zeros = |count: usize| "(i32.const 0)".repeat(count);
    let code = on_head(&format!(
        "(if (i32.ne (call $s {}) (i32.const 12)) (then unreachable))
         (if (i32.ne (call $o {} (i64.const 0) (i64.const 0) {}) (i32.const 52)) (then unreachable)) (i32.const 0)",
        zeros(9), zeros(5), zeros(2)
    ));
    assert_eq!(request("refused", imports, &code), (None, String::new()));
}

/// Places outside the memory are statuses, and never reach the gateway.
#[test]
fn pointers_out_of_bounds_are_statuses() {
    let imports = r#"
        (import "env" "proxy_log" (func $log (param i32 i32 i32) (result i32)))
        (import "env" "proxy_get_header_map_value" (func $get (param i32 i32 i32 i32 i32) (result i32)))
        (import "env" "proxy_set_header_map_pairs" (func $pairs (param i32 i32 i32) (result i32)))
        (import "env" "proxy_set_buffer_bytes" (func $body (param i32 i32 i32 i32 i32) (result i32)))
        (import "env" "proxy_set_shared_data" (func $shared (param i32 i32 i32 i32 i32) (result i32)))
        (import "env" "proxy_http_call" (func $call (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
        (import "env" "proxy_send_local_response" (func $reply (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
        (func $is (param i32 i32) (if (i32.ne (local.get 0) (local.get 1)) (then unreachable)))"#;
    let code = on_head(
        r#"(call $is (call $log (i32.const 2) (i32.const 65530) (i32.const 7)) (i32.const 6))
        (call $is (call $log (i32.const 2) (i32.const -1) (i32.const -1)) (i32.const 6))
        (call $is (call $log (i32.const 9) (i32.const 0) (i32.const 0)) (i32.const 2))
        (call $is (call $get (i32.const 0) (i32.const 0) (i32.const 4) (i32.const 65534) (i32.const 0)) (i32.const 1))
        (call $is (call $get (i32.const 99) (i32.const 0) (i32.const 4) (i32.const 0) (i32.const 0)) (i32.const 2))
        (call $is (call $pairs (i32.const 0) (i32.const 65000) (i32.const 65000)) (i32.const 6))
        (call $is (call $body (i32.const 0) (i32.const 0) (i32.const 0) (i32.const -8) (i32.const 16)) (i32.const 6))
        (call $is (call $shared (i32.const 0) (i32.const -1) (i32.const 0) (i32.const 1) (i32.const 0)) (i32.const 6))
        (call $is (call $call (i32.const 65535) (i32.const 9) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
            (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)) (i32.const 6))
        (call $is (call $reply (i32.const 99) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
            (i32.const 0) (i32.const -1)) (i32.const 2))
        (call $is (call $reply (i32.const 200) (i32.const 0) (i32.const 0) (i32.const 65000) (i32.const 65000) (i32.const 0)
            (i32.const 0) (i32.const -1)) (i32.const 6))
        (call $is (call $random (i32.const 65530) (i32.const 100)) (i32.const 21))
        (call $is (call $write (i32.const 1) (i32.const 65530) (i32.const 1) (i32.const 0)) (i32.const 21))
        (call $is (call $write (i32.const 7) (i32.const 0) (i32.const 1) (i32.const 0)) (i32.const 8))
        (i32.const 0)"#,
    );
    assert_eq!(request("bounds", imports, &code), (None, String::new()));
}

#[test]
fn faulty_allocators_harm_only_their_guest() {
    let allocator = |body: &str| {
        let code = format!(
            r#"(module
            (import "env" "proxy_get_property" (func $get (param i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 1) (data (i32.const 16) "plugin_name")
            (func (export "proxy_abi_version_0_2_1"))
            (func $ask (result i32) (call $get (i32.const 16) (i32.const 11) (i32.const 64) (i32.const 68)))
            (func (export "proxy_on_memory_allocate") (param i32) (result i32) {body})
            {})"#,
            on_head("(if (i32.ne (call $ask) (i32.load (i32.const 0))) (then unreachable)) (i32.const 0)")
        );
        wat::parse_str(code).unwrap()
    };
    let check = |name: &str, body: &str, status: i32, expected: Option<&str>| {
        // The guest compares the status with the number at the address 0, which its allocator writes.
        let body = format!("(i32.store (i32.const 0) (i32.const {status})) {body}");
        run(async {
            let extension = load(name, &allocator(&body)).unwrap();
            let mut scene = Scene::new();
            let plugin = plugin(&extension, &scene, &conf());
            let mut exchange = scene.exchange(GET);
            let reply = end(plugin.access(&mut exchange)).await;
            let why = detail(&exchange);
            match expected {
                None => assert!(reply.is_none(), "{name}: {why}"),
                Some(expected) => assert!(reply.is_some() && why.contains(expected), "{name}: {why}"),
            }
        });
    };
    check("alloc-good", "(i32.const 4096)", 0, None);
    check("alloc-null", "(i32.const 0)", 6, None);
    check("alloc-outside", "(i32.const 65530)", 6, None);
    check("alloc-negative", "(i32.const -4)", 6, None);
    check("alloc-trap", "unreachable", 0, Some("unreachable"));
    check("alloc-nested", "(drop (call $ask)) (i32.const 4096)", 0, None);
    check("alloc-loop", "(loop $again (br $again)) (i32.const 0)", 0, Some("processor time"));
}

#[test]
fn guest_that_fails_again_and_again_is_left_alone() {
    run(async {
        // It traps while the request has the field `x`.
        let imports = "(import \"env\" \"proxy_get_header_map_value\" (func $get (param i32 i32 i32 i32 i32) (result i32)))";
        let code = format!(
            "(data (i32.const 16) \"x\") {}",
            on_head(
                "(if (i32.eqz (call $get (i32.const 0) (i32.const 16) (i32.const 1) (i32.const 0) (i32.const 4))) (then unreachable)) (i32.const 0)"
            )
        );
        let extension = load("again", &module(imports, &code)).unwrap();
        let mut scene = Scene::new();
        let plugin = plugin(&extension, &scene, &conf());
        let mut ask = async |head: &[u8]| {
            let mut exchange = scene.exchange(head);
            let reply = end(plugin.access(&mut exchange)).await;
            let instances = exchange.local().resource(InstancePool::default).instances();
            (reply.map(|reply| reply.status), detail(&exchange), instances)
        };
        let bad = b"GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n\r\n";
        assert_eq!(ask(GET).await, (None, String::new(), 1));
        for _ in 1..FAILURES_MAX {
            let (status, why, instances) = ask(bad).await;
            assert_eq!((status, instances), (Some(500), 0), "{why}");
            assert_eq!(
                ask(GET).await.0,
                None,
                "a new instance is made at once, and a good call makes up for the fault"
            );
        }
        for _ in 0..FAILURES_MAX {
            assert!(ask(bad).await.1.contains("unreachable"));
        }
        let (status, why, _) = ask(GET).await;
        assert_eq!(status, Some(500));
        assert!(why.contains("breaker_open") && why.contains("3 times in a row"), "{why}");
        net::env::sleep_ms(BACKOFF_FIRST_MS + 50).await;
        assert_eq!(ask(GET).await, (None, String::new(), 1));
    });
}

#[test]
fn instances_end_with_their_last_configuration() {
    run(async {
        let extension = load("ends", &module("", &on_head("(i32.const 0)"))).unwrap();
        let mut scene = Scene::new();
        let (first, second) = (plugin(&extension, &scene, &conf()), plugin(&extension, &scene, &conf()));
        for plugin in [&first, &second] {
            assert!(end(plugin.access(&mut scene.exchange(GET))).await.is_none());
        }
        let exchange = scene.exchange(GET);
        let pool = exchange.local().resource(InstancePool::default);
        assert_eq!(pool.instances(), 1, "one for the module");
        drop(first);
        assert!(pool.sweep());
        assert_eq!(pool.instances(), 1);
        drop(second);
        assert!(pool.sweep(), "the module is still loaded");
        assert_eq!(pool.instances(), 0);
        drop(extension);
        assert!(!pool.sweep());
    });
}
