//! HTTP/3 (RFC 9114) and QPACK (RFC 9204) without I/O, for both sides of a connection. It knows bytes, times
//! that it is handed, and the rules of the wire; it does not know QUIC, sockets, clocks, routes or policies
//! beyond the wire.
//!
//! A driver owns a QUIC connection and one [`Connection`]. It
//!
//! 1. opens one unidirectional stream and writes [`Connection::control_output`] to it, now and whenever there
//!    is some,
//! 2. makes a [`UniStream`] for each unidirectional stream of the peer and passes its bytes to
//!    [`Connection::receive_uni`],
//! 3. gets a [`RequestReader`] for each request from [`Connection::open_request`] (server) or
//!    [`Connection::start_request`] (client) and passes the bytes of the stream to [`RequestReader::read`],
//!    which names data as ranges of its input,
//! 4. writes heads, data and trailers with [`writer`] into the buffer of the stream; the end of a message is
//!    the end of the stream,
//! 5. calls [`Connection::tick`] once in a turn and drains [`Connection::next_event`].
//!
//! A [`Fault`] says whether the stream is reset or the connection closed, and with which code. The rules are
//! as strict as those of HTTP/2. Table capacity of QPACK is zero in both directions: a section refers to the
//! static table only, so that streams never wait for each other and QPACK needs no streams of its own. Every
//! size and rate has a limit in [`Limits`]; the limits of the transport (streams, windows, handshakes) are
//! named there as well.
#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod connection;
mod error;
mod flood;
mod frame;
mod limits;
pub mod qpack;
mod request;
mod settings;
mod varint;
pub mod writer;

pub use connection::{Config, Connection, Event, StartError, UniState, UniStream};
pub use error::{ConnectionError, ErrorCode, Fault, StreamError};
pub use limits::Limits;
pub use message::FieldSink;
pub use multiplex::{Priority, RequestTarget, Scheme};
pub use request::{RequestEvent, RequestInfo, RequestReader, ResponseInfo, Step};
pub use settings::PeerSettings;
