//! Moves bytes from one socket to another through a pipe, without copying them to user space (splice(2)).

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::task::{Context, Poll, ready};

use tokio::io::Interest;

use super::{Stream, outcome};

/// Pipes that a thread keeps for reuse: each takes two descriptors and no memory while it is empty.
const KEPT_PIPES: usize = 32;
/// Most pipes of a thread in use. More bulk transfers at once are copied, so that pipes never use up the
/// descriptors.
const PIPES_MAX: usize = 128;
/// Most bytes moved by one call. A pipe has 16 slots, and a slot holds a fragment of at most 32 KiB of a
/// socket's buffer.
const MOVED_MAX_BYTES: usize = 256 * 1_024;

thread_local! {
    static PIPES: RefCell<Pipes> = const { RefCell::new(Pipes { kept: Vec::new(), in_use: 0 }) };
}

struct Pipes {
    kept: Vec<Ends>,
    in_use: usize,
}

#[derive(Debug)]
struct Ends {
    read: OwnedFd,
    write: OwnedFd,
}

/// A pipe between two sockets.
#[derive(Debug)]
pub struct Pipe {
    /// None once it was dropped.
    ends: Option<Ends>,
    held_bytes: usize,
}

impl Pipe {
    /// A pipe; none if there are enough in use, or no descriptor is left.
    pub fn take() -> Option<Pipe> {
        PIPES.with_borrow_mut(|pipes| {
            if pipes.in_use >= PIPES_MAX {
                return None;
            }
            let ends = match pipes.kept.pop() {
                Some(ends) => ends,
                None => {
                    let (read, write) = std::io::pipe().ok()?;
                    Ends { read: read.into(), write: write.into() }
                }
            };
            pipes.in_use += 1;
            Some(Pipe { ends: Some(ends), held_bytes: 0 })
        })
    }

    /// Bytes that were moved in and not out.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        PIPES.with_borrow_mut(|pipes| {
            pipes.in_use -= 1;
            // Bytes of one session must never be found by another.
            if self.held_bytes == 0
                && pipes.kept.len() < KEPT_PIPES
                && let Some(ends) = self.ends.take()
            {
                pipes.kept.push(ends);
            }
        });
    }
}

/// Moves at most `most` bytes between two descriptors of which one is a pipe; neither call waits.
fn splice(from: &impl AsRawFd, to: &impl AsRawFd, most: usize) -> io::Result<usize> {
    let flags = libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK;
    let (from, to) = (from.as_raw_fd(), to.as_raw_fd());
    // SAFETY: both descriptors are open, because their owners are borrowed; no pointer is passed.
    #[allow(unsafe_code)]
    let moved = unsafe { libc::splice(from, std::ptr::null_mut(), to, std::ptr::null_mut(), most, flags) };
    usize::try_from(moved).map_err(|_| io::Error::last_os_error())
}

impl Stream {
    /// Moves what has arrived into an empty `pipe`; 0 bytes mean that the peer has closed its side.
    pub fn poll_splice_in(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        let Some(ends) = &pipe.ends else { return Poll::Ready(Ok(0)) };
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            let mut count = None;
            let result = self.0.try_io(Interest::READABLE, || {
                count = Some(splice(&self.0, &ends.write, MOVED_MAX_BYTES)?);
                Ok(())
            });
            if let Some(done) = outcome(count, result) {
                if let Ok(moved) = &done {
                    pipe.held_bytes += moved;
                }
                return Poll::Ready(done);
            }
        }
    }

    /// Moves bytes out of `pipe`, to the peer; how many.
    pub fn poll_splice_out(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        let Some(ends) = &pipe.ends else { return Poll::Ready(Ok(0)) };
        loop {
            let mut count = None;
            let result = self.0.try_io(Interest::WRITABLE, || {
                count = Some(splice(&ends.read, &self.0, pipe.held_bytes)?);
                Ok(())
            });
            if let Some(done) = outcome(count, result) {
                if let Ok(moved) = &done {
                    pipe.held_bytes -= moved;
                }
                return Poll::Ready(done);
            }
            ready!(self.0.poll_write_ready(cx))?;
        }
    }
}
