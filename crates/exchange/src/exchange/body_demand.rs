//! The request body for a plugin that finds out only while it waits that it needs it: the plugin asks, and the pipeline, which
//! has the stream of the client, reads. It reads nothing itself.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use message::Headers;

use super::Exchange;

/// The question of one plugin, and the answer of the pipeline. One for each exchange, reused with it.
#[derive(Default)]
pub struct BodyDemand(RefCell<Demand>);

#[derive(Default)]
enum Demand {
    /// No pipeline reads on demand: the request phases are over, or have not begun.
    #[default]
    Closed,
    /// A plugin may ask.
    Open,
    Asked {
        limit_bytes: usize,
        waker: Waker,
    },
    Read(CollectedBody),
}

/// The part of a body that was read on demand, without what had been read before.
pub struct CollectedBody {
    /// The bytes that were read.
    pub bytes: Vec<u8>,
    /// The trailers behind a whole body.
    pub trailers: Option<Headers>,
    /// The body has ended; otherwise it is longer than the limit, and its rest is still in the stream of the client.
    pub is_whole: bool,
    /// Nanoseconds of waiting for the client.
    pub waited_ns: u64,
}

/// A body that a plugin cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyUnavailable {
    /// It is longer than the plugin allows.
    TooLong,
    /// It was not read before the request was sent on, or nothing reads it in this phase.
    Gone,
}

impl BodyDemand {
    /// Lets plugins ask from now on.
    pub fn open(&self) {
        *self.0.borrow_mut() = Demand::Open;
    }

    /// No plugin may ask any more.
    pub fn close(&self) {
        *self.0.borrow_mut() = Demand::Closed;
    }

    /// The limit in bytes of the question that waits, if there is one.
    pub fn asked(&self) -> Option<usize> {
        match &*self.0.borrow() {
            Demand::Asked { limit_bytes, .. } => Some(*limit_bytes),
            _ => None,
        }
    }

    /// Answers the question that waits, and wakes the plugin.
    pub fn answer(&self, body: CollectedBody) {
        if let Demand::Asked { waker, .. } = self.0.replace(Demand::Read(body)) {
            waker.wake();
        }
    }

    /// Asks, and waits for the answer; none if there is no pipeline that reads.
    async fn ask(&self, limit_bytes: usize) -> Option<CollectedBody> {
        let mut has_asked = false;
        poll_fn(|cx| {
            let mut demand = self.0.borrow_mut();
            match std::mem::take(&mut *demand) {
                Demand::Closed => Poll::Ready(None),
                Demand::Read(body) if has_asked => {
                    *demand = Demand::Open;
                    Poll::Ready(Some(body))
                }
                _ => {
                    has_asked = true;
                    *demand = Demand::Asked { limit_bytes, waker: cx.waker().clone() };
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl Exchange {
    /// The question and answer of plugins that want the request body while they wait.
    pub fn body_demand(&self) -> &Rc<BodyDemand> {
        &self.body_demand
    }

    /// Reads the request body whole, unless that was done before, for a plugin that waits in a phase of the request; then
    /// [`Exchange::request_body`] gives it. Of a longer body the read beginning is kept, so that the request can go on.
    ///
    /// # Errors
    /// It is longer than `limit_bytes` or than bodies of this request may be, or nothing reads it in this phase.
    pub async fn collect_request_body(&mut self, limit_bytes: usize) -> Result<(), BodyUnavailable> {
        let accepted_bytes = match self.max_request_body_bytes() {
            0 => usize::MAX,
            most => usize::try_from(most).unwrap_or(usize::MAX),
        };
        let limit_bytes = limit_bytes.min(accepted_bytes);
        if let Some(body) = self.body.whole() {
            return if body.len() > limit_bytes { Err(BodyUnavailable::TooLong) } else { Ok(()) };
        }
        let mut bytes = self.body.prefix().map_or_else(Vec::new, |prefix| prefix.bytes.to_vec());
        let left_bytes = limit_bytes.checked_sub(bytes.len()).ok_or(BodyUnavailable::TooLong)?;
        let demand = self.body_demand.clone();
        let read = demand.ask(left_bytes).await.ok_or(BodyUnavailable::Gone)?;
        self.times.body_waited_ns += read.waited_ns;
        if bytes.is_empty() {
            bytes = read.bytes;
        } else {
            bytes.extend_from_slice(&read.bytes);
        }
        if read.is_whole {
            self.body.keep_whole(bytes, read.trailers);
            return Ok(());
        }
        if !bytes.is_empty() {
            self.body.keep_prefix(bytes);
        }
        Err(BodyUnavailable::TooLong)
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::Context;

    use super::*;
    use crate::testing::Scene;

    #[test]
    fn plugin_gets_the_body_that_it_asked_for() {
        let mut scene = Scene::new();
        let mut exchange = scene.exchange(b"POST / HTTP/1.1\r\nHost: a\r\n\r\n");
        let demand = exchange.body_demand().clone();
        let mut cx = Context::from_waker(Waker::noop());
        let closed = pin!(exchange.collect_request_body(8)).poll(&mut cx);
        assert_eq!(closed, Poll::Ready(Err(BodyUnavailable::Gone)), "nothing reads");
        demand.open();
        exchange.body.keep_prefix(b"ab".to_vec());
        let answer = |bytes: &[u8], is_whole| CollectedBody {
            bytes: bytes.to_vec(),
            trailers: None,
            is_whole,
            waited_ns: 5,
        };
        {
            let mut asking = pin!(exchange.collect_request_body(8));
            assert!(asking.as_mut().poll(&mut cx).is_pending());
            assert_eq!(demand.asked(), Some(6));
            assert!(asking.as_mut().poll(&mut cx).is_pending(), "it asks again");
            demand.answer(answer(b"cdefgh", false));
            assert_eq!(asking.poll(&mut cx), Poll::Ready(Err(BodyUnavailable::TooLong)));
        }
        assert_eq!(&*exchange.body.prefix().unwrap().bytes, b"abcdefgh", "the beginning is kept");
        {
            let mut asking = pin!(exchange.collect_request_body(10));
            assert!(asking.as_mut().poll(&mut cx).is_pending());
            demand.answer(answer(b"ij", true));
            assert_eq!(asking.poll(&mut cx), Poll::Ready(Ok(())));
        }
        assert_eq!(exchange.request_body(), Some(&b"abcdefghij"[..]));
        assert_eq!(exchange.times.body_waited_ns, 10);
    }
}
