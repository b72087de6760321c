//! The interop tests of gRPC: client and server of grpc-go, which `lab/install.sh test` installs.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use testkit::Weir;

use crate::support::BINARY;

/// The cases of the client that need no credentials of a cloud and no name service.
const CASES: [&str; 16] = [
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "custom_metadata",
    "unimplemented_method",
    "unimplemented_service",
    "rpc_soak",
    "channel_soak",
];

/// A program that is built for the tests.
fn tool(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/test-go/bin").join(name);
    assert!(path.exists(), "{} is not there; run lab/install.sh test", path.display());
    path
}

/// The server; it is killed with this value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the server; its port is in the first line of its log.
fn start_server() -> (Server, u16) {
    let mut process = Command::new(tool("server"))
        .args(["-port", "0"])
        .env("GRPC_GO_LOG_SEVERITY_LEVEL", "info")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let log = BufReader::new(process.stderr.take().unwrap());
    let server = Server(process);
    let mut lines = log.lines();
    let port = lines.by_ref().find_map(|line| {
        let line = line.unwrap();
        let address = line.split_once("listening on ")?.1.trim().to_owned();
        address.rsplit_once(':')?.1.parse().ok()
    });
    // The log is read to its end, so that the server never waits for a reader.
    std::thread::spawn(move || lines.for_each(drop));
    (server, port.expect("the server logs its address"))
}

#[test]
fn interop_cases_of_grpc_go_pass() {
    let (_server, port) = start_server();
    let weir = Weir::start(BINARY);
    let upstream = json!({"scheme": "grpc", "nodes": {format!("127.0.0.1:{port}"): 1}});
    // A service that the server does not have is asked for as well.
    weir.put("routes/g", json!({"uri": "/grpc.testing.*", "upstream": upstream}));
    for case in CASES {
        let proxy = weir.proxy();
        let run = Command::new(tool("client"))
            .args(["-server_host", &proxy.ip().to_string(), "-server_port", &proxy.port().to_string()])
            .args(["-test_case", case])
            .output()
            .unwrap();
        assert!(run.status.success(), "{case}: {}", String::from_utf8_lossy(&run.stderr));
    }
}
