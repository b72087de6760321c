//! Responses on a client: interim heads, messages without content, tunnels, pushes, and what a server writes.

use super::wire::*;
use http3::{Config, Connection, ErrorCode, Fault, FieldSink, RequestTarget, StartError, writer};
use message::{FieldSet, Headers};

const OK: [(&str, &str); 1] = [(":status", "200")];

fn code(method: &'static str, input: &[u8]) -> (bool, ErrorCode) {
    let fault = response(method, input).fault.unwrap();
    (matches!(fault, Fault::Connection(_)), fault.code())
}

#[test]
fn interim_heads_come_before_the_response() {
    let input = [
        headers(&[(":status", "103"), ("link", "</a>")]),
        headers(&[(":status", "100")]),
        headers_with(&OK, &[("server", "x")]),
        frame(DATA, b"body"),
        headers(&[("grpc-status", "0")]),
    ]
    .concat();
    let read = response("GET", &input);
    assert_eq!(read.lines, ["103 link=</a>;", "100 ", "200 server=x;", "grpc-status=0;"]);
    assert_eq!((read.data, read.fault), (b"body".to_vec(), None));
}

#[test]
fn messages_without_content_refuse_content() {
    for (method, status) in [("HEAD", "200"), ("GET", "204"), ("GET", "304")] {
        let head = headers(&[(":status", status), ("content-length", "4")]);
        assert_eq!(response(method, &head).fault, None, "{method} {status}");
        let input = [head, frame(DATA, b"body")].concat();
        assert_eq!(code(method, &input), (false, ErrorCode::MESSAGE_ERROR), "{method} {status}");
    }
}

#[test]
fn cut_responses_are_errors() {
    let long = headers_with(&OK, &[("content-length", "5")]);
    let table = [
        (b"".to_vec(), false, ErrorCode::MESSAGE_ERROR),
        (headers(&[(":status", "100")]), false, ErrorCode::MESSAGE_ERROR),
        ([&long[..], &frame(DATA, b"abcd")].concat(), false, ErrorCode::MESSAGE_ERROR),
        (frame(DATA, b"abcd"), true, ErrorCode::FRAME_UNEXPECTED),
        ([headers(&[(":status", "100")]), frame(DATA, b"a")].concat(), true, ErrorCode::FRAME_UNEXPECTED),
        (long[..9].to_vec(), true, ErrorCode::FRAME_ERROR),
    ];
    for (input, is_connection, expected) in table {
        assert_eq!(code("GET", &input), (is_connection, expected), "{input:?}");
    }
}

#[test]
fn status_101_is_malformed() {
    assert_eq!(code("GET", &headers(&[(":status", "101")])), (false, ErrorCode::MESSAGE_ERROR));
}

#[test]
fn pushes_are_refused() {
    let promise = frame(PUSH_PROMISE, &[&[0][..], &section(&GET)].concat());
    assert_eq!(code("GET", &[headers(&OK), promise].concat()), (true, ErrorCode::ID_ERROR));
}

#[test]
fn tunnels_begin_with_success() {
    let success = [headers_with(&OK, &[("content-length", "1")]), frame(DATA, b"tunnel")].concat();
    let read = response("CONNECT", &success);
    assert_eq!((read.data, read.fault), (b"tunnel".to_vec(), None));
    let trailers = headers(&[("a", "b")]);
    let input = [headers(&OK), trailers.clone()].concat();
    assert_eq!(code("CONNECT", &input), (true, ErrorCode::FRAME_UNEXPECTED));
    let refused = [headers(&[(":status", "403")]), frame(DATA, b"no"), trailers].concat();
    assert_eq!(response("CONNECT", &refused).fault, None);
}

#[test]
fn requests_start_as_the_server_allows() {
    let websocket = RequestTarget {
        method: b"CONNECT",
        scheme: "https",
        authority: b"h",
        path: b"/",
        query: None,
        protocol: Some("websocket"),
    };
    let plain = RequestTarget { method: b"GET", protocol: None, ..websocket };
    let mut early = Connection::client(Config::default());
    assert!(early.start_request(0, &plain).is_ok());
    assert_eq!(early.start_request(4, &websocket).err(), Some(StartError::NoExtendedConnect));
    let (mut connection, mut control) = client();
    assert!(connection.start_request(0, &websocket).is_ok());
    connection.receive_uni(&mut control, &frame(GOAWAY, &[4])).unwrap();
    assert_eq!(connection.next_event(), Some(http3::Event::GoAway(4)));
    assert_eq!(connection.start_request(8, &plain).err(), Some(StartError::GoAway));
    assert_eq!(
        Connection::server(Config::default()).start_request(0, &plain).err(),
        Some(StartError::Closed)
    );
}

#[test]
fn written_responses_are_read() {
    let (mut out, mut fields, mut trailers) = (Vec::new(), Headers::new(), Headers::new());
    for (name, value) in [("Server", "weir"), ("Connection", "close"), ("Date", "now"), ("Via", "x")] {
        fields.append(name, value.as_bytes()).unwrap();
    }
    trailers.append("X-Sum", b"1").unwrap();
    trailers.append("Content-Length", b"1").unwrap();
    writer::interim(&mut out, 103).field("Link", b"</a>");
    let mut head = writer::response(&mut out, 200);
    head.fields_except(&fields, FieldSet::of(&[message::FieldId::Via]));
    head.finish();
    writer::data(&mut out, b"");
    writer::data(&mut out, &[7; 100]);
    assert!(writer::trailers(&mut out, &trailers));
    let read = response("GET", &out);
    assert_eq!(read.lines, ["103 link=</a>;", "200 server=weir;date=now;", "x-sum=1;"]);
    assert_eq!((read.data, read.fault), (vec![7; 100], None));
}

#[test]
fn connect_is_written_without_scheme_and_path() {
    let target = RequestTarget {
        method: b"CONNECT",
        scheme: "https",
        authority: b"h:1",
        path: b"/",
        query: None,
        protocol: None,
    };
    let mut out = Vec::new();
    writer::request(&mut out, &target).finish();
    assert_eq!(request(&out).lines, ["CONNECT h:1 host=h:1;"]);
    out.clear();
    writer::request(&mut out, &RequestTarget { protocol: Some("websocket"), ..target }).finish();
    assert_eq!(request(&out).lines, ["CONNECT / host=h:1;"]);
}
