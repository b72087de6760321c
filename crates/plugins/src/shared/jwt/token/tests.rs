//! Malformed tokens, and tokens at the limits.

use super::*;
use crate::shared::jwt::testing::sign;

fn read(raw: &str) -> Result<JsonWebToken, TokenFault> {
    JsonWebToken::parse(raw.as_bytes(), [0; 32])
}

fn refused(raw: &str) -> Option<TokenFault> {
    read(raw).err()
}

#[test]
fn malformed_tokens_are_refused() {
    let good = sign(r#"{"alg":"HS256"}"#, "{}", "s");
    assert!(read(&good).is_ok());
    let (signed, signature) = good.rsplit_once('.').unwrap();
    assert_eq!(refused(""), Some(TokenFault::Segments));
    assert_eq!(refused("a.b"), Some(TokenFault::Segments));
    assert_eq!(refused(&format!("{good}.a.b")), Some(TokenFault::Segments));
    assert_eq!(refused(&format!("{signed}.{signature}=")), Some(TokenFault::Encoding));
    assert_eq!(refused(&format!("{signed}.{signature}+")), Some(TokenFault::Encoding));
    assert_eq!(refused(&format!(" {good}")), Some(TokenFault::Encoding));
    let check = |header: &str, claims: &str, fault| {
        assert_eq!(refused(&sign(header, claims, "s")), Some(fault), "{header} {claims}");
    };
    check("", "{}", TokenFault::Header);
    check("[]", "{}", TokenFault::Header);
    check(r#"{"typ":"JWT"}"#, "{}", TokenFault::Header);
    check(r#"{"alg":1}"#, "{}", TokenFault::Header);
    check(r#"{"alg":"HS256"} x"#, "{}", TokenFault::Header);
    check(r#"{"alg":"HS256","b64":false,"crit":["b64"]}"#, "{}", TokenFault::Critical);
    check(r#"{"alg":"HS256"}"#, "", TokenFault::Claims);
    check(r#"{"alg":"HS256"}"#, "\"text\"", TokenFault::Claims);
    check(r#"{"alg":"HS256"}"#, "{\"a\":", TokenFault::Claims);
}

#[test]
fn length_and_depth_have_limits() {
    let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    let header = r#"{"alg":"HS256"}"#;
    assert_eq!(refused(&sign(header, &nested(DEPTH_MAX - 1), "s")), None);
    assert_eq!(refused(&sign(header, &nested(DEPTH_MAX), "s")), Some(TokenFault::Claims));
    let texts = format!("{{\"a\":\"\\\"{}\"}}", "[{".repeat(100));
    assert_eq!(refused(&sign(header, &texts, "s")), None);
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(TOKEN_BYTES_MAX));
    assert_eq!(refused(&sign(header, &long, "s")), Some(TokenFault::TooLong));
}

#[test]
fn parts_of_a_token_are_read() {
    let token = read(&sign(r#"{"alg":"HS256","kid":"k-1"}"#, r#"{"sub":"jack"}"#, "s")).unwrap();
    assert_eq!((token.algorithm, token.key_id.as_deref()), (Some(JwtAlgorithm::Hs256), Some("k-1")));
    assert_eq!(token.claims["sub"], "jack");
    let token = read(&sign(r#"{"alg":"none","kid":7}"#, "{}", "s")).unwrap();
    assert_eq!((token.algorithm, token.key_id.as_deref()), (None, None));
}
