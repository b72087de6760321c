//! HTTP/1.0 and 1.1 on both sides. `connection` sequences, `server` is the client's side of an exchange, `origin` the
//! node's, `writer` and `reader` are the halves of a message, `intake` is what they read from, `room` what a peer still
//! takes, `tunnel` what follows a 101, `linger` the end of a connection.

pub(crate) mod connection;
mod linger;
pub(crate) mod origin;
mod peek_reader;
pub(crate) mod reader;
mod send_capacity;
pub(crate) mod server;
pub(crate) mod timer;
pub(crate) mod tunnel;
pub(crate) mod writer;
