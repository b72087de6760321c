//! The parameters of a signature, the text that it signs, and its verification.

use aws_lc_rs::hmac;
use data_encoding::{BASE64, BASE64_NOPAD};
use exchange::Exchange;

use super::single;
use crate::shared::attributes::words;

words! {
    /// The algorithms, as clients and configurations name them.
    pub(super) enum HmacAlgorithm {
        Sha1 = "hmac-sha1",
        Sha256 = "hmac-sha256",
        Sha512 = "hmac-sha512",
    }
}

impl HmacAlgorithm {
    /// Every algorithm, in the order of the contract.
    pub(super) const ALL: [HmacAlgorithm; 3] =
        [HmacAlgorithm::Sha1, HmacAlgorithm::Sha256, HmacAlgorithm::Sha512];

    fn hash(self) -> hmac::Algorithm {
        match self {
            HmacAlgorithm::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            HmacAlgorithm::Sha256 => hmac::HMAC_SHA256,
            HmacAlgorithm::Sha512 => hmac::HMAC_SHA512,
        }
    }
}

/// The parameters of `Authorization: Signature …`; unknown ones are ignored.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parameters<'f> {
    pub(super) key_id: Option<&'f str>,
    pub(super) algorithm: Option<&'f str>,
    pub(super) signature: Option<&'f str>,
    headers: Option<&'f str>,
}

impl<'f> Parameters<'f> {
    /// Reads `name="value"` pairs between commas. A name that comes twice leaves none, because two readers
    /// could differ.
    pub(super) fn read(text: &'f [u8]) -> Parameters<'f> {
        let mut parameters = Parameters::default();
        let Ok(text) = std::str::from_utf8(text) else { return parameters };
        let mut doubled = false;
        for pair in text.split(',') {
            let Some((name, value)) = pair.trim_ascii().split_once("=\"") else { continue };
            let Some((value, _)) = value.split_once('"') else { continue };
            let slot = match name {
                "keyId" => &mut parameters.key_id,
                "algorithm" => &mut parameters.algorithm,
                "signature" => &mut parameters.signature,
                "headers" => &mut parameters.headers,
                _ => continue,
            };
            doubled |= slot.replace(value).is_some();
        }
        if doubled { Parameters::default() } else { parameters }
    }

    /// The names that the signature covers.
    pub(super) fn headers(&self) -> impl Iterator<Item = &'f str> {
        self.headers.unwrap_or_default().split(' ').filter(|name| !name.is_empty())
    }
}

/// The text that is signed.
///
/// # Errors
/// A field that it covers is there twice.
pub(super) fn build_signed_text(
    exchange: &Exchange,
    parameters: &Parameters<'_>,
    key_id: &str,
) -> Result<Vec<u8>, &'static str> {
    let request = &exchange.request;
    let mut text = Vec::with_capacity(256);
    line(&mut text, &[key_id.as_bytes()]);
    for name in parameters.headers() {
        if name == "@request-target" {
            line(&mut text, &[request.method_text(), b" ", request.target_text()]);
        } else if let Some(value) = single(exchange, name)? {
            line(&mut text, &[name.as_bytes(), b": ", value]);
        }
    }
    Ok(text)
}

fn line(text: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| text.extend_from_slice(part));
    text.push(b'\n');
}

/// Compares a signature, in constant time.
///
/// # Errors
/// It is no base64 or not that of `message`.
pub(super) fn verify_hmac_signature(
    algorithm: HmacAlgorithm,
    secret: &str,
    message: &[u8],
    signature: &str,
) -> Result<(), &'static str> {
    const WRONG: &str = "Invalid signature";
    let signature = signature.as_bytes();
    let signature =
        BASE64.decode(signature).or_else(|_| BASE64_NOPAD.decode(signature)).map_err(|_| WRONG)?;
    let key = hmac::Key::new(algorithm.hash(), secret.as_bytes());
    hmac::verify(&key, message, &signature).map_err(|_| WRONG)
}
