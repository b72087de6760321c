//! A tunnel between two byte streams: forwards bytes both ways, with backpressure, until both sides have
//! closed. Each direction holds a buffer only while it has bytes, and at most a small one while its receiver
//! takes none.

use std::borrow::BorrowMut;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use stdx::buffer::{Buffer, LARGE_BYTES, SMALL_BYTES};

use crate::body::Capacity;
use crate::h1::peek_reader::PeekReader;
use exchange::deadline::{Deadline, Expired, StepTimer};
use net::env::{Pipe, Stream};
use net::transport::Transport;

/// One end of a tunnel, in any protocol.
pub(crate) trait TunnelEnd {
    /// Bytes that were read and not consumed.
    fn held(&self) -> &[u8];
    /// Takes `count` of the held bytes.
    fn consume(&mut self, count: usize);
    /// All held bytes were passed on.
    ///
    /// # Errors
    /// Bytes of the sender are lost.
    fn commit(&mut self) -> io::Result<()>;
    /// The other end takes no bytes: gives memory back as far as the sender can keep them.
    ///
    /// # Errors
    /// Those of [`TunnelEnd::commit`].
    fn release(&mut self) -> io::Result<()>;
    /// Reads on, when none are held; how many bytes are held then. 0 is the end of the stream.
    fn poll_fill(&mut self, cx: &mut Context<'_>, capacity: Capacity) -> Poll<io::Result<usize>>;
    /// Takes some of `data` to send it; how many bytes were taken.
    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>>;
    /// Waits until a write is likely to take something.
    fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    /// The socket, if bytes may be moved from and to it without a look at them.
    fn plain_socket(&mut self) -> Option<&mut Stream> {
        None
    }
    /// Tells the peer that nothing more is sent.
    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    /// Makes the end of this value show the peer that the stream was cut.
    fn reset_on_close(&mut self);
    /// Makes the end of this value show the peer that the stream has ended in order; a socket that is closed
    /// does.
    fn end_on_close(&mut self) {}
}

/// A connection that has left its protocol, and the bytes already read from it.
pub(crate) struct Duplex<S = Transport> {
    pub(crate) stream: S,
    pub(crate) buffer: Buffer,
}

impl<S> Duplex<S> {
    /// The end of a tunnel that it is.
    pub(crate) fn into_end(self) -> SocketEnd<S> {
        SocketEnd { stream: self.stream, reader: PeekReader::new(self.buffer) }
    }
}

/// The end of a tunnel that has a connection to itself.
pub(crate) struct SocketEnd<S> {
    stream: S,
    reader: PeekReader,
}

impl<S: BorrowMut<Transport>> TunnelEnd for SocketEnd<S> {
    #[inline]
    fn held(&self) -> &[u8] {
        self.reader.buffer.filled()
    }

    #[inline]
    fn consume(&mut self, count: usize) {
        self.reader.buffer.consume(count);
    }

    #[inline]
    fn commit(&mut self) -> io::Result<()> {
        self.reader.commit(self.stream.borrow_mut())
    }

    fn release(&mut self) -> io::Result<()> {
        self.reader.release(self.stream.borrow_mut())
    }

    #[inline]
    fn poll_fill(&mut self, cx: &mut Context<'_>, capacity: Capacity) -> Poll<io::Result<usize>> {
        self.reader.poll_fill(cx, self.stream.borrow_mut(), false, capacity)
    }

    #[inline]
    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.stream.borrow_mut().poll_write(cx, data)
    }

    fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.borrow_mut().poll_third_free(cx)
    }

    #[inline]
    fn plain_socket(&mut self) -> Option<&mut Stream> {
        match self.stream.borrow_mut() {
            Transport::Tcp(stream) => Some(stream),
            Transport::Tls(_) => None,
        }
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.borrow_mut().poll_shutdown(cx)
    }

    fn reset_on_close(&mut self) {
        self.stream.borrow().reset_on_close();
    }
}

/// Bytes that a tunnel has forwarded, and why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TunnelSummary {
    /// From the client to the endpoint.
    pub(crate) up_bytes: u64,
    /// From the endpoint to the client.
    pub(crate) down_bytes: u64,
    /// Why it ended.
    pub(crate) end: TunnelStop,
}

/// Why a tunnel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TunnelStop {
    /// Both directions have ended.
    Closed,
    /// The client's side failed.
    Client,
    /// The endpoint's side failed.
    Endpoint,
    /// No byte passed for the idle timeout.
    Idle,
    /// The time of the whole tunnel was over.
    Late,
}

/// The side of a direction that failed.
enum Broken {
    From,
    To,
}

/// One direction of a tunnel.
#[derive(Default)]
struct Way {
    /// The last read filled its buffer, so more than a single message is coming.
    is_bulk: bool,
    /// The writing side takes nothing.
    is_stuck: bool,
    /// The reading side has ended.
    ended: bool,
    /// The writing side was closed.
    closed: bool,
    /// Moves bytes of a bulk transfer between two plain sockets.
    pipe: Option<Pipe>,
    bytes: u64,
}

impl Way {
    /// How to read on. A single message is kept until it is taken; of a bulk transfer the bytes that are not
    /// taken stay in the kernel.
    fn piece(&self) -> Capacity {
        let most_bytes = if self.is_bulk { LARGE_BYTES } else { SMALL_BYTES };
        if self.is_bulk { Capacity::Estimate(most_bytes) } else { Capacity::Firm(most_bytes) }
    }

    /// Forwards bytes until one side has to wait; ready once the writing side was closed. `is_last` says that
    /// the other direction has ended before.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut impl TunnelEnd,
        to: &mut impl TunnelEnd,
        is_last: bool,
        moved: &mut bool,
    ) -> Poll<Result<(), Broken>> {
        let (of_from, of_to) = (|_: io::Error| Broken::From, |_: io::Error| Broken::To);
        loop {
            while !from.held().is_empty() {
                let written = to.poll_write(cx, from.held());
                self.is_stuck = written.is_pending();
                if self.is_stuck {
                    from.release().map_err(of_from)?;
                }
                let count = ready!(written).map_err(of_to)?;
                if count == 0 {
                    return Poll::Ready(Err(Broken::To));
                }
                from.consume(count);
                self.bytes += count as u64;
                *moved = true;
            }
            from.commit().map_err(of_from)?;
            if self.closed {
                return Poll::Ready(Ok(()));
            }
            if self.ended {
                // A socket that both directions are done with is closed next, which tells the peer as well.
                if !is_last || to.plain_socket().is_none() {
                    ready!(to.poll_shutdown(cx)).map_err(of_to)?;
                }
                self.closed = true;
                continue;
            }
            // Bytes in the pipe go before any that are read now, also when the transfer is no longer bulk.
            if self.pipe.is_some() || (self.is_bulk && self.takes_pipe(from, to)) {
                if ready!(self.poll_splice(cx, from, to, moved))? {
                    continue;
                }
                self.pipe = None;
            }
            if self.is_stuck {
                // Without held bytes no write can show whether the socket has capacity.
                ready!(to.poll_writable(cx)).map_err(of_to)?;
            }
            let piece = self.piece();
            let count = ready!(from.poll_fill(cx, piece)).map_err(of_from)?;
            self.ended = count == 0;
            self.is_bulk = count >= SMALL_BYTES;
        }
    }
}

/// Bytes that a move has to have for the next one to go through a pipe as well: below this, copying costs
/// less.
const SPLICE_MIN_BYTES: usize = 16 * 1_024;

impl Way {
    /// Whether bytes can be moved through a pipe, which is taken if there is none.
    fn takes_pipe(&mut self, from: &mut impl TunnelEnd, to: &mut impl TunnelEnd) -> bool {
        if self.pipe.is_none() && from.plain_socket().is_some() && to.plain_socket().is_some() {
            self.pipe = Pipe::take();
        }
        self.pipe.is_some()
    }

    /// Moves bytes through the pipe until one side has to wait. True if the reading side has ended; false if
    /// so little came that it is copied from now on.
    fn poll_splice(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut impl TunnelEnd,
        to: &mut impl TunnelEnd,
        moved: &mut bool,
    ) -> Poll<Result<bool, Broken>> {
        let (Some(from), Some(to)) = (from.plain_socket(), to.plain_socket()) else {
            return Poll::Ready(Ok(false));
        };
        while let Some(pipe) = &mut self.pipe {
            while pipe.held_bytes() > 0 {
                let written = to.poll_splice_out(cx, pipe);
                self.is_stuck = written.is_pending();
                let count = ready!(written).map_err(|_| Broken::To)?;
                if count == 0 {
                    return Poll::Ready(Err(Broken::To));
                }
                self.bytes += count as u64;
                *moved = true;
            }
            if !self.is_bulk {
                break;
            }
            let arrived = from.poll_splice_in(cx, pipe);
            if arrived.is_pending() {
                // A session that waits holds no descriptors.
                self.pipe = None;
            }
            let count = ready!(arrived).map_err(|_| Broken::From)?;
            self.ended = count == 0;
            self.is_bulk = count >= SPLICE_MIN_BYTES;
            if self.ended {
                return Poll::Ready(Ok(true));
            }
        }
        Poll::Ready(Ok(false))
    }
}

/// Both ends of a tunnel. If an error, a stop or a panic ends its task early, that must not look like the
/// orderly end of both directions. Only the kernel's close of a killed process does, because an option for
/// that costs each session four system calls.
struct TunnelEndPair<C: TunnelEnd, E: TunnelEnd> {
    client: C,
    endpoint: E,
    in_order: bool,
}

impl<C: TunnelEnd, E: TunnelEnd> Drop for TunnelEndPair<C, E> {
    fn drop(&mut self) {
        if self.in_order {
            self.client.end_on_close();
            self.endpoint.end_on_close();
        } else {
            self.client.reset_on_close();
            self.endpoint.reset_on_close();
        }
    }
}

/// A tunnel between two ends. See the module.
pub(crate) struct Tunnel<C: TunnelEnd, E: TunnelEnd> {
    ends: TunnelEndPair<C, E>,
    up: Way,
    down: Way,
    timer: StepTimer<()>,
    idle_timeout_ms: u64,
}

impl<C: TunnelEnd, E: TunnelEnd> Tunnel<C, E> {
    /// A tunnel that ends if no byte passed for `idle_timeout_ms`.
    pub(crate) fn new(client: C, endpoint: E, idle_timeout_ms: u64) -> Tunnel<C, E> {
        let ends = TunnelEndPair { client, endpoint, in_order: false };
        Tunnel {
            ends,
            up: Way::default(),
            down: Way::default(),
            timer: StepTimer::default(),
            idle_timeout_ms,
        }
    }

    /// Forwards bytes until both directions have ended, one of them failed, or the time is over.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, deadline: &Deadline) -> Poll<TunnelSummary> {
        let end = ready!(self.poll_end(cx, deadline));
        Poll::Ready(TunnelSummary { up_bytes: self.up.bytes, down_bytes: self.down.bytes, end })
    }

    fn poll_end(&mut self, cx: &mut Context<'_>, deadline: &Deadline) -> Poll<TunnelStop> {
        let mut moved = false;
        let Tunnel { ends: TunnelEndPair { client, endpoint, in_order }, up, down, timer, idle_timeout_ms } =
            self;
        let up_done = up.poll(cx, client, endpoint, down.closed, &mut moved);
        let down_done = down.poll(cx, endpoint, client, up.closed, &mut moved);
        match (up_done, down_done) {
            (Poll::Ready(Err(Broken::From)), _) | (_, Poll::Ready(Err(Broken::To))) => {
                return Poll::Ready(TunnelStop::Client);
            }
            (Poll::Ready(Err(Broken::To)), _) | (_, Poll::Ready(Err(Broken::From))) => {
                return Poll::Ready(TunnelStop::Endpoint);
            }
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => {
                *in_order = true;
                return Poll::Ready(TunnelStop::Closed);
            }
            _ => {}
        }
        match timer.wait(deadline, cx, (), *idle_timeout_ms, moved) {
            Ok(()) => Poll::Pending,
            Err(expired) => {
                // The idle timeout closes in order, unless a side holds bytes that the other does not take.
                *in_order = !up.is_stuck && !down.is_stuck;
                let is_late = expired == Expired::Cap || deadline.is_overdue();
                Poll::Ready(if is_late { TunnelStop::Late } else { TunnelStop::Idle })
            }
        }
    }
}

/// Runs a tunnel to its end.
pub(crate) async fn run_tunnel(
    deadline: &Deadline,
    client: impl TunnelEnd,
    endpoint: impl TunnelEnd,
    idle_timeout_ms: u64,
) -> TunnelSummary {
    let mut tunnel = Tunnel::new(client, endpoint, idle_timeout_ms);
    poll_fn(|cx| tunnel.poll(cx, deadline)).await
}

#[cfg(all(test, not(feature = "simulation")))]
mod tests;
