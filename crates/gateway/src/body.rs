//! What a message body is to the pipeline, whatever the protocol: events polled from a source, consumed as they are
//! passed on, and the two halves of an exchange as traits. HTTP/1 implements them in `h1`; HTTP/2 and HTTP/3 will meet
//! the pipeline here and nowhere else.

use std::io;
use std::task::{Context, Poll};

use message::{Headers, ResponseHead};

use exchange::Exchange;
use exchange::failure::{Blame, Failure, Sent};

/// The next thing a body has to say.
pub enum BodyEvent<'a> {
    /// Bytes; [`consume`](DownstreamStream::consume) says how many of them were taken.
    Data(&'a [u8]),
    /// The body is complete, with these trailers if there were any.
    End(Option<&'a Headers>),
    /// The body will never be complete.
    Reset(Failure),
}

/// How many bytes of a body to read for a peer, by what is known of how much it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// The peer takes all of them.
    Firm(usize),
    /// The peer may take fewer. A stream that can leave bytes with its sender does so until the rest was taken, because
    /// otherwise the gateway would have to hold them.
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
pub type PollCapacity<'r> = dyn FnMut(&mut Context<'_>) -> Poll<Result<Capacity, Failure>> + 'r;

/// How the length of a body that is about to be sent is told to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// There is none (HEAD, 204, 304, or a message without content).
    None,
    /// So many bytes.
    Known(u64),
    /// Not known before its end.
    Unknown,
}

/// The client's side of one exchange: its request body comes from here, its response goes here.
pub trait DownstreamStream {
    /// The next piece of the request body. The first call is what makes a waiting client send it (100-continue).
    fn poll_body<'a>(&'a mut self, cx: &mut Context<'_>) -> Poll<BodyEvent<'a>>;
    /// Takes `count` bytes of the last data event.
    fn consume(&mut self, count: usize);
    /// Whether there is a request body at all, and its length.
    fn body_length(&self) -> BodyLength;
    /// Starts the request body again, for another try; false if parts of it are gone.
    fn rewind(&mut self) -> bool;
    /// Passes an interim (1xx) response on.
    fn send_informational(&mut self, head: &ResponseHead);
    /// Starts the response: `exchange.response` with a body of `length`.
    fn start_response(&mut self, exchange: &mut Exchange, length: BodyLength);
    /// How to read the next piece of the response's body: waits while the client takes none, and holds no memory for it
    /// then. Asking may cost system calls, now and then.
    fn poll_capacity(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Capacity>>;
    /// How to read the response's head, behind which the body may begin: that waits for nobody.
    fn head_capacity(&self) -> Capacity;
    /// Takes some of `data`; how many bytes were taken.
    fn poll_data(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>>;
    /// Ends the response body; [`poll_flush`](DownstreamStream::poll_flush) sends what is left.
    fn finish(&mut self, trailers: Option<&Headers>);
    /// Sends what is waiting to be sent.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    /// Ready once the client is known to have gone away.
    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()>;
    /// Whether the client has gone away behind bytes of its request that have not been read, where
    /// [`poll_closed`](DownstreamStream::poll_closed) cannot see it. May cost a system call.
    fn has_closed_after_request(&mut self) -> bool;
    /// Whether the client has sent anything behind a request without a body. Before it was told of a switch of
    /// protocols, nobody can say which protocol such bytes belong to.
    fn has_sent_early_bytes(&mut self, cx: &mut Context<'_>) -> bool;
    /// Whether the head of the final response was started.
    fn response_started(&self) -> bool;
    /// Ends the connection after this exchange.
    fn close_afterwards(&mut self);
    /// Ends the exchange so that the client can tell that the response is cut, whose fault that may be.
    fn abort(&mut self, blame: Blame);
    /// Bytes of response sent to the client so far in this exchange.
    fn sent_bytes(&self) -> u64;
    /// Those of them that the client is known to have received; asking may cost a system call.
    fn delivered_bytes(&self) -> u64;
}

/// The node's side of one try: the request goes here, its response comes from here. A pool lends one of these; whether
/// it is a connection or one stream of a connection is the pool's business.
pub trait UpstreamStream {
    /// Starts the request described by the exchange.
    fn start_request(&mut self, exchange: &Exchange, length: BodyLength);
    /// Takes some of `data`; how many bytes were taken.
    fn poll_data(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>>;
    /// Ends the request body.
    fn finish(&mut self, trailers: Option<&Headers>);
    /// Sends what is waiting to be sent.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    /// The next response head, interim ones too, into `head`; `piece` says how to read.
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut ResponseHead,
        capacity: Capacity,
    ) -> Poll<Result<(), Failure>>;
    /// The fault of the part of a response head that has come, once no more is awaited: a head that comes in parts is not
    /// parsed at each of them. `head` is cleared.
    fn fault_in_head(&mut self, head: &mut ResponseHead) -> Option<Failure>;
    /// The next piece of the response body. Before more is read, `room` says how; while it waits, no memory is held for it.
    fn poll_body<'a>(&'a mut self, cx: &mut Context<'_>, room: &mut PollCapacity<'_>) -> Poll<BodyEvent<'a>>;
    /// The rest of the last data event is not taken for now: what need not be held is given back. An error is the
    /// node's.
    fn release(&mut self) -> Result<(), Failure>;
    /// Takes `count` bytes of the last data event.
    fn consume(&mut self, count: usize);
    /// How the length of the response body was told.
    fn body_length(&self) -> BodyLength;
    /// How far a failed try got.
    fn sent(&self) -> Sent;
    /// Whether an earlier exchange used the same connection, so that it may have been closed in the meantime.
    fn reused(&self) -> bool;
}
