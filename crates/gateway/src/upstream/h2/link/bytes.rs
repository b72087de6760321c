//! The bytes of a connection: reading them into the engine, writing its output, and closing the transport. It
//! knows no stream.

use std::cell::RefCell;
use std::task::{Context, Poll};

use super::{H2Link, LinkStage};
use crate::h2::output::poll_write_output;
use exchange::failure::Cause;
use net::tls::failure;

/// Most bytes read at once: four frames of the largest size.
const READ_BYTES: usize = 64 * 1024;
thread_local! {
    /// Where bytes are read into, shared by all connections of a thread: the engine takes all of them at
    /// once.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::upstream::h2) enum Pulled {
    /// Bytes arrived and were given to the engine.
    Some,
    /// There are none.
    Nothing,
    /// There will be none; [`H2Link::fail`] ends the connection.
    End,
}

impl H2Link {
    /// Reads once and gives the bytes to the engine.
    pub(in crate::upstream::h2) fn pull(&self, cx: &mut Context<'_>) -> Pulled {
        SCRATCH.with_borrow_mut(|room| {
            let mut transport = self.transport.borrow_mut();
            let Some(stream) = &mut *transport else { return Pulled::End };
            let read = stream.poll_read(cx, room);
            drop(transport);
            match read {
                Poll::Pending => Pulled::Nothing,
                Poll::Ready(Ok(0)) => {
                    self.blame(Cause::NoResponse, "it closed the connection");
                    Pulled::End
                }
                Poll::Ready(Err(error)) => {
                    let detail = failure::of_stream(&error).unwrap_or_else(|| error.to_string());
                    self.blame(Cause::NoResponse, detail);
                    Pulled::End
                }
                Poll::Ready(Ok(count)) => self.receive(&room[..count]),
            }
        })
    }

    fn receive(&self, bytes: &[u8]) -> Pulled {
        let is_first = self.is_unspoken.replace(false);
        let now_ms = self.local.clock_ns() / 1_000_000;
        let Err(error) = self.engine().receive(bytes, now_ms) else { return Pulled::Some };
        // GOAWAY is in the output, and all streams have got their events.
        let detail = if is_first && bytes.starts_with(b"HTTP/1") {
            "it answers with HTTP/1 on a connection for HTTP/2".to_owned()
        } else {
            format!("it broke the rules of HTTP/2: {}", error.reason)
        };
        self.blame(Cause::BadResponse, detail);
        Pulled::Some
    }

    /// Takes what has arrived on a connection without streams, so that a request is not sent on one that the
    /// endpoint has closed. False if it has.
    pub(in crate::upstream::h2) fn look(&self) -> bool {
        let is_readable = self.transport.borrow().as_ref().is_some_and(|transport| transport.is_readable());
        if is_readable {
            // With the waker of the task, because the event loop keeps one waker for a direction.
            let task = self.task.borrow().clone();
            let pulled = self.pull(&mut Context::from_waker(&task));
            self.wake_task();
            if pulled == Pulled::End {
                self.fail();
                return false;
            }
        }
        true
    }

    /// Writes the output. False if the transport takes nothing any more; bytes that arrived before that can
    /// still be read.
    pub(in crate::upstream::h2) fn flush(&self, cx: &mut Context<'_>) -> bool {
        loop {
            let mut engine = self.engine();
            if engine.output_bytes() == 0 {
                return true;
            }
            let mut transport = self.transport.borrow_mut();
            let Some(stream) = &mut *transport else { return false };
            let detail = match poll_write_output(&engine, cx, stream) {
                Poll::Pending => return true,
                Poll::Ready(Ok(count @ 1..)) => {
                    engine.advance(count);
                    self.written_bytes.set(self.written_bytes.get() + count as u64);
                    continue;
                }
                Poll::Ready(Ok(_)) => "it takes no bytes".to_owned(),
                Poll::Ready(Err(error)) => failure::of_stream(&error).unwrap_or_else(|| error.to_string()),
            };
            self.blame(Cause::NoResponse, detail);
            return false;
        }
    }

    /// Says GOAWAY and closes. Streams that are left fail.
    pub(in crate::upstream::h2) fn end(&self, cx: &mut Context<'_>) {
        if self.stage.get() != LinkStage::Lost {
            self.engine().shutdown();
            let _ = self.flush(cx);
            if let Some(stream) = &mut *self.transport.borrow_mut() {
                // Tells a TLS peer that nothing was cut. One that takes no bytes sees the end of the
                // connection.
                let _ = stream.poll_shutdown(cx);
            }
        }
        self.lose(Cause::NoResponse, "the connection was closed");
    }
}
