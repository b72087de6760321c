//! QUIC for the workers: endpoints on sockets that all workers share by `SO_REUSEPORT`. `secret` holds the
//! keys that are the same in every worker, `connection_id` names the worker in every connection identifier,
//! `steering` passes datagrams to it, `line` to another process, `process` is what upgrades hand on, `socket`
//! sends and receives, `endpoint` puts them together, and `guard` contains panics of the library. It knows no
//! HTTP, and the simulation has no form of it.

mod connection_id;
mod endpoint;
mod guard;
mod line;
mod process;
mod secret;
mod socket;
mod steering;
mod udp;

pub use connection_id::SocketLocation;
pub use endpoint::{EndpointParts, QuicEndpoint, QuicLimits};
pub use guard::{Guarded, QuicHealth};
pub use process::QuicProcess;
pub use secret::QuicSecret;
pub use socket::QuicCounts;
pub use steering::Steering;
pub use udp::bind_quic_socket;

#[cfg(all(test, not(feature = "simulation")))]
mod tests;
