//! Unidirectional streams of the peer: types, critical streams, and the instructions of QPACK.

use super::wire::*;
use http3::{Config, Connection, ErrorCode, UniState, UniStream};

fn server_code(input: &[u8]) -> Option<ErrorCode> {
    uni_error(server().0, input).map(|error| error.code)
}

#[test]
fn unknown_types_are_unwanted() {
    for number in [0x21, 0x54, 5, 1 << 40] {
        let (mut connection, _control) = server();
        let mut uni = UniStream::new();
        let bytes = integer(number);
        let (start, end) = bytes.split_at(bytes.len() - 1);
        assert_eq!(connection.receive_uni(&mut uni, start), Ok(UniState::Open));
        assert_eq!(connection.receive_uni(&mut uni, end), Ok(UniState::Unwanted));
        assert_eq!(connection.receive_uni(&mut uni, b"more"), Ok(UniState::Unwanted));
        assert_eq!(connection.end_uni(&uni), Ok(()));
    }
}

#[test]
fn push_streams_are_refused() {
    assert_eq!(server_code(&[1]), Some(ErrorCode::STREAM_CREATION_ERROR));
    assert_eq!(uni_error(client().0, &[1, 0]).unwrap().code, ErrorCode::ID_ERROR);
}

#[test]
fn second_critical_stream_is_refused() {
    for kind in [0, 2, 3] {
        let (mut connection, _control) = server();
        let mut first = UniStream::new();
        let first = connection.receive_uni(&mut first, &[kind]);
        let second = connection.receive_uni(&mut UniStream::new(), &[kind]);
        let error = first.and(second).unwrap_err();
        assert_eq!(error.code, ErrorCode::STREAM_CREATION_ERROR, "{kind}");
        assert_eq!(connection.failure(), Some(error));
    }
}

#[test]
fn closed_critical_stream_ends_the_connection() {
    for kind in [0, 2, 3] {
        let mut connection = Connection::server(Config::default());
        let mut uni = UniStream::new();
        connection.receive_uni(&mut uni, &[kind]).unwrap();
        let error = connection.end_uni(&uni).unwrap_err();
        assert_eq!(error.code, ErrorCode::CLOSED_CRITICAL_STREAM, "{kind}");
        assert_eq!(connection.tick(0), Err(error));
    }
    let (mut connection, _control) = server();
    assert_eq!(connection.critical_stream_closed().code, ErrorCode::CLOSED_CRITICAL_STREAM);
}

#[test]
fn stream_that_ends_before_its_type_is_tolerated() {
    let (mut connection, _control) = server();
    let mut uni = UniStream::new();
    connection.receive_uni(&mut uni, &[0x40]).unwrap();
    assert_eq!(connection.end_uni(&uni), Ok(()));
}

#[test]
fn encoder_may_only_set_capacity_zero() {
    assert_eq!(server_code(&[2, 0x20, 0x20]), None);
    for instruction in [0x21, 0x3f, 0x80, 0xc0, 0x40, 0x00] {
        let code = server_code(&[2, instruction]);
        assert_eq!(code, Some(ErrorCode::QPACK_ENCODER_STREAM_ERROR), "{instruction:#x}");
    }
}

#[test]
fn decoder_may_only_cancel_streams() {
    assert_eq!(server_code(&[3, 0x40, 0x44, 0x7f, 0x80, 0x01, 0x48]), None);
    let longest = [&[3, 0x7f][..], &[0xff; 8], &[0x01, 0x40]].concat();
    assert_eq!(server_code(&longest), None);
    let too_long = [&[3, 0x7f][..], &[0xff; 9], &[0x01]].concat();
    for input in [&[3, 0x80][..], &[3, 0xff], &[3, 0x00], &[3, 0x01], &too_long] {
        assert_eq!(server_code(input), Some(ErrorCode::QPACK_DECODER_STREAM_ERROR), "{input:?}");
    }
}

#[test]
fn failed_connection_refuses_everything() {
    let (mut connection, mut control) = server();
    let mut reader = connection.open_request(0).unwrap();
    let error = connection.receive_uni(&mut UniStream::new(), &[1]).unwrap_err();
    assert_eq!(connection.receive_uni(&mut control, b""), Err(error));
    assert_eq!(connection.end_uni(&control), Err(error));
    assert_eq!(connection.request_reset(), Err(error));
    assert_eq!(reader.read(&mut connection, &headers(&GET)), Err(error.into()));
    assert_eq!(reader.finish(&mut connection), Err(error.into()));
    assert_eq!(connection.open_request(4).unwrap_err().code, ErrorCode::REQUEST_REJECTED);
    connection.shutdown();
    assert!(!connection.is_shut_down());
}
