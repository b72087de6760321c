//! Keys of every kind and form, with tokens that another library signed.

use serde_json::json;

use super::*;
use crate::shared::jwt::VerifiedTokens;
use crate::shared::jwt::testing::{token_of, vectors};

/// Checks a token with a key.
fn verify(key: &VerifyingKey, raw: &str) -> Result<(), TokenFault> {
    let tokens = VerifiedTokens::default();
    let token = tokens.read(raw.as_bytes())?;
    tokens.verify(&token, raw.as_bytes(), key)
}

/// The keys of an algorithm in every form that the vectors have.
fn keys_of(algorithm: JwtAlgorithm) -> Vec<VerifyingKey> {
    let vectors = vectors();
    let name = vectors["tokens"][algorithm.word()]["key"].as_str().unwrap();
    if name == "secret" {
        let secret = vectors["secret"].as_str().unwrap();
        return vec![VerifyingKey::from_secret(algorithm, secret.as_bytes()).unwrap()];
    }
    let forms = vectors["keys"][name].as_object().unwrap();
    let text = |form: &Value| form.as_str().map_or_else(|| form.to_string(), str::to_owned);
    forms.values().map(|form| VerifyingKey::from_text(algorithm, &text(form)).unwrap()).collect()
}

/// The token with another bit in its signature.
fn forged(token: &str) -> String {
    let at = token.rfind('.').unwrap() + 10;
    let other = if &token[at..=at] == "A" { "B" } else { "A" };
    format!("{}{other}{}", &token[..at], &token[at + 1..])
}

#[test]
fn token_of_each_algorithm_passes_with_its_key() {
    for algorithm in JwtAlgorithm::ALL {
        let keys = keys_of(algorithm);
        assert!(!keys.is_empty());
        for key in keys {
            let token = token_of(algorithm.word());
            assert_eq!(verify(&key, &token), Ok(()), "{algorithm:?}");
            assert_eq!(verify(&key, &forged(&token)), Err(TokenFault::Signature), "{algorithm:?}");
            let cut = &token[..token.rfind('.').unwrap() + 1];
            assert_eq!(verify(&key, cut), Err(TokenFault::Signature), "{algorithm:?} without signature");
        }
    }
}

#[test]
fn key_is_bound_to_its_algorithm() {
    for own in JwtAlgorithm::ALL {
        for key in keys_of(own) {
            for other in JwtAlgorithm::ALL.into_iter().filter(|other| *other != own) {
                let verified = verify(&key, &token_of(other.word()));
                assert_eq!(verified, Err(TokenFault::Algorithm), "{own:?} {other:?}");
            }
            for attack in ["hs256_with_public_key", "none"] {
                let token = vectors()["attacks"][attack].as_str().unwrap().to_owned();
                let expected = if own == JwtAlgorithm::Hs256 && attack != "none" {
                    TokenFault::Signature
                } else {
                    TokenFault::Algorithm
                };
                assert_eq!(verify(&key, &token), Err(expected), "{own:?} {attack}");
            }
        }
    }
}

#[test]
fn jwk_without_algorithm_serves_all_of_its_kind() {
    let jwk = &vectors()["keys"]["rsa"]["jwk"];
    let key = VerifyingKey::from_jwk(jwk, &JwtAlgorithm::ALL).unwrap();
    for algorithm in ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"] {
        assert_eq!(verify(&key, &token_of(algorithm)), Ok(()), "{algorithm}");
    }
    assert_eq!(verify(&key, &token_of("ES256")), Err(TokenFault::Algorithm));
    let mut only = jwk.clone();
    only["alg"] = "PS256".into();
    only["use"] = "sig".into();
    let key = VerifyingKey::from_jwk(&only, &JwtAlgorithm::ALL).unwrap();
    assert_eq!(verify(&key, &token_of("PS256")), Ok(()));
    assert_eq!(verify(&key, &token_of("RS256")), Err(TokenFault::Algorithm));
    let secret = data_encoding::BASE64URL_NOPAD.encode(vectors()["secret"].as_str().unwrap().as_bytes());
    let key = VerifyingKey::from_jwk(&json!({"kty": "oct", "k": secret, "alg": "HS512"}), &JwtAlgorithm::ALL)
        .unwrap();
    assert_eq!(verify(&key, &token_of("HS512")), Ok(()));
    assert_eq!(verify(&key, &token_of("HS256")), Err(TokenFault::Algorithm));
}

#[test]
fn unsuitable_texts_are_refused_with_the_reason() {
    let vectors = vectors();
    let pem = |name: &str| vectors["keys"][name]["pem"].as_str().unwrap().to_owned();
    let check = |algorithm, text: &str, expected: &str| {
        let refused = VerifyingKey::from_text(algorithm, text).err().unwrap_or_default();
        assert!(refused.contains(expected), "{text}: {refused:?}");
    };
    check(JwtAlgorithm::Rs256, "", "neither PEM nor a JWK");
    check(JwtAlgorithm::Rs256, "secret", "neither PEM nor a JWK");
    check(JwtAlgorithm::Rs256, &pem("rsa1024"), "the RSA key has 1024 bits");
    check(JwtAlgorithm::Rs256, &vectors["keys"]["rsa1024"]["jwk"].to_string(), "the RSA key has 1024 bits");
    check(JwtAlgorithm::Rs256, &pem("p256"), "an EC key on the curve P-256 is not for RS256");
    check(JwtAlgorithm::Es384, &pem("p256"), "an EC key on the curve P-256 is not for ES384");
    check(JwtAlgorithm::Es256, &pem("p256k"), "only the curves");
    check(JwtAlgorithm::EdDsa, &pem("ed448"), "Ed448");
    check(JwtAlgorithm::EdDsa, &pem("rsa"), "an RSA key is not for EdDSA");
    check(JwtAlgorithm::Hs256, &pem("rsa"), "an RSA key is not for HS256");
    check(JwtAlgorithm::Rs256, &pem("rsa").replace("PUBLIC", "PRIVATE"), "a private key");
    check(JwtAlgorithm::Rs256, &pem("rsa").replace("PUBLIC KEY", "X509 CRL"), "is no public key");
    check(JwtAlgorithm::Rs256, &pem("rsa").replace("MIIB", "MIIC"), "malformed");
    check(JwtAlgorithm::Rs256, &"x".repeat(70_000), "longer than");
    check(JwtAlgorithm::Rs256, "{", "is not JSON");
    check(JwtAlgorithm::Rs256, "{}", "`kty`");
    check(JwtAlgorithm::Rs256, r#"{"kty":"RSA","n":"AQAB"}"#, "`e` is missing");
    check(JwtAlgorithm::Rs256, r#"{"kty":"RSA","n":"+/==","e":"AQAB"}"#, "`n` is missing or malformed");
    check(JwtAlgorithm::Rs256, r#"{"kty":"RSA","use":"enc"}"#, "not for signatures");
    check(JwtAlgorithm::Rs256, r#"{"kty":"RSA","key_ops":["sign"]}"#, "not for verification");
    check(JwtAlgorithm::Rs256, r#"{"kty":"RSA","alg":"RSA-OAEP"}"#, "RSA-OAEP is not supported");
    check(
        JwtAlgorithm::Es256,
        r#"{"kty":"EC","crv":"P-256","x":"AQAB","y":"AQAB"}"#,
        "`x` has a wrong length",
    );
    let off_curve = "A".repeat(43);
    let jwk = json!({"kty": "EC", "crv": "P-256", "x": off_curve, "y": off_curve});
    check(JwtAlgorithm::Es256, &jwk.to_string(), "impossible values");
    check(JwtAlgorithm::EdDsa, r#"{"kty":"OKP","crv":"X25519","x":"AQAB"}"#, "only Ed25519");
    check(JwtAlgorithm::EdDsa, r#"{"kty":"OKP","crv":"Ed25519","x":"AQAB"}"#, "impossible values");
    let empty = VerifyingKey::from_secret(JwtAlgorithm::Hs256, b"").err();
    assert_eq!(empty.as_deref(), Some("the secret is empty"));
    let public = VerifyingKey::from_secret(JwtAlgorithm::Rs256, b"s").err();
    assert_eq!(public.as_deref(), Some("RS256 needs a public key, not a secret"));
}
