//! An encrypted token in compact form (RFC 7516 section 3.1), of the one kind that is supported: a shared key
//! used directly, with AES-256 in GCM.

use aws_lc_rs::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};
use data_encoding::BASE64URL_NOPAD;
use jsonx::Bounds;
use serde_json::Value;

/// The longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// See the module.
pub(super) struct EncryptedToken<'t> {
    /// The header as it was sent: the data that a token may authenticate besides its content.
    protected: &'t [u8],
    header: Value,
    nonce: [u8; NONCE_LEN],
    /// Ciphertext and tag.
    sealed: Vec<u8>,
}

impl<'t> EncryptedToken<'t> {
    /// Reads a token; none if it is malformed or of another kind.
    pub(super) fn read(raw: &'t [u8]) -> Option<EncryptedToken<'t>> {
        if raw.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let segments: Vec<&[u8]> = raw.splitn(6, |byte| *byte == b'.').collect();
        let [protected, key, nonce, ciphertext, tag] = segments[..] else { return None };
        let decode = |segment: &[u8]| BASE64URL_NOPAD.decode(segment).ok();
        let header: Value = jsonx::read(&decode(protected)?, Bounds::SMALL).ok()?;
        let is = |name: &str, only: &str| header.get(name).is_some_and(|value| value == only);
        // `alg` and `enc` must be there (RFC 7516 sections 4.1.1 and 4.1.2), and a key that is used directly
        // leaves the part of the encrypted key empty (section 5.1, step 5).
        if !is("alg", "dir") || !is("enc", "A256GCM") || !key.is_empty() {
            return None;
        }
        // Compressed bytes would be forwarded as the content, and a critical extension has to be understood.
        if ["zip", "crit"].into_iter().any(|name| header.get(name).is_some()) {
            return None;
        }
        let mut sealed = decode(ciphertext)?;
        sealed.extend(decode(tag)?);
        Some(EncryptedToken { protected, header, nonce: decode(nonce)?.try_into().ok()?, sealed })
    }

    /// The key id of the header.
    pub(super) fn key_id(&self) -> Option<&str> {
        self.header.get("kid")?.as_str()
    }

    /// The content, if `key` encrypted it, with the header as authenticated data or without any.
    pub(super) fn decrypt(&self, key: &LessSafeKey) -> Option<Vec<u8>> {
        self.open(key, self.protected).or_else(|| self.open(key, b""))
    }

    fn open(&self, key: &LessSafeKey, authenticated: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = self.sealed.clone();
        let nonce = Nonce::assume_unique_for_key(self.nonce);
        let content = key.open_in_place(nonce, Aad::from(authenticated), &mut bytes).ok()?;
        Some(content.to_vec())
    }
}
