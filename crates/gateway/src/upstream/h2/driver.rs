//! The task of an HTTP/2 connection to an endpoint: once per turn of the event loop it reads, writes the
//! output of all streams at once, and wakes the streams that something has happened to. It decides nothing
//! about requests.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::keep_alive::KeepAlive;
use super::link::H2Link;
use super::link::bytes::Pulled;
use exchange::failure::Cause;
use net::env;

/// Reads in one poll of the task, 64 KiB each: about as much as the worker passes on in 100 µs. Other tasks
/// have their turn then.
const READS_MAX: usize = 4;

/// Serves `link` until it ends.
pub(crate) async fn drive(link: Rc<H2Link>) {
    let mut driver = Driver { keep_alive: KeepAlive::new(link.local()), link, has_ended: false };
    poll_fn(|cx| driver.poll(cx)).await;
}

struct Driver {
    link: Rc<H2Link>,
    keep_alive: KeepAlive,
    /// The transport has ended. Streams take the bytes that arrived before that, then the connection is lost.
    has_ended: bool,
}

impl Driver {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.link.begin_turn(cx);
        self.link.adapt_windows();
        if self.has_ended {
            self.link.fail();
            return Poll::Ready(());
        }
        let mut reads = self.read(cx);
        if !self.link.flush(cx) {
            // The endpoint may have answered before it closed.
            reads += self.read(cx);
            self.has_ended = true;
        }
        if reads >= READS_MAX || self.has_ended {
            env::wake_after_events(cx);
        }
        let link = &self.link;
        // Once in a turn and last: capacity that an event grants to a stream is void at the next call.
        let has_progress = link.deliver();
        self.keep_alive.note(link, reads > 0, has_progress);
        self.keep_alive.poll(cx, link);
        if link.is_done() && !self.has_ended {
            link.end(cx);
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Reads what has arrived; how often something had.
    fn read(&mut self, cx: &mut Context<'_>) -> usize {
        for reads in 0..READS_MAX {
            match self.link.pull(cx) {
                Pulled::Some => {}
                Pulled::Nothing => return reads,
                Pulled::End => {
                    self.has_ended = true;
                    return reads;
                }
            }
        }
        READS_MAX
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // After a panic, or at the end of the worker.
        self.link.lose(Cause::NoResponse, "the connection was dropped");
    }
}
