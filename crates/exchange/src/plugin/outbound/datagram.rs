//! Datagrams to a server that a plugin's configuration names: logs, StatsD, syslog over UDP. A datagram is
//! handed to the kernel or refused at once, so that no thread waits. It knows no format and splits nothing.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use model::outbound::OutboundPolicy;
use parking_lot::Mutex;

use super::addresses::{Addresses, Connecting};
use super::error::{OutboundCause, OutboundError};
use super::stream::{StreamDestinations, host_and_port};
use crate::observe::pace::Pace;
use net::endpoint::{EndpointProtocol, KeepAlive};
use net::env;
use net::resolver::Resolver;

/// The longest datagram: that of UDP over IPv4. A longer one is refused by the kernel.
pub const DATAGRAM_MAX_BYTES: usize = 65_507;
/// Milliseconds between two log lines about refused datagrams.
const LOG_INTERVAL_MS: u64 = 10_000;

/// A server that datagrams are sent to; its name is looked up in the background.
pub struct DatagramDestination {
    addresses: Addresses,
    /// The socket of the address that was used last, connected so that the kernel reports a closed port.
    open: Mutex<OpenSocket>,
    refusals: Pace,
}

/// A connected socket and its address.
type OpenSocket = Option<(SocketAddr, UdpSocket)>;

impl StreamDestinations {
    /// A destination for datagrams, `HOST:PORT`, under the same policy.
    ///
    /// # Errors
    /// Why datagrams cannot be sent to it, a sentence.
    pub fn datagrams(&self, place: &str) -> Result<DatagramDestination, String> {
        DatagramDestination::new(place, &self.resolver, self.policy.clone())
    }
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
        let connecting =
            Connecting { tls: None, protocol: EndpointProtocol::Raw, keep_alive: KeepAlive::default() };
        let addresses = Addresses::follow(place, host, port, connecting, resolver, policy);
        Ok(DatagramDestination {
            addresses,
            open: Mutex::default(),
            refusals: Pace::every_ms(LOG_INTERVAL_MS),
        })
    }

    /// Hands a datagram to the kernel. Whether it arrives is not known. The kernel reports the refusal of an
    /// earlier datagram with the next one, which it does not send; that one is then sent from a new socket,
    /// because the server may have come back since.
    ///
    /// # Errors
    /// The cause and the place: the name has no address, the address is out of bounds, the port was closed
    /// for the new socket too, the datagram is too long, or the kernel's buffer is full.
    pub fn send(&self, datagram: &[u8]) -> Result<(), OutboundError> {
        let nodes = self.addresses.nodes()?;
        let address = nodes.nodes[0].endpoint.address;
        let mut open = self.open.lock();
        let sent = match send_to(&mut open, address, datagram) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                self.tell_of_refusal();
                send_to(&mut open, address, datagram).and_then(|()| refusal(&mut open))
            }
            sent => sent,
        };
        sent.map_err(|error| self.failed(OutboundCause::Broken, &error))
    }

    /// Says in the log, once in a while, that earlier datagrams are lost: no caller hears of it otherwise.
    fn tell_of_refusal(&self) {
        if let Some(datagrams) = self.refusals.add(1, env::monotonic_ns() / 1_000_000) {
            let place = self.addresses.place();
            tracing::warn!(%place, datagrams, "a port for datagrams was closed: datagrams that were sent to it are lost");
        }
    }

    fn failed(&self, cause: OutboundCause, error: &io::Error) -> OutboundError {
        self.addresses.error(cause, error.to_string())
    }
}

/// Hands a datagram to the socket of `address`, which is opened where there is none. After an error it is
/// closed.
fn send_to(open: &mut OpenSocket, address: SocketAddr, datagram: &[u8]) -> io::Result<()> {
    let socket = match open.take() {
        Some((known, socket)) if known == address => socket,
        _ => connected(address)?,
    };
    socket.send(datagram)?;
    *open = Some((address, socket));
    Ok(())
}

/// The refusal of the datagram that was just sent, if the kernel knows of it already: it does where the
/// server is on this machine.
fn refusal(open: &mut OpenSocket) -> io::Result<()> {
    let error = open.as_ref().and_then(|(_, socket)| socket.take_error().ok().flatten());
    match error {
        Some(error) => {
            *open = None;
            Err(error)
        }
        None => Ok(()),
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
    fn datagram_arrives_once_server_is_back() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let services = testing::services();
        let destination = services.datagram_destination(&address.to_string()).unwrap();
        wait_until("the address is known", || destination.send(b"first").is_ok());
        drop(server);
        // The kernel reports the refusal of this one with the next.
        destination.send(b"lost").unwrap();
        let server = UdpSocket::bind(address).unwrap();
        server.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        destination.send(b"third").unwrap();
        let mut room = [0; 100];
        let count = server.recv(&mut room).unwrap();
        assert_eq!(&room[..count], b"third");
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
