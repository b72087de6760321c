//! Secrets at rest: the fields that hold them are encrypted in what is stored and opened in what is read, with the
//! keyring of the settings, as APISIX does it, so that each can read the other's (contract section 2.2). It decides
//! neither which fields these are (`model::secret_field`) nor where texts are kept.
//!
//! AES-CBC with PKCS7; the key is the initialisation vector too, so that equal secrets have equal encrypted forms: the
//! price of being read by APISIX. It keeps secrets from a reader of the store, and does not authenticate the writer.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::cipher::{
    AES_128, AES_256, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey,
    PaddedBlockEncryptingKey, UnboundCipherKey,
};
use data_encoding::BASE64;
use model::secret_field::{self, SecretForm};
use model::{Catalog, Key};
use serde_json::Value;
use thiserror::Error;

/// Seals and opens the secrets within the texts of objects. Without a keyring, texts stay as they are.
#[derive(Clone)]
pub struct Sealer {
    catalog: Arc<Catalog>,
    /// The first one seals, all open.
    ring: Arc<[RingKey]>,
}

/// Where texts are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// The embedded store, which is this program's alone: a text with sealed secrets is marked, so that there is no doubt
    /// about what looks sealed and is not.
    Store,
    /// etcd, which is APISIX's too.
    Etcd,
}

/// Why a keyring is none.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum KeyringError {
    /// A key, counted from 1, of a length that no cipher has.
    #[error("key {number} of the keyring has {bytes} bytes; a key has 16 (AES-128) or 32 (AES-256)")]
    Length {
        /// Which one.
        number: usize,
        /// Its length.
        bytes: usize,
    },
    /// More keys than anybody rotates through.
    #[error("the keyring has {0} keys; at most {MAX_KEYS} are tried for a secret")]
    TooMany(usize),
}

/// Why the secrets of a stored object stay closed. Holds no secret.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SealedError {
    /// The text was sealed, and there is no keyring.
    #[error(
        "its secrets are encrypted and there is no encryption_keyring: set the keyring they were encrypted with"
    )]
    NoKeyring,
    /// No key opens it.
    #[error(
        "{0} cannot be decrypted with any key of encryption_keyring: add the key it was encrypted with, or write the \
         object once more"
    )]
    Field(String),
}

impl Sealer {
    /// A sealer with these keys, which are passed as their bytes; with none it does nothing.
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn new<K: AsRef<[u8]>>(catalog: Arc<Catalog>, keyring: &[K]) -> Result<Sealer, KeyringError> {
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

    /// The text of an object with its secrets sealed, as APISIX would write it to etcd. Borrowed where nothing is to be
    /// sealed.
    pub fn seal<'t>(&self, key: &Key, text: &'t str) -> Cow<'t, str> {
        let Some(ring_key) = self.ring.first() else { return Cow::Borrowed(text) };
        let Ok(mut object) = serde_json::from_str::<Value>(text) else { return Cow::Borrowed(text) };
        let mut sealed = false;
        secret_field::for_each(&self.catalog, key, &mut object, &mut |_, form, secret| {
            if form == SecretForm::Any || secret.starts_with(PEM_START) {
                *secret = ring_key.seal(secret);
                sealed = true;
            }
        });
        if sealed { Cow::Owned(object.to_string()) } else { Cow::Borrowed(text) }
    }

    /// The text of an object with its secrets opened. What does not look sealed stays: it was written before there was
    /// a keyring.
    ///
    /// # Errors
    /// What looks sealed and no key opens.
    pub fn open<'t>(&self, key: &Key, text: &'t str) -> Result<Cow<'t, str>, SealedError> {
        self.open_all(key, text, Plain::MayBe)
    }

    /// As [`Sealer::seal`], in the form of that medium.
    pub fn seal_for<'t>(&self, medium: Medium, key: &Key, text: &'t str) -> Cow<'t, str> {
        match (medium, self.seal(key, text)) {
            (Medium::Store, Cow::Owned(sealed)) => Cow::Owned(format!("{MARK}{sealed}")),
            (_, text) => text,
        }
    }

    /// Opens what [`Sealer::seal_for`] made for that medium, or what was written there without a keyring.
    ///
    /// # Errors
    /// What is sealed, or in etcd looks so, and no key opens.
    pub fn open_from<'t>(
        &self,
        medium: Medium,
        key: &Key,
        stored: &'t str,
    ) -> Result<Cow<'t, str>, SealedError> {
        match (medium, stored.strip_prefix(MARK)) {
            (Medium::Etcd, _) => self.open(key, stored),
            (Medium::Store, None) => Ok(Cow::Borrowed(stored)),
            (Medium::Store, Some(_)) if self.ring.is_empty() => Err(SealedError::NoKeyring),
            (Medium::Store, Some(sealed)) => self.open_all(key, sealed, Plain::Never),
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

    fn open_all<'t>(&self, key: &Key, text: &'t str, plain: Plain) -> Result<Cow<'t, str>, SealedError> {
        if self.ring.is_empty() {
            return Ok(Cow::Borrowed(text));
        }
        let Ok(mut object) = serde_json::from_str::<Value>(text) else { return Ok(Cow::Borrowed(text)) };
        let (mut opened, mut closed) = (false, None);
        secret_field::for_each(&self.catalog, key, &mut object, &mut |place, form, secret| {
            // Of private keys only PEM is sealed; a reference, or what is no key at all, is stored as it is.
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

/// Whether a secret may stand there without having been sealed.
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

    /// The secret, if it was sealed with this key.
    fn open(&self, sealed: &[u8]) -> Option<String> {
        let mut bytes = sealed.to_vec();
        let opened = self.opening.decrypt(&mut bytes, DecryptionContext::Iv128(self.vector.into())).ok()?;
        // A wrong key leaves a right padding once in 256 times, and a text next to never.
        std::str::from_utf8(opened).ok().map(str::to_owned)
    }
}

/// The bytes of a text that looks sealed: base64 of whole blocks.
fn sealed_bytes(text: &str) -> Option<Vec<u8>> {
    let bytes = BASE64.decode(text.as_bytes()).ok()?;
    (!bytes.is_empty() && bytes.len() % BLOCK_BYTES == 0).then_some(bytes)
}

/// How PEM begins.
const PEM_START: &str = "---";
/// The mark in front of a stored text with encrypted secrets. No JSON begins so.
const MARK: &str = "sealed:";
/// The block of AES.
const BLOCK_BYTES: usize = 16;
/// A keyring is rotated by putting a new key in front and taking an old one off the end; each one is tried for every
/// secret that is read.
pub const MAX_KEYS: usize = 16;

#[cfg(test)]
mod tests;
