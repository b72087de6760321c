//! UDP sockets of listeners, of QUIC and of layer 4. The simulation has no form of them. They receive nothing
//! here.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use socket2::{Domain, Protocol, Socket, Type};

/// Bytes that the kernel may hold for a socket in each direction: bursts of many clients wait here while the
/// worker is busy with other work. The kernel's own limit (`net.core.rmem_max`) bounds it again.
const BUFFER_BYTES: usize = 2 * 1024 * 1024;

/// A socket for datagrams at `address` that is not bound yet; `shared` ones share their address with each
/// other (`SO_REUSEPORT`).
///
/// # Errors
/// The kernel's.
pub fn datagram_socket(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(shared)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    // Smaller buffers only drop datagrams sooner, as any network may.
    let _ = (socket.set_recv_buffer_size(BUFFER_BYTES), socket.set_send_buffer_size(BUFFER_BYTES));
    Ok(socket)
}

/// Binds such a socket for sessions of layer 4. The kernel tells with each datagram the address that it was
/// sent to, because a socket of every address cannot know it otherwise, and an answer from another address is
/// dropped by the client.
///
/// # Errors
/// The kernel's, above all that the address is in use.
pub fn bind_datagrams(address: SocketAddr, shared: bool) -> io::Result<UdpSocket> {
    let socket = datagram_socket(address, shared)?;
    tell_local_address(&socket, address.is_ipv4())?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Asks for a control message with the local address (`IP_PKTINFO`, `IPV6_PKTINFO`); every descriptor of the
/// socket has it.
fn tell_local_address(socket: &Socket, is_ipv4: bool) -> io::Result<()> {
    let (level, option) = match is_ipv4 {
        true => (libc::IPPROTO_IP, libc::IP_PKTINFO),
        false => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    };
    let on: libc::c_int = 1;
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open for the whole call, and the kernel reads `length` bytes at `on`, which
    // lives as long.
    #[allow(unsafe_code)]
    let status =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), length) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
