//! A worker's exchanges for reuse: checked out for one request, reset when they come back. It bounds how many are kept.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use super::Exchange;
use crate::local::Local;

/// Exchanges kept for reuse: as many as are commonly in flight at once on one core; a burst's surplus is freed.
pub const KEPT_MAX: usize = 256;

/// The exchanges of one worker that no request uses now.
pub struct ExchangePool {
    local: Rc<Local>,
    // Boxed so that checking one out moves a pointer.
    #[expect(clippy::vec_box, reason = "a checkout moves the box, not the exchange")]
    kept: RefCell<Vec<Box<Exchange>>>,
}

impl ExchangePool {
    /// A pool without an exchange, for the thread of `local`.
    pub fn new(local: Rc<Local>) -> Rc<ExchangePool> {
        Rc::new(ExchangePool { local, kept: RefCell::default() })
    }

    /// Checks an exchange out.
    pub fn checkout(self: &Rc<Self>) -> PooledExchange {
        let kept = self.kept.borrow_mut().pop();
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
    use std::sync::Arc;

    use super::*;

    #[test]
    fn reused_exchange_has_no_long_scratch() {
        let pool = ExchangePool::new(Local::new(0, Arc::new(crate::testing::options()), Arc::default()));
        let kept_bytes = |used_bytes: usize| {
            pool.checkout().scratch.resize(used_bytes, 1);
            let exchange = pool.checkout();
            assert!(exchange.scratch.is_empty());
            exchange.scratch.capacity()
        };
        assert!(kept_bytes(16 * 1024) >= 16 * 1024);
        assert_eq!(kept_bytes(1024 * 1024), 0);
    }
}
