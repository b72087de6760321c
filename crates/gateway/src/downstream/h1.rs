//! HTTP/1 downstream: `serve` takes a connection from one exchange to the next, `head` reads request heads,
//! `stream` is one exchange, `send_capacity` how much the client takes, `linger` the end of a connection,
//! `timer` its deadline.

pub(crate) mod connection;
mod head;
pub(super) mod linger;
mod send_capacity;
pub(crate) mod serve;
mod stream;
pub(crate) mod timer;
