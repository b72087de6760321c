//! HTTP/2 of clients against the real binary. The peers are the crate `h2`, curl, h2load, h2spec, and raw
//! frames.

mod bodies;
mod changeover;
pub(crate) mod client;
mod conformance;
mod exchanges;
mod grpc;
mod grpc_streams;
mod hostile;
mod lifecycle;
mod limits;
mod listeners;
mod raw;
mod resets;
mod websocket;
