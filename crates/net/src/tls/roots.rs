//! The certificates that servers' certificates are verified against, and the verifier of connections that do
//! not verify.

use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::client::certificates;
use super::provider;

/// The authorities that the process trusts: those of the system, of files, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustRoots {
    system: bool,
    pem: Vec<Box<str>>,
}

impl Default for TrustRoots {
    /// Those of the system.
    fn default() -> TrustRoots {
        TrustRoots { system: true, pem: Vec::new() }
    }
}

impl TrustRoots {
    /// The word that names the system's certificates among files.
    pub const SYSTEM: &'static str = "system";

    /// The authorities in these PEM texts, and no others.
    pub fn pem(pem: Vec<Box<str>>) -> TrustRoots {
        TrustRoots { system: false, pem }
    }

    /// Reads a list of files; the entry `system` adds the system's certificates.
    ///
    /// # Errors
    /// A file that cannot be read or holds no usable certificate, as a sentence.
    pub fn read(entries: &[impl AsRef<str>]) -> Result<TrustRoots, String> {
        let mut roots = TrustRoots { system: false, pem: Vec::new() };
        for entry in entries.iter().map(AsRef::as_ref) {
            if entry == TrustRoots::SYSTEM {
                roots.system = true;
                continue;
            }
            let text =
                std::fs::read_to_string(Path::new(entry)).map_err(|error| format!("{entry}: {error}"))?;
            store(&text).map_err(|reason| format!("{entry}: {reason}"))?;
            roots.pem.push(text.into());
        }
        Ok(roots)
    }

    /// Whether the system's are among them.
    pub(super) fn has_system(&self) -> bool {
        self.system
    }

    /// All of them.
    ///
    /// # Errors
    /// There are none, as a sentence.
    pub(super) fn store(&self) -> Result<Arc<RootCertStore>, String> {
        if self.pem.is_empty() {
            return system_roots();
        }
        let mut roots = RootCertStore::empty();
        if self.system
            && let Ok(system) = system_roots()
        {
            roots.extend(system.roots.iter().cloned());
        }
        for text in &self.pem {
            roots.extend(store(text)?.roots);
        }
        Ok(Arc::new(roots))
    }
}

/// A store of the certificates of a PEM text.
pub(crate) fn store(text: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(text)? {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    Ok(roots)
}

/// The system's certificates, as they were read last.
static SYSTEM: RwLock<Option<Arc<RootCertStore>>> = RwLock::new(None);

/// The system's certificates, read once, because that takes some milliseconds and many files.
pub(super) fn system_roots() -> Result<Arc<RootCertStore>, String> {
    let known = SYSTEM.read().clone();
    let roots = match known {
        Some(roots) => roots,
        None => SYSTEM.write().get_or_insert_with(read_system).clone(),
    };
    if roots.is_empty() {
        return Err(
            "the system has no certificates to trust: name files with some in `trusted_certificates`"
                .to_owned(),
        );
    }
    Ok(roots)
}

/// Reads the system's certificates again, if they have been read before; whether they have changed.
pub(super) fn refresh_system() -> bool {
    let Some(before) = SYSTEM.read().clone() else { return false };
    let now = read_system();
    let is_changed = now.roots != before.roots;
    *SYSTEM.write() = Some(now);
    is_changed
}

fn read_system() -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    Arc::new(roots)
}

/// Accepts every certificate. The signature of the handshake is accepted as well: it would only prove the
/// possession of a key that anyone can make, and old certificates of internal servers (X.509 version 1)
/// cannot be verified at all.
#[derive(Debug)]
pub(super) struct Unverified;

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_the_system_make_one_store() {
        let directory = std::env::temp_dir().join(format!("roots-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join("ca.pem");
        let made = rcgen::generate_simple_self_signed(vec!["ca.example".to_owned()]).unwrap();
        std::fs::write(&file, made.cert.pem()).unwrap();
        let path = file.to_str().unwrap();
        let count =
            |entries: &[&str]| TrustRoots::read(entries).unwrap().store().map_or(0, |store| store.len());
        assert_eq!(count(&[path]), 1);
        assert_eq!(count(&[path, "system"]), 1 + count(&["system"]));
        let empty = directory.join("empty.pem");
        std::fs::write(&empty, "no PEM").unwrap();
        for (entry, expected) in
            [(empty.to_str().unwrap(), "no certificate"), ("/nowhere/ca.pem", "No such file")]
        {
            let reason = TrustRoots::read(&[entry]).unwrap_err();
            assert!(reason.starts_with(entry) && reason.contains(expected), "{reason}");
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
