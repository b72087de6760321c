//! A worker's store of exchanges: leased for one request, given back reset. It bounds what is kept for reuse.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use super::Exchange;
use crate::worker::Worker;

/// Exchanges kept for reuse: as many as are commonly under way at once on one core; a burst's surplus is freed.
pub(crate) const KEPT_MAX: usize = 256;

/// An exchange on lease; dropping it gives it back.
pub(crate) struct PooledExchange {
    exchange: Option<Box<Exchange>>,
    worker: Rc<Worker>,
}

impl PooledExchange {
    /// Leases an exchange from `worker`.
    pub(crate) fn new(worker: &Rc<Worker>) -> PooledExchange {
        let mut exchange = worker.exchanges.borrow_mut().pop().unwrap_or_else(|| Box::new(Exchange::new()));
        exchange.worker = Some(worker.clone());
        PooledExchange { exchange: Some(exchange), worker: worker.clone() }
    }
}

impl Deref for PooledExchange {
    type Target = Exchange;

    #[inline]
    fn deref(&self) -> &Exchange {
        self.exchange.as_ref().expect("given back only when dropped")
    }
}

impl DerefMut for PooledExchange {
    #[inline]
    fn deref_mut(&mut self) -> &mut Exchange {
        self.exchange.as_mut().expect("given back only when dropped")
    }
}

impl Drop for PooledExchange {
    fn drop(&mut self) {
        if let Some(mut exchange) = self.exchange.take() {
            exchange.reset();
            exchange.worker = None;
            let mut kept = self.worker.exchanges.borrow_mut();
            if kept.len() < KEPT_MAX {
                kept.push(exchange);
            }
        }
    }
}
