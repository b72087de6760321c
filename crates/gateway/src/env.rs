//! The one seam between the gateway and the world: sockets, the monotonic clock, randomness, tasks. Everything else in
//! this crate reaches them through these names, so that another implementation can be put in their place at compile
//! time, at no cost and without a type parameter in any signature. It knows nothing of HTTP.

mod tokio_env;

pub use tokio_env::{Listener, Stream, connect, sleep_ms, spawn};

/// Nanoseconds of the monotonic clock since this process first asked, the same for all threads.
#[inline]
pub fn monotonic_ns() -> u64 {
    stdx::clock::monotonic_ns()
}

/// Seconds and nanoseconds since the Unix epoch.
pub fn wall_clock() -> std::time::Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

/// A number nobody can foretell from earlier ones at sight; not for keys.
#[inline]
pub fn random_u64() -> u64 {
    fastrand::u64(..)
}
