//! HTTP/2 (RFC 9113) and HPACK (RFC 7541) without I/O, for both sides of a connection. It knows bytes, times
//! that it is handed, and the rules of the wire; it does not know sockets, clocks, routes or policies beyond
//! the wire.
//!
//! A driver owns a [`Connection`] and the transport. Each turn of its event loop it
//!
//! 1. reads bytes and passes them to [`Connection::receive`],
//! 2. drains [`Connection::next_event`] and lets its streams work: they take heads and data, and write heads
//!    and data,
//! 3. writes [`Connection::output`] once for all streams and says with [`Connection::advance`] how much was
//!    written,
//! 4. calls `next_event` again, because written bytes make capacity for streams that wait.
//!
//! The rules are strict: a message that two programs could read in two ways is a stream error, and a peer
//! that costs more than it pays ends the connection with ENHANCE_YOUR_CALM. Every queue, table, count and
//! rate has a limit in [`Limits`].
#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod connection;
mod error;
mod flood;
mod flow;
mod frame;
pub mod hpack;
mod limits;
mod output;
mod pool;
mod settings;
mod stream;
mod streams;

pub use connection::{
    BodyState, Config, Connection, Event, HeadWriter, RefusedRequest, RequestInfo, Reset, ResetBy,
    ResponseInfo, StartError,
};
pub use error::{ConnectionError, ErrorCode};
pub use limits::Limits;
pub use message::FieldSink;
pub use multiplex::{Priority, RequestTarget, Scheme};
pub use pool::{clear_pools, recycle};
pub use settings::PeerSettings;
pub use streams::StreamKey;
