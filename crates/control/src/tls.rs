//! The parts that TLS connections of the control side share: the trusted certificates, and the bytes they carry. It
//! does not know the server or the purpose.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tokio::io::{AsyncRead, AsyncWrite};

/// A bidirectional byte stream.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// The library that does the cryptography (aws-lc-rs).
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// The first settings of every client.
///
/// # Errors
/// The library's own sentence.
pub(crate) fn client(
    provider: Arc<CryptoProvider>,
) -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, String> {
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|fault| fault.to_string())
}

/// As [`client`], trusting the certificates of `ca`, a PEM file, otherwise those of the system. `setting` is the name
/// of the setting that names the file, for errors.
///
/// # Errors
/// The file cannot be read or used (the error names it), or the system has no trusted certificates.
pub(crate) fn trusting(
    ca: Option<&Path>,
    setting: &str,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, String> {
    Ok(client(provider())?.with_root_certificates(roots(ca, setting)?))
}

fn roots(ca: Option<&Path>, setting: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(path) = ca else {
        let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return match added {
            0 => Err(format!("the system has no certificates to trust; name one with {setting}")),
            _ => Ok(roots),
        };
    };
    let unusable = |fault: String| format!("{}: {fault}", path.display());
    for certificate in CertificateDer::pem_file_iter(path).map_err(|fault| unusable(fault.to_string()))? {
        let certificate = certificate.map_err(|fault| unusable(fault.to_string()))?;
        roots.add(certificate).map_err(|fault| unusable(fault.to_string()))?;
    }
    if roots.is_empty() { Err(unusable("holds no certificate".to_owned())) } else { Ok(roots) }
}
