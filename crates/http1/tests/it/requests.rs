//! Tables of request heads: what is refused with which error, and what the accepted ones mean.
#![allow(clippy::unwrap_used)]

use http1::{HeadError, HeadStatus, RequestFraming, RequestWire, TargetForm, parse_request};
use message::{FieldId, HeadLimits, Method, RequestHead, Version};

/// A head with what it says of its connection.
#[derive(Debug, Clone, Default)]
struct Parsed {
    head: RequestHead,
    wire: RequestWire,
}

impl Parsed {
    fn parse(&mut self, input: &[u8], limits: &HeadLimits) -> Result<HeadStatus, HeadError> {
        parse_request(input, &mut self.head, &mut self.wire, limits)
    }
}

impl std::ops::Deref for Parsed {
    type Target = RequestHead;

    fn deref(&self) -> &RequestHead {
        &self.head
    }
}

fn parse(input: &[u8]) -> Result<Parsed, HeadError> {
    let mut head = Parsed::default();
    match head.parse(input, &HeadLimits::default())? {
        HeadStatus::Complete { head_bytes } => assert_eq!(head_bytes, input.len()),
        HeadStatus::Partial => panic!("incomplete: {}", input.escape_ascii()),
    }
    Ok(head)
}

/// A request of version 1.1 to `/` with Host and these lines.
fn with(lines: &str) -> Result<Parsed, HeadError> {
    parse(format!("POST / HTTP/1.1\r\nHost: h\r\n{lines}\r\n").as_bytes())
}

fn check(input: impl AsRef<[u8]>, expected: HeadError, status: u16) {
    let input = input.as_ref();
    assert_eq!(parse(input).err(), Some(expected), "{}", input.escape_ascii());
    assert_eq!(expected.status(), status);
    assert!(!expected.reason().is_empty());
}

fn refuse(lines: &str, expected: HeadError, status: u16) {
    check(format!("POST / HTTP/1.1\r\nHost: h\r\n{lines}\r\n"), expected, status);
}

#[test]
fn an_ordinary_request() {
    let head = parse(
        b"GET /a/b?c=d&e HTTP/1.1\r\nHost: h.example:8080\r\nX-One:  1 \t\r\nx-one:2\r\nEmpty:\r\n\r\n",
    )
    .unwrap();
    assert_eq!(
        (head.method, head.version, head.wire.form),
        (Method::Get, Version::Http11, TargetForm::Origin)
    );
    assert_eq!((head.path(), head.query()), (&b"/a/b"[..], Some(&b"c=d&e"[..])));
    assert_eq!((head.authority(), head.target_text()), (&b"h.example:8080"[..], &b"/a/b?c=d&e"[..]));
    assert_eq!((head.wire.framing, head.wire.keep_alive), (RequestFraming::None, true));
    assert_eq!(head.headers.get_all("X-ONE").collect::<Vec<_>>(), [b"1", b"2"]);
    assert_eq!((head.headers.get("empty"), head.headers.len()), (Some(&b""[..]), 4));
    assert!(!head.wire.expect_continue && head.upgrade_text().is_none());
    let head = parse(b"\r\nPROPFIND /? HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(
        (head.method, head.method_text(), head.version),
        (Method::Other, &b"PROPFIND"[..], Version::Http10)
    );
    assert_eq!((head.path(), head.query(), head.authority()), (&b"/"[..], Some(&b""[..]), &b""[..]));
    assert!(!head.wire.keep_alive);
}

#[test]
fn start_lines() {
    for line in [
        "GET /",
        "GET",
        "GET  / HTTP/1.1",
        " GET / HTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET / HTTP/1.1 x",
        "GET\t/ HTTP/1.1",
        "G(T / HTTP/1.1",
        "G\0T / HTTP/1.1",
        "GET / http/1.1",
        "GET / HTTP/11",
        "GET / HTTP/1.",
        "GET / HTTP/0.9",
        "GET / FTP/1.1",
        "GET /a b HTTP/1.1",
        "GET / HTTP/1.10",
        "\u{e9} / HTTP/1.1",
        "\x16\x03\x01",
    ] {
        let input = format!("{line}\r\nHost: h\r\n\r\n");
        let error = parse(input.as_bytes()).err();
        assert_eq!(error.map(HeadError::status), Some(400), "{line:?} {error:?}");
    }
    for version in ["HTTP/2.0", "HTTP/1.2", "HTTP/3.0", "HTTP/9.9", "HTTP/1.9"] {
        check(format!("GET / {version}\r\nHost: h\r\n\r\n"), HeadError::Version, 505);
    }
    check("PRI * HTTP/2.0\r\n\r\n", HeadError::Version, 505);
    check("\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", HeadError::EmptyLines, 400);
    check("\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", HeadError::EmptyLines, 400);
    check("\rGET / HTTP/1.1\r\nHost: h\r\n\r\n", HeadError::EmptyLines, 400);
}

#[test]
fn line_ends() {
    for input in [
        "GET / HTTP/1.1\nHost: h\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\n\n",
        "GET / HTTP/1.1\r\nHost: h\nA: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\n\n",
        "GET / HTTP/1.1\n\n",
    ] {
        check(input, HeadError::LineEnd, 400);
    }
    for lines in ["A: b\rc\r\n", "A: b\r\r\n", "A: b\r C: d\r\n"] {
        assert_eq!(with(lines).err().map(HeadError::status), Some(400), "{lines:?}");
    }
}

#[test]
fn fields() {
    for line in [
        "A : b",
        ": b",
        " A: b",
        "\tA: b",
        "A b: c",
        "A",
        "A\0: b",
        "A\x0b: b",
        "A\u{85}: b",
        "A(: b",
        "\u{e9}: b",
        "Content-Length : 5",
    ] {
        refuse(&format!("{line}\r\n"), HeadError::FieldName, 400);
    }
    for fold in ["A: b\r\n c\r\n", "A: b\r\n\tc\r\n", "A:\r\n b\r\n"] {
        refuse(fold, HeadError::FieldName, 400);
    }
    for value in ["\0", "a\0b", "\x0b", "\x1b[0m", "\x7f", "a\x01"] {
        refuse(&format!("A: {value}\r\n"), HeadError::FieldValue, 400);
    }
    // Obsolete text is opaque data (RFC 9110 section 5.5): clients do send UTF-8.
    assert_eq!(with("A: caf\u{e9}\tx\r\n").unwrap().headers.get("a"), Some("caf\u{e9}\tx".as_bytes()));
}

#[test]
fn framing() {
    assert_eq!(with("Content-Length: 0\r\n").unwrap().wire.framing, RequestFraming::Length(0));
    assert_eq!(with("content-length: 00012\r\n").unwrap().wire.framing, RequestFraming::Length(12));
    assert_eq!(with("Transfer-Encoding: chunked\r\n").unwrap().wire.framing, RequestFraming::Chunked);
    assert_eq!(with("transfer-encoding:CHUNKED \r\n").unwrap().wire.framing, RequestFraming::Chunked);
    let longest = RequestFraming::Length(i64::MAX as u64);
    assert_eq!(with("Content-Length: 9223372036854775807\r\n").unwrap().wire.framing, longest);
    for value in [
        "",
        "+5",
        "-5",
        "0x5",
        "5.0",
        "5,5",
        "5, 5",
        "5 5",
        "5;",
        "abc",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "5\t5",
        "\u{665}",
    ] {
        refuse(&format!("Content-Length: {value}\r\n"), HeadError::ContentLength, 400);
    }
    refuse("Content-Length: 5\r\nContent-Length: 5\r\n", HeadError::ContentLengthRepeated, 400);
    refuse("Content-Length: 5\r\ncontent-length: 6\r\n", HeadError::ContentLengthRepeated, 400);
    refuse("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", HeadError::LengthAndCoding, 400);
    refuse("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", HeadError::LengthAndCoding, 400);
    for value in [
        "",
        "identity",
        "chunked, chunked",
        "chunked,gzip",
        "chunked, identity",
        "gzip, identity",
        "chunked,",
        ",chunked",
        "chunked;q=1",
        "\"chunked\"",
        "chun ked",
        "chunked x",
        "gzip, chunked, chunked",
        "chunked, gzip, chunked",
        "gzip, chunked;a",
    ] {
        refuse(&format!("Transfer-Encoding: {value}\r\n"), HeadError::TransferEncoding, 400);
    }
    for value in ["gzip", "xchunked", "chunkedx", "gzip, chunked", "gzip;q=1, chunked"] {
        refuse(&format!("Transfer-Encoding: {value}\r\n"), HeadError::TransferCodingUnknown, 501);
    }
    refuse("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", HeadError::TransferEncoding, 400);
    refuse("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", HeadError::TransferEncoding, 400);
    check("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", HeadError::TransferEncodingVersion, 400);
}

#[test]
fn hosts() {
    check("GET / HTTP/1.1\r\n\r\n", HeadError::HostMissing, 400);
    check("GET http://h/ HTTP/1.1\r\n\r\n", HeadError::HostMissing, 400);
    check("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", HeadError::HostRepeated, 400);
    check("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", HeadError::HostRepeated, 400);
    check("GET http://h/ HTTP/1.1\r\nHost:\r\n\r\n", HeadError::Host, 400);
    for host in [
        "u@h", "h/p", "h:", "h:x", "h:99999", "[::1", "h h", "h?q", "h#f", "::1", "[::1]x", "h\\x",
        "h,\u{e9}", "a, b",
    ] {
        check(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), HeadError::Host, 400);
    }
    for host in ["h", "H.example:1", "[::1]:80", "127.0.0.1", "xn--a.b", "a_b"] {
        let head = parse(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
        assert_eq!(head.authority(), host.as_bytes());
    }
    assert_eq!(parse(b"GET / HTTP/1.1\r\nHost:\r\n\r\n").unwrap().authority(), b"");
}

#[test]
fn targets() {
    let table = [
        ("GET /", TargetForm::Origin, "/", None, "h"),
        ("GET //a/../b?x?y", TargetForm::Origin, "//a/../b", Some("x?y"), "h"),
        ("GET http://a:1/p?q", TargetForm::Absolute, "/p", Some("q"), "a:1"),
        ("GET HtTp://a", TargetForm::Absolute, "/", None, "a"),
        ("GET https://a?q", TargetForm::Absolute, "/", Some("q"), "a"),
        ("OPTIONS *", TargetForm::Asterisk, "*", None, "h"),
        ("OPTIONS /", TargetForm::Origin, "/", None, "h"),
        ("CONNECT a:443", TargetForm::Authority, "a:443", None, "a:443"),
    ];
    for (start, form, path, query, authority) in table {
        let head = parse(format!("{start} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).unwrap();
        assert_eq!((head.wire.form, head.path()), (form, path.as_bytes()), "{start}");
        assert_eq!(
            (head.query(), head.authority()),
            (query.map(str::as_bytes), authority.as_bytes()),
            "{start}"
        );
    }
    for start in [
        "GET *",
        "GET a:443",
        "GET a",
        "GET ftp://a/",
        "CONNECT /",
        "CONNECT a",
        "CONNECT http://a/",
        "GET http:/a",
        "GET ?q",
    ] {
        check(format!("{start} HTTP/1.1\r\nHost: h\r\n\r\n"), HeadError::Target, 400);
    }
    for start in ["GET http://", "GET http:///p", "GET http://u@a/", "GET http://a:x/", "GET http://[::1/"] {
        check(format!("{start} HTTP/1.1\r\nHost: h\r\n\r\n"), HeadError::Host, 400);
    }
    for target in [&b"/#f"[..], b"/a\x7f", b"/\xc3\xa9", b"/a\tb", b"/\x01", b"/\0"] {
        let input = [b"GET ", target, b" HTTP/1.1\r\nHost: h\r\n\r\n"].concat();
        assert_eq!(parse(&input).err().map(HeadError::status), Some(400), "{}", target.escape_ascii());
    }
}

#[test]
fn connections() {
    for (version, lines, keep_alive) in [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: Keep-Alive, CLOSE\r\n", false),
        ("1.1", "Connection: x\r\nConnection: close\r\n", false),
        ("1.0", "", false),
        ("1.0", "Connection: keep-alive\r\n", true),
        ("1.0", "Connection: keep-alive, close\r\n", false),
    ] {
        let head = parse(format!("GET / HTTP/{version}\r\nHost: h\r\n{lines}\r\n").as_bytes()).unwrap();
        assert_eq!(head.wire.keep_alive, keep_alive, "{version} {lines}");
    }
    refuse("Connection: a b\r\n", HeadError::Connection, 400);
    refuse(&format!("Connection: {}\r\n", "close,".repeat(101)), HeadError::Connection, 400);
    let upgrade = |text: &str| parse(text.as_bytes()).unwrap().upgrade_text().map(<[u8]>::to_vec);
    let lines = "Host: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n";
    assert_eq!(upgrade(&format!("GET / HTTP/1.1\r\n{lines}")).as_deref(), Some(&b"websocket"[..]));
    assert_eq!(upgrade(&format!("GET / HTTP/1.0\r\n{lines}")), None);
    assert_eq!(upgrade("GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\r\n"), None);
    assert_eq!(upgrade("GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\n\r\n"), None);
}

#[test]
fn expectations() {
    for (version, lines, expect_continue) in [
        ("1.1", "Expect: 100-continue\r\n", true),
        ("1.1", "expect: 100-Continue\r\n", true),
        ("1.0", "Expect: 100-continue\r\n", false),
        ("1.1", "Expect: 100-continue, x\r\n", false),
        ("1.1", "Expect: \r\n", false),
        ("1.1", "Expect: 100-continue\r\nExpect: x\r\n", false),
    ] {
        let head = parse(format!("PUT / HTTP/{version}\r\nHost: h\r\n{lines}\r\n").as_bytes()).unwrap();
        assert_eq!(head.wire.expect_continue, expect_continue, "{version} {lines}");
    }
}

/// The field lines an encoder sends on.
fn forwarded(lines: &str) -> String {
    let mut out = Vec::new();
    http1::encode::fields(&mut out, &with(lines).unwrap().headers);
    String::from_utf8(out).unwrap()
}

#[test]
fn hop_by_hop_fields_stay_behind() {
    let own = "Connection: close\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\nProxy-Authorization: x\r\nTE: trailers\r\n\
               Transfer-Encoding: chunked\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\nProxy-Authenticate: x\r\n";
    assert_eq!(forwarded(own), "Host: h\r\n");
    assert_eq!(
        forwarded("X-A: 1\r\nConnection:\tx-b ,, X-A\r\nX-B: 2\r\nX-C: 3\r\n"),
        "Host: h\r\nX-C: 3\r\n"
    );
    assert_eq!(forwarded("X-A: 1\r\nConnection: close\r\nConnection: x-a\r\n"), "Host: h\r\n");
    let kept = "X-Forwarded-For: a\r\nCookie: b\r\nAuthorization: c\r\nContent-Length: 1\r\nX-Real-IP: d\r\n";
    let nominated = "Connection: X-Forwarded-For, Host, Cookie, Authorization, Content-Length, X-Real-IP\r\n";
    assert_eq!(forwarded(&format!("{nominated}{kept}")), format!("Host: h\r\n{kept}"));
}

#[test]
fn gateway_fields_are_sent_despite_nomination() {
    let mut head = with("X-A: 1\r\nConnection: x-a\r\n").unwrap();
    assert_eq!(head.headers.get("x-a"), Some(&b"1"[..]));
    head.head.headers.set("X-A", b"2").unwrap();
    head.head.headers.set_known(FieldId::Host, b"new").unwrap();
    head.head.headers.append("Via", b"1.1 w").unwrap();
    let mut out = Vec::new();
    http1::encode::fields(&mut out, &head.headers);
    assert_eq!(out, b"Host: new\r\nX-A: 2\r\nVia: 1.1 w\r\n");
}

#[test]
fn sizes() {
    let limits = HeadLimits { max_head_bytes: 200, max_line_bytes: 50, max_fields: 3 };
    let run = |input: String| Parsed::default().parse(input.as_bytes(), &limits);
    let line = |path: usize| format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "a".repeat(path));
    // "GET / HTTP/1.1" has 14 bytes.
    assert!(matches!(run(line(36)), Ok(HeadStatus::Complete { .. })));
    assert_eq!(run(line(37)), Err(HeadError::LineTooLong));
    assert_eq!(run(line(3000)), Err(HeadError::LineTooLong));
    assert_eq!(run(format!("GET /{}", "a".repeat(49))), Err(HeadError::LineTooLong));
    assert_eq!(run(format!("GET / HTTP/1.1\r\nA: {}", "a".repeat(200))), Err(HeadError::HeadTooLarge));
    assert_eq!(
        run(format!("GET / HTTP/1.1\r\nHost: h\r\nA: {}\r\n\r\n", "a".repeat(200))),
        Err(HeadError::HeadTooLarge)
    );
    assert!(matches!(
        run("GET / HTTP/1.1\r\nA: 1\r\nHost: h\r\nB: 2\r\nC: 3\r\n\r\n".into()),
        Ok(HeadStatus::Complete { .. })
    ));
    for fields in ["Host: h\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: 4", "A: 1\r\nB: 2\r\nC: 3\r\nD: 4"] {
        assert_eq!(
            run(format!("GET / HTTP/1.1\r\n{fields}\r\n\r\n")),
            Err(HeadError::TooManyFields),
            "{fields}"
        );
    }
    assert_eq!(
        (
            HeadError::LineTooLong.status(),
            HeadError::HeadTooLarge.status(),
            HeadError::TooManyFields.status()
        ),
        (414, 431, 431)
    );
}

#[test]
fn more_fields_than_the_stack_holds_are_read() {
    let limits = HeadLimits { max_fields: 1_000, ..HeadLimits::default() };
    let parse = |count: usize| {
        let fields: String = (0..count).map(|number| format!("A{number}: {number}\r\n")).collect();
        let mut head = Parsed::default();
        let status = head.parse(format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n").as_bytes(), &limits);
        (status.map(|_| head.headers.iter().count()), head.headers.get("a999").map(<[u8]>::to_vec))
    };
    assert_eq!(parse(1_000), (Ok(1_001), Some(b"999".to_vec())));
    assert_eq!(parse(1_001), (Err(HeadError::TooManyFields), None));
}

#[test]
fn the_method_may_be_replaced() {
    let mut head = Parsed::default();
    let input = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
    head.parse(input, &HeadLimits::default()).unwrap();
    head.head.set_method("PROPFIND").unwrap();
    assert_eq!((head.method, head.method_text()), (message::Method::Other, &b"PROPFIND"[..]));
    head.head.set_method("POST").unwrap();
    head.head.headers.append("A", b"1").unwrap();
    assert_eq!((head.method, head.method_text()), (message::Method::Post, &b"POST"[..]));
    assert!(head.head.set_method("A B").is_err());
    let mut out = Vec::new();
    http1::encode::fields(&mut out, &head.headers);
    assert_eq!(out, b"Host: h\r\nA: 1\r\n");
}
