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

/// The place of a connection in the counts while it has no task of its protocol, which gives its address's
/// place back otherwise.
pub(crate) struct AddressPlace {
    counted: Option<ConnectionGuard>,
    peer: IpAddr,
}

impl AddressPlace {
    /// Of a client that was counted.
    pub(crate) fn new(counted: ConnectionGuard, peer: IpAddr) -> AddressPlace {
        AddressPlace { counted: Some(counted), peer }
    }

    /// The place, for the connection's protocol.
    pub(crate) fn into_guard(mut self) -> ConnectionGuard {
        self.counted.take().expect("taken once, by value")
    }
}

impl Drop for AddressPlace {
    fn drop(&mut self) {
        if let Some(counted) = &self.counted {
            counted.release(self.peer);
        }
    }
}
