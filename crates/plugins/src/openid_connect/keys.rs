//! The keys of a provider (RFC 7517), and which of them verifies a token.

use std::rc::Rc;

use data_encoding::BASE64URL_NOPAD;
use jsonx::Bounds;
use serde_json::Value;

use crate::shared::jwt::{JsonWebToken, JwtAlgorithm, TokenFault, VerifiedTokens, VerifyingKey};

/// The most keys of one provider. Those beyond are not used; a provider has one for each algorithm and a few
/// old ones.
const KEYS_MAX: usize = 64;
/// The most keys that are tried for one token: each costs a verification, some 50 microseconds. A token that
/// names its key has one.
const KEYS_TRIED_MAX: usize = 16;

/// See the module.
pub(super) struct KeySet {
    keys: Vec<(Option<Box<str>>, VerifyingKey)>,
}

impl KeySet {
    /// Reads a JWK set. Keys that cannot verify are left out, because a set may hold keys for encryption.
    ///
    /// # Errors
    /// It is no set, or has no key that verifies.
    pub(super) fn read(document: &Value) -> Result<KeySet, String> {
        let listed = document.get("keys").and_then(Value::as_array);
        let listed = listed.ok_or("the JWK set has no list `keys`")?;
        let usable = |jwk: &Value| {
            let key = VerifyingKey::from_jwk(jwk, JwtAlgorithm::asymmetric()).ok()?;
            Some((jwk.get("kid").and_then(Value::as_str).map(Into::into), key))
        };
        let keys: Vec<_> = listed.iter().filter_map(usable).take(KEYS_MAX).collect();
        if keys.is_empty() {
            return Err("the JWK set has no key that verifies signatures".to_owned());
        }
        Ok(KeySet { keys })
    }

    /// One public key in PEM, for every algorithm that fits its kind.
    ///
    /// # Errors
    /// The text is no public key.
    pub(super) fn from_pem(pem: &str) -> Result<KeySet, String> {
        let mut keys = Vec::new();
        let mut fault = String::new();
        for &algorithm in JwtAlgorithm::asymmetric() {
            match VerifyingKey::from_text(algorithm, pem) {
                Ok(key) => keys.push((None, key)),
                Err(reason) => fault = reason,
            }
        }
        if keys.is_empty() { Err(format!("public_key: {fault}")) } else { Ok(KeySet { keys }) }
    }

    /// Whether the set can hold the key of `token`: it has one with the token's key identifier, or the token
    /// names none.
    pub(super) fn knows(&self, token: &JsonWebToken) -> bool {
        let Some(wanted) = &token.key_id else { return true };
        self.keys.iter().any(|(id, _)| id.as_ref() == Some(wanted))
    }

    /// Verifies `token`, which was read from `raw`, with the key that it names, or without a name with those
    /// that fit.
    ///
    /// # Errors
    /// No key has signed it.
    pub(super) fn verify(
        &self,
        verified: &VerifiedTokens,
        token: &Rc<JsonWebToken>,
        raw: &str,
    ) -> Result<(), TokenFault> {
        let suits = |id: &Option<Box<str>>| match (&token.key_id, id) {
            // A key without an identifier is for tokens with any: a configured public key has none.
            (_, None) | (None, _) => true,
            (Some(wanted), Some(id)) => wanted == id,
        };
        let mut fault = TokenFault::Algorithm;
        let mut tried = 0;
        for (_, key) in self.keys.iter().filter(|(id, _)| suits(id)) {
            match verified.verify(token, raw.as_bytes(), key) {
                Ok(()) => return Ok(()),
                // The key is for another algorithm; that cost nothing.
                Err(TokenFault::Algorithm) => {}
                Err(other) => {
                    fault = other;
                    tried += 1;
                }
            }
            if tried == KEYS_TRIED_MAX {
                break;
            }
        }
        Err(fault)
    }
}

/// The algorithm that the header of a token names; not to be trusted.
pub(super) fn algorithm_of(raw: &str) -> Option<String> {
    let header = raw.split('.').next()?;
    let header: Value = jsonx::read(&BASE64URL_NOPAD.decode(header.as_bytes()).ok()?, Bounds::SMALL).ok()?;
    header.get("alg")?.as_str().map(str::to_owned)
}
