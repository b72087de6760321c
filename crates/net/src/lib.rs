//! Sockets, listeners, name lookups and the endpoints that connections go to, behind one seam to the world
//! that the simulation replaces. It knows no HTTP, no route and no request.
#![warn(missing_docs)]
#![cfg_attr(any(test, feature = "simulation"), allow(clippy::unwrap_used))]

mod byte_cursor;
pub mod endpoint;
pub mod env;
pub mod listener;
pub mod node_health;
pub mod node_state;
pub mod nodes;
pub mod proxy_protocol;
pub mod quic;
pub mod resolver;
pub mod route;
pub mod sniff;
pub mod tls;
pub mod transport;
