//! One connection to the runner: frames are written and read whole. It knows no message and no time limit.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, Waker, ready};

use exchange::local::WorkerLocal;
use net::env::{self, LocalStream};

use super::error::CallError;
use super::frame::{self, HEAD_BYTES};
use super::place::Runner;
use super::pool::RunnerPool;

/// Bytes that one read takes at most.
const READ_BYTES: usize = 16 * 1024;
/// Milliseconds until a socket with a full queue is tried again.
const FULL_QUEUE_PAUSE_MS: u64 = 2;
/// How often it is tried: a second, as long as APISIX tries to connect.
const FULL_QUEUE_TRIES: usize = 500;
/// Marks a process that is known only by the number of its place.
const UNKNOWN_PROCESS: u32 = 1 << 31;

/// See the module.
pub(super) struct RunnerConnection {
    stream: LocalStream,
    /// Bytes behind the last frame: a runner may ask several questions at once. At most what one read brings.
    behind: Vec<u8>,
    /// The number of the place that it was opened to.
    pub(super) epoch: u32,
    /// The process that listens there: tokens are only known to the process that gave them.
    pub(super) process: u32,
}

impl RunnerConnection {
    /// Connects to the present runner.
    ///
    /// # Errors
    /// There is none, or its socket takes no connection.
    pub(super) async fn open(runner: &Runner) -> Result<RunnerConnection, CallError> {
        let (place, epoch) = runner.place();
        let path = place.map_err(CallError::NotRunning)?;
        let mut tries = 0;
        let stream = loop {
            match env::connect_local(&path).await {
                Ok(stream) => break stream,
                // The queue of the listening socket is full: the kernel does not say when it has room again.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && tries < FULL_QUEUE_TRIES => {
                    tries += 1;
                    env::sleep_ms(FULL_QUEUE_PAUSE_MS).await;
                }
                Err(error) => return Err(CallError::Connect(path.display().to_string(), error)),
            }
        };
        let process = stream.peer_process().unwrap_or(UNKNOWN_PROCESS | epoch);
        Ok(RunnerConnection { stream, behind: Vec::new(), epoch, process })
    }

    /// Whether the runner has neither closed the connection nor sent something that nothing has asked for.
    pub(super) fn is_quiet(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        self.behind.is_empty() && self.stream.poll_read(&mut cx, &mut [0; 1]).is_pending()
    }

    /// Sends a frame; `step` names it in an error.
    ///
    /// # Errors
    /// The socket's.
    pub(super) async fn send(&mut self, frame: &[u8], step: &'static str) -> Result<(), CallError> {
        let mut left = frame;
        while !left.is_empty() {
            let written = poll_fn(|cx| self.stream.poll_write(cx, left)).await;
            match written {
                Ok(0) => return Err(CallError::Ended(step)),
                Ok(count) => left = &left[count..],
                Err(error) => return Err(CallError::Broken(step, error)),
            }
        }
        Ok(())
    }

    /// Reads the next frame into `buffer`, which is emptied before, and gives its type; its message is behind
    /// [`HEAD_BYTES`]. It grows as bytes arrive, whatever length the head announces.
    ///
    /// # Errors
    /// The socket's, the end of the connection, and too little memory.
    pub(super) async fn receive(
        &mut self,
        worker: &WorkerLocal,
        pool: &RunnerPool,
        buffer: &mut Vec<u8>,
        step: &'static str,
    ) -> Result<u8, CallError> {
        buffer.clear();
        buffer.append(&mut self.behind);
        poll_fn(|cx| {
            let mut room = pool.room.borrow_mut();
            room.resize(READ_BYTES, 0);
            loop {
                if let Some((kind, bytes)) = frame::parse_frame_head(buffer)
                    && buffer.len() >= bytes
                {
                    self.behind.extend_from_slice(&buffer[bytes..]);
                    buffer.truncate(bytes);
                    return Poll::Ready(Ok(kind));
                }
                let count = match ready!(self.stream.poll_read(cx, &mut room)) {
                    Ok(0) => return Poll::Ready(Err(CallError::Ended(step))),
                    Ok(count) => count,
                    Err(error) => return Poll::Ready(Err(CallError::Broken(step, error))),
                };
                let limit_bytes = HEAD_BYTES + frame::MESSAGE_BYTES_MAX + READ_BYTES;
                if worker.shared.append_limited(buffer, &room[..count], limit_bytes).is_err() {
                    return Poll::Ready(Err(CallError::Memory));
                }
            }
        })
        .await
    }
}
