//! How much traffic passes, as pages and commands show it.

use std::sync::Arc;

/// The traffic of the last minute, by what a page tells it apart by.
pub trait Traffic: Send + Sync {
    /// The rates of the last minute, the busiest first. The gateway keeps the answer for a second, so that asking often is
    /// cheap.
    fn rates(&self, by: Breakdown) -> Arc<[Rate]>;
}

/// The property by which traffic is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breakdown {
    /// The route's identifier.
    Routes,
    /// The consumer's name.
    Consumers,
    /// The endpoint's address.
    Endpoints,
    /// The cause of a failure.
    Causes,
}

/// The traffic of one route, consumer, endpoint or cause.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// The route's identifier, the consumer's name, the address, or the name of the cause.
    pub id: Arc<str>,
    /// Requests a second.
    pub requests: f64,
    /// Their share with a status of 400 to 499, in percent.
    pub client_errors: f64,
    /// Their share with a status of 500 to 599, in percent.
    pub server_errors: f64,
    /// The 99th percentile of their time, in microseconds; none where it is not measured.
    pub p99_us: Option<u64>,
    /// Bytes of responses a second.
    pub bytes: f64,
}
