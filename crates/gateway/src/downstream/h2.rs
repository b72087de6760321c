//! HTTP/2 downstream: `serve` is the one task of a connection, `lifecycle` deadlines, drain and the end.
//! `served` is one exchange, `stream` its two bodies, `encode` its response head.

mod encode;
mod lifecycle;
mod link;
pub(crate) mod serve;
mod served;
mod stream;
