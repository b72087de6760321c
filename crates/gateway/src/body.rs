//! The three stream traits between the pipeline and the protocols: the body of a request, the response to it,
//! and the upstream side of an attempt. Bodies are events polled from a stream and consumed as they are
//! passed on. A protocol meets the pipeline here and nowhere else.

use std::io;
use std::task::{Context, Poll};

use message::{Headers, ResponseHead};
use stdx::segment::ByteSegment;

use exchange::Exchange;
use exchange::failure::{Blame, ExchangeFailure, Sent};

/// Bytes that may wait for a client when an interim response is added to them; further interim responses are
/// dropped. An endpoint may repeat them for hours, and a client that does not read must not make the gateway
/// hold them.
pub(crate) const INTERIM_WAITING_MAX_BYTES: usize = 256 * 1024;

pub enum BodyEvent<'a> {
    /// Bytes; [`consume`](RequestBody::consume) says how many of them were taken.
    Data(&'a [u8]),
    /// The body is complete, with these trailers if there were any.
    End(Option<&'a Headers>),
    /// The body will never be complete.
    Reset(ExchangeFailure),
}

/// How many bytes of a body to read for a peer, by what is known of how much it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// The peer takes all of them.
    Firm(usize),
    /// The peer may take fewer. A stream that can leave bytes with its sender does so until the rest was
    /// taken, because otherwise the gateway would have to hold them.
    Estimate(usize),
}

impl Capacity {
    /// No limit, for a reader that takes everything.
    pub const WHOLE: Capacity = Capacity::Firm(usize::MAX);

    /// The number of bytes.
    #[inline]
    pub fn bytes(self) -> usize {
        match self {
            Capacity::Firm(bytes) | Capacity::Estimate(bytes) => bytes,
        }
    }

    /// Whether all of them will be taken.
    #[inline]
    pub fn is_firm(self) -> bool {
        matches!(self, Capacity::Firm(_))
    }
}

/// Gives the capacity for the next read, or waits while the peer that the bytes are for takes none.
pub type PollCapacity<'r> = dyn FnMut(&mut Context<'_>) -> Poll<Result<Capacity, ExchangeFailure>> + 'r;

/// The length of a body as its head announces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// There is none (HEAD, 204, 304, or a message without content).
    None,
    /// This many bytes.
    Known(u64),
    /// Not known before its end.
    Unknown,
}

/// The body of one request, as its protocol receives it.
pub trait RequestBody {
    /// The next piece of the body. The first call sends 100 (Continue) to a client that waits for it.
    fn poll_body<'a>(&'a mut self, cx: &mut Context<'_>) -> Poll<BodyEvent<'a>>;
    /// Takes `count` bytes of the last data event.
    fn consume(&mut self, count: usize);
    /// Whether there is a body at all, and its length.
    fn body_length(&self) -> BodyLength;
    /// Starts the body again, for another attempt; false if parts of it are gone.
    fn rewind(&mut self) -> bool;

    /// As [`UpstreamStream::take_segment`], of a body that cannot be sent again anyway.
    fn take_segment(&mut self, _count: usize) -> Option<ByteSegment> {
        None
    }
}

/// The response to one request, as its protocol sends it. The methods with a default are for protocols that
/// own their connection: HTTP/1 over TCP.
pub trait ResponseSink {
    /// Passes an interim (1xx) response on.
    fn send_informational(&mut self, head: &ResponseHead);
    /// Starts the response: `exchange.response` with a body of `length`.
    fn start_response(&mut self, exchange: &Exchange, length: BodyLength);
    /// The capacity for the next piece of the body: waits while the client takes none, and holds no memory
    /// for it then. May cost system calls, now and then.
    fn poll_capacity(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Capacity>>;
    /// Takes some of `data`; returns the number of bytes taken.
    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>>;
    /// Ends the body; [`poll_flush`](ResponseSink::poll_flush) sends the rest.
    fn finish(&mut self, trailers: Option<&Headers>);
    /// Writes the bytes that wait to the socket.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    /// Ready once the client is known to have gone away.
    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()>;
    /// Ends the exchange so that the client can tell that the response is cut; `blame` names the side at
    /// fault.
    fn abort(&mut self, blame: Blame);
    /// How far the response has come.
    fn progress(&self) -> ResponseProgress;

    /// Whether `count` bytes of the body, at least
    /// [`SEGMENT_LEAST_BYTES`](stdx::segment::SEGMENT_LEAST_BYTES), should be handed over with their memory,
    /// and all of them can be now. Where a write copies no bytes into memory of its own there is no reason
    /// to.
    #[inline]
    fn takes_segment(&mut self, _count: usize) -> bool {
        false
    }

    /// Takes bytes of the body with their memory, all of them, as
    /// [`takes_segment`](ResponseSink::takes_segment) has allowed it just before.
    fn write_segment(&mut self, _cx: &mut Context<'_>, _segment: ByteSegment) -> io::Result<()> {
        debug_assert!(false, "a segment for a stream that takes none");
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The capacity for a response head and the bytes that come with it. Never waits.
    fn head_capacity(&self) -> Capacity {
        Capacity::WHOLE
    }

    /// Response bytes that the client is known to have received. May cost a system call.
    fn delivered_bytes(&self) -> u64 {
        self.progress().sent_bytes
    }

    /// Whether the client has gone away behind bytes of its request that have not been read, where
    /// [`poll_closed`](ResponseSink::poll_closed) cannot see it. May cost a system call.
    fn has_closed_after_request(&mut self) -> bool {
        false
    }

    /// Whether the connection may leave HTTP after this response (RFC 9110 section 7.8): the exchange has it
    /// to itself, and the client has sent nothing behind its request, because such bytes might belong to
    /// either protocol.
    fn can_switch_protocols(&mut self, _cx: &mut Context<'_>) -> bool {
        false
    }

    /// Whether a final response other than a refusal has to switch protocols: the request is an extended
    /// CONNECT (RFC 8441), and a 2xx response to it opens a tunnel.
    fn must_switch_protocols(&self) -> bool {
        false
    }

    /// Whether the client is certain to take no response. After [`poll_closed`](ResponseSink::poll_closed)
    /// alone it may have closed its sending side only.
    fn is_gone(&self) -> bool {
        false
    }

    /// Takes the response back that was started: true if no byte of it has left the gateway, so that another
    /// response can be started in its place.
    fn take_back_response(&mut self) -> bool {
        false
    }

    /// Ends the exchange without any response: the connection of HTTP/1 is closed, the stream of another
    /// protocol reset.
    fn leave_unanswered(&mut self) {
        self.abort(Blame::Client);
    }

    /// Ends the connection after this exchange, because the rest of the request cannot be found on it.
    fn close_afterwards(&mut self) {}
}

/// How far a response has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseProgress {
    /// Whether the head of the final response was started.
    pub has_started: bool,
    /// Bytes sent to the client in this exchange.
    pub sent_bytes: u64,
}

/// The downstream side of one exchange.
pub trait DownstreamStream: RequestBody + ResponseSink {}

impl<T: RequestBody + ResponseSink> DownstreamStream for T {}

/// The upstream side of one attempt: the request goes here, its response comes from here. The upstream
/// service checks it out, and knows whether it is a connection or one stream of a connection.
pub trait UpstreamStream {
    /// Starts the request described by the exchange.
    fn start_request(&mut self, exchange: &Exchange, length: BodyLength);
    /// Takes some of `data`; returns the number of bytes taken.
    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>>;
    /// Ends the request body.
    fn finish(&mut self, trailers: Option<&Headers>);
    /// Writes the bytes that wait to the socket.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// As [`ResponseSink::takes_segment`], of the request body.
    #[inline]
    fn takes_segment(&mut self, _count: usize) -> bool {
        false
    }

    /// As [`ResponseSink::write_segment`], of the request body.
    fn write_segment(&mut self, _segment: ByteSegment) -> io::Result<()> {
        debug_assert!(false, "a segment for a stream that takes none");
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The next response head, interim ones too, into `head`; `capacity` says how much to read.
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut ResponseHead,
        capacity: Capacity,
    ) -> Poll<Result<(), ExchangeFailure>>;
    /// The next piece of the response body. Before more is read, `capacity` is asked how much; while it
    /// waits, no memory is held for it.
    fn poll_body<'a>(
        &'a mut self,
        cx: &mut Context<'_>,
        capacity: &mut PollCapacity<'_>,
    ) -> Poll<BodyEvent<'a>>;
    /// Takes `count` bytes of the last data event.
    fn consume(&mut self, count: usize);
    /// How the length of the response body was announced.
    fn body_length(&self) -> BodyLength;
    /// Consumes all `count` bytes of the last data event and hands them over with their memory. None if they
    /// are not alone in it or leave most of it empty: they have to be copied then, and the event comes again.
    fn take_segment(&mut self, _count: usize) -> Option<ByteSegment> {
        None
    }
    /// Tells the stream that the rest of the last data event is not taken for now: releases the memory behind
    /// it as far as the kernel or the endpoint can keep the bytes. An error is the endpoint's.
    fn pause(&mut self) -> Result<(), ExchangeFailure>;
    /// How far a failed attempt got.
    fn progress(&self) -> AttemptProgress;

    /// The fault in the part of a response head that has arrived. Called when the gateway stops waiting for
    /// the rest, because an incomplete head is not parsed at each part. `head` is cleared.
    fn fault_in_head(&mut self, _head: &mut ResponseHead) -> Option<ExchangeFailure> {
        None
    }

    /// The fault in the part of the response body that arrived with its head. It is asked before the response
    /// is started downstream, so that a response without a readable body becomes a 502 and not a cut
    /// response. It reads nothing.
    fn fault_at_body_start(&mut self) -> Option<ExchangeFailure> {
        None
    }
}

/// How far an attempt has come at its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptProgress {
    /// How much of the request the endpoint may have seen.
    pub sent: Sent,
    /// Whether an earlier exchange used the same connection, so that it may have been closed in the meantime.
    pub is_reused: bool,
}
