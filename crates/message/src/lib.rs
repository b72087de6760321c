//! HTTP messages whatever their wire format: methods, versions, field lists, request and response heads, and
//! the grammar that RFC 9110 shares by all versions. It knows no framing, no connection and no socket.
#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod accept;
mod field;
mod field_sink;
mod headers;
mod limits;
mod method;
pub mod query;
pub mod reason;
pub mod refused;
mod request;
mod response;
mod span;
pub mod syntax;
mod version;

pub use field::{FieldId, FieldSet};
pub use field_sink::FieldSink;
pub use headers::{FieldError, FieldRef, Fields, Headers};
pub use limits::{HEADERS_BYTES_MAX, HeadLimits};
pub use method::Method;
pub use request::{RequestError, RequestHead, RequestSpans};
pub use response::ResponseHead;
pub use span::Span;
pub use version::Version;
