//! The end of a client's connection after its last response: closed so that the response is not lost on its
//! way. A client may send its whole request before it reads, and a close with unread bytes resets the
//! connection and destroys the response (RFC 9112 section 9.6), so that the rest of the request is read and
//! dropped for a while.

use std::future::poll_fn;
use std::task::Poll;

use stdx::buffer::Buffer;

use super::connection::H1Connection;
use super::timer::ConnectionTimer;
use crate::observe::idle_counts::IdleState;

/// The time and the bytes behind a whole request, and where connections or memory are short or the listener
/// closes: enough for a response that is on its way.
const SHORT_MS: u64 = 2_000;
const SHORT_MAX_BYTES: u64 = 256 * 1024;
/// Bytes that are dropped before other tasks of the worker run.
const TURN_BYTES: u64 = 256 * 1024;

/// How long and how much is read.
struct Bounds {
    total_ms: u64,
    pause_ms: u64,
    max_bytes: u64,
}

/// Closes the sending side and reads on for a short while, so that the client gets the last response whole.
pub(crate) async fn linger(connection: &mut H1Connection, timer: &ConnectionTimer) {
    let total_ms = timer.context.local.options.limits.linger_time_ms.min(SHORT_MS);
    let bounds = Bounds { total_ms, pause_ms: total_ms, max_bytes: SHORT_MAX_BYTES };
    read_on(connection, timer, bounds).await;
}

/// As [`linger`] for a client that is still sending its request: as long as the settings say.
pub(crate) async fn linger_unread(connection: &mut H1Connection, timer: &ConnectionTimer) {
    let local = &timer.context.local;
    let limits = &local.options.limits;
    let lingering = timer.context.status.idle.count(IdleState::Closing);
    if lingering >= limits.max_lingering_connections
        || local.shared.memory.sheds_idle()
        || connection.is_closing(local.now_ms())
    {
        return linger(connection, timer).await;
    }
    let (total_ms, pause_ms) = (limits.linger_time_ms, limits.linger_timeout_ms);
    read_on(connection, timer, Bounds { total_ms, pause_ms, max_bytes: u64::MAX }).await;
}

async fn read_on(connection: &mut H1Connection, timer: &ConnectionTimer, bounds: Bounds) {
    let Bounds { total_ms, pause_ms, max_bytes } = bounds;
    connection.input = None;
    let mut dropped_bytes = 0;
    let mut armed = false;
    poll_fn(|cx| {
        if !armed {
            armed = true;
            if !matches!(connection.stream.poll_shutdown(cx), Poll::Ready(Ok(()))) || total_ms == 0 {
                return Poll::Ready(());
            }
            timer.deadline.set_cap(timer.context.local.now_ms() + total_ms);
            timer.deadline.set(cx, pause_ms);
            timer.begin_idle(IdleState::Closing);
        }
        if timer.deadline.expired() || timer.deadline.is_overdue() || timer.gives_way() {
            return Poll::Ready(());
        }
        // Only while bytes have arrived is there a buffer.
        match connection.stream.poll_read_ready(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(_)) => return Poll::Ready(()),
            Poll::Pending => return Poll::Pending,
        }
        let mut room = Buffer::large();
        let turn_ends = dropped_bytes + TURN_BYTES;
        loop {
            match connection.stream.poll_read(cx, room.spare_mut()) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(count)) => dropped_bytes += count as u64,
                Poll::Pending => break,
            }
            if dropped_bytes > max_bytes {
                return Poll::Ready(());
            }
            if dropped_bytes >= turn_ends {
                cx.waker().wake_by_ref();
                break;
            }
        }
        timer.deadline.set(cx, pause_ms);
        Poll::Pending
    })
    .await;
}
