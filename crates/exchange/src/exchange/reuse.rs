//! A worker's exchanges for reuse: checked out for one request, reset when they come back. It bounds how many
//! are kept.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Exchange;
use crate::local::WorkerLocal;

/// Exchanges kept for reuse: as many as are commonly in flight at once on one core; a burst's surplus is
/// freed.
pub const KEPT_MAX: usize = 256;

/// How many exchanges of one worker are in use. It has a cache line of its own, because its worker writes it
/// twice for each request, and those of several workers would lie side by side.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct InUse(AtomicUsize);

impl InUse {
    /// The number now, for any thread.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the number. Only the thread of the pool may call this.
    pub fn set(&self, number: usize) {
        self.0.store(number, Ordering::Relaxed);
    }
}

/// The exchanges of one worker that no request uses now.
pub struct ExchangePool {
    local: Rc<WorkerLocal>,
    // Boxed so that checking one out moves a pointer.
    #[expect(clippy::vec_box, reason = "a checkout moves the box, not the exchange")]
    kept: RefCell<Vec<Box<Exchange>>>,
    /// How many are checked out, for other threads; only this one writes.
    in_use: Arc<InUse>,
}

impl ExchangePool {
    /// A pool without an exchange, for the thread of `local`, that shows in `in_use` how many are checked
    /// out.
    pub fn new(local: Rc<WorkerLocal>, in_use: Arc<InUse>) -> Rc<ExchangePool> {
        // The pool of a worker that has panicked may have left a number behind.
        in_use.set(0);
        Rc::new(ExchangePool { local, kept: RefCell::default(), in_use })
    }

    /// Checks an exchange out.
    pub fn checkout(self: &Rc<Self>) -> PooledExchange {
        let kept = self.kept.borrow_mut().pop();
        self.in_use.set(self.in_use.get() + 1);
        let exchange = kept.unwrap_or_else(|| Box::new(Exchange::new(self.local.clone())));
        PooledExchange { exchange: Some(exchange), pool: self.clone() }
    }

    /// Frees the exchanges kept for reuse.
    pub fn clear(&self) {
        self.kept.borrow_mut().clear();
    }
}

/// A checked-out exchange; dropping it checks it in.
pub struct PooledExchange {
    exchange: Option<Box<Exchange>>,
    pool: Rc<ExchangePool>,
}

impl Deref for PooledExchange {
    type Target = Exchange;

    #[inline]
    fn deref(&self) -> &Exchange {
        self.exchange.as_ref().expect("taken only when dropped")
    }
}

impl DerefMut for PooledExchange {
    #[inline]
    fn deref_mut(&mut self) -> &mut Exchange {
        self.exchange.as_mut().expect("taken only when dropped")
    }
}

impl Drop for PooledExchange {
    fn drop(&mut self) {
        if let Some(mut exchange) = self.exchange.take() {
            let in_use = &self.pool.in_use;
            in_use.set(in_use.get().saturating_sub(1));
            exchange.reset();
            let mut kept = self.pool.kept.borrow_mut();
            if kept.len() < KEPT_MAX {
                kept.push(exchange);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reused_exchange_has_no_long_scratch() {
        let pool = ExchangePool::new(
            WorkerLocal::new(0, Arc::new(crate::testing::options()), Arc::default()),
            Arc::default(),
        );
        let kept_bytes = |used_bytes: usize| {
            pool.checkout().scratch.resize(used_bytes, 1);
            let exchange = pool.checkout();
            assert!(exchange.scratch.is_empty());
            exchange.scratch.capacity()
        };
        assert!(kept_bytes(16 * 1024) >= 16 * 1024);
        assert_eq!(kept_bytes(1024 * 1024), 0);
    }

    #[test]
    fn exchanges_in_use_are_counted() {
        let in_use = Arc::new(InUse::default());
        in_use.set(7);
        assert_eq!(align_of::<InUse>(), 64);
        let local = WorkerLocal::new(0, Arc::new(crate::testing::options()), Arc::default());
        let pool = ExchangePool::new(local, in_use.clone());
        let shown = || in_use.get();
        assert_eq!(shown(), 0);
        let (one, other) = (pool.checkout(), pool.checkout());
        assert_eq!(shown(), 2);
        drop((one, other));
        assert_eq!(shown(), 0);
    }
}
