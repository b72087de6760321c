//! Peers for the integration tests: scripted origins, a byte-exact client, the real binary, nginx,
//! HAProxy and etcd beside it.
//!
//! Plain threads and blocking sockets, and a reader of its own for HTTP/1: a mistake in the gateway's parser must
//! not be repeated by the peer that checks it, so nothing of the gateway is used here. Test code only: helpers
//! panic with a message where a test could do nothing else.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod certificates;
mod client;
mod etcd;
mod foreign;
mod haproxy;
mod nginx;
mod origin;
mod process;
mod relay;
mod signal;
mod wait;
mod weir;
mod wire;

pub use certificates::Certificates;
pub use client::{Broken, Client, Response, raw_exchange};
pub use etcd::Etcd;
pub use haproxy::Haproxy;
pub use nginx::Nginx;
pub use origin::{Origin, Reply, Request, Step};
pub use relay::Relay;
pub use signal::Signal;
pub use wait::{WAIT_LIMIT, wait_for, wait_until};
pub use weir::{ADMIN_KEY, Exited, Successor, Weir, WeirBuilder};
