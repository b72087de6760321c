//! The process's trusted authorities while it runs: they can be replaced, and every handshake after that is
//! judged by the new ones. Sessions that were made under former ones are not resumed, because a resumption
//! shows no certificate.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue,
    WebPkiServerVerifier,
};
use rustls::{DigitallySignedStruct, Error, NamedGroup, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::provider;
use super::roots::{TrustRoots, refresh_system};

/// See the module.
#[derive(Debug)]
pub struct LiveRoots {
    current: RwLock<RootsGeneration>,
}

#[derive(Clone, Debug)]
struct RootsGeneration {
    number: u64,
    roots: TrustRoots,
    /// Made at the first use, because most gateways verify no node.
    verifier: Option<Result<Arc<WebPkiServerVerifier>, String>>,
}

impl LiveRoots {
    pub(super) fn new(roots: TrustRoots) -> LiveRoots {
        LiveRoots { current: RwLock::new(RootsGeneration { number: 0, roots, verifier: None }) }
    }

    /// Trusts these authorities from now on. Nothing happens if they are the same.
    pub(super) fn replace(&self, roots: TrustRoots) {
        let is_other = roots.has_system() && refresh_system();
        let mut current = self.current.write();
        if is_other || current.roots != roots {
            *current = RootsGeneration { number: current.number + 1, roots, verifier: None };
        }
    }

    fn number(&self) -> u64 {
        self.current.read().number
    }

    /// The verifier of the present authorities.
    ///
    /// # Errors
    /// There are none, as a sentence.
    pub(super) fn verifier(&self) -> Result<Arc<WebPkiServerVerifier>, String> {
        if let Some(made) = &self.current.read().verifier {
            return made.clone();
        }
        let mut current = self.current.write();
        let made = current.roots.store().and_then(|store| {
            let builder = WebPkiServerVerifier::builder_with_provider(store, provider().clone());
            builder.build().map_err(|error| error.to_string())
        });
        current.verifier.get_or_insert(made).clone()
    }

    fn verifier_of_handshake(&self) -> Result<Arc<WebPkiServerVerifier>, Error> {
        self.verifier().map_err(Error::General)
    }
}

impl ServerCertVerifier for LiveRoots {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verifier = self.verifier_of_handshake()?;
        verifier.verify_server_cert(certificate, intermediates, name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier_of_handshake()?.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier_of_handshake()?.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Sessions that end with the authorities that they were made under.
#[derive(Debug)]
pub(super) struct LiveSessions {
    roots: Arc<LiveRoots>,
    capacity: usize,
    /// The number of the authorities, and the sessions that were made under them.
    current: Mutex<(u64, Arc<ClientSessionMemoryCache>)>,
}

impl LiveSessions {
    pub(super) fn new(roots: Arc<LiveRoots>, capacity: usize) -> LiveSessions {
        let first = (roots.number(), Arc::new(ClientSessionMemoryCache::new(capacity)));
        LiveSessions { roots, capacity, current: Mutex::new(first) }
    }

    fn sessions(&self) -> Arc<ClientSessionMemoryCache> {
        let number = self.roots.number();
        let mut current = self.current.lock();
        if current.0 != number {
            *current = (number, Arc::new(ClientSessionMemoryCache::new(self.capacity)));
        }
        current.1.clone()
    }
}

impl ClientSessionStore for LiveSessions {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.sessions().set_kx_hint(name, group);
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.sessions().kx_hint(name)
    }

    fn set_tls12_session(&self, name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.sessions().set_tls12_session(name, value);
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.sessions().tls12_session(name)
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.sessions().remove_tls12_session(name);
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.sessions().insert_tls13_ticket(name, value);
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.sessions().take_tls13_ticket(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots(name: &str) -> TrustRoots {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        TrustRoots::pem(vec![made.cert.pem().into()])
    }

    #[test]
    fn sessions_end_only_with_other_authorities() {
        let (one, other) = (roots("a.example"), roots("b.example"));
        let live = Arc::new(LiveRoots::new(one.clone()));
        let sessions = LiveSessions::new(live.clone(), 4);
        let name = ServerName::try_from("a.example").unwrap();
        sessions.set_kx_hint(name.clone(), NamedGroup::X25519);
        let first = live.verifier().unwrap();
        live.replace(one);
        assert!(Arc::ptr_eq(&first, &live.verifier().unwrap()));
        assert_eq!(sessions.kx_hint(&name), Some(NamedGroup::X25519));
        live.replace(other);
        assert!(!Arc::ptr_eq(&first, &live.verifier().unwrap()));
        assert_eq!(sessions.kx_hint(&name), None);
        live.replace(TrustRoots::pem(vec!["no certificate".into()]));
        assert!(live.verifier().is_err());
    }
}
