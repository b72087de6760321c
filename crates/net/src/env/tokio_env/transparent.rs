//! Connections to other destinations: the options of sockets that take them, and the destination that the
//! kernel remembers.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use socket2::{Domain, SockRef, Socket, Type};
use tokio::net::TcpSocket;

use super::{BoundSocket, Stream};
use crate::env::NEEDS_CAPABILITY;

/// Lets a listening socket take connections to any address (`IP_TRANSPARENT`, `IPV6_TRANSPARENT`), or no
/// longer. A socket that has the option as it is wanted is left alone, because only a process with a
/// capability may set it.
///
/// # Errors
/// [`NEEDS_CAPABILITY`], or another one of the kernel's.
pub fn set_transparent(socket: &BoundSocket, wanted: bool) -> io::Result<()> {
    let is_ipv4 = socket.local_addr()?.is_ipv4();
    set(&SockRef::from(socket), is_ipv4, wanted)
}

/// Whether this process may set that option, tried with a socket that is closed again.
///
/// # Errors
/// As [`set_transparent`].
pub fn try_transparent() -> io::Result<()> {
    set(&Socket::new(Domain::IPV4, Type::STREAM, None)?, true, true)
}

fn set(socket: &Socket, is_ipv4: bool, wanted: bool) -> io::Result<()> {
    let present = if is_ipv4 { socket.ip_transparent_v4() } else { socket.ip_transparent_v6() }?;
    let set = match (present == wanted, is_ipv4) {
        (true, _) => Ok(()),
        (false, true) => socket.set_ip_transparent_v4(wanted),
        (false, false) => socket.set_ip_transparent_v6(wanted),
    };
    set.map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => io::Error::new(error.kind(), NEEDS_CAPABILITY),
        _ => error,
    })
}

/// Opens a connection as [`super::connect`], from an address that need not be one of this machine.
///
/// # Errors
/// Those of [`set_transparent`] and of the connection, and [`io::ErrorKind::InvalidInput`] if one address is
/// of IPv4 and the other one of IPv6.
pub async fn connect_as(source: IpAddr, address: SocketAddr) -> io::Result<Stream> {
    if source.is_ipv4() != address.is_ipv4() {
        let reason = format!(
            "{source} cannot connect to {address}: one of them is an address of IPv4, the other one of IPv6"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_nodelay(true)?;
    set(&SockRef::from(&socket), address.is_ipv4(), true)?;
    choose_port_later(&socket)?;
    socket.bind(SocketAddr::new(source, 0))?;
    socket.connect(address).await.map(Stream)
}

/// Lets the kernel choose the port when it knows the destination (`IP_BIND_ADDRESS_NO_PORT`), so that
/// connections of one source to several destinations may share a port. Otherwise a source had one connection
/// for each of about 28,000 ports.
fn choose_port_later(socket: &TcpSocket) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    let option = libc::IP_BIND_ADDRESS_NO_PORT;
    // SAFETY: the descriptor is open for the whole call, and the kernel reads `length` bytes at `on`, which
    // lives as long.
    #[allow(unsafe_code)]
    let status = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, option, (&raw const on).cast(), length)
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether the address is one of this machine, and connections to it stay here. It is asked of the kernel
/// each time, because addresses come and go. An error of another kind than "not available" counts as yes,
/// because callers refuse such addresses.
pub fn is_local_address(address: IpAddr) -> bool {
    match UdpSocket::bind(SocketAddr::new(address, 0)) {
        Ok(_) => true,
        Err(error) => error.kind() != io::ErrorKind::AddrNotAvailable,
    }
}

impl Stream {
    /// The destination that a connection had before a NAT rule changed it to the address of this machine
    /// (`SO_ORIGINAL_DST`).
    ///
    /// # Errors
    /// The kernel's, above all that it tracks no such connection.
    pub fn original_destination(&self) -> io::Result<SocketAddr> {
        let socket = SockRef::from(&self.0);
        let asked =
            if self.local_address()?.is_ipv4() { socket.original_dst_v4() } else { socket.original_dst_v6() };
        asked?.as_socket().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_told_from_others() {
        for (address, is_local) in [
            ("127.0.0.1", true),
            ("127.200.3.4", true),
            ("::1", true),
            ("192.0.2.1", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_local_address(address.parse().unwrap()), is_local, "{address}");
        }
    }
}
