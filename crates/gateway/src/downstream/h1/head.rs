//! Reading the head of a request on an HTTP/1 connection. A client that sends it in parts holds a buffer for
//! its bytes, and no exchange.

use std::future::poll_fn;
use std::task::{Context, Poll};

use http1::{HeadError, HeadStatus, RequestWire, is_still_partial, parse_request};
use message::HeadLimits;
use stdx::buffer::Buffer;

use super::connection::{H1Connection, PartialHead};
use super::timer::ConnectionTimer;
use exchange::Exchange;
use exchange::failure::{Cause, ExchangeFailure};

impl H1Connection {
    /// Reads on until the head may be complete, cannot become complete, or is late: only then an exchange is
    /// taken for it. False when the connection is over.
    pub(super) fn poll_rest_of_head(&mut self, cx: &mut Context<'_>, timer: &ConnectionTimer) -> Poll<bool> {
        let limits = &timer.context.local.options.limits.head;
        let (Some(partial), Some(input)) = (&mut self.partial, &mut self.input) else {
            return Poll::Ready(true);
        };
        loop {
            make_room(input, limits);
            match self.stream.poll_read(cx, input.spare_mut()) {
                Poll::Ready(Ok(count @ 1..)) => {
                    input.advance(count);
                    if !is_still_partial(input.filled(), &mut partial.scanned_bytes, limits) {
                        return Poll::Ready(true);
                    }
                }
                // The next read returns the end of the stream again, and the exchange reports it.
                Poll::Ready(Ok(_)) => return Poll::Ready(true),
                Poll::Ready(Err(_)) => return Poll::Ready(false),
                Poll::Pending if timer.gives_way() => return Poll::Ready(false),
                Poll::Pending if timer.deadline.expired() => return Poll::Ready(true),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

/// The result of reading where a request was expected.
pub(super) enum Arrived {
    /// A complete head.
    Head(RequestWire),
    /// A part of a head; the connection keeps it.
    Part,
    /// Nothing yet.
    Nothing,
    /// The connection has ended.
    End,
    /// The preface of HTTP/2, or the part of it that shows what it is; the connection keeps all bytes.
    Http2,
}

/// The start of the preface of HTTP/2 (RFC 9113 section 3.4) up to the end of what looks like a request head.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";
/// As much of it as the parser of HTTP/1 has to see at least to refuse it.
const HTTP2_PREFACE_LEAST: usize = b"PRI * HTTP/2".len();

/// Whether the bytes that a fresh connection begins with, and that are no head of HTTP/1, are the preface of
/// HTTP/2.
#[cold]
fn is_http2(input: &[u8]) -> bool {
    let length = input.len().min(HTTP2_PREFACE.len());
    length >= HTTP2_PREFACE_LEAST && input[..length] == HTTP2_PREFACE[..length]
}

/// Reads one request's head, once it has begun to arrive. A client that sends it in parts holds no exchange
/// while the rest is on its way.
pub(super) async fn read_head(
    timer: &ConnectionTimer,
    connection: &mut H1Connection,
    exchange: &mut Exchange,
) -> Result<Arrived, ExchangeFailure> {
    let local = &timer.context.local;
    let limits = &local.options.limits;
    let mut input = connection.input.take().unwrap_or_else(H1Connection::take_input);
    let before = connection.partial.take();
    let mut wire = RequestWire::default();
    exchange.times.started_ns = before.map_or_else(|| local.clock_ns(), |partial| partial.started_ns);
    let result = poll_fn(|cx| {
        loop {
            if !input.filled().is_empty() {
                match parse_request(input.filled(), &mut exchange.request, &mut wire, &limits.head) {
                    Ok(HeadStatus::Complete { head_bytes }) => {
                        input.consume(head_bytes);
                        exchange.stats.request_bytes = head_bytes as u64;
                        return Poll::Ready(Ok(Arrived::Head(wire)));
                    }
                    Ok(HeadStatus::Partial) => make_room(&mut input, &limits.head),
                    Err(_) if connection.takes_http2() && is_http2(input.filled()) => {
                        return Poll::Ready(Ok(Arrived::Http2));
                    }
                    Err(error) => return Poll::Ready(Err(head_failure(&error))),
                }
            }
            match connection.stream.poll_read_at_once(cx, input.spare_mut()) {
                Poll::Ready(Ok(0)) if input.filled().is_empty() => return Poll::Ready(Ok(Arrived::End)),
                Poll::Ready(Ok(0)) => {
                    // Bytes that came since the first look may be malformed, so that all of them are parsed
                    // again.
                    exchange.request.clear();
                    wire = RequestWire::default();
                    let failure =
                        match parse_request(input.filled(), &mut exchange.request, &mut wire, &limits.head) {
                            Err(error) => head_failure(&error),
                            Ok(_) => ExchangeFailure::new(
                                Cause::BadRequest,
                                "the connection closed inside the request head",
                            ),
                        };
                    return Poll::Ready(Err(failure));
                }
                Poll::Ready(Ok(count)) => input.advance(count),
                Poll::Ready(Err(_)) => return Poll::Ready(Ok(Arrived::End)),
                // The event loop reports every new connection as readable, so this one goes back to waiting,
                // without a buffer.
                Poll::Pending if input.filled().is_empty() => return Poll::Ready(Ok(Arrived::Nothing)),
                Poll::Pending if before.is_some() && timer.deadline.expired() => {
                    let detail = "the request head did not arrive in time";
                    return Poll::Ready(Err(ExchangeFailure::new(Cause::HeadTimeout, detail)));
                }
                Poll::Pending => {
                    if before.is_none() {
                        timer.deadline.set(cx, limits.head_timeout_ms);
                    }
                    let started_ns = exchange.times.started_ns;
                    let scanned_bytes = input.filled().len();
                    connection.partial = Some(PartialHead { started_ns, scanned_bytes });
                    return Poll::Ready(Ok(Arrived::Part));
                }
            }
        }
    })
    .await;
    connection.input = Some(input);
    result
}

/// Makes room for more of a head: first by dropping the bytes of earlier requests, then by doubling the
/// buffer.
fn make_room(input: &mut Buffer, limits: &HeadLimits) {
    if input.spare_mut().is_empty() {
        input.compact();
    }
    if input.is_full() {
        input.double_to(limits.max_head_bytes + 1);
    }
}

fn head_failure(error: &HeadError) -> ExchangeFailure {
    let cause = match error.status() {
        413 => Cause::BodyTooLarge,
        414 => Cause::LineTooLong,
        417 => Cause::ExpectationFailed,
        431 => Cause::HeadTooLarge,
        501 => Cause::NotImplemented,
        505 => Cause::VersionNotSupported,
        _ => Cause::BadRequest,
    };
    ExchangeFailure::new(cause, error.reason())
}
