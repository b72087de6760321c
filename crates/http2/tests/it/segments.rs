//! Bodies that are handed over with their memory: the same frames as of copied bytes, under the same limits.

use std::io::IoSlice;

use super::wire::*;
use http2::{Config, Connection, ErrorCode, Event, Limits, StreamKey};
use proptest::collection::vec;
use proptest::prelude::*;
use stdx::segment::ByteSegment;

const OPEN: u32 = 1 << 24;

/// A server with a stream and its response head, which was written, and open windows.
fn answering(config: Config) -> (Connection, StreamKey) {
    let mut server = server(config);
    let key = accepted(&mut server, &get(1));
    server.start_response(key, 200).unwrap().finish(false);
    feed(&mut server, &window_update(0, OPEN));
    feed(&mut server, &window_update(1, OPEN));
    sent(&mut server);
    (server, key)
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|place| (place % 251) as u8).collect()
}

fn segment(bytes: &[u8]) -> ByteSegment {
    ByteSegment::from_vector(bytes.to_vec(), 0, drop)
}

#[test]
fn segment_makes_the_frames_of_copied_bytes() {
    for (count, ends) in
        [(1, false), (16_384, true), (16_385, false), (40_000, true), (65_500, false), (65_500, true)]
    {
        let body = bytes(count);
        let (mut copying, key) = answering(Config::default());
        assert_eq!(copying.write_data(key, &body, ends), count);
        let (mut handing, key) = answering(Config::default());
        handing.write_segment(key, segment(&body), ends).unwrap();
        assert_eq!(handing.output_bytes(), copying.output_bytes());
        assert_eq!(sent(&mut handing), sent(&mut copying), "{count} bytes");
        assert_eq!(handing.capacity(key), copying.capacity(key));
    }
}

#[test]
fn segment_beyond_the_capacity_is_given_back() {
    let (mut server, key) = answering(Config::default());
    let most = server.capacity(key);
    let given_back = server.write_segment(key, segment(&bytes(most + 1)), true).unwrap_err();
    assert_eq!((given_back.len(), server.output_bytes()), (most + 1, 0));
    assert!(server.write_segment(key, segment(b""), true).is_err());
    server.write_segment(key, segment(&bytes(most)), false).unwrap();
    assert_eq!(server.output_bytes(), Limits::OUTPUT_BYTES, "as full as with copied bytes");
    assert!(server.write_segment(key, segment(b"x"), false).is_err());
    feed(&mut server, &reset(1, ErrorCode::CANCEL));
    sent(&mut server);
    assert!(server.write_segment(key, segment(b"x"), false).is_err(), "of a stream that was reset");
    // Bytes that were written do not count against the window of the connection twice.
    let other = accepted_behind(&mut server, &get(3));
    server.start_response(other, 200).unwrap().finish(false);
    assert!(server.capacity(other) > 0);
}

/// The key of a request among other events.
fn accepted_behind(connection: &mut Connection, request: &[u8]) -> StreamKey {
    feed(connection, request);
    let mut heads = events(connection).into_iter().filter_map(|event| match event {
        Event::Head(key) => Some(key),
        _ => None,
    });
    heads.next_back().unwrap()
}

#[test]
fn control_frames_stay_in_their_order() {
    let (mut server, key) = answering(Config::default());
    feed(&mut server, &frame(PING, 0, 0, b"before--"));
    server.write_segment(key, segment(&bytes(20_000)), false).unwrap();
    feed(&mut server, &frame(PING, 0, 0, b"between-"));
    server.write_segment(key, segment(&bytes(10_000)), false).unwrap();
    server.reset(key, ErrorCode::INTERNAL_ERROR);
    server.close(ErrorCode::NO_ERROR);
    let kinds: Vec<_> = sent(&mut server).iter().map(|frame| (frame.kind, frame.payload.len())).collect();
    let expected = [(PING, 8), (DATA, 16_384), (DATA, 3_616), (PING, 8), (DATA, 10_000), (RST_STREAM, 4)];
    assert_eq!(kinds[..6], expected);
    assert_eq!(kinds[6].0, GOAWAY);
}

#[test]
fn memory_of_segments_counts_until_written() {
    let (mut server, key) = answering(Config::default());
    let before = server.memory();
    server.write_segment(key, segment(&bytes(30_000)), true).unwrap();
    assert!(server.memory() >= before + 30_000);
    sent(&mut server);
    assert!(server.memory() <= before + 1024, "{} {before}", server.memory());
}

proptest! {
    /// Pieces of a body that are copied or handed over, and a socket that takes what it likes.
    #[test]
    fn any_writes_give_the_body(
        pieces in vec((1..40_000_usize, any::<bool>()), 1..12),
        writes in vec(1..70_000_usize, 1..20),
        most_slices in 1..8_usize,
    ) {
        let (mut server, key) = answering(Config::default());
        let body = bytes(pieces.iter().map(|(count, _)| count).sum());
        let (mut rest, mut written, mut next_write) = (&body[..], Vec::new(), 0);
        for (count, hands_over) in pieces {
            let (mut piece, behind) = rest.split_at(count);
            let is_last = behind.is_empty();
            while !piece.is_empty() {
                events(&mut server);
                if hands_over && server.write_segment(key, segment(piece), is_last).is_ok() {
                    piece = &[];
                }
                piece = &piece[server.write_data(key, piece, is_last)..];
                prop_assert!(server.output_bytes() <= Limits::OUTPUT_BYTES);
                if !piece.is_empty() {
                    write(&mut server, &mut written, writes[next_write % writes.len()], most_slices);
                    next_write += 1;
                }
            }
            rest = behind;
        }
        while server.output_bytes() > 0 {
            write(&mut server, &mut written, 1 << 20, most_slices);
        }
        let frames = frames(&written);
        prop_assert!(frames.iter().all(|frame| frame.payload.len() <= Limits::FRAME_BYTES as usize));
        let sent: Vec<u8> = frames.iter().flat_map(|frame| frame.payload.clone()).collect();
        prop_assert!(sent == body);
        let ends: Vec<_> = frames.iter().map(|frame| frame.flags).collect();
        prop_assert!(ends.iter().rev().skip(1).all(|flags| *flags == 0) && ends.last() == Some(&END_STREAM));
    }
}

/// The socket takes `count` bytes at most, from so many slices.
fn write(server: &mut Connection, written: &mut Vec<u8>, count: usize, most_slices: usize) {
    let mut slices = vec![IoSlice::new(&[]); most_slices];
    let filled = server.output_slices(&mut slices);
    let joined: Vec<u8> = slices[..filled].iter().flat_map(|slice| slice.to_vec()).collect();
    let count = count.min(joined.len());
    written.extend_from_slice(&joined[..count]);
    server.advance(count);
}
