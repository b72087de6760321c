//! gzip, brotli and zstd through the real gateway. Bodies are decoded by curl with the libraries of their
//! authors, and by the program gzip.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testkit::{Origin, Reply, Response, Signal, Step, Weir};

use crate::support::BINARY;

const CODINGS: [(&str, &str); 3] = [("gzip", "gzip"), ("brotli", "br"), ("zstd", "zstd")];

/// A body in JSON of about this many bytes.
fn document(bytes: usize) -> String {
    let mut items = Vec::new();
    let mut length = 0;
    while length < bytes {
        let number = items.len();
        let item =
            format!("{{\"id\": {number}, \"name\": \"item {}\", \"price\": {}}}", number % 97, number * 13);
        length += item.len() + 2;
        items.push(item);
    }
    format!("[{}]", items.join(", "))
}

/// An origin that answers `/N` with a document of about N bytes, and `/chunked/N` with the same in chunks of
/// 1,000 bytes.
fn documents() -> Origin {
    Origin::start(|request| {
        let number = request.path().rsplit('/').next().and_then(|digits| digits.parse().ok());
        let body = document(number.unwrap_or(100));
        if !request.path().starts_with("/chunked/") {
            let headers =
                [("Content-Type", "application/json"), ("ETag", "\"v1\""), ("Accept-Ranges", "bytes")];
            return Reply::with(200, &headers, body.as_bytes());
        }
        let mut message =
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                .to_vec();
        for chunk in body.as_bytes().chunks(1_000) {
            message.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
            message.extend_from_slice(chunk);
            message.extend_from_slice(b"\r\n");
        }
        message.extend_from_slice(b"0\r\n\r\n");
        Reply::raw(&message)
    })
}

/// Puts a route for every path to `origin` with these plugins.
fn put(weir: &Weir, origin: &Origin, plugins: Value) {
    let nodes = json!({origin.address().to_string(): 1});
    weir.put("routes/1", json!({"uri": "/*", "upstream": {"nodes": nodes}, "plugins": plugins}));
}

fn json_bodies() -> Value {
    json!({"types": ["application/json"], "vary": true})
}

fn all_codings() -> Value {
    json!({"gzip": json_bodies(), "brotli": json_bodies(), "zstd": json_bodies()})
}

/// The decoded body that curl gets, and how many bytes it received for it.
fn curl(weir: &Weir, path: &str, coding: &str, more: &[&str]) -> (String, usize) {
    let url = format!("http://{}{path}", weir.proxy());
    let accept = format!("Accept-Encoding: {coding}");
    let run = Command::new("curl")
        .args(["-sS", "--max-time", "20", "--compressed", "-w", "\n%{size_download}", "-H", &accept])
        .args(more)
        .arg(url)
        .output()
        .unwrap();
    assert!(run.status.success(), "{path} {coding} {more:?}: {}", String::from_utf8_lossy(&run.stderr));
    let text = String::from_utf8(run.stdout).unwrap();
    let (body, size) = text.rsplit_once('\n').unwrap();
    (body.to_owned(), size.parse().unwrap())
}

/// The output of `gzip -dc` for `coded`, which may be cut.
fn gunzip(coded: &[u8]) -> String {
    let mut run = Command::new("gzip")
        .arg("-dc")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The pipe takes what these tests write, so that nothing waits for a reader.
    run.stdin.take().unwrap().write_all(coded).unwrap();
    let mut text = String::new();
    run.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    run.wait().unwrap();
    text
}

fn get(weir: &Weir, path: &str, accept: &str) -> Response {
    weir.client().request("GET", path, &[("Accept-Encoding", accept)], b"")
}

#[test]
fn other_decoders_read_every_coding() {
    let (weir, origin) = (Weir::start(BINARY), documents());
    put(&weir, &origin, all_codings());
    for (_, coding) in CODINGS {
        for path in ["/300", "/30000", "/400000", "/chunked/300", "/chunked/30000"] {
            let expected = document(path.rsplit('/').next().unwrap().parse().unwrap());
            for version in ["--http1.1", "--http2-prior-knowledge"] {
                let (body, size) = curl(&weir, path, coding, &[version]);
                assert!(body == expected, "{path} {coding} {version}: {} bytes", body.len());
                assert!(size < expected.len() * 3 / 4, "{path} {coding} {version}: {size} bytes");
            }
        }
    }
    let coded = get(&weir, "/30000", "gzip").body;
    assert!(gunzip(&coded) == document(30_000));
}

#[test]
fn coded_response_has_the_fields_of_its_coding() {
    let (weir, origin) = (Weir::start(BINARY), documents());
    put(&weir, &origin, all_codings());
    for (accept, coding) in [
        ("gzip", "gzip"),
        ("br", "br"),
        ("zstd", "zstd"),
        ("gzip, deflate, br", "br"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip;q=0.9, br;q=0.5", "gzip"),
        ("*", "zstd"),
    ] {
        let response = get(&weir, "/3000", accept);
        let field = |name: &str| response.header(name);
        assert_eq!((response.status, field("content-encoding")), (200, Some(coding)), "{accept}");
        assert_eq!((field("etag"), field("content-length")), (Some("W/\"v1\""), None), "{accept}");
        assert_eq!((field("accept-ranges"), response.header_all("vary").len()), (None, 1), "{accept}");
    }
    for accept in ["identity", "", "gzip;q=0"] {
        let response = get(&weir, "/3000", accept);
        let field = |name: &str| response.header(name);
        assert_eq!((field("content-encoding"), field("etag")), (None, Some("\"v1\"")), "{accept}");
        assert_eq!(field("content-length"), Some(document(3_000).len().to_string().as_str()), "{accept}");
        assert_eq!(response.header_all("vary"), ["Accept-Encoding"], "{accept}");
    }
    // The fields of a HEAD are those of the GET.
    let head = weir.client().request("HEAD", "/3000", &[("Accept-Encoding", "gzip")], b"");
    let field = |name: &str| head.header(name);
    assert_eq!((field("content-encoding"), field("etag")), (Some("gzip"), Some("W/\"v1\"")));
    assert_eq!((field("content-length"), head.text().as_str()), (None, ""));
}

#[test]
fn event_is_decoded_before_the_next_one_is_made() {
    let weir = Weir::start(BINARY);
    for (plugin, coding) in CODINGS {
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            let next = Signal::new();
            let go = next.clone();
            let origin = Origin::start(move |_| {
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
                let reply = Reply::new().send(head).send("9\r\ndata: 1\n\n\r\n").wait(&go);
                reply.send("9\r\ndata: 2\n\n\r\n0\r\n\r\n")
            });
            put(&weir, &origin, json!({plugin: {"types": "*"}}));
            let mut run = Command::new("curl")
                .args(["-sSN", "--max-time", "20", "--compressed", version])
                .args(["-H", &format!("Accept-Encoding: {coding}"), &format!("http://{}/", weir.proxy())])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
            assert_eq!(lines.next().unwrap().unwrap(), "data: 1", "{plugin} {version}");
            next.set();
            let rest: Vec<String> = lines.map(Result::unwrap).collect();
            assert_eq!(rest, ["", "data: 2", ""], "{plugin} {version}");
            assert!(run.wait().unwrap().success());
        }
    }
}

#[test]
fn body_is_coded_behind_editors_cache_and_loggers() {
    let (weir, server) = (Weir::start(BINARY), Origin::answering(""));
    let origin = documents();
    let plugins = json!({
        "gzip": json_bodies(),
        "proxy-cache": {"cache_strategy": "memory", "cache_zone": "memory_cache", "cache_ttl": 60},
        "response-rewrite": {"filters": [{"regex": "item", "replace": "thing", "scope": "global"}]},
        "http-logger": {
            "uri": format!("http://{}/", server.address()), "batch_max_size": 1, "include_resp_body": true,
        },
    });
    put(&weir, &origin, plugins);
    let expected = document(3_000).replace("item", "thing");
    for (number, (accept, status)) in
        [("gzip", "MISS"), ("gzip", "HIT"), ("identity", "HIT"), ("gzip", "HIT")].into_iter().enumerate()
    {
        let response = get(&weir, "/3000", accept);
        assert_eq!(response.header("apisix-cache-status"), Some(status), "{accept}");
        let is_coded = response.header("content-encoding") == Some("gzip");
        assert_eq!(is_coded, accept == "gzip");
        let body = if is_coded { gunzip(&response.body) } else { response.text() };
        assert!(body == expected, "{accept}: {body}");
        let entry: Value =
            serde_json::from_slice(&server.wait_for_requests(number + 1)[number].body).unwrap();
        assert_eq!(entry["response"]["body"], json!(expected), "{accept}");
    }
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn replies_of_plugins_are_coded_as_whole() {
    let weir = Weir::start(BINARY);
    let origin = Origin::answering("never asked");
    let body = document(200_000);
    let mocking = json!({"content_type": "application/json", "response_example": body});
    put(&weir, &origin, json!({"mocking": mocking, "gzip": json_bodies()}));
    let response = get(&weir, "/", "gzip");
    assert_eq!(response.header("content-encoding"), Some("gzip"));
    assert_eq!(response.header("content-length"), Some(response.body.len().to_string().as_str()));
    assert!(gunzip(&response.body).trim_end() == body);
}

#[test]
fn client_that_leaves_harms_no_later_response() {
    let weir = Weir::start(BINARY);
    let (begun, go) = (Signal::new(), Signal::new());
    let (has_begun, goes) = (begun.clone(), go.clone());
    let origin = Origin::start(move |request| {
        if request.path() != "/cut" {
            return Reply::with(200, &[("Content-Type", "application/json")], document(30_000).as_bytes());
        }
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n";
        let reply = Reply::new().send(head).send(document(20_000)).then(Step::Set(has_begun.clone()));
        reply.wait(&goes).close()
    });
    put(&weir, &origin, json!({"gzip": json_bodies()}));
    for _ in 0..4 {
        let mut client = weir.client();
        client.send(b"GET /cut HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
        assert!(begun.wait());
        drop(client);
        assert!(gunzip(&get(&weir, "/", "gzip").body) == document(30_000));
    }
    go.set();
}
