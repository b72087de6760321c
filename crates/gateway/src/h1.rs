//! HTTP/1.0 and 1.1 on both sides. `connection` sequences, `server` is the client's side of an exchange, `origin` the
//! node's, `writer` and `reader` are the halves of a message, `room` is what a peer still takes,
//! `tunnel` is what follows a 101.

pub(crate) mod connection;
pub(crate) mod origin;
pub(crate) mod reader;
mod room;
pub(crate) mod server;
pub(crate) mod tunnel;
pub(crate) mod writer;
