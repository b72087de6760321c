//! Secrets at rest: the fields that hold them are encrypted in stored texts and decrypted in texts that are
//! read, with the keyring of the settings, as APISIX does it, so that each program can read the other's data
//! (contract section 2.2). It does not decide which fields these are (`model::secret_field`) nor where texts
//! are kept.
//!
//! AES-CBC with PKCS7; the key is the initialisation vector too, so that equal secrets have equal encrypted
//! forms: the price of being read by APISIX. It keeps secrets from a reader of the store, and does not
//! authenticate the writer.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::cipher::{
    AES_128, AES_256, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey,
    PaddedBlockEncryptingKey, UnboundCipherKey,
};
use data_encoding::BASE64;
use model::secret_field::{self, SecretForm};
use model::{ObjectKey, PluginCatalog};
use serde_json::Value;
use thiserror::Error;

/// Encrypts and decrypts the secrets within the texts of objects. Without a keyring, texts stay unchanged.
#[derive(Clone)]
pub struct Sealer {
    catalog: Arc<PluginCatalog>,
    /// The first key encrypts; all keys are tried to decrypt.
    ring: Arc<[RingKey]>,
}

/// The place where texts are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageMedium {
    /// The embedded store, which only this program uses: a text with encrypted secrets is marked, so that a
    /// plain text that looks encrypted is not taken for an encrypted one.
    Store,
    /// etcd, which APISIX uses too.
    Etcd,
}

/// The reasons to refuse a keyring.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum KeyringError {
    /// A key, counted from 1, has a length that no cipher has.
    #[error("key {number} of the keyring has {bytes} bytes; a key has 16 (AES-128) or 32 (AES-256)")]
    Length {
        /// The number of the key.
        number: usize,
        bytes: usize,
    },
    /// The keyring has more keys than a rotation needs.
    #[error("the keyring has {0} keys; at most {MAX_KEYS} are tried for a secret")]
    TooMany(usize),
}

/// The reasons why the secrets of a stored object cannot be decrypted. Holds no secret.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SealedError {
    /// The text is encrypted, and there is no keyring.
    #[error(
        "its secrets are encrypted and there is no encryption_keyring: set the keyring they were encrypted with"
    )]
    NoKeyring,
    /// No key decrypts it.
    #[error(
        "{0} cannot be decrypted with any key of encryption_keyring: add the key it was encrypted with, or write the \
         object once more"
    )]
    Field(String),
}

impl Sealer {
    /// A sealer with these keys, which are passed as their bytes; without keys it changes nothing.
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn new<K: AsRef<[u8]>>(catalog: Arc<PluginCatalog>, keyring: &[K]) -> Result<Sealer, KeyringError> {
        if keyring.len() > MAX_KEYS {
            return Err(KeyringError::TooMany(keyring.len()));
        }
        let key = |(index, key): (usize, &K)| {
            let bytes = key.as_ref().len();
            RingKey::new(key.as_ref()).ok_or(KeyringError::Length { number: index + 1, bytes })
        };
        let ring = keyring.iter().enumerate().map(key).collect::<Result<_, _>>()?;
        Ok(Sealer { catalog, ring })
    }

    /// The text of an object with its secrets encrypted, as APISIX would write it to etcd. Borrowed where it
    /// has no secret.
    pub fn seal<'t>(&self, key: &ObjectKey, text: &'t str) -> Cow<'t, str> {
        let Some(ring_key) = self.ring.first() else { return Cow::Borrowed(text) };
        let Ok(mut object) = serde_json::from_str::<Value>(text) else { return Cow::Borrowed(text) };
        let mut sealed = false;
        secret_field::for_each_secret(&self.catalog, key, &mut object, &mut |_, form, secret| {
            if form == SecretForm::Any || secret.starts_with(PEM_START) {
                *secret = ring_key.seal(secret);
                sealed = true;
            }
        });
        if sealed { Cow::Owned(object.to_string()) } else { Cow::Borrowed(text) }
    }

    /// The text of an object with its secrets decrypted. A secret that does not look encrypted stays, because
    /// it was written before there was a keyring.
    ///
    /// # Errors
    /// A secret looks encrypted, and no key decrypts it.
    pub fn open<'t>(&self, key: &ObjectKey, text: &'t str) -> Result<Cow<'t, str>, SealedError> {
        self.open_all(key, text, Plain::MayBe)
    }

    /// As [`Sealer::seal`], in the form of that medium.
    pub fn seal_for<'t>(&self, medium: StorageMedium, key: &ObjectKey, text: &'t str) -> Cow<'t, str> {
        match (medium, self.seal(key, text)) {
            (StorageMedium::Store, Cow::Owned(sealed)) => Cow::Owned(format!("{MARK}{sealed}")),
            (_, text) => text,
        }
    }

    /// Decrypts a text that [`Sealer::seal_for`] made for that medium, or that was written there without a
    /// keyring.
    ///
    /// # Errors
    /// A secret is encrypted, or in etcd looks so, and no key decrypts it.
    pub fn open_from<'t>(
        &self,
        medium: StorageMedium,
        key: &ObjectKey,
        stored: &'t str,
    ) -> Result<Cow<'t, str>, SealedError> {
        match (medium, stored.strip_prefix(MARK)) {
            (StorageMedium::Etcd, _) => self.open(key, stored),
            (StorageMedium::Store, None) => Ok(Cow::Borrowed(stored)),
            (StorageMedium::Store, Some(_)) if self.ring.is_empty() => Err(SealedError::NoKeyring),
            (StorageMedium::Store, Some(sealed)) => self.open_all(key, sealed, Plain::Never),
        }
    }

    /// A whole text encrypted, for what is no object; as it is without a keyring.
    pub(crate) fn seal_text(&self, text: &str) -> String {
        match self.ring.first() {
            Some(ring_key) => format!("{MARK}{}", ring_key.seal(text)),
            None => text.to_owned(),
        }
    }

    /// Opens what [`Sealer::seal_text`] made.
    ///
    /// # Errors
    /// It is encrypted, and no key opens it.
    pub(crate) fn open_text(&self, stored: &str) -> Result<String, SealedError> {
        let Some(sealed) = stored.strip_prefix(MARK) else { return Ok(stored.to_owned()) };
        if self.ring.is_empty() {
            return Err(SealedError::NoKeyring);
        }
        let opened = sealed_bytes(sealed);
        let opened = opened.and_then(|sealed| self.ring.iter().find_map(|ring_key| ring_key.open(&sealed)));
        opened.ok_or_else(|| SealedError::Field("the text".to_owned()))
    }

    /// The JSON of a stored text, its secrets still encrypted.
    pub fn json_of(stored: &str) -> &str {
        stored.strip_prefix(MARK).unwrap_or(stored)
    }

    fn open_all<'t>(
        &self,
        key: &ObjectKey,
        text: &'t str,
        plain: Plain,
    ) -> Result<Cow<'t, str>, SealedError> {
        if self.ring.is_empty() {
            return Ok(Cow::Borrowed(text));
        }
        let Ok(mut object) = serde_json::from_str::<Value>(text) else { return Ok(Cow::Borrowed(text)) };
        let (mut opened, mut closed) = (false, None);
        secret_field::for_each_secret(&self.catalog, key, &mut object, &mut |place, form, secret| {
            // Only PEM is encrypted in the fields of private keys; a reference, or a text that is no key, is
            // stored as it is.
            let may_be_plain = plain == Plain::MayBe || form == SecretForm::PrivateKey;
            let sealed = sealed_bytes(secret);
            match sealed.and_then(|sealed| self.ring.iter().find_map(|ring_key| ring_key.open(&sealed))) {
                Some(found) => {
                    *secret = found;
                    opened = true;
                }
                None if may_be_plain && sealed_bytes(secret).is_none() => {}
                None => closed = closed.take().or_else(|| Some(place.to_owned())),
            }
        });
        match closed {
            Some(place) => Err(SealedError::Field(place)),
            None if opened => Ok(Cow::Owned(object.to_string())),
            None => Ok(Cow::Borrowed(text)),
        }
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Sealer({} keys)", self.ring.len())
    }
}

/// Whether a secret may be stored without encryption.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plain {
    MayBe,
    Never,
}

/// One key, ready for both directions.
struct RingKey {
    sealing: PaddedBlockEncryptingKey,
    opening: PaddedBlockDecryptingKey,
    /// The first block of the key.
    vector: [u8; BLOCK_BYTES],
}

impl RingKey {
    fn new(key: &[u8]) -> Option<RingKey> {
        let algorithm = match key.len() {
            16 => &AES_128,
            32 => &AES_256,
            _ => return None,
        };
        let unbound = || UnboundCipherKey::new(algorithm, key).ok();
        Some(RingKey {
            sealing: PaddedBlockEncryptingKey::cbc_pkcs7(unbound()?).ok()?,
            opening: PaddedBlockDecryptingKey::cbc_pkcs7(unbound()?).ok()?,
            vector: key.first_chunk().copied()?,
        })
    }

    fn seal(&self, secret: &str) -> String {
        let mut bytes = secret.as_bytes().to_vec();
        self.sealing
            .less_safe_encrypt(&mut bytes, EncryptionContext::Iv128(self.vector.into()))
            .expect("any bytes can be encrypted with a key and vector of the right lengths");
        BASE64.encode(&bytes)
    }

    /// The secret, if it was encrypted with this key.
    fn open(&self, sealed: &[u8]) -> Option<String> {
        let mut bytes = sealed.to_vec();
        let opened = self.opening.decrypt(&mut bytes, DecryptionContext::Iv128(self.vector.into())).ok()?;
        // A wrong key leaves valid padding once in 256 times, and valid UTF-8 almost never.
        std::str::from_utf8(opened).ok().map(str::to_owned)
    }
}

/// The bytes of a text that looks encrypted: base64 of whole blocks.
fn sealed_bytes(text: &str) -> Option<Vec<u8>> {
    let bytes = BASE64.decode(text.as_bytes()).ok()?;
    (!bytes.is_empty() && bytes.len() % BLOCK_BYTES == 0).then_some(bytes)
}

/// The first characters of PEM.
const PEM_START: &str = "---";
/// The mark in front of a stored text with encrypted secrets. No JSON begins so.
const MARK: &str = "sealed:";
/// Block size of AES.
const BLOCK_BYTES: usize = 16;
/// Limit of the keys in a keyring. A keyring is rotated by adding a new key in front and removing an old one
/// at the end; each key is tried for every secret that is read.
pub const MAX_KEYS: usize = 16;

#[cfg(test)]
mod tests;
