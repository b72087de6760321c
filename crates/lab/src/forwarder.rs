//! The study of thread models: the forms of one forwarder differ only in the event loop of the upstream's
//! connection, as a contender beside the others. It is no gateway: it knows one origin, no routes and no
//! limits beyond those of its buffers.

mod body;
mod buffers;
mod exchange;
mod layer4;
mod layer7;
mod link;
mod loops;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use clap::ValueEnum;

pub use buffers::Buffers;
pub use loops::start_forwarder;

/// The form of a forwarder.
#[derive(Clone, Copy, Debug)]
pub struct ForwarderSettings {
    /// The layer at which it forwards.
    pub layer: Layer,
    /// The event loop of the upstream's connection.
    pub model: Model,
    /// Event loops for clients' connections; with [`Model::SeparatePools`] as many again for upstreams.
    pub workers: usize,
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where it forwards to.
    pub origin: SocketAddr,
    /// Where the memory of read buffers comes from.
    pub buffers: Buffers,
}

/// The layer at which bytes are forwarded.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Layer {
    /// Bytes are copied; an upstream connection belongs to one client
    #[value(name = "4")]
    Four,
    /// HTTP/1.1 is parsed; upstream connections are kept and shared
    #[value(name = "7")]
    Seven,
}

/// The event loop of the upstream's connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Model {
    /// On the event loop of its client: nothing is ever handed over
    SameLoop,
    /// On the next event loop of the one pool, which may be the client's by chance
    SharedPool,
    /// On an event loop of another pool: everything is handed over twice
    SeparatePools,
}
