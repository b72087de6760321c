//! The secret of a process for QUIC, from which come the keys of connection identifiers, stateless resets
//! (RFC 9000 section 10.3) and address validation tokens (section 8.1). All workers share it, and a successor
//! inherits it, so that each of them understands what another one has sent.

use std::sync::Arc;

use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use aws_lc_rs::rand;
use quinn::crypto::{HandshakeTokenKey, HmacKey};

/// Bytes of the secret.
const SECRET_BYTES: usize = 32;

/// See the module.
#[derive(Clone, PartialEq, Eq)]
pub struct QuicSecret([u8; SECRET_BYTES]);

impl QuicSecret {
    /// A new one.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn random() -> Result<QuicSecret, String> {
        let mut bytes = [0; SECRET_BYTES];
        rand::fill(&mut bytes).map_err(|_| "the system has no random numbers".to_owned())?;
        Ok(QuicSecret(bytes))
    }

    /// That of another process; none where it has another size, as of a version that makes it differently.
    pub fn from_bytes(bytes: &[u8]) -> Option<QuicSecret> {
        bytes.try_into().ok().map(QuicSecret)
    }

    /// Its bytes, for a successor.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key that hides what connection identifiers say.
    pub(super) fn connection_id_key(&self) -> [u8; 16] {
        let bytes = self.derive(b"connection identifiers");
        *bytes.first_chunk().expect("an HMAC-SHA256 has 32 bytes")
    }

    /// The key of stateless resets.
    pub(super) fn reset_key(&self) -> Arc<dyn HmacKey> {
        Arc::new(Key::new(HMAC_SHA256, &self.derive(b"stateless resets")))
    }

    /// The key of the tokens in Retry packets.
    pub(super) fn token_key(&self) -> Arc<dyn HandshakeTokenKey> {
        Arc::new(Salt::new(HKDF_SHA256, &[]).extract(&self.derive(b"tokens")))
    }

    fn derive(&self, purpose: &[u8]) -> [u8; 32] {
        let tag = sign(&Key::new(HMAC_SHA256, &self.0), purpose);
        tag.as_ref().try_into().expect("an HMAC-SHA256 has 32 bytes")
    }
}

impl std::fmt::Debug for QuicSecret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("QuicSecret")
    }
}
