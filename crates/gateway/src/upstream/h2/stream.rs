//! One exchange on a shared HTTP/2 connection to an endpoint: its frames are appended to the connection's
//! output, and its response is read from its slot in the engine. It writes to no socket and decides nothing
//! about another attempt.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use http2::{BodyState, Reset, ResetBy, ResponseInfo, StreamKey};
use message::{Headers, Method, ResponseHead};
use stdx::segment::{ByteSegment, is_dense};

use super::encode;
use super::link::H2Link;
use crate::body::{AttemptProgress, BodyEvent, BodyLength, Capacity, PollCapacity, UpstreamStream};
use crate::h2::reset_text;
use exchange::Exchange;
use exchange::failure::{Cause, ExchangeFailure, Sent};
use exchange::grpc::MessageMeter;

/// See the module.
pub(crate) struct UpstreamH2Stream {
    link: Rc<H2Link>,
    /// The stream in the engine, once its request was started.
    key: Option<StreamKey>,
    /// Why the request could not be started.
    unstarted: Option<ExchangeFailure>,
    /// The place in the connection's output where the request begins.
    place: u64,
    is_reused: bool,
    /// The endpoint says that it did not process the request.
    is_unprocessed: bool,
    /// A head arrived, or something in the place of one.
    is_answered: bool,
    asked_head: bool,
    /// The request is an extended CONNECT, and no response has refused it.
    is_tunnel: bool,
    length: BodyLength,
    /// Bytes of the request body that its announced length still allows; the last one ends the stream.
    left_bytes: Option<u64>,
    /// The end of the request is in the output.
    is_sent: bool,
    /// Bytes of the response body that were taken from the engine, and how many of them were consumed.
    piece: Vec<u8>,
    cursor: usize,
    trailers: Option<Box<Headers>>,
    /// The messages of a gRPC call, to the endpoint and from it, where their size is limited.
    meters: Option<(MessageMeter, MessageMeter)>,
    /// A message of the request is longer than the limit: its length.
    too_large: Option<u32>,
}

impl UpstreamH2Stream {
    /// A stream on `link`, which can take one.
    pub(super) fn new(link: &Rc<H2Link>) -> UpstreamH2Stream {
        link.begin_stream();
        UpstreamH2Stream {
            link: link.clone(),
            key: None,
            unstarted: None,
            place: 0,
            is_reused: link.is_reused(),
            is_unprocessed: false,
            is_answered: false,
            asked_head: false,
            is_tunnel: false,
            length: BodyLength::None,
            left_bytes: None,
            is_sent: false,
            piece: Vec::new(),
            cursor: 0,
            trailers: None,
            meters: None,
            too_large: None,
        }
    }

    fn reset(&self, key: StreamKey) -> Option<Reset> {
        match self.link.engine().body_state(key) {
            BodyState::Reset(reset) => Some(reset),
            _ => None,
        }
    }

    /// The failure that ended the stream.
    #[cold]
    fn failure(&mut self, reset: Reset, cause: Cause) -> ExchangeFailure {
        self.is_unprocessed |= reset.is_unprocessed;
        self.is_answered |= reset.by == ResetBy::Fault;
        self.link.failure_of(reset, cause)
    }

    fn begin_body(&mut self, status: u16, info: ResponseInfo) {
        self.length = match info {
            _ if self.asked_head || matches!(status, 204 | 304) => BodyLength::None,
            ResponseInfo { content_length: Some(bytes), .. } => BodyLength::Known(bytes),
            ResponseInfo { is_end: true, .. } => BodyLength::Known(0),
            _ => BodyLength::Unknown,
        };
    }

    /// Whether a response with `status` has opened a tunnel on the stream.
    pub(crate) fn has_opened_tunnel(&self, status: u16) -> bool {
        self.is_tunnel && (200..300).contains(&status)
    }

    /// The bytes of the piece that were not consumed, for a tunnel.
    pub(super) fn held(&self) -> &[u8] {
        &self.piece[self.cursor..]
    }

    /// Ends the way of a tunnel to the endpoint.
    pub(super) fn end_sending(&mut self) {
        self.is_tunnel = false;
        UpstreamStream::finish(self, None);
        self.link.wake_task_for_output();
    }

    /// Waits until a write takes something.
    pub(super) fn poll_capacity(&mut self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let Some(key) = self.key else { return Poll::Ready(Err(io::ErrorKind::NotConnected.into())) };
        if let Some(reset) = self.reset(key) {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionReset, reset_text(reset))));
        }
        if self.link.engine().capacity(key) > 0 {
            return Poll::Ready(Ok(()));
        }
        self.link.park(key, cx);
        Poll::Pending
    }

    /// Whether the next `count` bytes of the request body are its last ones.
    fn is_last(&self, count: usize) -> bool {
        self.left_bytes.is_some_and(|left| left <= count as u64)
    }

    /// Notes that `count` bytes of the request body are in the output, with its end if it `has_ended`.
    fn note_written(&mut self, count: usize, has_ended: bool) {
        if let Some(left) = &mut self.left_bytes {
            *left = left.saturating_sub(count as u64);
        }
        self.is_sent |= has_ended;
    }

    /// Gives window back to the endpoint for `count` bytes that were consumed.
    fn give_window_back(&self, count: usize) {
        if let Some(key) = self.key {
            self.link.engine().consume(key, count);
            self.link.wake_task_for_output();
        }
    }

    fn rest_piece(&mut self) {
        if self.piece.capacity() > 0 {
            http2::recycle(std::mem::take(&mut self.piece));
            self.cursor = 0;
        }
    }
}

impl Drop for UpstreamH2Stream {
    /// Ends the stream: one that is not complete is reset with CANCEL.
    fn drop(&mut self) {
        self.rest_piece();
        self.link.end_stream(self.key);
    }
}

impl UpstreamStream for UpstreamH2Stream {
    fn start_request(&mut self, exchange: &Exchange, length: BodyLength) {
        self.asked_head = exchange.request.method == Method::Head;
        self.is_tunnel = exchange.decision.is_upgrade;
        let limit_bytes = exchange.local().options.limits.grpc_max_message_bytes;
        if exchange.grpc.is_some() && limit_bytes != 0 {
            let meter = MessageMeter::new(limit_bytes);
            self.meters = Some((meter, meter));
        }
        self.place = self.link.output_place();
        let is_tls = self.link.endpoint().tls.is_some();
        let started = encode::write_h2_request_head(&mut self.link.engine(), exchange, length, is_tls);
        match started {
            Ok((key, is_end)) => (self.key, self.is_sent) = (Some(key), is_end),
            Err(error) => self.unstarted = Some(self.link.unstarted(error)),
        }
        self.left_bytes = match length {
            BodyLength::Known(bytes) if !self.is_tunnel => Some(bytes),
            _ => None,
        };
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let Some(key) = self.key else { return Poll::Ready(Err(io::ErrorKind::NotConnected.into())) };
        if let Some(reset) = self.reset(key) {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionReset, reset_text(reset))));
        }
        // The head of a message that is too long is not passed on.
        let mut ahead = self.meters.map(|(sent, _)| sent);
        if let Some(Err(length)) = ahead.as_mut().map(|meter| meter.pass(data)) {
            self.too_large = Some(length);
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        let is_last = self.is_last(data.len());
        let count = self.link.engine().write_data(key, data, is_last);
        if count == 0 {
            self.link.park(key, cx);
            self.link.wake_task_for_output();
            return Poll::Pending;
        }
        if let Some((sent, _)) = &mut self.meters {
            // Looked at above.
            let _ = sent.pass(&data[..count]);
        }
        self.note_written(count, is_last && count == data.len());
        Poll::Ready(Ok(count))
    }

    fn takes_segment(&mut self, count: usize) -> bool {
        self.key.is_some_and(|key| self.link.engine().capacity(key) >= count)
    }

    fn write_segment(&mut self, segment: ByteSegment) -> io::Result<()> {
        let Some(key) = self.key else { return Err(io::ErrorKind::NotConnected.into()) };
        if let Some((sent, _)) = &mut self.meters
            && let Err(length) = sent.pass(segment.bytes())
        {
            self.too_large = Some(length);
            return Err(io::ErrorKind::InvalidData.into());
        }
        let count = segment.len();
        let is_last = self.is_last(count);
        // Only a stream that was reset takes none of it here.
        let written = self.link.engine().write_segment(key, segment, is_last);
        written.map_err(|_| io::ErrorKind::ConnectionReset)?;
        self.note_written(count, is_last);
        Ok(())
    }

    fn finish(&mut self, trailers: Option<&Headers>) {
        // The request of a tunnel goes on until one of its ends has closed.
        if let Some(key) = self.key
            && !self.is_tunnel
            && !std::mem::replace(&mut self.is_sent, true)
        {
            self.link.engine().finish(key, trailers);
        }
    }

    /// The connection's task writes the output of all streams in this turn of the event loop.
    #[inline]
    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.link.wake_task_for_output();
        Poll::Ready(Ok(()))
    }

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut ResponseHead,
        _capacity: Capacity,
    ) -> Poll<Result<(), ExchangeFailure>> {
        let Some(key) = self.key else {
            let failure = self.unstarted.take();
            let failure =
                failure.unwrap_or_else(|| ExchangeFailure::new(Cause::NoResponse, "no request was sent"));
            return Poll::Ready(Err(failure));
        };
        if let Some(length) = self.too_large {
            return Poll::Ready(Err(message_too_large(Cause::MessageTooLarge, length, &self.link)));
        }
        let taken = self.link.engine().take_response(key, head);
        if let Some(info) = taken {
            self.is_answered = true;
            if head.status >= 200 && !self.has_opened_tunnel(head.status) {
                self.begin_body(head.status, info);
                if self.is_tunnel {
                    self.end_sending();
                }
            }
            return Poll::Ready(Ok(()));
        }
        if let Some(reset) = self.reset(key) {
            return Poll::Ready(Err(self.failure(reset, Cause::NoResponse)));
        }
        self.link.park(key, cx);
        Poll::Pending
    }

    fn poll_body<'a>(
        &'a mut self,
        cx: &mut Context<'_>,
        capacity: &mut PollCapacity<'_>,
    ) -> Poll<BodyEvent<'a>> {
        let Some(key) = self.key else {
            let failure = ExchangeFailure::new(Cause::BodyCut, "no request was sent");
            return Poll::Ready(BodyEvent::Reset(failure));
        };
        if let Some(length) = self.too_large {
            return Poll::Ready(BodyEvent::Reset(message_too_large(
                Cause::MessageTooLarge,
                length,
                &self.link,
            )));
        }
        if self.cursor < self.piece.len() {
            return Poll::Ready(BodyEvent::Data(&self.piece[self.cursor..]));
        }
        let state = self.link.engine().body_state(key);
        match state {
            BodyState::Data(_) => {
                match capacity(cx) {
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(failure)) => return Poll::Ready(BodyEvent::Reset(failure)),
                    // The bytes stay in the engine, at most a window of them. A reset has to be noticed
                    // meanwhile.
                    Poll::Pending => {
                        self.rest_piece();
                        self.link.park(key, cx);
                        return Poll::Pending;
                    }
                }
                self.cursor = 0;
                self.link.engine().take_data(key, &mut self.piece);
                if let Some((_, received)) = &mut self.meters
                    && let Err(length) = received.pass(&self.piece)
                {
                    let failure = message_too_large(Cause::ResponseMessageTooLarge, length, &self.link);
                    return Poll::Ready(BodyEvent::Reset(failure));
                }
                Poll::Ready(BodyEvent::Data(&self.piece))
            }
            BodyState::End { has_trailers } => {
                if has_trailers {
                    let trailers = self.trailers.insert(Box::default());
                    self.link.engine().take_trailers(key, trailers);
                }
                Poll::Ready(BodyEvent::End(self.trailers.as_deref()))
            }
            BodyState::Reset(reset) => Poll::Ready(BodyEvent::Reset(self.failure(reset, Cause::BodyCut))),
            BodyState::Pending => {
                self.rest_piece();
                self.link.park(key, cx);
                Poll::Pending
            }
        }
    }

    /// The receive window bounds the bytes that the endpoint can make the gateway hold, so that none are
    /// given back.
    fn pause(&mut self) -> Result<(), ExchangeFailure> {
        Ok(())
    }

    fn consume(&mut self, count: usize) {
        self.cursor += count;
        debug_assert!(self.cursor <= self.piece.len(), "more was consumed than was there");
        self.give_window_back(count);
    }

    fn take_segment(&mut self, count: usize) -> Option<ByteSegment> {
        let is_whole = self.piece.len() - self.cursor == count;
        if !is_whole || !is_dense(count, self.piece.capacity()) {
            return None;
        }
        let start = std::mem::take(&mut self.cursor);
        let segment = ByteSegment::from_vector(std::mem::take(&mut self.piece), start, http2::recycle);
        self.give_window_back(count);
        Some(segment)
    }

    fn body_length(&self) -> BodyLength {
        self.length
    }

    fn progress(&self) -> AttemptProgress {
        let sent = match self.key {
            None => Sent::Nothing,
            Some(_) if self.is_unprocessed => Sent::Nothing,
            Some(_) if self.is_answered => Sent::Answered,
            Some(_) if !self.link.has_sent_beyond(self.place) => Sent::Nothing,
            Some(_) => Sent::Unanswered,
        };
        // A request that was not processed may go to the same endpoint again, over another connection.
        let is_refused = self.is_unprocessed || self.key.is_none();
        AttemptProgress { sent, is_reused: self.is_reused || is_refused }
    }
}

#[cold]
fn message_too_large(cause: Cause, length: u32, link: &H2Link) -> ExchangeFailure {
    let limit_bytes = link.local().options.limits.grpc_max_message_bytes;
    ExchangeFailure::new(cause, format!("a message has {length} bytes; the limit is {limit_bytes}"))
}
