//! The client's side of one exchange over HTTP/2: the request body is read through here and the response
//! written into the connection's output. It decides nothing about routes or nodes, and writes to no socket.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use http2::{BodyState, ErrorCode, RequestInfo, Reset, ResetBy, StreamKey};
use message::{FieldId, Headers, Method, ResponseHead};
use stdx::buffer::SMALL_BYTES;
use stdx::segment::{ByteSegment, is_dense};

use super::encode;
use super::link::DownstreamH2Link;
use crate::body::{
    BodyEvent, BodyLength, Capacity, INTERIM_WAITING_MAX_BYTES, RequestBody, ResponseProgress, ResponseSink,
};
use crate::downstream::stream_end::TunnelStream;
use crate::h2::reset_text;
use exchange::Exchange;
use exchange::failure::{Blame, Cause, ExchangeFailure};

/// A piece of a request body that is kept after it was passed on, so that the body can be sent again, holds
/// no more than this: as much as is waited for before an endpoint is selected.
const KEPT_PIECE_BYTES: usize = 2 * SMALL_BYTES;
/// With a smaller window the bytes that come with a response head are left with the endpoint until they are
/// taken.
const ROOMY_WINDOW_BYTES: usize = 32 * 1024;

/// See the module.
pub(super) struct DownstreamH2Stream {
    link: Rc<DownstreamH2Link>,
    key: StreamKey,
    length: BodyLength,
    /// Bytes of the request body that were taken from the engine, and how many of them were consumed.
    piece: Vec<u8>,
    cursor: usize,
    /// How much of the piece the client's window was given back for. A body that is sent again gives it back
    /// once.
    returned: usize,
    /// An earlier piece is gone: the body cannot be sent again.
    is_piece_later: bool,
    trailers: Option<Box<Headers>>,
    /// The client waits for 100 (Continue) before it sends its body.
    continue_due: bool,
    /// The exchange is an extended CONNECT (RFC 8441), which a response with a final status other than 2xx
    /// ends.
    is_connect: bool,
    head_sent: bool,
    /// The response has opened a tunnel, which ends each way by itself.
    is_tunnel: bool,
    /// The end of the response is in the output.
    is_ended: bool,
    /// Bytes that the announced length still allows; its last one ends the stream.
    left_bytes: Option<u64>,
    sent_bytes: u64,
    aborted: Option<Blame>,
}

impl DownstreamH2Stream {
    /// Creates the stream of the request on `key`. `info` describes its head and is none if the head was too
    /// large.
    pub(super) fn new(
        link: Rc<DownstreamH2Link>,
        key: StreamKey,
        info: Option<RequestInfo>,
        exchange: &Exchange,
    ) -> DownstreamH2Stream {
        let is_connect =
            exchange.request.method == Method::Connect && exchange.request.upgrade_text().is_some();
        let length = match info {
            _ if is_connect => BodyLength::None,
            None => BodyLength::None,
            Some(RequestInfo { content_length: Some(bytes), .. }) => BodyLength::Known(bytes),
            Some(RequestInfo { is_end: true, .. }) => BodyLength::None,
            // The end came in a frame of its own, together with the head.
            Some(_) if link.engine().body_state(key) == (BodyState::End { has_trailers: false }) => {
                BodyLength::None
            }
            Some(_) => BodyLength::Unknown,
        };
        DownstreamH2Stream {
            link,
            key,
            length,
            piece: Vec::new(),
            cursor: 0,
            returned: 0,
            is_piece_later: false,
            trailers: None,
            continue_due: exchange.request.headers.contains_known(FieldId::Expect),
            is_connect,
            head_sent: false,
            is_tunnel: false,
            is_ended: false,
            left_bytes: None,
            sent_bytes: 0,
            aborted: None,
        }
    }

    /// Whether the client has reset the stream, or the connection has ended.
    fn reset(&self) -> Option<Reset> {
        match self.link.engine().body_state(self.key) {
            BodyState::Reset(reset) => Some(reset),
            _ => None,
        }
    }

    fn gone(&self) -> Option<io::Error> {
        if self.is_ended {
            return None;
        }
        self.reset().map(|reset| io::Error::new(io::ErrorKind::ConnectionReset, reset_text(reset)))
    }

    /// Takes the next bytes of the body from the engine; false if there are none now.
    fn take_piece(&mut self) -> bool {
        let mut engine = self.link.engine();
        if !matches!(engine.body_state(self.key), BodyState::Data(_)) {
            return false;
        }
        // Also where the last piece was consumed: it held bytes of the body that are gone now.
        self.is_piece_later |= !self.piece.is_empty();
        engine.take_data(self.key, &mut self.piece);
        (self.cursor, self.returned) = (0, 0);
        true
    }

    /// Gives the memory of a consumed piece back, if it is more than a body that is sent again may hold.
    fn rest_piece(&mut self) {
        if self.piece.capacity() > KEPT_PIECE_BYTES {
            self.is_piece_later |= !self.piece.is_empty();
            http2::recycle(std::mem::take(&mut self.piece));
            (self.cursor, self.returned) = (0, 0);
        }
    }

    /// Whether the next `count` bytes of the response body are its last ones.
    fn is_last(&self, count: usize) -> bool {
        self.left_bytes.is_some_and(|left| left <= count as u64)
    }

    /// Notes that `count` bytes of the response body are in the output, with its end if it `has_ended`.
    fn note_written(&mut self, count: usize, has_ended: bool) {
        if let Some(left) = &mut self.left_bytes {
            *left = left.saturating_sub(count as u64);
        }
        self.is_ended |= has_ended;
    }

    /// Sends the interim response that the client waits for.
    fn send_continue(&mut self) {
        if std::mem::take(&mut self.continue_due)
            && !self.head_sent
            && let Some(writer) = self.link.engine().start_interim(self.key, 100)
        {
            writer.finish(false);
        }
    }
}

impl TunnelStream for DownstreamH2Stream {
    fn held(&self) -> &[u8] {
        &self.piece[self.cursor..]
    }

    /// The connection's task writes the output of all streams.
    fn send_taken(&mut self, _cx: &mut Context<'_>) {}

    fn poll_end_tunnel(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_tunnel = false;
        self.finish(None);
        Poll::Ready(Ok(()))
    }

    fn end_in_order(&mut self) {
        self.aborted = None;
        self.is_tunnel = false;
        self.finish(None);
    }
}

impl Drop for DownstreamH2Stream {
    /// Ends the stream: in order after a whole response, otherwise with a reset, so that the client can tell
    /// that the response is cut.
    fn drop(&mut self) {
        let mut engine = self.link.engine();
        if !self.is_ended || self.aborted.is_some() {
            let code = match self.aborted {
                Some(Blame::Client) => ErrorCode::CANCEL,
                // A panic or a stop drops it as it is.
                Some(Blame::Upstream | Blame::Gateway) | None => ErrorCode::INTERNAL_ERROR,
            };
            engine.reset(self.key, code);
        }
        engine.release(self.key);
        http2::recycle(std::mem::take(&mut self.piece));
    }
}

impl RequestBody for DownstreamH2Stream {
    fn poll_body<'a>(&'a mut self, _cx: &mut Context<'_>) -> Poll<BodyEvent<'a>> {
        if self.cursor < self.piece.len() || self.take_piece() {
            return Poll::Ready(BodyEvent::Data(&self.piece[self.cursor..]));
        }
        let state = self.link.engine().body_state(self.key);
        match state {
            BodyState::End { has_trailers } => {
                if has_trailers {
                    let trailers = self.trailers.insert(Box::default());
                    self.link.engine().take_trailers(self.key, trailers);
                }
                Poll::Ready(BodyEvent::End(self.trailers.as_deref()))
            }
            BodyState::Reset(reset) => Poll::Ready(BodyEvent::Reset(failure_of(reset))),
            BodyState::Data(_) | BodyState::Pending => {
                self.send_continue();
                self.rest_piece();
                Poll::Pending
            }
        }
    }

    fn consume(&mut self, count: usize) {
        self.cursor += count;
        debug_assert!(self.cursor <= self.piece.len(), "more was consumed than was there");
        let returned = self.cursor.saturating_sub(self.returned);
        if returned > 0 {
            self.returned = self.cursor;
            self.link.engine().consume(self.key, returned);
        }
    }

    fn body_length(&self) -> BodyLength {
        self.length
    }

    fn rewind(&mut self) -> bool {
        let is_whole = !self.is_piece_later;
        if is_whole {
            self.cursor = 0;
        }
        is_whole
    }

    fn take_segment(&mut self, count: usize) -> Option<ByteSegment> {
        let is_whole = self.piece.len() - self.cursor == count;
        if !self.is_piece_later || !is_whole || !is_dense(count, self.piece.capacity()) {
            return None;
        }
        let start = self.cursor;
        RequestBody::consume(self, count);
        (self.cursor, self.returned) = (0, 0);
        Some(ByteSegment::from_vector(std::mem::take(&mut self.piece), start, http2::recycle))
    }
}

impl ResponseSink for DownstreamH2Stream {
    fn send_informational(&mut self, head: &ResponseHead) {
        if self.head_sent {
            return;
        }
        let mut engine = self.link.engine();
        let before = engine.output_bytes();
        if before > INTERIM_WAITING_MAX_BYTES {
            return;
        }
        if let Some(writer) = engine.start_interim(self.key, head.status) {
            encode::write_h2_interim_head(&head.headers, writer);
        }
        self.sent_bytes += (engine.output_bytes() - before) as u64;
    }

    fn start_response(&mut self, exchange: &Exchange, length: BodyLength) {
        debug_assert!(!self.head_sent, "one response per request");
        self.head_sent = true;
        let status = exchange.response.status;
        self.is_tunnel = self.is_connect && (200..300).contains(&status) && length == BodyLength::None;
        let is_empty = matches!(length, BodyLength::None | BodyLength::Known(0));
        let ends = !self.is_tunnel && (is_empty || exchange.request.method == Method::Head);
        // The last byte ends the stream, so that no frame of its own has to, unless trailers may follow it.
        self.left_bytes = match length {
            BodyLength::Known(bytes)
                if !exchange.is_native_call() && !exchange.response.headers.contains("trailer") =>
            {
                Some(bytes)
            }
            _ => None,
        };
        let date = exchange.local().http_date();
        let mut engine = self.link.engine();
        let before = engine.output_bytes();
        if let Some(writer) = engine.start_response(self.key, status) {
            encode::write_h2_response_head(exchange, length, &date, ends, writer);
            self.is_ended = ends;
        }
        self.sent_bytes += (engine.output_bytes() - before) as u64;
    }

    fn poll_capacity(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<Capacity>> {
        if let Some(error) = self.gone() {
            return Poll::Ready(Err(error));
        }
        // Without capacity the stream waits in the engine, which tells the connection's task when it has
        // some.
        match self.link.engine().capacity(self.key) {
            0 => Poll::Pending,
            bytes => Poll::Ready(Ok(Capacity::Firm(bytes))),
        }
    }

    fn poll_write(&mut self, _cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(error) = self.gone() {
            return Poll::Ready(Err(error));
        }
        let is_last = self.is_last(data.len());
        let mut engine = self.link.engine();
        let before = engine.output_bytes();
        let count = engine.write_data(self.key, data, is_last);
        self.sent_bytes += (engine.output_bytes() - before) as u64;
        if count == 0 {
            return Poll::Pending;
        }
        drop(engine);
        self.note_written(count, is_last && count == data.len());
        Poll::Ready(Ok(count))
    }

    fn takes_segment(&mut self, count: usize) -> bool {
        self.gone().is_none() && self.link.engine().capacity(self.key) >= count
    }

    fn write_segment(&mut self, _cx: &mut Context<'_>, segment: ByteSegment) -> io::Result<()> {
        let count = segment.len();
        let is_last = self.is_last(count);
        let mut engine = self.link.engine();
        let before = engine.output_bytes();
        // Only a stream that was reset takes none of it here.
        engine.write_segment(self.key, segment, is_last).map_err(|_| io::ErrorKind::ConnectionReset)?;
        self.sent_bytes += (engine.output_bytes() - before) as u64;
        drop(engine);
        self.note_written(count, is_last);
        Ok(())
    }

    fn finish(&mut self, trailers: Option<&Headers>) {
        if self.is_ended || self.is_tunnel {
            return;
        }
        let mut engine = self.link.engine();
        let is_reset = matches!(engine.body_state(self.key), BodyState::Reset(_));
        let before = engine.output_bytes();
        engine.finish(self.key, trailers);
        self.sent_bytes += (engine.output_bytes() - before) as u64;
        self.is_ended = !is_reset;
    }

    /// The connection's task writes the output of all streams once they had their turn.
    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.gone() {
            Some(error) => Poll::Ready(Err(error)),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_closed(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        if self.gone().is_some() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn abort(&mut self, blame: Blame) {
        self.aborted = Some(blame);
    }

    fn progress(&self) -> ResponseProgress {
        ResponseProgress { has_started: self.head_sent, sent_bytes: self.sent_bytes }
    }

    fn head_capacity(&self) -> Capacity {
        let window = self.link.engine().window(self.key);
        if window >= ROOMY_WINDOW_BYTES { Capacity::WHOLE } else { Capacity::Estimate(SMALL_BYTES) }
    }

    fn is_gone(&self) -> bool {
        self.gone().is_some()
    }

    fn can_switch_protocols(&mut self, _cx: &mut Context<'_>) -> bool {
        self.is_connect
    }

    fn must_switch_protocols(&self) -> bool {
        self.is_connect
    }
}

/// The failure of an exchange after a reset of its stream.
#[cold]
fn failure_of(reset: Reset) -> ExchangeFailure {
    let cause = if reset.by == ResetBy::Fault { Cause::BadRequest } else { Cause::ClientGone };
    ExchangeFailure::new(cause, reset_text(reset))
}
