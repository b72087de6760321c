//! A tunnel between two byte streams: bytes pass both ways as they come, with backpressure, until both sides have closed.
//! Each way holds a buffer only while it has bytes in it, and a small one at most while its receiver takes none.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use stdx::buffer::{Buffer, LARGE_BYTES, SMALL_BYTES};

use crate::body::Capacity;
use crate::h1::peek_reader::PeekReader;
use exchange::deadline::{Deadline, StepTimer};
use net::transport::Transport;

/// One end of a tunnel: a connection that has left its protocol, and the bytes already read from it.
pub(crate) struct Duplex<S = Transport> {
    pub(crate) stream: S,
    pub(crate) buffer: Buffer,
}

/// Bytes that a tunnel has passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// From the client to the endpoint.
    pub(crate) up_bytes: u64,
    /// From the endpoint to the client.
    pub(crate) down_bytes: u64,
}

/// One way of a tunnel.
struct Way {
    reader: PeekReader,
    /// The last read brought all it could, so more is coming than a message.
    is_bulk: bool,
    /// The writing side takes nothing.
    is_stuck: bool,
    /// The reading side is at its end.
    ended: bool,
    /// The writing side was told so.
    closed: bool,
    bytes: u64,
}

impl Way {
    fn new(buffer: Buffer) -> Way {
        let reader = PeekReader::new(buffer);
        Way { reader, is_bulk: false, is_stuck: false, ended: false, closed: false, bytes: 0 }
    }

    /// How to read on: a message is kept until it is taken, of much only what was taken is not left where it is.
    fn piece(&self) -> Capacity {
        let most_bytes = if self.is_bulk { LARGE_BYTES } else { SMALL_BYTES };
        if self.is_bulk { Capacity::Estimate(most_bytes) } else { Capacity::Firm(most_bytes) }
    }

    /// Moves bytes until one side has to wait; ready once the writing side was closed.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut Transport,
        to: &mut Transport,
        moved: &mut bool,
    ) -> Poll<io::Result<()>> {
        loop {
            while !self.reader.buffer.is_empty() {
                let written = to.poll_write(cx, self.reader.buffer.filled());
                self.is_stuck = written.is_pending();
                if self.is_stuck {
                    self.reader.release(from)?;
                }
                let count = ready!(written)?;
                if count == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.reader.buffer.consume(count);
                self.bytes += count as u64;
                *moved = true;
            }
            self.reader.commit(from)?;
            if self.closed {
                return Poll::Ready(Ok(()));
            }
            if self.ended {
                ready!(to.poll_shutdown(cx))?;
                self.closed = true;
                continue;
            }
            if self.is_stuck {
                // Nothing is held that a write could be tried with.
                ready!(to.poll_third_free(cx))?;
            }
            let piece = self.piece();
            let count = ready!(self.reader.poll_fill(cx, from, false, piece))?;
            self.ended = count == 0;
            self.is_bulk = count >= SMALL_BYTES;
        }
    }
}

/// Runs the tunnel until both ways have ended, one of them failed, or nothing passed for `idle_timeout_ms`.
pub(crate) async fn run(
    deadline: &Deadline,
    client: Duplex<&mut Transport>,
    endpoint: Duplex,
    idle_timeout_ms: u64,
) -> Passed {
    let (mut up, mut down) = (Way::new(client.buffer), Way::new(endpoint.buffer));
    let (client, mut endpoint) = (client.stream, endpoint.stream);
    let mut timer = StepTimer::default();
    // An error, a stop or a panic that ends this task early must not look like the end of both ways.
    client.reset_on_close();
    endpoint.reset_on_close();
    let in_order = poll_fn(|cx| {
        let mut moved = false;
        let up_done = up.poll(cx, client, &mut endpoint, &mut moved);
        let down_done = down.poll(cx, &mut endpoint, client, &mut moved);
        match (up_done, down_done) {
            (Poll::Ready(Err(_)), _) | (_, Poll::Ready(Err(_))) => return Poll::Ready(false),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => return Poll::Ready(true),
            _ => {}
        }
        match timer.wait(deadline, cx, (), idle_timeout_ms, moved) {
            Ok(()) => Poll::Pending,
            // In order, unless a side holds bytes that the other does not take.
            Err(_) => Poll::Ready(!up.is_stuck && !down.is_stuck),
        }
    })
    .await;
    if in_order {
        client.end_on_close();
        endpoint.end_on_close();
    }
    Passed { up_bytes: up.bytes, down_bytes: down.bytes }
}
