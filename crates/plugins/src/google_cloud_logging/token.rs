//! Access tokens of a service account (RFC 7523 section 2.1): a signed assertion is exchanged for a token,
//! which is kept until shortly before its end.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use data_encoding::BASE64URL_NOPAD;
use jsonx::Bounds;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};

/// Seconds that an assertion is valid; Google takes no longer ones.
const ASSERTION_LIFETIME_S: u64 = 3_600;
/// Seconds before its end when a token is no longer used.
const MARGIN_S: u64 = 60;

/// The private key of a service account.
pub(super) struct Signer(RsaKeyPair);

impl Signer {
    /// A key in PEM: PKCS#8 or PKCS#1.
    ///
    /// # Errors
    /// A sentence that holds nothing of the key.
    pub(super) fn from_pem(pem: &str) -> Result<Signer, String> {
        let der = PrivateKeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| "it is no private key in PEM".to_owned())?;
        let read = match &der {
            PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()),
            other => RsaKeyPair::from_pkcs8(other.secret_der()),
        };
        read.map(Signer).map_err(|_| "it is no RSA key with 2048 to 8192 bits".to_owned())
    }

    /// A token with these claims, signed by RS256; nothing if there are no random numbers. It takes about a
    /// millisecond and runs on the service thread, once an hour.
    pub(super) fn sign(&self, claims: &Value) -> Option<String> {
        let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        let signed = format!("{}.{}", part(&json!({ "alg": "RS256", "typ": "JWT" })), part(claims));
        let mut signature = vec![0; self.0.public_modulus_len()];
        self.0.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature).ok()?;
        Some(format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature)))
    }
}

/// The claims of an assertion.
pub(super) fn claims(email: &str, audience: &str, scope: &str, now_s: u64) -> Value {
    json!({ "iss": email, "aud": audience, "scope": scope, "iat": now_s, "exp": now_s + ASSERTION_LIFETIME_S })
}

/// A token as the endpoint hands it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GoogleAccessToken {
    /// The value of Authorization.
    pub(super) authorization: String,
    expires_s: u64,
}

impl GoogleAccessToken {
    /// Reads the response of the endpoint at `now_s`.
    ///
    /// # Errors
    /// The missing part, without the token.
    pub(super) fn read(body: &[u8], now_s: u64) -> Result<GoogleAccessToken, String> {
        let body: Value = jsonx::read(body, Bounds::SMALL)
            .map_err(|_| "failed to parse google oauth response data: it is not JSON".to_owned())?;
        let token = body["access_token"].as_str().ok_or("the response has no access_token")?;
        let kind = body["token_type"].as_str().unwrap_or("Bearer");
        // Google hands out tokens for an hour.
        let lifetime_s = body["expires_in"].as_f64().unwrap_or(3_600.0).max(0.0) as u64;
        Ok(GoogleAccessToken {
            authorization: format!("{kind} {token}"),
            expires_s: now_s.saturating_add(lifetime_s),
        })
    }

    /// Whether it can be used at `now_s`.
    pub(super) fn is_fresh(&self, now_s: u64) -> bool {
        now_s + MARGIN_S <= self.expires_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_and_get_old() {
        let token =
            GoogleAccessToken::read(br#"{"access_token":"a","token_type":"Bearer","expires_in":3600}"#, 100)
                .unwrap();
        assert_eq!(token.authorization, "Bearer a");
        assert!(token.is_fresh(100) && token.is_fresh(3_640) && !token.is_fresh(3_641));
        let other =
            GoogleAccessToken::read(br#"{"access_token":"a","token_type":"Custom","expires_in":0}"#, 100)
                .unwrap();
        assert_eq!((&*other.authorization, other.is_fresh(100)), ("Custom a", false));
        assert_eq!(GoogleAccessToken::read(br#"{"access_token":"a"}"#, 0).unwrap().authorization, "Bearer a");
        for body in ["", "{}", "[]", r#"{"access_token":1}"#] {
            assert!(GoogleAccessToken::read(body.as_bytes(), 0).is_err(), "{body}");
        }
    }
}
