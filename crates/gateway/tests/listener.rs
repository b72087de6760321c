//! Listening sockets of the real kernel.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::io;
use std::net::SocketAddr;

use gateway::listener::bind;

#[test]
fn workers_share_a_port_and_strangers_do_not() {
    let listening = bind(SocketAddr::from(([127, 0, 0, 1], 0)), 3).unwrap();
    assert_eq!(listening.len(), 3);
    let address = listening[0].address;
    assert!(address.port() != 0 && listening.iter().all(|one| one.address == address));
    let error = bind(address, 1).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
}
