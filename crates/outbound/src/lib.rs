//! The parts that the control side and service discovery share to reach the world outside of the process:
//! connections under the rule of outbound calls, TLS, one bounded request, a client of etcd, files that a
//! user names, and a thread for such work. It knows no configuration of the gateway.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod background;
pub mod blocking_tls;
pub mod bounded_request;
pub mod connect;
pub mod etcd;
pub mod regular_file;
pub mod tls;
