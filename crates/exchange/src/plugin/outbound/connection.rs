//! One connection of a client to a peer: it writes a request and reads the answer with the reader of
//! responses of nodes, so that peers of plugins are read as leniently. It runs inside the call that uses it,
//! on no task of its own, so that whatever ends the call ends the connection. It decides nothing about
//! requests.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http1::chunked::{Decoder, Piece};
use http1::{HeadStatus, ResponseFraming, ResponseWire, encode, parse_upstream_response};
use message::{HeadLimits, Headers, ResponseHead};

use super::request::OutboundResponse;
use net::endpoint::Endpoint;
use net::transport::Transport;

/// Bytes read at once: the answers plugins wait for are small.
const READ_BYTES: usize = 8 * 1024;

/// See the module.
pub(super) struct OutboundConnection {
    stream: Transport,
    /// Whether the last exchange has left it clean.
    is_clean: bool,
    /// Where it leads.
    pub(super) endpoint: Arc<Endpoint>,
    /// The host that TLS was opened for; it serves requests for this host only.
    pub(super) server_name: Option<Box<str>>,
    /// Requests it has served.
    pub(super) served: u32,
    /// When it became idle, in milliseconds of the monotonic clock.
    pub(super) idle_since_ms: u64,
}

/// Why an exchange has failed.
#[derive(Debug)]
pub(super) enum ExchangeFault {
    /// The connection broke.
    Broken(io::Error),
    /// The answer is no good HTTP.
    Malformed(&'static str),
    /// The body of the answer is longer than allowed.
    TooLarge,
}

impl OutboundConnection {
    /// Makes a connection of a stream that is open.
    pub(super) fn new(stream: Transport, endpoint: Arc<Endpoint>, host: &str) -> OutboundConnection {
        let server_name = stream.tls().map(|_| host.into());
        OutboundConnection { stream, is_clean: true, endpoint, server_name, served: 0, idle_since_ms: 0 }
    }

    /// Sends a request and reads the whole answer; its body has at most `max_body_bytes`.
    pub(super) async fn exchange(
        &mut self,
        head: &http::Request<()>,
        body: &Bytes,
        max_body_bytes: usize,
    ) -> Result<OutboundResponse, ExchangeFault> {
        self.served = self.served.saturating_add(1);
        self.is_clean = false;
        let written = written_head(head, body);
        let mut sending = Sending { parts: [&written, body], sent_bytes: 0 };
        let mut answer = OutboundAnswer::new(head.method() == http::Method::HEAD, max_body_bytes);
        let reuses = poll_fn(|cx| self.poll_exchange(cx, &mut sending, &mut answer)).await?;
        self.is_clean = reuses;
        Ok(answer.into_response())
    }

    /// Runs the exchange to the end of the answer; true if the connection may carry another one.
    fn poll_exchange(
        &mut self,
        cx: &mut Context<'_>,
        sending: &mut Sending<'_>,
        answer: &mut OutboundAnswer,
    ) -> Poll<Result<bool, ExchangeFault>> {
        // A peer may answer before it has read the request, and close: its answer counts.
        let send_error = match sending.poll(cx, &mut self.stream) {
            Poll::Ready(Err(error)) => Some(error),
            _ => None,
        };
        let mut room = [0; READ_BYTES];
        loop {
            match self.stream.poll_read(cx, &mut room) {
                Poll::Ready(Ok(0)) => return Poll::Ready(answer.end().map(|()| false)),
                Poll::Ready(Ok(count)) => {
                    if answer.take(&room[..count])? {
                        let is_sent = sending.is_done() && send_error.is_none();
                        return Poll::Ready(Ok(is_sent && answer.leaves_clean()));
                    }
                }
                Poll::Ready(Err(error)) => {
                    return Poll::Ready(Err(ExchangeFault::Broken(send_error.unwrap_or(error))));
                }
                Poll::Pending => {
                    return match send_error {
                        Some(error) => Poll::Ready(Err(ExchangeFault::Broken(error))),
                        None => Poll::Pending,
                    };
                }
            }
        }
    }

    /// Whether it can serve another request now: the peer has not closed it, and nothing of the last one is
    /// left.
    pub(super) fn is_idle(&mut self) -> bool {
        if !self.is_clean || !self.stream.is_readable() {
            return self.is_clean;
        }
        // The readiness may be left over from a read that filled its buffer exactly, so a peek decides.
        let mut cx = Context::from_waker(Waker::noop());
        self.is_clean = self.stream.poll_peek_at_once(&mut cx, &mut [0]).is_pending();
        self.is_clean
    }
}

/// The head as it is sent; a method with content has a length even where there is none (RFC 9110 section
/// 8.6).
fn written_head(head: &http::Request<()>, body: &Bytes) -> Vec<u8> {
    let mut out = Vec::new();
    let target = head.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    out.extend_from_slice(format!("{} {target} HTTP/1.1\r\n", head.method()).as_bytes());
    for (name, value) in head.headers() {
        encode::field(&mut out, name.as_str(), value.as_bytes());
    }
    let expects_content =
        matches!(*head.method(), http::Method::POST | http::Method::PUT | http::Method::PATCH);
    if !body.is_empty() || expects_content {
        encode::number_field(&mut out, "content-length", body.len() as u64);
    }
    out.extend_from_slice(encode::HEAD_END);
    out
}

/// A request that is being written.
struct Sending<'r> {
    parts: [&'r [u8]; 2],
    sent_bytes: usize,
}

impl Sending<'_> {
    fn is_done(&self) -> bool {
        self.sent_bytes == self.parts[0].len() + self.parts[1].len()
    }

    fn poll(&mut self, cx: &mut Context<'_>, stream: &mut Transport) -> Poll<io::Result<()>> {
        while !self.is_done() {
            let [head, body] = self.parts;
            let count = match self.sent_bytes.checked_sub(head.len()) {
                Some(of_body) => stream.poll_write(cx, &body[of_body..]),
                None => {
                    let slices = [io::IoSlice::new(&head[self.sent_bytes..]), io::IoSlice::new(body)];
                    stream.poll_write_vectored(cx, &slices)
                }
            };
            match count {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => self.sent_bytes += count,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// How the body of an answer is read.
enum AnswerBody {
    /// The head has not come.
    Unknown,
    Length(u64),
    Chunked(Box<Decoder>),
    UntilClose,
}

/// An answer that is being read.
struct OutboundAnswer {
    head: ResponseHead,
    wire: ResponseWire,
    to_head: bool,
    max_body_bytes: usize,
    /// Bytes of a head, or of a body's framing, that were not taken.
    input: Vec<u8>,
    framing: AnswerBody,
    body: Vec<u8>,
}

impl OutboundAnswer {
    fn new(to_head: bool, max_body_bytes: usize) -> OutboundAnswer {
        OutboundAnswer {
            head: ResponseHead::new(),
            wire: ResponseWire::default(),
            to_head,
            max_body_bytes,
            input: Vec::new(),
            framing: AnswerBody::Unknown,
            body: Vec::new(),
        }
    }

    /// Takes in bytes; true once the answer is whole.
    fn take(&mut self, bytes: &[u8]) -> Result<bool, ExchangeFault> {
        self.input.extend_from_slice(bytes);
        while matches!(self.framing, AnswerBody::Unknown) {
            let (head, wire) = (&mut self.head, &mut self.wire);
            let read =
                parse_upstream_response(&self.input, head, wire, &HeadLimits::OF_UPSTREAMS, self.to_head);
            match read.map_err(|error| ExchangeFault::Malformed(error.reason()))? {
                HeadStatus::Partial => return Ok(false),
                HeadStatus::Complete { head_bytes } => drop(self.input.drain(..head_bytes)),
            }
            if self.head.status == 101 {
                return Err(ExchangeFault::Malformed("it switched protocols unasked"));
            }
            // Interim responses end with the time of the call.
            if self.head.status >= 200 {
                self.framing = match self.wire.framing {
                    ResponseFraming::None => AnswerBody::Length(0),
                    ResponseFraming::Length(length) => AnswerBody::Length(length),
                    ResponseFraming::Chunked => AnswerBody::Chunked(Box::new(Decoder::lenient())),
                    ResponseFraming::UntilClose => AnswerBody::UntilClose,
                };
            } else {
                (self.head, self.wire) = (ResponseHead::new(), ResponseWire::default());
            }
        }
        self.take_body()
    }

    fn take_body(&mut self) -> Result<bool, ExchangeFault> {
        let mut input = &self.input[..];
        let is_whole = match &mut self.framing {
            AnswerBody::Unknown => false,
            AnswerBody::UntilClose => {
                self.body.extend_from_slice(input);
                input = &[];
                false
            }
            AnswerBody::Length(length) => {
                if *length > self.max_body_bytes as u64 {
                    return Err(ExchangeFault::TooLarge);
                }
                let missing = *length as usize - self.body.len();
                let taken = missing.min(input.len());
                self.body.extend_from_slice(&input[..taken]);
                input = &input[taken..];
                taken == missing
            }
            AnswerBody::Chunked(decoder) => loop {
                let step = decoder.decode(input).map_err(|error| ExchangeFault::Malformed(error.reason()))?;
                input = &input[step.consumed..];
                match step.piece {
                    Piece::Data(count) => {
                        if self.body.len() + count > self.max_body_bytes {
                            return Err(ExchangeFault::TooLarge);
                        }
                        self.body.extend_from_slice(&input[..count]);
                        input = &input[count..];
                        decoder.took(count);
                    }
                    Piece::More => break false,
                    Piece::End => break true,
                }
            },
        };
        if self.body.len() > self.max_body_bytes {
            return Err(ExchangeFault::TooLarge);
        }
        let taken = self.input.len() - input.len();
        self.input.drain(..taken);
        Ok(is_whole)
    }

    /// The peer has closed.
    fn end(&mut self) -> Result<(), ExchangeFault> {
        match self.framing {
            AnswerBody::UntilClose => Ok(()),
            AnswerBody::Unknown if self.input.is_empty() => {
                Err(ExchangeFault::Broken(io::Error::other("it closed without an answer")))
            }
            _ => Err(ExchangeFault::Broken(io::Error::other("it closed inside its answer"))),
        }
    }

    /// Whether the connection may carry another exchange behind this one.
    fn leaves_clean(&self) -> bool {
        let is_ambiguous = matches!(&self.framing, AnswerBody::Chunked(decoder) if decoder.is_ambiguous());
        self.wire.keep_alive && self.input.is_empty() && !is_ambiguous
    }

    fn into_response(self) -> OutboundResponse {
        let mut headers = Headers::new();
        for field in self.head.headers.iter().filter(|field| !field.hop_by_hop) {
            headers.push_raw(&field.name.to_ascii_lowercase(), field.value);
        }
        OutboundResponse { status: self.head.status, headers, body: self.body }
    }
}
