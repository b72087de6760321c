//! The wire of HTTP/1.0 and 1.1 that both sides share: `peek_reader` reads from a socket, `reader` and
//! `writer` are the halves of a message, `encode` writes heads.

pub(crate) mod encode;
pub(crate) mod peek_reader;
pub(crate) mod reader;
pub(crate) mod writer;
