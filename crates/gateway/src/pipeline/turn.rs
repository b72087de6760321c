//! Limits how much of a body a task forwards before other tasks of its worker run. It knows no body and no
//! stream.
//!
//! The event loop counts reads and writes of a task. A read of 16 KiB can hold thousands of chunks, each of
//! which costs as much time as a system call, so that pieces are counted here.

use std::task::Context;

use net::env;

/// Pieces in one turn: some 100 µs with chunks of one byte.
pub(super) const PIECES_MAX: usize = 1_000;
/// Bytes in one turn: some 200 µs over loopback; ending a turn costs less than a hundredth of that.
const BYTES_MAX: usize = 1024 * 1024;

/// One turn of a task, made when the task is polled.
#[derive(Debug, Default)]
pub(super) struct TaskTurn {
    pieces: usize,
    bytes: usize,
}

impl TaskTurn {
    /// Counts a piece that was forwarded. True if the turn is over: then the task will be woken after other
    /// tasks and the event loop have run, and has to return `Poll::Pending`.
    #[inline]
    pub(super) fn is_over(&mut self, cx: &mut Context<'_>, piece_bytes: usize) -> bool {
        self.pieces += 1;
        self.bytes += piece_bytes;
        let is_over = self.pieces >= PIECES_MAX || self.bytes >= BYTES_MAX;
        if is_over {
            env::wake_after_events(cx);
        }
        is_over
    }
}
