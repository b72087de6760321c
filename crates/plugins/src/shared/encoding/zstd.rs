//! Zstandard (RFC 8878), with windows that every client decodes (RFC 9659).

use exchange::plugin::EncoderFailed;
use zstd::stream::raw::{CParameter, Encoder, InBuffer, Operation, OutBuffer};

use super::encoder::{Compressor, FlushMode};

/// The largest window as a power of two. Clients decode up to 8 MiB; 1 MiB keeps a state small.
const WINDOW_BITS_MAX: u32 = 20;
/// The smallest window of the library.
const WINDOW_BITS_MIN: u32 = 10;
/// The tables of each level from 1, in KiB. They do not depend on the window that is set.
const TABLES_KIB: [usize; 19] = [
    64, 256, 768, 2_048, 3_072, 3_072, 6_144, 6_144, 12_288, 24_576, 24_576, 49_152, 32_768, 49_152, 65_536,
    32_768, 49_152, 49_152, 81_920,
];
/// The longest block, in bytes. A state has its input, sequences, literals and output, about eight times as
/// much.
const BLOCK_BYTES_MAX: usize = 128 * 1024;
/// The rest of a state.
const BASE_BYTES: usize = 32 * 1024;
/// Room for compressed bytes that is made at a time.
const OUTPUT_BYTES: usize = 8 * 1024;

/// The level, 1 to 19.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ZstdLevel(pub(crate) u8);

/// See the module.
pub(crate) struct Zstd(Encoder<'static>);

impl Compressor for Zstd {
    const CODING: &'static str = "zstd";
    const IS_REUSED: bool = true;
    type Settings = ZstdLevel;

    fn state_bytes(settings: &ZstdLevel, length: Option<u64>) -> usize {
        let window_bytes: usize = 1 << window_bits(length);
        let tables_bytes = TABLES_KIB[usize::from(settings.0.clamp(1, 19)) - 1] * 1024;
        tables_bytes + window_bytes + 8 * window_bytes.min(BLOCK_BYTES_MAX) + BASE_BYTES
    }

    fn new(settings: &ZstdLevel, length: Option<u64>) -> Result<Self, EncoderFailed> {
        let encoder = Encoder::new(i32::from(settings.0)).map_err(|_| FAILED)?;
        let mut zstd = Zstd(encoder);
        if zstd.reset(settings, length) { Ok(zstd) } else { Err(FAILED) }
    }

    fn reset(&mut self, _settings: &ZstdLevel, length: Option<u64>) -> bool {
        self.0.reinit().is_ok() && self.0.set_parameter(CParameter::WindowLog(window_bits(length))).is_ok()
    }

    fn run(&mut self, input: &[u8], step: FlushMode, coded: &mut Vec<u8>) -> Result<(), EncoderFailed> {
        let mut input = InBuffer::around(input);
        loop {
            coded.reserve(OUTPUT_BYTES);
            let sent = coded.len();
            let mut output = OutBuffer::around_pos(coded, sent);
            let is_read = input.pos() == input.src.len();
            let left = match step {
                FlushMode::More if is_read => return Ok(()),
                FlushMode::Flush if is_read => self.0.flush(&mut output),
                FlushMode::End if is_read => self.0.finish(&mut output, true),
                _ => self.0.run(&mut input, &mut output),
            };
            let left = left.map_err(|_| FAILED)?;
            if is_read && left == 0 {
                return Ok(());
            }
        }
    }
}

/// The window for a body of `length` bytes, as a power of two. The length is no promise, because a plugin may
/// change the body: it sizes the window only.
fn window_bits(length: Option<u64>) -> u32 {
    let needed = length.map_or(WINDOW_BITS_MAX, |length| u64::BITS - length.leading_zeros());
    needed.clamp(WINDOW_BITS_MIN, WINDOW_BITS_MAX)
}

const FAILED: EncoderFailed = EncoderFailed("the library of Zstandard refuses it");
