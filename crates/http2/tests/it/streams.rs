//! The life of streams on a server: heads, bodies both ways, trailers, resets, release, and keys that go
//! stale.

use super::wire::*;
use http2::{BodyState, Config, ErrorCode, Event, FieldSink, Priority, ResetBy, Scheme, hpack};
use message::{FieldSet, Headers, Method, RequestHead, Version};

#[test]
fn request_is_taken_and_answered() {
    let mut server = server(Config::default());
    let request =
        [&POST[..], &[("x-a", "1"), ("cookie", "a=1"), ("cookie", "b=2"), ("priority", "u=1, i")]].concat();
    let key = accepted(&mut server, &headers(1, 0, &request));
    let mut head = RequestHead::new();
    let info = server.take_request(key, &mut head).unwrap();
    assert_eq!(
        (head.method, head.version, head.path(), head.authority()),
        (Method::Post, Version::Http2, &b"/"[..], &b"h"[..])
    );
    assert_eq!(
        (head.headers.get("host"), head.headers.get("cookie")),
        (Some(&b"h"[..]), Some(&b"a=1; b=2"[..]))
    );
    assert_eq!((info.scheme, info.content_length, info.is_end), (Scheme::Https, None, false));
    assert_eq!(info.priority, Priority { urgency: 1, is_incremental: true });
    assert!(server.take_request(key, &mut head).is_none());
    feed(&mut server, &[frame(DATA, 0, 1, b"ab"), frame(DATA, END_STREAM, 1, b"c")].concat());
    assert_eq!(events(&mut server), [Event::Data(key), Event::End(key)]);
    assert_eq!(server.body_state(key), BodyState::Data(3));
    let mut body = Vec::new();
    server.take_data(key, &mut body);
    assert_eq!((&body[..], server.body_state(key)), (&b"abc"[..], BodyState::End { has_trailers: false }));
    let mut response = Headers::new();
    for (name, value) in [("Content-Type", "text/plain"), ("Connection", "close"), ("Server", "origin")] {
        response.append(name, value.as_bytes()).unwrap();
    }
    let mut writer = server.start_response(key, 200).unwrap();
    writer.fields_except(&response, FieldSet::of(&[message::FieldId::Server]));
    writer.finish(false);
    assert_eq!(server.write_data(key, b"hello", false), 5);
    let mut trailers = Headers::new();
    trailers.append("Grpc-Status", b"0").unwrap();
    server.finish(key, Some(&trailers));
    let frames = sent(&mut server);
    let kinds: Vec<_> = frames.iter().map(|frame| (frame.kind, frame.flags)).collect();
    assert_eq!(kinds, [(HEADERS, 4), (DATA, 0), (HEADERS, 5)]);
    let mut decoder = hpack::Decoder::new(4096);
    assert_eq!(fields(&mut decoder, &frames[0].payload), [":status: 200", "content-type: text/plain"]);
    assert_eq!(fields(&mut decoder, &frames[2].payload), ["grpc-status: 0"]);
    server.release(key);
    assert_eq!((server.stream_count(), sent(&mut server)), (0, vec![]));
}

#[test]
fn interim_heads_precede_the_response() {
    let mut server = server(Config::default());
    let key = accepted(&mut server, &get(1));
    server.start_interim(key, 103).unwrap().field("Link", b"x");
    server.start_response(key, 204).unwrap().finish(true);
    assert!(server.start_interim(key, 100).is_none() && server.start_response(key, 200).is_none());
    let flags: Vec<_> = sent(&mut server).iter().map(|frame| frame.flags).collect();
    assert_eq!(flags, [END_HEADERS, END_HEADERS | END_STREAM]);
}

#[test]
fn trailers_arrive_with_the_end() {
    let mut server = server(Config::default());
    let key = accepted(&mut server, &post(1));
    feed(&mut server, &headers(1, END_STREAM, &[("x-sum", "7"), ("content-length", "9")]));
    assert_eq!(events(&mut server), [Event::End(key)]);
    assert_eq!(server.body_state(key), BodyState::End { has_trailers: true });
    assert_eq!(server.trailers(key).unwrap().get("x-sum"), Some(&b"7"[..]));
    let mut trailers = Headers::new();
    assert!(server.take_trailers(key, &mut trailers) && !server.take_trailers(key, &mut trailers));
    assert_eq!((trailers.len(), trailers.get("x-sum")), (1, Some(&b"7"[..])));
}

#[test]
fn large_heads_are_split_into_frames() {
    let mut server = server(Config::default());
    let key = accepted(&mut server, &get(1));
    let value = vec![0xFF_u8; 50_000];
    let mut writer = server.start_response(key, 200).unwrap();
    writer.field("x-large", &value);
    writer.finish(true);
    let frames = sent(&mut server);
    let kinds: Vec<_> = frames.iter().map(|frame| (frame.kind, frame.flags)).collect();
    assert_eq!(kinds, [(HEADERS, 1), (CONTINUATION, 0), (CONTINUATION, 0), (CONTINUATION, 4)]);
    let block: Vec<u8> = frames.iter().flat_map(|frame| frame.payload.clone()).collect();
    let lines = fields(&mut hpack::Decoder::new(4096), &block);
    assert_eq!((lines.len(), lines[0].as_str()), (2, ":status: 200"));
    assert!(frames.iter().all(|frame| frame.payload.len() <= 16_384));
}

#[test]
fn reset_before_its_event_causes_no_work() {
    let mut server = server(Config::default());
    feed(&mut server, &[get(1), reset(1, ErrorCode::CANCEL), get(3)].concat());
    let key = head(&mut server);
    assert_eq!((server.stream_id(key), server.stream_count()), (3, 1));
}

#[test]
fn reset_stream_counts_until_it_is_released() {
    let mut server = server(Config { max_streams: 1, ..Config::default() });
    let key = accepted(&mut server, &get(1));
    feed(&mut server, &reset(1, ErrorCode::CANCEL));
    assert_eq!(events(&mut server), [Event::Reset(key, ErrorCode::CANCEL)]);
    let BodyState::Reset(cause) = server.body_state(key) else { panic!("it was reset") };
    assert_eq!((cause.by, cause.is_unprocessed), (ResetBy::Peer, false));
    assert!(server.start_response(key, 200).is_none());
    assert_eq!(server.write_data(key, b"x", true), 0);
    feed(&mut server, &get(3));
    assert_eq!(resets(&sent(&mut server)), [(3, ErrorCode::REFUSED_STREAM)]);
    server.release(key);
    accepted(&mut server, &get(5));
    assert!(sent(&mut server).is_empty());
}

#[test]
fn complete_stream_makes_place_at_once() {
    let mut server = server(Config { max_streams: 1, ..Config::default() });
    let first = accepted(&mut server, &get(1));
    server.start_response(first, 200).unwrap().finish(true);
    let second = accepted(&mut server, &get(3));
    // Streams that are not released are bounded all the same.
    server.start_response(second, 200).unwrap().finish(true);
    sent(&mut server);
    feed(&mut server, &get(5));
    assert_eq!(resets(&sent(&mut server)), [(5, ErrorCode::REFUSED_STREAM)]);
}

#[test]
fn release_ends_what_is_open() {
    for (answer, expected) in [(true, ErrorCode::NO_ERROR), (false, ErrorCode::CANCEL)] {
        let mut server = server(Config::default());
        let key = accepted(&mut server, &post(1));
        if answer {
            server.start_response(key, 413).unwrap().finish(true);
        }
        server.release(key);
        assert_eq!(resets(&sent(&mut server)), [(1, expected)]);
        server.release(key);
        feed(&mut server, &frame(DATA, END_STREAM, 1, b"late"));
        assert_eq!((events(&mut server), sent(&mut server)), (vec![], vec![]));
    }
}

#[test]
fn driver_resets_a_stream_once() {
    let mut server = server(Config::default());
    let key = accepted(&mut server, &post(1));
    server.reset(key, ErrorCode::INTERNAL_ERROR);
    server.reset(key, ErrorCode::CANCEL);
    assert_eq!(resets(&sent(&mut server)), [(1, ErrorCode::INTERNAL_ERROR)]);
    server.release(key);
    assert!(sent(&mut server).is_empty());
}

#[test]
fn stale_key_finds_nothing() {
    let mut server = server(Config::default());
    let stale = accepted(&mut server, &get(1));
    server.release(stale);
    let live = accepted(&mut server, &get(3));
    assert_eq!(stale.index(), live.index());
    sent(&mut server);
    assert!(server.start_response(stale, 200).is_none());
    assert_eq!((server.capacity(stale), server.write_data(stale, b"x", true)), (0, 0));
    server.reset(stale, ErrorCode::CANCEL);
    server.consume(stale, 7);
    server.release(stale);
    assert!(matches!(server.body_state(stale), BodyState::Reset(_)));
    assert_eq!((server.stream_count(), sent(&mut server)), (1, vec![]));
}

#[test]
fn too_large_head_can_be_answered() {
    let mut server = server(Config::default());
    let many: Vec<(String, String)> = (0..101).map(|index| (format!("x-{index}"), "v".into())).collect();
    let all: Vec<(&str, &str)> =
        GET.into_iter().chain(many.iter().map(|(name, value)| (name.as_str(), value.as_str()))).collect();
    feed(&mut server, &headers(1, END_STREAM, &all));
    let events = events(&mut server);
    let [Event::HeadTooLarge(key)] = events[..] else { panic!("{events:?}") };
    assert!(server.take_request(key, &mut RequestHead::new()).is_none());
    server.start_response(key, 431).unwrap().finish(true);
    server.release(key);
    assert_eq!(sent(&mut server).len(), 1);
}

#[test]
fn extended_connect_names_its_protocol() {
    let mut server = server(Config::default());
    let fields = [
        (":method", "CONNECT"),
        (":scheme", "https"),
        (":path", "/chat"),
        (":authority", "h"),
        (":protocol", "websocket"),
    ];
    let key = accepted(&mut server, &headers(1, 0, &fields));
    let mut head = RequestHead::new();
    server.take_request(key, &mut head).unwrap();
    assert_eq!(
        (head.method, head.upgrade_text(), head.path()),
        (Method::Connect, Some(&b"websocket"[..]), &b"/chat"[..])
    );
}
