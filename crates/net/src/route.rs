//! Whether this machine has a route to an address. Asks the kernel, which sends no packet for it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Any port but 0, which some kernels refuse. Nothing is sent to it.
const PORT_OF_PROBE: u16 = 53;

/// Whether the kernel has a route to `address` and a source address for it: connecting a UDP socket chooses
/// both. An error of another kind, such as a lack of descriptors, says nothing of routes; then there is one.
pub fn has_route(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let connected = UdpSocket::bind(SocketAddr::new(any, 0))
        .and_then(|socket| socket.connect(SocketAddr::new(address, PORT_OF_PROBE)));
    connected.map_or_else(|error| !says_no_route(&error), |()| true)
}

/// Whether an error says that the machine has no way to an address: no route, no source address of the
/// family, or no support for the family.
fn says_no_route(error: &io::Error) -> bool {
    use libc::{EADDRNOTAVAIL, EAFNOSUPPORT, EHOSTUNREACH, ENETDOWN, ENETUNREACH};
    let codes = [ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL, EAFNOSUPPORT, ENETDOWN];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_a_route() {
        assert!(has_route(Ipv4Addr::LOCALHOST.into()));
        assert!(has_route("::ffff:127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn only_errors_of_routing_say_so() {
        let says = |code| says_no_route(&io::Error::from_raw_os_error(code));
        assert!(says(libc::ENETUNREACH) && says(libc::EADDRNOTAVAIL) && says(libc::EAFNOSUPPORT));
        assert!(!says(libc::EMFILE) && !says(libc::ECONNREFUSED));
    }
}
