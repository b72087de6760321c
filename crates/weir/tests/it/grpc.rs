//! gRPC through the gateway, with the client and the server of grpcio. `lab/install.sh test` puts it under
//! `target/`.

mod interop;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::{Value, json};
use testkit::{Authority, Weir, wait_until};

use crate::clients::python;
use crate::support::BINARY;

/// Checks of the client that any gateway has to pass.
const CHECKS: [&str; 10] = [
    "unary",
    "metadata",
    "client_stream",
    "server_stream",
    "bidi_stream",
    "big_messages",
    "errors",
    "early_answer",
    "cancelled",
    "many_at_once",
];

/// The server. It ends with this value, when its input is closed.
pub(crate) struct Server {
    port: u16,
    process: Child,
    input: Option<ChildStdin>,
}

impl Server {
    pub(crate) fn start(arguments: &[&str]) -> Server {
        let mut process = Command::new(python())
            .arg(script("server.py"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().expect("the server tells its port");
        let input = process.stdin.take();
        Server { port, process, input }
    }
}

impl Server {
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.process.wait();
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/grpc").join(name)
}

/// Runs these checks of the client against the gateway.
fn check(weir: &Weir, checks: &[&str]) {
    let run = Command::new(python())
        .arg(script("client.py"))
        .arg(weir.proxy().to_string())
        .args(checks)
        .output()
        .unwrap();
    let (printed, failed) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{printed}{failed}");
}

/// Sets the route of the service to an upstream.
pub(crate) fn set(weir: &Weir, upstream: Value, plugins: Value) {
    weir.put("routes/g", json!({"uri": "/test.Echo/*", "upstream": upstream, "plugins": plugins}));
}

pub(crate) fn node(server: &Server) -> String {
    format!("localhost:{}", server.port)
}

#[test]
fn calls_pass_in_cleartext_and_over_tls() {
    let (authority, folder) = (Authority::new("trusted"), tempfile::tempdir().unwrap());
    let identity = authority.pair(&["localhost"]);
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (chain, key) = (write("chain.pem", &identity.certificate), write("key.pem", &identity.key));
    let trusted = write("authority.pem", authority.pem());
    let weir = Weir::builder(BINARY).arguments(&["--trusted-certificates", &trusted]).start();
    let (clear, encrypted) = (Server::start(&[]), Server::start(&[&chain, &key]));
    set(&weir, json!({"scheme": "grpc", "nodes": {node(&clear): 1}}), json!({}));
    check(&weir, &CHECKS);
    let upstream = json!({
        "scheme": "grpcs",
        "nodes": {node(&encrypted): 1},
        "pass_host": "node",
        "tls": {"verify": true},
    });
    set(&weir, upstream, json!({}));
    check(&weir, &CHECKS);
}

#[test]
fn deadline_of_the_client_ends_the_call() {
    let server = Server::start(&[]);
    let format = "$grpc_status $weir_cause $weir_detail";
    let log = ["--access-log", "stdout", "--access-log-format", format];
    let weir = Weir::builder(BINARY).arguments(&log).start();
    set(&weir, json!({"scheme": "grpc", "nodes": {node(&server): 1}}), json!({}));
    check(&weir, &["deadlines"]);
    wait_until("the log names the status of the call that succeeded", || {
        weir.stdout().iter().any(|line| line == "0 - -")
    });
}

#[test]
fn failures_reach_the_client_as_statuses() {
    let server = Server::start(&[]);
    let weir = Weir::builder(BINARY).arguments(&["--grpc-max-message-bytes", "1000"]).start();
    check(&weir, &["no_route"]);
    let nowhere = testkit::Origin::nowhere().to_string();
    set(&weir, json!({"scheme": "grpc", "nodes": {nowhere: 1}}), json!({}));
    check(&weir, &["unavailable"]);
    let upstream = json!({"scheme": "grpc", "nodes": {node(&server): 1}});
    set(&weir, upstream.clone(), json!({}));
    check(&weir, &["message_too_large"]);
    set(&weir, upstream.clone(), json!({"key-auth": {}}));
    check(&weir, &["unauthenticated"]);
    set(&weir, upstream, json!({"ip-restriction": {"blacklist": ["127.0.0.0/8"]}}));
    check(&weir, &["permission_denied"]);
}

#[test]
fn call_over_http1_is_refused() {
    let server = Server::start(&[]);
    let weir = Weir::start(BINARY);
    set(&weir, json!({"scheme": "grpc", "nodes": {node(&server): 1}}), json!({}));
    let fields = [("Content-Type", "application/grpc"), ("TE", "trailers")];
    let response = weir.client().request("POST", "/test.Echo/Unary", &fields, b"\0\0\0\0\0");
    assert_eq!(response.status, 505);
    assert!(response.text().contains("gRPC needs HTTP/2"), "{}", response.text());
}
