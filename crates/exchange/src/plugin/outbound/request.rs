//! A call to a destination: the request, how much it may take, and the response.

use bytes::Bytes;
use message::{Headers, Method};

/// A request to a [`OutboundDestination`](super::OutboundDestination), which says where it goes and with
/// which target.
#[derive(Debug)]
pub struct OutboundRequest {
    /// The method.
    pub method: Method,
    /// Fields besides Host, Content-Length and User-Agent, which are added. Fields about the connection are
    /// left out.
    pub headers: Headers,
    /// The body; it can be shared by several requests.
    pub body: Bytes,
}

/// The parts of a client's request that a copy of it keeps besides its fields and its body.
#[derive(Debug)]
pub struct CopiedLine {
    /// The method, which replaces that of the request; it may be one that has no name here.
    pub method: Box<[u8]>,
    /// Path and query, in place of those of the destination's URI.
    pub target: String,
    /// The Host field, in place of the authority of the destination's URI.
    pub host: Box<[u8]>,
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
