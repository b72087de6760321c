//! The place of a downstream connection in the counts of its worker and of its address.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use crate::context::WorkerContext;

/// A connection's place in the count, given back however its task ends.
pub(crate) struct ConnectionGuard(pub(crate) Rc<WorkerContext>);

impl ConnectionGuard {
    /// Gives the place of its client address back.
    pub(crate) fn release(&self, address: IpAddr) {
        self.0.local.shared.addresses.release(address);
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.status.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
