//! TLS inside of QUIC (RFC 9001): the site of a handshake is found when the whole ClientHello is here, as
//! over TCP, so that certificates, versions and client policies are those of the name that the client asked
//! for. It knows no packet and no socket.

use std::any::Any;
use std::io::Cursor;
use std::sync::Arc;

use quinn::crypto::rustls::QuicServerConfig;
use quinn::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session, UnsupportedVersion,
};
use quinn::{ConnectionId, Side};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{TransportError, TransportErrorCode};
use rustls::quic::{KeyChange, Secrets, ServerConnection, Suite, Version};
use rustls::server::{Acceptor, ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite, ServerConfig};

use super::settings::ServerTls;
use super::site::{Site, SiteState};
use super::table::SiteTable;
use super::{
    ALERT_DECODE_ERROR, ALERT_INTERNAL_ERROR, ALERT_UNRECOGNIZED_NAME, Alpn, CLIENT_HELLO_MAX_BYTES,
};
use crate::tls::facts::{ClientVerdict, TlsFacts};
use crate::tls::{ja4, wall_clock};

/// Handshake message type and length (RFC 8446 section 4).
const MESSAGE_HEADER_BYTES: usize = 4;
const CLIENT_HELLO: u8 = 1;
/// The most bytes of a TLS record (RFC 8446 section 5.1), in which the ClientHello is shown to its parser.
const RECORD_BYTES: usize = 16 * 1024;
/// Alerts of RFC 8446 section 6.
const ALERT_UNEXPECTED_MESSAGE: u8 = 10;
const ALERT_PROTOCOL_VERSION: u8 = 70;

/// The server's side of handshakes under one set of sites.
#[derive(Clone)]
pub struct QuicTls {
    tls: Arc<ServerTls>,
    sites: Arc<SiteTable>,
    /// Keys of Initial and Retry packets, which depend on no site.
    base: Arc<QuicServerConfig>,
}

impl QuicTls {
    /// With no site: every handshake is refused.
    ///
    /// # Errors
    /// The cryptography lacks the suite of Initial packets, as a sentence.
    pub fn new(tls: &Arc<ServerTls>) -> Result<QuicTls, String> {
        let provider = crate::tls::provider();
        let suite = provider.cipher_suites.iter().find_map(|suite| {
            let is_initial = suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256;
            suite.tls13().filter(|_| is_initial).and_then(|suite| suite.quic_suite())
        });
        let suite: Suite = suite.ok_or("the suite of QUIC's first packets is missing")?;
        let config = ServerConfig::builder_with_details(provider.clone(), wall_clock::clock())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(NoKeys));
        let base =
            QuicServerConfig::with_initial(Arc::new(config), suite).map_err(|error| error.to_string())?;
        Ok(QuicTls { tls: tls.clone(), sites: Arc::default(), base: Arc::new(base) })
    }

    /// The same with these sites.
    #[must_use]
    pub fn with_sites(&self, sites: Arc<SiteTable>) -> QuicTls {
        QuicTls { sites, ..self.clone() }
    }

    /// Whether these are its sites.
    pub fn has_sites(&self, sites: &Arc<SiteTable>) -> bool {
        Arc::ptr_eq(&self.sites, sites)
    }
}

impl std::fmt::Debug for QuicTls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("QuicTls").finish_non_exhaustive()
    }
}

impl crypto::ServerConfig for QuicTls {
    fn initial_keys(&self, version: u32, dst_cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.base.initial_keys(version, dst_cid)
    }

    fn retry_tag(&self, version: u32, orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.base.retry_tag(version, orig_dst_cid, packet)
    }

    fn start_session(self: Arc<Self>, version: u32, params: &TransportParameters) -> Box<dyn Session> {
        let mut parameters = Vec::new();
        params.write(&mut parameters);
        Box::new(Handshake { config: self, version, parameters, state: QuicTlsState::Hello(Vec::new()) })
    }
}

/// The outcome of a handshake.
#[derive(Debug)]
pub struct QuicHandshake {
    /// The agreed parameters, and the verdict over the client.
    pub facts: TlsFacts,
    /// The site that it was made with.
    pub site: Arc<Site>,
}

impl QuicHandshake {
    /// Of a connection that has ended its handshake.
    ///
    /// # Errors
    /// The client's certificate is not valid and its site demands one, as a sentence.
    pub fn of(connection: &quinn::Connection) -> Result<QuicHandshake, String> {
        let data = connection.handshake_data().ok_or("the handshake has not ended")?;
        let mut handshake =
            *data.downcast::<QuicHandshake>().map_err(|_| "the handshake was made by other code")?;
        if let Some(policy) = &handshake.site.client {
            // Verified on every resumption as well: since the first handshake the certificate may have
            // expired, or been revoked.
            handshake.facts.client = policy.verdict(&handshake.facts.peer);
            if policy.is_mandatory() && handshake.facts.client != ClientVerdict::Verified {
                return Err("the client's certificate is no longer valid".to_owned());
            }
        }
        Ok(handshake)
    }
}

/// One handshake, and the keys that follow from it.
struct Handshake {
    config: Arc<QuicTls>,
    version: u32,
    /// The transport parameters of this side, encoded.
    parameters: Vec<u8>,
    state: QuicTlsState,
}

enum QuicTlsState {
    /// The start of a ClientHello.
    Hello(Vec<u8>),
    Running(Box<QuicTlsSession>),
    Refused,
}

struct QuicTlsSession {
    connection: ServerConnection,
    site: Arc<Site>,
    ja4: Option<Box<str>>,
    next_secrets: Option<Secrets>,
    is_reported: bool,
}

impl Handshake {
    fn running(&self) -> Option<&QuicTlsSession> {
        match &self.state {
            QuicTlsState::Running(running) => Some(running),
            QuicTlsState::Hello(_) | QuicTlsState::Refused => None,
        }
    }

    /// Takes bytes of the ClientHello, and begins the handshake once it is whole.
    fn read_hello(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        let QuicTlsState::Hello(hello) = &mut self.state else { return Ok(false) };
        hello.extend_from_slice(bytes);
        if hello.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
            return Err(refusal(ALERT_UNEXPECTED_MESSAGE, "the first message is no ClientHello"));
        }
        let Some(header) = hello.first_chunk::<MESSAGE_HEADER_BYTES>() else { return Ok(false) };
        let length = u32::from_be_bytes([0, header[1], header[2], header[3]]) as usize;
        if length > CLIENT_HELLO_MAX_BYTES {
            return Err(refusal(ALERT_DECODE_ERROR, "the ClientHello is too long"));
        }
        if hello.len() < MESSAGE_HEADER_BYTES + length {
            return Ok(false);
        }
        let hello = std::mem::take(hello);
        // Refused until it has begun, so that a fault leaves no half state behind.
        self.state = QuicTlsState::Refused;
        self.begin(&hello, length)
    }

    fn begin(&mut self, hello: &[u8], length: usize) -> Result<bool, TransportError> {
        let (site, ja4) = self.site(&hello[..MESSAGE_HEADER_BYTES + length])?;
        let config = site.config(&self.config.tls, Alpn::Http3);
        let config = config.map_err(|reason| refusal(ALERT_PROTOCOL_VERSION, &reason))?;
        debug_assert_eq!(self.version, 1, "no other version is offered");
        let connection = ServerConnection::new(config, Version::V1, std::mem::take(&mut self.parameters));
        let connection = connection.map_err(|error| refusal(ALERT_PROTOCOL_VERSION, &error.to_string()))?;
        let running = QuicTlsSession { connection, site, ja4, next_secrets: None, is_reported: false };
        self.state = QuicTlsState::Running(Box::new(running));
        self.read_handshake(hello)
    }

    /// The site for the name in a ClientHello, and the fingerprint of the client.
    fn site(&self, hello: &[u8]) -> Result<(Arc<Site>, Option<Box<str>>), TransportError> {
        let records = in_records(hello);
        let mut acceptor = Acceptor::default();
        let mut unread = Cursor::new(&records);
        let mut accepted = None;
        while accepted.is_none() && (unread.position() as usize) < records.len() {
            let read = acceptor.read_tls(&mut unread);
            read.map_err(|error| refusal(ALERT_DECODE_ERROR, &error.to_string()))?;
            accepted =
                acceptor.accept().map_err(|(error, _)| refusal(ALERT_DECODE_ERROR, &error.to_string()))?;
        }
        let accepted = accepted.ok_or_else(|| refusal(ALERT_DECODE_ERROR, "the ClientHello is cut"))?;
        let name = accepted.client_hello().server_name().map(str::to_owned);
        let QuicTls { tls, sites, .. } = &*self.config;
        if let (Some(orders), Some(name)) = (tls.orders(), name.as_deref())
            && sites.find(Some(name), None).is_none()
        {
            orders.missing(&name.to_ascii_lowercase());
        }
        match sites.find(name.as_deref(), tls.fallback_name()) {
            Some(site) if site.state == SiteState::Faulty => {
                Err(refusal(ALERT_INTERNAL_ERROR, "the certificate of the server name is faulty"))
            }
            Some(site) => Ok((site.clone(), ja4::fingerprint(&records).map(of_quic))),
            None => Err(refusal(ALERT_UNRECOGNIZED_NAME, "no certificate for the server name")),
        }
    }
}

impl Session for Handshake {
    /// For clients, which learn the server's identifier by a Retry.
    fn initial_keys(&self, dst_cid: &ConnectionId, _side: Side) -> Keys {
        let keys = crypto::ServerConfig::initial_keys(&*self.config, self.version, dst_cid);
        keys.unwrap_or_else(|_| unreachable!("the session was started with this version"))
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let running = self.running().filter(|running| !running.connection.is_handshaking())?;
        let name = running.connection.server_name().map(Into::into);
        let mut facts = TlsFacts::of_state(&running.connection, name);
        facts.ja4.clone_from(&running.ja4);
        Some(Box::new(QuicHandshake { facts, site: running.site.clone() }))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        // 0-RTT is off: a request in it could be replayed (RFC 8470).
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.running().is_none_or(|running| running.connection.is_handshaking())
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        let running = match &mut self.state {
            QuicTlsState::Hello(_) => return self.read_hello(bytes),
            QuicTlsState::Refused => {
                return Err(refusal(ALERT_UNEXPECTED_MESSAGE, "the handshake was refused"));
            }
            QuicTlsState::Running(running) => running,
        };
        let connection = &mut running.connection;
        connection.read_hs(bytes).map_err(|error| match connection.alert() {
            Some(alert) => refusal(alert.into(), &error.to_string()),
            None => TransportError {
                code: TransportErrorCode::PROTOCOL_VIOLATION,
                frame: None,
                reason: error.to_string(),
            },
        })?;
        let is_new = !connection.is_handshaking() && !running.is_reported;
        running.is_reported |= is_new;
        Ok(is_new)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let bytes = self.running().and_then(|running| running.connection.quic_transport_parameters());
        let Some(mut bytes) = bytes else { return Ok(None) };
        Ok(Some(TransportParameters::read(Side::Server, &mut bytes)?))
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let QuicTlsState::Running(running) = &mut self.state else { return None };
        let keys = match running.connection.write_hs(out)? {
            KeyChange::Handshake { keys } => keys,
            KeyChange::OneRtt { keys, next } => {
                running.next_secrets = Some(next);
                keys
            }
        };
        Some(Keys {
            header: KeyPair { local: Box::new(keys.local.header), remote: Box::new(keys.remote.header) },
            packet: KeyPair { local: Box::new(keys.local.packet), remote: Box::new(keys.remote.packet) },
        })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let QuicTlsState::Running(running) = &mut self.state else { return None };
        let keys = running.next_secrets.as_mut()?.next_packet_keys();
        Some(KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) })
    }

    /// For clients.
    fn is_valid_retry(&self, _orig_dst_cid: &ConnectionId, _header: &[u8], _payload: &[u8]) -> bool {
        false
    }

    fn export_keying_material(
        &self,
        _output: &mut [u8],
        _label: &[u8],
        _context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        // No part of the gateway derives keys from a session.
        Err(ExportKeyingMaterialError)
    }
}

/// The end of a handshake, which QUIC sends instead of an alert (RFC 9001 section 4.8).
fn refusal(alert: u8, reason: &str) -> TransportError {
    TransportError { code: TransportErrorCode::crypto(alert), frame: None, reason: reason.to_owned() }
}

/// A handshake message as it would come over TCP.
fn in_records(message: &[u8]) -> Vec<u8> {
    let mut records = Vec::with_capacity(message.len() + 2 * 5);
    for part in message.chunks(RECORD_BYTES) {
        let length = (part.len() as u16).to_be_bytes();
        records.extend_from_slice(&[super::HANDSHAKE_RECORD, 3, 1, length[0], length[1]]);
        records.extend_from_slice(part);
    }
    records
}

/// The first letter of a JA4 fingerprint names the transport.
fn of_quic(fingerprint: Box<str>) -> Box<str> {
    fingerprint.strip_prefix('t').map(|rest| format!("q{rest}").into()).unwrap_or(fingerprint)
}

/// No certificate; its configuration is used for keys only.
#[derive(Debug)]
struct NoKeys;

impl ResolvesServerCert for NoKeys {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}
