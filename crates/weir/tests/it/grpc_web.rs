//! gRPC-Web through the gateway: the client is the npm package `grpc-web`, the server that of grpcio.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use testkit::{Origin, Response, Weir};

use crate::grpc::{Server, node};
use crate::http2::client::{Client, request_with};
use crate::support::BINARY;

/// A gateway with a route for calls below `/grpc/web`.
fn scene(server: &Server) -> Weir {
    let weir = Weir::start(BINARY);
    weir.put(
        "routes/1",
        json!({
            "uri": "/grpc/web/*",
            "plugins": {"grpc-web": {"max_req_body_size": 200_000}},
            "upstream": {"scheme": "grpc", "nodes": {node(server): 1}},
        }),
    );
    weir
}

/// The frame of a message.
fn frame(message: &str) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0][..], &length, message.as_bytes()].concat()
}

fn ends_with_status(body: &[u8], status: &str) -> bool {
    String::from_utf8_lossy(body).ends_with(&format!("{status}\r\n"))
}

#[test]
fn browser_client_calls_through_the_gateway() {
    let server = Server::start(&[]);
    let weir = scene(&server);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let modules = root.join("target/test-node/node_modules");
    assert!(modules.join("grpc-web").exists(), "grpc-web is not there; run lab/install.sh test");
    let run = Command::new(root.join("target/test-node/node"))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/grpc_web/client.cjs"))
        .arg(format!("http://{}/grpc/web", weir.proxy()))
        .env("NODE_PATH", modules)
        .output()
        .unwrap();
    let (printed, failed) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && printed.ends_with("done\n"), "{printed}{failed}");
}

#[test]
fn call_over_http2_has_trailers_in_its_body() {
    let server = Server::start(&[]);
    let weir = scene(&server);
    let fields = [("content-type", "application/grpc-web+proto"), ("echo-trailing-sum", "7")];
    let mut client = Client::connect(weir.proxy());
    let request = request_with("POST", "/grpc/web/test.Echo/Unary", &fields);
    let answer = client.send(request, &frame("hello"), None).unwrap();
    assert_eq!(answer.status, 200);
    assert!(answer.body.starts_with(&frame("hello")), "{:?}", answer.body);
    let trailers = "\u{80}\0\0\0:grpc-status:0\r\ngrpc-message:\r\necho-trailing-sum:7\r\n";
    let trailers: Vec<u8> = trailers.chars().map(|char| char as u8).collect();
    assert_eq!(answer.body[frame("hello").len()..][..5], [0x80, 0, 0, 0, trailers.len() as u8 - 5]);
    assert_eq!(answer.body[frame("hello").len() + 5..], trailers[5..]);
    assert!(answer.trailers.is_none_or(|trailers| trailers.is_empty()), "they are in the body only");
}

#[test]
fn preflights_and_wrong_requests_are_answered() {
    let server = Server::start(&[]);
    let weir = scene(&server);
    let path = "/grpc/web/test.Echo/Unary";
    let check = |method: &str, content_type: &str, body: &[u8], status: u16| -> Response {
        let response = weir.client().request(method, path, &[("Content-Type", content_type)], body);
        assert_eq!(response.status, status, "{method} {content_type}");
        assert_eq!(response.header("access-control-allow-origin"), Some("*"), "{method} {content_type}");
        let exposed = response.header("access-control-expose-headers");
        assert_eq!(exposed, Some("grpc-message,grpc-status"), "{method} {content_type}");
        response
    };
    let preflight = check("OPTIONS", "", b"", 204);
    assert_eq!(preflight.header("access-control-allow-methods"), Some("POST"));
    let allowed = preflight.header("access-control-allow-headers");
    assert_eq!(allowed, Some("content-type,x-grpc-web,x-user-agent"));
    check("GET", "", b"", 405);
    check("POST", "application/json", b"{}", 400);
    check("POST", "application/grpc-web-text", b"no base64!", 400);
    check("POST", "application/grpc-web", &vec![0; 200_001], 400);
    let good = check("POST", "application/grpc-web", &frame("hello"), 200);
    assert_eq!(good.header("content-type"), Some("application/grpc-web"));
    assert!(good.body.starts_with(&frame("hello")) && ends_with_status(&good.body, "grpc-message:"));
    // The texts of a client that encodes piece by piece.
    let texts = b"AAAAAA==BWhlbGxv";
    let text = check("POST", "application/grpc-web-text", texts, 200);
    assert!(text.body.starts_with(b"AAAAAAVoZWxsbw=="), "{}", text.text());
}

#[test]
fn failed_upstream_keeps_status_and_says_it_in_grpc() {
    let nowhere = Origin::nowhere().to_string();
    let html = Origin::answering("<html>");
    let weir = Weir::start(BINARY);
    let put = |scheme: &str, node: String| {
        weir.put(
            "routes/1",
            json!({
                "uri": "/test.Echo/*",
                "plugins": {"grpc-web": {}, "cors": {"allow_origins": "http://good.example"}},
                "upstream": {"scheme": scheme, "nodes": {node: 1}},
            }),
        );
    };
    let ask = |origin: &str| {
        let fields = [("Content-Type", "application/grpc-web"), ("Origin", origin)];
        weir.client().request("POST", "/test.Echo/Unary", &fields, &frame("hello"))
    };
    put("grpc", nowhere);
    let failed = ask("http://good.example");
    assert_eq!((failed.status, failed.header("content-type")), (502, Some("application/grpc-web")));
    assert_eq!(failed.header("access-control-allow-origin"), Some("http://good.example"));
    assert!(
        ends_with_status(&failed.body, "grpc-status:14\r\ngrpc-message:Bad Gateway"),
        "{}",
        failed.text()
    );
    // The origin that `cors` does not allow is not allowed by this plugin.
    assert_eq!(ask("http://evil.example").header("access-control-allow-origin"), None);
    put("http", html.address().to_string());
    let other = ask("http://good.example");
    let expected = "grpc-status:2\r\ngrpc-message:upstream grpc status not received";
    assert!(ends_with_status(&other.body, expected), "{}", other.text());
    assert!(!other.text().contains("html"), "a page is no message of the call");
}
