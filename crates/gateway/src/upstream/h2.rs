//! HTTP/2 upstream: `link` is a connection as its streams, its task and the pool share it, `driver` the task, `keep_alive`
//! the PINGs of it, `stream` one exchange, `encode` its request head, `pool` the connections of a worker, and `pending` one
//! that is being opened.

pub(crate) mod driver;
mod encode;
mod keep_alive;
pub(crate) mod link;
pub(crate) mod pending;
pub(crate) mod pool;
pub(crate) mod stream;
pub(crate) mod tunnel_end;
