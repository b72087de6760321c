//! The one seam between the gateway and the world: sockets, clocks, randomness, tasks. Everything else in this crate
//! reaches them through these names, so that another implementation can be put in their place at compile time, at no
//! cost and without a type parameter in any signature. It knows nothing of HTTP.
//!
//! Behind it is what a request meets on its way, and name lookups. Beside it stay threads that only block and decide
//! nothing about requests (the engine's, the log's), and `tokio::sync`'s channels, which know no runtime and no clock.

mod tokio_env;

pub use tokio_env::{
    BoundSocket, Listener, Socket, Stream, bind, connect, monotonic_ns, random_u64, sleep_ms, spawn,
    wall_clock,
};
pub(crate) use tokio_env::{block_on, service, wait_while};
