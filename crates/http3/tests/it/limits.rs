//! Sizes and rates beyond which a peer is refused, and the memory that it can hold.

use super::wire::*;
use http3::{Config, Connection, ConnectionError, ErrorCode, Fault, Limits, UniStream};
use message::HeadLimits;

/// How often an action succeeds before it ends the connection.
fn accepted(mut action: impl FnMut(u64) -> Result<(), ConnectionError>) -> u32 {
    for count in 0..100_000 {
        if let Err(error) = action(count) {
            assert_eq!(error.code, ErrorCode::EXCESSIVE_LOAD);
            return count as u32;
        }
    }
    panic!("there is no limit");
}

fn connection_error(fault: Fault) -> ConnectionError {
    match fault {
        Fault::Connection(error) => error,
        Fault::Stream(error) => panic!("a stream error: {error}"),
    }
}

/// A frame header without its payload.
fn header(kind: u64, length: u64) -> Vec<u8> {
    [integer(kind), integer(length)].concat()
}

#[test]
fn heads_beyond_the_limits_are_answered() {
    let long = "v".repeat(HeadLimits::HEAD_BYTES);
    let many = vec![("a", "b"); HeadLimits::FIELDS + 1];
    let announced = header(HEADERS, Limits::HEAD_BLOCK_BYTES as u64 + 1);
    for input in [headers_with(&GET, &[("a", &long)]), headers_with(&GET, &many), announced] {
        let input = [input, vec![0xFF; 100]].concat();
        let read = request(&input);
        assert_eq!((read.lines, read.fault), (vec!["too large".into()], None));
    }
    let huge = header(HEADERS, (1 << 62) - 1);
    assert_eq!(request(&huge).lines, ["too large"]);
}

#[test]
fn larger_heads_are_taken_if_configured() {
    let head = HeadLimits { max_head_bytes: 200_000, ..HeadLimits::default() };
    let mut connection = Connection::server(Config { head, ..Config::default() });
    let mut reader = connection.open_request(0).unwrap();
    let input = headers_with(&GET, &[("a", &"v".repeat(150_000))]);
    let read = read(&mut connection, &mut reader, &input, 0..input.len(), true);
    assert_eq!((read.lines.len(), read.fault), (1, None));
    assert!(read.lines[0].len() > 150_000);
}

#[test]
fn trailers_and_responses_beyond_the_limits_are_reset() {
    let long = "v".repeat(HeadLimits::HEAD_BYTES);
    let trailers = [headers(&POST), headers(&[("a", &long)])].concat();
    let response_head = headers(&[(":status", "200"), ("a", &long)]);
    for fault in [request(&trailers).fault.unwrap(), response("GET", &response_head).fault.unwrap()] {
        assert_eq!(fault.code(), ErrorCode::EXCESSIVE_LOAD);
        assert!(matches!(fault, Fault::Stream(_)));
    }
}

#[test]
fn interim_heads_are_counted() {
    let interim = headers(&[(":status", "100")]);
    let most = interim.repeat(Limits::INTERIM_HEADS as usize);
    let good = [&most[..], &headers(&[(":status", "200")])].concat();
    assert_eq!(response("GET", &good).fault, None);
    let fault = response("GET", &[most, interim].concat()).fault.unwrap();
    assert_eq!(fault.code(), ErrorCode::EXCESSIVE_LOAD);
}

#[test]
fn large_frames_end_the_connection() {
    let unknown = header(UNKNOWN, Limits::UNKNOWN_FRAME_BYTES + 1);
    let fault = request(&[headers(&POST), unknown.clone()].concat()).fault.unwrap();
    assert_eq!(connection_error(fault).code, ErrorCode::EXCESSIVE_LOAD);
    for frame in [unknown, header(GOAWAY, Limits::CONTROL_FRAME_BYTES + 1), header(PRIORITY_UPDATE, 1 << 60)]
    {
        let (mut connection, mut control) = server();
        let error = connection.receive_uni(&mut control, &frame).unwrap_err();
        assert_eq!(error.code, ErrorCode::EXCESSIVE_LOAD);
    }
}

#[test]
fn cheap_frames_are_counted() {
    let (mut connection, mut control) = server();
    let mut frames = |frame: Vec<u8>| accepted(|_| connection.receive_uni(&mut control, &frame).map(drop));
    assert_eq!(frames(frame(MAX_PUSH_ID, &[9])), Limits::RATE_CONTROL);
    for (frame, rate) in [
        (frame(UNKNOWN, b""), Limits::RATE_UNKNOWN_FRAMES),
        (frame(PRIORITY_UPDATE, &[4]), Limits::RATE_PRIORITIES),
        (frame(GOAWAY, &[0]), Limits::RATE_CONTROL),
    ] {
        let (mut connection, mut control) = server();
        assert_eq!(accepted(|_| connection.receive_uni(&mut control, &frame).map(drop)), rate);
    }
}

#[test]
fn unknown_streams_and_instructions_are_counted() {
    let (mut connection, _control) = server();
    let unknown = accepted(|_| connection.receive_uni(&mut UniStream::new(), &[0x21]).map(drop));
    assert_eq!(unknown, Limits::RATE_UNKNOWN_STREAMS);
    let (mut connection, _control) = server();
    let without_type = accepted(|_| connection.end_uni(&UniStream::new()));
    assert_eq!(without_type, Limits::RATE_UNKNOWN_STREAMS);
    for (kind, instruction) in [(2, 0x20), (3, 0x41)] {
        let (mut connection, _control) = server();
        let mut uni = UniStream::new();
        connection.receive_uni(&mut uni, &[kind]).unwrap();
        let count = accepted(|_| connection.receive_uni(&mut uni, &[instruction]).map(drop));
        assert_eq!(count, Limits::RATE_INSTRUCTIONS);
    }
}

#[test]
fn cheap_requests_are_counted() {
    let (mut connection, _control) = server();
    assert_eq!(accepted(|_| connection.request_reset()), Limits::RATE_PEER_RESETS);
    let (mut connection, _control) = server();
    (0..5).for_each(|_| connection.request_completed());
    assert_eq!(accepted(|_| connection.request_reset()), Limits::RATE_PEER_RESETS + 5);
    let (mut connection, _control) = client();
    assert!((0..10_000).all(|_| connection.request_reset() == Ok(())), "a server may reset");
    let (mut connection, _control) = server();
    let faulty = accepted(|count| {
        let mut reader = connection.open_request(4 * count).unwrap();
        match reader.read(&mut connection, &headers(&GET[1..])).unwrap_err() {
            Fault::Stream(_) => Ok(()),
            Fault::Connection(error) => Err(error),
        }
    });
    assert_eq!(faulty, Limits::RATE_LOCAL_RESETS);
    let (mut connection, _control) = server();
    let mut reader = connection.open_request(0).unwrap();
    reader.read(&mut connection, &headers(&POST)).unwrap();
    // One stream after the other, each with as many as it may send.
    let empty = accepted(|count| {
        if count % u64::from(Limits::EMPTY_DATA) == 0 {
            reader = connection.open_request(4 + 4 * count).unwrap();
            reader.read(&mut connection, &headers(&POST)).unwrap();
        }
        reader.read(&mut connection, &frame(DATA, b"")).map(drop).map_err(connection_error)
    });
    assert_eq!(empty, Limits::RATE_EMPTY_DATA);
}

#[test]
fn empty_data_between_data_passes() {
    let (mut connection, _control) = server();
    let mut reader = connection.open_request(0).unwrap();
    reader.read(&mut connection, &headers(&POST)).unwrap();
    for _ in 0..10_000 {
        for part in [frame(DATA, b"x"), frame(DATA, b""), frame(UNKNOWN, b"")] {
            let mut rest = &part[..];
            while !rest.is_empty() {
                rest = &rest[reader.read(&mut connection, rest).unwrap().consumed..];
            }
        }
    }
    assert_eq!((reader.finish(&mut connection), connection.failure()), (Ok(()), None));
}

#[test]
fn empty_data_in_a_row_ends_its_stream() {
    let (mut connection, _control) = server();
    let mut reader = connection.open_request(0).unwrap();
    reader.read(&mut connection, &headers(&POST)).unwrap();
    for _ in 0..Limits::EMPTY_DATA {
        reader.read(&mut connection, &frame(DATA, b"")).unwrap();
    }
    let fault = reader.read(&mut connection, &frame(DATA, b"")).unwrap_err();
    assert!(matches!(fault, Fault::Stream(error) if error.code == ErrorCode::EXCESSIVE_LOAD), "{fault:?}");
    assert_eq!(connection.failure(), None);
    // Seldom ones are no row.
    let mut reader = connection.open_request(4).unwrap();
    reader.read(&mut connection, &headers(&POST)).unwrap();
    for second in 0..1_000 {
        connection.tick(second * 1_000).unwrap();
        reader.read(&mut connection, &frame(DATA, b"")).unwrap();
    }
}

#[test]
fn rates_are_forgiven_after_the_interval() {
    let (mut connection, mut control) = server();
    for round in 0..5 {
        connection.tick(round * Limits::RATE_INTERVAL_MS).unwrap();
        for _ in 0..Limits::RATE_UNKNOWN_FRAMES {
            connection.receive_uni(&mut control, &frame(UNKNOWN, b"")).unwrap();
        }
    }
}

#[test]
fn memory_is_bounded_and_given_back() {
    http3_idle_sizes();
    let (mut connection, mut control) = server();
    let priorities: Vec<u8> = (0..100_u64)
        .flat_map(|at| frame(PRIORITY_UPDATE, &[integer(4 * at), b"u=1".to_vec()].concat()))
        .collect();
    connection.receive_uni(&mut control, &priorities).unwrap();
    assert!(connection.memory() < 2048, "{}", connection.memory());
    let far = frame(PRIORITY_UPDATE, &integer(4 << 40));
    connection.receive_uni(&mut control, &far).unwrap();
    let mut reader = connection.open_request(0).unwrap();
    let head = headers_with(&GET, &[("a", &"v".repeat(60_000))]);
    reader.read(&mut connection, &head[..head.len() - 1]).unwrap();
    assert!(reader.memory() <= 2 * Limits::HEAD_BLOCK_BYTES, "{}", reader.memory());
    let read = read(&mut connection, &mut reader, &head[head.len() - 1..], [].into_iter(), true);
    assert_eq!((read.fault, reader.memory()), (None, 0));
}

/// An idle connection and a request without a head own little.
fn http3_idle_sizes() {
    let (connection, _control) = server();
    assert_eq!(connection.memory(), 0);
    assert!(size_of::<Connection>() <= 512, "{}", size_of::<Connection>());
    assert!(size_of::<http3::RequestReader>() <= 216, "{}", size_of::<http3::RequestReader>());
}
