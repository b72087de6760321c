//! The request body of the attempts of one exchange: the prefix that was read before an endpoint was
//! selected, followed by the client's stream. Retries of a small body send this prefix again, whatever the
//! protocol.

use std::rc::Rc;
use std::task::{Context, Poll};

use stdx::segment::ByteSegment;

use crate::body::{BodyEvent, BodyLength, RequestBody};
use exchange::exchange::body::{BodyPrefix, ReadBody};

/// A body that may begin with a prefix. Without a prefix every call goes to the client's stream.
pub(super) struct ReplayedBody {
    prefix: Option<BodyPrefix>,
    /// How many bytes of the prefix this attempt has sent.
    cursor: usize,
    /// Bytes after the prefix were taken from the client; the body cannot be sent again.
    rest_taken: bool,
}

impl ReplayedBody {
    /// The body of an exchange, of which `body` was read already.
    #[inline]
    pub(super) fn new(body: &mut ReadBody) -> ReplayedBody {
        ReplayedBody { prefix: body.pass_on(), cursor: 0, rest_taken: false }
    }

    /// The next piece of the body.
    #[inline]
    pub(super) fn poll<'a, S: RequestBody>(
        &'a mut self,
        cx: &mut Context<'_>,
        stream: &'a mut S,
    ) -> Poll<BodyEvent<'a>> {
        let Some(prefix) = &self.prefix else { return stream.poll_body(cx) };
        let rest = &prefix.bytes[self.cursor..];
        if !rest.is_empty() {
            return Poll::Ready(BodyEvent::Data(rest));
        }
        if prefix.goes_on {
            return stream.poll_body(cx);
        }
        Poll::Ready(BodyEvent::End(prefix.trailers.as_deref()))
    }

    /// Takes `count` bytes of the last piece.
    #[inline]
    pub(super) fn consume<S: RequestBody>(&mut self, count: usize, stream: &mut S) {
        match &mut self.prefix {
            Some(prefix) if self.cursor < prefix.bytes.len() => self.cursor += count,
            prefix => {
                if let (Some(prefix), false) = (prefix, self.rest_taken) {
                    // The body cannot be sent again, so the prefix is no longer needed.
                    self.rest_taken = true;
                    prefix.bytes = Rc::from([]);
                    self.cursor = 0;
                }
                stream.consume(count);
            }
        }
    }

    /// As [`RequestBody::take_segment`]; the prefix is none.
    pub(super) fn take_segment<S: RequestBody>(
        &mut self,
        count: usize,
        stream: &mut S,
    ) -> Option<ByteSegment> {
        match &self.prefix {
            Some(prefix) if self.cursor < prefix.bytes.len() => None,
            // The stream's first bytes behind a prefix make it superfluous, which `consume` notes.
            Some(_) if !self.rest_taken => None,
            _ => stream.take_segment(count),
        }
    }

    /// Whether all of the body lies in memory.
    pub(super) fn is_whole(&self) -> bool {
        self.prefix.as_ref().is_some_and(|prefix| !prefix.goes_on)
    }

    /// Begins the body with `bytes`, which are all that was sent of it; the client's stream follows.
    pub(super) fn begin_with(&mut self, bytes: Vec<u8>) {
        self.prefix = Some(BodyPrefix { bytes: bytes.into(), trailers: None, goes_on: true });
        self.cursor = 0;
        self.rest_taken = false;
    }

    /// The length of the body.
    #[inline]
    pub(super) fn length<S: RequestBody>(&self, stream: &S) -> BodyLength {
        let Some(prefix) = &self.prefix else { return stream.body_length() };
        match (stream.body_length(), prefix.bytes.len()) {
            // Only a body of unknown length can have trailers.
            (length, _) if prefix.goes_on || prefix.trailers.is_some() => length,
            // A request that had no body and was given none stays without one.
            (BodyLength::None, 0) => BodyLength::None,
            (_, length) => BodyLength::Known(length as u64),
        }
    }

    /// Starts the body again; false if parts of it are gone.
    pub(super) fn rewind<S: RequestBody>(&mut self, stream: &mut S) -> bool {
        self.cursor = 0;
        if self.prefix.is_some() { !self.rest_taken } else { stream.rewind() }
    }
}
