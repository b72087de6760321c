//! The node's side of an HTTP/1 exchange: one connection to a node and the stream a pool lends of it. It writes the
//! request's head, reads the response's, and knows when the connection may serve again. Which fields a request carries
//! is decided in `forward`; nothing here retries or times anything.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http1::{HeadLimits, HeadStatus, Headers, ResponseFraming, ResponseHead, parse_response};
use stdx::buffer::{Buffer, SMALL_BYTES};
use stdx::pooled::PooledBox;

use super::reader::{BodyReader, Next};
use super::tunnel::OriginTunnel;
use super::writer::{Framing, Writer};
use crate::body::{BodyEvent, BodyLength, ClientStream, PollRoom};
use crate::env::Stream;
use crate::exchange::Exchange;
use crate::failure::{Cause, Failure, Sent};
use crate::forward;
use crate::upstream::Endpoint;

/// A connection to a node, between exchanges.
#[derive(Debug)]
pub(crate) struct OriginConnection {
    pub(crate) stream: Stream,
    pub(crate) endpoint: Arc<Endpoint>,
    /// Requests it has served.
    pub(crate) served: u32,
    /// When it became idle, in milliseconds of the worker's clock.
    pub(crate) idle_since_ms: u64,
}

impl OriginConnection {
    /// Whether the node has closed it, or sent bytes that belong to no answer; costs no system call.
    #[inline]
    pub(crate) fn is_stale(&mut self) -> bool {
        if !self.stream.is_readable() {
            return false;
        }
        // Readiness may be left over from a read that filled its buffer exactly: look.
        let mut cx = Context::from_waker(std::task::Waker::noop());
        self.stream.poll_peek(&mut cx).is_ready()
    }
}

/// One exchange on a connection to a node.
pub(crate) struct OriginStream {
    connection: OriginConnection,
    buffer: Buffer,
    writer: Writer,
    reader: BodyReader,
    limits: HeadLimits,
    request_is_head: bool,
    answered: bool,
    may_serve_again: bool,
    length: BodyLength,
}

impl OriginStream {
    /// Begins an exchange on `connection`, writing through `buffer`.
    pub(crate) fn new(connection: OriginConnection, buffer: Vec<u8>, limits: HeadLimits) -> OriginStream {
        OriginStream {
            connection,
            buffer: Buffer::none(),
            writer: Writer::new(buffer),
            reader: BodyReader::Done,
            limits,
            request_is_head: false,
            answered: false,
            may_serve_again: false,
            length: BodyLength::None,
        }
    }

    /// Ends the exchange: the connection if it may serve again, and the write buffer for reuse.
    pub(crate) fn end(self, complete: bool) -> (Option<OriginConnection>, Vec<u8>) {
        let OriginStream { mut connection, buffer, writer, reader, may_serve_again, .. } = self;
        // Bytes behind the answer belong to nobody: whoever came next would take them for theirs.
        let clean = complete
            && reader.is_done()
            && may_serve_again
            && buffer.filled().is_empty()
            && writer.is_flushed()
            && !writer.is_short();
        connection.served = connection.served.saturating_add(1);
        let limit = connection.endpoint.keep_alive.requests;
        let spent = limit != 0 && connection.served >= limit;
        ((clean && !spent).then_some(connection), writer.into_buffer())
    }

    /// The raw connection and what was already read of it, for a tunnel, and the write buffer for reuse.
    pub(crate) fn into_tunnel(self) -> (OriginTunnel, Vec<u8>) {
        let tunnel = OriginTunnel { stream: self.connection.stream, buffer: self.buffer };
        (tunnel, self.writer.into_buffer())
    }

    fn begin_body(&mut self, head: &ResponseHead) {
        (self.reader, self.length) = match head.framing {
            ResponseFraming::None => (BodyReader::Done, BodyLength::None),
            ResponseFraming::Length(bytes) => (BodyReader::Length(bytes), BodyLength::Known(bytes)),
            ResponseFraming::Chunked => {
                (BodyReader::Chunked(PooledBox::new(http1::chunked::Decoder::default())), BodyLength::Unknown)
            }
            ResponseFraming::UntilClose => (BodyReader::UntilClose, BodyLength::Unknown),
        };
        self.may_serve_again = head.keep_alive && !self.reader.ends_by_close();
    }

    /// Reads on into the buffer. While nothing comes there is none: who waits, for a slow client's body or for the next
    /// event of a stream, holds no memory for it. `likely` says that something has most likely arrived, `most_bytes` how
    /// much to read of it.
    #[inline]
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        likely: bool,
        most_bytes: usize,
    ) -> Poll<io::Result<usize>> {
        let stream = &mut self.connection.stream;
        if self.buffer.capacity() == 0 {
            // Asked first: the usual first look, right behind the request, finds nothing.
            if !(likely && stream.is_readable()) {
                ready!(stream.poll_read_ready(cx))?;
            }
            self.buffer = if most_bytes > SMALL_BYTES { Buffer::large() } else { Buffer::small() };
        }
        let room = self.buffer.spare_mut();
        let most = room.len().min(most_bytes);
        let room = &mut room[..most];
        let read = if likely { stream.poll_read_at_once(cx, room) } else { stream.poll_read(cx, room) };
        match read {
            Poll::Ready(Ok(count)) => self.buffer.advance(count),
            Poll::Pending if self.buffer.is_empty() => self.buffer = Buffer::none(),
            _ => {}
        }
        read
    }

    fn failure(&self, cause: Cause, detail: impl Into<std::borrow::Cow<'static, str>>) -> Failure {
        Failure::new(cause, detail).at(self.connection.endpoint.address)
    }
}

impl ClientStream for OriginStream {
    fn start_request(&mut self, exchange: &Exchange, length: BodyLength) {
        self.request_is_head = exchange.request.method == http1::Method::Head;
        forward::encode_request(exchange, length, self.writer.head());
        self.writer.begin_body(match length {
            BodyLength::None => Framing::Empty,
            BodyLength::Known(bytes) => Framing::Length(bytes),
            BodyLength::Unknown => Framing::Chunked,
        });
    }

    fn poll_data(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.writer.poll_data(cx, &mut self.connection.stream, data)
    }

    fn finish(&mut self, trailers: Option<&Headers>) {
        self.writer.finish(trailers);
    }

    #[inline]
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer.poll_flush(cx, &mut self.connection.stream)
    }

    fn poll_head(&mut self, cx: &mut Context<'_>, head: &mut ResponseHead) -> Poll<Result<(), Failure>> {
        loop {
            if !self.buffer.filled().is_empty() {
                match parse_response(self.buffer.filled(), head, &self.limits, self.request_is_head) {
                    Ok(HeadStatus::Complete { head_bytes }) => {
                        self.buffer.consume(head_bytes);
                        self.begin_body(head);
                        return Poll::Ready(Ok(()));
                    }
                    Ok(HeadStatus::Partial) => {
                        // What interim responses left in front is room as well.
                        if self.buffer.spare_mut().is_empty() {
                            self.buffer.compact();
                        }
                        if self.buffer.is_full() {
                            self.buffer.grow_to(self.limits.max_head_bytes);
                        }
                    }
                    Err(error) => return Poll::Ready(Err(self.failure(Cause::BadResponse, error.reason()))),
                }
            }
            match ready!(self.poll_fill(cx, true, usize::MAX)) {
                Ok(0) => {
                    let detail = if self.answered {
                        "it closed inside the response head"
                    } else {
                        "it closed without a response"
                    };
                    return Poll::Ready(Err(self.failure(Cause::NoResponse, detail)));
                }
                Ok(_) => self.answered = true,
                Err(error) => return Poll::Ready(Err(self.failure(Cause::NoResponse, error.to_string()))),
            }
        }
    }

    fn poll_body<'a>(&'a mut self, cx: &mut Context<'_>, room: &mut PollRoom<'_>) -> Poll<BodyEvent<'a>> {
        loop {
            match self.reader.next(&mut self.buffer) {
                Ok(Next::Data(count)) => return Poll::Ready(BodyEvent::Data(&self.buffer.filled()[..count])),
                Ok(Next::End) => return Poll::Ready(BodyEvent::End(self.reader.trailers())),
                Ok(Next::More) => {}
                Err(error) => {
                    return Poll::Ready(BodyEvent::Reset(self.failure(Cause::BodyCut, error.reason())));
                }
            }
            let most_bytes = match room(cx) {
                Poll::Ready(Ok(bytes)) => bytes,
                Poll::Ready(Err(failure)) => return Poll::Ready(BodyEvent::Reset(failure)),
                Poll::Pending => {
                    debug_assert!(self.buffer.is_empty(), "body bytes were passed over");
                    self.buffer = Buffer::none();
                    return Poll::Pending;
                }
            };
            match ready!(self.poll_fill(cx, false, most_bytes)) {
                Ok(0) if self.reader.ends_by_close() => self.reader = BodyReader::Done,
                Ok(0) => {
                    return Poll::Ready(BodyEvent::Reset(
                        self.failure(Cause::BodyCut, "it closed inside the body"),
                    ));
                }
                Ok(_) => {}
                Err(error) => {
                    return Poll::Ready(BodyEvent::Reset(self.failure(Cause::BodyCut, error.to_string())));
                }
            }
        }
    }

    fn consume(&mut self, count: usize) {
        self.reader.took(count, &mut self.buffer);
    }

    fn body_length(&self) -> BodyLength {
        self.length
    }

    fn sent(&self) -> Sent {
        match (self.answered, self.writer.sent_bytes()) {
            (true, _) => Sent::Answered,
            (false, 0) => Sent::Nothing,
            (false, _) => Sent::Unanswered,
        }
    }

    fn reused(&self) -> bool {
        self.connection.served > 0
    }
}
