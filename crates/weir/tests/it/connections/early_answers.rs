//! Answers before the request was sent whole, to a client that sends all of it before it reads; and requests
//! that get no answer at all (status 444).

use testkit::{Client, Origin, Reply, Weir, raw_exchange, wait_for};

use crate::http2;
use crate::support::{builder, gateway};

/// A body that no buffer of the kernel on the way holds.
const BODY_BYTES: usize = 24 * 1024 * 1024;

/// Sends a whole request with a body of [`BODY_BYTES`], and reads then.
fn send_then_read(client: &mut Client, path: &str, is_chunked: bool) -> u16 {
    let framing = match is_chunked {
        true => "Transfer-Encoding: chunked".to_owned(),
        false => format!("Content-Length: {BODY_BYTES}"),
    };
    client.send(format!("POST {path} HTTP/1.1\r\nHost: h\r\n{framing}\r\n\r\n").as_bytes());
    let piece = vec![b'a'; 64 * 1024];
    for _ in 0..BODY_BYTES / piece.len() {
        if is_chunked {
            client.send(b"10000\r\n");
        }
        client.send(&piece);
        if is_chunked {
            client.send(b"\r\n");
        }
    }
    if is_chunked {
        client.send(b"0\r\n\r\n");
    }
    client.read_response(false).unwrap().status
}

fn early_routes(origin: &Origin) -> String {
    let node = origin.address();
    format!(
        "routes:\n\
         - {{id: '1', uri: /key, plugins: {{key-auth: {{}}}}, upstream: {{nodes: {{'{node}': 1}}}}}}\n\
         - {{id: '2', uri: /large, plugins: {{client-control: {{max_body_size: 10}}}}, upstream: {{nodes: {{'{node}': 1}}}}}}\n\
         - {{id: '3', uri: /mock, plugins: {{mocking: {{response_status: 403, response_example: 'no'}}}}, \
              upstream: {{nodes: {{'{node}': 1}}}}}}\n\
         - {{id: '4', uri: /node, upstream: {{nodes: {{'{node}': 1}}}}}}\n"
    )
}

/// A node that answers behind the head of a request and closes.
fn early_origin() -> Origin {
    Origin::on_accept(|_| {
        Reply::raw(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").close()
    })
}

#[test]
fn early_answer_is_seen_by_a_client_that_sends_first() {
    let origin = early_origin();
    let weir = gateway(&early_routes(&origin));
    for (path, status) in [("/key", 401), ("/large", 413), ("/mock", 403), ("/none", 404), ("/node", 413)] {
        for is_chunked in [false, true] {
            if is_chunked && path == "/large" {
                continue;
            }
            let got = send_then_read(&mut weir.client(), path, is_chunked);
            assert_eq!(got, status, "{path}, chunked {is_chunked}");
        }
    }
}

#[test]
fn lingering_is_bounded_by_settings() {
    let origin = early_origin();
    for settings in [["--client-linger-time-ms", "1"], ["--max-lingering-connections", "0"]] {
        let weir = builder(&early_routes(&origin)).arguments(&settings).start();
        let mut client = weir.client();
        client.send(b"POST /key HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n");
        let piece = vec![b'a'; 64 * 1024];
        let refused = (0..1_000_000_000 / piece.len()).any(|_| client.try_send(&piece).is_err());
        assert!(refused, "{settings:?}: the rest was read");
        assert_eq!(weir.get("/key").status, 401);
    }
}

fn silent_routes() -> &'static str {
    "routes:\n\
     - {id: '1', uri: /fault, plugins: {fault-injection: {abort: {http_status: 444, body: 'no'}}}}\n\
     - {id: '2', uri: /exit, plugins: {serverless-pre-function: {functions: ['return function() ngx.exit(444) end']}}}\n\
     - {id: '3', uri: /core, plugins: {serverless-pre-function: {functions: \
          ['return function() require(\"apisix.core\").response.exit(444, \"no\") end']}}}\n\
     - {id: '4', uri: /mock, plugins: {mocking: {response_status: 444, response_example: 'no'}}}\n\
     - {id: '5', uri: /fine, plugins: {mocking: {response_status: 200, response_example: 'fine'}}}\n"
}

fn logging() -> Weir {
    let log =
        ["--access-log", "stdout", "--access-log-format", "logged $request_uri $status $body_bytes_sent"];
    builder(silent_routes()).arguments(&log).start()
}

#[test]
fn status_444_is_no_answer() {
    let weir = logging();
    for path in ["/fault", "/exit", "/core", "/mock"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
        let answer = raw_exchange(weir.proxy(), request.as_bytes());
        assert!(answer.is_empty(), "{path}: {}", String::from_utf8_lossy(&answer));
        let line = format!("logged {path} 444 0");
        wait_for(&line, || weir.stdout().into_iter().find(|logged| *logged == line));
        let mut http2 = http2::client::Client::connect(weir.proxy());
        let answer = http2.ask(http2::client::request("GET", path));
        assert!(answer.as_ref().is_err_and(h2::Error::is_reset), "{path} over HTTP/2: {answer:?}");
        assert_eq!(http2.get("/fine").status, 200, "{path}: other streams go on");
    }
}
