//! Requests that two parsers could read differently, or that are too large: each is refused, the connection
//! is closed, and the origin gets none of it (RFC 9112; the numbers are those of the project's hardening
//! list).

use testkit::{Client, Origin, Weir, raw_exchange};

use crate::support::{in_front_of, in_front_of_with};

/// The request after every refused request: it must never be answered, nor reach the origin.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n";

/// Sends `request` followed by another one; the gateway must answer once, with `status`, and close.
fn refused(weir: &Weir, request: &str, status: u16) {
    let answer = raw_exchange(weir.proxy(), format!("{request}{SMUGGLED}").as_bytes());
    let answer = String::from_utf8_lossy(&answer);
    let shown = &request[..request.len().min(200)];
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{shown:?}: {answer}");
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{shown:?}: {answer}");
    // A connection of HTTP/1.0 ends without a word.
    let says_close = answer.contains("\r\nConnection: close\r\n") || request.contains(" HTTP/1.0\r\n");
    assert!(says_close, "{shown:?}: {answer}");
}

/// Checks a table of requests that are refused with a status before any of them reaches the origin.
fn all_refused(cases: &[(&str, u16)]) {
    let origin = Origin::answering("");
    let weir = in_front_of(&origin);
    for (request, status) in cases {
        refused(&weir, request, *status);
    }
    assert_eq!(origin.connections(), 0, "{:?}", origin.requests());
    assert_eq!(weir.get("/after").status, 200, "the gateway goes on");
}

#[test]
fn request_lines() {
    all_refused(&[
        ("\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (" GET / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET /  HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET / a HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET /\r\nHost: h\r\n\r\n", 400),
        ("GET / HTTP/1.1 \r\nHost: h\r\n\r\n", 400),
        ("GET / http/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET / HTTP/1.10\r\nHost: h\r\n\r\n", 400),
        ("GET / HTTP/01.1\r\nHost: h\r\n\r\n", 400),
        ("GET / HTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("G(T / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET a HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET /\u{0}a HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET /\u{7f} HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET /a%00b HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET /a%0ab HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET /a%zz HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505),
        ("GET / HTTP/1.2\r\nHost: h\r\n\r\n", 505),
        ("GET / HTTP/3.0\r\nHost: h\r\n\r\n", 505),
        ("PRI * HTTP/2.0\r\nHost: h\r\n\r\n", 505),
    ]);
}

#[test]
fn a_refused_head_request_is_answered_without_a_body() {
    let origin = Origin::answering("");
    let weir = in_front_of(&origin);
    let long = "a".repeat(9_000);
    let fields = "A: b\r\n".repeat(101);
    let cases = [
        (" / HTTP/1.1\r\nHost: h\r\nA : b\r\n\r\n".to_owned(), 400),
        (" / HTTP/1.1\r\n\r\n".to_owned(), 400),
        (" /\0 HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), 400),
        (format!(" /{long} HTTP/1.1\r\nHost: h\r\n\r\n"), 414),
        (format!(" / HTTP/1.1\r\nHost: h\r\n{fields}\r\n"), 431),
        (" / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n".to_owned(), 501),
        (" / HTTP/2.0\r\nHost: h\r\n\r\n".to_owned(), 505),
    ];
    for (rest, status) in cases {
        for (method, has_body) in [("GET", true), ("HEAD", false), ("\r\nHEAD", false), ("HEADS", true)] {
            let request = format!("{method}{rest}");
            refused(&weir, &request, status);
            let answer = raw_exchange(weir.proxy(), request.as_bytes());
            let answer = String::from_utf8_lossy(&answer);
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert_eq!(!body.is_empty(), has_body, "{method} {status}: {answer}");
            assert!(!head.contains("Content-Length: 0"), "as long as the answer to GET: {method} {head}");
        }
    }
}

#[test]
fn unsupported_methods_and_targets_are_refused() {
    all_refused(&[
        ("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n", 405),
        ("CONNECT /a HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("TRACE / HTTP/1.1\r\nHost: h\r\n\r\n", 405),
        ("GET example.com:80 HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET * HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET ftp://h/ HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET http:///a HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET http://u@h/ HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    ]);
}

#[test]
fn hosts() {
    all_refused(&[
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: u@h\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: h/a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: h:port\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: h:99999\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: h h\r\n\r\n", 400),
        ("GET http://a/ HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    ]);
}

#[test]
fn lengths_and_codings() {
    let mut cases = Vec::new();
    // Hardening 1: both, in either order.
    for fields in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 0\r\nTransfer-Encoding: chunked",
    ] {
        cases.push((format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n0\r\n\r\n"), 400));
    }
    // Hardening 2: lengths that are not one plain number.
    for value in [
        "",
        "-1",
        "+5",
        "0x5",
        "5.0",
        "5 5",
        "5, 5",
        "5,6",
        "1e1",
        "5;a",
        "٥",
        "5_0",
        "18446744073709551616",
        "99999999999999999999999",
    ] {
        cases.push((format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {value}\r\n\r\nabcde"), 400));
    }
    for pair in ["Content-Length: 5\r\nContent-Length: 6", "Content-Length: 5\r\ncontent-length: 5"] {
        cases.push((format!("POST / HTTP/1.1\r\nHost: h\r\n{pair}\r\n\r\nabcde"), 400));
    }
    // Hardening 3: anything but one final chunked.
    for (value, status) in [
        ("identity", 400),
        ("chunked, chunked", 400),
        ("chunked, gzip", 400),
        ("\u{b}chunked", 400),
        ("", 400),
        ("gzip, chunked", 501),
        ("gzip", 501),
        ("xchunked", 501),
        ("chunked;a=b", 400),
        ("\"chunked\"", 400),
    ] {
        let head = format!("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: {value}\r\n\r\n0\r\n\r\n");
        cases.push((head, status));
    }
    let twice = "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked";
    cases.push((format!("POST / HTTP/1.1\r\nHost: h\r\n{twice}\r\n\r\n0\r\n\r\n"), 400));
    cases.push(("POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(), 400));
    let cases: Vec<(&str, u16)> = cases.iter().map(|(request, status)| (request.as_str(), *status)).collect();
    all_refused(&cases);
}

#[test]
fn field_lines() {
    let mut cases = Vec::new();
    // Hardening 4 and 11: names and values that parsers split in different ways.
    for line in [
        "Content-Length : 5",
        "Content-Length\t: 5",
        " Content-Length: 5",
        "Content-\u{b}Length: 5",
        "A\u{0}: 1",
        "A\u{85}: 1",
        "A: a\u{0}b",
        "A: a\rb",
        "A: a\u{1}b",
        "A: a\u{7f}b",
        "A: a\r\n folded",
        "A: a\r\n\tfolded",
        "A(b): 1",
        ": 1",
        "A",
        "A b: 1",
        "A\"b: 1",
        "A: 1\nB: 2",
    ] {
        cases.push(format!("POST / HTTP/1.1\r\nHost: h\r\n{line}\r\n\r\n"));
    }
    cases.push("GET / HTTP/1.1\r\n Host: h\r\n\r\n".to_owned());
    let cases: Vec<(&str, u16)> = cases.iter().map(|request| (request.as_str(), 400)).collect();
    all_refused(&cases);
}

#[test]
fn chunks_never_become_a_whole_request() {
    let origin = Origin::answering("");
    let weir = in_front_of(&origin);
    let mut cases = Vec::new();
    // Hardening 5.
    for size in [
        "0x5",
        "+5",
        "-5",
        "5_0",
        "5.",
        "5xyz",
        "5 5",
        "",
        " 5",
        "5 ",
        "5\t",
        "00000000000000005",
        "1FFFFFFFFFFFFFFFF",
        "g",
        "5\n",
        "5\r",
        "5;a\nb",
        "5;a\rb",
        "5;\u{0}",
    ] {
        cases.push(format!("{size}\r\nabcde\r\n0\r\n\r\n"));
    }
    for body in
        ["5\nabcde\r\n0\r\n\r\n", "5\r\nabcde\n0\r\n\r\n", "5\r\nabcdeX\r\n0\r\n\r\n", "5\r\nabcde0\r\n\r\n"]
    {
        cases.push(body.to_owned());
    }
    for trailer in ["A: b\n", "A : b\r\n", "A: a\rb\r\n", "A: \u{0}\r\n", "A\r\n", " A: b\r\n", ": b\r\n"] {
        cases.push(format!("1\r\na\r\n0\r\n{trailer}\r\n"));
    }
    // Hardening 6.
    cases.push(format!("1;{}\r\na\r\n0\r\n\r\n", "e".repeat(17 * 1024)));
    cases.push(format!("1\r\na\r\n0\r\nA: {}\r\n\r\n", "t".repeat(17 * 1024)));
    cases.push(format!("1\r\na\r\n0\r\n{}\r\n", "A: b\r\n".repeat(101)));
    for body in &cases {
        refused(
            &weir,
            &format!("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{body}"),
            400,
        );
    }
    for request in origin.requests() {
        assert!(request.body_error.is_some(), "the origin took it for whole: {request:?}");
    }
}

#[test]
fn trailers_that_would_change_the_request_are_dropped() {
    let origin = Origin::answering("");
    let weir = in_front_of(&origin);
    let mut client = weir.client();
    client.send(
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;ext=\"v\"\r\na\r\n0\r\nX-Sum: 1\r\n\
          Content-Length: 9\r\nTransfer-Encoding: chunked\r\nHost: evil\r\nAuthorization: x\r\nCookie: a=1\r\n\
          Connection: close\r\n\r\n",
    );
    assert_eq!(client.read_response(false).unwrap().status, 200);
    assert_eq!(origin.last_request().trailers, [("X-Sum".to_owned(), "1".to_owned())]);
    assert_eq!(client.get("/").status, 200, "the connection goes on");
}

#[test]
fn heads_that_are_too_large() {
    let long = "a".repeat(8 * 1024);
    let half = "a".repeat(4 * 1024);
    all_refused(&[
        (&format!("GET /{long} HTTP/1.1\r\nHost: h\r\n\r\n"), 414),
        (&format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "A: b\r\n".repeat(101)), 431),
        (&format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", format!("A: {half}\r\n").repeat(17)), 431),
    ]);
    let origin = Origin::answering("");
    let weir = in_front_of_with(&origin, &["--max-head-bytes", "1024", "--max-header-line-bytes", "256"]);
    refused(&weir, &format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "a".repeat(256)), 414);
    refused(&weir, &format!("GET / HTTP/1.1\r\nHost: h\r\nA: {}\r\n\r\n", "a".repeat(1024)), 431);
    assert_eq!(origin.connections(), 0);
}

#[test]
fn a_head_without_end_is_cut_at_the_limit() {
    let origin = Origin::answering("");
    let weir = in_front_of(&origin);
    for (start, piece, status) in [
        ("GET /", "a", "414"),
        ("GET / HTTP/1.1\r\nHost: h\r\nA: ", "a", "431"),
        ("GET / HTTP/1.1\r\n", "A: b\r\n", "431"),
    ] {
        let mut client = Client::connect(weir.proxy());
        client.send(start.as_bytes());
        // The gateway stops reading long before this ends, so that its kernel may refuse the rest.
        let _ = client.try_send(piece.repeat(1024 * 1024 / piece.len()).as_bytes());
        let answer = client.read_to_end();
        assert!(
            answer.starts_with(format!("HTTP/1.1 {status} ").as_bytes()),
            "{start:?}: {}",
            String::from_utf8_lossy(&answer)
        );
    }
}

#[test]
fn half_a_head_is_no_request() {
    let origin = Origin::answering("");
    let weir = in_front_of(&origin);
    for part in ["G", "GET / HTTP/1.1\r\nHost: h", "GET / HTTP/1.1\r\nHost: h\r\n"] {
        let mut client = weir.client();
        client.send(part.as_bytes());
        client.finish_sending();
        let answer = client.read_to_end();
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400 "), "{part:?}");
    }
    assert_eq!(origin.connections(), 0);
}

#[test]
fn a_slow_head_is_cut() {
    let origin = Origin::answering("");
    let weir = in_front_of_with(&origin, &["--head-timeout-ms", "100", "--idle-timeout-ms", "150"]);
    let mut client = weir.client();
    client.send(b"GET / HTTP/1.1\r\nHost:");
    let answer = client.read_to_end();
    assert!(answer.starts_with(b"HTTP/1.1 408 "), "{}", String::from_utf8_lossy(&answer));
    assert!(weir.client().closes_cleanly(), "a client that sends nothing gets nothing");
    let mut idle = weir.client();
    assert_eq!(idle.get("/").status, 200);
    assert!(idle.closes_cleanly(), "an idle connection ends in silence");
}
