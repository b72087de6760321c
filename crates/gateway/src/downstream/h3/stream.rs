//! The client's side of one exchange over HTTP/3: the request body is read through here and the response written to the
//! transport. It decides nothing about routes or nodes.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http3::writer::{self, DataHeader};
use http3::{ErrorCode, RequestInfo};
use message::{FieldId, Headers, Method, ResponseHead};
use quinn::{SendStream, WriteError};
use stdx::pooled::PooledBox;

use super::encode;
use super::incoming::{Incoming, Part, Reset};
use super::link::{Link, number};
use crate::body::{BodyEvent, BodyLength, Capacity, RequestBody, ResponseProgress, ResponseSink};
use crate::context::WorkerContext;
use crate::downstream::stream_end::TunnelStream;
use exchange::Exchange;
use exchange::deadline::Deadline;
use exchange::failure::{Blame, Cause, Failure};
use net::quic::Guarded;

/// A piece of a request body: parts that arrived in one datagram each are put together, so that an endpoint is not sent each
/// of them by a system call of its own.
const PIECE_BYTES: usize = 16 * 1024;
/// Bytes of a response that are taken at once while the transport takes none. So much, and the head, may wait here.
const WRITE_BYTES: usize = 32 * 1024;
/// Output that is passed to the transport although more of the response may follow at once.
const FLUSH_BYTES: usize = 16 * 1024;

/// A client that sends nothing for so long, while a response waits for its acknowledgement, has vanished; the transport has
/// sent parts of the response again by then.
const VANISHED_MS: u64 = 3_000;

/// How the client has taken a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    /// All of it was acknowledged.
    Complete,
    /// The client wants no more of it.
    Stopped,
    Lost,
}

/// The wait for a delivery.
type Delivering = Guarded<Pin<PooledBox<dyn Future<Output = Delivery>>>>;

/// See the module.
pub(super) struct H3Stream {
    link: Rc<Link>,
    pub(super) incoming: Incoming,
    send: Guarded<SendStream>,
    length: BodyLength,
    /// Bytes of the request body that were read, and how many of them were consumed.
    piece: Vec<u8>,
    cursor: usize,
    /// An earlier piece is gone: the body cannot be sent again.
    is_piece_later: bool,
    trailers: Option<Box<Headers>>,
    /// The client waits for 100 (Continue) before it sends its body.
    continue_due: bool,
    /// The exchange is an extended CONNECT (RFC 9220), which a response with a final status other than 2xx ends.
    is_connect: bool,
    head_sent: bool,
    /// The response has opened a tunnel, which ends each way by itself.
    is_tunnel: bool,
    /// Output that was not passed to the transport, the older part first.
    left: Bytes,
    output: Vec<u8>,
    /// The response is complete behind the output.
    ends: bool,
    /// The end of the response was passed to the transport.
    is_ended: bool,
    /// The client wants no more of the response, or the connection is gone.
    is_stopped: bool,
    delivering: Option<Delivering>,
    sent_bytes: u64,
    aborted: Option<Blame>,
}

impl H3Stream {
    /// A stream of which no request was read.
    pub(super) fn new(link: Rc<Link>, incoming: Incoming, send: Guarded<SendStream>) -> H3Stream {
        H3Stream {
            link,
            incoming,
            send,
            length: BodyLength::None,
            piece: Vec::new(),
            cursor: 0,
            is_piece_later: false,
            trailers: None,
            continue_due: false,
            is_connect: false,
            head_sent: false,
            is_tunnel: false,
            left: Bytes::new(),
            output: Vec::new(),
            ends: false,
            is_ended: false,
            is_stopped: false,
            delivering: None,
            sent_bytes: 0,
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
                self.send.call(|send| send.set_priority(DEFAULT_URGENCY - urgency));
            }
        }
        info
    }

    /// Whether the end of a request without an announced length has to be here before the request is served, because its
    /// method rarely has a body: a body of unknown length would be announced to the endpoint.
    pub(super) fn waits_for_end(&self, exchange: &Exchange, info: Option<RequestInfo>) -> bool {
        let is_bodiless = matches!(exchange.request.method, Method::Get | Method::Head | Method::Options);
        is_bodiless && !self.is_connect && info.is_some_and(|info| info.content_length.is_none())
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
        if self.is_ended && self.aborted.is_none() {
            self.incoming.stop(ErrorCode::NO_ERROR);
        }
    }

    /// Ready when the client has acknowledged the response, wants none of it any more, or has vanished. The exchange lasts until
    /// then, so that a connection is not closed while a response is on its way.
    pub(super) async fn delivered(&mut self, deadline: &Deadline) {
        if !self.is_ended || self.aborted.is_some() {
            return;
        }
        let mut received = None;
        poll_fn(|cx| {
            if self.poll_delivery(cx).is_ready() {
                return Poll::Ready(());
            }
            if received.is_none() || deadline.expired() {
                // A client that is there acknowledges at least what is sent again.
                let now = self.link.quic.call_ref(|quic| quic.stats().udp_rx.datagrams);
                if now.is_none() || received == Some(now) {
                    return Poll::Ready(());
                }
                received = Some(now);
                deadline.set(cx, VANISHED_MS);
            }
            Poll::Pending
        })
        .await;
    }

    fn poll_delivery(&mut self, cx: &mut Context<'_>) -> Poll<Delivery> {
        if self.delivering.is_none() {
            let Some(stopped) = self.send.call_ref(|send| send.stopped()) else {
                return Poll::Ready(Delivery::Lost);
            };
            let delivering = PooledBox::new(async move {
                match stopped.await {
                    Ok(None) => Delivery::Complete,
                    Ok(Some(_)) => Delivery::Stopped,
                    Err(_) => Delivery::Lost,
                }
            });
            self.delivering = Some(self.send.another(delivering.into_dyn_future()));
        }
        let delivering = self.delivering.as_mut().expect("it was just made");
        let polled = delivering.call(|delivering| delivering.as_mut().poll(cx));
        let delivery = ready!(polled.unwrap_or(Poll::Ready(Delivery::Lost)));
        // It must not be polled again.
        self.delivering = None;
        if delivery != Delivery::Complete {
            self.note_stopped(delivery == Delivery::Stopped);
        }
        Poll::Ready(delivery)
    }

    /// The client wants no more of the response, or is gone.
    fn note_stopped(&mut self, by_client: bool) {
        if !std::mem::replace(&mut self.is_stopped, true) && by_client && !self.is_ended {
            self.incoming.note_reset();
        }
    }

    /// Whether the client takes no response any more.
    fn is_over(&self) -> bool {
        !self.is_ended && (self.is_stopped || self.link.is_lost() || self.request_fault().is_some())
    }

    fn request_fault(&self) -> Option<Reset> {
        self.incoming.end().and_then(Result::err)
    }

    fn gone(&self) -> Option<io::Error> {
        if !self.is_over() {
            return None;
        }
        let text = match self.request_fault() {
            Some(reset) => reset.text(),
            None => "the client wants no response any more".to_owned(),
        };
        Some(io::Error::new(io::ErrorKind::ConnectionReset, text))
    }

    /// Reads parts of the body until a piece is full, or nothing more is here.
    fn gather(&mut self, cx: &mut Context<'_>) {
        self.is_piece_later |= self.cursor > 0;
        self.piece.clear();
        self.cursor = 0;
        while self.piece.len() < PIECE_BYTES {
            match self.incoming.poll_part(cx) {
                Poll::Ready(Part::Data(bytes)) => self.piece.extend_from_slice(&bytes),
                // A head cannot follow a head; the reader has refused it.
                Poll::Ready(Part::Head | Part::HeadTooLarge | Part::End | Part::Cut) | Poll::Pending => {
                    return;
                }
            }
        }
    }

    /// Sends the interim response that the client waits for.
    fn send_continue(&mut self, cx: &mut Context<'_>) {
        if std::mem::take(&mut self.continue_due) && !self.head_sent {
            encode::interim_head(&mut self.output, 100, &Headers::new());
            // A failure is met again by the response.
            let _ = self.poll_output(cx);
        }
    }

    /// Passes the output to the transport; ready when none is left.
    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if let Some(error) = self.gone() {
                return Poll::Ready(Err(error));
            }
            if self.left.is_empty() {
                self.left = Bytes::from(std::mem::take(&mut self.output));
            }
            if self.left.is_empty() {
                if self.ends && !self.is_ended {
                    self.send.call(|send| send.finish());
                    self.is_ended = true;
                }
                return Poll::Ready(Ok(()));
            }
            let left = &mut self.left;
            let written = self.send.call(|send| pin!(send.write_chunks(std::slice::from_mut(left))).poll(cx));
            match ready!(written.unwrap_or(Poll::Ready(Err(WriteError::ClosedStream)))) {
                Ok(_) => {}
                Err(error) => self.note_stopped(matches!(error, WriteError::Stopped(_))),
            }
        }
    }

    /// Counts output that was appended since there were `before` bytes.
    fn count_output(&mut self, before: usize) {
        self.sent_bytes += (self.output.len() - before) as u64;
    }
}

impl Drop for H3Stream {
    /// Ends the stream: in order after a whole response, otherwise with a reset, so that the client can tell that the
    /// response is cut.
    fn drop(&mut self) {
        let is_complete = self.is_ended && self.aborted.is_none();
        let code = match (self.request_fault(), self.aborted) {
            (Some(Reset::Fault(code, _)), _) => code,
            (Some(Reset::Client(_)), _) | (_, Some(Blame::Client)) => ErrorCode::REQUEST_CANCELLED,
            _ if self.is_stopped => ErrorCode::REQUEST_CANCELLED,
            // A panic or a stop drops it as it is.
            (_, Some(Blame::Origin | Blame::Gateway) | None) => ErrorCode::INTERNAL_ERROR,
        };
        if is_complete {
            self.incoming.stop(ErrorCode::NO_ERROR);
            self.link.engine().request_completed();
        } else {
            self.send.call(|send| send.reset(number(code)));
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
        if self.head_sent || head.status == 101 {
            return;
        }
        let before = self.output.len();
        encode::interim_head(&mut self.output, head.status, &head.headers);
        self.count_output(before);
    }

    fn start_response(&mut self, exchange: &Exchange, length: BodyLength) {
        debug_assert!(!self.head_sent, "one response per request");
        self.head_sent = true;
        let status = exchange.response.status;
        self.is_tunnel = self.is_connect && (200..300).contains(&status) && length == BodyLength::None;
        let is_empty = matches!(length, BodyLength::None | BodyLength::Known(0));
        self.ends = !self.is_tunnel && (is_empty || exchange.request.method == Method::Head);
        let date = exchange.local().http_date();
        let before = self.output.len();
        encode::response_head(&mut self.output, exchange, length, &date);
        self.count_output(before);
    }

    fn poll_capacity(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Capacity>> {
        if self.is_tunnel || !self.left.is_empty() {
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
        let before = self.output.len();
        self.output.reserve(count + DataHeader::new(count).as_bytes().len());
        writer::data(&mut self.output, &data[..count]);
        self.count_output(before);
        if self.is_tunnel || self.output.len() >= FLUSH_BYTES {
            // Bytes that the transport does not take wait in this stream.
            if let Poll::Ready(Err(error)) = self.poll_output(cx) {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(Ok(count))
    }

    fn finish(&mut self, trailers: Option<&Headers>) {
        if self.ends || self.is_tunnel {
            return;
        }
        if let Some(trailers) = trailers {
            let before = self.output.len();
            writer::trailers(&mut self.output, trailers);
            self.count_output(before);
        }
        self.ends = true;
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.delivering.is_some() && !self.is_ended {
            // A client that wants no response any more is met here, as a write would meet it.
            let _ = self.poll_delivery(cx);
        }
        self.poll_output(cx)
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_over() {
            return Poll::Ready(());
        }
        match self.poll_delivery(cx) {
            Poll::Ready(Delivery::Stopped | Delivery::Lost) => Poll::Ready(()),
            Poll::Ready(Delivery::Complete) | Poll::Pending => Poll::Pending,
        }
    }

    fn abort(&mut self, blame: Blame) {
        self.aborted = Some(blame);
    }

    fn progress(&self) -> ResponseProgress {
        ResponseProgress { has_started: self.head_sent, sent_bytes: self.sent_bytes }
    }

    fn delivered_bytes(&self) -> u64 {
        self.sent_bytes.saturating_sub((self.left.len() + self.output.len()) as u64)
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
        self.ends = true;
        self.poll_output(cx)
    }

    fn end_in_order(&mut self) {
        self.aborted = None;
    }
}

/// The urgency of requests without a priority (RFC 9218 section 4.1).
const DEFAULT_URGENCY: i32 = 3;

/// The failure of an exchange after the end of its request.
#[cold]
fn failure_of(reset: Reset) -> Failure {
    let cause = if matches!(reset, Reset::Fault(..)) { Cause::BadRequest } else { Cause::ClientGone };
    Failure::new(cause, reset.text())
}
