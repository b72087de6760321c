//! The control stream of the peer, what this side sends on its own, and the graceful end.

use super::wire::*;
use http3::{Config, Connection, ErrorCode, Event, UniStream};

/// The code of a control stream that begins with SETTINGS and goes on with these frames.
fn server_code(frames: &[Vec<u8>]) -> Option<ErrorCode> {
    let (mut connection, mut control) = server();
    connection.receive_uni(&mut control, &frames.concat()).err().map(|error| error.code)
}

fn client_code(frames: &[Vec<u8>]) -> Option<ErrorCode> {
    let (mut connection, mut control) = client();
    connection.receive_uni(&mut control, &frames.concat()).err().map(|error| error.code)
}

#[test]
fn settings_come_first_and_once() {
    let fresh = || Connection::server(Config::default());
    for first in [frame(GOAWAY, &[0]), frame(UNKNOWN, b""), frame(DATA, b"a"), frame(MAX_PUSH_ID, &[0])] {
        let error = uni_error(fresh(), &[vec![0], first].concat()).unwrap();
        assert_eq!(error.code, ErrorCode::MISSING_SETTINGS);
    }
    assert_eq!(server_code(&[frame(SETTINGS, b"")]), Some(ErrorCode::FRAME_UNEXPECTED));
    let error = uni_error(fresh(), &control(&[(4, 1)])).unwrap();
    assert_eq!(error.code, ErrorCode::SETTINGS_ERROR, "a setting of HTTP/2");
    assert_eq!(uni_error(fresh(), &control(&[(0x21, 1), (6, 100)])), None);
}

#[test]
fn settings_have_a_deadline() {
    let mut connection = Connection::server(Config::default());
    assert_eq!((connection.settings_deadline_ms(), connection.tick(1_000)), (None, Ok(())));
    assert_eq!(connection.settings_deadline_ms(), Some(11_000));
    assert_eq!(connection.tick(10_999), Ok(()));
    assert_eq!(connection.tick(11_000).unwrap_err().code, ErrorCode::MISSING_SETTINGS);
    let (mut connection, _control) = server();
    assert_eq!((connection.tick(0), connection.tick(1 << 40)), (Ok(()), Ok(())));
    assert_eq!(connection.settings_deadline_ms(), None);
}

#[test]
fn frames_of_requests_are_unexpected() {
    for kind in [DATA, HEADERS, PUSH_PROMISE, 2, 6, 8, 9] {
        assert_eq!(server_code(&[frame(kind, &[0])]), Some(ErrorCode::FRAME_UNEXPECTED), "{kind}");
        assert_eq!(client_code(&[frame(kind, &[0])]), Some(ErrorCode::FRAME_UNEXPECTED), "{kind}");
    }
}

#[test]
fn frames_of_clients_are_unexpected_from_a_server() {
    for kind in [MAX_PUSH_ID, PRIORITY_UPDATE, PRIORITY_UPDATE + 1] {
        assert_eq!(client_code(&[frame(kind, &[0])]), Some(ErrorCode::FRAME_UNEXPECTED), "{kind}");
    }
}

#[test]
fn unknown_frames_are_dropped() {
    let frames = [frame(UNKNOWN, &[0; 300]), frame(0xf0702, b""), frame(GOAWAY, &[0])];
    assert_eq!((server_code(&frames), client_code(&frames)), (None, None));
}

#[test]
fn push_identifiers_only_grow() {
    let max = |id: u64| frame(MAX_PUSH_ID, &integer(id));
    assert_eq!(server_code(&[max(5), max(5), max(70_000)]), None);
    assert_eq!(server_code(&[max(5), max(4)]), Some(ErrorCode::ID_ERROR));
    for kind in [CANCEL_PUSH, PRIORITY_UPDATE + 1] {
        assert_eq!(server_code(&[max(5), frame(kind, &[3])]), Some(ErrorCode::ID_ERROR), "{kind}");
    }
    assert_eq!(client_code(&[frame(CANCEL_PUSH, &[0])]), Some(ErrorCode::ID_ERROR));
}

#[test]
fn faulty_layouts_are_frame_errors() {
    for payload in [&b""[..], &[0x40], &[0, 0], &[0xC0, 0, 0]] {
        for kind in [GOAWAY, MAX_PUSH_ID, CANCEL_PUSH] {
            let code = server_code(&[frame(kind, payload)]);
            assert_eq!(code, Some(ErrorCode::FRAME_ERROR), "{kind} {payload:?}");
        }
    }
    assert_eq!(server_code(&[frame(PRIORITY_UPDATE, b"")]), Some(ErrorCode::FRAME_ERROR));
}

#[test]
fn goaway_identifiers_only_fall() {
    let goaway = |id: u64| frame(GOAWAY, &integer(id));
    assert_eq!(client_code(&[goaway(8), goaway(4), goaway(4)]), None);
    assert_eq!(client_code(&[goaway(8), goaway(12)]), Some(ErrorCode::ID_ERROR));
    assert_eq!(client_code(&[goaway(2)]), Some(ErrorCode::ID_ERROR));
    assert_eq!(server_code(&[goaway(3), goaway(2)]), None);
    assert_eq!(server_code(&[goaway(3), goaway(4)]), Some(ErrorCode::ID_ERROR));
    let (mut connection, mut control) = client();
    connection.receive_uni(&mut control, &[goaway(8), goaway(8), goaway(0)].concat()).unwrap();
    let events: Vec<Event> = std::iter::from_fn(|| connection.next_event()).collect();
    assert_eq!(events, [Event::GoAway(8), Event::GoAway(0)]);
}

#[test]
fn priority_update_needs_a_request_stream() {
    for id in [1_u64, 2, 3] {
        let update = frame(PRIORITY_UPDATE, &integer(id));
        assert_eq!(server_code(&[update]), Some(ErrorCode::ID_ERROR), "{id}");
    }
}

#[test]
fn server_announces_its_settings() {
    let connection = Connection::server(Config::default());
    // Type, SETTINGS of 65,536 bytes for a section, no table, no blocked streams, extended CONNECT.
    let expected = [&[0, 4, 11, 6][..], &integer(65_536), &[1, 0, 7, 0, 8, 1]].concat();
    assert_eq!(connection.control_output(), expected);
    let client = Connection::client(Config::default());
    assert_eq!(client.control_output(), [&[0, 4, 9, 6][..], &integer(65_536), &[1, 0, 7, 0]].concat());
    let mut peer = Connection::client(Config::default());
    let config = Config { grease: Some(0x1234_5678_9abc_def0), ..Config::default() };
    let greased = Connection::server(config);
    peer.receive_uni(&mut UniStream::new(), greased.control_output()).unwrap();
    assert!(peer.peer_settings().enable_connect_protocol);
    assert!(greased.control_output().len() > expected.len() + 4);
}

#[test]
fn shutdown_has_two_steps() {
    let (mut connection, _control) = server();
    connection.open_request(0).unwrap();
    connection.shutdown();
    connection.shutdown();
    assert_eq!(connection.control_output(), frame(GOAWAY, &integer((1 << 62) - 4)));
    connection.open_request(4).unwrap();
    assert!(!connection.is_shut_down());
    connection.advance_control(connection.control_output().len());
    connection.finish_shutdown();
    assert_eq!(connection.control_output(), frame(GOAWAY, &[8]));
    assert!(connection.is_shut_down());
    assert_eq!(connection.open_request(8).unwrap_err().code, ErrorCode::REQUEST_REJECTED);
    let (mut client, mut control) = client();
    client.receive_uni(&mut control, connection.control_output()).unwrap();
    assert_eq!(client.next_event(), Some(Event::GoAway(8)));
    client.shutdown();
    assert_eq!(client.control_output(), frame(GOAWAY, &[0]));
}
