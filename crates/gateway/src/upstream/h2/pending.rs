//! A connection that is being opened, and the requests that wait for it. It opens nothing itself.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use exchange::failure::ExchangeFailure;

/// See the module.
#[derive(Default)]
pub(crate) struct PendingConnect {
    server_name: Option<Box<str>>,
    /// The wakers of the requests that wait, by number. A place is kept when its request goes away: a connect
    /// is short.
    waiters: RefCell<Vec<Waker>>,
    waiting: Cell<u32>,
    in_handshake: Cell<bool>,
    outcome: RefCell<Option<Result<(), ExchangeFailure>>>,
}

impl PendingConnect {
    /// One to the server of that name.
    pub(super) fn new(server_name: Option<Box<str>>) -> Rc<PendingConnect> {
        Rc::new(PendingConnect { server_name, ..PendingConnect::default() })
    }

    pub(super) fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// Requests that wait for it.
    pub(super) fn waiting(&self) -> u32 {
        self.waiting.get()
    }

    /// The socket is connected, and the TLS handshake has begun.
    pub(crate) fn begin_handshake(&self) {
        self.in_handshake.set(true);
    }

    /// Whether [`PendingConnect::begin_handshake`] was called.
    pub(crate) fn is_in_handshake(&self) -> bool {
        self.in_handshake.get()
    }

    /// Ends it: a connection is in the pool, or there is none.
    pub(super) fn settle(&self, outcome: Result<(), ExchangeFailure>) {
        self.outcome.borrow_mut().get_or_insert(outcome);
        for waker in self.waiters.take() {
            waker.wake();
        }
    }

    /// Waits for the end of it. `in_handshake` tells how far it came, to a caller that gives up.
    ///
    /// # Errors
    /// The connection could not be opened.
    pub(crate) async fn wait(&self, in_handshake: &Cell<bool>) -> Result<(), ExchangeFailure> {
        let mut waiter = Waiter { pending: self, place: None };
        self.waiting.set(self.waiting.get() + 1);
        poll_fn(|cx| waiter.poll(cx, in_handshake)).await
    }
}

/// One request that waits.
struct Waiter<'p> {
    pending: &'p PendingConnect,
    place: Option<usize>,
}

impl Waiter<'_> {
    fn poll(&mut self, cx: &Context<'_>, in_handshake: &Cell<bool>) -> Poll<Result<(), ExchangeFailure>> {
        if let Some(outcome) = &*self.pending.outcome.borrow() {
            return Poll::Ready(outcome.clone());
        }
        in_handshake.set(self.pending.in_handshake.get());
        let mut waiters = self.pending.waiters.borrow_mut();
        match self.place {
            Some(place) => waiters[place].clone_from(cx.waker()),
            None => {
                self.place = Some(waiters.len());
                waiters.push(cx.waker().clone());
            }
        }
        Poll::Pending
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.pending.waiting.set(self.pending.waiting.get() - 1);
        if let Some(place) = self.place
            && let Some(waker) = self.pending.waiters.borrow_mut().get_mut(place)
        {
            *waker = Waker::noop().clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;
    use exchange::failure::Cause;

    #[test]
    fn outcome_reaches_all_waiters() {
        let pending = PendingConnect::new(None);
        let in_handshake = Cell::new(false);
        let mut cx = Context::from_waker(Waker::noop());
        let (mut one, mut other) = (pin!(pending.wait(&in_handshake)), pin!(pending.wait(&in_handshake)));
        assert!(one.as_mut().poll(&mut cx).is_pending() && other.as_mut().poll(&mut cx).is_pending());
        {
            let mut gone = Box::pin(pending.wait(&in_handshake));
            assert!(gone.as_mut().poll(&mut cx).is_pending());
            assert_eq!(pending.waiting(), 3);
        }
        assert_eq!(pending.waiting(), 2);
        pending.begin_handshake();
        assert!(one.as_mut().poll(&mut cx).is_pending() && in_handshake.get());
        pending.settle(Err(ExchangeFailure::new(Cause::ConnectFailed, "refused")));
        for outcome in [one.as_mut().poll(&mut cx), other.as_mut().poll(&mut cx)] {
            let Poll::Ready(Err(failure)) = outcome else { panic!("it has ended") };
            assert_eq!(failure.cause, Cause::ConnectFailed);
        }
    }
}
