//! gzip (RFC 1952) by zlib-rs.

use exchange::plugin::EncoderFailed;
use flate2::{Compress, Compression, FlushCompress, Status};

use super::encoder::{Compressor, FlushMode};

/// The window: 32 KiB, the largest of the format.
const WINDOW_BITS: u8 = 15;
/// The window twice, the hash table, the chains and the pending output, the same at each level.
const STATE_BYTES: usize = 384 * 1024;
/// Room for compressed bytes that is made at a time.
const OUTPUT_BYTES: usize = 8 * 1024;

/// The level of zlib-rs for each level of zlib, 1 to 9, which users know. Level 1 of zlib-rs makes bodies a
/// quarter larger than zlib does, level 2 makes them a tenth smaller, in half the time of zlib (24 KB of
/// JSON: 7,305 and 5,124 bytes, zlib 5,703).
const LEVELS: [u32; 9] = [2, 3, 4, 5, 6, 6, 7, 8, 9];

/// The level, 1 to 9 as users write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GzipLevel(pub(crate) u8);

/// See the module.
pub(crate) struct Gzip(Compress);

impl Compressor for Gzip {
    const CODING: &'static str = "gzip";
    const IS_REUSED: bool = true;
    type Settings = GzipLevel;

    fn state_bytes(_settings: &GzipLevel, _length: Option<u64>) -> usize {
        STATE_BYTES
    }

    fn new(settings: &GzipLevel, _length: Option<u64>) -> Result<Self, EncoderFailed> {
        let level = LEVELS[usize::from(settings.0.clamp(1, 9)) - 1];
        Ok(Gzip(Compress::new_gzip(Compression::new(level), WINDOW_BITS)))
    }

    fn reset(&mut self, _settings: &GzipLevel, _length: Option<u64>) -> bool {
        self.0.reset();
        true
    }

    fn run(&mut self, mut input: &[u8], step: FlushMode, coded: &mut Vec<u8>) -> Result<(), EncoderFailed> {
        let flush = match step {
            FlushMode::More => FlushCompress::None,
            FlushMode::Flush => FlushCompress::Sync,
            FlushMode::End => FlushCompress::Finish,
        };
        loop {
            coded.reserve(OUTPUT_BYTES);
            let before = self.0.total_in();
            let status = self.0.compress_vec(input, coded, flush);
            let status = status.map_err(|_| EncoderFailed("the state of deflate is broken"))?;
            let taken = usize::try_from(self.0.total_in() - before).unwrap_or(input.len());
            input = &input[taken.min(input.len())..];
            // With room left, everything that this step gives has come out.
            let has_room = coded.len() < coded.capacity();
            let is_done = match step {
                FlushMode::More => input.is_empty(),
                FlushMode::Flush => input.is_empty() && has_room,
                FlushMode::End => status == Status::StreamEnd,
            };
            if is_done {
                return Ok(());
            }
        }
    }
}
