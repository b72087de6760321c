//! The one way out for plugins: HTTP requests to peers that a configuration names, such as an authorization service or
//! a log collector. Each worker, and the service thread, has a client of its own; a call runs on the thread that asks,
//! waits without blocking it, and ends with its future: dropping the future closes the connection. It speaks plain
//! HTTP/1.1, follows no redirect and repeats nothing that may have been done. It knows no plugin.

mod client;
mod connection;
mod destination;
mod error;

use bytes::Bytes;
use message::{Headers, Method};
pub use model::outbound::OutboundPolicy;

pub use client::HttpClient;
pub use destination::{Destination, check_uri};
pub use error::{OutboundCause, OutboundError};

/// The longest head of an answer, and the most fields in it: as much as the gateway takes from any origin by default.
const HEAD_MAX_BYTES: usize = 64 * 1024;
const FIELDS_MAX: usize = 100;

/// A request to a [`Destination`], which says where it goes and with which target.
#[derive(Debug)]
pub struct OutboundRequest {
    /// The method.
    pub method: Method,
    /// Fields besides Host, Content-Length and User-Agent, which are added. Fields about the connection are left out.
    pub headers: Headers,
    /// The body; it can be shared by several requests.
    pub body: Bytes,
}

/// How much a call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboundLimits {
    /// Opening a connection, to each address of a name, in milliseconds.
    pub connect_timeout_ms: u64,
    /// The whole call up to the last byte of the answer, in milliseconds.
    pub total_timeout_ms: u64,
    /// The longest body of an answer, in bytes.
    pub max_body_bytes: usize,
}

/// A whole answer.
#[derive(Debug)]
pub struct OutboundResponse {
    /// The status code.
    pub status: u16,
    /// The fields, hop-by-hop ones left out.
    pub headers: Headers,
    /// The body.
    pub body: Vec<u8>,
}
