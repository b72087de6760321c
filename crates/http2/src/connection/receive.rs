//! From received bytes to frames: the preface, frames in parts, sizes, and which frame may come now. It does
//! not know what frames mean.

use super::Connection;
use crate::error::ConnectionError;
use crate::flood::Cost;
use crate::frame::{FrameHeader, HEADER_BYTES, PREFACE, flag, kind};
use crate::streams::StreamKey;
use crate::{Limits, pool};

/// The part of a frame or preface that the next received byte belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reading {
    /// The client's preface, of which so many bytes have arrived.
    Preface(u8),
    /// The first frame, which has to be SETTINGS.
    FirstFrame,
    /// A frame.
    Frames,
    /// The payload of a DATA frame.
    Data(DataFrame),
}

/// The rest of a DATA frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct DataFrame {
    /// The stream; none if the data is dropped.
    pub(super) key: Option<StreamKey>,
    pub(super) data_left: u32,
    pub(super) padding_left: u32,
    pub(super) is_end: bool,
}

impl Connection {
    /// Takes bytes that were read from the transport, at the time `now_ms` of a clock that does not go back.
    /// All of them are consumed: the start of a frame is kept inside until its rest arrives, at most 16 KiB
    /// and its header; data goes to its stream at once.
    ///
    /// # Errors
    /// The peer broke a rule of the connection or costs too much. GOAWAY is in the output: the driver writes
    /// it and closes. All streams have got reset events.
    pub fn receive(&mut self, input: &[u8], now_ms: u64) -> Result<usize, ConnectionError> {
        if let Some(error) = self.failure {
            return Err(error);
        }
        self.flood.tick(now_ms);
        let mut rest = input;
        while !rest.is_empty() {
            match self.step(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) => {
                    self.fail(error);
                    return Err(error);
                }
            }
        }
        Ok(input.len())
    }

    /// Takes the next part of the input; how many bytes it has.
    fn step(&mut self, rest: &[u8]) -> Result<usize, ConnectionError> {
        match self.reading {
            Reading::Frames | Reading::FirstFrame => self.frame_part(rest),
            Reading::Data(frame) => self.data_part(frame, rest),
            Reading::Preface(seen) => self.preface_part(usize::from(seen), rest),
        }
    }

    fn preface_part(&mut self, seen: usize, rest: &[u8]) -> Result<usize, ConnectionError> {
        let count = rest.len().min(PREFACE.len() - seen);
        if rest[..count] != PREFACE[seen..seen + count] {
            return Err(ConnectionError::protocol(
                "the connection does not begin with the preface of HTTP/2",
            ));
        }
        let seen = seen + count;
        self.reading = if seen == PREFACE.len() { Reading::FirstFrame } else { Reading::Preface(seen as u8) };
        Ok(count)
    }

    fn frame_part(&mut self, rest: &[u8]) -> Result<usize, ConnectionError> {
        if self.partial.is_empty() {
            if rest.len() >= HEADER_BYTES {
                let header = FrameHeader::read(rest);
                self.admit(header)?;
                let needed = needed_bytes(header);
                if rest.len() >= needed {
                    self.frame(header, &rest[HEADER_BYTES..needed])?;
                    return Ok(needed);
                }
            }
            self.partial = pool::take_bytes();
            self.partial.extend_from_slice(rest);
            return Ok(rest.len());
        }
        let mut count = 0;
        if self.partial.len() < HEADER_BYTES {
            count = rest.len().min(HEADER_BYTES - self.partial.len());
            self.partial.extend_from_slice(&rest[..count]);
            if self.partial.len() < HEADER_BYTES {
                return Ok(count);
            }
            self.admit(FrameHeader::read(&self.partial))?;
        }
        let header = FrameHeader::read(&self.partial);
        let more = (rest.len() - count).min(needed_bytes(header) - self.partial.len());
        self.partial.extend_from_slice(&rest[count..count + more]);
        if self.partial.len() == needed_bytes(header) {
            let frame = std::mem::take(&mut self.partial);
            let result = self.frame(header, &frame[HEADER_BYTES..]);
            pool::give_bytes(frame);
            result?;
        }
        Ok(count + more)
    }

    /// Checks what a frame header alone shows.
    #[inline]
    fn admit(&self, header: FrameHeader) -> Result<(), ConnectionError> {
        if header.length > Limits::FRAME_BYTES {
            return Err(ConnectionError::frame_size("frame above MAX_FRAME_SIZE"));
        }
        if matches!(self.reading, Reading::FirstFrame)
            && (header.kind != kind::SETTINGS || header.has(flag::ACK))
        {
            return Err(ConnectionError::protocol("the first frame is not SETTINGS"));
        }
        if let Some(block) = &self.block
            && (header.kind != kind::CONTINUATION || header.stream != block.stream)
        {
            return Err(ConnectionError::protocol("frame inside a header block"));
        }
        Ok(())
    }

    /// Dispatches a whole frame; of DATA only the start of the payload is there.
    fn frame(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        self.reading = Reading::Frames;
        match header.kind {
            kind::DATA => self.data_frame(header, payload),
            kind::HEADERS => self.headers_frame(header, payload),
            kind::PRIORITY => self.priority_frame(header, payload),
            kind::RST_STREAM => self.reset_frame(header, payload),
            kind::SETTINGS => self.settings_frame(header, payload),
            kind::PUSH_PROMISE => Err(ConnectionError::protocol("PUSH_PROMISE although push is disabled")),
            kind::PING => self.ping_frame(header, payload),
            kind::GOAWAY => self.goaway_frame(header, payload),
            kind::WINDOW_UPDATE => self.window_update_frame(header, payload),
            kind::CONTINUATION => self.continuation_frame(header, payload),
            kind::PRIORITY_UPDATE => self.priority_update_frame(header, payload),
            // RFC 9113 section 4.1: unknown types are ignored.
            _ => self.flood.charge(Cost::Unknown),
        }?;
        if self.block.is_none() {
            self.finished = self.finished.wrapping_add(1);
        }
        let most =
            if self.is_server { Limits::CONTROL_OUTPUT_BYTES } else { Limits::SERVER_CONTROL_OUTPUT_BYTES };
        if self.output.control_bytes() > most {
            return Err(ConnectionError::calm("the peer does not read the answers to its frames"));
        }
        Ok(())
    }
}

/// Bytes of a frame that have to be there before it is dispatched: all, but of DATA only the length of the
/// padding.
#[inline]
fn needed_bytes(header: FrameHeader) -> usize {
    let payload = match header.kind {
        kind::DATA => header.length.min(u32::from(header.has(flag::PADDED))),
        _ => header.length,
    };
    HEADER_BYTES + payload as usize
}
