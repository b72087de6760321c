//! The downstream side: connections of clients, by protocol, and what each of them knows of its listener and
//! of its place in the worker's counts.

pub(crate) mod arrival;
pub(crate) mod connection_guard;
pub(crate) mod datagrams;
mod detached;
mod extended_connect;
pub(crate) mod h1;
pub(crate) mod h2;
pub(crate) mod h3;
mod header_refusal;
mod idle_clock;
pub(crate) mod inner;
pub(crate) mod layers;
pub(crate) mod listener_state;
pub(crate) mod proxy_protocol;
pub(crate) mod stream;
mod stream_counts;
mod stream_end;
mod streams;
pub(crate) mod tls;
mod waker;
