//! HTTP/2 upstream: `link` is a connection as its streams, its task and the pool share it, `config` its
//! limits, `driver` the task, `keep_alive` the PINGs of it, `stream` one exchange, `encode` its request head,
//! `tunnel_end` a stream that has become a tunnel, `pool` the connections of a worker, and `pending` one that
//! is being opened.

mod config;
pub(crate) mod driver;
mod encode;
mod keep_alive;
pub(crate) mod link;
pub(crate) mod pending;
pub(crate) mod pool;
pub(crate) mod stream;
pub(crate) mod tunnel_end;
