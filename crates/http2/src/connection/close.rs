//! The ends of streams and of the connection: resets, faults, release, graceful shutdown, GOAWAY and
//! keep-alive. It refuses to know the frames of the peer.

use super::{Closing, Connection, Event, Reset, ResetBy};
use crate::error::{ConnectionError, ErrorCode};
use crate::flood::Cost;
use crate::frame::{self, MAX_31_BITS};
use crate::stream::Side;
use crate::streams::StreamKey;

impl Connection {
    /// Gives a stream up: the driver uses its key no more. A stream that is not complete is reset, with
    /// NO_ERROR if a server has sent its whole response, so that the client stops its request (RFC 9113
    /// section 8.1). Until then a stream that was reset counts against the limit of open streams, because the
    /// gateway still works on it.
    pub fn release(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get(key) else { return };
        let (id, reset) = (stream.id, stream.reset);
        let is_answered = self.is_server && stream.sending == Side::Ended;
        match reset {
            Some(reset) => self.records.reset(id, reset.by != ResetBy::Peer),
            None if stream.is_complete() => {}
            None => {
                let code = if is_answered { ErrorCode::NO_ERROR } else { ErrorCode::CANCEL };
                if self.failure.is_none() {
                    frame::write_reset(self.output.buffer(), id, code);
                }
                self.records.reset(id, true);
            }
        }
        self.remove(key);
    }

    /// Begins a graceful shutdown, in two steps (RFC 9113 section 6.8). A server announces it with GOAWAY for
    /// the largest identifier and a PING; once the PING is answered, or at the second call (after a time that
    /// the driver chooses), it sends GOAWAY with the last stream that it took and refuses later ones. A
    /// client starts no requests any more; there is one step. [`Event::Drained`] follows when no stream is
    /// left.
    pub fn shutdown(&mut self) {
        if self.failure.is_some() {
            return;
        }
        match self.closing {
            Closing::No if self.is_server => {
                let out = self.output.buffer();
                frame::write_goaway(out, MAX_31_BITS, ErrorCode::NO_ERROR, "");
                frame::write_ping(out, 0, SHUTDOWN_PING);
                self.closing = Closing::Announced;
            }
            Closing::No | Closing::Announced => self.finish_shutdown(),
            Closing::Final { .. } => {}
        }
    }

    /// Whether a graceful shutdown is complete: the final GOAWAY was sent and no stream is left.
    pub fn is_drained(&self) -> bool {
        matches!(self.closing, Closing::Final { .. }) && self.streams.len() == 0
    }

    /// Ends the connection: GOAWAY with `code` and all streams reset. The driver writes the output and
    /// closes.
    pub fn close(&mut self, code: ErrorCode) {
        self.fail(ConnectionError { code, reason: "the connection was closed by this side" });
    }

    /// Tells that the transport is gone: all streams get reset events. Nothing more is written.
    pub fn connection_lost(&mut self) {
        if self.failure.is_none() {
            let error =
                ConnectionError { code: ErrorCode::CONNECT_ERROR, reason: "the transport was closed" };
            self.failure = Some(error);
            self.end_all(error);
        }
    }

    /// Sends a PING; [`Event::Pong`] with the returned number says that the peer answered.
    pub fn ping(&mut self) -> u32 {
        self.ping_count = self.ping_count.wrapping_add(1);
        if self.failure.is_none() {
            let [a, b, c, d] = KEEP_ALIVE_MARK;
            let [e, f, g, h] = self.ping_count.to_be_bytes();
            frame::write_ping(self.output.buffer(), 0, [a, b, c, d, e, f, g, h]);
        }
        self.ping_count
    }

    /// The answer to a PING of this side; others are ignored.
    pub(super) fn pong(&mut self, payload: [u8; 8]) {
        if payload == SHUTDOWN_PING {
            if self.closing == Closing::Announced {
                self.finish_shutdown();
            }
        } else if let Some(number) = payload.strip_prefix(&KEEP_ALIVE_MARK) {
            self.report(Event::Pong(frame::read_u32(number)));
        }
    }

    /// Ends the connection because of a fault of the peer.
    pub(super) fn fail(&mut self, error: ConnectionError) {
        if self.failure.is_some() {
            return;
        }
        self.failure = Some(error);
        let last_id = if self.is_server { self.last_id } else { 0 };
        frame::write_goaway(self.output.buffer(), last_id, error.code, error.reason);
        self.end_all(error);
    }

    /// Resets a stream because of a fault of the peer.
    pub(super) fn stream_fault(
        &mut self,
        key: StreamKey,
        code: ErrorCode,
        reason: &'static str,
    ) -> Result<(), ConnectionError> {
        let Some(stream) = self.streams.get(key) else { return Ok(()) };
        let (id, was_reset) = (stream.id, stream.reset.is_some());
        if self.is_server {
            self.flood.charge(Cost::LocalReset)?;
        } else if was_reset {
            // A server has no more first faults than this side has started streams. Later frames are only
            // counted, because other requests share the connection.
            return self.flood.charge(Cost::LateFrame);
        }
        self.send_reset(id, code);
        if !was_reset {
            self.end_stream(key, Reset { code, by: ResetBy::Fault, is_unprocessed: false, reason });
        }
        Ok(())
    }

    /// Resets a stream without a slot, because of a fault of a client or because there are too many. A
    /// server's frame on such a stream is late.
    pub(super) fn refuse(&mut self, id: u32, code: ErrorCode) -> Result<(), ConnectionError> {
        if !self.is_server {
            return self.flood.charge(Cost::LateFrame);
        }
        self.records.reset(id, true);
        self.flood.charge(Cost::LocalReset)?;
        self.send_reset(id, code);
        Ok(())
    }

    /// Marks a stream as reset. The gateway learns of it if it knows the stream, which then keeps its slot
    /// until it is released; otherwise the stream is gone at once.
    pub(super) fn end_stream(&mut self, key: StreamKey, reset: Reset) {
        self.stop_waiting(key);
        let Some(stream) = self.streams.get_mut(key) else { return };
        if !stream.is_known {
            let id = stream.id;
            self.records.reset(id, reset.by != ResetBy::Peer);
            return self.remove(key);
        }
        stream.reset = Some(reset);
        stream.sending = Side::Ended;
        if !stream.is_readable() {
            stream.drop_content();
            let held = std::mem::take(&mut stream.held_bytes);
            self.give_connection_back(held);
        }
        self.report(Event::Reset(key, reset.code));
    }

    /// Takes a stream that is complete out of the count of open ones.
    pub(super) fn settle(&mut self, key: StreamKey) {
        if let Some(stream) = self.streams.get_mut(key)
            && stream.reset.is_none()
            && stream.is_complete()
            && std::mem::take(&mut stream.is_counted)
        {
            self.active -= 1;
            self.flood.stream_completed();
        }
    }

    fn remove(&mut self, key: StreamKey) {
        self.stop_waiting(key);
        let Some(mut stream) = self.streams.remove(key) else { return };
        if stream.is_counted {
            self.active -= 1;
        }
        stream.drop_content();
        self.give_connection_back(stream.held_bytes);
        self.report_drained();
    }

    fn send_reset(&mut self, id: u32, code: ErrorCode) {
        frame::write_reset(self.output.control(frame::HEADER_BYTES + 4), id, code);
    }

    fn finish_shutdown(&mut self) {
        let last_id = if self.is_server { self.last_id } else { 0 };
        frame::write_goaway(self.output.buffer(), last_id, ErrorCode::NO_ERROR, "");
        self.closing = Closing::Final { is_reported: false };
        self.report_drained();
    }

    fn report_drained(&mut self) {
        if let Closing::Final { is_reported } = &mut self.closing
            && self.streams.len() == 0
            && !std::mem::replace(is_reported, true)
        {
            self.report(Event::Drained);
        }
    }

    /// Ends all streams with the connection.
    fn end_all(&mut self, error: ConnectionError) {
        let mut place = self.streams.len();
        while let Some(key) = place.checked_sub(1).and_then(|before| self.streams.key_at(before)) {
            place -= 1;
            let is_open =
                self.streams.get(key).is_some_and(|stream| stream.reset.is_none() && !stream.is_complete());
            if is_open {
                let (code, reason) = (error.code, error.reason);
                self.end_stream(key, Reset { code, by: ResetBy::Connection, is_unprocessed: false, reason });
            }
        }
    }
}

/// The payload of the PING of a graceful shutdown.
const SHUTDOWN_PING: [u8; 8] = *b"weir-bye";
/// The start of the payload of a PING for keep-alive; its number follows.
const KEEP_ALIVE_MARK: [u8; 4] = *b"weir";
