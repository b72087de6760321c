//! What follows a 101: bytes pass both ways as they come, with back-pressure, until both sides have closed. Each way
//! holds a buffer only while it has bytes in it, and a small one at most while nobody takes them. It understands none of
//! them.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use stdx::buffer::{Buffer, LARGE_BYTES, SMALL_BYTES};

use super::connection::Connection;
use super::peek_reader::PeekReader;
use crate::body::Capacity;
use exchange::Exchange;
use exchange::deadline::Deadline;
use net::env::Stream;

/// The node's end of a tunnel: the connection, and what was already read from it behind the 101.
pub(crate) struct UpstreamTunnel {
    pub(crate) stream: Stream,
    pub(crate) buffer: Buffer,
    /// How long nothing may pass before the tunnel is closed.
    pub(crate) idle_timeout_ms: u64,
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
    fn new(buffer: Option<Buffer>) -> Way {
        let reader = PeekReader::new(buffer.unwrap_or_else(Buffer::none));
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
        from: &mut Stream,
        to: &mut Stream,
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

/// Runs the tunnel until both ways have ended, one of them failed, or nothing passed for the tunnel's idle time.
pub(crate) async fn run(
    deadline: &Deadline,
    exchange: &mut Exchange,
    connection: &mut Connection,
    mut origin: UpstreamTunnel,
) {
    let timeout_ms = origin.idle_timeout_ms;
    let mut up = Way::new(connection.input.take());
    let mut down = Way::new(Some(origin.buffer));
    let client = &mut connection.stream;
    let mut armed = false;
    // Whatever ends this task before both ways have ended, an error, a stop or a panic, must not look like their end.
    client.reset_on_close();
    origin.stream.reset_on_close();
    let in_order = poll_fn(|cx| {
        let mut moved = false;
        let up_done = up.poll(cx, client, &mut origin.stream, &mut moved);
        let down_done = down.poll(cx, &mut origin.stream, client, &mut moved);
        match (up_done, down_done) {
            (Poll::Ready(Err(_)), _) | (_, Poll::Ready(Err(_))) => return Poll::Ready(false),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => return Poll::Ready(true),
            _ => {}
        }
        if moved || !armed {
            armed = true;
            deadline.set(cx, timeout_ms);
        } else if deadline.expired() {
            // In order, unless there are bytes that nobody takes.
            return Poll::Ready(!up.is_stuck && !down.is_stuck);
        }
        Poll::Pending
    })
    .await;
    if in_order {
        client.end_on_close();
        origin.stream.end_on_close();
    }
    exchange.stats.request_bytes += up.bytes;
    exchange.stats.response_body_bytes += down.bytes;
    exchange.stats.response_bytes += down.bytes;
    exchange.times.upstream_ended_ns = exchange.local().clock_ns();
}
