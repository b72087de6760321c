//! A certificate authority in memory: it issues certificates for servers and clients, also expired ones.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, date_time_ymd,
};

/// A certificate and its key, in PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate, the issuer's behind it where it has one.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

/// See the module.
#[derive(Debug)]
pub struct Authority {
    params: CertificateParams,
    key: KeyPair,
    certificate: String,
}

impl Authority {
    /// Makes a new authority of that name.
    pub fn new(name: &str) -> Authority {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = named(name);
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        Authority { params, key, certificate }
    }

    /// The authority's certificate.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// A certificate for servers of these host names and addresses.
    pub fn server(&self, names: &[&str]) -> Identity {
        self.issue(names, "server", |_| {})
    }

    /// A certificate for a server that expired on 2 January 2021.
    pub fn expired_server(&self, names: &[&str]) -> Identity {
        self.issue(names, "server", |params| {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 2);
        })
    }

    /// A certificate for a client of that common name.
    pub fn client(&self, name: &str) -> Identity {
        self.issue(&[], name, |params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        })
    }

    fn issue(
        &self,
        names: &[&str],
        common_name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names of hosts");
        params.distinguished_name = named(common_name);
        change(&mut params);
        let issuer = Issuer::from_params(&self.params, &self.key);
        let certificate = params.signed_by(&key, &issuer).expect("a certificate").pem();
        Identity { certificate: certificate + &self.certificate, key: key.serialize_pem() }
    }
}

/// A self-signed certificate for servers of these names.
pub fn self_signed(names: &[&str]) -> Identity {
    let key = KeyPair::generate().expect("a key");
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let params = CertificateParams::new(names).expect("names of hosts");
    Identity { certificate: params.self_signed(&key).expect("a certificate").pem(), key: key.serialize_pem() }
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}
