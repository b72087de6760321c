//! What follows a 101: bytes pass both ways as they come, with back-pressure, until both sides have closed. Each way
//! holds a buffer only while it has bytes in it. It understands none of them.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use stdx::buffer::Buffer;

use super::connection::Connection;
use crate::alarm::Alarm;
use crate::env::Stream;
use crate::exchange::Exchange;

/// The node's end of a tunnel: the connection, and what was already read from it behind the 101.
pub(crate) struct OriginTunnel {
    pub(crate) stream: Stream,
    pub(crate) buffer: Buffer,
}

/// One way of a tunnel.
struct Way {
    buffer: Option<Buffer>,
    /// The reading side is at its end.
    ended: bool,
    /// The writing side was told so.
    closed: bool,
    bytes: u64,
}

impl Way {
    fn new(buffer: Option<Buffer>) -> Way {
        Way {
            buffer: buffer.filter(|buffer| !buffer.filled().is_empty()),
            ended: false,
            closed: false,
            bytes: 0,
        }
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
            if let Some(buffer) = &mut self.buffer {
                while !buffer.filled().is_empty() {
                    let count = ready!(to.poll_write(cx, buffer.filled()))?;
                    if count == 0 {
                        return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                    }
                    buffer.consume(count);
                    self.bytes += count as u64;
                    *moved = true;
                }
                self.buffer = None;
            }
            if self.closed {
                return Poll::Ready(Ok(()));
            }
            if self.ended {
                ready!(to.poll_shutdown(cx))?;
                self.closed = true;
                continue;
            }
            ready!(from.poll_read_ready(cx))?;
            let mut buffer = Buffer::large();
            match ready!(from.poll_read(cx, buffer.spare_mut()))? {
                0 => self.ended = true,
                count => buffer.advance(count),
            }
            self.buffer = Some(buffer);
        }
    }
}

/// Runs the tunnel until both ways have ended, one of them failed, or nothing passed for the tunnel's idle time.
pub(crate) async fn run(
    alarm: &Alarm,
    exchange: &mut Exchange,
    connection: &mut Connection,
    mut origin: OriginTunnel,
) {
    let worker = alarm.worker();
    let timeout_ms = worker.options.limits.tunnel_idle_timeout_ms;
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
            alarm.set(cx, timeout_ms);
        } else if alarm.rang() {
            // In order, unless bytes are held that nobody takes.
            return Poll::Ready(up.buffer.is_none() && down.buffer.is_none());
        }
        Poll::Pending
    })
    .await;
    if in_order {
        client.end_on_close();
        origin.stream.end_on_close();
    }
    exchange.request_bytes += up.bytes;
    exchange.response_body_bytes += down.bytes;
    exchange.response_bytes += down.bytes;
    exchange.times.upstream_ended_ns = worker.clock_ns();
}
