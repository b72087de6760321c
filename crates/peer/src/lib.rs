//! HTTP/1 and WebSocket as the programs on both sides of a gateway read them: the echo origin, the load
//! generator and the peers of tests. Strict, naive and without I/O. It shares no code with `http1`, so that a
//! mistake there is not repeated by the programs that check the gateway.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod body;
pub mod head;
pub mod websocket;

/// Bytes that no peer may send; the text names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault(pub &'static str);
