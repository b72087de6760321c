//! How much of a body a task passes on before other tasks of its worker go on. It knows no body and no stream.
//!
//! The event loop counts reads and writes of a task. A read of 16 KiB can hold thousands of chunks, each of which costs as
//! much time as a system call, so that the pieces are counted here.

use std::task::Context;

use net::env;

/// Pieces in one turn: with chunks of one byte some 100 µs.
pub(super) const PIECES_MAX: usize = 1_000;
/// Bytes in one turn: some 200 µs over loopback, of which a turn's end costs less than a hundredth.
const BYTES_MAX: usize = 1024 * 1024;

/// One turn of a task; made when the task is polled.
#[derive(Debug, Default)]
pub(super) struct Turn {
    pieces: usize,
    bytes: usize,
}

impl Turn {
    /// Counts a piece that was passed on. True if the turn is over: the task is woken once the others and the event loop
    /// have had theirs, and has to return `Poll::Pending`.
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
