//! TLS of a blocking client: what commands use to reach an Admin API that is served over HTTPS. It does not know what is
//! asked.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use super::{add_file, client, provider, system_roots};

/// How a client checks the server, and what it presents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// Authorities that are trusted (PEM); none means those of the system.
    pub ca: Option<PathBuf>,
    /// The server's own certificate (PEM), where it is known: it is trusted whatever its name and issuer are.
    pub pinned: Option<PathBuf>,
    /// Certificate and private key (PEM) that are presented to the server.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name that the server's certificate must have.
    pub server_name: String,
}

/// Bytes both ways.
pub trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

impl ClientFiles {
    /// Speaks TLS over `stream`; the handshake is done when this returns.
    ///
    /// # Errors
    /// A file that cannot be used, or a server that is not trusted or refuses; the message says which.
    pub fn wrap(&self, stream: TcpStream) -> io::Result<Box<dyn ReadWrite>> {
        let config = self.config().map_err(io::Error::other)?;
        let name = ServerName::try_from(self.server_name.clone()).map_err(|fault| {
            io::Error::other(format!("`{}` is no server name: {fault}", self.server_name))
        })?;
        let connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Box::new(stream))
    }

    fn config(&self) -> Result<ClientConfig, String> {
        let pinned = match &self.pinned {
            Some(path) => Some(
                CertificateDer::from_pem_file(path)
                    .map_err(|fault| format!("{}: {fault}", path.display()))?,
            ),
            None => None,
        };
        let mut roots = RootCertStore::empty();
        match &self.ca {
            Some(ca) => add_file(&mut roots, ca)?,
            // A system without roots is no fault where the server's own certificate is known.
            None if pinned.is_some() => drop(system_roots(&mut roots)),
            None => system_roots(&mut roots)?,
        }
        let provider = provider();
        // Without roots there is no verifier, and only the pinned certificate is trusted.
        let by_roots =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
        let verifier = Verifier { pinned, by_roots: by_roots.ok(), provider: Arc::clone(&provider) };
        let builder = client(provider)?.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        let Some((certificate, key)) = &self.identity else { return Ok(builder.with_no_client_auth()) };
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|fault| format!("{}: {fault}", certificate.display()))?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(|fault| format!("{}: {fault}", key.display()))?;
        builder
            .with_client_auth_cert(chain, key)
            .map_err(|fault| format!("{}: {fault}", certificate.display()))
    }
}

/// Trusts the pinned certificate, and what the roots vouch for.
#[derive(Debug)]
struct Verifier {
    pinned: Option<CertificateDer<'static>>,
    by_roots: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.pinned.as_deref() == Some(certificate) {
            return Ok(ServerCertVerified::assertion());
        }
        match &self.by_roots {
            Some(by_roots) => by_roots.verify_server_cert(certificate, intermediates, name, ocsp, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
