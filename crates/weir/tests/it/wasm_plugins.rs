//! Plugins in WebAssembly through the real gateway: a filter made with the library for Rust, one made with
//! that for AssemblyScript, and ones that do harm.

use std::path::PathBuf;

use serde_json::{Value, json};
use testkit::{Client, Origin, Reply, Response, Weir, wait_until};

use crate::support::BINARY;

/// A module of the tests.
pub(crate) fn module(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../wasm/tests/fixtures").join(name)
}

/// A gateway with both filters, in front of an origin that answers with `body` and the field `X-Remove-Me`.
struct Stage {
    weir: Weir,
    origin: Origin,
}

fn settings() -> String {
    json!({ "wasm": { "plugins": [
        { "name": "rust-filter", "priority": 7999, "file": module("rust-filter.wasm") },
        { "name": "early-filter", "priority": 1, "file": module("rust-filter.wasm"), "http_request_phase": "rewrite" },
        { "name": "assembly-filter", "priority": 7998, "file": module("assembly-filter.wasm") },
    ] } })
    .to_string()
}

impl Stage {
    fn new() -> Stage {
        let origin = Origin::start(|request| {
            let fields = [("X-Remove-Me", "1"), ("X-Length", &*request.body_length.to_string())];
            Reply::with(200, &fields, b"a secret answer")
        });
        Stage { weir: Weir::builder(BINARY).settings(&settings()).start(), origin }
    }

    fn route(&self, id: &str, plugins: Value) {
        let nodes = json!({ self.origin.address().to_string(): 1 });
        let route = json!({ "uri": format!("/{id}/*"), "upstream": { "nodes": nodes }, "plugins": plugins });
        self.weir.put(&format!("routes/{id}"), route);
    }

    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        self.weir.client().request(method, path, headers, body)
    }

    fn metrics(&self) -> String {
        Client::connect(self.weir.address("metrics")).get("/apisix/prometheus/metrics").text()
    }
}

#[test]
fn filters_change_requests_and_responses() {
    let stage = Stage::new();
    let plugins = json!({
        "rust-filter": { "conf": { "a": 1 } }, "assembly-filter": { "conf": "given" },
    });
    stage.route("a", plugins);
    let response = stage.ask("GET", "/a/x?y", &[("X-Ask", "me")], b"");
    assert_eq!((response.status, &*response.text()), (200, "a ****** answer"));
    assert_eq!(response.header("x-status-seen"), Some("200"));
    assert_eq!(response.header("x-remove-me"), None);
    assert_eq!(response.header("x-answer"), Some("seen 200"));
    let request = stage.origin.last_request();
    assert_eq!(request.header("x-seen"), Some("me"));
    assert_eq!(request.header("x-ask"), None);
    let guests: Vec<&str> = request
        .headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("x-guest"))
        .map(|(_, value)| &**value)
        .collect();
    assert_eq!(guests, ["rust", "assembly given"]);
    assert!(request.header("x-facts").unwrap().starts_with("GET /a/x?y "), "{:?}", request.header("x-facts"));
    let stopped = stage.ask("GET", "/a/x", &[("X-Stop", "1")], b"");
    assert_eq!((stopped.status, &*stopped.text()), (451, "stopped"));
    let replied = stage.ask("GET", "/a/x", &[("X-Do", "reply")], b"");
    assert_eq!(
        (replied.status, &*replied.text(), replied.header("x-why")),
        (403, "no entry\n", Some("asked"))
    );
    assert!(
        stage.metrics().contains("weir_wasm_rust_filter_requests{plugin=\"rust-filter\"} 3"),
        "{}",
        stage.metrics()
    );
}

#[test]
fn bodies_pass_whole_and_in_pieces() {
    let stage = Stage::new();
    stage.route("a", json!({ "rust-filter": { "conf": "x" } }));
    let sent = stage.ask("POST", "/a/", &[], b"one secret word");
    assert_eq!(sent.status, 200);
    assert_eq!(stage.origin.last_request().text(), "one ****** word");
    let refused = stage.ask("POST", "/a/", &[], b"forbidden");
    assert_eq!((refused.status, &*refused.text()), (400, "forbidden word\n"));
    let asked = stage.origin.requests().len();
    let chunked = "POST /a/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\na sec\r\n8\r\nret word\r\n0\r\n\r\n";
    let mut client = stage.weir.client();
    client.send(chunked.as_bytes());
    assert_eq!(client.read_response(false).unwrap().status, 200);
    assert_eq!(stage.origin.wait_for_requests(asked + 1).last().unwrap().text(), "a ****** word");
}

#[test]
fn faults_end_their_request_and_no_other() {
    let stage = Stage::new();
    stage.route("a", json!({ "rust-filter": { "conf": "x" } }));
    stage.route("b", json!({}));
    for what in ["panic", "loop", "grow"] {
        let failed = stage.ask("GET", "/a/", &[("X-Do", what)], b"");
        assert_eq!(failed.status, 500, "{what}: {}", failed.text());
        assert_eq!(stage.ask("GET", "/a/", &[], b"").status, 200, "after {what}");
        assert_eq!(stage.ask("GET", "/b/", &[], b"").status, 200, "beside {what}");
    }
    let metrics = stage.metrics();
    let count = |event: &str| {
        let beginning = format!("weir_plugin_events_total{{plugin=\"rust-filter\",event=\"{event}\"}} ");
        let value = metrics.lines().find_map(|line| line.strip_prefix(&beginning)).unwrap_or("-1");
        value.parse::<i64>().unwrap()
    };
    // Filling its memory may take a guest longer than it has.
    assert!(
        count("trap") >= 1 && count("deadline") >= 1 && count("trap") + count("deadline") == 3,
        "{metrics}"
    );
    let log = stage.weir.stderr().join("\n");
    assert!(log.contains("processor time") && log.contains("asked to"), "{log}");
}

#[test]
fn filter_calls_a_server_without_blocking_others() {
    let stage = Stage::new();
    let go = testkit::Signal::new();
    let waits = go.clone();
    let callee = Origin::start(move |request| {
        assert_eq!(request.header("host"), Some("callee.example"));
        Reply::new().wait(&waits).send("HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nok")
    });
    stage.route("a", json!({ "rust-filter": { "conf": format!("call {}", callee.address()) } }));
    let mut waiting = stage.weir.client();
    waiting.send(b"GET /a/ask HTTP/1.1\r\nHost: a\r\nX-Do: call\r\n\r\n");
    callee.wait_for_requests(1);
    assert_eq!(stage.ask("GET", "/a/", &[], b"").status, 200, "the worker serves others meanwhile");
    go.set();
    assert_eq!(waiting.read_response(false).unwrap().status, 200);
    assert_eq!(stage.origin.last_request().header("x-called"), Some("202 true ok"));
}

#[test]
fn configurations_are_checked_by_schema_and_guest() {
    let stage = Stage::new();
    let put = |plugins: Value| stage.weir.admin("PUT", "routes/1", json!({ "uri": "/", "plugins": plugins }));
    let (status, answer) = put(json!({ "rust-filter": {} }));
    assert_eq!(status, 400, "{answer}");
    assert!(answer["error_msg"].as_str().unwrap().contains("conf"), "{answer}");
    let (status, answer) = put(json!({ "rust-filter": { "conf": "" } }));
    assert_eq!(status, 400, "{answer}");
    let (status, answer) = put(json!({ "rust-filter": { "conf": "refuse" } }));
    assert_eq!(status, 400, "{answer}");
    assert!(answer["error_msg"].as_str().unwrap().contains("refuses its configuration"), "{answer}");
    assert_eq!(put(json!({ "early-filter": { "conf": "x" } })).0, 201);
}

#[test]
fn compiled_code_is_kept_and_checked() {
    let stage = Stage::new();
    let folder = stage.weir.data().join("wasm-cache");
    let kept = || {
        let files = std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path());
        let mut files: Vec<PathBuf> =
            files.filter(|path| path.extension().is_some_and(|end| end == "cwasm")).collect();
        files.sort();
        files
    };
    let files = kept();
    assert_eq!(files.len(), 2, "one for each content");
    for file in &files {
        let mut bytes = std::fs::read(file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0xff;
        std::fs::write(file, bytes).unwrap();
    }
    let origin = stage.origin.address();
    let weir = stage.weir.restart();
    let nodes = json!({ origin.to_string(): 1 });
    let plugins = json!({ "rust-filter": { "conf": "x" } });
    weir.put("routes/1", json!({ "uri": "/*", "upstream": { "nodes": nodes }, "plugins": plugins }));
    assert_eq!(weir.get("/").status, 200);
    assert_eq!(kept(), files, "faulty code was made anew");
    let log = weir.stderr().join("\n");
    assert!(log.contains("faulty or old"), "{log}");
}

#[test]
fn module_that_does_not_fit_ends_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("faulty.wasm");
    std::fs::write(&path, b"\0asm\x01\0\0\0").unwrap();
    let settings = json!({ "wasm": { "plugins": [{ "name": "faulty", "priority": 1, "file": path }] } });
    let exited = Weir::builder(BINARY).settings(&settings.to_string()).try_start().err().unwrap();
    let report = format!("{exited:?}");
    assert!(report.contains("faulty.wasm") && report.contains("proxy_abi_version"), "{report}");
}

#[test]
fn memory_of_a_module_returns_when_nothing_uses_it() {
    let stage = Stage::new();
    stage.route("a", json!({ "rust-filter": { "conf": "tick" } }));
    assert_eq!(stage.ask("GET", "/a/", &[], b"").status, 200);
    let maps =
        || std::fs::read_to_string(format!("/proc/{}/maps", stage.weir.pid())).unwrap().lines().count();
    let with = maps();
    stage.weir.delete("routes/a");
    wait_until("the mappings of the instance are gone", || maps() < with);
}

#[test]
#[allow(clippy::print_stdout, reason = "a skipped test says so")]
fn refused_executable_memory_names_the_remedy() {
    // As `MemoryDenyWriteExecute` of a unit does it (prctl(2), PR_SET_MDWE); status 75 where the kernel has
    // no such call.
    let script = "import ctypes, os, sys\n\
         if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0): sys.exit(75)\n\
         os.execv(sys.argv[1], sys.argv[1:])";
    let check = std::process::Command::new("python3")
        .args(["-c", script, BINARY, "plugin", "check"])
        .arg(module("rust-filter.wasm"))
        .output()
        .unwrap();
    if check.status.code() == Some(75) {
        println!("skipped, because the kernel has no PR_SET_MDWE");
        return;
    }
    let fault = String::from_utf8_lossy(&check.stderr);
    assert_eq!(check.status.code(), Some(1), "{fault}");
    assert!(fault.contains("cannot be made executable") && fault.contains("plugin-runner.conf"), "{fault}");
}
