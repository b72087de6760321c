//! Requests on a server: heads, content, trailers, tunnels, and the frames that may not be there.

use super::wire::*;
use http3::{Config, Connection, ErrorCode, Fault, FieldSink, Priority, RequestEvent, UniState, writer};
use message::RequestHead;

/// The lines and the content of a request without a fault.
fn good(input: &[u8]) -> (Vec<String>, Vec<u8>) {
    let read = request(input);
    assert_eq!(read.fault, None);
    (read.lines, read.data)
}

fn code(input: &[u8]) -> (bool, ErrorCode) {
    let fault = request(input).fault.unwrap();
    (matches!(fault, Fault::Connection(_)), fault.code())
}

#[test]
fn request_without_content_is_read() {
    assert_eq!(good(&headers(&GET)), (vec!["GET / host=h;".into()], vec![]));
}

#[test]
fn content_and_trailers_are_read() {
    let input = [
        headers_with(&POST, &[("content-length", "5"), ("cookie", "a=1"), ("cookie", "b=2")]),
        frame(UNKNOWN, b"ignored"),
        frame(DATA, b"abc"),
        frame(DATA, b""),
        frame(DATA, b"de"),
        headers(&[("x-sum", "7"), ("content-length", "9")]),
        frame(UNKNOWN, b""),
    ]
    .concat();
    let (lines, data) = good(&input);
    assert_eq!(lines, ["POST / host=h;content-length=5;cookie=a=1; b=2;", "x-sum=7;"]);
    assert_eq!(data, b"abcde");
}

#[test]
fn data_is_a_range_of_the_input() {
    let (mut connection, _control) = server();
    let mut reader = connection.open_request(0).unwrap();
    let input = [headers(&POST), frame(DATA, b"abc"), frame(DATA, b"d")].concat();
    let head = reader.read(&mut connection, &input).unwrap();
    assert_eq!(head.event, Some(RequestEvent::Head));
    let first = reader.read(&mut connection, &input[head.consumed..]).unwrap();
    assert_eq!((first.consumed, first.event), (5, Some(RequestEvent::Data(2..5))));
    assert_eq!(reader.memory(), reader.memory().min(2048), "content is not kept");
}

#[test]
fn malformed_messages_end_the_stream() {
    let table: [(&str, Vec<u8>); 14] = [
        ("no method", headers(&GET[1..])),
        ("unknown pseudo-field", headers_with(&GET, &[(":status", "200")])),
        ("doubled pseudo-field", headers_with(&GET, &GET[..1])),
        ("late pseudo-field", headers(&[GET[0], GET[1], GET[2], ("a", "b"), GET[3]])),
        ("upper case", headers_with(&GET, &[("A", "b")])),
        ("line break", headers_with(&GET, &[("a", "b\r\nc: d")])),
        ("space in a name", headers_with(&GET, &[("a b", "c")])),
        ("connection", headers_with(&GET, &[("connection", "close")])),
        ("transfer-encoding", headers_with(&GET, &[("transfer-encoding", "chunked")])),
        ("te", headers_with(&GET, &[("te", "gzip")])),
        ("host differs", headers_with(&GET, &[("host", "x")])),
        ("two lengths", headers_with(&POST, &[("content-length", "1"), ("content-length", "1")])),
        ("protocol without CONNECT", headers_with(&GET, &[(":protocol", "x")])),
        ("pseudo-field in trailers", [headers(&GET), headers(&GET[..1])].concat()),
    ];
    for (name, input) in table {
        assert_eq!(code(&input), (false, ErrorCode::MESSAGE_ERROR), "{name}");
    }
}

#[test]
fn content_length_differs_from_content() {
    let five = headers_with(&POST, &[("content-length", "5")]);
    for data in [&b""[..], b"abcd", b"abcdef"] {
        let input = [&five[..], &frame(DATA, data)].concat();
        assert_eq!(code(&input), (false, ErrorCode::MESSAGE_ERROR), "{data:?}");
    }
    let cut = [&five[..], &frame(DATA, b"abc"), &headers(&[("a", "b")])].concat();
    assert_eq!(code(&cut), (false, ErrorCode::MESSAGE_ERROR));
    // The frame that would be too long is refused before its payload.
    let long = [&five[..], &frame(DATA, b"abcdefgh")[..2]].concat();
    assert_eq!(code(&long), (false, ErrorCode::MESSAGE_ERROR));
}

#[test]
fn frames_in_wrong_places_end_the_connection() {
    let with_head = |frame: Vec<u8>| [headers(&POST), frame].concat();
    let with_trailers = |frame: Vec<u8>| [headers(&POST), headers(&[("a", "b")]), frame].concat();
    let table: [(&str, Vec<u8>); 13] = [
        ("DATA before the head", frame(DATA, b"a")),
        ("DATA behind trailers", with_trailers(frame(DATA, b"a"))),
        ("HEADERS behind trailers", with_trailers(headers(&[("a", "b")]))),
        ("SETTINGS", frame(SETTINGS, b"")),
        ("SETTINGS behind the head", with_head(frame(SETTINGS, b""))),
        ("GOAWAY", with_head(frame(GOAWAY, &[0]))),
        ("MAX_PUSH_ID", with_head(frame(MAX_PUSH_ID, &[0]))),
        ("CANCEL_PUSH", with_head(frame(CANCEL_PUSH, &[0]))),
        ("PUSH_PROMISE", with_head(frame(PUSH_PROMISE, &[0, 0, 0]))),
        ("PRIORITY_UPDATE", with_head(frame(PRIORITY_UPDATE, &[0]))),
        ("PING of HTTP/2", with_head(frame(6, b""))),
        ("HEADERS in a tunnel", [headers(&CONNECT), headers(&[("a", "b")])].concat()),
        ("CONTINUATION of HTTP/2", frame(9, b"")),
    ];
    for (name, input) in table {
        assert_eq!(code(&input), (true, ErrorCode::FRAME_UNEXPECTED), "{name}");
    }
}

#[test]
fn stream_that_ends_early_is_refused() {
    let get = headers(&GET);
    assert_eq!(code(b""), (false, ErrorCode::REQUEST_INCOMPLETE));
    assert_eq!(code(&frame(UNKNOWN, b"x")), (false, ErrorCode::REQUEST_INCOMPLETE));
    for end in 1..get.len() {
        assert_eq!(code(&get[..end]), (true, ErrorCode::FRAME_ERROR), "cut at {end}");
    }
    let post = [headers(&POST), frame(DATA, b"ab")].concat();
    assert_eq!(code(&post[..post.len() - 1]), (true, ErrorCode::FRAME_ERROR));
    assert_eq!(code(&[&get[..], &frame(UNKNOWN, b"ab")[..3]].concat()), (true, ErrorCode::FRAME_ERROR));
}

#[test]
fn dynamic_references_end_the_connection() {
    for section in [&b"\x02\0"[..], b"\0\0\x80", b"\0\0\x10", b"", b"\0"] {
        let fault = code(&frame(HEADERS, section));
        assert_eq!(fault, (true, ErrorCode::QPACK_DECOMPRESSION_FAILED), "{section:?}");
    }
}

#[test]
fn tunnels_carry_data_only() {
    let input = [headers(&CONNECT), frame(DATA, b"ab"), frame(UNKNOWN, b"")].concat();
    assert_eq!(good(&input), (vec!["CONNECT h:1 host=h:1;".into()], b"ab".to_vec()));
    let extended = [("x", "y"); 0];
    let websocket = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":path", "/chat"),
        (":authority", "h"),
    ];
    let (mut connection, _control) = server();
    let mut reader = connection.open_request(0).unwrap();
    reader.read(&mut connection, &headers_with(&websocket, &extended)).unwrap();
    let mut head = RequestHead::new();
    reader.take_request(&mut head).unwrap();
    assert_eq!((head.upgrade_text(), head.path()), (Some(&b"websocket"[..]), &b"/chat"[..]));
    let config = Config { extended_connect: false, ..Config::default() };
    let mut connection = Connection::server(config);
    let mut reader = connection.open_request(0).unwrap();
    let fault = reader.read(&mut connection, &headers(&websocket)).unwrap_err();
    assert_eq!(fault.code(), ErrorCode::MESSAGE_ERROR);
}

#[test]
fn input_behind_a_stream_error_is_dropped() {
    let (mut connection, _control) = server();
    let mut reader = connection.open_request(0).unwrap();
    assert!(reader.read(&mut connection, &headers(&GET[1..])).is_err());
    for input in [frame(DATA, b"a"), frame(SETTINGS, b""), vec![0; 1000]] {
        let step = reader.read(&mut connection, &input).unwrap();
        assert_eq!((step.consumed, step.event), (input.len(), None));
    }
    assert_eq!(reader.finish(&mut connection), Ok(()));
    let mut head = RequestHead::new();
    assert!(reader.take_request(&mut head).is_none());
    assert_eq!((head.path(), reader.memory()), (&b"/"[..], 0), "the texts are for a log");
    assert_eq!(connection.failure(), None);
}

#[test]
fn priorities_of_fields_and_updates() {
    let priority = |urgency, is_incremental| Priority { urgency, is_incremental };
    let (mut connection, mut control) = server();
    let update = |id: u64, text: &[u8]| frame(PRIORITY_UPDATE, &[&integer(id)[..], text].concat());
    let mut receive = |connection: &mut Connection, input: &[u8]| {
        assert_eq!(connection.receive_uni(&mut control, input), Ok(UniState::Open));
    };
    receive(&mut connection, &update(4, b"u=1"));
    receive(&mut connection, &update(8, b"u=6"));
    receive(&mut connection, &update(8, b"u=2, i"));
    assert_eq!(connection.next_event(), None);
    let with_field = headers_with(&GET, &[("priority", "u=5")]);
    for (id, input, expected) in [
        (0, &with_field, priority(5, false)),
        (4, &with_field, priority(1, false)),
        (8, &headers(&GET), priority(2, true)),
        (12, &headers(&GET), Priority::default()),
    ] {
        let mut reader = connection.open_request(id).unwrap();
        reader.read(&mut connection, input).unwrap();
        assert_eq!(reader.take_request(&mut RequestHead::new()).unwrap().priority, expected, "{id}");
    }
    receive(&mut connection, &update(12, b"u=0"));
    assert_eq!(connection.next_event(), Some(http3::Event::PriorityChanged(12, priority(0, false))));
    let mut reader = connection.open_request(16).unwrap();
    reader.set_priority(priority(7, false));
    reader.read(&mut connection, &with_field).unwrap();
    assert_eq!(reader.take_request(&mut RequestHead::new()).unwrap().priority, priority(7, false));
}

#[test]
fn written_requests_are_read() {
    let target = http3::RequestTarget {
        method: b"POST",
        scheme: "https",
        authority: b"h.example:8443",
        path: b"/a/b",
        query: Some(b"c=d"),
        protocol: None,
    };
    let mut out = Vec::new();
    let mut head = writer::request(&mut out, &target);
    head.field("Content-Length", b"6");
    head.field("X-Mixed-Case", b"value of some length");
    head.begin("Via");
    head.part(b"3 ");
    head.part(b"weir");
    head.end();
    head.finish();
    writer::data(&mut out, b"abc");
    out.extend_from_slice(writer::DataHeader::new(3).as_bytes());
    out.extend_from_slice(b"def");
    let (lines, data) = good(&out);
    let expected = "host=h.example:8443;content-length=6;x-mixed-case=value of some length;via=3 weir;";
    assert_eq!((lines, data), (vec![format!("POST /a/b?c=d {expected}")], b"abcdef".to_vec()));
}
