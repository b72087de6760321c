//! The client's side: heads of responses, interim ones, faults of servers, refusals, and the limits of
//! starting requests.

use super::wire::*;
use http2::{
    BodyState, Config, Connection, ErrorCode, Event, FieldSink, RequestTarget, ResetBy, StartError,
    StreamKey, hpack,
};
use message::ResponseHead;

const OK: [(&str, &str); 1] = [(":status", "200")];

/// A client with one request of this method on stream 1.
fn asking(method: &'static [u8], ends_stream: bool) -> (Connection, StreamKey) {
    let mut client = client(Config::default());
    let target = RequestTarget { method, ..TARGET };
    let key = client.start_request(&target).unwrap().finish(ends_stream);
    sent(&mut client);
    (client, key)
}

#[test]
fn request_is_written_with_its_fields() {
    let mut client = client(Config::default());
    let target = RequestTarget { path: b"/a", query: Some(b"b=c"), ..TARGET };
    let mut writer = client.start_request(&target).unwrap();
    writer.field("X-A", b"1");
    writer.begin("X-B");
    writer.part(b"2");
    writer.part(b"3");
    writer.end();
    let key = writer.finish(true);
    let frames = sent(&mut client);
    assert_eq!((frames.len(), frames[0].kind, frames[0].flags, frames[0].stream), (1, HEADERS, 5, 1));
    let expected = [":method: GET", ":scheme: https", ":authority: h", ":path: /a?b=c", "x-a: 1", "x-b: 23"];
    assert_eq!(fields(&mut hpack::Decoder::new(4096), &frames[0].payload), expected);
    assert_eq!(client.stream_id(key), 1);
}

#[test]
fn interim_and_final_heads_come_in_order() {
    let (mut client, key) = asking(b"GET", true);
    let mut response = ResponseHead::new();
    feed(&mut client, &headers(1, 0, &[(":status", "103"), ("link", "x")]));
    assert_eq!(events(&mut client), [Event::Head(key)]);
    let info = client.take_response(key, &mut response).unwrap();
    assert_eq!((response.status, response.is_interim(), info.is_end), (103, true, false));
    assert!(client.take_response(key, &mut response).is_none());
    // Heads that arrive before the first of them is taken have one event.
    feed(&mut client, &headers(1, 0, &[(":status", "100")]));
    feed(&mut client, &headers(1, 0, &[(":status", "103"), ("link", "y")]));
    feed(&mut client, &headers(1, END_STREAM, &[(":status", "204"), ("a", "b")]));
    assert_eq!(events(&mut client), [Event::Head(key)]);
    for (status, link) in [(100, None), (103, Some(&b"y"[..]))] {
        let info = client.take_response(key, &mut response).unwrap();
        assert_eq!((response.status, response.headers.get("link"), info.is_end), (status, link, false));
    }
    let info = client.take_response(key, &mut response).unwrap();
    assert_eq!((response.status, response.headers.get("a"), info.is_end), (204, Some(&b"b"[..]), true));
    assert_eq!(client.body_state(key), BodyState::End { has_trailers: false });
}

/// A name, the method of the request, the frames of the server, and the code of the reset.
type ServerFault = (&'static str, &'static [u8], Vec<Vec<u8>>, Option<ErrorCode>);

#[test]
fn faults_of_servers_reset_their_stream() {
    let data = frame(DATA, END_STREAM, 1, b"x");
    let length =
        |status: &'static str, length: &'static str| [(":status", status), ("content-length", length)];
    let protocol = Some(ErrorCode::PROTOCOL_ERROR);
    let table: [ServerFault; 16] = [
        ("good", b"GET", vec![headers(1, 0, &length("200", "1")), data.clone()], None),
        ("no status", b"GET", vec![headers(1, 1, &[("a", "b")])], protocol),
        ("status 101", b"GET", vec![headers(1, 0, &[(":status", "101")])], protocol),
        ("request field", b"GET", vec![headers(1, 1, &[OK[0], (":path", "/")])], protocol),
        ("upper case", b"GET", vec![headers(1, 1, &[OK[0], ("A", "b")])], protocol),
        ("connection-specific", b"GET", vec![headers(1, 1, &[OK[0], ("connection", "close")])], None),
        ("interim with END_STREAM", b"GET", vec![headers(1, 1, &[(":status", "100")])], protocol),
        ("DATA before the head", b"GET", vec![data.clone()], protocol),
        ("content of HEAD", b"HEAD", vec![headers(1, 0, &OK), data.clone()], None),
        ("length of HEAD", b"HEAD", vec![headers(1, 1, &length("200", "5"))], None),
        ("content of 204", b"GET", vec![headers(1, 0, &[(":status", "204")]), data.clone()], None),
        ("length of 304", b"GET", vec![headers(1, 1, &length("304", "5"))], None),
        ("content of 304", b"GET", vec![headers(1, 0, &length("304", "1")), data.clone()], None),
        ("length differs", b"GET", vec![headers(1, 0, &length("200", "2")), data.clone()], protocol),
        ("length without content", b"GET", vec![headers(1, 1, &length("200", "2"))], protocol),
        ("second head", b"GET", vec![headers(1, 0, &OK), headers(1, 0, &OK)], protocol),
    ];
    for (name, method, input, expected) in table {
        let (mut client, key) = asking(method, true);
        feed(&mut client, &input.concat());
        let reset = events(&mut client).into_iter().find_map(|event| match event {
            Event::Reset(at, code) if at == key => Some(code),
            _ => None,
        });
        assert_eq!(reset, expected, "{name}");
        let sent_resets = resets(&sent(&mut client));
        assert_eq!(sent_resets, expected.map(|code| (1, code)).into_iter().collect::<Vec<_>>(), "{name}");
        if name.starts_with("content of") {
            let end = BodyState::End { has_trailers: false };
            assert_eq!(client.body_state(key), end, "{name}: the content is dropped");
        }
        if let (Some(code), BodyState::Reset(reset)) = (expected, client.body_state(key)) {
            assert_eq!((reset.code, reset.by, reset.is_unprocessed), (code, ResetBy::Fault, false));
            assert!(client.take_response(key, &mut ResponseHead::new()).is_none(), "{name}");
        }
    }
}

#[test]
fn faults_of_servers_end_the_connection() {
    for (name, input) in [
        ("response without request", headers(3, 1, &OK)),
        ("push", frame(PUSH_PROMISE, 4, 1, &[0, 0, 0, 2, 0x82])),
        ("pushed response", headers(2, 1, &OK)),
        ("push enabled", settings(&[(2, 1)])),
        ("PRIORITY_UPDATE", frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1")),
        ("RST_STREAM on an idle stream", reset(3, ErrorCode::CANCEL)),
    ] {
        let (mut client, key) = asking(b"GET", true);
        let error = client.receive(&input, 0).unwrap_err();
        assert_eq!(error.code, ErrorCode::PROTOCOL_ERROR, "{name}");
        assert_eq!(events(&mut client), [Event::Reset(key, ErrorCode::PROTOCOL_ERROR)], "{name}");
        assert_eq!(client.start_request(&TARGET).map(drop), Err(StartError::Closed));
    }
}

#[test]
fn refused_streams_are_not_processed() {
    let (mut client, key) = asking(b"POST", false);
    feed(&mut client, &reset(1, ErrorCode::REFUSED_STREAM));
    assert_eq!(events(&mut client), [Event::Reset(key, ErrorCode::REFUSED_STREAM)]);
    let BodyState::Reset(reset) = client.body_state(key) else { panic!("it was reset") };
    assert!(reset.is_unprocessed && reset.by == ResetBy::Peer);
    assert_eq!((client.write_data(key, b"x", true), client.capacity(key)), (0, 0));
    client.release(key);
    assert_eq!((client.stream_count(), sent(&mut client)), (0, vec![]));
}

#[test]
fn goaway_names_the_unprocessed_streams() {
    let mut client = client(Config::default());
    let keys: Vec<_> = (0..3).map(|_| started(&mut client)).collect();
    feed(&mut client, &frame(GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]));
    assert_eq!(
        events(&mut client),
        [Event::GoAway(ErrorCode::NO_ERROR), Event::Reset(keys[2], ErrorCode::NO_ERROR)]
    );
    let BodyState::Reset(reset) = client.body_state(keys[2]) else { panic!("it was reset") };
    assert!(reset.is_unprocessed && reset.by == ResetBy::GoAway);
    assert_eq!(client.can_start(), Err(StartError::GoAway));
    // Streams up to the last one go on; a later GOAWAY may lower it.
    feed(&mut client, &headers(1, END_STREAM, &OK));
    assert_eq!(events(&mut client), [Event::Head(keys[0])]);
    feed(&mut client, &frame(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 2]));
    let code = ErrorCode::INTERNAL_ERROR;
    assert_eq!(events(&mut client), [Event::GoAway(code), Event::Reset(keys[1], code)]);
}

#[test]
fn starting_obeys_the_limits_of_both_sides() {
    let mut client = Connection::client(Config { max_streams: 1000, ..Config::default() });
    let before: Vec<_> =
        std::iter::from_fn(|| client.start_request(&TARGET).ok().map(|writer| writer.finish(true))).collect();
    assert_eq!(before.len(), http2::Limits::STREAMS_BEFORE_SETTINGS as usize);
    feed(&mut client, &settings(&[(3, 101)]));
    let last = started(&mut client);
    assert_eq!(client.can_start(), Err(StartError::TooManyStreams));
    // A complete stream does not count, even before it is released.
    feed(&mut client, &headers(201, END_STREAM, &OK));
    assert_eq!(client.can_start(), Ok(()));
    client.release(last);
    let connect = RequestTarget { protocol: Some("websocket"), method: b"CONNECT", ..TARGET };
    assert_eq!(client.start_request(&connect).map(drop), Err(StartError::NoExtendedConnect));
    feed(&mut client, &settings(&[(8, 1)]));
    assert!(client.start_request(&connect).is_ok());
}

#[test]
fn server_declines_rest_of_a_request() {
    let (mut client, key) = asking(b"POST", false);
    let input =
        [headers(1, 0, &OK), frame(DATA, END_STREAM, 1, b"done"), reset(1, ErrorCode::NO_ERROR)].concat();
    feed(&mut client, &input);
    let expected =
        [Event::Head(key), Event::Data(key), Event::End(key), Event::Reset(key, ErrorCode::NO_ERROR)];
    assert_eq!(events(&mut client)[..2], expected[..2]);
    let mut body = Vec::new();
    assert_eq!((client.take_data(key, &mut body), &body[..]), (4, &b"done"[..]));
    assert_eq!(client.body_state(key), BodyState::End { has_trailers: false });
    assert_eq!(client.write_data(key, b"rest", true), 0);
}

#[test]
fn header_table_of_size_zero_is_obeyed() {
    let mut client = client(Config::default());
    started(&mut client);
    sent(&mut client);
    feed(&mut client, &settings(&[(1, 0)]));
    sent(&mut client);
    let mut decoder = hpack::Decoder::new(0);
    for round in 0..3 {
        let mut writer = client.start_request(&TARGET).unwrap();
        writer.field("Accept", b"*/*");
        writer.finish(true);
        let frames = sent(&mut client);
        assert_eq!(frames[0].payload[0] == 0x20, round == 0, "the update comes once");
        assert_eq!(fields(&mut decoder, &frames[0].payload).len(), 5);
    }
}

#[test]
fn lost_transport_resets_all_streams() {
    let (mut client, key) = asking(b"GET", true);
    client.connection_lost();
    assert_eq!(events(&mut client), [Event::Reset(key, ErrorCode::CONNECT_ERROR)]);
    assert!(client.output().is_empty());
    assert_eq!(client.start_request(&TARGET).map(drop), Err(StartError::Closed));
}
