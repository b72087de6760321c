//! Keys that verify signatures. A key holds one verifier for each algorithm that it may be used with; the
//! algorithms are chosen when it is made and must fit the kind of key.

use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{self, ParsedPublicKey, RsaPublicKeyComponents};
use model::lenient_json;
use serde_json::Value;

use super::algorithm::{Curve, JwtAlgorithm, SignatureScheme};
use super::token::TokenFault;
use super::{jwk, pem};

/// The shortest RSA modulus, in bits (RFC 7518 section 3.3).
const RSA_BITS_MIN: usize = 2_048;
/// The longest RSA modulus, in bits: the time of a verification grows with its square.
const RSA_BITS_MAX: usize = 8_192;

/// A public key before it is known what it is used for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PublicKey {
    /// Modulus and exponent, big-endian without leading zeros.
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    /// A point of a curve in the uncompressed form of SEC 1.
    Ec { curve: Curve, point: Vec<u8> },
    /// The 32 bytes of an Ed25519 key.
    Ed25519(Vec<u8>),
}

enum SignatureVerifier {
    /// The secret, because the library's form of it takes 1.2 KiB and there may be 100,000 consumers.
    Hmac(hmac::Algorithm, Box<[u8]>),
    Signature(ParsedPublicKey),
}

/// See the module.
pub(crate) struct VerifyingKey {
    /// Tells this key from every other one of the process, also from one with the same value.
    number: u64,
    verifiers: Box<[(JwtAlgorithm, SignatureVerifier)]>,
}

impl VerifyingKey {
    /// A key of HMAC. An empty secret is refused, because anybody could sign with it.
    ///
    /// # Errors
    /// The secret is empty, or `algorithm` needs a public key.
    pub(crate) fn from_secret(algorithm: JwtAlgorithm, secret: &[u8]) -> Result<VerifyingKey, String> {
        match algorithm.scheme() {
            _ if secret.is_empty() => Err("the secret is empty".to_owned()),
            SignatureScheme::Hmac(hash) => {
                Ok(VerifyingKey::new(vec![(algorithm, SignatureVerifier::Hmac(hash, secret.into()))]))
            }
            _ => Err(format!("{} needs a public key, not a secret", algorithm.word())),
        }
    }

    /// A public key as PEM (`PUBLIC KEY`, `RSA PUBLIC KEY` or `CERTIFICATE`) or as the JSON text of a JWK,
    /// for one algorithm.
    ///
    /// # Errors
    /// The text is no such key, or the key does not fit the algorithm.
    pub(crate) fn from_text(algorithm: JwtAlgorithm, text: &str) -> Result<VerifyingKey, String> {
        if !text.trim_start().starts_with('{') {
            return VerifyingKey::from_public(&pem::read_pem_key(text)?, &[algorithm]);
        }
        let jwk: Value =
            lenient_json::from_slice(text.as_bytes()).map_err(|_| "the JWK is not JSON".to_owned())?;
        VerifyingKey::from_jwk(&jwk, &[algorithm])
    }

    /// A JWK for those of `allowed` that fit it: its `alg` where it has one, otherwise all of its kind.
    /// Members that are not about verification, such as `kid`, are left to the caller.
    ///
    /// # Errors
    /// It is malformed, is not for signatures (`use`, `key_ops`), or fits none of `allowed`.
    pub(crate) fn from_jwk(jwk: &Value, allowed: &[JwtAlgorithm]) -> Result<VerifyingKey, String> {
        let read = jwk::read_jwk(jwk)?;
        let suits = |algorithm: &JwtAlgorithm| read.algorithm.is_none_or(|only| only == *algorithm);
        let allowed: Vec<JwtAlgorithm> = allowed.iter().copied().filter(suits).collect();
        match read.material {
            jwk::Material::Public(key) => VerifyingKey::from_public(&key, &allowed),
            jwk::Material::Secret(secret) => {
                let only = allowed.into_iter().find(|algorithm| algorithm.is_symmetric());
                VerifyingKey::from_secret(only.ok_or("the key fits none of the allowed algorithms")?, &secret)
            }
        }
    }

    /// A public key for those of `allowed` that fit its kind.
    fn from_public(key: &PublicKey, allowed: &[JwtAlgorithm]) -> Result<VerifyingKey, String> {
        key.check()?;
        let mut verifiers = Vec::new();
        for algorithm in allowed {
            if let Some(verifier) = key.verifier(*algorithm)? {
                verifiers.push((*algorithm, SignatureVerifier::Signature(verifier)));
            }
        }
        if verifiers.is_empty() {
            let names: Vec<&str> = allowed.iter().map(|algorithm| algorithm.word()).collect();
            return Err(format!("{} is not for {}", key.kind(), names.join(", ")));
        }
        Ok(VerifyingKey::new(verifiers))
    }

    fn new(verifiers: Vec<(JwtAlgorithm, SignatureVerifier)>) -> VerifyingKey {
        // 0 is the number of no key, for tokens that were not verified.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        VerifyingKey { number: NEXT.fetch_add(1, Ordering::Relaxed), verifiers: verifiers.into() }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Verifies the signature of `message` in constant time for HMAC.
    ///
    /// # Errors
    /// The key is not for this algorithm, or the signature is wrong.
    pub(super) fn verify(
        &self,
        algorithm: Option<JwtAlgorithm>,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), TokenFault> {
        let found = self.verifiers.iter().find(|(own, _)| Some(*own) == algorithm);
        let (_, verifier) = found.ok_or(TokenFault::Algorithm)?;
        let verified = match verifier {
            SignatureVerifier::Hmac(hash, secret) => {
                hmac::verify(&hmac::Key::new(*hash, secret), message, signature)
            }
            SignatureVerifier::Signature(key) => key.verify_sig(message, signature),
        };
        verified.map_err(|_| TokenFault::Signature)
    }
}

impl PublicKey {
    /// The kind in words.
    fn kind(&self) -> String {
        match self {
            PublicKey::Rsa { .. } => "an RSA key".to_owned(),
            PublicKey::Ec { curve, .. } => format!("an EC key on the curve {}", curve.name()),
            PublicKey::Ed25519(_) => "an Ed25519 key".to_owned(),
        }
    }

    /// The library checks the length of an RSA key only when a signature comes.
    fn check(&self) -> Result<(), String> {
        let PublicKey::Rsa { modulus, .. } = self else { return Ok(()) };
        let first = modulus.first().map_or(0, |byte| byte.leading_zeros() as usize);
        match (modulus.len() * 8).saturating_sub(first) {
            RSA_BITS_MIN..=RSA_BITS_MAX => Ok(()),
            bits => Err(format!(
                "the RSA key has {bits} bits, and {RSA_BITS_MIN} to {RSA_BITS_MAX} are supported"
            )),
        }
    }

    /// The library's form of the key; none if the algorithm is for another kind of key.
    fn verifier(&self, algorithm: JwtAlgorithm) -> Result<Option<ParsedPublicKey>, String> {
        let parsed = match (self, algorithm.scheme()) {
            (PublicKey::Rsa { modulus, exponent }, SignatureScheme::Rsa(parameters)) => {
                RsaPublicKeyComponents { n: modulus, e: exponent }.to_parsed_public_key(parameters)
            }
            (PublicKey::Ec { curve, point }, SignatureScheme::Ecdsa(own, parameters)) if *curve == own => {
                ParsedPublicKey::new(parameters, point)
            }
            (PublicKey::Ed25519(bytes), SignatureScheme::Ed25519) => {
                ParsedPublicKey::new(&signature::ED25519, bytes)
            }
            _ => return Ok(None),
        };
        parsed.map(Some).map_err(|_| format!("{} has impossible values", self.kind()))
    }
}

#[cfg(test)]
mod tests;
