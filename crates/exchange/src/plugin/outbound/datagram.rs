//! Datagrams to a server that a plugin's configuration names: logs, StatsD, syslog over UDP. A datagram is handed to the
//! kernel or refused at once, so that no thread waits. It knows no format and splits nothing.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use model::outbound::OutboundPolicy;
use parking_lot::Mutex;

use super::addresses::{Addresses, Connecting};
use super::error::{OutboundCause, OutboundError};
use super::stream::host_and_port;
use net::endpoint::{KeepAlive, Protocol};
use net::resolver::Resolver;

/// The longest datagram: that of UDP over IPv4. A longer one is refused by the kernel.
pub const DATAGRAM_MAX_BYTES: usize = 65_507;

/// A server that datagrams are sent to; its name is looked up in the background.
pub struct DatagramDestination {
    addresses: Addresses,
    /// The socket of the address that was used last, connected so that the kernel reports a closed port.
    open: Mutex<Option<(SocketAddr, UdpSocket)>>,
}

impl DatagramDestination {
    /// A destination from `HOST:PORT`.
    ///
    /// # Errors
    /// Why datagrams cannot be sent to it, a sentence.
    pub(crate) fn new(
        place: &str,
        resolver: &Resolver,
        policy: Arc<OutboundPolicy>,
    ) -> Result<DatagramDestination, String> {
        let (host, port) = host_and_port(place)?;
        let connecting = Connecting { tls: None, protocol: Protocol::Raw, keep_alive: KeepAlive::default() };
        let addresses = Addresses::follow(place, host, port, connecting, resolver, policy);
        Ok(DatagramDestination { addresses, open: Mutex::default() })
    }

    /// Hands a datagram to the kernel. Whether it arrives is not known; that the port is closed may be, from the answer to
    /// an earlier one.
    ///
    /// # Errors
    /// The cause and the place: the name has no address, the address is out of bounds, the port is closed, the datagram is
    /// too long, or the kernel's buffer is full.
    pub fn send(&self, datagram: &[u8]) -> Result<(), OutboundError> {
        let nodes = self.addresses.nodes()?;
        let address = nodes.nodes[0].endpoint.address;
        let mut open = self.open.lock();
        if open.as_ref().is_none_or(|(known, _)| *known != address) {
            let socket = connected(address).map_err(|error| self.failed(OutboundCause::Connect, &error))?;
            *open = Some((address, socket));
        }
        let (_, socket) = open.as_ref().expect("it was opened above");
        match socket.send(datagram) {
            Ok(_) => Ok(()),
            Err(error) => {
                *open = None;
                Err(self.failed(OutboundCause::Broken, &error))
            }
        }
    }

    fn failed(&self, cause: OutboundCause, error: &io::Error) -> OutboundError {
        self.addresses.error(cause, error.to_string())
    }
}

fn connected(address: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.set_nonblocking(true)?;
    socket.connect(address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use testkit::wait_until;

    use super::*;
    use crate::testing;

    #[test]
    fn datagram_arrives_whole_or_is_refused() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let place = server.local_addr().unwrap().to_string();
        let services = testing::services();
        let destination = services.datagram_destination(&place).unwrap();
        wait_until("the address is known", || destination.send(b"first").is_ok());
        destination.send(b"second").unwrap();
        let mut room = [0; 100];
        for expected in ["first", "second"] {
            let count = server.recv(&mut room).unwrap();
            assert_eq!(&room[..count], expected.as_bytes());
        }
        let long = destination.send(&vec![0; DATAGRAM_MAX_BYTES + 1]).unwrap_err();
        assert_eq!((long.cause, &*long.place), (OutboundCause::Broken, &*place));
        drop(server);
        wait_until("the closed port is noticed", || destination.send(b"third").is_err());
    }

    #[test]
    fn metadata_service_is_out_of_bounds() {
        let services = testing::services();
        let destination = services.datagram_destination("169.254.169.254:514").unwrap();
        wait_until("the address is refused", || {
            destination.send(b"x").is_err_and(|error| error.cause == OutboundCause::Forbidden)
        });
        assert!(services.datagram_destination("nowhere").is_err());
    }
}
