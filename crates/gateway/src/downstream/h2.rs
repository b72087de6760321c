//! HTTP/2 downstream: `serve` is the one task of a connection, `streams` its exchanges in flight, `waker` how one of them
//! asks for its turn, `lifecycle` deadlines, drain and the end. `served` is one exchange, `stream` its two bodies,
//! `encode` its response head, `websocket` its upgrade, `tunnel_end` what follows that.

mod encode;
mod lifecycle;
mod link;
pub(crate) mod serve;
mod served;
mod stream;
mod streams;
mod tunnel_end;
mod waker;
mod websocket;
