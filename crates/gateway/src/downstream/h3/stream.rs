//! The client's side of one exchange over HTTP/3: the request body is read through here and the response
//! written to the transport. It decides nothing about routes or nodes.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use http3::writer::{self, DataHeader};
use http3::{ErrorCode, RequestInfo};
use message::{FieldId, Headers, Method, ResponseHead};
use quinn::SendStream;
use stdx::segment::ByteSegment;

use super::encode;
use super::incoming::{Incoming, RequestPart, Reset};
use super::link::H3Link;
use super::outgoing::{H3Outgoing, Stopped};
use crate::body::{
    BodyEvent, BodyLength, Capacity, INTERIM_WAITING_MAX_BYTES, RequestBody, ResponseProgress, ResponseSink,
};
use crate::context::WorkerContext;
use crate::downstream::stream_end::TunnelStream;
use exchange::Exchange;
use exchange::deadline::Deadline;
use exchange::failure::{Blame, Cause, ExchangeFailure};
use exchange::grpc;
use net::quic::Guarded;

/// A piece of a request body: parts that arrived in one datagram each are put together, so that an endpoint
/// is not sent each of them by a system call of its own.
const PIECE_BYTES: usize = 16 * 1024;
/// Bytes of a response that are taken at once while the transport takes none. So much, and the head, may wait
/// here.
const WRITE_BYTES: usize = 32 * 1024;
/// How long the first byte or the end of a request without a length is waited for where its method often has
/// a body: libraries often send the end in a packet of its own, and a stream that begins with a wait for its
/// response should hardly notice.
const END_WAIT_MS: u64 = 200;
/// Output that is passed to the transport although more of the response may follow at once.
const FLUSH_BYTES: usize = 16 * 1024;

/// A piece of a response that goes to the transport in its own memory, which the transport keeps until the
/// client has acknowledged all of it; smaller pieces are copied.
const SEGMENT_BYTES: usize = 24 * 1024;
/// The part of its bytes that the memory of such a piece may have unused beside them, since the send window
/// of the transport does not count it.
const MOST_UNUSED_PART: usize = 3;

/// See the module.
pub(super) struct H3Stream {
    link: Rc<H3Link>,
    pub(super) incoming: Incoming,
    outgoing: H3Outgoing,
    length: BodyLength,
    /// Bytes of the request body that were read, and how many of them were consumed.
    piece: Vec<u8>,
    cursor: usize,
    /// An earlier piece is gone: the body cannot be sent again.
    is_piece_later: bool,
    trailers: Option<Box<Headers>>,
    /// The client waits for 100 (Continue) before it sends its body.
    continue_due: bool,
    /// The exchange is an extended CONNECT (RFC 9220), which a response with a final status other than 2xx
    /// ends.
    is_connect: bool,
    head_sent: bool,
    /// The response has opened a tunnel, which ends each way by itself.
    is_tunnel: bool,
    aborted: Option<Blame>,
}

impl H3Stream {
    /// A stream of which no request was read.
    pub(super) fn new(link: Rc<H3Link>, incoming: Incoming, send: Guarded<SendStream>) -> H3Stream {
        H3Stream {
            outgoing: H3Outgoing::new(link.clone(), send),
            link,
            incoming,
            length: BodyLength::None,
            piece: Vec::new(),
            cursor: 0,
            is_piece_later: false,
            trailers: None,
            continue_due: false,
            is_connect: false,
            head_sent: false,
            is_tunnel: false,
            aborted: None,
        }
    }

    /// The state of the worker.
    pub(super) fn context(&self) -> Rc<WorkerContext> {
        self.link.context.clone()
    }

    /// Takes the head that has arrived into the exchange. None if it was too large.
    pub(super) fn take_request(&mut self, exchange: &mut Exchange) -> Option<RequestInfo> {
        let info = self.incoming.take_request(&mut exchange.request);
        self.is_connect =
            exchange.request.method == Method::Connect && exchange.request.upgrade_text().is_some();
        self.continue_due = exchange.request.headers.contains_known(FieldId::Expect);
        if let Some(info) = info {
            let urgency = i32::from(info.priority.urgency);
            if urgency != DEFAULT_URGENCY {
                // The transport sends larger numbers first.
                self.outgoing.set_priority(DEFAULT_URGENCY - urgency);
            }
        }
        info
    }

    /// How long, in milliseconds, the first byte or the end of a request without an announced length is
    /// waited for before the request is served, because a body of unknown length would be announced to the
    /// endpoint otherwise. None if the length is known; 0 takes what is here.
    pub(super) fn begin_wait_ms(
        &self,
        exchange: &Exchange,
        info: Option<RequestInfo>,
        body_timeout_ms: u64,
    ) -> Option<u64> {
        if self.is_connect || info.is_none_or(|info| info.content_length.is_some()) {
            return None;
        }
        let headers = &exchange.request.headers;
        Some(match exchange.request.method {
            // The client sends its body behind an interim response, or its first message behind one of the
            // endpoint.
            _ if self.continue_due => 0,
            _ if headers.get_known(FieldId::ContentType).is_some_and(grpc::is_call) => 0,
            // Refused anyway.
            Method::Connect | Method::Trace => 0,
            // Methods that rarely have a body.
            Method::Get | Method::Head | Method::Options | Method::Delete => body_timeout_ms,
            _ => body_timeout_ms.min(END_WAIT_MS),
        })
    }

    /// Ready when the first byte of the body or its end is here.
    pub(super) fn poll_begun(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.piece.is_empty() && self.incoming.end().is_none() {
            self.gather(cx);
        }
        if self.piece.is_empty() && self.incoming.end().is_none() { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Settles the length of the body, from what is known by now.
    pub(super) fn settle_length(&mut self, info: Option<RequestInfo>) {
        self.length = match info {
            _ if self.is_connect => BodyLength::None,
            None => BodyLength::None,
            Some(RequestInfo { content_length: Some(bytes), .. }) => BodyLength::Known(bytes),
            Some(_) if self.piece.is_empty() && self.incoming.end() == Some(Ok(())) => BodyLength::None,
            Some(_) => BodyLength::Unknown,
        };
    }

    /// Tells the client that the rest of its request is not needed, if the response is complete.
    pub(super) fn stop_rest(&mut self) {
        if self.is_complete() {
            self.incoming.stop(ErrorCode::NO_ERROR);
        }
    }

    /// Waits until the client has acknowledged a complete response; see [`H3Outgoing::delivered`].
    pub(super) async fn delivered(&mut self, deadline: &Deadline) {
        if self.is_complete() {
            self.outgoing.delivered(deadline).await;
        }
    }

    fn is_complete(&self) -> bool {
        self.outgoing.is_ended() && self.aborted.is_none()
    }

    /// Whether the client takes no response any more.
    fn is_over(&self) -> bool {
        let is_cut = self.outgoing.is_stopped() || self.link.is_lost() || self.request_fault().is_some();
        !self.outgoing.is_ended() && is_cut
    }

    fn request_fault(&self) -> Option<Reset> {
        self.incoming.end().and_then(Result::err)
    }

    fn gone(&self) -> Option<io::Error> {
        if !self.is_over() {
            return None;
        }
        Some(match self.request_fault() {
            Some(reset) => io::Error::new(io::ErrorKind::ConnectionReset, reset.text()),
            None => stopped(),
        })
    }

    /// Reads parts of the body until a piece is full, or nothing more is here.
    fn gather(&mut self, cx: &mut Context<'_>) {
        self.is_piece_later |= self.cursor > 0;
        self.piece.clear();
        self.cursor = 0;
        while self.piece.len() < PIECE_BYTES {
            match self.incoming.poll_part(cx) {
                Poll::Ready(RequestPart::Data(bytes)) => self.piece.extend_from_slice(&bytes),
                // A head cannot follow a head; the reader has refused it.
                Poll::Ready(
                    RequestPart::Head | RequestPart::HeadTooLarge | RequestPart::End | RequestPart::Cut,
                )
                | Poll::Pending => {
                    return;
                }
            }
        }
    }

    /// Appends a DATA frame; how many bytes wait behind older ones.
    fn append_data(&mut self, data: &[u8]) -> usize {
        self.outgoing.append(|output| {
            output.reserve(data.len() + DataHeader::new(data.len()).as_bytes().len());
            writer::data(output, data);
        })
    }

    /// Sends the interim response that the client waits for.
    fn send_continue(&mut self, cx: &mut Context<'_>) {
        if std::mem::take(&mut self.continue_due) && !self.head_sent {
            self.outgoing.append(|output| encode::write_h3_interim_head(output, 100, &Headers::new()));
            // A failure is met again by the response.
            let _ = self.poll_output(cx);
        }
    }

    /// Passes the output to the transport; ready when none is left.
    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(error) = self.gone() {
            return Poll::Ready(Err(error));
        }
        self.outgoing.poll_send(cx).map_err(|Stopped| stopped())
    }
}

impl Drop for H3Stream {
    /// Ends the stream: in order after a whole response, otherwise with a reset, so that the client can tell
    /// that the response is cut.
    fn drop(&mut self) {
        let code = match (self.request_fault(), self.aborted) {
            (Some(Reset::Fault(code, _)), _) => code,
            (Some(Reset::Client(_)), _) | (_, Some(Blame::Client)) => ErrorCode::REQUEST_CANCELLED,
            _ if self.outgoing.is_stopped() => ErrorCode::REQUEST_CANCELLED,
            // A panic or a stop drops it as it is.
            (_, Some(Blame::Upstream | Blame::Gateway) | None) => ErrorCode::INTERNAL_ERROR,
        };
        if self.is_complete() {
            self.incoming.stop(ErrorCode::NO_ERROR);
            self.link.engine().request_completed();
        } else {
            self.outgoing.reset(code);
            self.incoming.stop(code);
        }
    }
}

impl RequestBody for H3Stream {
    fn poll_body<'a>(&'a mut self, cx: &mut Context<'_>) -> Poll<BodyEvent<'a>> {
        if self.cursor >= self.piece.len() && self.incoming.end().is_none() {
            self.gather(cx);
        }
        if self.cursor < self.piece.len() {
            return Poll::Ready(BodyEvent::Data(&self.piece[self.cursor..]));
        }
        match self.incoming.end() {
            Some(Ok(())) => {
                if self.trailers.is_none() {
                    let mut trailers = Box::<Headers>::default();
                    self.trailers = self.incoming.take_trailers(&mut trailers).then_some(trailers);
                }
                Poll::Ready(BodyEvent::End(self.trailers.as_deref()))
            }
            Some(Err(reset)) => Poll::Ready(BodyEvent::Reset(failure_of(reset))),
            None => {
                self.send_continue(cx);
                if self.piece.capacity() > 0 {
                    self.is_piece_later |= self.cursor > 0;
                    (self.piece, self.cursor) = (Vec::new(), 0);
                }
                Poll::Pending
            }
        }
    }

    fn consume(&mut self, count: usize) {
        self.cursor += count;
        debug_assert!(self.cursor <= self.piece.len(), "more was consumed than was there");
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
}

impl ResponseSink for H3Stream {
    fn send_informational(&mut self, head: &ResponseHead) {
        if self.head_sent || head.status == 101 || self.outgoing.waiting_bytes() > INTERIM_WAITING_MAX_BYTES {
            return;
        }
        self.outgoing.append(|output| encode::write_h3_interim_head(output, head.status, &head.headers));
    }

    fn start_response(&mut self, exchange: &Exchange, length: BodyLength) {
        debug_assert!(!self.head_sent, "one response per request");
        self.head_sent = true;
        let status = exchange.response.status;
        self.is_tunnel = self.is_connect && (200..300).contains(&status) && length == BodyLength::None;
        let is_empty = matches!(length, BodyLength::None | BodyLength::Known(0));
        let date = exchange.local().http_date();
        self.outgoing.append(|output| encode::write_h3_response_head(output, exchange, length, &date));
        if !self.is_tunnel && (is_empty || exchange.request.method == Method::Head) {
            self.outgoing.end();
        }
    }

    fn poll_capacity(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Capacity>> {
        if self.is_tunnel || self.outgoing.is_blocked() {
            ready!(self.poll_output(cx))?;
        }
        if let Some(error) = self.gone() {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(Capacity::Firm(WRITE_BYTES)))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_capacity(cx))?;
        let count = data.len().min(WRITE_BYTES);
        let waiting = self.append_data(&data[..count]);
        if self.is_tunnel || waiting >= FLUSH_BYTES {
            // Bytes that the transport does not take wait in this stream.
            if let Poll::Ready(Err(error)) = self.poll_output(cx) {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(Ok(count))
    }

    fn takes_segment(&mut self, count: usize) -> bool {
        let is_fit = (SEGMENT_BYTES..=WRITE_BYTES).contains(&count);
        is_fit && !self.is_over() && !self.outgoing.is_blocked()
    }

    fn write_segment(&mut self, cx: &mut Context<'_>, segment: ByteSegment) -> io::Result<()> {
        if segment.capacity() <= segment.len() + segment.len() / MOST_UNUSED_PART {
            self.outgoing.append(|output| {
                output.extend_from_slice(DataHeader::new(segment.len()).as_bytes());
            });
            self.outgoing.append_segment(segment);
        } else {
            self.append_data(segment.bytes());
        }
        match self.poll_output(cx) {
            Poll::Ready(Err(error)) => Err(error),
            Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        }
    }

    fn finish(&mut self, trailers: Option<&Headers>) {
        if self.outgoing.ends() || self.is_tunnel {
            return;
        }
        if let Some(trailers) = trailers {
            // It appends nothing where no field may be sent in trailers.
            self.outgoing.append(|output| {
                writer::trailers(output, trailers);
            });
        }
        self.outgoing.end();
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A client that wants no response any more is met here, as a write would meet it.
        self.outgoing.look_if_asked(cx);
        self.poll_output(cx)
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_over() {
            return Poll::Ready(());
        }
        self.outgoing.poll_stopped(cx)
    }

    fn abort(&mut self, blame: Blame) {
        self.aborted = Some(blame);
    }

    fn progress(&self) -> ResponseProgress {
        ResponseProgress { has_started: self.head_sent, sent_bytes: self.outgoing.counts().0 }
    }

    fn delivered_bytes(&self) -> u64 {
        self.outgoing.counts().1
    }

    fn is_gone(&self) -> bool {
        self.is_over()
    }

    fn can_switch_protocols(&mut self, _cx: &mut Context<'_>) -> bool {
        self.is_connect
    }

    fn must_switch_protocols(&self) -> bool {
        self.is_connect
    }
}

impl TunnelStream for H3Stream {
    fn held(&self) -> &[u8] {
        &self.piece[self.cursor..]
    }

    fn send_taken(&mut self, cx: &mut Context<'_>) {
        // A failure is met by the next write.
        let _ = self.poll_output(cx);
    }

    fn poll_end_tunnel(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_tunnel = false;
        self.outgoing.end();
        self.poll_output(cx)
    }

    fn end_in_order(&mut self) {
        self.aborted = None;
    }
}

/// The urgency of requests without a priority (RFC 9218 section 4.1).
const DEFAULT_URGENCY: i32 = 3;

#[cold]
fn stopped() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "the client wants no response any more")
}

/// The failure of an exchange after the end of its request.
#[cold]
fn failure_of(reset: Reset) -> ExchangeFailure {
    let cause = if matches!(reset, Reset::Fault(..)) { Cause::BadRequest } else { Cause::ClientGone };
    ExchangeFailure::new(cause, reset.text())
}
