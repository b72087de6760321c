//! HTTP/3 downstream: `handshake` makes a connection of a client that was accepted, `serve` is its one task,
//! `duties` its streams besides requests, `lifecycle` deadlines, drain and the end. `served` is one exchange,
//! `incoming` reads its request, `outgoing` sends its response, `stream` is its two bodies, `encode` its
//! response head.

mod connection;
mod duties;
mod encode;
pub(crate) mod handshake;
mod incoming;
mod lifecycle;
mod link;
mod outgoing;
mod serve;
mod served;
mod stream;
