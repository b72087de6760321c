//! Keys in JSON (RFC 7517, members by RFC 7518 section 6 and RFC 8037).

use data_encoding::BASE64URL_NOPAD;
use serde_json::Value;

use super::algorithm::{Curve, JwtAlgorithm};
use super::key::PublicKey;
use super::pem::strip_leading_zeros;

/// The longest number or secret in a JWK, in characters: twice the longest supported RSA modulus.
const MEMBER_CHARS_MAX: usize = 4 * 1024;

/// A JWK that was read.
pub(super) struct Jwk {
    /// The one algorithm it is for, if it says so.
    pub(super) algorithm: Option<JwtAlgorithm>,
    pub(super) material: Material,
}

pub(super) enum Material {
    Public(PublicKey),
    Secret(Vec<u8>),
}

/// Reads a key for the verification of signatures.
///
/// # Errors
/// It is malformed, or for something else.
pub(super) fn read_jwk(jwk: &Value) -> Result<Jwk, String> {
    if jwk.get("use").is_some_and(|purpose| purpose != "sig") {
        return Err("the JWK is not for signatures (`use`)".to_owned());
    }
    let operations = jwk.get("key_ops").and_then(Value::as_array);
    if operations.is_some_and(|operations| !operations.iter().any(|operation| operation == "verify")) {
        return Err("the JWK is not for verification (`key_ops`)".to_owned());
    }
    let algorithm = match text(jwk, "alg") {
        None => None,
        Some(name) => {
            let known = JwtAlgorithm::from_name(name);
            Some(known.ok_or_else(|| format!("the JWK's algorithm {name} is not supported"))?)
        }
    };
    let material = match text(jwk, "kty") {
        Some("RSA") => {
            let (modulus, exponent) = (number(jwk, "n")?, number(jwk, "e")?);
            let (modulus, exponent) = (strip_leading_zeros(&modulus), strip_leading_zeros(&exponent));
            Material::Public(PublicKey::Rsa { modulus, exponent })
        }
        Some("EC") => Material::Public(point(jwk)?),
        Some("OKP") if text(jwk, "crv") == Some("Ed25519") => {
            Material::Public(PublicKey::Ed25519(number(jwk, "x")?))
        }
        Some("OKP") => return Err("of OKP keys, only Ed25519 is supported".to_owned()),
        Some("oct") => Material::Secret(number(jwk, "k")?),
        _ => return Err("the JWK's `kty` is none of RSA, EC, OKP, oct".to_owned()),
    };
    Ok(Jwk { algorithm, material })
}

fn point(jwk: &Value) -> Result<PublicKey, String> {
    let curves = [Curve::P256, Curve::P384, Curve::P521];
    let curve = curves.into_iter().find(|curve| text(jwk, "crv") == Some(curve.name()));
    let curve = curve.ok_or("only the curves P-256, P-384 and P-521 are supported")?;
    let mut point = vec![4];
    for name in ["x", "y"] {
        let coordinate = number(jwk, name)?;
        if coordinate.len() != curve.coordinate_bytes() {
            return Err(format!("the JWK's `{name}` has a wrong length"));
        }
        point.extend(coordinate);
    }
    Ok(PublicKey::Ec { curve, point })
}

fn text<'j>(jwk: &'j Value, name: &str) -> Option<&'j str> {
    jwk.get(name)?.as_str()
}

fn number(jwk: &Value, name: &str) -> Result<Vec<u8>, String> {
    let text = text(jwk, name).filter(|text| text.len() <= MEMBER_CHARS_MAX);
    let bytes = text.and_then(|text| BASE64URL_NOPAD.decode(text.as_bytes()).ok());
    bytes
        .filter(|bytes| !bytes.is_empty())
        .ok_or_else(|| format!("the JWK's `{name}` is missing or malformed"))
}
