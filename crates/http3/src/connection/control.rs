//! The control stream of the peer: frames in parts, SETTINGS, GOAWAY, MAX_PUSH_ID and priorities (RFC 9114
//! section 7.2, RFC 9218 section 7.2). It does not know other streams.

use multiplex::{Priority, pool};

use super::{Connection, Event, REQUEST_ID_STEP};
use crate::flood::Cost;
use crate::frame::{self, FrameHeader, kind};
use crate::varint::{self, Partial};
use crate::{ConnectionError, ErrorCode, Limits, PeerSettings};

/// The part of the control stream that the next byte belongs to.
#[derive(Debug, Default)]
pub(super) struct ControlReader {
    partial: Partial,
    reading: Reading,
    /// The start of a payload; its rest has not arrived.
    payload: Vec<u8>,
}

#[derive(Debug, Clone, Copy, Default)]
enum Reading {
    #[default]
    Header,
    Payload(FrameHeader),
    /// So many bytes of an unknown frame are left.
    Skip(u64),
}

impl ControlReader {
    /// Bytes of heap memory.
    pub(super) fn memory(&self) -> usize {
        self.payload.capacity()
    }
}

impl Connection {
    pub(super) fn read_control(&mut self, mut input: &[u8]) -> Result<(), ConnectionError> {
        loop {
            match self.control.reading {
                Reading::Header => {
                    let header = self.control.partial.read(&mut input, frame::read_header);
                    let Some(header) = header else { return Ok(()) };
                    self.control.reading = self.control_header(header)?;
                }
                Reading::Payload(header) => {
                    // The header's check bounds the length.
                    let missing = header.length as usize - self.control.payload.len();
                    let (part, rest) = input.split_at(missing.min(input.len()));
                    input = rest;
                    if part.len() < missing {
                        self.keep_payload(part);
                        return Ok(());
                    }
                    self.control.reading = Reading::Header;
                    self.control_payload(header.kind, part)?;
                }
                Reading::Skip(left) => {
                    let count = left.min(input.len() as u64);
                    input = &input[count as usize..];
                    if count < left {
                        self.control.reading = Reading::Skip(left - count);
                        return Ok(());
                    }
                    self.control.reading = Reading::Header;
                }
            }
        }
    }

    fn keep_payload(&mut self, part: &[u8]) {
        if self.control.payload.capacity() == 0 {
            self.control.payload = pool::take_bytes();
        }
        self.control.payload.extend_from_slice(part);
    }

    /// Handles a whole payload, of which `part` is the end.
    fn control_payload(&mut self, kind: u64, part: &[u8]) -> Result<(), ConnectionError> {
        if self.control.payload.is_empty() {
            return self.control_frame(kind, part);
        }
        let mut payload = std::mem::take(&mut self.control.payload);
        payload.extend_from_slice(part);
        let result = self.control_frame(kind, &payload);
        pool::give_bytes(payload);
        result
    }

    /// Checks whether a frame may come now, before its payload.
    fn control_header(&mut self, header: FrameHeader) -> Result<Reading, ConnectionError> {
        let is_first = !self.peer.has_arrived;
        if is_first != (header.kind == kind::SETTINGS) {
            return Err(if is_first {
                let reason = "the control stream does not begin with SETTINGS";
                ConnectionError::new(ErrorCode::MISSING_SETTINGS, reason)
            } else {
                ConnectionError::unexpected("a second SETTINGS frame")
            });
        }
        match header.kind {
            kind::DATA | kind::HEADERS | kind::PUSH_PROMISE => {
                return Err(ConnectionError::unexpected("a frame of requests on the control stream"));
            }
            one if kind::HTTP2.contains(&one) => {
                return Err(ConnectionError::unexpected("a frame type of HTTP/2"));
            }
            kind::MAX_PUSH_ID | kind::PRIORITY_UPDATE | kind::PRIORITY_UPDATE_PUSH if !self.is_server => {
                return Err(ConnectionError::unexpected("a frame of clients from a server"));
            }
            kind::SETTINGS
            | kind::CANCEL_PUSH
            | kind::GOAWAY
            | kind::MAX_PUSH_ID
            | kind::PRIORITY_UPDATE
            | kind::PRIORITY_UPDATE_PUSH => {}
            _ => {
                self.unknown_frame(header.length)?;
                return Ok(Reading::Skip(header.length));
            }
        }
        if header.length > Limits::CONTROL_FRAME_BYTES {
            return Err(ConnectionError::load("control frame too large"));
        }
        Ok(Reading::Payload(header))
    }

    /// Counts a frame of unknown type, which is dropped (RFC 9114 section 9).
    pub(crate) fn unknown_frame(&mut self, length: u64) -> Result<(), ConnectionError> {
        if length > Limits::UNKNOWN_FRAME_BYTES {
            return Err(ConnectionError::load("unknown frame too large"));
        }
        self.charge(Cost::UnknownFrame)
    }

    fn control_frame(&mut self, kind: u64, payload: &[u8]) -> Result<(), ConnectionError> {
        match kind {
            kind::SETTINGS => {
                self.peer = PeerSettings::read(payload)?;
                self.events.push_back(Event::SettingsArrived);
                Ok(())
            }
            kind::GOAWAY => self.goaway(only_integer(payload)?),
            kind::MAX_PUSH_ID => self.max_push_id(only_integer(payload)?),
            kind::CANCEL_PUSH => {
                only_integer(payload)?;
                Err(id_error("CANCEL_PUSH although nothing was pushed"))
            }
            kind::PRIORITY_UPDATE => self.priority_update(payload),
            _ => Err(id_error("PRIORITY_UPDATE for a push that was not promised")),
        }
    }

    fn goaway(&mut self, id: u64) -> Result<(), ConnectionError> {
        self.charge(Cost::Control)?;
        if !self.is_server && !id.is_multiple_of(REQUEST_ID_STEP) {
            return Err(id_error("GOAWAY without the identifier of a request stream"));
        }
        if self.received_goaway.is_some_and(|earlier| id > earlier) {
            return Err(id_error("GOAWAY with a larger identifier than before"));
        }
        if self.received_goaway.replace(id) != Some(id) {
            self.events.push_back(Event::GoAway(id));
        }
        Ok(())
    }

    /// This side pushes nothing, whatever it may.
    fn max_push_id(&mut self, id: u64) -> Result<(), ConnectionError> {
        self.charge(Cost::Control)?;
        if self.max_push_id.is_some_and(|earlier| id < earlier) {
            return Err(id_error("MAX_PUSH_ID smaller than before"));
        }
        self.max_push_id = Some(id);
        Ok(())
    }

    fn priority_update(&mut self, mut payload: &[u8]) -> Result<(), ConnectionError> {
        self.charge(Cost::Priority)?;
        let fault = ConnectionError::frame("PRIORITY_UPDATE without an identifier");
        let id = varint::read(&mut payload).ok_or(fault)?;
        if !id.is_multiple_of(REQUEST_ID_STEP) {
            return Err(id_error("PRIORITY_UPDATE for a stream that is no request"));
        }
        let priority = Priority::parse(payload);
        if id < self.next_request_id {
            self.events.push_back(Event::PriorityChanged(id, priority));
            return Ok(());
        }
        // Streams far away would only occupy places; RFC 9218 allows to ignore them.
        if (id - self.next_request_id) / REQUEST_ID_STEP >= u64::from(Limits::STREAMS) {
            return Ok(());
        }
        self.take_early_priority(id);
        if self.early_priorities.len() >= Limits::EARLY_PRIORITIES {
            self.early_priorities.pop_front();
        }
        self.early_priorities.push_back((id, priority));
        Ok(())
    }

    /// Takes the priority that came before its stream.
    pub(super) fn take_early_priority(&mut self, id: u64) -> Option<Priority> {
        let place = self.early_priorities.iter().position(|(early, _)| *early == id)?;
        let (_, priority) = self.early_priorities.remove(place)?;
        if self.early_priorities.is_empty() {
            self.early_priorities = std::collections::VecDeque::new();
        }
        Some(priority)
    }
}

/// The integer that is the whole payload.
fn only_integer(mut payload: &[u8]) -> Result<u64, ConnectionError> {
    let value = varint::read(&mut payload).filter(|_| payload.is_empty());
    value.ok_or(ConnectionError::frame("control frame of the wrong size"))
}

const fn id_error(reason: &'static str) -> ConnectionError {
    ConnectionError::new(ErrorCode::ID_ERROR, reason)
}
