//! HTTP/1.0 and 1.1 without I/O: heads, field lists, message framing, the chunked coding and the encoders.
//! It knows bytes and RFC 9110/9112; it does not know sockets, clocks, routes or policies beyond the wire.
//!
//! The parsers are strict where the standard lets a recipient choose: a message that two programs could read
//! in two ways is an error, never a guess. The one exception is [`parse_upstream_response`], because a
//! response is written anew before it is forwarded. Everything a proxy needs later (framing, persistence,
//! expectation, hop-by-hop fields) is decided in the one pass over the fields that reads them.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod chunked;
pub mod encode;
mod error;
mod lenient;
mod limits;
mod line;
mod request;
mod response;
mod semantics;

pub use error::HeadError;
pub use limits::Limits;
pub use request::{
    RequestFraming, RequestWire, TargetForm, asks_for_head, is_still_partial, parse_request, read_refused,
};
pub use response::{ResponseFraming, ResponseWire, parse_response, parse_upstream_response};

/// The result of a head parser for the bytes it was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadStatus {
    /// The head is not complete: call again with the same bytes and more behind them.
    Partial,
    /// The head is complete and copied; the body (or the next message) begins at this offset.
    Complete {
        /// How many bytes of the input the head took, its empty line included.
        head_bytes: usize,
    },
}
