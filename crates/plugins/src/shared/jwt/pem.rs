//! Public keys in PEM (RFC 7468): subject public keys, RSA keys of PKCS#1, and certificates, of which only
//! the key counts.

use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::public_key::RSAPublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::algorithm::Curve;
use super::key::PublicKey;

/// The longest text that is read, in bytes: certificates with many names, and keys far beyond the longest
/// supported one.
const PEM_BYTES_MAX: usize = 64 * 1024;

const RSA: &str = "1.2.840.113549.1.1.1";
const EC: &str = "1.2.840.10045.2.1";
const ED25519: &str = "1.3.101.112";
const ED448: &str = "1.3.101.113";
const CURVES: [(&str, Curve); 3] =
    [("1.2.840.10045.3.1.7", Curve::P256), ("1.3.132.0.34", Curve::P384), ("1.3.132.0.35", Curve::P521)];

/// The key in the first block of `text`.
///
/// # Errors
/// It is no PEM, no public key, or of a kind that is not supported.
pub(super) fn read_pem_key(text: &str) -> Result<PublicKey, String> {
    if text.len() > PEM_BYTES_MAX {
        return Err(format!("the public key is longer than {PEM_BYTES_MAX} bytes"));
    }
    let (_, block) = x509_parser::pem::parse_x509_pem(text.as_bytes())
        .map_err(|_| "the public key is neither PEM nor a JWK".to_owned())?;
    match &*block.label {
        "PUBLIC KEY" => {
            let (_, info) =
                SubjectPublicKeyInfo::from_der(&block.contents).map_err(|_| malformed("public key"))?;
            subject_key(&info)
        }
        "RSA PUBLIC KEY" => rsa(&block.contents),
        "CERTIFICATE" => {
            let (_, certificate) =
                X509Certificate::from_der(&block.contents).map_err(|_| malformed("certificate"))?;
            subject_key(certificate.public_key())
        }
        label if label.ends_with("PRIVATE KEY") => {
            Err("a private key is written where the public key is expected".to_owned())
        }
        label => Err(format!("a PEM block `{label}` is no public key")),
    }
}

fn subject_key(info: &SubjectPublicKeyInfo<'_>) -> Result<PublicKey, String> {
    let bytes = &*info.subject_public_key.data;
    match &*info.algorithm.algorithm.to_id_string() {
        RSA => rsa(bytes),
        EC => {
            let oid = info.algorithm.parameters.as_ref().and_then(|parameters| parameters.as_oid().ok());
            let oid = oid.map(|oid| oid.to_id_string());
            let curve = CURVES.iter().find(|(id, _)| Some(*id) == oid.as_deref());
            let (_, curve) = curve.ok_or("only the curves P-256, P-384 and P-521 are supported")?;
            Ok(PublicKey::Ec { curve: *curve, point: bytes.to_vec() })
        }
        ED25519 => Ok(PublicKey::Ed25519(bytes.to_vec())),
        ED448 => Err("keys of Ed448 are not supported; use Ed25519".to_owned()),
        other => Err(format!("public keys of the algorithm {other} are not supported")),
    }
}

fn rsa(der: &[u8]) -> Result<PublicKey, String> {
    let (_, key) = RSAPublicKey::from_der(der).map_err(|_| malformed("RSA key"))?;
    Ok(PublicKey::Rsa {
        modulus: strip_leading_zeros(key.modulus),
        exponent: strip_leading_zeros(key.exponent),
    })
}

/// The number without leading zeros, as the library wants it.
pub(super) fn strip_leading_zeros(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().skip_while(|byte| *byte == 0).collect()
}

fn malformed(what: &str) -> String {
    format!("the {what} is malformed")
}
