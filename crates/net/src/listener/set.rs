//! Which listeners there are, and what has to be bound and closed to get from one set to another. New ones
//! are bound before anything is closed, all or none. It tells no worker.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use super::{Listener, Protocols, WantedListener};

/// The listeners in force, in the order they were asked for.
pub type ListenerSet = Vec<Arc<Listener>>;

/// The changes that a new set makes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ListenerChanges {
    /// Listening from now on, with their real ports.
    pub added: Vec<SocketAddr>,
    /// Listening no more.
    pub removed: Vec<SocketAddr>,
    /// Listening as before, with another setting of the PROXY protocol.
    pub changed: Vec<SocketAddr>,
}

/// The listener that keeps a set from coming into force.
#[derive(Debug)]
pub struct ListenFault {
    /// The address that was asked for.
    pub address: SocketAddr,
    /// The protocols that were asked for.
    pub protocols: Protocols,
    /// The kernel's error.
    pub cause: io::Error,
    /// A listener that the new set does not have and that is in the way.
    pub in_the_way: Option<SocketAddr>,
}

impl fmt::Display for ListenFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "cannot listen on {}: {}", self.address, self.cause)?;
        match self.in_the_way {
            Some(other) => write!(
                out,
                "; {other} overlaps with it and is closed only when the new ones are bound: take it away first, in a \
                 change of its own"
            ),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ListenFault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

/// How a new set comes about.
#[derive(Debug)]
pub struct ListenerSetPlan {
    /// The new set: those that are kept, and those that were bound for it.
    pub set: ListenerSet,
    /// Those of the old set that are not in the new one.
    pub removed: ListenerSet,
    /// The changes of it.
    pub change: ListenerChanges,
}

/// Finds for each of `wanted` the listener of `current` that is the same, and binds the others. Kept
/// listeners take over the facts that change without another socket (see [`Listener::change`]), once all
/// others are bound.
///
/// # Errors
/// The first that cannot be bound; what was bound before it is closed again, and `current` is untouched.
pub fn plan(
    current: &[Arc<Listener>],
    wanted: &[WantedListener],
    workers: usize,
) -> Result<ListenerSetPlan, ListenFault> {
    let mut left: ListenerSet = current.to_vec();
    let mut take = |found: &dyn Fn(&Listener) -> bool| {
        let index = left.iter().position(|listener| found(listener))?;
        Some(left.remove(index))
    };
    // By the real address first: a written port that the kernel gave for port 0 means that listener and no
    // other.
    let same_address =
        |one: &WantedListener| take(&|listener| listener.address == one.address && is_same(listener, one));
    let mut kept: Vec<Option<Arc<Listener>>> = wanted.iter().map(same_address).collect();
    for (one, place) in wanted.iter().zip(&mut kept).filter(|(_, place)| place.is_none()) {
        *place = take(&|listener| listener.wanted.address == one.address && is_same(listener, one));
    }
    let mut change = ListenerChanges::default();
    let mut set = Vec::with_capacity(wanted.len());
    for (one, kept) in wanted.iter().zip(kept) {
        let listener = match kept {
            Some(listener) => listener,
            None => {
                let bound = Listener::bind(*one, workers);
                let bound = bound.map_err(|cause| fault(one, cause, &left))?;
                change.added.push(bound.address);
                Arc::new(bound)
            }
        };
        set.push(listener);
    }
    for (one, listener) in wanted.iter().zip(&set) {
        if listener.change(one.protocols) {
            change.changed.push(listener.address);
        }
    }
    change.removed = left.iter().map(|listener| listener.address).collect();
    Ok(ListenerSetPlan { set, removed: left, change })
}

/// Whether a listener serves the wanted protocols, but for facts that change without another socket.
fn is_same(listener: &Listener, wanted: &WantedListener) -> bool {
    listener.wanted.protocols.as_bound() == wanted.protocols.as_bound()
}

fn fault(wanted: &WantedListener, cause: io::Error, leaving: &[Arc<Listener>]) -> ListenFault {
    let address = wanted.address;
    let overlaps = |other: &SocketAddr| {
        let all = other.ip().is_unspecified() || address.ip().is_unspecified();
        let is_same = other.ip() == address.ip();
        other.port() == address.port() && other.is_ipv4() == address.is_ipv4() && (all || is_same)
    };
    let in_use = cause.kind() == io::ErrorKind::AddrInUse;
    let rivals = leaving.iter().filter(|other| shares_a_transport(wanted.protocols, other.wanted.protocols));
    let in_the_way = rivals.map(|listener| listener.address).find(overlaps).filter(|_| in_use);
    ListenFault { address, protocols: wanted.protocols, cause, in_the_way }
}

/// Whether sockets of both would be in each other's way at one address: both use TCP, or both use UDP.
fn shares_a_transport(one: Protocols, other: Protocols) -> bool {
    let uses_udp = |protocols: Protocols| protocols.udp || protocols.http3;
    (!one.udp && !other.udp) || (uses_udp(one) && uses_udp(other))
}
