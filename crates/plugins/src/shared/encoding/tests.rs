//! Bodies that were coded in any pieces decode to the same bytes; decoders have limits.

use std::rc::Rc;
use std::sync::Arc;

use exchange::overload::OverloadState;
use exchange::plugin::BodyEncoder;
use proptest::prelude::*;

use super::brotli::{Brotli, BrotliMode, BrotliSettings};
use super::decode::{self, DecodeError};
use super::encoder::{Compressor, Encoder};
use super::gzip::{Gzip, GzipLevel};
use super::pool::CompressorPool;
use super::zstd::{Zstd, ZstdLevel};

const LIMIT: usize = 64 * 1024 * 1024;

/// A body of `length` bytes that compresses like a text.
fn text(length: usize) -> Vec<u8> {
    let line = |index: usize| format!("{{\"id\":{},\"name\":\"name {}\"}},", index * 7_919, index % 97);
    (0..).flat_map(|index| line(index).into_bytes()).take(length).collect()
}

fn brotli(quality: u32) -> BrotliSettings {
    BrotliSettings { mode: BrotliMode::Generic, quality, window_bits: 19, block_bits: 0 }
}

/// A pool without a limit of memory.
fn pool<C: Compressor>() -> Rc<CompressorPool<C>> {
    Rc::new(CompressorPool::new(Arc::default()))
}

/// Codes `pieces`, with a flush behind each of them if `is_stream`.
fn code<C: Compressor>(
    pool: &Rc<CompressorPool<C>>,
    settings: &C::Settings,
    pieces: &[&[u8]],
    is_stream: bool,
) -> Vec<u8> {
    let length = pieces.iter().map(|piece| piece.len() as u64).sum();
    let mut encoder = Encoder::new(pool.clone(), settings, (!is_stream).then_some(length)).unwrap();
    let mut coded = Vec::new();
    for piece in pieces {
        encoder.piece(piece, &mut coded).unwrap();
        encoder.flush(&mut coded).unwrap();
    }
    encoder.end(&mut coded).unwrap();
    coded
}

fn check<C: Compressor>(settings: &C::Settings, pieces: &[&[u8]]) {
    let pool = pool::<C>();
    let whole = pieces.concat();
    for is_stream in [false, true, false] {
        let coded = code(&pool, settings, pieces, is_stream);
        let decoded = decode::decode_content(C::CODING.as_bytes(), &coded, LIMIT);
        assert!(decoded.as_ref() == Ok(&whole), "{} of {} bytes", C::CODING, whole.len());
    }
}

fn check_all(pieces: &[&[u8]]) {
    for level in [1, 6] {
        check::<Gzip>(&GzipLevel(level), pieces);
    }
    for quality in [0, 1, 6] {
        check::<Brotli>(&brotli(quality), pieces);
    }
    for level in [1, 3] {
        check::<Zstd>(&ZstdLevel(level), pieces);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(12) })]

    #[test]
    fn pieces_of_any_size_decode_to_the_body(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..400), 0..8),
        repeated in 1_usize..40,
    ) {
        let pieces: Vec<Vec<u8>> = pieces.into_iter().map(|piece| piece.repeat(repeated)).collect();
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        check_all(&pieces);
    }

    #[test]
    fn decoder_of_any_bytes_ends(coded in prop::collection::vec(any::<u8>(), 0..2_000)) {
        for coding in ["gzip", "deflate", "br", "zstd"] {
            let decoded = decode::decode_content(coding.as_bytes(), &coded, 100_000);
            prop_assert!(decoded.is_err() || decoded.is_ok_and(|body| body.len() <= 100_000));
        }
    }
}

#[test]
fn long_bodies_decode_to_the_same_bytes() {
    let body = text(100_000);
    check_all(&[&body]);
    check_all(&body.chunks(16_384).collect::<Vec<_>>());
    check_all(&[]);
}

#[test]
fn flushed_piece_can_be_decoded_before_the_end() {
    fn check<C: Compressor>(settings: &C::Settings, decode: fn(&[u8]) -> Vec<u8>) {
        let mut encoder = Encoder::<C>::new(pool(), settings, None).unwrap();
        let (mut coded, mut events) = (Vec::new(), Vec::new());
        for number in 0..3 {
            let event = format!("data: {number}\n\n");
            events.extend_from_slice(event.as_bytes());
            encoder.piece(event.as_bytes(), &mut coded).unwrap();
            encoder.flush(&mut coded).unwrap();
            assert_eq!(decode(&coded), events, "{}", C::CODING);
            let before = coded.len();
            encoder.flush(&mut coded).unwrap();
            assert_eq!(coded.len(), before, "{} has nothing new", C::CODING);
        }
    }
    /// All that a decoder gives for a beginning.
    fn begin(mut decoder: impl std::io::Read) -> Vec<u8> {
        let (mut body, mut byte) = (Vec::new(), [0]);
        while decoder.read(&mut byte).is_ok_and(|count| count == 1) {
            body.push(byte[0]);
        }
        body
    }
    check::<Gzip>(&GzipLevel(1), |coded| begin(flate2::bufread::GzDecoder::new(coded)));
    check::<Brotli>(&brotli(6), |coded| begin(brotli_crate(coded)));
    check::<Zstd>(&ZstdLevel(3), |coded| begin(::zstd::stream::read::Decoder::with_buffer(coded).unwrap()));
}

fn brotli_crate(coded: &[u8]) -> impl std::io::Read {
    ::brotli::Decompressor::new(coded, 64)
}

#[test]
fn compressor_returns_to_its_bounded_pool() {
    let pool = pool::<Gzip>();
    let level = GzipLevel(1);
    let first = code(&pool, &level, &[b"abcabcabc"], false);
    assert_eq!(pool.idle(), 1);
    // One that was given up in the middle does not return.
    let mut given_up = Encoder::new(pool.clone(), &level, None).unwrap();
    given_up.piece(&text(50_000), &mut Vec::new()).unwrap();
    drop(given_up);
    assert_eq!(pool.idle(), 0);
    assert_eq!(code(&pool, &level, &[b"abcabcabc"], false), first);
    code(&pool, &GzipLevel(9), &[b"abc"], false);
    assert_eq!(pool.idle(), 2, "one for each level");
    let many: Vec<_> = (0..20).map(|_| Encoder::new(pool.clone(), &level, None).unwrap()).collect();
    for mut encoder in many {
        encoder.end(&mut Vec::new()).unwrap();
    }
    assert_eq!(pool.idle(), 8);
}

#[test]
fn body_of_known_length_is_not_flushed() {
    let pool = pool::<Gzip>();
    let body = text(20_000);
    let pieces: Vec<&[u8]> = body.chunks(1_000).collect();
    let as_one = code(&pool, &GzipLevel(6), &pieces, false);
    let flushed = code(&pool, &GzipLevel(6), &pieces, true);
    assert!(as_one.len() + 50 < flushed.len(), "{} {}", as_one.len(), flushed.len());
}

#[test]
fn bodies_beyond_a_limit_are_not_decoded() {
    let pool = pool::<Gzip>();
    let level = GzipLevel(9);
    let (zeros, body) = (vec![0; 10_000_000], text(200_000));
    let (bomb, coded) = (code(&pool, &level, &[&zeros], false), code(&pool, &level, &[&body], false));
    let check = |coding: &str, coded: &[u8], limit: usize, expected: Result<usize, DecodeError>| {
        let decoded = decode::decode_content(coding.as_bytes(), coded, limit).map(|body| body.len());
        assert_eq!(decoded, expected, "{coding}, {} bytes up to {limit}", coded.len());
    };
    check("gzip", &coded, 200_000, Ok(200_000));
    check("X-GZIP", &coded, 200_000, Ok(200_000));
    check("gzip", &coded, 199_999, Err(DecodeError::TooLong));
    check("gzip", &bomb, 20_000_000, Err(DecodeError::TooDense));
    check("gzip", &bomb, 60_000, Err(DecodeError::TooLong));
    let short = code(&pool, &level, &[&zeros[..60_000]], false);
    check("gzip", &short, 60_000, Ok(60_000));
    check("gzip", &coded[..coded.len() - 9], 200_000, Err(DecodeError::Malformed));
    check("gzip", b"plain text", 100, Err(DecodeError::Malformed));
    check("br", b"plain text", 100, Err(DecodeError::Malformed));
    check("zstd", b"plain text", 100, Err(DecodeError::Malformed));
    check("", b"plain text", 10, Ok(10));
    check("identity", b"plain text", 9, Err(DecodeError::TooLong));
    check("compress", b"plain text", 100, Err(DecodeError::UnknownCoding));
    check("gzip, br", b"plain text", 100, Err(DecodeError::UnknownCoding));
    // gzip of several members is one body (RFC 1952 section 2.2).
    let twice = [code(&pool, &level, &[b"abc"], false), code(&pool, &level, &[b"def"], false)].concat();
    assert_eq!(decode::decode_content(b"gzip", &twice, 10).as_deref(), Ok(&b"abcdef"[..]));
}

#[test]
fn deflate_is_decoded_with_and_without_its_header() {
    use std::io::Read;
    let body = text(5_000);
    let read = |mut encoder: Box<dyn Read>| {
        let mut coded = Vec::new();
        encoder.read_to_end(&mut coded).unwrap();
        coded
    };
    let level = flate2::Compression::fast();
    let source = std::io::Cursor::new(body.clone());
    let zlib = read(Box::new(flate2::bufread::ZlibEncoder::new(source.clone(), level)));
    let raw = read(Box::new(flate2::bufread::DeflateEncoder::new(source, level)));
    for coded in [zlib, raw] {
        assert!(decode::decode_content(b"deflate", &coded, 5_000).as_ref() == Ok(&body));
    }
}

const MIB: u64 = 1024 * 1024;

#[test]
fn reused_and_freed_states_take_no_room() {
    fn check<C: Compressor>(settings: &C::Settings) {
        let shared = Arc::new(OverloadState::default());
        let pool = Rc::new(CompressorPool::<C>::new(shared.clone()));
        shared.memory.update(0, 20 * MIB);
        for _ in 0..100 {
            assert!(!code(&pool, settings, &[b"abc"], true).is_empty(), "{}", C::CODING);
        }
        assert!(shared.check_room(14 << 20).is_ok(), "{}: one state is reserved", C::CODING);
    }
    check::<Gzip>(&GzipLevel(1));
    check::<Brotli>(&brotli(6));
    check::<Zstd>(&ZstdLevel(3));
}

#[test]
fn state_that_memory_is_too_short_for_is_refused() {
    let shared = Arc::new(OverloadState::default());
    let pool = Rc::new(CompressorPool::<Zstd>::new(shared.clone()));
    shared.memory.update(0, 4 * MIB);
    let level = ZstdLevel(3);
    let first = Encoder::new(pool.clone(), &level, None).unwrap();
    assert!(Encoder::new(pool.clone(), &level, None).is_err());
    drop(first);
    assert!(Encoder::new(pool.clone(), &level, None).is_ok());
    code(&pool, &level, &[b"abc"], false);
    shared.memory.update(99, 100);
    code(&pool, &level, &[b"abc"], false);
    assert!(Encoder::new(pool, &level, None).is_err(), "the idle state has a short window");
}

#[test]
fn zstd_states_are_as_large_as_reserved() {
    use ::zstd::zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};
    let check = |level: u8, length: Option<u64>, window_bits: u32| {
        let mut context = CCtx::create();
        context.set_parameter(CParameter::CompressionLevel(i32::from(level))).unwrap();
        context.set_parameter(CParameter::WindowLog(window_bits)).unwrap();
        let mut coded = Vec::with_capacity(1_000);
        context.compress_stream(&mut OutBuffer::around(&mut coded), &mut InBuffer::around(b"abc")).unwrap();
        let (real, reserved) = (context.sizeof(), Zstd::state_bytes(&ZstdLevel(level), length));
        let is_near = (real - real / 20..=2 * real).contains(&reserved);
        assert!(is_near, "{level} {length:?}: {real}, reserved {reserved}");
    };
    for level in 1..=19 {
        check(level, None, 20);
        check(level, Some(0), 10);
        check(level, Some(5_000), 13);
        check(level, Some(100_000), 17);
    }
}

#[test]
fn short_brotli_bodies_have_no_large_table() {
    let bytes = |quality: u32, length: u64| Brotli::state_bytes(&brotli(quality), Some(length)) as u64;
    for quality in 0..=7 {
        assert!(bytes(quality, 5_000) < 9 * MIB, "{quality}");
        assert!(bytes(quality, 5_000) <= bytes(quality, 500_000), "{quality}");
    }
    let chosen = BrotliSettings { window_bits: 12, ..brotli(6) };
    assert!(Brotli::state_bytes(&chosen, Some(5_000)) as u64 > 32 * MIB);
}
