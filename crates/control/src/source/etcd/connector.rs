//! Connections to one endpoint of etcd, with TLS where its scheme asks for it. It refuses to know what is spoken on them.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{EtcdError, EtcdTls};

/// Bytes both ways.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Opens connections to one endpoint.
#[derive(Clone)]
pub(super) struct Connector {
    /// `HOST:PORT`; names are looked up anew for every connection.
    authority: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Connector {
    /// Connections to `endpoint`, which is `http://HOST:PORT` or `https://HOST:PORT`.
    ///
    /// # Errors
    /// The host is no name that a certificate can have.
    pub(super) fn new(
        endpoint: &str,
        tls: &EtcdTls,
        config: Option<&Arc<ClientConfig>>,
    ) -> Result<Connector, EtcdError> {
        let (scheme, authority) = endpoint.split_once("://").unwrap_or(("http", endpoint));
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        let tls = match (scheme, config) {
            ("https", Some(config)) => {
                let name = tls.server_name.as_deref().unwrap_or(host.trim_matches(['[', ']']));
                let name = ServerName::try_from(name.to_owned())
                    .map_err(|_| EtcdError::Tls(format!("`{name}` is no name a certificate can have")))?;
                Some((TlsConnector::from(Arc::clone(config)), name))
            }
            _ => None,
        };
        Ok(Connector { authority: authority.to_owned(), tls })
    }
}

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<Box<dyn Io>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Connector { authority, tls } = self.clone();
        Box::pin(async move {
            let stream = TcpStream::connect(&authority).await?;
            stream.set_nodelay(true)?;
            let stream: Box<dyn Io> = match tls {
                Some((connector, name)) => Box::new(connector.connect(name, stream).await?),
                None => Box::new(stream),
            };
            Ok(TokioIo::new(stream))
        })
    }
}

/// The TLS settings for all endpoints.
///
/// # Errors
/// A file that cannot be read or used, naming it.
pub(super) fn tls_config(tls: &EtcdTls) -> Result<Arc<ClientConfig>, EtcdError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|fault| EtcdError::Tls(fault.to_string()))?;
    let builder = if tls.verify {
        builder.with_root_certificates(roots(tls)?)
    } else {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody { provider }))
    };
    let mut config = match &tls.identity {
        Some((certificate, key)) => {
            let named = |path: &std::path::Path, fault: &dyn std::fmt::Display| {
                EtcdError::Tls(format!("{}: {fault}", path.display()))
            };
            let chain = CertificateDer::pem_file_iter(certificate)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|fault| named(certificate, &fault))?;
            let private = PrivateKeyDer::from_pem_file(key).map_err(|fault| named(key, &fault))?;
            builder.with_client_auth_cert(chain, private).map_err(|fault| named(certificate, &fault))?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

fn roots(tls: &EtcdTls) -> Result<RootCertStore, EtcdError> {
    let mut roots = RootCertStore::empty();
    let Some(path) = &tls.ca else {
        let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return if added > 0 {
            Ok(roots)
        } else {
            Err(EtcdError::Tls("the system has no certificates to trust; name one with etcd_ca".to_owned()))
        };
    };
    let unusable = |fault: String| EtcdError::Tls(format!("{}: {fault}", path.display()));
    for certificate in CertificateDer::pem_file_iter(path).map_err(|fault| unusable(fault.to_string()))? {
        let certificate = certificate.map_err(|fault| unusable(fault.to_string()))?;
        roots.add(certificate).map_err(|fault| unusable(fault.to_string()))?;
    }
    if roots.is_empty() { Err(unusable("holds no certificate".to_owned())) } else { Ok(roots) }
}

/// Takes any certificate (`etcd_verify: false`); signatures are checked all the same.
#[derive(Debug)]
struct Anybody {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
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
