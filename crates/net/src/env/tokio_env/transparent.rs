//! Connections to other destinations: the options of sockets that take them, and the destination that the kernel remembers.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use socket2::{Domain, SockRef, Socket, Type};

use super::{BoundSocket, Stream};

/// Lets a listening socket take connections to any address (`IP_TRANSPARENT`, `IPV6_TRANSPARENT`), or no longer. A socket that
/// has the option as it is wanted is left alone, because only a process with a capability may set it.
///
/// # Errors
/// The kernel's, above all that the capability is missing.
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
    match (present == wanted, is_ipv4) {
        (true, _) => Ok(()),
        (false, true) => socket.set_ip_transparent_v4(wanted),
        (false, false) => socket.set_ip_transparent_v6(wanted),
    }
}

/// Whether the address is one of this machine, and connections to it stay here. It is asked of the kernel each time, because
/// addresses come and go. An error of another kind than "not available" counts as yes, because callers refuse such addresses.
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
