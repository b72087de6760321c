//! Ends of connections: the two steps of a graceful shutdown, close, and keep-alive.

use super::wire::*;
use http2::{Config, ErrorCode, Event, StartError};

/// Last stream and code of a GOAWAY frame.
fn goaway(frame: &Frame) -> (u32, u32) {
    assert_eq!(frame.kind, GOAWAY);
    let word = |at: usize| u32::from_be_bytes(frame.payload[at..at + 4].try_into().unwrap());
    (word(0), word(4))
}

#[test]
fn server_drains_in_two_steps() {
    let mut server = server(Config::default());
    let first = accepted(&mut server, &get(1));
    server.shutdown();
    let frames = sent(&mut server);
    assert_eq!((goaway(&frames[0]), frames[1].kind, frames[1].flags), ((0x7FFF_FFFF, 0), PING, 0));
    // Requests that were on their way are still taken.
    let second = accepted(&mut server, &get(3));
    feed(&mut server, &frame(PING, ACK, 0, &frames[1].payload));
    assert_eq!(goaway(&sent(&mut server)[0]), (3, 0));
    feed(&mut server, &get(5));
    assert_eq!(resets(&sent(&mut server)), [(5, ErrorCode::REFUSED_STREAM)]);
    for key in [first, second] {
        assert!(!server.is_drained());
        server.start_response(key, 200).unwrap().finish(true);
        server.release(key);
    }
    assert_eq!((server.is_drained(), events(&mut server)), (true, vec![Event::Drained]));
    server.shutdown();
    assert_eq!(events(&mut server), []);
}

#[test]
fn second_call_does_not_wait_for_the_ping() {
    let mut server = server(Config::default());
    server.shutdown();
    server.shutdown();
    let frames = sent(&mut server);
    assert_eq!((goaway(&frames[0]).0, goaway(&frames[2])), (0x7FFF_FFFF, (0, 0)));
    assert_eq!((server.is_drained(), events(&mut server)), (true, vec![Event::Drained]));
    feed(&mut server, &frame(PING, ACK, 0, &frames[1].payload));
    assert!(sent(&mut server).is_empty());
}

#[test]
fn client_starts_nothing_after_shutdown() {
    let mut client = client(Config::default());
    let key = started(&mut client);
    client.shutdown();
    assert_eq!(client.can_start(), Err(StartError::GoAway));
    assert!(!client.is_drained());
    feed(&mut client, &headers(1, END_STREAM, &[(":status", "200")]));
    assert_eq!(events(&mut client), [Event::Head(key)]);
    client.release(key);
    assert_eq!((client.is_drained(), events(&mut client)), (true, vec![Event::Drained]));
}

#[test]
fn close_resets_all_streams() {
    let mut server = server(Config::default());
    let key = accepted(&mut server, &post(1));
    feed(&mut server, &get(3));
    server.close(ErrorCode::ENHANCE_YOUR_CALM);
    let frames = sent(&mut server);
    assert_eq!((frames.len(), goaway(&frames[0])), (1, (3, 11)));
    assert_eq!(events(&mut server), [Event::Reset(key, ErrorCode::ENHANCE_YOUR_CALM)]);
    assert_eq!(server.receive(&get(5), 0).unwrap_err().code, ErrorCode::ENHANCE_YOUR_CALM);
    server.close(ErrorCode::NO_ERROR);
    server.release(key);
    server.shutdown();
    server.ping();
    assert!(sent(&mut server).is_empty());
}

#[test]
fn ping_is_answered_by_its_number() {
    let mut client = client(Config::default());
    let numbers = [client.ping(), client.ping()];
    let frames = sent(&mut client);
    feed(&mut client, &frame(PING, ACK, 0, &frames[1].payload));
    feed(&mut client, &frame(PING, ACK, 0, b"unasked!"));
    assert_eq!(events(&mut client), [Event::Pong(numbers[1])]);
    feed(&mut client, &frame(PING, 0, 0, b"12345678"));
    assert_eq!(
        sent(&mut client),
        [Frame { kind: PING, flags: ACK, stream: 0, payload: b"12345678".to_vec() }]
    );
}
