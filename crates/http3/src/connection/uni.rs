//! Unidirectional streams of the peer: their types, which of them may be there, and the streams of QPACK (RFC
//! 9114 section 6.2, RFC 9204 section 4.2). It does not know the frames of the control stream.

use super::Connection;
use crate::flood::Cost;
use crate::frame::stream;
use crate::varint::{self, Partial};
use crate::{ConnectionError, ErrorCode};

/// One unidirectional stream of the peer. Its bytes go through [`Connection::receive_uni`].
#[derive(Debug, Default)]
pub struct UniStream {
    kind: Kind,
    partial: Partial,
}

/// The next step of a driver with a unidirectional stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UniState {
    /// The driver reads on.
    Open,
    /// The driver stops the stream with H3_STREAM_CREATION_ERROR and forgets it: bytes of an unknown type
    /// have no meaning (RFC 9114 section 6.2).
    Unwanted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Kind {
    /// The type has not arrived.
    #[default]
    Unknown,
    Control,
    Encoder,
    /// The peer's decoder: inside the identifier of a cancelled stream, so many bytes of it have come.
    Decoder(u8),
    Unwanted,
}

impl UniStream {
    /// A stream of which nothing was read.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Connection {
    /// Takes bytes of a unidirectional stream of the peer; all of them are consumed.
    ///
    /// # Errors
    /// The peer broke a rule of the connection.
    pub fn receive_uni(&mut self, uni: &mut UniStream, input: &[u8]) -> Result<UniState, ConnectionError> {
        self.check_failure()?;
        self.read_uni(uni, input).map_err(|error| self.fail(error))?;
        Ok(if uni.kind == Kind::Unwanted { UniState::Unwanted } else { UniState::Open })
    }

    /// Says that the peer ended or reset one of its unidirectional streams.
    ///
    /// # Errors
    /// The connection needs the stream (RFC 9114 section 6.2.1, RFC 9204 section 4.2).
    pub fn end_uni(&mut self, uni: &UniStream) -> Result<(), ConnectionError> {
        self.check_failure()?;
        match uni.kind {
            // RFC 9114 section 6.2 tolerates a stream that ends before its type; it counts as one of an
            // unknown type.
            Kind::Unknown => self.charge(Cost::UnknownStream),
            Kind::Unwanted => Ok(()),
            Kind::Control | Kind::Encoder | Kind::Decoder(_) => Err(self.critical_stream_closed()),
        }
    }

    /// Says that the peer stopped this side's control stream. The error ends the connection.
    pub fn critical_stream_closed(&mut self) -> ConnectionError {
        let reason = "a control or QPACK stream was closed";
        self.fail(ConnectionError::new(ErrorCode::CLOSED_CRITICAL_STREAM, reason))
    }

    fn read_uni(&mut self, uni: &mut UniStream, mut input: &[u8]) -> Result<(), ConnectionError> {
        if uni.kind == Kind::Unknown {
            let Some(number) = uni.partial.read(&mut input, varint::read) else { return Ok(()) };
            uni.kind = self.kind_of(number)?;
        }
        match &mut uni.kind {
            Kind::Control => self.read_control(input),
            Kind::Encoder => self.read_encoder(input),
            Kind::Decoder(inside) => self.read_decoder(inside, input),
            Kind::Unknown | Kind::Unwanted => Ok(()),
        }
    }

    fn kind_of(&mut self, number: u64) -> Result<Kind, ConnectionError> {
        let (kind, place) = match number {
            stream::CONTROL => (Kind::Control, 0),
            stream::QPACK_ENCODER => (Kind::Encoder, 1),
            stream::QPACK_DECODER => (Kind::Decoder(0), 2),
            stream::PUSH if self.is_server => {
                let reason = "a client opened a push stream";
                return Err(ConnectionError::new(ErrorCode::STREAM_CREATION_ERROR, reason));
            }
            stream::PUSH => {
                let reason = "push without MAX_PUSH_ID";
                return Err(ConnectionError::new(ErrorCode::ID_ERROR, reason));
            }
            _ => return self.charge(Cost::UnknownStream).map(|()| Kind::Unwanted),
        };
        if std::mem::replace(&mut self.has_stream[place], true) {
            let reason = "a second control or QPACK stream";
            return Err(ConnectionError::new(ErrorCode::STREAM_CREATION_ERROR, reason));
        }
        Ok(kind)
    }

    /// Instructions of the peer's encoder: with a table of capacity zero the only possible one sets the
    /// capacity to zero.
    fn read_encoder(&mut self, input: &[u8]) -> Result<(), ConnectionError> {
        for &byte in input {
            if byte != SET_CAPACITY_ZERO {
                let reason = "insertion into a dynamic table of capacity zero";
                return Err(ConnectionError::new(ErrorCode::QPACK_ENCODER_STREAM_ERROR, reason));
            }
            self.charge(Cost::Instruction)?;
        }
        Ok(())
    }

    /// Instructions of the peer's decoder: stream cancellations only, because this side's encoder inserts
    /// nothing that could be acknowledged. `inside` is the number of bytes of an identifier that have come.
    fn read_decoder(&mut self, inside: &mut u8, input: &[u8]) -> Result<(), ConnectionError> {
        let fault = |reason| Err(ConnectionError::new(ErrorCode::QPACK_DECODER_STREAM_ERROR, reason));
        for &byte in input {
            match *inside {
                0 if byte & 0xC0 == STREAM_CANCELLATION => {
                    self.charge(Cost::Instruction)?;
                    *inside = u8::from(byte & 0x3F == 0x3F);
                }
                0 => return fault("acknowledgement of an insertion that was not made"),
                IDENTIFIER_BYTES_MAX => return fault("stream identifier of more than 62 bits"),
                _ if byte & 0x80 != 0 => *inside += 1,
                _ => *inside = 0,
            }
        }
        Ok(())
    }
}

/// Set Dynamic Table Capacity with zero (RFC 9204 section 4.3.1).
const SET_CAPACITY_ZERO: u8 = 0x20;
/// The pattern of Stream Cancellation (RFC 9204 section 4.4.2).
const STREAM_CANCELLATION: u8 = 0x40;
/// Bytes of an identifier: a prefix and nine groups of seven bits.
const IDENTIFIER_BYTES_MAX: u8 = 10;
