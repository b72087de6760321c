//! A certificate authority and a certificate that it signed, as files, for peers that speak TLS.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// An authority and a certificate that it signed, valid for servers and clients on this machine.
#[derive(Clone, Debug)]
pub struct Certificates {
    directory: Arc<TempDir>,
}

impl Certificates {
    /// Makes a new authority and a certificate for `localhost` and `127.0.0.1`.
    pub fn make() -> Certificates {
        let directory = Arc::new(tempfile::tempdir().expect("a temporary directory"));
        let write = |name: &str, text: String| {
            fs::write(directory.path().join(name), text).expect("a writable temporary directory");
        };
        let authority_key = KeyPair::generate().expect("a key");
        let mut authority = CertificateParams::new(Vec::new()).expect("no names");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Names of their own, because OpenSSL takes a certificate with equal subject and issuer for a
        // self-signed one.
        authority.distinguished_name.push(DnType::CommonName, "authority of a test");
        let authority_certificate = authority.self_signed(&authority_key).expect("a certificate");
        write(AUTHORITY, authority_certificate.pem());
        let issuer = Issuer::from_params(&authority, &authority_key);
        let key = KeyPair::generate().expect("a key");
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut leaf = CertificateParams::new(names).expect("names of hosts");
        leaf.distinguished_name.push(DnType::CommonName, "localhost");
        write(CERTIFICATE, leaf.signed_by(&key, &issuer).expect("a certificate").pem());
        write(KEY, key.serialize_pem());
        Certificates { directory }
    }

    /// The authority's certificate (PEM).
    pub fn authority(&self) -> PathBuf {
        self.directory.path().join(AUTHORITY)
    }

    /// The certificate (PEM).
    pub fn certificate(&self) -> PathBuf {
        self.directory.path().join(CERTIFICATE)
    }

    /// Its private key (PEM).
    pub fn key(&self) -> PathBuf {
        self.directory.path().join(KEY)
    }
}

const AUTHORITY: &str = "authority.pem";
const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";
