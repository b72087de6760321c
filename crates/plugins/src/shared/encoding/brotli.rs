//! Brotli (RFC 7932).

use brotli::enc::StandardAlloc;
use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct};
use exchange::plugin::EncoderFailed;

use super::encoder::{Compressor, Step};

/// The smallest window that the format has, as a power of two.
const WINDOW_BITS_MIN: u32 = 10;

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
    const STATE_BYTES: usize = 4 * 1024 * 1024;
    const IS_REUSED: bool = false;
    type Settings = BrotliSettings;

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
            state.set_parameter(Parameter::BROTLI_PARAM_LGWIN, window_bits(settings.window_bits, length));
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

    fn run(&mut self, input: &[u8], step: Step, coded: &mut Vec<u8>) -> Result<(), EncoderFailed> {
        let operation = match step {
            Step::More => BrotliEncoderOperation::BROTLI_OPERATION_PROCESS,
            Step::Flush => BrotliEncoderOperation::BROTLI_OPERATION_FLUSH,
            Step::End => BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
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
            let is_done = step != Step::End || self.0.is_finished();
            if left == 0 && is_done {
                return Ok(());
            }
        }
    }
}

/// The window for a body of `length` bytes: no larger than the body needs, because the state has the window twice.
fn window_bits(chosen: u32, length: Option<u64>) -> u32 {
    let needed = length.map_or(chosen, |length| u64::BITS - length.leading_zeros() + 1);
    chosen.min(needed.max(WINDOW_BITS_MIN))
}
