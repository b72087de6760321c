//! Brotli (RFC 7932).

use brotli::enc::StandardAlloc;
use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct};
use exchange::plugin::EncoderFailed;

use super::encoder::{Compressor, FlushMode};

/// The smallest window that the format has, as a power of two.
const WINDOW_BITS_MIN: u32 = 10;
/// The window where the user leaves it to the encoder.
const WINDOW_BITS_DEFAULT: u32 = 22;
/// The hash table of each quality from 0, in KiB. Qualities 10 and 11 have a tree of the window beside it.
const TABLE_KIB: [usize; 12] = [128, 512, 256, 256, 512, 1_024, 2_048, 8_192, 16_384, 32_768, 512, 512];
/// The largest window with which this encoder has the table of quality 9 at qualities 5 to 8, too: 5 KB of
/// JSON take 2.9 ms instead of 0.5 ms at quality 6.
const LARGE_TABLE_WINDOW_BITS: u32 = 16;
/// Bodies of as many bytes have larger tables at qualities 4 to 6.
const LONG_BYTES: u64 = 1024 * 1024;
/// The commands and the output of a block.
const BLOCK_BYTES: usize = 512 * 1024;

/// The kind of data that the encoder expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BrotliMode {
    Generic,
    Text,
    Font,
}

/// The settings of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BrotliSettings {
    pub(crate) mode: BrotliMode,
    /// 0 to 11.
    pub(crate) quality: u32,
    /// The window as a power of two, 10 to 24; 0 leaves it to the encoder.
    pub(crate) window_bits: u32,
    /// The largest block as a power of two, 16 to 24; 0 leaves it to the encoder.
    pub(crate) block_bits: u32,
}

/// See the module. A state of this encoder cannot be reset.
pub(crate) struct Brotli(Box<BrotliEncoderStateStruct<StandardAlloc>>);

impl Compressor for Brotli {
    const CODING: &'static str = "br";
    const IS_REUSED: bool = false;
    type Settings = BrotliSettings;

    fn state_bytes(settings: &BrotliSettings, length: Option<u64>) -> usize {
        let window_bits = match settings.window_bits {
            0 => WINDOW_BITS_DEFAULT,
            chosen => window_bits(settings.quality, chosen, length),
        };
        let is_long = length.is_some_and(|length| length >= LONG_BYTES);
        let table_kib = match settings.quality {
            4 if is_long => 4_096,
            quality @ (5 | 6) if is_long => 2 * TABLE_KIB[quality as usize],
            5..=8 if window_bits <= LARGE_TABLE_WINDOW_BITS => TABLE_KIB[9],
            quality => TABLE_KIB[quality.min(11) as usize],
        };
        let tree_bytes = if settings.quality < 10 { 0 } else { 8 << window_bits };
        // The buffer grows with the body up to twice the window, or twice the block where that is larger.
        let buffer_bytes: usize = 2 << window_bits.max(settings.block_bits);
        let body_bytes = length.and_then(|length| usize::try_from(length).ok()).unwrap_or(usize::MAX);
        table_kib * 1024 + tree_bytes + buffer_bytes.min(body_bytes) + BLOCK_BYTES
    }

    fn new(settings: &BrotliSettings, length: Option<u64>) -> Result<Self, EncoderFailed> {
        use BrotliEncoderParameter as Parameter;
        let mode = match settings.mode {
            BrotliMode::Generic => 0,
            BrotliMode::Text => 1,
            BrotliMode::Font => 2,
        };
        let mut state = Box::new(BrotliEncoderStateStruct::new(StandardAlloc::default()));
        state.set_parameter(Parameter::BROTLI_PARAM_MODE, mode);
        state.set_parameter(Parameter::BROTLI_PARAM_QUALITY, settings.quality);
        if settings.window_bits > 0 {
            state.set_parameter(
                Parameter::BROTLI_PARAM_LGWIN,
                window_bits(settings.quality, settings.window_bits, length),
            );
        }
        if settings.block_bits > 0 {
            state.set_parameter(Parameter::BROTLI_PARAM_LGBLOCK, settings.block_bits);
        }
        if let Some(length) = length {
            let hint = u32::try_from(length).unwrap_or(u32::MAX);
            state.set_parameter(Parameter::BROTLI_PARAM_SIZE_HINT, hint);
        }
        Ok(Brotli(state))
    }

    fn reset(&mut self, _settings: &BrotliSettings, _length: Option<u64>) -> bool {
        false
    }

    fn run(&mut self, input: &[u8], step: FlushMode, coded: &mut Vec<u8>) -> Result<(), EncoderFailed> {
        let operation = match step {
            FlushMode::More => BrotliEncoderOperation::BROTLI_OPERATION_PROCESS,
            FlushMode::Flush => BrotliEncoderOperation::BROTLI_OPERATION_FLUSH,
            FlushMode::End => BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
        };
        let (mut left, mut taken) = (input.len(), 0);
        loop {
            // Without a buffer of the caller, the encoder keeps its output until it is taken.
            let is_fine = self.0.compress_stream(
                operation,
                &mut left,
                input,
                &mut taken,
                &mut 0,
                &mut [],
                &mut 0,
                &mut None,
                &mut |_, _, _, _| (),
            );
            if !is_fine {
                return Err(EncoderFailed("the state of Brotli is broken"));
            }
            while self.0.has_more_output() {
                // 0 asks for all there is; the slice that comes back is longer than that.
                let mut size = 0;
                let output = self.0.take_output(&mut size);
                coded.extend_from_slice(&output[..size]);
            }
            let is_done = step != FlushMode::End || self.0.is_finished();
            if left == 0 && is_done {
                return Ok(());
            }
        }
    }
}

/// The window for a body of `length` bytes: no larger than the body needs, because the state has the window
/// twice, and no smaller than suits the tables of the quality, if the user has not chosen a smaller one.
fn window_bits(quality: u32, chosen: u32, length: Option<u64>) -> u32 {
    let needed = length.map_or(chosen, |length| u64::BITS - length.leading_zeros() + 1);
    let least = if matches!(quality, 5..=8) { LARGE_TABLE_WINDOW_BITS + 1 } else { WINDOW_BITS_MIN };
    chosen.min(needed.max(least))
}
