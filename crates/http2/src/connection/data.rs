//! Received DATA frames: flow control, content lengths, and the way to their streams. It does not know how
//! the gateway takes the data.

use super::receive::{DataFrame, Reading};
use super::records::Closed;
use super::{Connection, Event, ResetBy};
use crate::Limits;
use crate::error::{ConnectionError, ErrorCode};
use crate::flood::Cost;
use crate::frame::{self, FrameHeader, flag};
use crate::stream::Side;
use crate::streams::StreamKey;

impl Connection {
    /// The header of a DATA frame, with the length of its padding as the payload if it is padded.
    pub(super) fn data_frame(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        if header.stream == 0 {
            return Err(ConnectionError::protocol("DATA on stream 0"));
        }
        let is_padded = header.has(flag::PADDED);
        if is_padded && payload.is_empty() {
            return Err(ConnectionError::frame_size("padded frame without its padding length"));
        }
        let padding = payload.first().map_or(0, |length| u32::from(*length));
        let overhead = padding + u32::from(is_padded);
        let Some(data) = header.length.checked_sub(overhead) else {
            return Err(ConnectionError::protocol("padding longer than its frame"));
        };
        if !self.receive_window.receive(header.length) {
            return Err(ConnectionError::flow_control("DATA beyond the connection's window"));
        }
        let is_end = header.has(flag::END_STREAM);
        match data {
            // The streams of a server are bounded by the requests of this side, and so are its empty frames.
            0 if !is_end && self.is_server => self.flood.charge(Cost::EmptyData)?,
            0 => {}
            _ => self.flood.data_frame(),
        }
        let key = self.receiver(header, data)?;
        if let Some(key) = key.filter(|_| data == 0 && !is_end) {
            self.count_empty(key)?;
        }
        if let Some(key) = key {
            // The padding is consumed by being received.
            self.give_back(key, overhead);
        } else {
            self.give_connection_back(overhead);
        }
        let frame = DataFrame { key, data_left: data, padding_left: padding, is_end };
        if data + padding == 0 {
            return self.data_end(frame);
        }
        self.reading = Reading::Data(frame);
        Ok(())
    }

    /// The next bytes of a DATA frame; how many of them belong to it.
    pub(super) fn data_part(&mut self, mut frame: DataFrame, rest: &[u8]) -> Result<usize, ConnectionError> {
        let data = rest.len().min(frame.data_left as usize);
        if data > 0 {
            frame.data_left -= data as u32;
            self.store(frame.key, &rest[..data]);
        }
        let padding = (rest.len() - data).min(frame.padding_left as usize);
        frame.padding_left -= padding as u32;
        if frame.data_left + frame.padding_left == 0 {
            self.reading = Reading::Frames;
            self.data_end(frame)?;
        } else {
            self.reading = Reading::Data(frame);
        }
        Ok(data + padding)
    }

    /// Gives window back for `count` bytes that the gateway has passed on or dropped. The peer learns of it
    /// once half of a window was consumed.
    pub fn consume(&mut self, key: StreamKey, count: usize) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        // Bytes of a stream that was reset were given back then.
        let count = (count as u64).min(u64::from(stream.held_bytes)) as u32;
        stream.held_bytes -= count;
        self.give_back(key, count);
    }

    /// Gives window back to the connection alone.
    pub(super) fn give_connection_back(&mut self, count: u32) {
        if count == 0 || self.failure.is_some() {
            return;
        }
        if let Some(increment) = self.receive_window.consume(count, self.config.connection_window_bytes) {
            frame::write_window_update(self.output.buffer(), 0, increment);
        }
    }

    /// Gives window back to a stream and the connection.
    fn give_back(&mut self, key: StreamKey, count: u32) {
        if count == 0 || self.failure.is_some() {
            return;
        }
        self.give_connection_back(count);
        let size = self.config.stream_window_bytes;
        let Some(stream) = self.streams.get_mut(key) else { return };
        if stream.receiving != Side::Body || stream.reset.is_some() {
            return;
        }
        if let Some(increment) = stream.receive_window.consume(count, size) {
            frame::write_window_update(self.output.buffer(), stream.id, increment);
        }
    }

    /// The stream that the data of a frame goes to; none if it is dropped. The window of the connection has
    /// paid for it.
    fn receiver(&mut self, header: FrameHeader, data: u32) -> Result<Option<StreamKey>, ConnectionError> {
        let id = header.stream;
        let Some(key) = self.streams.find(id) else {
            return self.without_slot(id).map(|()| None);
        };
        let Some(stream) = self.streams.get_mut(key) else { return Ok(None) };
        if let Some(reset) = stream.reset {
            if reset.by == ResetBy::Peer && self.is_server {
                self.refuse(id, ErrorCode::STREAM_CLOSED)?;
            } else {
                self.flood.charge(Cost::LateFrame)?;
            }
            return Ok(None);
        }
        let fault = match stream.receiving {
            Side::Head => Some((ErrorCode::PROTOCOL_ERROR, "DATA before the head")),
            Side::Ended => Some((ErrorCode::STREAM_CLOSED, "DATA on a stream that the peer ended")),
            Side::Body if !stream.receive_window.receive(header.length) => {
                Some((ErrorCode::FLOW_CONTROL_ERROR, "DATA beyond the stream's window"))
            }
            Side::Body => {
                if data > 0 {
                    stream.empty_frames = 0;
                }
                stream.received_bytes += u64::from(data);
                let is_beyond = stream.content_length.is_some_and(|length| stream.received_bytes > length);
                // Content of a server's response that has none, as one to HEAD, is dropped by `store`: the
                // response is good.
                let is_unexpected = data > 0 && !stream.no_content && is_beyond;
                is_unexpected
                    .then_some((ErrorCode::PROTOCOL_ERROR, "Content-Length differs from the content"))
            }
        };
        match fault {
            Some((code, reason)) => self.stream_fault(key, code, reason).map(|()| None),
            None => Ok(Some(key)),
        }
    }

    /// Counts a DATA frame without data, and ends its stream when too many come in a row.
    fn count_empty(&mut self, key: StreamKey) -> Result<(), ConnectionError> {
        let most = if self.is_server { Limits::EMPTY_DATA } else { Limits::SERVER_EMPTY_DATA };
        let since_ms = self.flood.interval_start_ms();
        let count = self.streams.get_mut(key).map_or(0, |stream| stream.count_empty(since_ms));
        if count <= most {
            return Ok(());
        }
        self.stream_fault(key, ErrorCode::ENHANCE_YOUR_CALM, "too many empty DATA frames in a row")
    }

    /// DATA for a stream without a slot: late, or a fault.
    fn without_slot(&mut self, id: u32) -> Result<(), ConnectionError> {
        if self.is_idle(id) {
            return Err(ConnectionError::protocol("DATA on an idle stream"));
        }
        if !self.is_server {
            // A fault of one stream, and other requests share the connection.
            return self.flood.charge(Cost::LateFrame);
        }
        match self.records.state(id) {
            Closed::ResetByUs => self.flood.charge(Cost::LateFrame),
            Closed::ResetByPeer => self.refuse(id, ErrorCode::STREAM_CLOSED),
            Closed::Ended | Closed::Skipped => Err(ConnectionError::closed("DATA on a closed stream")),
        }
    }

    /// Hands bytes to their stream, or gives their window back if it is gone.
    fn store(&mut self, key: Option<StreamKey>, bytes: &[u8]) {
        let stream = key.and_then(|key| self.streams.get_mut(key)).filter(|stream| stream.reset.is_none());
        let (Some(key), Some(stream)) = (key, stream) else {
            return self.give_connection_back(bytes.len() as u32);
        };
        if stream.no_content {
            return self.give_back(key, bytes.len() as u32);
        }
        stream.store(bytes);
        stream.held_bytes += bytes.len() as u32;
        if !std::mem::replace(&mut stream.data_queued, true) {
            self.report(Event::Data(key));
        }
    }

    fn data_end(&mut self, frame: DataFrame) -> Result<(), ConnectionError> {
        let key = frame.key.filter(|_| frame.is_end);
        let live = key.filter(|key| self.streams.get(*key).is_some_and(|stream| stream.reset.is_none()));
        live.map_or(Ok(()), |key| self.end_of_message(key))
    }
}
