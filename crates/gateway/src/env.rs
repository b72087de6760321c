//! The one seam between the gateway and the world: sockets, clocks, randomness, tasks. Everything else in this crate
//! reaches them through these names, so that another implementation can be put in their place at compile time, at no
//! cost and without a type parameter in any signature. It knows nothing of HTTP.
//!
//! Behind it is what a request meets on its way, and name lookups. Beside it stay threads that only block and decide
//! nothing about requests (the engine's, the log's), and `tokio::sync`'s channels, which know no runtime and no clock.

//!
//! The other side is `memory`, of the simulation: only in this crate's own unit tests, and only with the feature
//! `simulation`. The feature alone changes nothing, so that no other crate can switch the real thing off by unification;
//! unit tests alone do not either, so that they may use real sockets.

#[cfg(all(test, feature = "simulation"))]
pub(crate) mod memory;
#[cfg(not(all(test, feature = "simulation")))]
mod tokio_env;

#[cfg(all(test, feature = "simulation"))]
use memory as chosen;
#[cfg(not(all(test, feature = "simulation")))]
use tokio_env as chosen;

pub use chosen::{
    BoundSocket, Listener, Socket, Stream, bind, connect, monotonic_ns, random_u64, sleep_ms, spawn,
    wall_clock,
};
pub(crate) use chosen::{block_on, service, wait_while, yield_when_spent};
