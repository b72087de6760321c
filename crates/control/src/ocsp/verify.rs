//! Signatures of OCSP responses: by the issuer of the certificate, or by a responder that the issuer has
//! authorized with a certificate of its own (RFC 6960 section 4.2.2.2).

use der::asn1::{BitString, ObjectIdentifier};
use der::{Decode, Encode};
use rustls::crypto::aws_lc_rs::default_provider;
use x509_cert::Certificate;
use x509_cert::ext::pkix::ExtendedKeyUsage;
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};
use x509_ocsp::{BasicOcspResponse, ResponderId};

use super::request::key_hash;

/// The extension with the uses of a key, and the use of a responder's key in it.
const EXTENDED_KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37");
const OCSP_SIGNING: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.9");
/// Certificates in a response that are looked at.
const CERTIFICATES_MAX: usize = 4;

/// Verifies the signature of a response under the issuer's key, or that of a responder that the issuer has
/// authorized.
///
/// # Errors
/// The reason why it cannot be trusted, a sentence.
pub(super) fn verify_ocsp_signature(
    response: &BasicOcspResponse,
    issuer: &Certificate,
    now_s: i64,
) -> Result<(), String> {
    let responder = &response.tbs_response_data.responder_id;
    let signed = response.tbs_response_data.to_der().map_err(|error| error.to_string())?;
    let signer = if is_named(responder, issuer) { issuer } else { authorized(response, issuer, now_s)? };
    let key = &signer.tbs_certificate.subject_public_key_info;
    verify(key, &response.signature_algorithm, &signed, &response.signature)
        .map_err(|reason| format!("the signature of the response is not valid: {reason}"))
}

/// The certificate of the responder, which the issuer has signed for this use.
fn authorized<'r>(
    response: &'r BasicOcspResponse,
    issuer: &Certificate,
    now_s: i64,
) -> Result<&'r Certificate, String> {
    let certificates = response.certs.as_deref().unwrap_or_default().iter().take(CERTIFICATES_MAX);
    let named = |certificate: &&Certificate| is_named(&response.tbs_response_data.responder_id, certificate);
    let found = certificates.into_iter().find(named);
    let found = found.ok_or("the response is signed by neither the issuer nor a responder that it names")?;
    let own = &found.tbs_certificate;
    if own.issuer != issuer.tbs_certificate.subject {
        return Err("the responder's certificate has another issuer".to_owned());
    }
    let uses = own.extensions.iter().flatten().find(|extension| extension.extn_id == EXTENDED_KEY_USAGE);
    let uses = uses.and_then(|uses| ExtendedKeyUsage::from_der(uses.extn_value.as_bytes()).ok());
    if !uses.is_some_and(|uses| uses.0.contains(&OCSP_SIGNING)) {
        return Err("the responder's certificate is not one for OCSP".to_owned());
    }
    let seconds =
        |time: x509_cert::time::Time| i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
    if seconds(own.validity.not_before) > now_s || seconds(own.validity.not_after) < now_s {
        return Err("the responder's certificate has expired or is not valid yet".to_owned());
    }
    let signed = own.to_der().map_err(|error| error.to_string())?;
    let key = &issuer.tbs_certificate.subject_public_key_info;
    verify(key, &found.signature_algorithm, &signed, &found.signature)
        .map_err(|reason| format!("the responder's certificate is not signed by the issuer: {reason}"))?;
    Ok(found)
}

fn is_named(responder: &ResponderId, certificate: &Certificate) -> bool {
    match responder {
        ResponderId::ByName(name) => *name == certificate.tbs_certificate.subject,
        ResponderId::ByKey(hash) => hash.as_bytes() == key_hash(certificate),
    }
}

/// Verifies with the first algorithm of the library that has these identifiers.
fn verify(
    key: &SubjectPublicKeyInfoOwned,
    algorithm: &AlgorithmIdentifierOwned,
    signed: &[u8],
    signature: &BitString,
) -> Result<(), String> {
    let (of_key, of_signature) = (content(&key.algorithm)?, content(algorithm)?);
    let signature = signature.as_bytes().ok_or("it is no whole number of bytes")?;
    let mut known = default_provider()
        .signature_verification_algorithms
        .all
        .iter()
        .filter(|one| {
            one.public_key_alg_id().as_ref() == of_key && one.signature_alg_id().as_ref() == of_signature
        })
        .peekable();
    if known.peek().is_none() {
        return Err(format!("the algorithm {} is not supported", algorithm.oid));
    }
    let bits = key.subject_public_key.raw_bytes();
    let is_valid = known.any(|one| one.verify_signature(bits, signed, signature).is_ok());
    if is_valid { Ok(()) } else { Err("it belongs to another key or text".to_owned()) }
}

/// The content of an algorithm identifier, without the header of its SEQUENCE.
fn content(algorithm: &AlgorithmIdentifierOwned) -> Result<Vec<u8>, String> {
    let whole = algorithm.to_der().map_err(|error| error.to_string())?;
    let header = der::SliceReader::new(&whole).and_then(|mut reader| der::Header::decode(&mut reader));
    let length =
        header.and_then(|header| usize::try_from(header.length)).map_err(|error| error.to_string())?;
    Ok(whole[whole.len().saturating_sub(length)..].to_vec())
}
