//! Certificates for a run, signed by themselves: contenders that speak TLS get their files. Nothing verifies
//! them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, RsaKeySize};

use crate::scenario::KeyKind;

/// The files of a certificate and its key, in PEM.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    /// `$CERTIFICATE`.
    pub certificate: PathBuf,
    /// `$KEY`.
    pub key: PathBuf,
}

/// The certificates of a run, one of each kind, each made when it is used first.
#[derive(Debug)]
pub(crate) struct Certificates {
    folder: PathBuf,
    made: BTreeMap<KeyKind, Certificate>,
}

impl Certificates {
    /// Certificates with their files in this folder.
    pub(crate) fn within(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), made: BTreeMap::new() }
    }

    /// The certificate with a key of this kind. Fails if its files cannot be written.
    pub(crate) fn of(&mut self, kind: KeyKind) -> anyhow::Result<Certificate> {
        if let Some(made) = self.made.get(&kind) {
            return Ok(made.clone());
        }
        let made = self.make(kind).with_context(|| format!("no {} certificate can be made", kind.name()))?;
        self.made.insert(kind, made.clone());
        Ok(made)
    }

    fn make(&self, kind: KeyKind) -> anyhow::Result<Certificate> {
        let key = match kind {
            KeyKind::Ecdsa => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
            KeyKind::Rsa => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
        }?;
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let certificate = CertificateParams::new(names)?.self_signed(&key)?;
        let file = |what: &str| self.folder.join(format!("{what}-{}.pem", kind.name()));
        let files = Certificate { certificate: file("certificate"), key: file("key") };
        fs::write(&files.certificate, certificate.pem())?;
        fs::write(&files.key, key.serialize_pem())?;
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut certificates = Certificates::within(folder.path());
        let mut keys = Vec::new();
        for kind in [KeyKind::Ecdsa, KeyKind::Rsa] {
            let made = certificates.of(kind).unwrap();
            let key = fs::read(&made.key).unwrap();
            assert!(
                fs::read_to_string(&made.certificate).unwrap().starts_with("-----BEGIN CERTIFICATE-----")
            );
            assert_eq!(fs::read(certificates.of(kind).unwrap().key).unwrap(), key, "{}", kind.name());
            keys.push(key.len());
        }
        assert!(keys[1] > 4 * keys[0], "an RSA key is several times longer: {keys:?}");
    }
}
