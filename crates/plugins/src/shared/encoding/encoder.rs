//! The encoder of one body: feeds a compressor from the pool of its worker, and returns it at the end of the
//! body. It knows no coding.

use std::rc::Rc;

use exchange::plugin::{BodyEncoder, EncoderFailed};

use super::pool::{CompressorPool, PooledCompressor};

/// The state of a coding while it compresses one body.
pub(crate) trait Compressor: Sized + 'static {
    /// The name of the coding in `Content-Encoding` and `Accept-Encoding`.
    const CODING: &'static str;
    /// Whether a state can be reset.
    const IS_REUSED: bool;
    /// The settings of a user.
    type Settings: Clone + PartialEq + Send + Sync + 'static;

    /// The memory of a state with these settings for a body of `length` bytes, in bytes, about.
    fn state_bytes(settings: &Self::Settings, length: Option<u64>) -> usize;

    /// A state for a body of `length` bytes, if that is known; a plugin may still change the body.
    ///
    /// # Errors
    /// Why there is none.
    fn new(settings: &Self::Settings, length: Option<u64>) -> Result<Self, EncoderFailed>;

    /// Makes a used state as good as new, for a body of `length` bytes with the same settings; false if it
    /// cannot be.
    fn reset(&mut self, settings: &Self::Settings, length: Option<u64>) -> bool;

    /// Takes all of `input`, and appends to `coded` what comes out.
    ///
    /// # Errors
    /// Why it cannot be coded.
    fn run(&mut self, input: &[u8], step: FlushMode, coded: &mut Vec<u8>) -> Result<(), EncoderFailed>;
}

/// How far a compressor goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushMode {
    /// It may hold back what could be coded better with more input.
    More,
    /// It holds nothing back.
    Flush,
    /// The body ends.
    End,
}

/// See the module.
pub(super) struct Encoder<C: Compressor> {
    /// There is one until the encoder is dropped.
    state: Option<PooledCompressor<C>>,
    settings: C::Settings,
    pool: Rc<CompressorPool<C>>,
    /// The body is a stream, of which the client shall have each piece soon.
    is_stream: bool,
    has_unflushed: bool,
    has_ended: bool,
}

impl<C: Compressor> Encoder<C> {
    /// An encoder for a body of `length` bytes. One of unknown length is a stream.
    ///
    /// # Errors
    /// Why there is none: also if memory is too short for a state.
    pub(super) fn new(
        pool: Rc<CompressorPool<C>>,
        settings: &C::Settings,
        length: Option<u64>,
    ) -> Result<Self, EncoderFailed> {
        Ok(Encoder {
            state: Some(pool.take(settings, length)?),
            settings: settings.clone(),
            pool,
            is_stream: length.is_none(),
            has_unflushed: false,
            has_ended: false,
        })
    }

    fn run(&mut self, input: &[u8], step: FlushMode, coded: &mut Vec<u8>) -> Result<(), EncoderFailed> {
        self.state.as_mut().expect("it is taken by drop only").compressor.run(input, step, coded)
    }
}

impl<C: Compressor> BodyEncoder for Encoder<C> {
    fn piece(&mut self, piece: &[u8], coded: &mut Vec<u8>) -> Result<(), EncoderFailed> {
        self.has_unflushed = true;
        self.run(piece, FlushMode::More, coded)
    }

    fn flush(&mut self, coded: &mut Vec<u8>) -> Result<(), EncoderFailed> {
        // A body of known length is compressed as one, because each flush costs bytes and its client waits
        // for the end.
        if !self.is_stream || !std::mem::take(&mut self.has_unflushed) {
            return Ok(());
        }
        self.run(&[], FlushMode::Flush, coded)
    }

    fn end(&mut self, coded: &mut Vec<u8>) -> Result<(), EncoderFailed> {
        self.run(&[], FlushMode::End, coded)?;
        self.has_ended = true;
        Ok(())
    }
}

impl<C: Compressor> Drop for Encoder<C> {
    fn drop(&mut self) {
        // A state that was given up in the middle is freed: a reset of zlib-rs 0.6.8 leaves a block of its
        // level 1 open.
        if let Some(state) = self.state.take().filter(|_| self.has_ended) {
            self.pool.give(&self.settings, state);
        }
    }
}
