//! Requests and responses over HTTP/3: bodies, trailers, plugins, local replies, variables.

use http::{HeaderMap, HeaderValue};
use serde_json::json;
use testkit::{Origin, Reply, TlsClient, wait_until};

use super::client::request;
use super::{scene, settled};
use crate::{grpc, grpc_transcode};

#[test]
fn get_is_answered_and_named_in_variables() {
    let origin = Origin::echoing();
    let scene = scene(&origin, &["--access-log-format", "$server_protocol $http3 $status $ssl_protocol"]);
    let variables = "$server_protocol $http3 $http2. $scheme $ssl_protocol $ssl_cipher $ssl_server_name \
                     $ssl_alpn_protocol $ssl_client_verify $remote_addr";
    let plugins = json!({"proxy-rewrite": {"headers": {"set": {"X-Facts": variables}}}});
    let upstream = json!({"nodes": {origin.address().to_string(): 1}});
    scene.weir.put("routes/1", json!({"uri": "/*", "plugins": plugins, "upstream": upstream}));
    settled(&scene.weir);
    let mut client = scene.client();
    let answer = client.get("/path?query=1");
    assert_eq!(answer.status, 200);
    let text = answer.text();
    let facts = "X-Facts: HTTP/3.0 h3 . https TLSv1.3 TLS_AES_256_GCM_SHA384 a.example h3 NONE 127.0.0.1";
    for expected in [facts, "GET /path?query=1 HTTP/1.1", "Host: a.example", "X-Forwarded-Proto: https"] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
    assert!(!text.contains("Transfer-Encoding"), "a GET has no body: {text}");
    assert_eq!(scene.metric("weir_http3_connections"), 1);
}

#[test]
fn requests_without_body_have_no_unknown_length() {
    let origin = Origin::echoing();
    let scene = scene(&origin, &[]);
    let mut client = scene.client();
    for (method, length) in
        [("POST", Some("0")), ("PUT", Some("0")), ("PATCH", Some("0")), ("DELETE", None), ("GET", None)]
    {
        let answer = client.ask(request(method, "/", &[]), b"", None).unwrap();
        assert_eq!(answer.status, 200);
        let asked = origin.last_request();
        let framing = (asked.header("content-length"), asked.header("transfer-encoding"));
        assert_eq!(framing, (length, None), "{method}");
    }
}

#[test]
fn bodies_of_one_megabyte_pass_unchanged() {
    let origin = Origin::start(|request| Reply::ok(&String::from_utf8_lossy(&request.body)));
    let scene = scene(&origin, &[]);
    let body: String = (0..1_000_000_u32).map(|index| char::from(b'a' + (index / 7 % 26) as u8)).collect();
    let mut client = scene.client();
    for length in [Some(body.len().to_string()), None] {
        let fields: Vec<_> = length.iter().map(|length| ("content-length", length.as_str())).collect();
        let answer = client.ask(request("POST", "/", &fields), body.as_bytes(), None).unwrap();
        assert_eq!((answer.status, answer.body.len()), (200, body.len()));
        assert!(answer.body == body.as_bytes(), "the body has changed");
    }
    assert!(scene.metric("weir_http3_batches_sent_total") > 0, "the kernel takes batches (UDP_SEGMENT)");
}

#[test]
fn translated_calls_end_with_their_trailers() {
    let server = grpc::Server::start(&[]);
    let scene = scene(&Origin::answering(""), &[]);
    scene.weir.put("protos/1", json!({"content": grpc_transcode::PROTO}));
    grpc_transcode::route(&scene.weir, "json", &grpc::node(&server), json!({}), json!({}));
    let upstream = json!({"scheme": "grpc", "nodes": {grpc::node(&server): 1}});
    let web = json!({"uri": "/web/*", "plugins": {"grpc-web": {}}, "upstream": upstream});
    scene.weir.put("routes/web", web);
    settled(&scene.weir);
    let mut client = scene.client();
    let json = client.get("/json/x?text=a");
    assert_eq!((json.status, json.text().contains("\"text\":\"a\"")), (200, true), "{}", json.text());
    assert_eq!(json.trailers.unwrap().get("grpc-status").unwrap(), "0");
    let fields = [("content-type", "application/grpc-web")];
    let call = request("POST", "/web/test.Echo/Unary", &fields);
    let web = client.ask(call, b"\0\0\0\0\x05hello", None).unwrap();
    assert!(web.text().ends_with("grpc-status:0\r\ngrpc-message:\r\n"), "{}", web.text());
    assert!(web.trailers.is_none_or(|trailers| trailers.is_empty()), "they are in the body only");
}

#[test]
fn trailers_pass_both_ways() {
    let origin = Origin::start(|request| {
        let seen = format!("{:?}", request.trailers);
        Reply::chunked(&[&seen], &[("X-Sum", "7")])
    });
    let scene = scene(&origin, &[]);
    let mut trailers = HeaderMap::new();
    trailers.insert("x-count", HeaderValue::from_static("3"));
    let answer = scene.client().ask(request("POST", "/", &[]), b"abc", Some(trailers)).unwrap();
    assert!(answer.text().to_lowercase().contains("x-count"), "{}", answer.text());
    assert_eq!(answer.trailers.unwrap()["x-sum"], "7");
}

#[test]
fn plugins_decide_as_for_other_protocols() {
    let origin = Origin::answering("served");
    let scene = scene(&origin, &[]);
    let upstream = json!({"nodes": {origin.address().to_string(): 1}});
    scene.weir.put("consumers/jack", json!({"username": "jack", "plugins": {"key-auth": {"key": "secret"}}}));
    let limit = json!({"count": 2, "time_window": 600, "rejected_code": 429, "key": "remote_addr"});
    scene.weir.put(
        "routes/2",
        json!({"uri": "/guarded", "plugins": {"key-auth": {}, "limit-count": limit}, "upstream": upstream}),
    );
    settled(&scene.weir);
    let mut client = scene.client();
    assert_eq!(client.get("/guarded").status, 401);
    let mut with_key = || client.ask(request("GET", "/guarded", &[("apikey", "secret")]), b"", None).unwrap();
    assert_eq!([with_key().status, with_key().status, with_key().status], [200, 200, 429]);
}

#[test]
fn local_replies_leave_the_connection_usable() {
    let origin = Origin::answering("served");
    let scene = scene(&origin, &["--max-body-bytes", "1000"]);
    scene.weir.delete("routes/1");
    let upstream = json!({"nodes": {origin.address().to_string(): 1}});
    scene.weir.put("routes/1", json!({"uri": "/here", "upstream": upstream}));
    settled(&scene.weir);
    let mut client = scene.client();
    assert_eq!(client.get("/elsewhere").status, 404);
    let many: Vec<(String, &str)> = (0..150).map(|number| (format!("x-{number}"), "1")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let answer = client.ask(request("GET", "/here", &many), b"", None);
    assert_eq!(answer.unwrap().status, 431);
    let answer = client.ask(request("POST", "/here", &[("content-length", "5000")]), &[7; 5000], None);
    assert_eq!(answer.unwrap().status, 413);
    let answer = client.get("/here");
    assert_eq!((answer.status, answer.text().as_str()), (200, "served"));
    let head = client.ask(request("HEAD", "/here", &[]), b"", None).unwrap();
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, Some("6"), 0));
}

#[test]
fn response_that_is_cut_never_looks_complete() {
    let origin = Origin::start(|_| {
        Reply::raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nonly a part").close()
    });
    let scene = scene(&origin, &[]);
    let answer = scene.client().ask(request("GET", "/", &[]), b"", None);
    assert!(answer.is_err(), "{answer:?}");
}

#[test]
fn alt_svc_is_sent_over_tls_where_http3_is_served() {
    let origin = Origin::answering("served");
    for (argument, expected) in
        [("auto", None), ("off", Some("")), ("h3=\":443\"; ma=60", Some("h3=\":443\"; ma=60"))]
    {
        let scene = scene(&origin, &["--http3-alt-svc", argument]);
        let port = scene.address().port();
        let auto = format!("h3=\":{port}\"; ma=86400");
        let expected = expected.unwrap_or(&auto);
        let tls = TlsClient::new(scene.authority.pem(), "a.example");
        let answer = tls.get(scene.address(), "a.example", "/").unwrap();
        let line = answer.text.lines().find_map(|line| line.strip_prefix("Alt-Svc: ")).unwrap_or_default();
        assert_eq!((answer.status(), line), (200, expected));
        // Plain HTTP and HTTP/3 itself do not announce it.
        assert_eq!(scene.weir.get("/").header("alt-svc"), None);
        assert_eq!(scene.client().get("/").header("alt-svc"), None);
    }
}

#[test]
fn access_log_has_a_line_for_each_request() {
    let origin = Origin::answering("served");
    let scene =
        scene(&origin, &["--access-log", "stdout", "--access-log-format", "log $request $status $http3"]);
    let mut client = scene.client();
    client.get("/one");
    client.get("/two");
    wait_until("both lines are written", || {
        let lines = scene.weir.stdout();
        ["log GET /one HTTP/3.0 200 h3", "log GET /two HTTP/3.0 200 h3"]
            .iter()
            .all(|line| lines.iter().any(|one| one == line))
    });
}

#[test]
fn upstream_learns_when_the_client_gives_up() {
    let (asked, go) = (testkit::Signal::new(), testkit::Signal::new());
    let origin = crate::support::lasting_origin(&asked, &go);
    let scene = scene(&origin, &["--access-log", "stdout", "--access-log-format", "log $uri $weir_cause"]);
    let mut client = scene.client();
    let mut stream = client.start(request("GET", "/slow", &[]));
    client.run(async { stream.finish().await.unwrap() });
    client.runs_until("the node is asked", || asked.is_set());
    stream.stop_sending(h3::error::Code::H3_REQUEST_CANCELLED);
    client.run(async { drop(stream) });
    client.runs_until("the exchange has ended", || {
        scene.weir.stdout().iter().any(|line| line == "log /slow client_gone")
    });
    go.set();
    assert_eq!(client.get("/next").status, 200);
}

#[test]
fn browser_gets_pages_of_errors_over_http_3() {
    let scene = scene(&Origin::answering(""), &[]);
    scene.weir.delete("routes/1");
    settled(&scene.weir);
    let mut client = scene.client();
    let page = client.ask(request("GET", "/", &[("accept", "text/html,*/*;q=0.8")]), b"", None).unwrap();
    assert_eq!((page.status, page.header("content-type")), (404, Some("text/html; charset=utf-8")));
    assert!(page.text().contains(page.header("x-request-id").unwrap()), "{}", page.text());
    assert_eq!(client.get("/").text(), "{\"error_msg\":\"404 Route Not Found\"}\n");
}
