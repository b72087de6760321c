//! The client's side of TLS: settings that many connections share, with their cache of sessions, and the handshake. It opens
//! no socket and keeps no connection.

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, OnceLock};

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use super::{TlsStream, provider};
use crate::env::Stream;

/// Sessions kept for resumption under one set of settings: some servers, each with a few tickets.
const SESSIONS_MAX: usize = 256;

/// The certificates that a server's certificate is verified against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Roots<'a> {
    /// None: any certificate is accepted, and only the possession of its key is proven.
    Unverified,
    /// Those of the system.
    System,
    /// These, in PEM.
    Pem(&'a str),
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

/// Settings in the form that connections use; a clone shares the cache of sessions.
#[derive(Clone, Debug)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
}

impl ClientTls {
    /// Compiles the settings.
    ///
    /// # Errors
    /// A certificate, key or root that cannot be used, as a sentence.
    pub fn new(settings: ClientSettings<'_>) -> Result<ClientTls, String> {
        let provider = provider();
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match settings.roots {
            Roots::Unverified => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified(provider.clone())))
            }
            Roots::System => builder.with_root_certificates(system_roots()?),
            Roots::Pem(text) => builder.with_root_certificates(roots(text)?),
        };
        let mut config = match settings.certificate {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let (chain, key) = pair(chain, key)?;
                builder.with_client_auth_cert(chain, key).map_err(|error| error.to_string())?
            }
        };
        config.alpn_protocols = settings.alpn.iter().map(|name| name.to_vec()).collect();
        config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
        Ok(ClientTls { config: Arc::new(config) })
    }
}

/// Runs the handshake with the server that is called `name`, a host name or an address. A host name is sent as SNI, and the
/// certificate has to be valid for `name`. The caller bounds the time, by dropping this.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] for a name that no certificate can have, [`io::ErrorKind::InvalidData`] around the fault
/// of the handshake, and those of the socket.
pub async fn connect(stream: Stream, name: &str, config: &ClientTls) -> io::Result<TlsStream> {
    let name = name.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(name);
    let name = ServerName::try_from(name.to_owned()).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is no name of a server"))
    })?;
    let connection = ClientConnection::new(config.config.clone(), name)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let mut stream = TlsStream::new(stream, Connection::Client(connection));
    poll_fn(|cx| stream.poll_handshake(cx)).await?;
    Ok(stream)
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

/// A store of the certificates of a PEM text.
pub(crate) fn roots(text: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(text)? {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    Ok(roots)
}

/// The system's certificates, read once: that takes some milliseconds and files.
fn system_roots() -> Result<Arc<RootCertStore>, String> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let roots = ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    });
    if roots.is_empty() {
        return Err("the system has no certificates to trust: name a file with some".to_owned());
    }
    Ok(roots.clone())
}

/// Accepts every certificate. The signature of the handshake is verified nevertheless, so that the server has its key.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
