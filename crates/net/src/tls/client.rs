//! The upstream side of TLS: settings that many connections share, with their cache of sessions, and the
//! handshake. It opens no socket and keeps no connection.

use std::future::poll_fn;
use std::hash::{Hash, Hasher};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::client::Resumption;
use rustls::{ClientConfig, ClientConnection, Connection};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use super::live_roots::{LiveRoots, LiveSessions};
use super::roots::{Unverified, system_roots};
use super::{TlsStream, provider, wall_clock};
use crate::env::Stream;

pub(crate) use super::roots::store as roots;

/// Sessions kept for resumption under one set of settings: 32 servers with up to 8 tickets each. Bounded,
/// because with `pass_host: pass` clients choose the names.
const SESSIONS_MAX: usize = 256;

/// The certificates that a server's certificate is verified against.
#[derive(Clone, Copy, Debug)]
pub enum Roots<'a> {
    /// None: any certificate is accepted, and only the possession of its key is proven.
    Unverified,
    /// Those of the system.
    System,
    /// These, in PEM.
    Pem(&'a str),
    /// Those of the process, which may be replaced later.
    Live(&'a Arc<LiveRoots>),
}

/// The settings of connections to servers.
#[derive(Clone, Copy, Debug)]
pub struct ClientSettings<'a> {
    /// The certificates to trust.
    pub roots: Roots<'a>,
    /// The own certificate chain and its key in PEM, for servers that ask for one.
    pub certificate: Option<(&'a str, &'a str)>,
    /// The protocols to offer, the preferred one first; none offers no ALPN.
    pub alpn: &'a [&'a [u8]],
}

/// Settings in the form that connections use; a clone shares the cache of sessions, and is equal.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    verifies: bool,
    /// A number that no other settings of the process have.
    id: u64,
}

impl ClientTls {
    /// Compiles the settings.
    ///
    /// # Errors
    /// A certificate, key or root that cannot be used, as a sentence.
    pub fn new(settings: ClientSettings<'_>) -> Result<ClientTls, String> {
        let provider = provider();
        let builder = ClientConfig::builder_with_details(provider.clone(), wall_clock::clock())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match settings.roots {
            Roots::Unverified => builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified)),
            Roots::System => builder.with_root_certificates(system_roots()?),
            Roots::Pem(text) => builder.with_root_certificates(roots(text)?),
            Roots::Live(roots) => {
                // Without any authority the settings are refused here, and not at the first request.
                roots.verifier()?;
                builder.dangerous().with_custom_certificate_verifier(roots.clone())
            }
        };
        let mut config = match settings.certificate {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let (chain, key) = pair(chain, key)?;
                builder.with_client_auth_cert(chain, key).map_err(|error| error.to_string())?
            }
        };
        config.alpn_protocols = settings.alpn.iter().map(|name| name.to_vec()).collect();
        config.resumption = match settings.roots {
            Roots::Live(roots) => Resumption::store(Arc::new(LiveSessions::new(roots.clone(), SESSIONS_MAX))),
            _ => Resumption::in_memory_sessions(SESSIONS_MAX),
        };
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let verifies = !matches!(settings.roots, Roots::Unverified);
        Ok(ClientTls { config: Arc::new(config), verifies, id: NEXT_ID.fetch_add(1, Ordering::Relaxed) })
    }

    /// The same settings for a connection that carries HTTP/1.1, which alone is offered by ALPN. Sessions are
    /// shared.
    #[must_use]
    pub fn offering_http1(&self) -> ClientTls {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        ClientTls { config: Arc::new(config), ..self.clone() }
    }

    /// Whether certificates of servers are verified.
    pub fn verifies(&self) -> bool {
        self.verifies
    }

    /// A number that no other settings of the process have.
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl PartialEq for ClientTls {
    fn eq(&self, other: &ClientTls) -> bool {
        self.id == other.id
    }
}

impl Eq for ClientTls {}

impl Hash for ClientTls {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl std::fmt::Debug for ClientTls {
    /// Without the certificate, because a private key is with it.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ClientTls").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Runs the handshake with the server at `address` that is called `name`. A host name is sent as SNI, and a
/// verified certificate has to be valid for it. An IP address is not sent. The same holds for text that no
/// certificate can name, such as an empty Host; a verified certificate then has to be valid for `address`.
/// The caller bounds the time, by dropping this.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] around the fault of the handshake, and those of the socket; see
/// [`super::failure`].
pub async fn run_client_handshake(
    stream: Stream,
    address: SocketAddr,
    name: &str,
    config: &ClientTls,
) -> io::Result<TlsStream> {
    let name = server_name(name).unwrap_or_else(|| ServerName::IpAddress(address.ip().into()));
    let connection = ClientConnection::new(config.config.clone(), name)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let mut stream = TlsStream::new(stream, Connection::Client(connection));
    poll_fn(|cx| stream.poll_handshake(cx)).await?;
    Ok(stream)
}

/// As [`run_client_handshake`], with a server that has to have a name.
///
/// # Errors
/// Those of [`run_client_handshake`], and [`io::ErrorKind::InvalidInput`] for a name that no certificate can
/// have.
pub async fn connect_tls(stream: Stream, name: &str, config: &ClientTls) -> io::Result<TlsStream> {
    if server_name(name).is_none() {
        let reason = format!("{name:?} is no name of a server");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    let unnamed = SocketAddr::from(([0, 0, 0, 0], 0));
    run_client_handshake(stream, unnamed, name, config).await
}

/// The name as certificates have it: an IPv6 address without brackets, a host name without the dot of the DNS
/// root.
fn server_name(name: &str) -> Option<ServerName<'static>> {
    let name = name.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(name);
    let name = name.strip_suffix('.').unwrap_or(name);
    ServerName::try_from(name.to_owned()).ok()
}

/// The certificates of a PEM text, and its private key.
pub(crate) fn pair(
    chain: &str,
    key: &str,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    let chain = certificates(chain)?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| format!("the key: {error}"))?;
    Ok((chain, key))
}

/// The certificates of a PEM text, at least one.
pub(crate) fn certificates(text: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let chain = read.map_err(|error| format!("the certificate: {error}"))?;
    if chain.is_empty() { Err("the text holds no certificate".to_owned()) } else { Ok(chain) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_certificates_have_them() {
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(
                server_name(name).map(|name| name.to_str().into_owned()).as_deref(),
                expected,
                "{name}"
            );
        };
        check("a.example", Some("a.example"));
        check("a.example.", Some("a.example"));
        check("[::1]", Some("::1"));
        check("127.0.0.1", Some("127.0.0.1"));
        for name in ["", ".", "a b", "a:80", "-a"] {
            check(name, None);
        }
    }
}
