//! The algorithms of signatures (RFC 7518 section 3.1, RFC 8037), and the parameters of the library for each.

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{self, EcdsaVerificationAlgorithm, RsaParameters};

use crate::shared::attributes::words;

words! {
    /// An algorithm by its name in the header of a token.
    pub(crate) enum JwtAlgorithm {
        Hs256 = "HS256",
        Hs384 = "HS384",
        Hs512 = "HS512",
        Rs256 = "RS256",
        Rs384 = "RS384",
        Rs512 = "RS512",
        Es256 = "ES256",
        Es384 = "ES384",
        Es512 = "ES512",
        Ps256 = "PS256",
        Ps384 = "PS384",
        Ps512 = "PS512",
        EdDsa = "EdDSA",
    }
}

/// How an algorithm verifies, with the library's parameters.
pub(super) enum SignatureScheme {
    Hmac(hmac::Algorithm),
    Rsa(&'static RsaParameters),
    Ecdsa(Curve, &'static EcdsaVerificationAlgorithm),
    Ed25519,
}

/// A curve of ECDSA keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Curve {
    P256,
    P384,
    P521,
}

impl Curve {
    /// The name in JWKs (RFC 7518 section 6.2.1.1).
    pub(super) fn name(self) -> &'static str {
        match self {
            Curve::P256 => "P-256",
            Curve::P384 => "P-384",
            Curve::P521 => "P-521",
        }
    }

    /// Bytes of one coordinate.
    pub(super) fn coordinate_bytes(self) -> usize {
        match self {
            Curve::P256 => 32,
            Curve::P384 => 48,
            Curve::P521 => 66,
        }
    }
}

impl JwtAlgorithm {
    /// Every algorithm.
    pub(crate) const ALL: [JwtAlgorithm; 13] = [
        JwtAlgorithm::Hs256,
        JwtAlgorithm::Hs384,
        JwtAlgorithm::Hs512,
        JwtAlgorithm::Rs256,
        JwtAlgorithm::Rs384,
        JwtAlgorithm::Rs512,
        JwtAlgorithm::Es256,
        JwtAlgorithm::Es384,
        JwtAlgorithm::Es512,
        JwtAlgorithm::Ps256,
        JwtAlgorithm::Ps384,
        JwtAlgorithm::Ps512,
        JwtAlgorithm::EdDsa,
    ];

    /// The algorithms that public keys are used with. HMAC is not among them: a public key must never be its
    /// secret.
    pub(crate) fn asymmetric() -> &'static [JwtAlgorithm] {
        const HMAC: usize = 3;
        const { JwtAlgorithm::ALL.split_at(HMAC).1 }
    }

    /// The algorithm of that name; none for `none` and for unknown names.
    pub(crate) fn from_name(name: &str) -> Option<JwtAlgorithm> {
        JwtAlgorithm::ALL.into_iter().find(|algorithm| algorithm.word() == name)
    }

    /// Whether one secret both signs and verifies.
    pub(crate) fn is_symmetric(self) -> bool {
        matches!(self, JwtAlgorithm::Hs256 | JwtAlgorithm::Hs384 | JwtAlgorithm::Hs512)
    }

    pub(super) fn scheme(self) -> SignatureScheme {
        match self {
            JwtAlgorithm::Hs256 => SignatureScheme::Hmac(hmac::HMAC_SHA256),
            JwtAlgorithm::Hs384 => SignatureScheme::Hmac(hmac::HMAC_SHA384),
            JwtAlgorithm::Hs512 => SignatureScheme::Hmac(hmac::HMAC_SHA512),
            JwtAlgorithm::Rs256 => SignatureScheme::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
            JwtAlgorithm::Rs384 => SignatureScheme::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
            JwtAlgorithm::Rs512 => SignatureScheme::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
            JwtAlgorithm::Es256 => SignatureScheme::Ecdsa(Curve::P256, &signature::ECDSA_P256_SHA256_FIXED),
            JwtAlgorithm::Es384 => SignatureScheme::Ecdsa(Curve::P384, &signature::ECDSA_P384_SHA384_FIXED),
            JwtAlgorithm::Es512 => SignatureScheme::Ecdsa(Curve::P521, &signature::ECDSA_P521_SHA512_FIXED),
            JwtAlgorithm::Ps256 => SignatureScheme::Rsa(&signature::RSA_PSS_2048_8192_SHA256),
            JwtAlgorithm::Ps384 => SignatureScheme::Rsa(&signature::RSA_PSS_2048_8192_SHA384),
            JwtAlgorithm::Ps512 => SignatureScheme::Rsa(&signature::RSA_PSS_2048_8192_SHA512),
            JwtAlgorithm::EdDsa => SignatureScheme::Ed25519,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asymmetric_algorithms_are_all_but_hmac() {
        let expected: Vec<JwtAlgorithm> =
            JwtAlgorithm::ALL.into_iter().filter(|algorithm| !algorithm.is_symmetric()).collect();
        assert_eq!(JwtAlgorithm::asymmetric(), expected);
    }
}
