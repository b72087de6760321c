//! UDP sockets of listeners: one for each worker, sharing the address of the TLS listener. It receives nothing.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

/// Bytes that the kernel may hold for a socket in each direction: bursts of many clients wait here while the worker is busy
/// with other work. The kernel's own limit (`net.core.rmem_max`) bounds it again.
const BUFFER_BYTES: usize = 2 * 1024 * 1024;

/// Binds a socket; `shared` ones share their address with each other (`SO_REUSEPORT`).
///
/// # Errors
/// The kernel's, above all that the address is in use.
pub fn bind(address: SocketAddr, shared: bool) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(shared)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    // Smaller buffers only drop datagrams sooner, which QUIC repairs.
    let _ = (socket.set_recv_buffer_size(BUFFER_BYTES), socket.set_send_buffer_size(BUFFER_BYTES));
    socket.bind(&address.into())?;
    Ok(socket.into())
}
