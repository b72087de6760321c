//! The TLS settings of a plugin's connections: what its configuration says of verification and of its own
//! certificate.

use net::tls::identity::{CertificateAndKey, ClientIdentity};

/// See the module. The default verifies nothing and shows no certificate.
#[derive(Clone, Default)]
pub struct OutboundTls {
    /// Verify the server's certificate: `ssl_verify` in most plugins.
    pub verifies: bool,
    /// PEM of the authorities to trust in place of those of the process.
    pub roots: Option<Box<str>>,
    /// The certificate chain and the key to show, in PEM.
    pub certificate: Option<CertificateAndKey>,
    /// The name that the certificate has to be valid for and that is sent as SNI; the host of the destination
    /// without it. Only for streams: the URI of an HTTP destination says the name.
    pub server_name: Option<Box<str>>,
}

impl OutboundTls {
    /// Settings of which only the verification is said.
    pub fn verifying(verifies: bool) -> OutboundTls {
        OutboundTls { verifies, ..OutboundTls::default() }
    }

    pub(super) fn identity(&self, alpn: &'static [&'static [u8]]) -> ClientIdentity {
        ClientIdentity {
            verifies: self.verifies,
            roots: self.roots.clone(),
            certificate: self.certificate.clone(),
            alpn,
        }
    }
}

impl std::fmt::Debug for OutboundTls {
    /// Without the certificate, because a private key is with it.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("OutboundTls").field("verifies", &self.verifies).finish_non_exhaustive()
    }
}
