//! The request body for a plugin that finds out only while it waits that it needs it: the plugin asks, and
//! the pipeline, which has the stream of the client, reads. It reads nothing itself.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use message::Headers;

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
    /// Boxed, because each exchange has room for a question.
    Read(Box<CollectedBody>),
}

/// The part of a body that was read on demand, without what had been read before.
pub struct CollectedBody {
    /// The bytes that were read.
    pub bytes: Vec<u8>,
    /// The trailers behind a whole body.
    pub trailers: Option<Headers>,
    /// The body has ended; otherwise it is longer than the limit, and its rest is still in the stream of the
    /// client.
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
        if let Demand::Asked { waker, .. } = self.0.replace(Demand::Read(Box::new(body))) {
            waker.wake();
        }
    }

    /// Asks, and waits for the answer; none if there is no pipeline that reads.
    pub async fn ask(&self, limit_bytes: usize) -> Option<CollectedBody> {
        let mut has_asked = false;
        poll_fn(|cx| {
            let mut demand = self.0.borrow_mut();
            match std::mem::take(&mut *demand) {
                Demand::Closed => Poll::Ready(None),
                Demand::Read(body) if has_asked => {
                    *demand = Demand::Open;
                    Poll::Ready(Some(*body))
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
