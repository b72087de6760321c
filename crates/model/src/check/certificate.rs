//! Whether certificates and private keys in PEM can be used, and belong together. Knows no object and no
//! time: whether a certificate has expired is not its concern.
//!
//! Parsing needs no I/O, so these checks are here and not with TLS: every source of objects passes through
//! `check`.

use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use x509_parser::asn1_rs::FromDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::revocation_list::CertificateRevocationList;
use x509_parser::x509::SubjectPublicKeyInfo;

use crate::secret_reference::{file_path, is_certificate_reference};

/// Checks a certificate, with its chain behind it, and its key. What is a reference is not known yet and is
/// not checked.
///
/// # Errors
/// APISIX's words for the certificate or the key, then what is wrong.
pub(super) fn check_certificate_pair(cert: &str, key: &str) -> Result<(), String> {
    let is_cert_known = !is_reference(cert).map_err(|reason| format!("failed to parse cert: {reason}"))?;
    let is_key_known = !is_reference(key).map_err(|reason| format!("failed to parse key: {reason}"))?;
    let cert = is_cert_known.then(|| certificates(cert)).transpose()?;
    let key = is_key_known.then(|| public_key(key)).transpose()?;
    let (Some(cert), Some(key)) = (cert, key) else { return Ok(()) };
    let of_certificate = bits_of_certificate(&cert)?;
    match SubjectPublicKeyInfo::from_der(&key) {
        Ok((_, of_key)) if of_key.subject_public_key.data == of_certificate => Ok(()),
        _ => Err("failed to parse key: it does not belong to the certificate".to_owned()),
    }
}

/// Checks certificates without a key, such as those that sign clients.
///
/// # Errors
/// As [`check_certificate_pair`].
pub(super) fn check_certificates(cert: &str) -> Result<(), String> {
    if is_reference(cert)? { Ok(()) } else { certificates(cert).map(drop) }
}

/// Checks lists of revoked certificates.
///
/// # Errors
/// The fault, as a sentence.
pub(super) fn revocation_list(text: &str) -> Result<(), String> {
    if is_reference(text)? {
        return Ok(());
    }
    let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(text.as_bytes()).collect();
    let lists = lists.map_err(|error| format!("failed to parse crl: it is not PEM: {error}"))?;
    if lists.is_empty() {
        return Err(
            "failed to parse crl: it has no PEM block that begins with -----BEGIN X509 CRL-----".to_owned()
        );
    }
    for list in lists {
        if !matches!(CertificateRevocationList::from_der(&list), Ok(([], _))) {
            return Err("failed to parse crl: it is no list of revoked certificates".to_owned());
        }
    }
    Ok(())
}

/// Whether a text is a reference, so that its content is not known here.
fn is_reference(text: &str) -> Result<bool, String> {
    match file_path(text) {
        Some(path) if !path.starts_with('/') => {
            Err("a file is named by an absolute path, as in $file:///etc/weir/shop.pem".to_owned())
        }
        _ => Ok(is_certificate_reference(text)),
    }
}

/// The last second of the validity of the certificate itself, in seconds since the Unix epoch; none for a
/// reference.
///
/// # Errors
/// As [`check_certificate_pair`].
pub(super) fn not_after_s(cert: &str) -> Result<Option<i64>, String> {
    if is_reference(cert)? {
        return Ok(None);
    }
    let own = certificates(cert)?;
    let parsed = X509Certificate::from_der(&own);
    Ok(parsed.ok().map(|(_, parsed)| parsed.validity().not_after.timestamp()))
}

/// The first of the certificates; all of them can be read.
fn certificates(pem: &str) -> Result<CertificateDer<'static>, String> {
    let fault = |reason: String| format!("failed to parse cert: {reason}");
    let mut all = Vec::new();
    for found in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let found = found.map_err(|error| fault(format!("it is not PEM: {error}")))?;
        if all.len() == CHAIN_MAX {
            return Err(fault(format!("it has more than {CHAIN_MAX} certificates")));
        }
        bits_of_certificate(&found)?;
        all.push(found);
    }
    let none = "it has no PEM block that begins with -----BEGIN CERTIFICATE-----";
    all.into_iter().next().ok_or_else(|| fault(none.to_owned()))
}

/// The public key of a certificate, as its bits.
fn bits_of_certificate<'c>(certificate: &'c CertificateDer<'_>) -> Result<&'c [u8], String> {
    match X509Certificate::from_der(certificate) {
        Ok(([], certificate)) => {
            let key = &certificate.tbs_certificate.subject_pki.subject_public_key;
            // The bits are a part of the certificate's own bytes, so that they outlive the parsed form.
            match &key.data {
                std::borrow::Cow::Borrowed(bits) => Ok(bits),
                std::borrow::Cow::Owned(_) => {
                    Err("failed to parse cert: its key is not a bit string".to_owned())
                }
            }
        }
        Ok(_) => Err("failed to parse cert: bytes follow the certificate".to_owned()),
        Err(error) => Err(format!("failed to parse cert: it is no X.509 certificate: {error}")),
    }
}

/// The public key of a private key, as SubjectPublicKeyInfo in DER.
fn public_key(pem: &str) -> Result<Vec<u8>, String> {
    let fault = |reason: String| format!("failed to parse key: {reason}");
    if pem.contains("BEGIN ENCRYPTED PRIVATE KEY") || pem.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(fault("it is encrypted with a pass phrase; write it without one".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|error| match error {
        rustls::pki_types::pem::Error::NoItemsFound => {
            fault("it has no PEM block of a private key, such as -----BEGIN PRIVATE KEY-----".to_owned())
        }
        error => fault(format!("it is not PEM: {error}")),
    })?;
    let key = any_supported_type(&key)
        .map_err(|error| fault(format!("it is no RSA, ECDSA or Ed25519 key that can be used: {error}")))?;
    let public = key.public_key().ok_or_else(|| fault("it has no public key".to_owned()))?;
    Ok(public.to_vec())
}

/// Certificates in one chain: real chains have two to five, and each is parsed while other writes wait.
const CHAIN_MAX: usize = 100;

#[cfg(test)]
pub(crate) mod testing {
    use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SignatureAlgorithm};

    /// A new self-signed certificate and its key, in PEM.
    pub(crate) fn pair() -> (String, String) {
        pair_of(&PKCS_ECDSA_P256_SHA256)
    }

    pub(crate) fn pair_of(algorithm: &'static SignatureAlgorithm) -> (String, String) {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let names = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        (names.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    pub(crate) const ED25519: &SignatureAlgorithm = &PKCS_ED25519;
}

#[cfg(test)]
mod tests {
    use super::testing::{ED25519, pair_of};
    use super::*;

    #[test]
    fn pairs_are_accepted_or_refused_with_the_cause() {
        let check = |cert: &str, key: &str, expected: &str| {
            let found = check_certificate_pair(cert, key).err().unwrap_or_default();
            let is_as_expected =
                if expected.is_empty() { found.is_empty() } else { found.starts_with(expected) };
            assert!(is_as_expected, "{found:?} instead of {expected:?}");
        };
        let (cert, key) = testing::pair();
        let (other_cert, other_key) = testing::pair();
        check(&cert, &key, "");
        check(&format!("a comment\n{cert}{other_cert}"), &key, "");
        let (edwards_cert, edwards_key) = pair_of(ED25519);
        check(&edwards_cert, &edwards_key, "");
        check(&cert, &other_key, "failed to parse key: it does not belong to the certificate");
        check(&edwards_cert, &key, "failed to parse key: it does not belong to the certificate");
        check("$env://CERT", &key, "");
        check(&cert, "$secret://vault/1/a/b", "");
        check("$ENV://CERT", "$ENV://KEY", "");
        let no_certificate = "failed to parse cert: it has no PEM block";
        check(&"x".repeat(200), &key, no_certificate);
        check(&key, &key, no_certificate);
        check("$env://CERT", &"y".repeat(200), "failed to parse key: it has no PEM block");
        check(&cert, &cert, "failed to parse key: it has no PEM block");
        let garbage = |label: &str| {
            let base64 = "AAAA".repeat(16);
            format!("-----BEGIN {label}-----\n{base64}\n-----END {label}-----\n")
        };
        check(&garbage("CERTIFICATE"), &key, "failed to parse cert: it is no X.509 certificate");
        check(&format!("{cert}{}", garbage("CERTIFICATE")), &key, "failed to parse cert: it is no X.509");
        check(&cert, &garbage("PRIVATE KEY"), "failed to parse key: it is no RSA, ECDSA or Ed25519 key");
        check(
            &cert,
            &garbage("ENCRYPTED PRIVATE KEY"),
            "failed to parse key: it is encrypted with a pass phrase",
        );
        check(&cert.replace("-----END", "----END"), &key, "failed to parse cert: ");
        check(&cert.repeat(CHAIN_MAX + 1), &key, "failed to parse cert: it has more than 100 certificates");
        assert_eq!(check_certificates(&cert), Ok(()));
        assert_eq!(check_certificates("$env://CA"), Ok(()));
        assert_eq!(check_certificates("$file:///ca.pem"), Ok(()));
        check("$file:///cert.pem", "$file:///key.pem", "");
        check("$file://cert.pem", &key, "failed to parse cert: a file is named by an absolute path");
        assert!(check_certificates(&key).is_err());
    }
}
