//! The one seam between the gateway and the world: sockets, clocks, randomness, tasks. Everything else in
//! this crate reaches them through these names, so that another implementation can be put in their place at
//! compile time, at no cost and without a type parameter in any signature. It knows nothing of HTTP.
//!
//! Behind it is what a request meets on its way, and name lookups. Beside it stay threads that only block and
//! decide nothing about requests (the engine's, the log's), and `tokio::sync`'s channels, which know no
//! runtime and no clock.
//!
//! The other side is `memory`, of the simulation, in place of the real thing wherever the feature
//! `simulation` is on: in this crate's own unit tests of it and in the fuzz targets, which are a workspace of
//! their own. [`IS_SIMULATED`] lets the program refuse to be built so. Unit tests without the feature use
//! real sockets.

mod datagram;
mod event_loop;
#[cfg(feature = "simulation")]
#[cfg_attr(not(test), allow(dead_code, reason = "what only the seeded simulation and tests of it use"))]
pub mod memory;
#[cfg(not(feature = "simulation"))]
mod tokio_env;
pub mod udp;

#[cfg(feature = "simulation")]
use memory as chosen;
#[cfg(not(feature = "simulation"))]
use tokio_env as chosen;

pub use chosen::{
    BoundSocket, Listener, LocalStream, Pipe, Socket, Stream, bind, connect, connect_local, monotonic_ns,
    open_files_limit, random_u64, sleep_ms, spawn, wall_clock,
};
pub use chosen::{block_on, service, wait_while, wake_after_events, yield_to_events, yield_when_spent};
pub use chosen::{connect_as, is_local_address, set_transparent, try_transparent};
pub use datagram::{bind_datagrams, datagram_socket};
pub use event_loop::{LoopMark, LoopPlace};

/// Whether sockets, clocks and tasks are those of the simulation.
pub const IS_SIMULATED: bool = cfg!(feature = "simulation");

/// The error of a process that may not let a socket use addresses of other machines.
pub const NEEDS_CAPABILITY: &str =
    "the socket option IP_TRANSPARENT needs the capability CAP_NET_ADMIN or CAP_NET_RAW";

/// The state of the other end of a stream, bytes in front of its end aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerEnd {
    /// It may send more.
    Open,
    /// It has closed its sending side.
    Closed,
    /// The connection is broken.
    Reset,
}
