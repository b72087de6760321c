//! A responder for tests: an authority, a certificate of it that names a responder, and signed answers.

use der::asn1::{BitString, GeneralizedTime};
use der::{Decode, Encode};
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, SigningKey,
};
use std::time::Duration;
use x509_cert::Certificate;
use x509_cert::spki::AlgorithmIdentifierOwned;
use x509_ocsp::{
    AsResponseBytes, BasicOcspResponse, CertStatus, OcspGeneralizedTime, OcspRequest, OcspResponse,
    ResponderId, ResponseData, SingleResponse, Version,
};

use crate::ocsp::request::OcspSubject;

/// See the module.
pub(crate) struct Responder {
    /// The certificate and its issuer's, PEM.
    pub(crate) chain: String,
    issuer: Issuer<'static, KeyPair>,
    own: Certificate,
}

/// The key that signs an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signer {
    Issuer,
    /// A responder with a certificate of the issuer for OCSP.
    Authorized,
    /// The same with a certificate for another use.
    ForOtherUse,
    /// A responder with a certificate that it has signed itself.
    Stranger,
}

impl Responder {
    pub(crate) fn new() -> Responder {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        params.custom_extensions = vec![responder_at("http://127.0.0.1:1/ocsp"), must_staple()];
        let own = params.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap();
        let chain = format!("{}{}", own.pem(), authority.pem());
        Responder { chain, issuer, own: Certificate::from_der(authority.der()).unwrap() }
    }

    pub(crate) fn subject(&self) -> OcspSubject {
        OcspSubject::of_chain(&self.chain).unwrap()
    }

    /// An answer about `request` with this status, valid between two times.
    pub(crate) fn answer(
        &self,
        request: &[u8],
        status: CertStatus,
        (from_s, to_s): (u64, u64),
        signer: Signer,
    ) -> Vec<u8> {
        let request = OcspRequest::from_der(request).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = match signer {
            Signer::Issuer => None,
            signer => {
                let mut params = CertificateParams::new(Vec::new()).unwrap();
                params.distinguished_name.push(DnType::CommonName, "responder");
                if signer != Signer::ForOtherUse {
                    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::OcspSigning];
                }
                let made = match signer {
                    Signer::Stranger => params.signed_by(&key, &Issuer::new(params_named("authority"), &key)),
                    _ => params.signed_by(&key, &self.issuer),
                };
                Some(Certificate::from_der(made.unwrap().der()).unwrap())
            }
        };
        let time = |seconds| {
            OcspGeneralizedTime(GeneralizedTime::from_unix_duration(Duration::from_secs(seconds)).unwrap())
        };
        let named = certificate.as_ref().unwrap_or(&self.own);
        let data = ResponseData {
            version: Version::default(),
            responder_id: ResponderId::ByName(named.tbs_certificate.subject.clone()),
            produced_at: time(from_s),
            responses: vec![SingleResponse {
                cert_id: request.tbs_request.request_list[0].req_cert.clone(),
                cert_status: status,
                this_update: time(from_s),
                next_update: Some(time(to_s)),
                single_extensions: None,
            }],
            response_extensions: None,
        };
        let signed = data.to_der().unwrap();
        let signature = match &certificate {
            None => self.issuer.key().sign(&signed),
            Some(_) => key.sign(&signed),
        };
        let ecdsa_with_sha256 = der::oid::ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
        let response = BasicOcspResponse {
            tbs_response_data: data,
            signature_algorithm: AlgorithmIdentifierOwned { oid: ecdsa_with_sha256, parameters: None },
            signature: BitString::from_bytes(&signature.unwrap()).unwrap(),
            certs: certificate.map(|certificate| vec![certificate]),
        };
        let _ = response.to_response_bytes().unwrap();
        OcspResponse::successful(response).unwrap().to_der().unwrap()
    }
}

fn params_named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

/// The extension authorityInfoAccess with a responder at `url`.
fn responder_at(url: &str) -> CustomExtension {
    // AccessDescription: the method OCSP, then the location as a URI.
    let method = [6, 8, 0x2b, 6, 1, 5, 5, 7, 48, 1];
    let tagged = |tag: u8, content: &[u8]| [&[tag, u8::try_from(content.len()).unwrap()], content].concat();
    let access = tagged(0x30, &[&method[..], &tagged(0x86, url.as_bytes())].concat());
    CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 1], tagged(0x30, &access))
}

fn must_staple() -> CustomExtension {
    CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 24], vec![0x30, 3, 2, 1, 5])
}
