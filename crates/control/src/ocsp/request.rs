//! A certificate with its issuer, and the request that asks about it. It opens no connection.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use der::asn1::{Null, ObjectIdentifier, OctetString};
use der::{Any, Decode, Encode};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_cert::Certificate;
use x509_cert::ext::pkix::AuthorityInfoAccessSyntax;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::spki::AlgorithmIdentifierOwned;
use x509_ocsp::{CertId, OcspRequest, Request, TbsRequest};

/// SHA-1, with which responders index certificates (RFC 5019 section 2.1.1). It identifies; nothing trusts
/// it.
const SHA1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.14.3.2.26");
/// The extension with the places of the authority's services.
const AUTHORITY_INFO_ACCESS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.1.1");
/// The service OCSP in it.
const OCSP: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.48.1");
/// The extension with which a certificate asks to be shown with a response (RFC 7633).
const TLS_FEATURE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.1.24");

/// A certificate that is asked about.
#[derive(Clone, Debug)]
pub(super) struct OcspSubject {
    pub(super) issuer: Certificate,
    /// The URL of the responder.
    pub(super) url: String,
    /// Clients may refuse the certificate without a response.
    pub(super) must_staple: bool,
    id: CertId,
}

impl OcspSubject {
    /// Of a chain in PEM, the certificate itself first and its issuer behind it.
    ///
    /// # Errors
    /// The reason why nothing can be asked, a sentence.
    pub(super) fn of_chain(pem: &str) -> Result<OcspSubject, String> {
        let own =
            Certificate::from_der(&own_der(pem)?).map_err(|error| format!("the certificate: {error}"))?;
        let issuer =
            nth_der(pem, 1).ok_or("the chain has no certificate of the issuer behind the first one")?;
        let issuer =
            Certificate::from_der(&issuer).map_err(|error| format!("the issuer's certificate: {error}"))?;
        if own.tbs_certificate.issuer != issuer.tbs_certificate.subject {
            return Err("the second certificate of the chain is not the issuer of the first".to_owned());
        }
        let extensions = own.tbs_certificate.extensions.as_deref().unwrap_or_default();
        let extension = |id| extensions.iter().find(|extension| extension.extn_id == id);
        let access = extension(AUTHORITY_INFO_ACCESS)
            .and_then(|access| AuthorityInfoAccessSyntax::from_der(access.extn_value.as_bytes()).ok());
        let url =
            access.iter().flat_map(|access| &access.0).find_map(|access| match &access.access_location {
                GeneralName::UniformResourceIdentifier(url) if access.access_method == OCSP => {
                    Some(url.to_string())
                }
                _ => None,
            });
        let url = url.ok_or("the certificate names no OCSP responder (authorityInfoAccess)")?;
        let must_staple = extension(TLS_FEATURE)
            .is_some_and(|feature| feature.extn_value.as_bytes().windows(3).any(|part| part == [2, 1, 5]));
        let id = cert_id(&own, &issuer).map_err(|error| error.to_string())?;
        Ok(OcspSubject { issuer, url, must_staple, id })
    }

    /// The request, DER.
    pub(super) fn request(&self) -> Result<Vec<u8>, String> {
        let request = Request { req_cert: self.id.clone(), single_request_extensions: None };
        let tbs_request = TbsRequest { request_list: vec![request], ..TbsRequest::default() };
        OcspRequest { tbs_request, optional_signature: None }.to_der().map_err(|error| error.to_string())
    }

    /// Whether `id` means this certificate.
    pub(super) fn is_meant_by(&self, id: &CertId) -> bool {
        // Parameters of SHA-1 may be absent or NULL.
        let parts = |id: &CertId| {
            (
                id.hash_algorithm.oid,
                id.issuer_name_hash.clone(),
                id.issuer_key_hash.clone(),
                id.serial_number.clone(),
            )
        };
        parts(id) == parts(&self.id)
    }
}

fn cert_id(own: &Certificate, issuer: &Certificate) -> der::Result<CertId> {
    let name = issuer.tbs_certificate.subject.to_der()?;
    let parameters = Some(Any::encode_from(&Null)?);
    Ok(CertId {
        hash_algorithm: AlgorithmIdentifierOwned { oid: SHA1, parameters },
        issuer_name_hash: OctetString::new(sha1(&name))?,
        issuer_key_hash: OctetString::new(key_hash(issuer))?,
        serial_number: own.tbs_certificate.serial_number.clone(),
    })
}

/// The digest by which responses name the key of a certificate.
pub(super) fn key_hash(certificate: &Certificate) -> Vec<u8> {
    sha1(certificate.tbs_certificate.subject_public_key_info.subject_public_key.raw_bytes())
}

fn sha1(bytes: &[u8]) -> Vec<u8> {
    digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().to_vec()
}

/// The first certificate of a chain in PEM.
pub(super) fn own_der(pem: &str) -> Result<CertificateDer<'static>, String> {
    nth_der(pem, 0).ok_or_else(|| "the text holds no certificate".to_owned())
}

fn nth_der(pem: &str, index: usize) -> Option<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).nth(index)?.ok()
}
