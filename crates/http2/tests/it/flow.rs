//! Flow control in both directions (RFC 9113 section 5.2 and 6.9).

use super::wire::*;
use http2::{Config, Connection, ErrorCode, Event, Limits, StreamKey};

/// A server with a stream and its response head, which was written.
fn answering(config: Config) -> (Connection, StreamKey) {
    let mut server = server(config);
    let key = accepted(&mut server, &get(1));
    server.start_response(key, 200).unwrap().finish(false);
    sent(&mut server);
    (server, key)
}

/// Bytes of DATA in some frames.
fn data_bytes(frames: &[Frame]) -> usize {
    frames.iter().filter(|frame| frame.kind == DATA).map(|frame| frame.payload.len()).sum()
}

/// A window far above what a test writes.
const OPEN: u32 = 1 << 24;

#[test]
fn stream_window_bounds_what_is_written() {
    let (mut server, key) = answering(Config { output_bytes: 1 << 20, ..Config::default() });
    feed(&mut server, &window_update(0, OPEN));
    assert_eq!(server.capacity(key), 65_535);
    assert_eq!(server.write_data(key, &[0; 70_000], true), 65_535);
    let frames = sent(&mut server);
    assert_eq!((data_bytes(&frames), frames.len()), (65_535, 4));
    assert!(frames.iter().all(|frame| frame.flags == 0 && frame.payload.len() <= 16_384));
    assert_eq!((server.capacity(key), events(&mut server)), (0, vec![]));
    feed(&mut server, &window_update(1, 5000));
    assert_eq!(events(&mut server), [Event::Writable(key)]);
    assert_eq!(server.write_data(key, &[0; 4465], true), 4465);
    assert_eq!(sent(&mut server)[0].flags, END_STREAM);
}

#[test]
fn connection_window_bounds_all_streams() {
    let (mut server, key) = answering(Config { output_bytes: 1 << 20, ..Config::default() });
    feed(&mut server, &window_update(1, OPEN));
    assert_eq!(server.write_data(key, &[0; 70_000], false), 65_535);
    let other = accepted(&mut server, &get(3));
    server.start_response(other, 200).unwrap().finish(false);
    assert_eq!(server.write_data(other, b"x", false), 0);
    sent(&mut server);
    assert_eq!(events(&mut server), []);
    feed(&mut server, &window_update(0, 10));
    assert_eq!(events(&mut server), [Event::Writable(key)]);
    assert_eq!(server.write_data(key, &[0; 4], false), 4);
    // The rest of the grant that was not used goes to the other stream.
    assert_eq!(events(&mut server), [Event::Writable(other)]);
    assert_eq!(server.capacity(other), 6);
}

#[test]
fn empty_end_needs_no_window() {
    let (mut server, key) = answering(Config::default());
    server.write_data(key, &[0; 65_535], false);
    sent(&mut server);
    server.finish(key, None);
    let frames = sent(&mut server);
    assert_eq!((frames.len(), frames[0].flags, frames[0].payload.len()), (1, END_STREAM, 0));
}

#[test]
fn initial_window_changes_streams_below_zero() {
    let (mut server, key) = answering(Config { output_bytes: 1 << 20, ..Config::default() });
    feed(&mut server, &window_update(0, OPEN));
    assert_eq!(server.write_data(key, &[0; 60_000], false), 60_000);
    feed(&mut server, &settings(&[(4, 50_000)]));
    assert_eq!(server.capacity(key), 0);
    sent(&mut server);
    feed(&mut server, &window_update(1, 10_000));
    events(&mut server);
    assert_eq!(server.capacity(key), 0, "exactly zero");
    feed(&mut server, &settings(&[(4, 50_001)]));
    assert_eq!(events(&mut server), [Event::SettingsChanged, Event::Writable(key)]);
    assert_eq!(server.capacity(key), 1);
    // A stream that is opened now begins with the new window.
    let other = accepted(&mut server, &get(3));
    server.start_response(other, 200).unwrap().finish(false);
    assert_eq!(server.write_data(other, &[0; 70_000], false), 50_001);
}

#[test]
fn output_bounds_what_waits() {
    let config = Config { output_bytes: 1000, ..Config::default() };
    let (mut server, key) = answering(config);
    assert_eq!(server.write_data(key, &[0; 5000], false), 1000 - 9);
    assert_eq!((server.output().len(), events(&mut server)), (1000, vec![]));
    // A few written bytes do not make capacity for small frames.
    server.advance(50);
    assert_eq!((events(&mut server), server.capacity(key)), (vec![], 0));
    server.advance(200);
    assert_eq!(events(&mut server), [Event::Writable(key)]);
    assert_eq!(server.capacity(key), 250 - 9, "the rest of the frame waits");
}

#[test]
fn windows_are_given_back_in_halves() {
    let config = Config { stream_window_bytes: 1000, connection_window_bytes: 70_000, ..Config::default() };
    let mut server = server(config);
    let key = accepted(&mut server, &post(1));
    feed(&mut server, &frame(DATA, 0, 1, &[0; 1000]));
    let mut body = Vec::new();
    assert_eq!(server.take_data(key, &mut body), 1000);
    server.consume(key, 499);
    assert!(sent(&mut server).is_empty());
    server.consume(key, 1);
    let frames = sent(&mut server);
    assert_eq!((frames.len(), frames[0].stream, &frames[0].payload[..]), (1, 1, &500_u32.to_be_bytes()[..]));
    server.consume(key, 10_000);
    assert_eq!(sent(&mut server)[0].payload, 500_u32.to_be_bytes(), "no more than was held");
    // 35,000 bytes are half of the connection's window.
    for round in 1..36 {
        feed(&mut server, &frame(DATA, 0, 1, &[0; 1000]));
        server.take_data(key, &mut body);
        server.consume(key, 1000);
        let frames = sent(&mut server);
        assert_eq!(frames.iter().any(|frame| frame.stream == 0), round == 34, "{round}");
    }
}

#[test]
fn data_beyond_a_window_is_a_fault() {
    let config = Config { stream_window_bytes: 100, ..Config::default() };
    let mut server = server(config);
    let key = accepted(&mut server, &post(1));
    feed(&mut server, &frame(DATA, 0, 1, &[0; 100]));
    feed(&mut server, &frame(DATA, 0, 1, &[0]));
    assert_eq!(resets(&sent(&mut server)), [(1, ErrorCode::FLOW_CONTROL_ERROR)]);
    assert_eq!(events(&mut server), [Event::Reset(key, ErrorCode::FLOW_CONTROL_ERROR)]);
    let config =
        Config { stream_window_bytes: 1 << 20, connection_window_bytes: 65_535, ..Config::default() };
    let mut server = super::wire::server(config);
    accepted(&mut server, &post(1));
    (0..3).for_each(|_| feed(&mut server, &frame(DATA, 0, 1, &[0; 16_384])));
    feed(&mut server, &frame(DATA, 0, 1, &[0; 16_383]));
    let error = server.receive(&frame(DATA, 0, 1, &[0]), 0).unwrap_err();
    assert_eq!(error.code, ErrorCode::FLOW_CONTROL_ERROR);
}

#[test]
fn unconsumed_stream_leaves_others_their_window() {
    let config = Config { stream_window_bytes: 10_000, connection_window_bytes: 70_000, ..Config::default() };
    let mut server = server(config);
    accepted(&mut server, &post(1));
    feed(&mut server, &frame(DATA, 0, 1, &[0; 10_000]));
    events(&mut server);
    let key = accepted(&mut server, &post(3));
    let mut body = Vec::new();
    for _ in 0..50 {
        feed(&mut server, &frame(DATA, 0, 3, &[0; 5_000]));
        server.take_data(key, &mut body);
        server.consume(key, body.len());
    }
}

#[test]
fn padding_and_dropped_data_give_their_window_back() {
    let config = Config { connection_window_bytes: 65_535, ..Config::default() };
    let mut server = server(config);
    accepted(&mut server, &post(1));
    let padded = [&[255][..], &[0; 255]].concat();
    for _ in 0..199 {
        feed(&mut server, &frame(DATA, PADDED, 1, &padded));
    }
    // 199 * 256 bytes of padding: half of the window was reported once.
    let frames = sent(&mut server);
    assert_eq!(frames.iter().filter(|frame| frame.stream == 0).count(), 1);
    let key = accepted(&mut server, &post(3));
    server.reset(key, ErrorCode::CANCEL);
    server.release(key);
    for _ in 0..10 {
        feed(&mut server, &frame(DATA, 0, 3, &[0; 16_384]));
    }
    let frames = sent(&mut server);
    assert!(frames.iter().filter(|frame| frame.kind == WINDOW_UPDATE && frame.stream == 0).count() >= 4);
}

#[test]
fn held_bytes_of_a_released_stream_are_given_back() {
    let config = Config { connection_window_bytes: 65_535, ..Config::default() };
    let mut server = server(config);
    for id in (1..40).step_by(2) {
        let key = accepted(&mut server, &post(id));
        (0..3).for_each(|_| feed(&mut server, &frame(DATA, 0, id, &[0; 16_384])));
        server.release(key);
        events(&mut server);
    }
}

#[test]
fn connection_window_shrinks_and_grows_again() {
    let mut server = server(Config { connection_window_bytes: 200_000, ..Config::default() });
    let key = accepted(&mut server, &post(1));
    server.set_window_limits(Limits::STREAM_WINDOW_BYTES, 70_000);
    assert_eq!(sent(&mut server), [], "no frame makes it smaller");
    let pieces = |server: &mut Connection, count: usize| {
        for _ in 0..count {
            feed(server, &frame(DATA, 0, 1, &[0; 10_000]));
            server.take_data(key, &mut Vec::new());
            server.consume(key, 10_000);
        }
        let increments =
            sent(server).into_iter().filter(|frame| frame.kind == WINDOW_UPDATE && frame.stream == 0);
        increments.map(|frame| u32::from_be_bytes(frame.payload.try_into().unwrap())).sum::<u32>()
    };
    assert_eq!(pieces(&mut server, 13), 0, "130,000 bytes are withheld");
    assert_eq!(pieces(&mut server, 8), 80_000, "told in halves of the window");
    server.set_window_limits(Limits::STREAM_WINDOW_BYTES, 100_000);
    let frames = sent(&mut server);
    assert_eq!((frames.len(), &frames[0].payload[..]), (1, &30_000_u32.to_be_bytes()[..]));
}

#[test]
fn window_limits_change_while_streams_run() {
    let mut server = server(Config { stream_window_bytes: 100, ..Config::default() });
    let key = accepted(&mut server, &post(1));
    server.set_window_limits(300, 2 << 20);
    let frames = sent(&mut server);
    assert_eq!(frames.iter().map(|frame| frame.kind).collect::<Vec<_>>(), [WINDOW_UPDATE, SETTINGS]);
    assert_eq!(frames[0].payload, (1_u32 << 20).to_be_bytes());
    feed(&mut server, &frame(DATA, 0, 1, &[0; 300]));
    // A smaller window counts once the peer has acknowledged it.
    server.take_data(key, &mut Vec::new());
    server.consume(key, 300);
    server.set_window_limits(100, 0);
    feed(&mut server, &frame(DATA, 0, 1, &[0; 300]));
    server.take_data(key, &mut Vec::new());
    server.consume(key, 300);
    feed(&mut server, &[frame(SETTINGS, ACK, 0, &[]), frame(SETTINGS, ACK, 0, &[])].concat());
    sent(&mut server);
    feed(&mut server, &frame(DATA, 0, 1, &[0; 101]));
    assert_eq!(resets(&sent(&mut server)), [(1, ErrorCode::FLOW_CONTROL_ERROR)]);
}
