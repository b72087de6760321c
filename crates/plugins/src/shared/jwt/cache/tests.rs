//! Verified tokens are found again, only for the key that verified them, within the limits of the table.

use serde_json::json;

use super::*;
use crate::shared::jwt::JwtAlgorithm;
use crate::shared::jwt::testing::hs256;

fn key(secret: &str) -> VerifyingKey {
    VerifyingKey::from_secret(JwtAlgorithm::Hs256, secret.as_bytes()).unwrap()
}

/// Reads and verifies a token; true if it was in the table.
fn is_known(tokens: &VerifiedTokens, raw: &str, key: &VerifyingKey) -> bool {
    let token = tokens.read(raw.as_bytes()).unwrap();
    let is_known = token.verified_by.get() == key.number();
    tokens.verify(&token, raw.as_bytes(), key).unwrap();
    is_known
}

#[test]
fn token_is_verified_once_by_each_key() {
    let tokens = VerifiedTokens::default();
    let (first, same_secret, other) = (key("a"), key("a"), key("b"));
    let raw = hs256(&json!({"sub": "jack"}), "a");
    assert!(!is_known(&tokens, &raw, &first));
    assert!(is_known(&tokens, &raw, &first));
    // A key that was replaced by one with the same value verifies anew; a wrong one refuses a known token.
    assert!(!is_known(&tokens, &raw, &same_secret));
    let token = tokens.read(raw.as_bytes()).unwrap();
    assert_eq!(tokens.verify(&token, raw.as_bytes(), &other), Err(TokenFault::Signature));
    assert!(is_known(&tokens, &raw, &same_secret));
    assert_eq!(tokens.len(), 1);
}

/// No two texts are one token: base64 with other spare bits is refused as well.
#[test]
fn token_with_any_other_byte_is_refused() {
    let key = key("a");
    let raw = hs256(&json!({"sub": "jack", "list": [1, {"a": "b"}]}), "a");
    let tokens = VerifiedTokens::default();
    assert!(!is_known(&tokens, &raw, &key));
    for at in 0..raw.len() {
        for byte in *b"AB_-.=+ \0\xff" {
            let mut other = raw.clone().into_bytes();
            if std::mem::replace(&mut other[at], byte) != byte {
                let verified = tokens.read(&other).and_then(|token| tokens.verify(&token, &other, &key));
                assert!(verified.is_err(), "{at} {byte}");
            }
        }
        let cut = &raw.as_bytes()[..at];
        assert!(tokens.read(cut).and_then(|token| tokens.verify(&token, cut, &key)).is_err(), "{at}");
    }
}

#[test]
fn unverified_tokens_are_not_kept() {
    let tokens = VerifiedTokens::default();
    let raw = hs256(&json!({"sub": "jack"}), "a");
    let token = tokens.read(raw.as_bytes()).unwrap();
    assert_eq!(tokens.verify(&token, raw.as_bytes(), &key("b")), Err(TokenFault::Signature));
    assert_eq!(tokens.len(), 0);
}

#[test]
fn table_has_a_limit_and_keeps_used_tokens() {
    let tokens = VerifiedTokens::default();
    let key = key("a");
    let raw = |number: usize| hs256(&json!({"sub": number}), "a");
    for number in 0..3 * GENERATION_TOKENS_MAX {
        is_known(&tokens, &raw(number), &key);
        // The first token is used all the time, the others once.
        assert!(is_known(&tokens, &raw(0), &key), "{number}");
        assert!(tokens.len() <= 2 * GENERATION_TOKENS_MAX);
    }
    assert!(!is_known(&tokens, &raw(1), &key));
}

#[test]
fn table_has_a_limit_in_bytes() {
    let tokens = VerifiedTokens::default();
    let key = key("a");
    let text = "x".repeat(10_000);
    for number in 0..1_000 {
        is_known(&tokens, &hs256(&json!({"sub": number, "text": text}), "a"), &key);
        let generations = tokens.generations.borrow();
        assert!(
            generations.young.bytes <= GENERATION_BYTES_MAX && generations.old.bytes <= GENERATION_BYTES_MAX
        );
    }
    assert!(tokens.len() < 700);
}
