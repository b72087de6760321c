//! UDP sockets of listeners of QUIC: one for each worker, sharing the address of the TLS listener. It
//! receives nothing.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use crate::env;

/// Binds a socket; `shared` ones share their address with each other (`SO_REUSEPORT`).
///
/// # Errors
/// The kernel's, above all that the address is in use.
pub fn bind_quic_socket(address: SocketAddr, shared: bool) -> io::Result<UdpSocket> {
    let socket = env::datagram_socket(address, shared)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}
