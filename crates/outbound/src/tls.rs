//! The parts that TLS connections share: the trusted certificates, the own ones, and the bytes they carry. It
//! does not know the server or the purpose.

mod verifier;
mod wall_clock;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};

pub use verifier::Trust;
use verifier::TrustVerifier;
pub use wall_clock::handshake_clock;

/// A bidirectional byte stream.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// The library that does the cryptography (aws-lc-rs).
pub fn crypto_provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// The first settings of every client.
///
/// # Errors
/// The library's own sentence.
fn client_builder(
    provider: Arc<CryptoProvider>,
) -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, String> {
    ClientConfig::builder_with_details(provider, handshake_clock())
        .with_safe_default_protocol_versions()
        .map_err(|fault| fault.to_string())
}

/// A client that checks servers by `trust`.
///
/// # Errors
/// Those of `client_builder`.
pub fn verifying_by(trust: Trust) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, String> {
    let provider = crypto_provider();
    let verifier = TrustVerifier { trust, provider: Arc::clone(&provider) };
    Ok(client_builder(provider)?.dangerous().with_custom_certificate_verifier(Arc::new(verifier)))
}

/// Ends the settings of a client with the certificate and the private key (PEM files) that it presents, if it
/// has them.
///
/// # Errors
/// A file that cannot be read or used; the error names it.
pub fn presenting_identity(
    builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    identity: Option<&(PathBuf, PathBuf)>,
) -> Result<ClientConfig, String> {
    let Some((certificate, key)) = identity else { return Ok(builder.with_no_client_auth()) };
    let named = |path: &Path, fault: &dyn std::fmt::Display| format!("{}: {fault}", path.display());
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|fault| named(certificate, &fault))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|fault| named(key, &fault))?;
    builder.with_client_auth_cert(chain, private).map_err(|fault| named(certificate, &fault))
}

/// A client, trusting the certificates of `ca`, a PEM file, otherwise those of the system. `setting` is the
/// name of the setting that names the file, for errors.
///
/// # Errors
/// The file cannot be read or used (the error names it), or the system has no trusted certificates.
pub fn trusting_authorities(
    ca: Option<&Path>,
    setting: &str,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, String> {
    Ok(client_builder(crypto_provider())?.with_root_certificates(roots(ca, setting)?))
}

fn roots(ca: Option<&Path>, setting: &str) -> Result<RootCertStore, String> {
    let Some(path) = ca else {
        let mut roots = RootCertStore::empty();
        return match add_system_roots(&mut roots) {
            Ok(()) => Ok(roots),
            Err(fault) => Err(format!("{fault}; name one with {setting}")),
        };
    };
    roots_of(path)
}

/// The certificates of a PEM file as trusted ones.
///
/// # Errors
/// A file that cannot be read or used, naming it.
pub fn roots_of(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    add_roots_of(&mut roots, path)?;
    Ok(roots)
}

/// Adds the certificates of a PEM file.
pub(crate) fn add_roots_of(roots: &mut RootCertStore, path: &Path) -> Result<(), String> {
    let unusable = |fault: String| format!("{}: {fault}", path.display());
    let before = roots.len();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|fault| unusable(fault.to_string()))? {
        let certificate = certificate.map_err(|fault| unusable(fault.to_string()))?;
        roots.add(certificate).map_err(|fault| unusable(fault.to_string()))?;
    }
    if roots.len() == before { Err(unusable("holds no certificate".to_owned())) } else { Ok(()) }
}

/// Adds the certificates that the system trusts.
pub(crate) fn add_system_roots(roots: &mut RootCertStore) -> Result<(), String> {
    let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if added == 0 { Err("the system has no certificates to trust".to_owned()) } else { Ok(()) }
}
