//! The one way out for plugins: HTTP requests to peers that a configuration names, such as an authorization
//! service or a log collector. Each worker, and the service thread, has a client of its own; a call runs on
//! the thread that asks, waits without blocking it, and ends with its future: dropping the future closes the
//! connection. It speaks plain HTTP/1.1, with TLS where the URI says https, follows no redirect and repeats
//! nothing that may have been done. Protocols other than HTTP get a bare stream, or send datagrams. It knows
//! no plugin.

mod adapter;
mod addresses;
mod client;
mod connection;
mod datagram;
mod destination;
mod error;
mod grpc;
mod open;
mod opener;
mod request;
mod stream;
mod tls;

pub use model::outbound::OutboundPolicy;

pub use client::{CopiedLine, HttpClient};
pub use datagram::{DATAGRAM_MAX_BYTES, DatagramDestination};
pub use destination::{OutboundDestination, check_uri};
pub use error::{OutboundCause, OutboundError};
pub use grpc::{GrpcAnswer, GrpcCall, GrpcDestination};
pub use opener::DestinationOpener;
pub use request::{OutboundLimits, OutboundRequest, OutboundResponse};
pub use stream::{OutboundStream, StreamDestination, StreamDestinations, check_place};
pub use tls::OutboundTls;
