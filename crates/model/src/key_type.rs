//! The type of the key in a certificate, in the words that users know. It judges nothing.

use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;

/// The type and size of a certificate's key: `ECDSA P-256`, `RSA 2048`, `Ed25519`. None for a text that is no
/// certificate and for a type of key that TLS does not use.
#[must_use]
pub fn of_certificate(der: &[u8]) -> Option<String> {
    of_parsed(&X509Certificate::from_der(der).ok()?.1)
}

/// As [`of_certificate`], of a certificate that was parsed before.
#[must_use]
pub fn of_parsed(certificate: &X509Certificate<'_>) -> Option<String> {
    let info = certificate.public_key();
    let algorithm = info.algorithm.algorithm.to_id_string();
    match &*algorithm {
        EC_PUBLIC_KEY => {
            let curve = info.algorithm.parameters.as_ref()?.as_oid().ok()?.to_id_string();
            let (_, name) = CURVES.into_iter().find(|(oid, _)| *oid == curve)?;
            Some(format!("ECDSA {name}"))
        }
        ED25519 => Some("Ed25519".to_owned()),
        _ => match info.parsed().ok()? {
            PublicKey::RSA(key) => Some(format!("RSA {}", key.key_size())),
            _ => None,
        },
    }
}

/// `id-ecPublicKey` (RFC 5480 section 2.1.1).
const EC_PUBLIC_KEY: &str = "1.2.840.10045.2.1";
/// `id-Ed25519` (RFC 8410 section 3).
const ED25519: &str = "1.3.101.112";
/// The curves that TLS uses (RFC 5480 section 2.1.1.1).
const CURVES: [(&str, &str); 3] =
    [("1.2.840.10045.3.1.7", "P-256"), ("1.3.132.0.34", "P-384"), ("1.3.132.0.35", "P-521")];

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SignatureAlgorithm};

    use super::*;

    fn check(algorithm: &'static SignatureAlgorithm, expected: &str) {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let certificate =
            CertificateParams::new(vec!["a.example".to_owned()]).unwrap().self_signed(&key).unwrap();
        assert_eq!(of_certificate(certificate.der()).as_deref(), Some(expected));
    }

    #[test]
    fn types_of_keys_have_their_names() {
        check(&rcgen::PKCS_ECDSA_P256_SHA256, "ECDSA P-256");
        check(&rcgen::PKCS_ECDSA_P384_SHA384, "ECDSA P-384");
        check(&rcgen::PKCS_ED25519, "Ed25519");
        assert_eq!(of_certificate(b"no certificate"), None);
    }
}
