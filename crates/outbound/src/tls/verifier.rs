//! How clients check servers where the authorities alone do not decide: any certificate, or one that
//! is known. It reads no files.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{CertificateError, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// The certificates that are trusted.
#[derive(Debug)]
pub enum Trust {
    /// Any certificate.
    Anything,
    /// This one, whatever its name and issuer are, and those that the roots vouch for.
    Pinned(Option<CertificateDer<'static>>, Option<Arc<WebPkiServerVerifier>>),
}

/// Checks the certificate by its [`Trust`]. Signatures of the handshake are verified in any case.
#[derive(Debug)]
pub(crate) struct TrustVerifier {
    pub(crate) trust: Trust,
    pub(crate) provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for TrustVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.trust {
            Trust::Anything => Ok(ServerCertVerified::assertion()),
            Trust::Pinned(Some(pinned), _) if pinned == certificate => Ok(ServerCertVerified::assertion()),
            Trust::Pinned(_, Some(roots)) => {
                roots.verify_server_cert(certificate, intermediates, name, ocsp, now)
            }
            Trust::Pinned(_, None) => Err(CertificateError::UnknownIssuer.into()),
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
