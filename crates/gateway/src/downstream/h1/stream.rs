//! The client's side of one HTTP/1 exchange: the request body is read through here and the response written.
//! It decides whether the connection can serve again; it decides nothing about routes or nodes.

use std::io;
use std::task::{Context, Poll, ready};

use http1::{RequestFraming, RequestWire};
use message::{Headers, ResponseHead, Version};
use stdx::buffer::{Buffer, LARGE_BYTES};
use stdx::pooled::PooledBox;
use stdx::segment::ByteSegment;

use super::connection::H1Connection;
use super::send_capacity::{KeptSendCapacity, SendCapacity};
use crate::body::{
    BodyEvent, BodyLength, Capacity, INTERIM_WAITING_MAX_BYTES, RequestBody, ResponseProgress, ResponseSink,
};
use crate::h1::encode;
use crate::h1::reader::{BodyReadStep, BodyReader};
use crate::h1::writer::{Framing, H1Writer};
use crate::tunnel::Duplex;
use exchange::Exchange;
use exchange::failure::{Blame, Cause, ExchangeFailure};
use net::env::PeerEnd;
use net::transport::Transport;

/// Offset from which a body is read in larger pieces than heads: the size of the prefix for which an endpoint
/// is selected. Before that point an upstream connection may still have to be opened, and the bytes read wait
/// in memory for it.
const LARGE_FROM_BYTES: u64 = 2_048;

/// The state of the connection after an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// It may carry another request.
    KeepAlive,
    /// Nothing was exchanged: a part of a head has come, and the rest is waited for.
    HeadPartial,
    /// It turned out to speak HTTP/2: the bytes that have come are its preface.
    Http2,
    /// The connection ends in order: everything was sent, the peer may still be sending.
    Close,
    /// As [`After::Close`], while a part of the request is still to come: it is read and dropped for longer.
    CloseUnread,
    /// The connection is closed without lingering: nothing is in flight in either direction.
    Over,
    /// The connection ends with a reset, so that the peer can tell that the response is cut.
    Abort,
}

/// The downstream side of one HTTP/1 exchange.
pub(crate) struct DownstreamH1Stream<'c> {
    connection: &'c mut H1Connection,
    reader: BodyReader,
    length: BodyLength,
    /// Offset of the next unread byte of a body that lies whole in the buffer; such a body can be sent again.
    cursor: Option<usize>,
    /// Bytes taken of a body that arrives in pieces; such a body cannot be sent again.
    taken_bytes: u64,
    /// The response's body has no other end than the close of the connection.
    ends_by_close: bool,
    /// The client waits for 100 (Continue) before it sends its body.
    continue_due: bool,
    writer: H1Writer,
    room: SendCapacity,
    version: Version,
    keep_alive: bool,
    head_sent: bool,
    /// Where the head of the response begins in all that is sent.
    head_offset: u64,
    /// The request gets no response.
    is_unanswered: bool,
    /// The side at fault, if the response was cut.
    aborted: Option<Blame>,
    /// The end of this request is uncertain, or the client may still be sending it.
    lost_track: bool,
    half_closed: bool,
    /// The client has said that this is its last request.
    is_last: bool,
}

impl<'c> DownstreamH1Stream<'c> {
    /// For the request with the head that was just read from `connection`.
    pub(crate) fn new(
        connection: &'c mut H1Connection,
        exchange: &Exchange,
        wire: RequestWire,
        keep_alive: bool,
    ) -> Self {
        let (reader, length) = match wire.framing {
            RequestFraming::None => (BodyReader::Done, BodyLength::None),
            RequestFraming::Length(0) => (BodyReader::Done, BodyLength::Known(0)),
            RequestFraming::Length(bytes) => (BodyReader::Length(bytes), BodyLength::Known(bytes)),
            RequestFraming::Chunked => {
                (BodyReader::Chunked(PooledBox::new(http1::chunked::Decoder::default())), BodyLength::Unknown)
            }
        };
        let held = connection.input.as_ref().map_or(0, |input| input.filled().len()) as u64;
        let whole = matches!(reader, BodyReader::Length(bytes) if bytes <= held);
        let room = connection.room.begin();
        let mut downstream = DownstreamH1Stream {
            connection,
            reader,
            length,
            cursor: whole.then_some(0),
            taken_bytes: 0,
            ends_by_close: false,
            // A client of HTTP/1.0 must not be sent an interim response (RFC 9110 section 15.2).
            continue_due: wire.expect_continue,
            writer: H1Writer::default(),
            room,
            version: exchange.request.version,
            keep_alive,
            head_sent: false,
            head_offset: 0,
            is_unanswered: false,
            aborted: None,
            lost_track: false,
            half_closed: false,
            is_last: !wire.keep_alive,
        };
        // A client that waits for its response holds no input buffer beyond the bytes that it has sent.
        downstream.rest_input();
        downstream
    }

    /// Ends the exchange: what becomes of the connection, and the write buffer for reuse.
    pub(crate) fn end(mut self) -> (After, Vec<u8>) {
        if self.ends_by_close && self.aborted.is_none() {
            self.connection.stream.end_on_close();
        }
        self.connection.room = KeptSendCapacity::after(self.room, self.writer.sent_bytes());
        let after = match self.aborted {
            _ if self.is_unanswered => After::Over,
            Some(blame) => self.end_cut(blame),
            None => self.end_in_order(),
        };
        (after, self.writer.into_buffer())
    }

    /// The end of a response that was cut. A reset shows the cut at once, but also destroys responses to
    /// earlier requests that are still on their way. If there may be such a response, and the framing shows
    /// the cut as well, the connection ends in order; but not for a client that is to blame, because it might
    /// never read.
    fn end_cut(&self, blame: Blame) -> After {
        let earlier = || self.connection.stream.unacknowledged_bytes() > self.writer.sent_bytes();
        let is_shown = self.head_sent && !self.ends_by_close;
        if blame == Blame::Upstream && is_shown && earlier() { After::Close } else { After::Abort }
    }

    fn end_in_order(&mut self) -> After {
        let is_read = self.skip_body();
        let has_more = self.connection.has_input();
        // Requests that were sent ahead of a half-close are answered like all others.
        match (is_read, self.keep_alive && (has_more || !self.half_closed)) {
            (true, true) => After::KeepAlive,
            // A client that has said that it sends no more has nothing in flight that a close could reset,
            // unless it did send more (docs/decisions/0024-last-requests.md). A client that has not said so
            // may have sent its next request, and a close with that request unread would destroy this
            // response.
            (true, false) if !has_more && !self.lost_track && self.sends_no_more() => After::Over,
            (true, false) => After::Close,
            (false, _) => After::CloseUnread,
        }
    }

    /// Whether the client has said that it sends no more, and the event loop has reported nothing to the
    /// contrary.
    fn sends_no_more(&self) -> bool {
        self.half_closed || (self.is_last && !self.connection.stream.is_readable())
    }

    /// The bare connection, for a tunnel, and the write buffer.
    pub(crate) fn into_duplex(self) -> (Duplex<&'c mut Transport>, Vec<u8>) {
        let H1Connection { stream, input, .. } = self.connection;
        let buffer = input.take().unwrap_or_else(Buffer::none);
        (Duplex { stream, buffer }, self.writer.into_buffer())
    }

    /// Steps over what is left of the request body if it has already arrived; false if some is still to come.
    fn skip_body(&mut self) -> bool {
        if let (Some(_), BodyReader::Length(bytes)) = (self.cursor.take(), &self.reader) {
            let bytes = usize::try_from(*bytes).unwrap_or(usize::MAX);
            if let Some(input) = &mut self.connection.input {
                input.consume(bytes);
            }
            self.reader = BodyReader::Done;
        }
        let Some(input) = self.connection.input.as_mut() else {
            return self.reader.is_done();
        };
        loop {
            match self.reader.next(input) {
                Ok(BodyReadStep::Data(count)) => self.reader.took(count, input),
                Ok(BodyReadStep::End) => return true,
                Ok(BodyReadStep::More) | Err(_) => return false,
            }
        }
    }

    /// Frees the memory that is not needed while the client reads nothing.
    fn release(&mut self) {
        self.writer.release();
        self.rest_input();
    }

    /// Frees the input buffer except for bytes that the client has already sent.
    fn rest_input(&mut self) {
        if let Some(input) = &mut self.connection.input {
            input.shrink();
        }
        self.connection.input.take_if(|input| input.capacity() == 0);
    }

    /// Whether bytes after this request have been read.
    fn holds_more(&self) -> bool {
        let held_bytes = self.connection.input.as_ref().map_or(0, Buffer::len) as u64;
        match (self.cursor, &self.reader) {
            (Some(_), BodyReader::Length(bytes)) => held_bytes > *bytes,
            (_, reader) => reader.is_done() && held_bytes > 0,
        }
    }

    /// Whether the whole request body has arrived, so that the connection can go on even if no reader takes
    /// it.
    fn body_has_arrived(&self) -> bool {
        self.cursor.is_some() || self.reader.is_done()
    }
}

impl RequestBody for DownstreamH1Stream<'_> {
    fn poll_body<'a>(&'a mut self, cx: &mut Context<'_>) -> Poll<BodyEvent<'a>> {
        if let (Some(cursor), BodyReader::Length(bytes)) = (self.cursor, &self.reader) {
            let bytes = usize::try_from(*bytes).expect("a body that lies in the buffer is no longer than it");
            let input = self.connection.input.as_ref().map_or(&[][..], Buffer::filled);
            return Poll::Ready(if cursor < bytes {
                BodyEvent::Data(&input[cursor..bytes])
            } else {
                BodyEvent::End(None)
            });
        }
        loop {
            let input = self.connection.input.get_or_insert_with(Buffer::small);
            match self.reader.next(input) {
                Ok(BodyReadStep::Data(count)) => {
                    if self.taken_bytes == 0
                        && matches!(self.reader, BodyReader::Length(bytes) if bytes == count as u64)
                    {
                        self.cursor = Some(0);
                    }
                    let input = self.connection.input.as_ref().map_or(&[][..], Buffer::filled);
                    return Poll::Ready(BodyEvent::Data(&input[..count]));
                }
                Ok(BodyReadStep::End) => {
                    // The same holds for bytes after its body.
                    self.rest_input();
                    return Poll::Ready(BodyEvent::End(self.reader.trailers()));
                }
                Ok(BodyReadStep::More) => {}
                Err(error) => {
                    self.keep_alive = false;
                    return Poll::Ready(BodyEvent::Reset(ExchangeFailure::new(
                        Cause::BadRequest,
                        error.reason(),
                    )));
                }
            }
            if self.continue_due {
                self.continue_due = false;
                if !self.head_sent {
                    self.writer.head().extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                }
            }
            if !self.head_sent
                && !self.writer.is_flushed()
                && let Err(error) = ready!(self.writer.poll_flush(cx, &mut self.connection.stream))
            {
                return Poll::Ready(BodyEvent::Reset(gone(&error)));
            }
            debug_assert!(input.is_empty(), "what is there is body, or was framing");
            if self.taken_bytes >= LARGE_FROM_BYTES {
                input.grow_to(LARGE_BYTES);
            }
            let read = self.connection.stream.poll_read(cx, input.spare_mut());
            if read.is_pending() && input.is_empty() {
                // A client that sends slowly holds no buffer between two pieces of its body.
                self.connection.input = None;
                return Poll::Pending;
            }
            match ready!(read) {
                Ok(0) => {
                    self.half_closed = true;
                    let failure =
                        ExchangeFailure::new(Cause::ClientGone, "it closed inside the request body");
                    return Poll::Ready(BodyEvent::Reset(failure));
                }
                Ok(count) => input.advance(count),
                Err(error) => return Poll::Ready(BodyEvent::Reset(gone(&error))),
            }
        }
    }

    fn consume(&mut self, count: usize) {
        match &mut self.cursor {
            Some(cursor) => *cursor += count,
            None => {
                self.taken_bytes += count as u64;
                let input = self.connection.input.as_mut().expect("data was checkout from it");
                self.reader.took(count, input);
            }
        }
    }

    fn body_length(&self) -> BodyLength {
        self.length
    }

    fn rewind(&mut self) -> bool {
        match &mut self.cursor {
            Some(cursor) => {
                *cursor = 0;
                true
            }
            None => self.taken_bytes == 0,
        }
    }

    fn take_segment(&mut self, count: usize) -> Option<ByteSegment> {
        let input = self.connection.input.as_mut().filter(|_| self.cursor.is_none())?;
        let segment = input.take_whole(count)?;
        self.taken_bytes += count as u64;
        self.reader.passed(count);
        Some(segment.into())
    }
}

impl ResponseSink for DownstreamH1Stream<'_> {
    fn send_informational(&mut self, head: &ResponseHead) {
        // RFC 9110 section 15.2: a client of HTTP/1.0 knows no interim responses.
        let is_behind = self.writer.waiting_bytes() > INTERIM_WAITING_MAX_BYTES;
        if self.version == Version::Http11 && !self.head_sent && !is_behind {
            let out = self.writer.head();
            http1::encode::status_line(out, head.status, head.reason_text());
            http1::encode::fields(out, &head.headers);
            out.extend_from_slice(b"\r\n");
        }
    }

    fn start_response(&mut self, exchange: &Exchange, length: BodyLength) {
        debug_assert!(!self.head_sent, "one response per request");
        self.head_sent = true;
        // Not when the request comes: a buffer that waits with it has left the caches when it is needed.
        self.writer.take_buffer(|| exchange.local().take_bytes());
        self.head_offset = self.writer.end_offset();
        let head_only = exchange.request.method == message::Method::Head;
        let framing = match length {
            _ if head_only => Framing::Empty,
            BodyLength::None => Framing::Empty,
            BodyLength::Known(bytes) => Framing::Length(bytes),
            BodyLength::Unknown if self.version == Version::Http11 => Framing::Chunked,
            BodyLength::Unknown => Framing::UntilClose,
        };
        // A client that still waits for 100 may or may not send its body after a final response, so that the
        // next request cannot be found.
        let body_lost = self.continue_due && !self.body_has_arrived();
        let local = exchange.local();
        let ends = local.shared.memory.sheds_idle() || self.connection.is_closing(local.now_ms());
        let unread = exchange.stats.answered_locally && !self.body_has_arrived();
        if framing == Framing::UntilClose || body_lost || unread || ends {
            self.keep_alive = false;
        }
        if framing == Framing::UntilClose {
            // If a stop or a panic drops this task before the response is whole, the connection must not look
            // like the end of the body.
            self.ends_by_close = true;
            self.connection.stream.reset_on_close();
        }
        let date = exchange.local().http_date();
        encode::write_h1_response_head(exchange, length, self.keep_alive, &date, self.writer.head());
        self.writer.begin_body(framing);
    }

    #[inline]
    fn poll_capacity(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Capacity>> {
        if let Some(piece) = self.room.known(self.writer.sent_bytes()) {
            return Poll::Ready(Ok(piece));
        }
        // Waiting bytes are written first, because a socket that the kernel reports as full may still take
        // that little.
        ready!(self.poll_flush(cx))?;
        let piece = self.room.poll_ask(cx, &mut self.connection.stream, self.writer.sent_bytes());
        if piece.is_pending() {
            self.release();
        }
        piece
    }

    #[inline]
    fn head_capacity(&self) -> Capacity {
        self.room.for_head(self.writer.sent_bytes())
    }

    #[inline]
    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let taken = self.writer.poll_data(cx, &mut self.connection.stream, data);
        if taken.is_pending() {
            self.room.refused();
            self.release();
        }
        taken
    }

    fn finish(&mut self, trailers: Option<&Headers>) {
        self.writer.finish(trailers);
    }

    #[inline]
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.writer.poll_flush(cx, &mut self.connection.stream);
        if flushed.is_pending() {
            self.release();
        }
        flushed
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // The end cannot be seen behind pipelined bytes in the kernel, and does not count as leaving once
        // they are read.
        if self.half_closed || self.holds_more() {
            return Poll::Pending;
        }
        // Readable means a pipelined request, a body that is not wanted yet, or the end: only a peek tells
        // which.
        match self.connection.stream.poll_read_ready(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(_) => match self.connection.stream.poll_peek(cx, &mut [0]) {
                Poll::Ready(Ok(0)) => {
                    self.half_closed = true;
                    Poll::Ready(())
                }
                Poll::Ready(Err(_)) => Poll::Ready(()),
                Poll::Ready(Ok(_)) | Poll::Pending => Poll::Pending,
            },
        }
    }

    fn has_closed_after_request(&mut self) -> bool {
        if self.half_closed || !self.connection.stream.is_readable() {
            return false;
        }
        match self.connection.stream.peer_end() {
            PeerEnd::Open => false,
            // Behind a whole request are further ones, which are answered
            // (docs/decisions/0007-half-closed-clients.md).
            PeerEnd::Closed => !self.body_has_arrived(),
            PeerEnd::Reset => true,
        }
    }

    fn can_switch_protocols(&mut self, cx: &mut Context<'_>) -> bool {
        let is_held = self.connection.input.as_ref().is_some_and(|input| !input.filled().is_empty());
        !is_held && !matches!(self.connection.stream.poll_peek(cx, &mut [0]), Poll::Ready(Ok(1..)))
    }

    fn take_back_response(&mut self) -> bool {
        if !self.head_sent || !self.writer.take_back(self.head_offset) {
            return false;
        }
        self.head_sent = false;
        if std::mem::take(&mut self.ends_by_close) {
            self.connection.stream.end_on_close();
        }
        true
    }

    fn leave_unanswered(&mut self) {
        self.is_unanswered = true;
    }

    fn close_afterwards(&mut self) {
        self.keep_alive = false;
        self.lost_track = true;
    }

    fn abort(&mut self, blame: Blame) {
        self.aborted = Some(blame);
    }

    fn progress(&self) -> ResponseProgress {
        ResponseProgress { has_started: self.head_sent, sent_bytes: self.writer.sent_bytes() }
    }

    fn delivered_bytes(&self) -> u64 {
        self.writer.sent_bytes().saturating_sub(self.connection.stream.unacknowledged_bytes())
    }
}

fn gone(error: &io::Error) -> ExchangeFailure {
    ExchangeFailure::new(Cause::ClientGone, error.to_string())
}
