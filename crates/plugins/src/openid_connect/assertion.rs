//! Client assertions: short tokens, signed by the client, with which it authenticates at an endpoint of the
//! provider (RFC 7523 section 2.2, OpenID Connect Core section 9).

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RsaEncoding, RsaKeyPair,
};
use data_encoding::BASE64URL_NOPAD;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};

use super::settings::AssertionAlgorithm;

/// The key that signs assertions.
pub(super) enum SigningKey {
    Hmac(AssertionAlgorithm, Box<hmac::Key>),
    Rsa(AssertionAlgorithm, Box<RsaKeyPair>, &'static dyn RsaEncoding),
    Ecdsa(AssertionAlgorithm, Box<EcdsaKeyPair>),
}

impl SigningKey {
    /// A key of HMAC; nothing for an algorithm that needs a private key.
    pub(super) fn from_secret(algorithm: AssertionAlgorithm, secret: &str) -> Option<SigningKey> {
        let hash = match algorithm {
            AssertionAlgorithm::Hs256 => hmac::HMAC_SHA256,
            AssertionAlgorithm::Hs512 => hmac::HMAC_SHA512,
            _ => return None,
        };
        Some(SigningKey::Hmac(algorithm, Box::new(hmac::Key::new(hash, secret.as_bytes()))))
    }

    /// A private key in PEM: PKCS#8, PKCS#1 or SEC 1.
    ///
    /// # Errors
    /// The text is no key, or one that the algorithm is not for; a sentence that holds nothing of the key.
    pub(super) fn from_pem(algorithm: AssertionAlgorithm, pem: &str) -> Result<SigningKey, String> {
        let der = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| {
            "property \"client_rsa_private_key\" is not a valid key: no private key in PEM".to_owned()
        })?;
        let curve = |curve: &'static EcdsaSigningAlgorithm, name: &str| {
            let read = match &der {
                PrivateKeyDer::Sec1(key) => EcdsaKeyPair::from_private_key_der(curve, key.secret_sec1_der()),
                other => EcdsaKeyPair::from_pkcs8(curve, other.secret_der()),
            };
            let misfit = |_| {
                format!(
                    "property \"client_jwt_assertion_alg\" \"{}\" requires a \"client_rsa_private_key\" on curve \
                     \"{name}\"",
                    algorithm.word()
                )
            };
            read.map(|key| SigningKey::Ecdsa(algorithm, Box::new(key))).map_err(misfit)
        };
        match algorithm {
            AssertionAlgorithm::Es256 => curve(&ECDSA_P256_SHA256_FIXED_SIGNING, "P-256"),
            AssertionAlgorithm::Es512 => curve(&ECDSA_P521_SHA512_FIXED_SIGNING, "P-521"),
            AssertionAlgorithm::Rs256 => rsa_key(algorithm, &der, &RSA_PKCS1_SHA256),
            AssertionAlgorithm::Rs512 => rsa_key(algorithm, &der, &RSA_PKCS1_SHA512),
            AssertionAlgorithm::Hs256 | AssertionAlgorithm::Hs512 => {
                Err(format!("{} signs with the client secret", algorithm.word()))
            }
        }
    }

    fn algorithm(&self) -> AssertionAlgorithm {
        match self {
            SigningKey::Hmac(algorithm, _)
            | SigningKey::Rsa(algorithm, ..)
            | SigningKey::Ecdsa(algorithm, _) => *algorithm,
        }
    }

    /// A signature of `message`; nothing if the library cannot make one, such as without random numbers. An
    /// RSA key of 2048 bits takes less than a millisecond, once for each call to the provider.
    fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match self {
            SigningKey::Hmac(_, key) => Some(hmac::sign(key, message).as_ref().to_vec()),
            SigningKey::Rsa(_, key, encoding) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(*encoding, &random, message, &mut signature).ok()?;
                Some(signature)
            }
            SigningKey::Ecdsa(_, key) => Some(key.sign(&random, message).ok()?.as_ref().to_vec()),
        }
    }

    /// An assertion of `client_id` for `audience`, valid for `lifetime_s` seconds from `now_s` on.
    pub(super) fn assertion(
        &self,
        key_id: Option<&str>,
        client_id: &str,
        audience: &str,
        now_s: u64,
        lifetime_s: u64,
    ) -> Option<String> {
        let mut header = json!({ "typ": "JWT", "alg": self.algorithm().word() });
        if let Some(key_id) = key_id.filter(|_| !self.algorithm().is_symmetric()) {
            header["kid"] = Value::from(key_id);
        }
        let claims = json!({
            "iss": client_id,
            "sub": client_id,
            "aud": audience,
            "jti": uuid::Uuid::new_v4().to_string(),
            "exp": now_s.saturating_add(lifetime_s),
            "iat": now_s,
        });
        let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        let signed = format!("{}.{}", part(&header), part(&claims));
        let signature = self.sign(signed.as_bytes())?;
        Some(format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature)))
    }
}

fn rsa_key(
    algorithm: AssertionAlgorithm,
    der: &PrivateKeyDer<'_>,
    encoding: &'static dyn RsaEncoding,
) -> Result<SigningKey, String> {
    let read = match der {
        PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()),
        other => RsaKeyPair::from_pkcs8(other.secret_der()),
    };
    let key = read.map_err(|_| {
        let name = algorithm.word();
        format!("property \"client_jwt_assertion_alg\" \"{name}\" requires an RSA \"client_rsa_private_key\"")
    })?;
    let bits = key.public_modulus_len() * 8;
    if bits > RSA_BITS_MAX {
        return Err(format!(
            "client_rsa_private_key: {bits} bits are not supported, {RSA_BITS_MAX} at most: a signature would \
             occupy a worker for milliseconds"
        ));
    }
    Ok(SigningKey::Rsa(algorithm, Box::new(key), encoding))
}

/// The longest RSA key that signs: one with 8192 bits would take eight times as long as one with 4096.
const RSA_BITS_MAX: usize = 4_096;
