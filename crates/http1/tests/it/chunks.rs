//! Tables of chunked bodies, and that the places where the bytes are cut do not matter.
#![allow(clippy::unwrap_used)]

use http1::chunked::{ChunkError, Decoder, Piece};
use proptest::prelude::*;

type Decoded = (Vec<u8>, Vec<(String, String)>, usize);

/// Feeds `input` in pieces that end at `cuts`; data, trailers and how much of the input the message took.
fn decode(input: &[u8], cuts: &[usize]) -> Result<Option<Decoded>, ChunkError> {
    let mut decoder = Decoder::new();
    let (mut data, mut at) = (Vec::new(), 0);
    for &cut in cuts.iter().chain([&input.len()]) {
        loop {
            let step = decoder.decode(&input[at..cut])?;
            at += step.consumed;
            match step.piece {
                Piece::Data(length) => {
                    assert!(length > 0 && at + length <= cut);
                    // Not all at once: partial use is allowed.
                    let used = length.div_ceil(2);
                    data.extend_from_slice(&input[at..at + used]);
                    at += used;
                    decoder.took(used);
                }
                Piece::More => {
                    assert_eq!(at, cut);
                    break;
                }
                Piece::End => {
                    assert!(decoder.is_done());
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    let trailers =
                        decoder.trailers().iter().map(|field| (text(field.name), text(field.value)));
                    return Ok(Some((data, trailers.collect(), at)));
                }
            }
        }
    }
    Ok(None)
}

fn check(input: &str, data: &str, rest: &str) {
    let expected = (data.as_bytes().to_vec(), vec![], input.len() - rest.len());
    assert_eq!(decode(input.as_bytes(), &[]), Ok(Some(expected)), "{input:?}");
}

fn refuse(input: impl AsRef<[u8]>, expected: ChunkError) {
    let input = input.as_ref();
    assert_eq!(decode(input, &[]), Err(expected), "{}", input.escape_ascii());
    let each: Vec<usize> = (0..input.len()).collect();
    assert_eq!(decode(input, &each), Err(expected), "byte by byte: {}", input.escape_ascii());
}

#[test]
fn good_bodies() {
    check("0\r\n\r\n", "", "");
    check("5\r\nhello\r\n0\r\n\r\n", "hello", "");
    check("5\r\nhello\r\n0\r\n\r\nGET /", "hello", "GET /");
    check("A\r\n0123456789\r\n0000\r\n\r\n", "0123456789", "");
    check("0000000000000001\r\nx\r\n0\r\n\r\n", "x", "");
    check("1;a=b;c=\"d\"\r\nx\r\n0;e\r\n\r\n", "x", "");
    check("2\r\n\r\n\r\n0\r\n\r\n", "\r\n", "");
}

#[test]
fn bad_sizes() {
    for size in [
        "",
        "0x5",
        "+5",
        "-5",
        "5_0",
        "5.",
        "5xyz",
        "5 5",
        "5 ",
        " 5",
        "g",
        "00000000000000005",
        "5\t",
        ";a",
        "5,",
    ] {
        refuse(format!("{size}\r\nhello\r\n0\r\n\r\n"), ChunkError::Size);
    }
}

#[test]
fn bad_line_ends() {
    for input in [
        "5\nhello\r\n0\r\n\r\n",
        "5\rhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello\r0\r\n\r\n",
        "5\r\nhelloX\r\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5;a\nhello\r\n0\r\n\r\n",
        "5;a\rb\r\nhello\r\n",
        "5\r\r\nhello\r\n",
        "0\r\n\n",
        "0\n\n",
        "0\r\nA: b\n\r\n",
    ] {
        refuse(input, ChunkError::LineEnd);
    }
    refuse("5;a\0\r\nhello\r\n0\r\n\r\n", ChunkError::Extension);
}

#[test]
fn bad_trailers() {
    for line in ["A", ": b", "A : b", " A: b", "A: b\0", "A: b\rc", "A\0: b"] {
        refuse(format!("0\r\n{line}\r\n\r\n"), ChunkError::Trailer);
    }
}

#[test]
fn trailers() {
    let input = "0\r\nDigest: x\r\nContent-Length: 5\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTE: a\r\nAuthorization: b\r\n\
                 Cookie: c\r\nSet-Cookie: d\r\nConnection: e\r\nTrailer: f\r\nX-Sum:\t1 \r\n\r\n";
    let (_, trailers, _) = decode(input.as_bytes(), &[]).unwrap().unwrap();
    assert_eq!(trailers, [("Digest".into(), "x".into()), ("X-Sum".into(), "1".into())]);
    refuse("0\r\n".to_owned() + &"A: b\r\n".repeat(101) + "\r\n", ChunkError::TrailersTooLarge);
    refuse(format!("0\r\nA: {}\r\n\r\n", "b".repeat(17_000)), ChunkError::TrailersTooLarge);
}

#[test]
fn extensions_are_bounded_over_the_whole_message() {
    let chunk = format!("1;{}\r\nx\r\n", "e".repeat(1000));
    assert!(decode((chunk.repeat(16) + "0\r\n\r\n").as_bytes(), &[]).unwrap().is_some());
    refuse(chunk.repeat(17) + "0\r\n\r\n", ChunkError::ExtensionsTooLarge);
}

#[test]
fn a_body_cut_short_is_never_complete() {
    let input = b"3;x\r\nabc\r\n1\r\nd\r\n0\r\nA: b\r\n\r\n";
    for end in 0..input.len() {
        assert_eq!(decode(&input[..end], &[]), Ok(None), "{end}");
    }
}

#[test]
fn a_decoder_starts_again() {
    let mut decoder = Decoder::new();
    for _ in 0..2 {
        assert_eq!(decoder.decode(b"0\r\nA: b\r\n\r\n").unwrap().piece, Piece::End);
        assert_eq!(decoder.trailers().len(), 1);
        decoder.reset();
        assert!(!decoder.is_done() && decoder.trailers().is_empty());
    }
}

proptest! {
    #[test]
    fn encoded_chunks_round_trip_at_every_cut(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
        mut cuts in prop::collection::vec(0usize..300, 0..6),
    ) {
        let mut input = Vec::new();
        for chunk in &chunks {
            http1::encode::chunk_prefix(&mut input, chunk.len());
            input.extend_from_slice(chunk);
            input.extend_from_slice(http1::encode::CHUNK_END);
        }
        let mut fields = message::Headers::new();
        fields.append("X-Sum", b"1").unwrap();
        http1::encode::trailers(&mut input, &fields);
        cuts.iter_mut().for_each(|cut| *cut = (*cut).min(input.len()));
        cuts.sort_unstable();
        let expected = (chunks.concat(), vec![("X-Sum".to_owned(), "1".to_owned())], input.len());
        prop_assert_eq!(decode(&input, &cuts), Ok(Some(expected)));
    }

    #[test]
    fn garbage_never_panics_and_cuts_keep_the_verdict(
        input in "([0-9a-fA-F]{0,3}(;[a-z]{0,3})?\r?\n?[a-z]{0,5}\r?\n?){0,5}(0\r\n\r\n)?",
        mut cuts in prop::collection::vec(0usize..80, 0..4),
    ) {
        cuts.iter_mut().for_each(|cut| *cut = (*cut).min(input.len()));
        cuts.sort_unstable();
        prop_assert_eq!(decode(input.as_bytes(), &cuts), decode(input.as_bytes(), &[]));
    }
}
