//! The client's direction of a request stream: from the bytes of the transport to the head, the content and
//! the end of the request. It knows no response.

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http3::{ErrorCode, Fault, RequestEvent, RequestInfo, RequestReader};
use message::{Headers, RequestHead};
use quinn::{ReadError, RecvStream};

use super::link::{H3Link, number};
use net::quic::Guarded;

/// Most bytes that are read from the transport at once.
const READ_BYTES: usize = 64 * 1024;

/// How the client's direction has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reset {
    /// The client reset the stream with this code.
    Client(u64),
    /// The client broke a rule of the stream or of the connection.
    Fault(ErrorCode, &'static str),
    /// The connection is gone.
    Lost,
}

impl Reset {
    /// It in words, for the log.
    pub(super) fn text(self) -> String {
        match self {
            Reset::Client(code) => format!("the client reset the stream ({})", ErrorCode(code)),
            Reset::Fault(code, reason) => format!("{reason} ({code})"),
            Reset::Lost => "the connection is gone".to_owned(),
        }
    }
}

/// A part of the request.
#[derive(Debug)]
pub(super) enum RequestPart {
    Head,
    HeadTooLarge,
    Data(Bytes),
    End,
    /// The direction has ended without a whole request; `Incoming::end` says why.
    Cut,
}

/// See the module.
pub(super) struct Incoming {
    link: Rc<H3Link>,
    stream: Guarded<RecvStream>,
    reader: RequestReader,
    /// Received bytes that were not read.
    chunk: Bytes,
    /// The end, once it is here.
    end: Option<Result<(), Reset>>,
    /// Bytes of the stream that were read.
    read_bytes: u64,
}

impl Incoming {
    pub(super) fn new(link: Rc<H3Link>, stream: Guarded<RecvStream>, reader: RequestReader) -> Incoming {
        Incoming { link, stream, reader, chunk: Bytes::new(), end: None, read_bytes: 0 }
    }

    /// The next part of the request.
    pub(super) fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<RequestPart> {
        loop {
            match self.end {
                Some(Ok(())) => return Poll::Ready(RequestPart::End),
                Some(Err(_)) => return Poll::Ready(RequestPart::Cut),
                None => {}
            }
            if self.chunk.is_empty() {
                ready!(self.poll_chunk(cx));
                continue;
            }
            let step = self.reader.read(&mut self.link.engine(), &self.chunk);
            let step = match step {
                Ok(step) => step,
                Err(fault) => {
                    self.fault(fault);
                    continue;
                }
            };
            let read = self.chunk.split_to(step.consumed);
            self.read_bytes += read.len() as u64;
            match step.event {
                Some(RequestEvent::Head) => return Poll::Ready(RequestPart::Head),
                Some(RequestEvent::HeadTooLarge) => return Poll::Ready(RequestPart::HeadTooLarge),
                Some(RequestEvent::Data(range)) => return Poll::Ready(RequestPart::Data(read.slice(range))),
                None => {}
            }
        }
    }

    /// Reads from the transport; ready if there is a chunk, or the end.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let chunk = self.stream.call(|stream| pin!(stream.read_chunk(READ_BYTES, true)).poll(cx));
        match ready!(chunk.unwrap_or(Poll::Ready(Err(ReadError::ClosedStream)))) {
            Ok(Some(chunk)) => self.chunk = chunk.bytes,
            Ok(None) => {
                let finished = self.reader.finish(&mut self.link.engine());
                match finished {
                    Ok(()) => self.end = Some(Ok(())),
                    Err(fault) => self.fault(fault),
                }
            }
            Err(ReadError::Reset(code)) => {
                self.link.note_reset();
                self.end = Some(Err(Reset::Client(code.into_inner())));
            }
            Err(_) => self.end = Some(Err(Reset::Lost)),
        }
        Poll::Ready(())
    }

    fn fault(&mut self, fault: Fault) {
        self.end = Some(Err(Reset::Fault(fault.code(), fault.reason())));
        self.chunk = Bytes::new();
        if let Fault::Connection(error) = fault {
            self.link.fail(error);
        }
    }

    /// Moves the request's head into `head`.
    pub(super) fn take_request(&mut self, head: &mut RequestHead) -> Option<RequestInfo> {
        self.reader.take_request(head)
    }

    /// Moves the trailers into `headers`; false if there are none.
    pub(super) fn take_trailers(&mut self, headers: &mut Headers) -> bool {
        self.reader.take_trailers(headers)
    }

    /// Bytes of the stream that were read.
    pub(super) fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// How the direction has ended; none while it is open.
    pub(super) fn end(&self) -> Option<Result<(), Reset>> {
        self.end
    }

    /// The fault of the client that has ended the direction, if that is its end.
    pub(super) fn fault_reason(&self) -> Option<&'static str> {
        match self.end {
            Some(Err(Reset::Fault(_, reason))) => Some(reason),
            _ => None,
        }
    }

    /// Tells the client that the rest of the request is not read.
    pub(super) fn stop(&mut self, code: ErrorCode) {
        if self.end.is_none() {
            self.stream.call(|stream| stream.stop(number(code)));
        }
    }
}
