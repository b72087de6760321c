//! HTTP/1.0 and 1.1 without I/O: heads, field lists, message framing, the chunked coding and the encoders.
//! It knows bytes and RFC 9110/9112; it refuses to know sockets, clocks, routes or policies beyond the wire.
//!
//! The parsers are strict where the standard lets a recipient choose: a message that two programs could
//! read in two ways is an error, never a guess. Everything a proxy needs later (framing, persistence,
//! expectation, hop-by-hop fields) is decided in the one pass over the fields that reads them.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod chunked;
pub mod encode;
mod error;
mod field;
mod headers;
mod limits;
mod line;
mod method;
mod request;
mod response;
mod semantics;
mod span;
mod syntax;

pub use error::HeadError;
pub use field::{FieldId, FieldSet};
pub use headers::{FieldError, FieldRef, Fields, Headers};
pub use limits::{HeadLimits, Limits};
pub use method::Method;
pub use request::{RequestFraming, RequestHead, TargetForm, asks_for_head, is_still_partial, parse_request};
pub use response::{ResponseFraming, ResponseHead, parse_response};
pub use span::Span;
pub use syntax::{is_authority, is_field_value, is_token};

/// The protocol version of a message; every other version is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Version {
    /// HTTP/1.0 (RFC 1945).
    Http10,
    /// HTTP/1.1 (RFC 9112).
    #[default]
    Http11,
}

impl Version {
    /// The version as it stands in a start line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
        }
    }
}

/// What a head parser says about the bytes it was shown.
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
