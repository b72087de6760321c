//! The end of a client's connection after its last response: closed so that the response is not lost on its way.

use std::future::poll_fn;
use std::task::Poll;

use super::connection::Connection;
use super::timer::ConnectionTimer;
use crate::observe::idle_counts::IdleState;

/// After the last response the peer may still be sending; reading on for so long keeps its end from being reset while
/// the response is still on its way (RFC 9112 section 9.6).
const LINGER_MS: u64 = 2_000;
/// The most bytes read and dropped while lingering.
const LINGER_MAX_BYTES: usize = 256 * 1024;

/// Closes the sending side and reads on for a while, so that the client gets the last response whole.
pub(crate) async fn linger(connection: &mut Connection, timer: &ConnectionTimer) {
    let mut room = connection.input.take().unwrap_or_else(Connection::take_input);
    let mut dropped_bytes = 0;
    let mut armed = false;
    poll_fn(|cx| {
        if !armed {
            armed = true;
            if !matches!(connection.stream.poll_shutdown(cx), Poll::Ready(Ok(()))) {
                return Poll::Ready(());
            }
            timer.deadline.set(cx, LINGER_MS);
            timer.begin_idle(IdleState::Closing);
        }
        loop {
            let filled = room.filled().len();
            room.consume(filled);
            match connection.stream.poll_read(cx, room.spare_mut()) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(count)) => {
                    dropped_bytes += count;
                    if dropped_bytes > LINGER_MAX_BYTES {
                        return Poll::Ready(());
                    }
                }
                Poll::Pending if timer.deadline.expired() || timer.gives_way() => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
}
