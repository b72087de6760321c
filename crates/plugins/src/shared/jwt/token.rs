//! A token in compact form, read within limits. Reading verifies nothing: see [`super::VerifiedTokens`].

use std::cell::Cell;
use std::rc::Rc;

use data_encoding::BASE64URL_NOPAD;
use jsonx::Bounds;
use serde_json::{Map, Value};

use super::algorithm::JwtAlgorithm;

/// The longest token, in bytes. A request's head is limited as well; this holds for tokens from servers and
/// bodies, too.
pub(crate) const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// The deepest nesting of arrays and objects in a header or in claims.
const DEPTH_MAX: usize = 32;
/// The bounds of a header and of claims.
const OBJECT_BOUNDS: Bounds = Bounds::SMALL.with_depth(DEPTH_MAX);

/// A token as it was read.
pub(crate) struct JsonWebToken {
    /// The algorithm that the header names; none for `none` and for unknown names, which no key verifies.
    pub(super) algorithm: Option<JwtAlgorithm>,
    /// The key id of the header.
    pub(crate) key_id: Option<Box<str>>,
    /// The claims, an object. Not to be trusted before the token is verified.
    pub(crate) claims: Rc<Map<String, Value>>,
    /// The claims with all digits of their numbers, for variables and upstreams.
    pub(crate) exact: Rc<jsonx::Value>,
    /// Bytes of the token that are signed.
    pub(super) signed_bytes: usize,
    pub(super) signature: Box<[u8]>,
    /// SHA-256 of the whole token.
    pub(super) digest: [u8; 32],
    /// The number of the key that verified it; 0 before.
    pub(super) verified_by: Cell<u64>,
}

/// Why a token is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenFault {
    /// Longer than [`TOKEN_BYTES_MAX`].
    TooLong,
    /// Not three segments.
    Segments,
    /// A segment is not base64url without padding.
    Encoding,
    /// The header is no JSON object with `alg`.
    Header,
    /// The header has extensions that must be understood (RFC 7515 section 4.1.11).
    Critical,
    /// The claims are no JSON object, or nested too deeply.
    Claims,
    /// The key is not for the algorithm that the header names.
    Algorithm,
    /// The signature is not that of the key.
    Signature,
    /// A claim that is required is missing.
    Missing(&'static str),
    /// A claim is of the wrong type.
    Type(&'static str),
    /// `exp` is over.
    Expired,
    /// `nbf` is not yet reached.
    NotYet,
    /// `iss` names none of the expected issuers.
    Issuer,
    /// `aud` names none of the expected audiences.
    Audience,
}

impl TokenFault {
    /// The reason for a log; it holds nothing of the token.
    pub(crate) fn reason(self) -> String {
        match self {
            TokenFault::TooLong => format!("it is longer than {TOKEN_BYTES_MAX} bytes"),
            TokenFault::Segments => "it has not three segments".to_owned(),
            TokenFault::Encoding => "a segment is not base64url".to_owned(),
            TokenFault::Header => "its header is malformed".to_owned(),
            TokenFault::Critical => "its header has critical extensions".to_owned(),
            TokenFault::Claims => "its claims are malformed".to_owned(),
            TokenFault::Algorithm => "its algorithm is not that of the key".to_owned(),
            TokenFault::Signature => "signature mismatch".to_owned(),
            TokenFault::Missing(claim) => format!("claim {claim} is missing"),
            TokenFault::Type(claim) => format!("claim {claim} has a wrong type"),
            TokenFault::Expired => "'exp' claim expired".to_owned(),
            TokenFault::NotYet => "'nbf' claim not valid yet".to_owned(),
            TokenFault::Issuer => "claim iss is not that of the expected issuer".to_owned(),
            TokenFault::Audience => "claim aud does not name the expected audience".to_owned(),
        }
    }
}

/// A token's three segments.
fn segments(raw: &[u8]) -> Result<[&[u8]; 3], TokenFault> {
    let mut segments = raw.split(|byte| *byte == b'.');
    match (segments.next(), segments.next(), segments.next(), segments.next()) {
        (Some(header), Some(claims), Some(signature), None) => Ok([header, claims, signature]),
        _ => Err(TokenFault::Segments),
    }
}

fn decode(segment: &[u8]) -> Result<Vec<u8>, TokenFault> {
    BASE64URL_NOPAD.decode(segment).map_err(|_| TokenFault::Encoding)
}

impl JsonWebToken {
    /// Reads a token; `digest` is the SHA-256 of it.
    ///
    /// # Errors
    /// It is malformed or beyond a limit.
    pub(super) fn parse(raw: &[u8], digest: [u8; 32]) -> Result<JsonWebToken, TokenFault> {
        if raw.len() > TOKEN_BYTES_MAX {
            return Err(TokenFault::TooLong);
        }
        let [header, claims, signature] = segments(raw)?;
        let signed_bytes = header.len() + 1 + claims.len();
        let (header, _) = object(&decode(header)?).ok_or(TokenFault::Header)?;
        let (claims, exact) = object(&decode(claims)?).ok_or(TokenFault::Claims)?;
        let name = header.get("alg").and_then(Value::as_str).ok_or(TokenFault::Header)?;
        // Extensions that change the meaning of the signature, such as `b64` (RFC 7797), have to be listed in
        // `crit`.
        if header.contains_key("crit") {
            return Err(TokenFault::Critical);
        }
        Ok(JsonWebToken {
            algorithm: JwtAlgorithm::from_name(name),
            key_id: header.get("kid").and_then(Value::as_str).map(Into::into),
            claims: Rc::new(claims),
            exact: Rc::new(exact),
            signed_bytes,
            signature: decode(signature)?.into(),
            digest,
            verified_by: Cell::new(0),
        })
    }
}

/// The JSON object in `text`, for rules and with all digits; none if it is something else or beyond a bound.
fn object(text: &[u8]) -> Option<(Map<String, Value>, jsonx::Value)> {
    let exact = jsonx::parse(text, OBJECT_BOUNDS).ok()?.value;
    match exact.to_serde() {
        Value::Object(object) => Some((object, exact)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
