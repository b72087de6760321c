//! The tries of an exchange: which node, how it went, how long it took.

use std::net::SocketAddr;

use smallvec::SmallVec;

use crate::failure::Cause;

/// One try at one node.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// The node.
    pub address: SocketAddr,
    /// Its endpoint, by number.
    pub endpoint_id: u64,
    /// The scheme of the upstream, such as `https` or `grpc`.
    pub scheme: &'static str,
    /// The slot of the upstream in the generation of the exchange.
    pub upstream: u32,
    /// The status it answered with, or 0.
    pub status: u16,
    /// Why the try failed, if it did.
    pub failed: Option<Cause>,
    /// When the node was chosen, in nanoseconds of the monotonic clock.
    pub started_ns: u64,
    /// Microseconds until a connection was there; 0 for one that was kept.
    pub connect_us: u64,
    /// Microseconds from the choice of the node to its response head.
    pub head_us: u64,
    /// Microseconds from the choice of the node to the end of the try.
    pub total_us: u64,
}

/// The tries of an exchange, in order; the usual one or two without allocating.
pub type Attempts = SmallVec<[Attempt; 2]>;
