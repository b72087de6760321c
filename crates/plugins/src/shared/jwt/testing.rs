//! For tests: tokens that another library made, and a signer for tokens with claims of a test's own.

use aws_lc_rs::hmac;
use data_encoding::BASE64URL_NOPAD;
use serde_json::Value;

/// Keys and tokens of every algorithm, made with PyJWT.
pub(crate) fn vectors() -> Value {
    serde_json::from_str(include_str!("vectors.json")).unwrap()
}

/// A token of the vectors by the name of its algorithm.
pub(crate) fn token_of(algorithm: &str) -> String {
    vectors()["tokens"][algorithm]["token"].as_str().unwrap().to_owned()
}

/// A token with this header and these claims, as they are written, signed with HMAC and SHA-256.
pub(crate) fn sign(header: &str, claims: &str, secret: &str) -> String {
    let encode = |bytes: &[u8]| BASE64URL_NOPAD.encode(bytes);
    let message = format!("{}.{}", encode(header.as_bytes()), encode(claims.as_bytes()));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), message.as_bytes());
    format!("{message}.{}", encode(tag.as_ref()))
}

/// A token with these claims, signed with HS256.
pub(crate) fn hs256(claims: &Value, secret: &str) -> String {
    sign(r#"{"alg":"HS256","typ":"JWT"}"#, &claims.to_string(), secret)
}
