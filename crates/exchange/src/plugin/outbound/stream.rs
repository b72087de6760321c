//! A byte stream to a server that a plugin's configuration names, with or without TLS, for protocols other
//! than HTTP: Redis, Kafka, gRPC. The plugin speaks the protocol; this opens the stream, within a time, and
//! reads and writes.
//!
//! Dropping a stream, or a future of it, closes the connection. Streams are not pooled: a plugin keeps those
//! that it uses again. A stream belongs to the thread that opened it.

use std::future::poll_fn;
use std::io;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};

use model::outbound::OutboundPolicy;

use super::addresses::{Addresses, Connecting};
use super::client::more_telling;
use super::error::{OutboundCause, OutboundError};
use super::open::{open, within};
use super::tls::OutboundTls;
use net::endpoint::{EndpointProtocol, KeepAlive};
use net::resolver::Resolver;
use net::tls::identity::ClientIdentities;
use net::transport::Transport;

/// A server that streams are opened to; its name is looked up in the background.
pub struct StreamDestination {
    addresses: Addresses,
    server_name: Box<str>,
    /// Where the next stream begins among the addresses of a name.
    next: AtomicUsize,
}

impl StreamDestination {
    /// A destination from `HOST:PORT`, in cleartext without `tls`.
    ///
    /// # Errors
    /// Why streams cannot be opened to it, a sentence.
    pub(crate) fn new(
        place: &str,
        tls: Option<&OutboundTls>,
        identities: &ClientIdentities,
        resolver: &Resolver,
        policy: Arc<OutboundPolicy>,
    ) -> Result<StreamDestination, String> {
        let (host, port) = host_and_port(place)?;
        let server_name = tls.and_then(|tls| tls.server_name.as_deref()).unwrap_or(host).into();
        let connecting = Connecting {
            tls: tls.map(|tls| identities.intern(tls.identity(&[]))).transpose()?,
            protocol: EndpointProtocol::Raw,
            keep_alive: KeepAlive::default(),
        };
        let addresses = Addresses::follow(place, host, port, connecting, resolver, policy);
        Ok(StreamDestination { addresses, server_name, next: AtomicUsize::new(0) })
    }

    /// Opens a stream. The addresses of a name are tried by turns, each within `timeout_ms` with its TLS
    /// handshake.
    ///
    /// # Errors
    /// The cause, the place and the side at fault.
    pub async fn connect(&self, timeout_ms: u64) -> Result<OutboundStream, OutboundError> {
        let nodes = self.addresses.nodes()?;
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let mut failed = None;
        for turn in 0..nodes.nodes.len() {
            let endpoint = &nodes.nodes[first.wrapping_add(turn) % nodes.nodes.len()].endpoint;
            match open(endpoint, &self.server_name, timeout_ms).await {
                Ok(transport) => return Ok(OutboundStream { transport }),
                Err(reason) => failed = Some(more_telling(failed, reason)),
            }
        }
        let (cause, detail) = failed.expect("a destination without addresses was refused before");
        Err(self.addresses.error(cause, detail))
    }

    /// Waits until the name was looked up, with an address or without, at most `wait_ms` milliseconds; how
    /// many it has waited.
    pub async fn looked_up(&self, wait_ms: u64) -> u64 {
        self.addresses.looked_up(wait_ms).await
    }

    /// The failure of a step on a stream to this destination, for messages that name the place.
    pub fn broken(&self, error: &io::Error) -> OutboundError {
        let timed_out = error.kind() == io::ErrorKind::TimedOut;
        let cause = if timed_out { OutboundCause::Timeout } else { OutboundCause::Broken };
        self.addresses.error(cause, error.to_string())
    }
}

/// Makes destinations with the same TLS settings, while requests are served.
pub struct StreamDestinations {
    tls: Option<OutboundTls>,
    identities: Arc<ClientIdentities>,
    pub(super) resolver: Arc<Resolver>,
    pub(super) policy: Arc<OutboundPolicy>,
}

impl StreamDestinations {
    pub(crate) fn new(
        tls: Option<OutboundTls>,
        identities: Arc<ClientIdentities>,
        resolver: Arc<Resolver>,
        policy: Arc<OutboundPolicy>,
    ) -> StreamDestinations {
        StreamDestinations { tls, identities, resolver, policy }
    }

    /// A destination from `HOST:PORT`. A name is looked up from now on, so that the first streams to it may
    /// fail with [`OutboundCause::NoAddress`].
    ///
    /// # Errors
    /// Why streams cannot be opened to it, a sentence.
    pub fn destination(&self, place: &str) -> Result<StreamDestination, String> {
        self.destination_with(place, self.tls.as_ref())
    }

    /// As [`StreamDestinations::destination`], with TLS settings of its own, or in cleartext without them.
    ///
    /// # Errors
    /// Why streams cannot be opened to it, a sentence.
    pub fn destination_with(
        &self,
        place: &str,
        tls: Option<&OutboundTls>,
    ) -> Result<StreamDestination, String> {
        StreamDestination::new(place, tls, &self.identities, &self.resolver, self.policy.clone())
    }
}

/// An open stream.
#[derive(Debug)]
pub struct OutboundStream {
    transport: Transport,
}

impl OutboundStream {
    /// Reads what has come into `room`, within `timeout_ms`; 0 bytes are the end of the stream.
    ///
    /// # Errors
    /// The socket's, [`io::ErrorKind::TimedOut`], and [`io::ErrorKind::UnexpectedEof`] where TLS was cut off.
    pub async fn read(&mut self, room: &mut [u8], timeout_ms: u64) -> io::Result<usize> {
        let read = poll_fn(|cx| self.transport.poll_read(cx, room));
        within(timeout_ms, read).await.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Writes all of `data`, within `timeout_ms`. After an error the stream is of no further use, because it
    /// is not known how much was written.
    ///
    /// # Errors
    /// The socket's, and [`io::ErrorKind::TimedOut`].
    pub async fn write_all(&mut self, data: &[u8], timeout_ms: u64) -> io::Result<()> {
        let write = async {
            let mut left = data;
            while !left.is_empty() {
                let count = poll_fn(|cx| self.transport.poll_write(cx, left)).await?;
                if count == 0 {
                    return Err(io::ErrorKind::WriteZero.into());
                }
                left = &left[count..];
            }
            Ok(())
        };
        within(timeout_ms, write).await.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Whether the other side has neither closed the stream nor sent anything, as far as it has arrived. Of a
    /// stream that was kept it tells whether it can be used again; bytes that have arrived are lost.
    pub fn is_quiet(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        self.transport.poll_read(&mut cx, &mut [0; 1]).is_pending()
    }

    /// Closes the sending side within `timeout_ms`; over TLS, with close_notify, which a peer that reads
    /// nothing holds up.
    ///
    /// # Errors
    /// The socket's, and [`io::ErrorKind::TimedOut`].
    pub async fn shutdown(&mut self, timeout_ms: u64) -> io::Result<()> {
        let shutdown = poll_fn(|cx| self.transport.poll_shutdown(cx));
        within(timeout_ms, shutdown).await.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Checks that `place` is `HOST:PORT`.
///
/// # Errors
/// The misfit, as a sentence.
pub fn check_place(place: &str) -> Result<(), String> {
    host_and_port(place).map(drop)
}

/// The parts of `HOST:PORT`; an IPv6 address stands in brackets.
pub(super) fn host_and_port(place: &str) -> Result<(&str, u16), String> {
    let wanted = || format!("{place} is not HOST:PORT");
    let (host, port) = place.rsplit_once(':').ok_or_else(wanted)?;
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = match bracketed {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty() && !host.contains([':', '[', ']', '/']) && !host.contains(char::is_whitespace)
        }
    };
    if !is_host {
        return Err(wanted());
    }
    match port.parse() {
        Ok(port @ 1..) => Ok((host.trim_matches(['[', ']']), port)),
        _ => Err(format!("{place}: the port {port} is not a number from 1 to 65535")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_or_refused() {
        let check = |place: &str, expected: Option<(&str, u16)>| {
            assert_eq!(host_and_port(place).ok(), expected, "{place}");
        };
        check("redis.example:6379", Some(("redis.example", 6379)));
        check("127.0.0.1:1", Some(("127.0.0.1", 1)));
        check("[::1]:9092", Some(("::1", 9092)));
        for place in ["", "a", ":80", "a:", "a:0", "a:65536", "a:x", "::1:80", "[::1]", "[a b:c]:1", "a b:1"]
        {
            check(place, None);
        }
    }
}
