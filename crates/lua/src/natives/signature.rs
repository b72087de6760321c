//! Signatures with keys in PEM: RSA and the curves P-256 and P-384, as JSON Web Tokens have them.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    self, EcdsaKeyPair, EcdsaSigningAlgorithm, RsaEncoding, RsaKeyPair, UnparsedPublicKey,
    VerificationAlgorithm,
};
use data_encoding::BASE64;
use mlua::{Lua, LuaString, Table};

use super::{charge, result};

/// Steps charged for a signature: it takes about a millisecond.
const STEPS_PER_SIGNATURE: u64 = 50_000;
/// The longest key in PEM, in bytes.
const PEM_BYTES_MAX: usize = 16 * 1024;

pub(super) fn install_signatures(lua: &Lua, native: &Table) -> mlua::Result<()> {
    let verify =
        lua.create_function(|lua, (name, pem, data, given): (String, LuaString, LuaString, LuaString)| {
            charge(lua, STEPS_PER_SIGNATURE)?;
            result(lua, verify(&name, &pem.as_bytes(), &data.as_bytes(), &given.as_bytes()))
        })?;
    native.raw_set("verify", verify)?;
    let sign = lua.create_function(|lua, (name, pem, data): (String, LuaString, LuaString)| {
        charge(lua, STEPS_PER_SIGNATURE)?;
        let signed = sign(&name, &pem.as_bytes(), &data.as_bytes());
        result(lua, signed.map(mlua::BString::from))
    })?;
    native.raw_set("sign", sign)
}

fn verify(name: &str, pem: &[u8], data: &[u8], given: &[u8]) -> Result<bool, String> {
    let algorithm: &'static dyn VerificationAlgorithm = match name {
        "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
        "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
        "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
        "ES256" => &signature::ECDSA_P256_SHA256_FIXED,
        "ES384" => &signature::ECDSA_P384_SHA384_FIXED,
        _ => return Err(unknown(name)),
    };
    let key = der(pem, &["PUBLIC KEY", "RSA PUBLIC KEY"])?;
    Ok(UnparsedPublicKey::new(algorithm, key).verify(data, given).is_ok())
}

fn sign(name: &str, pem: &[u8], data: &[u8]) -> Result<Vec<u8>, String> {
    let random = SystemRandom::new();
    let rsa = |encoding: &'static dyn RsaEncoding| {
        let key = der(pem, &["PRIVATE KEY", "RSA PRIVATE KEY"])?;
        let pair = RsaKeyPair::from_pkcs8(&key).or_else(|_| RsaKeyPair::from_der(&key));
        let pair = pair.map_err(|error| format!("not a private key of RSA: {error}"))?;
        let mut signature = vec![0; pair.public_modulus_len()];
        let signed = pair.sign(encoding, &random, data, &mut signature);
        signed.map(|()| signature).map_err(|_| "the key cannot sign".to_owned())
    };
    let curve = |algorithm: &'static EcdsaSigningAlgorithm| {
        let key = der(pem, &["PRIVATE KEY"])?;
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, &key);
        let pair = pair.map_err(|error| format!("not a private key of this curve: {error}"))?;
        let signed = pair.sign(&random, data).map_err(|_| "the key cannot sign".to_owned())?;
        Ok(signed.as_ref().to_vec())
    };
    match name {
        "RS256" => rsa(&signature::RSA_PKCS1_SHA256),
        "RS384" => rsa(&signature::RSA_PKCS1_SHA384),
        "RS512" => rsa(&signature::RSA_PKCS1_SHA512),
        "ES256" => curve(&signature::ECDSA_P256_SHA256_FIXED_SIGNING),
        "ES384" => curve(&signature::ECDSA_P384_SHA384_FIXED_SIGNING),
        _ => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> String {
    format!("not available in Weir: the algorithm `{name}`")
}

/// The bytes between the lines of the first block of one of `labels`.
fn der(pem: &[u8], labels: &[&str]) -> Result<Vec<u8>, String> {
    let text = str::from_utf8(pem).map_err(|_| "the key is not text".to_owned())?;
    if text.len() > PEM_BYTES_MAX {
        return Err(format!("the key is longer than {PEM_BYTES_MAX} bytes"));
    }
    for label in labels {
        let Some((_, rest)) = text.split_once(&format!("-----BEGIN {label}-----")) else { continue };
        let Some((body, _)) = rest.split_once(&format!("-----END {label}-----")) else { continue };
        let body: Vec<u8> = body.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        return BASE64.decode(&body).map_err(|error| format!("the key is no PEM: {error}"));
    }
    Err(format!("the key is no PEM of the kind {}", labels.join(" or ")))
}
