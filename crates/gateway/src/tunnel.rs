//! A tunnel between two byte streams: forwards bytes both ways, with backpressure, until both sides have closed. Each
//! direction holds a buffer only while it has bytes, and at most a small one while its receiver takes none.

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

/// Bytes that a tunnel has forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// From the client to the endpoint.
    pub(crate) up_bytes: u64,
    /// From the endpoint to the client.
    pub(crate) down_bytes: u64,
}

/// One direction of a tunnel.
struct Way {
    reader: PeekReader,
    /// The last read filled its buffer, so more than a single message is coming.
    is_bulk: bool,
    /// The writing side takes nothing.
    is_stuck: bool,
    /// The reading side has ended.
    ended: bool,
    /// The writing side was closed.
    closed: bool,
    bytes: u64,
}

impl Way {
    fn new(buffer: Buffer) -> Way {
        let reader = PeekReader::new(buffer);
        Way { reader, is_bulk: false, is_stuck: false, ended: false, closed: false, bytes: 0 }
    }

    /// How to read on. A single message is kept until it is taken; of a bulk transfer the bytes that are not taken stay
    /// in the kernel.
    fn piece(&self) -> Capacity {
        let most_bytes = if self.is_bulk { LARGE_BYTES } else { SMALL_BYTES };
        if self.is_bulk { Capacity::Estimate(most_bytes) } else { Capacity::Firm(most_bytes) }
    }

    /// Forwards bytes until one side has to wait; ready once the writing side was closed.
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
                // Without held bytes no write can show whether the socket has capacity.
                ready!(to.poll_third_free(cx))?;
            }
            let piece = self.piece();
            let count = ready!(self.reader.poll_fill(cx, from, false, piece))?;
            self.ended = count == 0;
            self.is_bulk = count >= SMALL_BYTES;
        }
    }
}

/// Runs the tunnel until both directions have ended, one of them failed, or no byte passed for `idle_timeout_ms`.
pub(crate) async fn run(
    deadline: &Deadline,
    client: Duplex<&mut Transport>,
    endpoint: Duplex,
    idle_timeout_ms: u64,
) -> Passed {
    let (mut up, mut down) = (Way::new(client.buffer), Way::new(endpoint.buffer));
    let (client, mut endpoint) = (client.stream, endpoint.stream);
    let mut timer = StepTimer::default();
    // If an error, a stop or a panic ends this task early, that must not look like the orderly end of both directions.
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
            // The idle timeout closes in order, unless a side holds bytes that the other does not take.
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
