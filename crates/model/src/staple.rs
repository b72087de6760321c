//! OCSP responses that TLS staples to certificates: the control side fetches them, the data plane shows them.
//! Knows no format.

/// Finds OCSP responses. A lookup never waits for the network.
pub trait Staples: Send + Sync {
    /// The valid response for this certificate (DER), if one is known.
    fn staple(&self, certificate_der: &[u8]) -> Option<Vec<u8>>;
}
