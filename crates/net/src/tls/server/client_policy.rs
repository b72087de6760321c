//! Client certificates of a site: which authorities sign them, how long a chain may be, which are revoked,
//! and whether a client without a valid one may end the handshake. It knows no request.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
    client::danger::HandshakeSignatureValid,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use crate::tls::client::roots;
use crate::tls::facts::ClientVerdict;
use crate::tls::wall_clock::unix_time;

/// A policy as it is written.
#[derive(Clone, Copy, Debug)]
pub struct ClientPolicyParts<'a> {
    /// The authorities, PEM.
    pub authorities: &'a str,
    /// Lists of revoked certificates, PEM; empty for none.
    pub revoked: &'a str,
    /// Certificates between the client's and an authority, at most.
    pub depth: u32,
    /// A client without a valid certificate fails in the handshake; otherwise its requests are judged.
    pub is_mandatory: bool,
}

/// See the module.
#[derive(Debug)]
pub struct ClientPolicy {
    inner: Arc<dyn ClientCertVerifier>,
    depth: usize,
    is_mandatory: bool,
    tag: [u8; 32],
}

impl ClientPolicy {
    pub(super) fn new(
        parts: ClientPolicyParts<'_>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<ClientPolicy>, String> {
        let revoked: Result<Vec<_>, _> =
            CertificateRevocationListDer::pem_slice_iter(parts.revoked.as_bytes()).collect();
        let revoked = revoked.map_err(|error| format!("the list of revoked certificates: {error}"))?;
        if !parts.revoked.is_empty() && revoked.is_empty() {
            return Err("the list of revoked certificates has no PEM block".to_owned());
        }
        let roots = Arc::new(roots(parts.authorities)?);
        let mut builder = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
        if !revoked.is_empty() {
            // Of authorities that have no list, certificates are valid.
            builder = builder.with_crls(revoked).allow_unknown_revocation_status();
        }
        let inner = builder.build().map_err(|error| error.to_string())?;
        let text =
            format!("{}\n{}\n{}\n{}", parts.authorities, parts.revoked, parts.depth, parts.is_mandatory);
        let mut tag = [0; 32];
        tag.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
        let depth = usize::try_from(parts.depth).unwrap_or(usize::MAX);
        Ok(Arc::new(ClientPolicy { inner, depth, is_mandatory: parts.is_mandatory, tag }))
    }

    /// Whether clients without a valid certificate fail in the handshake.
    pub fn is_mandatory(&self) -> bool {
        self.is_mandatory
    }

    /// The verdict now over the certificates that a client has shown, its own first.
    pub fn verdict(&self, chain: &[CertificateDer<'_>]) -> ClientVerdict {
        match chain.split_first() {
            None => ClientVerdict::None,
            Some((own, others)) => match self.verify(own, others, unix_time()) {
                Ok(_) => ClientVerdict::Verified,
                Err(error) => ClientVerdict::Failed(reason(&error)),
            },
        }
    }

    /// Whether the two give every client the same verdict.
    pub fn is_equal(&self, other: &ClientPolicy) -> bool {
        self.tag == other.tag
    }

    /// A digest that differs between policies under which the same certificates could get different verdicts.
    pub(super) fn tag(&self) -> [u8; 32] {
        self.tag
    }

    pub(super) fn verifier(self: &Arc<Self>) -> Arc<dyn ClientCertVerifier> {
        Arc::new(ClientPolicyVerifier(self.clone()))
    }

    fn verify(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let between = others.iter().filter(|one| !is_self_signed(one)).count();
        if between > self.depth {
            return Err(Error::General("the certificate chain is too long".to_owned()));
        }
        self.inner.verify_client_cert(own, others, now)
    }
}

/// Clients often send their authority as well, which is none of the certificates in between.
fn is_self_signed(certificate: &CertificateDer<'_>) -> bool {
    X509Certificate::from_der(certificate).is_ok_and(|(_, parsed)| parsed.subject() == parsed.issuer())
}

/// The reason as `$ssl_client_verify` shows it: OpenSSL's words where it has them.
fn reason(error: &Error) -> Box<str> {
    let text = match error {
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "certificate has expired"
        }
        Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => "certificate is not yet valid",
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "unable to get local issuer certificate"
        }
        Error::InvalidCertificate(CertificateError::Revoked) => "certificate revoked",
        Error::InvalidCertificate(CertificateError::BadSignature) => "certificate signature failure",
        Error::General(reason) => reason,
        other => return other.to_string().into(),
    };
    text.into()
}

/// The policy as rustls asks it. Where a certificate is optional, rustls is told yes and the verdict is made
/// behind the handshake; that the client has the key is proven in any case.
#[derive(Debug)]
struct ClientPolicyVerifier(Arc<ClientPolicy>);

impl ClientCertVerifier for ClientPolicyVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.0.is_mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.0.verify(own, others, now) {
            Err(_) if !self.0.is_mandatory => Ok(ClientCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.inner.supported_verify_schemes()
    }
}
