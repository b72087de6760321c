//! An endpoint of QUIC on one socket of a worker: its limits, and the TLS of its handshakes. It decides
//! nothing about clients: its owner accepts, defers (Retry) or refuses each of them.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use quinn::{
    Connecting, ConnectionError, Endpoint, EndpointConfig, Incoming, ServerConfig, TransportConfig, VarInt,
};

use super::connection_id::PlacedIds;
use super::guard::{Guarded, QuicHealth, WorkerRuntime};
use super::secret::QuicSecret;
use super::socket::{QuicCounts, SteeredSocket};
use super::steering::Steering;
use crate::tls::server::{QuicTls, SiteTable};

/// A peer that has sent nothing for so long is gone. Its own limit may be shorter (RFC 9000 section 10.1).
const SILENCE: Duration = Duration::from_secs(30);
/// The peer is sent a PING after so long a silence, because a client with a short limit would otherwise give
/// up a request that waits for its response.
const PING_AFTER: Duration = Duration::from_secs(10);
/// Bytes of responses that may wait here for their acknowledgement: at 50 ms of distance 20 MB/s. A client
/// that does not acknowledge holds as much memory.
const SEND_WINDOW_BYTES: u64 = 1024 * 1024;
/// Bytes of handshake messages out of order; a ClientHello has as many at most.
const CRYPTO_BUFFER_BYTES: usize = 16 * 1024;
/// First packets that wait for the accept loop, and bytes of further ones of the same clients. The loop takes
/// all of them in its next turn.
const INCOMING_MAX: usize = 1024;
const INCOMING_BYTES: u64 = 32 * 1024;
const INCOMING_BYTES_TOTAL: u64 = 4 * 1024 * 1024;
/// The one version that is spoken (RFC 9000).
const VERSION: u32 = 1;

/// Limits of each client; sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuicLimits {
    /// Bidirectional streams that a client may have open.
    pub streams: u32,
    /// Unidirectional streams that a client may have open.
    pub uni_streams: u32,
    /// Bytes of a stream that may wait here.
    pub stream_window_bytes: u32,
    /// The same for all streams of a connection together.
    pub connection_window_bytes: u32,
}

/// The parts of an endpoint.
#[derive(Debug)]
pub struct EndpointParts<'a> {
    /// The bound socket.
    pub socket: UdpSocket,
    /// The number of the socket among those of its listener.
    pub number: usize,
    /// The other sockets.
    pub steering: &'a Arc<Steering>,
    /// The keys of the process.
    pub secret: &'a QuicSecret,
    /// Limits of each client.
    pub limits: QuicLimits,
    /// The handshakes.
    pub tls: QuicTls,
    /// Where its socket counts.
    pub counts: Arc<QuicCounts>,
}

/// See the module.
#[derive(Debug)]
pub struct QuicEndpoint {
    endpoint: Guarded<Endpoint>,
    socket: Arc<SteeredSocket>,
    tls: QuicTls,
    /// The configuration of the sites that the last handshake met.
    config: RefCell<(QuicTls, Arc<ServerConfig>)>,
}

impl QuicEndpoint {
    /// Opens an endpoint on this worker's event loop.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(parts: EndpointParts<'_>) -> io::Result<QuicEndpoint> {
        let EndpointParts { socket, number, steering, secret, limits, tls, counts } = parts;
        let place = steering.place(number);
        let socket = Arc::new(SteeredSocket::attach(socket, place, steering.clone(), counts)?);
        let mut config = EndpointConfig::new(secret.reset_key());
        let key = steering.key.clone();
        config.cid_generator(move || Box::new(PlacedIds { key: key.clone(), place }));
        config.supported_versions(vec![VERSION]);
        let server = server_config(&tls, secret, limits);
        let health = QuicHealth::default();
        let runtime = Arc::new(WorkerRuntime(health.clone()));
        let endpoint =
            Endpoint::new_with_abstract_socket(config, Some(server.clone()), socket.clone(), runtime)?;
        let config = RefCell::new((tls.clone(), Arc::new(server)));
        Ok(QuicEndpoint { endpoint: Guarded::new(endpoint, &health), socket, tls, config })
    }

    /// Whether it has failed.
    pub fn health(&self) -> &QuicHealth {
        self.endpoint.health()
    }

    /// Calls `with` with each client, until the endpoint is closed or has failed.
    pub async fn accept_each(&self, mut with: impl AsyncFnMut(Guarded<Incoming>)) {
        // Owned by this future, so that the wait for the next client keeps its place.
        let Some(endpoint) = self.endpoint.call_ref(Endpoint::clone) else { return };
        let endpoint = self.endpoint.another(endpoint);
        loop {
            let next = tokio::select! {
                biased;
                () = self.health().failed() => return,
                next = accept(&endpoint) => next,
            };
            let Some(incoming) = next else { return };
            with(self.endpoint.another(incoming)).await;
        }
    }

    /// Begins the handshake of a client under the sites in force.
    ///
    /// # Errors
    /// Its first packet is faulty; it was answered.
    pub fn begin(
        &self,
        incoming: Guarded<Incoming>,
        sites: &Arc<SiteTable>,
    ) -> Result<Guarded<Connecting>, ConnectionError> {
        let config = {
            let (tls, config) = &mut *self.config.borrow_mut();
            if !tls.has_sites(sites) {
                *tls = self.tls.with_sites(sites.clone());
                let mut changed = ServerConfig::clone(config);
                changed.crypto = Arc::new(tls.clone());
                *config = Arc::new(changed);
            }
            config.clone()
        };
        let begun =
            incoming.give(|incoming| incoming.accept_with(config)).unwrap_or(Err(ConnectionError::Reset))?;
        Ok(self.endpoint.another(begun))
    }

    /// Leaves the socket's datagrams to the process that has taken it over; connections go on with those that
    /// are passed back.
    pub fn leave_socket(&self) {
        self.socket.leave();
    }

    /// Accepts no further client: first packets are refused.
    pub fn stop_accepting(&self) {
        self.endpoint.call_ref(|endpoint| endpoint.set_server_config(None));
    }
}

/// The next client.
async fn accept(endpoint: &Guarded<Endpoint>) -> Option<Incoming> {
    let value = endpoint.call_ref(Endpoint::clone)?;
    let accepting = endpoint.another(Box::pin(async move { value.accept().await }));
    let mut accepting = accepting;
    poll_fn(|cx| accepting.call(|accepting| accepting.as_mut().poll(cx)).unwrap_or(Poll::Ready(None))).await
}

fn server_config(tls: &QuicTls, secret: &QuicSecret, limits: QuicLimits) -> ServerConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(limits.streams))
        .max_concurrent_uni_streams(VarInt::from_u32(limits.uni_streams))
        .stream_receive_window(VarInt::from_u32(limits.stream_window_bytes))
        .receive_window(VarInt::from_u32(limits.connection_window_bytes))
        .send_window(SEND_WINDOW_BYTES)
        .crypto_buffer_size(CRYPTO_BUFFER_BYTES)
        .datagram_receive_buffer_size(None)
        .keep_alive_interval(Some(PING_AFTER))
        .max_idle_timeout(SILENCE.try_into().ok());
    let mut config = ServerConfig::new(Arc::new(tls.clone()), secret.token_key());
    config
        .transport_config(Arc::new(transport))
        .migration(true)
        .max_incoming(INCOMING_MAX)
        .incoming_buffer_size(INCOMING_BYTES)
        .incoming_buffer_size_total(INCOMING_BYTES_TOTAL);
    config
}
