//! Behaviour that an exchange over HTTP/2 shares with HTTP/1: methods, statuses, fields, plugins, variables,
//! refusals.

use serde_json::json;
use testkit::{Origin, Reply, Weir, wait_for, wait_until};

use super::client::{Client, request, request_with};
use super::raw::{self, END_HEADERS, END_STREAM, HEADERS, Raw, frame, get_block, literal};
use crate::support::{BINARY, builder, everything_to, in_front_of, in_front_of_with};

#[test]
fn methods_and_statuses_pass_unchanged() {
    let origin = Origin::start(|request| {
        let status = request.path().trim_start_matches('/').parse().unwrap();
        match status {
            204 | 304 => {
                Reply::raw(format!("HTTP/1.1 {status} X\r\nX-Method: {}\r\n\r\n", request.method).as_bytes())
            }
            _ if request.method == "HEAD" => {
                Reply::raw(b"HTTP/1.1 200 OK\r\nX-Method: HEAD\r\nContent-Length: 77\r\n\r\n")
            }
            _ => Reply::with(status, &[("X-Method", &request.method)], b"body"),
        }
    });
    let weir = in_front_of(&origin);
    let mut client = Client::connect(weir.proxy());
    for (method, status, length, body) in [
        ("GET", 200, Some("4"), "body"),
        ("DELETE", 202, Some("4"), "body"),
        ("PURGE", 404, Some("4"), "body"),
        ("HEAD", 200, Some("77"), ""),
        ("GET", 204, None, ""),
        ("GET", 304, None, ""),
        ("OPTIONS", 503, Some("4"), "body"),
    ] {
        let answer = client.ask(request(method, &format!("/{status}"))).unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (status, body), "{method}");
        assert_eq!(answer.header("x-method"), Some(method));
        assert_eq!(answer.header("content-length"), length, "{method} {status}");
        assert!(answer.header("server").is_some() && answer.header("date").is_some(), "{answer:?}");
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn node_sees_a_request_of_http_1() {
    let origin = Origin::echoing();
    let weir = in_front_of(&origin);
    let fields = [("x-one", "1"), ("cookie", "a=1"), ("cookie", "b=2"), ("te", "trailers")];
    let answer = Client::connect(weir.proxy()).ask(request_with("GET", "/p?q=1", &fields)).unwrap();
    let text = answer.text();
    assert!(text.starts_with("GET /p?q=1 HTTP/1.1\r\nHost: h\r\n"), "{text}");
    for line in
        ["x-one: 1", "cookie: a=1; b=2", "X-Forwarded-Proto: http", "X-Real-IP: 127.0.0.1", "Via: 2 weir"]
    {
        assert!(text.contains(&format!("\r\n{line}\r\n")), "{line} is not in {text}");
    }
    assert!(!text.to_ascii_lowercase().contains("\r\nte:"), "{text}");
    assert_eq!(text.to_ascii_lowercase().matches("\r\nhost:").count(), 1, "{text}");
}

#[test]
fn hop_by_hop_response_fields_stay_behind() {
    let head = b"HTTP/1.1 200 OK\r\nConnection: X-Gone\r\nX-Gone: 1\r\nKeep-Alive: timeout=5\r\nProxy-Connection: x\r\n\
                 X-Kept: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    let origin = Origin::start(move |_| Reply::raw(head));
    let weir = in_front_of(&origin);
    let answer = Client::connect(weir.proxy()).get("/");
    assert_eq!((answer.text().as_str(), answer.header("x-kept")), ("ok", Some("1")));
    for name in ["connection", "x-gone", "keep-alive", "proxy-connection", "transfer-encoding"] {
        assert_eq!(answer.header(name), None, "{name}");
    }
}

#[test]
fn plugins_work_over_http_2() {
    let origin = Origin::answering("hello world");
    let weir = Weir::start(BINARY);
    weir.put("consumers", json!({"username": "jack", "plugins": {"key-auth": {"key": "k"}}}));
    let plugins = json!({
        "key-auth": {},
        "limit-count": {"count": 2, "time_window": 600, "rejected_code": 429, "key": "remote_addr"},
        "response-rewrite": {"filters": [{"regex": "hello", "replace": "good bye"}], "headers": {"set": {"X-Set": "1"}}},
    });
    let upstream = json!({"nodes": {origin.address().to_string(): 1}});
    weir.put("routes/1", json!({"uri": "/*", "plugins": plugins, "upstream": upstream}));
    let mut client = Client::connect(weir.proxy());
    let refused = client.get("/");
    assert_eq!(refused.status, 401, "{}", refused.text());
    for _ in 0..2 {
        let answer = client.ask(request_with("GET", "/", &[("apikey", "k")])).unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (200, "good bye world"));
        assert_eq!(answer.header("x-set"), Some("1"));
    }
    let limited = client.ask(request_with("GET", "/", &[("apikey", "k")])).unwrap();
    assert_eq!(limited.status, 429, "{}", limited.text());
}

#[test]
fn variables_name_the_protocol() {
    let origin = Origin::answering("x");
    let log = "$server_protocol|$http2|$connection_requests|$request|$status|$body_bytes_sent";
    let weir = builder(&everything_to(origin.address(), ""))
        .settings(&format!("access_log: access.log\naccess_log_format: '{log}'\n"))
        .start();
    let mut client = Client::connect(weir.proxy());
    client.get("/one");
    client.get("/two");
    weir.get("/three");
    let lines = [
        "HTTP/2.0|h2c|1|GET /one HTTP/2.0|200|1\n",
        "HTTP/2.0|h2c|2|GET /two HTTP/2.0|200|1\n",
        "HTTP/1.1||1|GET /three HTTP/1.1|200|1\n",
    ];
    wait_for("the requests are in the access log", || {
        let text = std::fs::read_to_string(weir.directory().join("access.log")).ok()?;
        lines.iter().all(|line| text.contains(line)).then_some(())
    });
    // A stream is counted until its exchange has ended, which is after its log line.
    wait_until("the connection is counted, and no stream", || {
        let metrics = testkit::Client::connect(weir.address("metrics")).get("/metrics").text();
        metrics.contains("\nweir_http2_connections 1\n") && metrics.contains("\nweir_http2_streams 0\n")
    });
    let listeners = testkit::Client::connect(weir.address("control")).get("/v1/weir/listeners").text();
    assert!(listeners.contains("http2"), "{listeners}");
}

#[test]
fn refused_requests_get_their_status() {
    let origin = Origin::answering("served");
    let weir = in_front_of_with(&origin, &["--max-body-bytes", "10"]);
    let mut client = Client::connect(weir.proxy());
    let long = "x".repeat(70_000);
    for (request, status) in [
        (request("TRACE", "/"), 405),
        (request_with("GET", "/", &[("expect", "something")]), 417),
        (request_with("GET", "/", &[("x-long", &long)]), 431),
        (request("GET", "/%00"), 400),
        (request("GET", "/"), 200),
    ] {
        let shown = format!("{} {}", request.method(), request.uri());
        let answer = client.ask(request).unwrap();
        assert_eq!(answer.status, status, "{shown}: {}", answer.text());
    }
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn body_with_a_length_over_the_limit_stays_here() {
    let origin = Origin::answering("served");
    let weir = in_front_of_with(&origin, &["--max-body-bytes", "10"]);
    let mut client = Client::connect(weir.proxy());
    let sized = request_with("POST", "/", &[("content-length", "100")]);
    let answer = client.send(sized, &[b'x'; 100], None).unwrap();
    assert_eq!(answer.status, 413, "{}", answer.text());
    assert_eq!(client.get("/").text(), "served");
    assert_eq!((origin.requests().len(), origin.connections()), (1, 1));
}

#[test]
fn body_of_any_length_over_the_limit_is_cut() {
    let origin = Origin::answering("served");
    let weir = in_front_of_with(&origin, &["--max-body-bytes", "10"]);
    let mut client = Client::connect(weir.proxy());
    let answer = client.send(request("POST", "/"), &[b'x'; 100], None).unwrap();
    assert_eq!(answer.status, 413, "{}", answer.text());
    assert_eq!(client.get("/").text(), "served");
    // DATA may arrive after the head has gone to the origin, which then sees a request that is cut.
    wait_until("only the connection of the GET is open", || {
        origin.connections() - origin.closed_connections() == 1
    });
    let whole: Vec<String> = (origin.requests().into_iter())
        .filter(|request| request.body_error.is_none())
        .map(|request| request.method)
        .collect();
    assert_eq!(whole, ["GET"]);
}

#[test]
fn plain_connect_opens_no_tunnel() {
    let origin = Origin::answering("served");
    let weir = in_front_of(&origin);
    let mut peer = Raw::connect(weir.proxy(), &[]);
    let connect =
        [literal(":method", "CONNECT"), literal(":authority", &origin.address().to_string())].concat();
    peer.send(&frame(HEADERS, END_HEADERS, 1, &connect));
    let head = peer.find(|frame| frame.kind == HEADERS).unwrap();
    // 405 is in neither table, so that its digits are literal or Huffman-coded; 200 would be the index 8.
    assert_ne!(head.payload[0], 0x88, "{head:?}");
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn request_without_authority_is_refused() {
    let origin = Origin::answering("served");
    let weir = in_front_of(&origin);
    let mut peer = Raw::connect(weir.proxy(), &[]);
    peer.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0x82, 0x86, 0x84]));
    let head = peer.find(|frame| frame.kind == HEADERS).unwrap();
    assert_eq!(head.payload[0], 0x8c, "400 is index 12 of the static table: {head:?}");
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn http_1_behind_the_preface_is_no_request() {
    let origin = Origin::answering("served");
    let weir = in_front_of(&origin);
    let bytes = [raw::PREFACE, b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"].concat();
    let answer = testkit::raw_exchange(weir.proxy(), &bytes);
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1 "), "{answer:?}");
    // The other way round: a preface behind a request is a request of HTTP/1 that is refused.
    let bytes = [&b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"[..], raw::PREFACE].concat();
    let answer = String::from_utf8(testkit::raw_exchange(weir.proxy(), &bytes)).unwrap();
    assert!(answer.contains("served") && answer.contains("HTTP/1.1 505 "), "{answer}");
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn preface_is_refused_where_http_2_is_off() {
    let origin = Origin::answering("served");
    let weir = builder(&everything_to(origin.address(), "")).settings("http2: false\n").start();
    let text = testkit::raw_exchange(weir.proxy(), &[raw::PREFACE, &frame(4, 0, 0, &[])].concat());
    assert!(text.starts_with(b"HTTP/1.1 505 "), "{}", String::from_utf8_lossy(&text));
    assert_eq!(weir.get("/").status, 200);
}

#[test]
fn preface_may_come_byte_by_byte() {
    let origin = Origin::answering("served");
    let weir = in_front_of(&origin);
    let bytes = [raw::PREFACE, &frame(raw::SETTINGS, 0, 0, &[])].concat();
    for cut in [1, 10, 13, 15, 18, 23, 24, 28] {
        let mut peer = Raw::connect_bare(weir.proxy());
        peer.send(&bytes[..cut]);
        peer.wait_until_read();
        peer.send(&bytes[cut..]);
        peer.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &get_block()));
        let head = peer.find(|frame| frame.kind == HEADERS).unwrap();
        assert_eq!(head.payload[0], 0x88, "cut at {cut}: {head:?}");
    }
}

#[test]
fn browser_gets_pages_of_errors_over_http_2() {
    let weir = builder(&everything_to(Origin::nowhere(), "")).start();
    let mut client = Client::connect(weir.proxy());
    let page = client.ask(request_with("GET", "/", &[("accept", "text/html,*/*;q=0.8")])).unwrap();
    assert_eq!((page.status, page.header("content-type")), (502, Some("text/html; charset=utf-8")));
    let id = page.header("x-request-id").unwrap();
    assert!(page.text().contains(id) && page.text().contains("<h1>Bad Gateway</h1>"), "{}", page.text());
    let head = client.ask(request_with("HEAD", "/", &[("accept", "text/html")])).unwrap();
    assert_eq!((head.status, head.text().as_str()), (502, ""));
    assert!(client.get("/").text().starts_with("{\"error_msg\":\"502 Bad Gateway: connect_failed\""));
    // A call of gRPC has a status of gRPC, whatever it accepts.
    let fields = [("content-type", "application/grpc"), ("te", "trailers"), ("accept", "text/html")];
    let call = client.ask(request_with("POST", "/a.B/C", &fields)).unwrap();
    assert_eq!((call.status, call.header("grpc-status"), call.text().as_str()), (200, Some("14"), ""));
    assert_eq!(call.header("content-type"), Some("application/grpc"));
}
