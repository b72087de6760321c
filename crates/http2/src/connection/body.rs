//! The two bodies of a stream as the driver reads and writes them; it does not know how frames are read.

use message::Headers;
use multiplex::is_trailer;
use stdx::segment::ByteSegment;

use super::head_writer::end_block;
use super::{Connection, Reset, ResetBy};
use crate::error::ErrorCode;
use crate::frame::{self, HEADER_BYTES, flag, kind};
use crate::stream::Side;
use crate::streams::StreamKey;
use crate::{Limits, pool};

/// How far the received body of a stream has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyState {
    /// More will come.
    Pending,
    /// So many bytes can be taken.
    Data(usize),
    /// Everything was taken and the message is complete.
    End {
        /// Whether there are trailers to take.
        has_trailers: bool,
    },
    /// The message will never be complete. A stream that was released counts as cancelled.
    Reset(Reset),
}

impl Connection {
    /// How far the received body of a stream has come. Data that arrived before a reset is dropped by it.
    pub fn body_state(&self, key: StreamKey) -> BodyState {
        let Some(stream) = self.streams.get(key) else {
            let reason = "the stream was released";
            let by = ResetBy::Driver;
            return BodyState::Reset(Reset { code: ErrorCode::CANCEL, by, is_unprocessed: false, reason });
        };
        match stream.reset {
            Some(reset) if !stream.is_readable() => BodyState::Reset(reset),
            _ if !stream.data.is_empty() => BodyState::Data(stream.data.len()),
            _ if stream.receiving == Side::Ended => {
                BodyState::End { has_trailers: stream.trailers.is_some() }
            }
            _ => BodyState::Pending,
        }
    }

    /// Swaps the received bytes of a stream with `buffer`. The bytes in it are forgotten; its memory receives
    /// the next ones. Returns their number. Their window stays taken until [`consume`](Connection::consume).
    pub fn take_data(&mut self, key: StreamKey, buffer: &mut Vec<u8>) -> usize {
        buffer.clear();
        let Some(stream) = self.streams.get_mut(key) else { return 0 };
        if !stream.data.is_empty() {
            std::mem::swap(&mut stream.data, buffer);
        }
        if stream.data.is_empty() && stream.receiving == Side::Ended {
            pool::give_bytes(std::mem::take(&mut stream.data));
        }
        buffer.len()
    }

    /// The trailers that arrived, if there are some.
    pub fn trailers(&self, key: StreamKey) -> Option<&Headers> {
        self.streams.get(key)?.trailers.as_ref().map(|stored| &stored.headers)
    }

    /// Moves the trailers that arrived into `headers`; false if there are none. Fields that must not be in
    /// trailers were dropped.
    pub fn take_trailers(&mut self, key: StreamKey, headers: &mut Headers) -> bool {
        let Some(mut stored) = self.streams.get_mut(key).and_then(|stream| stream.trailers.take()) else {
            return false;
        };
        std::mem::swap(headers, &mut stored.headers);
        pool::give_head(stored);
        true
    }

    /// Writes data of a stream behind its head, as much as its [`capacity`](Connection::capacity) allows;
    /// returns how many bytes that is. With `ends_stream` the message ends if all was written. A stream that
    /// could not write everything waits for [`Event::Writable`](super::Event::Writable).
    pub fn write_data(&mut self, key: StreamKey, data: &[u8], ends_stream: bool) -> usize {
        let count = if data.is_empty() { 0 } else { self.capacity(key).min(data.len()) };
        let is_last = ends_stream && count == data.len();
        if count < data.len() {
            self.wait_for_more(key);
        }
        if count == 0 && !is_last {
            return 0;
        }
        let Some(id) = self.begin_data(key, count) else { return 0 };
        let mut rest = &data[..count];
        loop {
            let piece = self.data_header(id, rest.len(), is_last);
            let (piece, behind) = rest.split_at(piece);
            self.output.buffer().extend_from_slice(piece);
            rest = behind;
            if rest.is_empty() {
                break;
            }
        }
        self.end_data(key, count, is_last);
        count
    }

    /// As [`write_data`](Connection::write_data), without a copy of the bytes: they wait in their own memory,
    /// which counts as [`memory`](Connection::memory) meanwhile. All of them are written.
    ///
    /// # Errors
    /// The segment, untouched, if it is empty or its stream has less
    /// [`capacity`](Connection::capacity) than its bytes need.
    pub fn write_segment(
        &mut self,
        key: StreamKey,
        segment: ByteSegment,
        ends_stream: bool,
    ) -> Result<(), ByteSegment> {
        let count = segment.len();
        if count == 0 || self.capacity(key) < count {
            return Err(segment);
        }
        let Some(id) = self.begin_data(key, count) else { return Err(segment) };
        let mut piece = self.data_header(id, count, ends_stream);
        let mut left = count - piece;
        self.output.segment(segment, piece);
        while left > 0 {
            piece = self.data_header(id, left, ends_stream);
            left -= piece;
            self.output.rest_of_segment(piece);
        }
        self.end_data(key, count, ends_stream);
        Ok(())
    }

    /// Takes the windows for `count` bytes of DATA that are written now; the identifier of the stream, if its
    /// body may be written.
    fn begin_data(&mut self, key: StreamKey, count: usize) -> Option<u32> {
        let stream = self.streams.get_mut(key)?;
        if stream.reset.is_some() || stream.sending != Side::Body {
            return None;
        }
        stream.send_window.take(count);
        self.send_window.take(count);
        Some(stream.id)
    }

    /// Writes the header of the next DATA frame, where `left` bytes are left to write; how many of them are
    /// its payload.
    #[inline]
    fn data_header(&mut self, id: u32, left: usize, ends_stream: bool) -> usize {
        let limit = self.peer.max_frame_bytes.min(Limits::FRAME_BYTES) as usize;
        let count = left.min(limit);
        let flags = if ends_stream && count == left { flag::END_STREAM } else { 0 };
        frame::write_header(self.output.buffer(), count, kind::DATA, flags, id);
        self.flood.data_frame();
        count
    }

    fn end_data(&mut self, key: StreamKey, count: usize, is_last: bool) {
        self.use_grant(key, count);
        if is_last {
            self.end_sending(key);
        }
    }

    /// Ends the message of a stream behind its head, with trailers if there are some that may be sent. Does
    /// nothing if it has ended.
    pub fn finish(&mut self, key: StreamKey, trailers: Option<&Headers>) {
        let is_open = self
            .streams
            .get(key)
            .is_some_and(|stream| stream.reset.is_none() && stream.sending == Side::Body);
        if !is_open {
            return;
        }
        let Some(trailers) = trailers.filter(|trailers| trailers.iter().any(|field| is_trailer(&field)))
        else {
            self.write_data(key, &[], true);
            return;
        };
        let id = self.stream_id(key);
        let limit = self.peer.max_frame_bytes as usize;
        let Self { encoder, output, .. } = self;
        let out = output.buffer();
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        encoder.begin(out);
        for field in trailers.iter().filter(is_trailer) {
            encoder.field(out, field.id, field.name, field.value, field.sensitive);
        }
        end_block(out, start, limit, id, true);
        self.end_sending(key);
    }

    /// Resets a stream from this side. It still has to be released. Does nothing if it is complete or was
    /// reset.
    pub fn reset(&mut self, key: StreamKey, code: ErrorCode) {
        let is_open =
            self.streams.get(key).is_some_and(|stream| stream.reset.is_none() && !stream.is_complete());
        if is_open && self.failure.is_none() {
            let id = self.stream_id(key);
            frame::write_reset(self.output.buffer(), id, code);
            let reason = "the stream was reset by this side";
            self.end_stream(key, Reset { code, by: ResetBy::Driver, is_unprocessed: false, reason });
        }
    }

    fn wait_for_more(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get(key) else { return };
        let can_write = stream.reset.is_none() && stream.sending == Side::Body;
        if can_write && stream.send_window.available() > 0 {
            self.enqueue(key);
        }
    }

    fn end_sending(&mut self, key: StreamKey) {
        self.stop_waiting(key);
        if let Some(stream) = self.streams.get_mut(key) {
            stream.sending = Side::Ended;
        }
        self.settle(key);
    }
}
