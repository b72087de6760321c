//! Decoding the chunked coding (RFC 9112 section 7.1) without touching the data: the decoder says how many
//! framing bytes to drop and how many data bytes follow. It does not know buffers and what data is for.
//!
//! Bodies of requests are read strictly. A decoder for responses of upstreams ([`Decoder::lenient`]) also
//! takes the deviations that servers in use are known for; the data is framed anew before it is forwarded.

use crate::lenient::LenientFields;
use crate::limits::Limits;
use message::{FieldId, Headers, syntax};

/// A decoder's answer about the bytes it was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Framing bytes at the start of the input; drop them first. They are taken in and not to be shown again.
    pub consumed: usize,
    /// The bytes that follow them.
    pub piece: Piece,
}

/// The content that follows the framing bytes of a [`Step`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// This many bytes, at least one, are data; tell [`Decoder::took`] how many of them were used.
    Data(usize),
    /// Nothing: the rest of the message has yet to arrive.
    More,
    /// The message is over; what follows is the next one.
    End,
}

/// Why a chunked body was refused. The connection ends; the body must not look complete to anyone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkError {
    /// A chunk size that is not 1 to 16 hexadecimal digits.
    Size,
    /// A control character in a chunk extension.
    Extension,
    /// More than [`Limits::CHUNK_EXTENSION_BYTES`] of extensions.
    ExtensionsTooLarge,
    /// A line, or the data of a chunk, that does not end in CRLF.
    LineEnd,
    /// A malformed trailer field.
    Trailer,
    /// More than [`Limits::TRAILER_BYTES`] or [`Limits::TRAILER_FIELDS`].
    TrailersTooLarge,
}

impl ChunkError {
    /// The fault, in a few words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Size => "malformed chunk size",
            Self::Extension => "malformed chunk extension",
            Self::ExtensionsTooLarge => "chunk extensions too large",
            Self::LineEnd => "a chunk line does not end in CRLF",
            Self::Trailer => "malformed trailer field",
            Self::TrailersTooLarge => "trailer section too large",
        }
    }
}

impl std::fmt::Display for ChunkError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.reason())
    }
}

impl std::error::Error for ChunkError {}

/// The state of one chunked body. A fresh one holds no memory; only trailers make it allocate.
#[derive(Debug, Clone, Default)]
pub struct Decoder {
    state: State,
    /// Size of the current chunk; in [`State::Data`] what is left of it.
    remaining: u64,
    digits: u8,
    extension_bytes: usize,
    trailer_bytes: usize,
    trailer_fields: usize,
    /// The trailer line that is still arriving; of a lenient decoder the whole trailer section.
    line: Vec<u8>,
    trailers: Headers,
    /// Whether the deviations of upstreams are accepted.
    is_lenient: bool,
    /// Whether a deviation was accepted that another reader could understand differently.
    is_ambiguous: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Size,
    /// White space behind a size; of a lenient decoder only.
    SizeBlank,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    Trailer,
    End,
}

impl Decoder {
    /// A decoder at the start of a body.
    pub fn new() -> Self {
        Self::default()
    }

    /// A decoder at the start of the body of a response of an upstream. Besides the strict form it takes
    /// white space behind a chunk size, lines that end in a bare LF, control characters in extensions, and
    /// trailer lines with the deviations of [`crate::parse_upstream_response`].
    pub fn lenient() -> Self {
        Self { is_lenient: true, ..Self::default() }
    }

    /// Back to the start of a body; memory is kept.
    pub fn reset(&mut self) {
        let (mut line, mut trailers) = (std::mem::take(&mut self.line), std::mem::take(&mut self.trailers));
        line.clear();
        trailers.clear();
        *self = Self { line, trailers, is_lenient: self.is_lenient, ..Self::default() };
    }

    /// Whether the body had a deviation that another reader could understand differently, so that its
    /// connection must not carry another message.
    pub fn is_ambiguous(&self) -> bool {
        self.is_ambiguous
    }

    /// Reads framing from the start of `input`, which begins where the last step and the data taken since
    /// ended. After [`Piece::More`] the whole input is consumed. After an error the decoder is of no use.
    pub fn decode(&mut self, input: &[u8]) -> Result<Step, ChunkError> {
        let mut at = 0;
        loop {
            match self.state {
                State::Data if at < input.len() => {
                    let here = input.len() - at;
                    let length =
                        usize::try_from(self.remaining).map_or(here, |remaining| remaining.min(here));
                    return Ok(Step { consumed: at, piece: Piece::Data(length) });
                }
                State::End => return Ok(Step { consumed: at, piece: Piece::End }),
                _ if at == input.len() => return Ok(Step { consumed: at, piece: Piece::More }),
                State::Trailer if self.is_lenient => at += self.lenient_trailer_bytes_of(&input[at..])?,
                State::Trailer => at += self.trailer_bytes_of(&input[at..])?,
                _ => {
                    self.framing_byte(input[at])?;
                    at += 1;
                }
            }
        }
    }

    /// Says that `length` data bytes were used, no more than the last [`Piece::Data`] offered.
    pub fn took(&mut self, length: usize) {
        debug_assert!(
            self.state == State::Data && length as u64 <= self.remaining,
            "took more than was offered"
        );
        self.remaining = self.remaining.saturating_sub(length as u64);
        if self.remaining == 0 && self.state == State::Data {
            self.state = State::DataCr;
        }
    }

    /// True once the message is over.
    pub fn is_done(&self) -> bool {
        self.state == State::End
    }

    /// The trailer fields that may be sent on; complete after [`Piece::End`]. Fields that would change
    /// framing, routing, authentication or the reading of the content were dropped.
    pub fn trailers(&self) -> &Headers {
        &self.trailers
    }

    fn framing_byte(&mut self, byte: u8) -> Result<(), ChunkError> {
        self.state = match (self.state, byte) {
            (State::Size, _) => return self.size_byte(byte),
            (State::SizeBlank, b' ' | b'\t') => return self.count_extension_byte(),
            (State::SizeBlank | State::Extension, b'\r') => State::SizeLf,
            (State::SizeBlank, b';') => State::Extension,
            (State::SizeBlank | State::Extension, b'\n') if self.is_lenient => self.end_of_size_by_bare_lf(),
            (State::SizeBlank, _) => return Err(ChunkError::Size),
            (State::Extension, _) => return self.extension_byte(byte),
            (State::SizeLf, b'\n') if self.remaining == 0 => State::Trailer,
            (State::SizeLf, b'\n') => State::Data,
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataCr, b'\n') if self.is_lenient => {
                self.is_ambiguous = true;
                self.digits = 0;
                State::Size
            }
            (State::DataLf, b'\n') => {
                self.digits = 0;
                State::Size
            }
            _ => return Err(ChunkError::LineEnd),
        };
        Ok(())
    }

    fn size_byte(&mut self, byte: u8) -> Result<(), ChunkError> {
        if let Some(digit) = char::from(byte).to_digit(16) {
            if self.digits == Limits::CHUNK_SIZE_DIGITS {
                return Err(ChunkError::Size);
            }
            self.digits += 1;
            self.remaining = self.remaining << 4 | u64::from(digit);
            return Ok(());
        }
        self.state = match byte {
            _ if self.digits == 0 => return Err(ChunkError::Size),
            b'\r' => State::SizeLf,
            b';' => State::Extension,
            b' ' | b'\t' if self.is_lenient => State::SizeBlank,
            b'\n' if self.is_lenient => self.end_of_size_by_bare_lf(),
            b'\n' => return Err(ChunkError::LineEnd),
            _ => return Err(ChunkError::Size),
        };
        Ok(())
    }

    /// The state behind the line of a chunk size that ends in a bare LF.
    fn end_of_size_by_bare_lf(&mut self) -> State {
        self.is_ambiguous = true;
        if self.remaining == 0 { State::Trailer } else { State::Data }
    }

    fn extension_byte(&mut self, byte: u8) -> Result<(), ChunkError> {
        if byte == b'\n' {
            return Err(ChunkError::LineEnd);
        }
        if !syntax::is_field_value(&[byte]) {
            if !self.is_lenient || byte == 0 {
                return Err(ChunkError::Extension);
            }
            self.is_ambiguous = true;
        }
        self.count_extension_byte()
    }

    fn count_extension_byte(&mut self) -> Result<(), ChunkError> {
        self.extension_bytes += 1;
        if self.extension_bytes > Limits::CHUNK_EXTENSION_BYTES {
            return Err(ChunkError::ExtensionsTooLarge);
        }
        Ok(())
    }

    /// Takes in one trailer line, or the part of it that is there; says how many bytes that was.
    fn trailer_bytes_of(&mut self, input: &[u8]) -> Result<usize, ChunkError> {
        let line_end = memchr::memchr(b'\n', input);
        let length = line_end.map_or(input.len(), |end| end + 1);
        self.trailer_bytes += length;
        if self.trailer_bytes > Limits::TRAILER_BYTES {
            return Err(ChunkError::TrailersTooLarge);
        }
        if line_end.is_some() && self.line.is_empty() && input.starts_with(b"\r\n") {
            self.state = State::End;
            return Ok(length);
        }
        self.line.extend_from_slice(&input[..length]);
        if line_end.is_some() {
            self.trailer_line()?;
        }
        Ok(length)
    }

    /// As [`Decoder::trailer_bytes_of`] for a lenient decoder, which keeps the section until its empty line,
    /// because a folded value ends only where the next line begins.
    fn lenient_trailer_bytes_of(&mut self, input: &[u8]) -> Result<usize, ChunkError> {
        let line_end = memchr::memchr(b'\n', input);
        let length = line_end.map_or(input.len(), |end| end + 1);
        self.trailer_bytes += length;
        if self.trailer_bytes > Limits::TRAILER_BYTES {
            return Err(ChunkError::TrailersTooLarge);
        }
        self.line.extend_from_slice(&input[..length]);
        let is_end = match &self.line[..] {
            b"\r\n" | b"\n" => true,
            section => section.ends_with(b"\n\r\n") || section.ends_with(b"\n\n"),
        };
        if line_end.is_some() && is_end {
            self.lenient_trailers()?;
            self.line.clear();
            self.state = State::End;
        }
        Ok(length)
    }

    fn lenient_trailers(&mut self) -> Result<(), ChunkError> {
        let mut fields = LenientFields::default();
        for line in self.line.split_inclusive(|&byte| byte == b'\n') {
            fields.line(line, Limits::TRAILER_FIELDS).map_err(|error| match error {
                crate::HeadError::TooManyFields => ChunkError::TrailersTooLarge,
                _ => ChunkError::Trailer,
            })?;
        }
        self.is_ambiguous |= fields.is_odd();
        for (name, value) in fields.fields() {
            if !FieldId::of(name).is_forbidden_in_trailers() {
                self.trailers.push_raw(name, value);
            }
        }
        Ok(())
    }

    fn trailer_line(&mut self) -> Result<(), ChunkError> {
        let line = self.line.strip_suffix(b"\r\n").ok_or(ChunkError::LineEnd)?;
        if line.is_empty() {
            self.state = State::End;
            return Ok(());
        }
        self.trailer_fields += 1;
        if self.trailer_fields > Limits::TRAILER_FIELDS {
            return Err(ChunkError::TrailersTooLarge);
        }
        let colon = memchr::memchr(b':', line).ok_or(ChunkError::Trailer)?;
        let (name, value) = (&line[..colon], syntax::trim(&line[colon + 1..]));
        if !syntax::is_token(name) || !syntax::is_field_value(value) {
            return Err(ChunkError::Trailer);
        }
        if !FieldId::of(name).is_forbidden_in_trailers() {
            self.trailers.push_raw(name, value);
        }
        self.line.clear();
        Ok(())
    }
}
