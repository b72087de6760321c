//! An authority in memory and the certificates that it signs, in PEM, for gateways and clients that speak
//! TLS.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CustomExtension, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PKCS_RSA_SHA256,
    RevokedCertParams, SerialNumber,
};

/// An authority with a key of its own.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its key, PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

/// The kind of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA on P-256.
    Ecdsa,
    /// RSA of 2048 bits.
    Rsa,
}

impl Authority {
    /// An authority of this name.
    pub fn new(name: &str) -> Authority {
        let key = KeyPair::generate().expect("a key");
        let params = authority_params(name);
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// An authority that this one signs, with its certificate.
    pub fn intermediate(&self, name: &str) -> Authority {
        let key = KeyPair::generate().expect("a key");
        let params = authority_params(name);
        let pem = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// Its certificate, PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for these host names, the first of which is the common name as well.
    pub fn pair(&self, names: &[&str]) -> Pair {
        self.pair_of(names, KeyKind::Ecdsa)
    }

    /// The same with a key of this kind.
    pub fn pair_of(&self, names: &[&str], kind: KeyKind) -> Pair {
        self.sign(params_of(names), kind)
    }

    /// The same, with a validity that ended in the year 2001.
    pub fn expired_pair(&self, names: &[&str]) -> Pair {
        let mut params = params_of(names);
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(2001, 1, 1);
        self.sign(params, KeyKind::Ecdsa)
    }

    /// The same, with a validity that ends after this time.
    pub fn ending_pair(&self, names: &[&str], after: Duration) -> Pair {
        let mut params = params_of(names);
        params.not_after = (SystemTime::now() + after).into();
        self.sign(params, KeyKind::Ecdsa)
    }

    /// A certificate with this serial number that names an OCSP responder at `url`.
    pub fn stapled_pair(&self, names: &[&str], serial: u64, url: &str) -> Pair {
        let mut params = params_of(names);
        params.serial_number = Some(SerialNumber::from(serial));
        params.custom_extensions = vec![responder_at(url)];
        self.sign(params, KeyKind::Ecdsa)
    }

    /// Its private key, PEM.
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A certificate with this serial number, which [`Authority::revocation_list`] can name.
    pub fn numbered_pair(&self, names: &[&str], serial: u64) -> Pair {
        let mut params = params_of(names);
        params.serial_number = Some(SerialNumber::from(serial));
        self.sign(params, KeyKind::Ecdsa)
    }

    /// A list of revoked certificates that names these serial numbers, PEM.
    pub fn revocation_list(&self, serials: &[u64]) -> String {
        let now = rcgen::date_time_ymd(2020, 1, 1);
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: now,
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: now,
            next_update: rcgen::date_time_ymd(2090, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).expect("a list").pem().expect("a list in PEM")
    }

    fn sign(&self, params: CertificateParams, kind: KeyKind) -> Pair {
        let key = match kind {
            KeyKind::Ecdsa => KeyPair::generate(),
            KeyKind::Rsa => KeyPair::generate_for(&PKCS_RSA_SHA256),
        };
        let key = key.expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Pair { certificate, key: key.serialize_pem() }
    }
}

/// A certificate for these host names that its own key signs.
pub fn self_signed(names: &[&str]) -> Pair {
    let key = KeyPair::generate().expect("a key");
    let certificate = params_of(names).self_signed(&key).expect("a certificate").pem();
    Pair { certificate, key: key.serialize_pem() }
}

/// The extension authorityInfoAccess (RFC 5280 section 4.2.2.1) with an OCSP responder.
fn responder_at(url: &str) -> CustomExtension {
    let tagged = |tag: u8, content: &[u8]| {
        let length = u8::try_from(content.len()).expect("a short URL");
        [&[tag, length], content].concat()
    };
    let method = [6, 8, 0x2b, 6, 1, 5, 5, 7, 48, 1];
    let description = tagged(0x30, &[&method[..], &tagged(0x86, url.as_bytes())].concat());
    CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 1], tagged(0x30, &description))
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn params_of(names: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        .expect("names");
    params.distinguished_name = rcgen::DistinguishedName::new();
    if let Some(name) = names.first() {
        params.distinguished_name.push(DnType::CommonName, *name);
    }
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params
}
