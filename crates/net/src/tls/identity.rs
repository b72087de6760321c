//! The identities with which connections to servers are opened: equal settings are one identity for as long
//! as it has a holder, so that connections and sessions survive changes of the configuration that do not
//! concern them.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::client::{ClientSettings, ClientTls, Roots};
use super::live_roots::LiveRoots;
use super::roots::TrustRoots;

/// The ALPN protocols of connections that carry HTTP/1.1 only.
pub const ALPN_HTTP1: &[&[u8]] = &[b"http/1.1"];

/// The ALPN protocols of connections that carry HTTP/2 only.
pub const ALPN_HTTP2: &[&[u8]] = &[b"h2"];
/// The ALPN protocols of connections that carry HTTP/2, or HTTP/1.1 if the server does not select it.
pub const ALPN_HTTP2_OR_HTTP1: &[&[u8]] = &[b"h2", b"http/1.1"];

/// A certificate chain and its private key, in PEM.
pub type CertificateAndKey = (Box<str>, Box<str>);

/// The settings with which connections to servers are opened, as a configuration gives them.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct ClientIdentity {
    /// Verify the server's certificate against the trusted roots, and its names.
    pub verifies: bool,
    /// PEM of the authorities to trust in place of the process's roots.
    pub roots: Option<Box<str>>,
    /// The own certificate chain and its key in PEM, for servers that ask for one.
    pub certificate: Option<CertificateAndKey>,
    /// The protocols to offer, the preferred one first; without any, ALPN is not used.
    pub alpn: &'static [&'static [u8]],
}

/// The identities in use, and what the process trusts.
pub struct ClientIdentities {
    roots: Arc<LiveRoots>,
    /// Verify certificates whatever an identity says.
    verifies_all: bool,
    known: Mutex<HashMap<ClientIdentity, Weak<ClientTls>>>,
}

impl ClientIdentities {
    /// Identities that trust `roots`. With `verifies_all` every certificate is verified, whatever an identity
    /// says.
    pub fn new(roots: TrustRoots, verifies_all: bool) -> ClientIdentities {
        ClientIdentities { roots: Arc::new(LiveRoots::new(roots)), verifies_all, known: Mutex::default() }
    }

    /// Trusts `roots` from now on, also where connections are opened with identities that are known already.
    /// Open connections go on.
    pub fn trust(&self, roots: TrustRoots) {
        self.roots.replace(roots);
    }

    /// The compiled form of `identity`, made if no holder has it.
    ///
    /// # Errors
    /// A certificate, key or root that cannot be used, as a sentence.
    pub fn intern(&self, mut identity: ClientIdentity) -> Result<Arc<ClientTls>, String> {
        identity.verifies |= self.verifies_all;
        let mut known = self.known.lock();
        if let Some(tls) = known.get(&identity).and_then(Weak::upgrade) {
            return Ok(tls);
        }
        let tls = Arc::new(ClientTls::new(ClientSettings {
            roots: match (identity.verifies, &identity.roots) {
                (false, _) => Roots::Unverified,
                (true, Some(text)) => Roots::Pem(text),
                (true, None) => Roots::Live(&self.roots),
            },
            certificate: identity.certificate.as_ref().map(|(chain, key)| (&**chain, &**key)),
            alpn: identity.alpn,
        })?);
        // Identities without a holder are removed whenever the table would have to grow.
        if known.len() == known.capacity() {
            known.retain(|_, tls| tls.strong_count() > 0);
        }
        known.insert(identity, Arc::downgrade(&tls));
        Ok(tls)
    }
}

impl Default for ClientIdentities {
    /// Identities that trust the system's authorities.
    fn default() -> ClientIdentities {
        ClientIdentities::new(TrustRoots::default(), false)
    }
}

impl std::fmt::Debug for ClientIdentities {
    /// Without the identities: they hold private keys.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verifies_all = &self.verifies_all;
        formatter.debug_struct("ClientIdentities").field("verifies_all", verifies_all).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair_of(name: &str) -> (Box<str>, Box<str>) {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        (made.cert.pem().into(), made.signing_key.serialize_pem().into())
    }

    #[test]
    fn equal_settings_are_one_identity_while_held() {
        let table = ClientIdentities::default();
        let (one, other) = (pair_of("a.example"), pair_of("a.example"));
        let of = |certificate: Option<&(Box<str>, Box<str>)>, alpn| {
            let identity =
                ClientIdentity { certificate: certificate.cloned(), alpn, ..ClientIdentity::default() };
            table.intern(identity).unwrap()
        };
        let first = of(Some(&one), &[]);
        assert_eq!(first, of(Some(&one), &[]));
        for different in [of(Some(&other), &[]), of(None, &[]), of(Some(&one), ALPN_HTTP1)] {
            assert_ne!(first, different);
        }
        let id = first.id();
        drop(first);
        assert_ne!(of(Some(&one), &[]).id(), id, "a number is never given twice");
    }

    #[test]
    fn one_setting_verifies_for_all() {
        for verifies_all in [false, true] {
            let table = ClientIdentities::new(TrustRoots::pem(vec![pair_of("ca.example").0]), verifies_all);
            assert_eq!(table.intern(ClientIdentity::default()).unwrap().verifies(), verifies_all);
        }
    }

    #[test]
    fn settings_that_cannot_be_used_are_refused() {
        let table = ClientIdentities::default();
        let check = |identity: ClientIdentity, expected: &str| {
            let reason = table.intern(identity).unwrap_err();
            assert!(reason.contains(expected), "{reason}");
        };
        let (cert, key) = pair_of("a.example");
        let with = |cert: &str, key: &str| ClientIdentity {
            certificate: Some((cert.into(), key.into())),
            ..ClientIdentity::default()
        };
        check(with("", &key), "no certificate");
        check(with(&cert, ""), "the key");
        check(with(&cert, &pair_of("a.example").1), "");
        let roots = ClientIdentity { verifies: true, roots: Some("".into()), ..ClientIdentity::default() };
        check(roots, "no certificate");
    }
}
