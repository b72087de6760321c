//! The upstream side of an HTTP/1 exchange: one connection to an endpoint and the stream that a pool checks
//! out of it. It writes the request's head, reads the response's, and decides whether the connection may
//! serve again. `forward` decides which fields a request carries; nothing here retries or times anything.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http1::{HeadStatus, ResponseFraming, ResponseWire, parse_upstream_response};
use message::{HeadLimits, Headers, ResponseHead};
use stdx::buffer::Buffer;
use stdx::pooled::PooledBox;
use stdx::segment::ByteSegment;

use super::counted::CountedTransport;
use crate::body::{AttemptProgress, BodyEvent, BodyLength, Capacity, PollCapacity, UpstreamStream};
use crate::h1::encode;
use crate::h1::peek_reader::PeekReader;
use crate::h1::reader::{BodyReadStep, BodyReader};
use crate::h1::writer::{Framing, H1Writer};
use crate::tunnel::Duplex;
use exchange::failure::{Cause, ExchangeFailure, Sent};
use exchange::{Exchange, WorkerLocal};
use net::endpoint::Endpoint;
use net::tls::failure;

/// A connection to an endpoint, between exchanges.
#[derive(Debug)]
pub(crate) struct UpstreamConnection {
    pub(crate) stream: CountedTransport,
    pub(crate) endpoint: Arc<Endpoint>,
    /// The server name that TLS was opened with: it serves requests for this name only.
    pub(crate) server_name: Option<Box<str>>,
    /// Requests it has served.
    pub(crate) served: u32,
    /// When it became idle, in milliseconds of the worker's clock.
    pub(crate) idle_since_ms: u64,
}

impl UpstreamConnection {
    /// A connection that was just opened.
    pub(crate) fn new(
        stream: impl Into<CountedTransport>,
        endpoint: Arc<Endpoint>,
        server_name: Option<Box<str>>,
    ) -> UpstreamConnection {
        UpstreamConnection { stream: stream.into(), endpoint, server_name, served: 0, idle_since_ms: 0 }
    }

    /// Whether it may serve a request for that server name; none is a request without TLS.
    #[inline]
    pub(crate) fn is_for(&self, server_name: Option<&str>) -> bool {
        match (&self.server_name, server_name) {
            (None, None) => true,
            (Some(own), Some(wanted)) => own.eq_ignore_ascii_case(wanted),
            _ => false,
        }
    }

    /// Whether the endpoint has closed it, or sent bytes that belong to no response; costs no system call.
    #[inline]
    pub(crate) fn is_stale(&mut self) -> bool {
        if !self.stream.is_readable() {
            return false;
        }
        // The readiness may be left over from a read that filled its buffer exactly, so a peek decides.
        let mut cx = Context::from_waker(std::task::Waker::noop());
        self.stream.poll_peek_at_once(&mut cx, &mut [0]).is_ready()
    }
}

/// One exchange on a connection to an endpoint.
pub(crate) struct UpstreamH1Stream {
    connection: UpstreamConnection,
    input: PeekReader,
    writer: H1Writer,
    /// Where the writer's buffer is from, while it has one.
    buffers: Option<Rc<WorkerLocal>>,
    reader: BodyReader,
    limits: HeadLimits,
    wire: ResponseWire,
    request_is_head: bool,
    answered: bool,
    may_serve_again: bool,
    length: BodyLength,
}

impl UpstreamH1Stream {
    /// Begins an exchange on `connection`.
    pub(crate) fn new(connection: UpstreamConnection, limits: HeadLimits) -> UpstreamH1Stream {
        UpstreamH1Stream {
            connection,
            input: PeekReader::new(Buffer::none()),
            writer: H1Writer::default(),
            buffers: None,
            reader: BodyReader::Done,
            limits,
            wire: ResponseWire::default(),
            request_is_head: false,
            answered: false,
            may_serve_again: false,
            length: BodyLength::None,
        }
    }

    /// Ends the exchange: the connection if it may serve again, and the write buffer for reuse.
    pub(crate) fn end(mut self, complete: bool) -> (Option<UpstreamConnection>, Vec<u8>) {
        let is_whole = self.input.buffer.is_empty();
        let is_settled = self.commit().is_ok();
        let UpstreamH1Stream { mut connection, writer, reader, may_serve_again, .. } = self;
        // Bytes behind the response would be read as the next response on this connection, so the connection
        // is closed.
        let clean = complete
            && reader.is_done()
            && !reader.is_ambiguous()
            && may_serve_again
            && is_whole
            && is_settled
            && writer.is_flushed()
            && !writer.is_short();
        connection.served = connection.served.saturating_add(1);
        let limit = connection.endpoint.keep_alive.requests;
        let spent = limit != 0 && connection.served >= limit;
        ((clean && !spent).then_some(connection), writer.into_buffer())
    }

    /// The bare connection with the bytes read behind the head, for a tunnel; and the write buffer for reuse.
    pub(crate) fn into_duplex(self) -> (Duplex<CountedTransport>, Vec<u8>) {
        let duplex = Duplex { stream: self.connection.stream, buffer: self.input.buffer };
        (duplex, self.writer.into_buffer())
    }

    fn begin_body(&mut self) {
        (self.reader, self.length) = match self.wire.framing {
            ResponseFraming::None => (BodyReader::Done, BodyLength::None),
            ResponseFraming::Length(bytes) => (BodyReader::Length(bytes), BodyLength::Known(bytes)),
            ResponseFraming::Chunked => {
                (BodyReader::Chunked(PooledBox::new(http1::chunked::Decoder::lenient())), BodyLength::Unknown)
            }
            ResponseFraming::UntilClose => (BodyReader::UntilClose, BodyLength::Unknown),
        };
        self.may_serve_again = self.wire.keep_alive && !self.reader.ends_by_close();
    }

    /// Takes the peeked bytes that were forwarded.
    #[inline]
    fn commit(&mut self) -> io::Result<()> {
        self.input.commit(&mut self.connection.stream)
    }

    /// Reads on, as much as `capacity` says.
    #[inline]
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        likely: bool,
        capacity: Capacity,
    ) -> Poll<io::Result<usize>> {
        self.commit()?;
        self.input.poll_fill(cx, &mut self.connection.stream, likely, capacity)
    }

    /// The failure of a connection that broke before the head of the response was complete.
    #[cold]
    fn unanswered(&self, error: &io::Error) -> ExchangeFailure {
        match failure::of_stream(error) {
            // In TLS 1.3 a server refuses the client's certificate after the client's handshake is complete.
            Some(detail) if !self.answered && self.connection.served == 0 => {
                self.failure(Cause::TlsFailed, detail)
            }
            Some(detail) => self.failure(Cause::NoResponse, detail),
            None if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.failure(Cause::NoResponse, "it closed without a response")
            }
            None => self.failure(Cause::NoResponse, error.to_string()),
        }
    }

    fn failure(&self, cause: Cause, detail: impl Into<std::borrow::Cow<'static, str>>) -> ExchangeFailure {
        ExchangeFailure::new(cause, detail).at(self.connection.endpoint.address)
    }
}

impl UpstreamStream for UpstreamH1Stream {
    fn start_request(&mut self, exchange: &Exchange, length: BodyLength) {
        self.request_is_head = exchange.request.method == message::Method::Head;
        self.writer.take_buffer(|| exchange.local().take_bytes());
        self.buffers = Some(exchange.local().clone());
        encode::write_h1_request_head(exchange, length, self.writer.head());
        self.writer.begin_body(match length {
            BodyLength::None => Framing::Empty,
            BodyLength::Known(bytes) => Framing::Length(bytes),
            BodyLength::Unknown => Framing::Chunked,
        });
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.writer.poll_data(cx, &mut self.connection.stream, data)
    }

    fn finish(&mut self, trailers: Option<&Headers>) {
        self.writer.finish(trailers);
    }

    #[inline]
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.writer.poll_flush(cx, &mut self.connection.stream);
        // After an error bytes are left in the buffer, which ends with the stream.
        if matches!(flushed, Poll::Ready(Ok(()))) {
            if !self.writer.is_ended() {
                // The client's next piece may take long, so a large buffer is released.
                self.writer.rest_if_large();
            } else if let Some(buffers) = self.buffers.take() {
                // The next request takes it while it is in the caches; after the wait for the response it
                // would not be.
                buffers.give_bytes(self.writer.give_buffer());
            }
        }
        flushed
    }

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut ResponseHead,
        capacity: Capacity,
    ) -> Poll<Result<(), ExchangeFailure>> {
        loop {
            if !self.input.buffer.filled().is_empty() {
                match parse_upstream_response(
                    self.input.buffer.filled(),
                    head,
                    &mut self.wire,
                    &self.limits,
                    self.request_is_head,
                ) {
                    Ok(HeadStatus::Complete { head_bytes }) => {
                        self.input.buffer.consume(head_bytes);
                        self.begin_body();
                        if head.status == 101 {
                            // The tunnel reads on from the end of the head.
                            self.pause()?;
                        }
                        return Poll::Ready(Ok(()));
                    }
                    Ok(HeadStatus::Partial) => {
                        // Another peek would find the same bytes.
                        let kept = self.input.retain(&mut self.connection.stream);
                        kept.map_err(|error| self.failure(Cause::NoResponse, error.to_string()))?;
                        // Bytes of interim responses in front of the head are free space as well.
                        if self.input.buffer.spare_mut().is_empty() {
                            self.input.buffer.compact();
                        }
                        if self.input.buffer.is_full() {
                            self.input.buffer.grow_to(self.limits.max_head_bytes);
                        }
                    }
                    Err(error) => return Poll::Ready(Err(self.failure(Cause::BadResponse, error.reason()))),
                }
            }
            match ready!(self.poll_fill(cx, true, capacity)) {
                Ok(0) => {
                    let detail = if self.answered {
                        "it closed inside the response head"
                    } else {
                        "it closed without a response"
                    };
                    return Poll::Ready(Err(self.failure(Cause::NoResponse, detail)));
                }
                Ok(_) => self.answered = true,
                Err(error) => return Poll::Ready(Err(self.unanswered(&error))),
            }
        }
    }

    fn fault_in_head(&mut self, head: &mut ResponseHead) -> Option<ExchangeFailure> {
        head.clear();
        let (input, mut wire) = (self.input.buffer.filled(), ResponseWire::default());
        let read = parse_upstream_response(input, head, &mut wire, &self.limits, self.request_is_head);
        let error = read.err()?;
        Some(self.failure(Cause::BadResponse, error.reason()))
    }

    fn fault_at_body_start(&mut self) -> Option<ExchangeFailure> {
        let error = self.reader.next(&mut self.input.buffer).err()?;
        Some(self.failure(Cause::BodyCut, error.reason()))
    }

    fn poll_body<'a>(
        &'a mut self,
        cx: &mut Context<'_>,
        capacity: &mut PollCapacity<'_>,
    ) -> Poll<BodyEvent<'a>> {
        loop {
            match self.reader.next(&mut self.input.buffer) {
                Ok(BodyReadStep::Data(count)) => {
                    return Poll::Ready(BodyEvent::Data(&self.input.buffer.filled()[..count]));
                }
                Ok(BodyReadStep::End) => return Poll::Ready(BodyEvent::End(self.reader.trailers())),
                Ok(BodyReadStep::More) => {}
                Err(error) => {
                    return Poll::Ready(BodyEvent::Reset(self.failure(Cause::BodyCut, error.reason())));
                }
            }
            debug_assert!(self.input.buffer.is_empty(), "body bytes were passed over");
            let capacity = match capacity(cx) {
                Poll::Ready(Ok(capacity)) => capacity,
                Poll::Ready(Err(failure)) => return Poll::Ready(BodyEvent::Reset(failure)),
                Poll::Pending => {
                    return match self.pause() {
                        Ok(()) => Poll::Pending,
                        Err(failure) => Poll::Ready(BodyEvent::Reset(failure)),
                    };
                }
            };
            match ready!(self.poll_fill(cx, false, capacity)) {
                Ok(0) if self.reader.ends_by_close() => self.reader = BodyReader::Done,
                Ok(0) => {
                    return Poll::Ready(BodyEvent::Reset(
                        self.failure(Cause::BodyCut, "it closed inside the body"),
                    ));
                }
                Ok(_) => {}
                Err(error) => {
                    let detail = if error.kind() == io::ErrorKind::UnexpectedEof {
                        "it closed without the end of TLS (close_notify), so that the body may have been cut"
                            .to_owned()
                    } else {
                        failure::of_stream(&error).unwrap_or_else(|| error.to_string())
                    };
                    return Poll::Ready(BodyEvent::Reset(self.failure(Cause::BodyCut, detail)));
                }
            }
        }
    }

    fn pause(&mut self) -> Result<(), ExchangeFailure> {
        // Bytes behind the body are dropped here, so the connection must not be checked out again.
        self.may_serve_again &= !self.reader.is_done() || self.input.buffer.is_empty();
        let rested = self.input.release(&mut self.connection.stream);
        rested.map_err(|error| self.failure(Cause::BodyCut, error.to_string()))
    }

    fn consume(&mut self, count: usize) {
        self.reader.took(count, &mut self.input.buffer);
    }

    fn take_segment(&mut self, count: usize) -> Option<ByteSegment> {
        let buffer = self.input.take_whole(count)?;
        self.reader.passed(count);
        Some(buffer.into())
    }

    fn body_length(&self) -> BodyLength {
        self.length
    }

    fn progress(&self) -> AttemptProgress {
        let sent = match (self.answered, self.writer.sent_bytes()) {
            (true, _) => Sent::Answered,
            (false, 0) if !self.connection.stream.holds_unconfirmed() => Sent::Nothing,
            (false, _) => Sent::Unanswered,
        };
        AttemptProgress { sent, is_reused: self.connection.served > 0 }
    }
}

#[cfg(all(test, not(feature = "simulation")))]
mod tests;
