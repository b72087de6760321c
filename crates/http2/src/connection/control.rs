//! Frames without content: PRIORITY, PRIORITY_UPDATE, RST_STREAM, PING, GOAWAY and WINDOW_UPDATE. It does not
//! know header blocks and data.

use super::records::Closed;
use super::{Connection, Event, Reset, ResetBy};
use crate::error::{ConnectionError, ErrorCode};
use crate::flood::Cost;
use crate::frame::{self, FrameHeader, MAX_31_BITS, flag};
use crate::stream::Waiting;
use crate::{Limits, Priority};

impl Connection {
    /// Priorities of RFC 7540 have no effect, but their form is still checked.
    pub(super) fn priority_frame(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ConnectionError> {
        self.flood.charge(Cost::Priority)?;
        if header.stream == 0 {
            return Err(ConnectionError::protocol("PRIORITY on stream 0"));
        }
        let (code, reason) = if payload.len() != 5 {
            (ErrorCode::FRAME_SIZE_ERROR, "PRIORITY of a length other than 5")
        } else if frame::read_u32(payload) & MAX_31_BITS == header.stream {
            (ErrorCode::PROTOCOL_ERROR, "a stream depends on itself")
        } else {
            return Ok(());
        };
        match self.streams.find(header.stream) {
            Some(key) => self.stream_fault(key, code, reason),
            // RST_STREAM must not be sent for an idle stream.
            None if self.is_idle(header.stream) => Err(ConnectionError { code, reason }),
            None => self.refuse(header.stream, code),
        }
    }

    /// RFC 9218 section 7.1.
    pub(super) fn priority_update_frame(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ConnectionError> {
        self.flood.charge(Cost::Priority)?;
        if header.stream != 0 || !self.is_server {
            return Err(ConnectionError::protocol("PRIORITY_UPDATE on a stream or from a server"));
        }
        if payload.len() < 4 {
            return Err(ConnectionError::frame_size("PRIORITY_UPDATE of less than 4 bytes"));
        }
        let id = frame::read_u32(payload) & MAX_31_BITS;
        if id & 1 == 0 {
            return Err(ConnectionError::protocol("PRIORITY_UPDATE for a stream that no client starts"));
        }
        let priority = Priority::parse(&payload[4..]);
        if self.is_idle(id) {
            // Streams far away would only occupy places; RFC 9218 allows to ignore them.
            let distance = (id - self.last_id) / 2;
            if distance <= self.config.max_streams.saturating_add(Limits::EARLY_PRIORITIES as u32) {
                self.records.keep_priority(id, priority);
            }
        } else if let Some(stream) = self.streams.find(id).and_then(|key| self.streams.get_mut(key)) {
            stream.priority = priority;
        }
        Ok(())
    }

    pub(super) fn reset_frame(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        if header.stream == 0 {
            return Err(ConnectionError::protocol("RST_STREAM on stream 0"));
        }
        if payload.len() != 4 {
            return Err(ConnectionError::frame_size("RST_STREAM of a length other than 4"));
        }
        let code = ErrorCode(frame::read_u32(payload));
        let Some(key) = self.streams.find(header.stream) else {
            if self.is_idle(header.stream) {
                return Err(ConnectionError::protocol("RST_STREAM on an idle stream"));
            }
            if self.is_server && self.records.state(header.stream) == Closed::Skipped {
                return Err(ConnectionError::protocol("RST_STREAM on a stream that was not started"));
            }
            return self.flood.charge(Cost::LateFrame);
        };
        let Some(stream) = self.streams.get(key) else { return Ok(()) };
        if stream.reset.is_some() || stream.is_complete() {
            return self.flood.charge(Cost::LateFrame);
        }
        // A server can reset no more streams than this side has started, and other requests share the
        // connection.
        if self.is_server {
            self.flood.charge(Cost::PeerReset)?;
        }
        let is_unprocessed = code == ErrorCode::REFUSED_STREAM;
        self.end_stream(
            key,
            Reset { code, by: ResetBy::Peer, is_unprocessed, reason: "the peer reset the stream" },
        );
        Ok(())
    }

    pub(super) fn ping_frame(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        if header.stream != 0 {
            return Err(ConnectionError::protocol("PING on a stream"));
        }
        let Ok(payload) = <[u8; 8]>::try_from(payload) else {
            return Err(ConnectionError::frame_size("PING of a length other than 8"));
        };
        self.flood.charge(Cost::Ping)?;
        if header.has(flag::ACK) {
            self.pong(payload);
        } else {
            let bytes = frame::HEADER_BYTES + payload.len();
            frame::write_ping(self.output.control(bytes), flag::ACK, payload);
        }
        Ok(())
    }

    pub(super) fn goaway_frame(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ConnectionError> {
        if header.stream != 0 {
            return Err(ConnectionError::protocol("GOAWAY on a stream"));
        }
        if payload.len() < 8 {
            return Err(ConnectionError::frame_size("GOAWAY of less than 8 bytes"));
        }
        self.flood.charge(Cost::Settings)?;
        let last_id = frame::read_u32(payload) & MAX_31_BITS;
        let code = ErrorCode(frame::read_u32(&payload[4..]));
        // A later GOAWAY may only lower it (RFC 9113 section 6.8).
        let last_id = self.peer_last_id.map_or(last_id, |earlier| earlier.min(last_id));
        self.peer_last_id = Some(last_id);
        self.report(Event::GoAway(code));
        if self.is_server {
            return Ok(());
        }
        let mut place = self.streams.len();
        while let Some(key) = place.checked_sub(1).and_then(|before| self.streams.key_at(before)) {
            place -= 1;
            match self.streams.get(key) {
                Some(stream) if stream.id <= last_id => break,
                Some(stream) if stream.reset.is_none() && !stream.is_complete() => {
                    let reason = "the peer closes the connection";
                    self.end_stream(key, Reset { code, by: ResetBy::GoAway, is_unprocessed: true, reason });
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn window_update_frame(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ConnectionError> {
        if payload.len() != 4 {
            return Err(ConnectionError::frame_size("WINDOW_UPDATE of a length other than 4"));
        }
        self.flood.charge(Cost::WindowUpdate)?;
        let increment = frame::read_u32(payload) & MAX_31_BITS;
        if header.stream == 0 {
            if increment == 0 {
                return Err(ConnectionError::protocol("WINDOW_UPDATE of zero"));
            }
            if !self.send_window.change(i64::from(increment)) {
                return Err(ConnectionError::flow_control("the connection's window exceeds 2^31-1"));
            }
            return Ok(());
        }
        let Some(key) = self.streams.find(header.stream) else {
            let fault = ConnectionError::protocol("WINDOW_UPDATE on an idle stream");
            return if self.is_idle(header.stream) { Err(fault) } else { self.flood.charge(Cost::LateFrame) };
        };
        let Some(stream) = self.streams.get_mut(key) else { return Ok(()) };
        if stream.reset.is_some() || stream.is_complete() {
            return Ok(());
        }
        if increment == 0 {
            return self.stream_fault(key, ErrorCode::PROTOCOL_ERROR, "WINDOW_UPDATE of zero");
        }
        if !stream.send_window.change(i64::from(increment)) {
            let reason = "the stream's window exceeds 2^31-1";
            return self.stream_fault(key, ErrorCode::FLOW_CONTROL_ERROR, reason);
        }
        if stream.waiting == Waiting::Window {
            self.enqueue(key);
        }
        Ok(())
    }

    /// Whether a stream has not been started by either side.
    pub(super) fn is_idle(&self, id: u32) -> bool {
        // Streams with even identifiers are those of server push, which is never used.
        id > self.last_id || id & 1 == 0
    }
}
