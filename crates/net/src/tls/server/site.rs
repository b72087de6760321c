//! A site: server names with their certificates and the policy for connections to them. What rustls needs of
//! it is made at its first handshake, so that many sites cost little before they are used.

use std::sync::{Arc, OnceLock};

use rustls::SignatureAlgorithm;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;
use rustls_pki_types::CertificateDer;

use super::Alpn;
use super::client_policy::{ClientPolicy, ClientPolicyParts};
use super::settings::{ServerTls, Versions};
use super::site_certificate::SiteCertificate;

/// Judges whether a request with this path needs no client certificate.
pub type Exemption = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// Finds the OCSP response to staple to a certificate.
pub type Staples<'a> = &'a dyn Fn(&CertificateDer<'_>) -> Option<Vec<u8>>;

/// A certificate chain with its key.
#[derive(Clone, Copy)]
pub struct PairParts<'a> {
    /// The chain, PEM.
    pub chain: &'a str,
    /// The private key, PEM.
    pub key: &'a str,
    /// The key is known to be usable and to belong to the certificate, so that it is not loaded before it is
    /// needed.
    pub is_checked: bool,
}

/// A site as it is written.
pub struct SiteParts<'a> {
    /// The id of the object, which decides between sites of the same name: the first in order serves.
    pub id: &'a str,
    /// Host names; `*.example.com` is every name with one label more, `*` every name.
    pub names: Vec<&'a str>,
    /// Certificate chains with their keys; several for keys of different kinds.
    pub pairs: Vec<PairParts<'a>>,
    /// The versions of TLS, if others than the listener's.
    pub versions: Option<Versions>,
    /// Client certificates, if they are asked for.
    pub client: Option<ClientPolicyParts<'a>>,
    /// Requests that need none.
    pub exemption: Option<Exemption>,
    /// OCSP responses, if they are stapled.
    pub staples: Option<Staples<'a>>,
}

/// The treatment of handshakes for the names of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SiteState {
    /// It serves them.
    Serving,
    /// Its object is faulty and has no good form: they are refused, so that no wildcard serves its names
    /// instead.
    Faulty,
    /// Its certificate is shown to nodes and not to clients: it has no names, and is here for its end.
    ToNodes,
    /// All of its certificates have expired, and such are refused: other sites serve its names, or none. Its
    /// rules for client certificates still hold for requests.
    Withheld,
}

/// See the module.
pub struct Site {
    /// The id of the object.
    pub id: Arc<str>,
    /// Its names in lower case.
    pub names: Vec<Box<str>>,
    /// How clients are judged, if they are.
    pub client: Option<Arc<ClientPolicy>>,
    /// The treatment of handshakes for its names.
    pub state: SiteState,
    certificates: Arc<[SiteCertificate]>,
    /// Certificates that ended before this time, in seconds since the Unix epoch, are left out.
    refused_until_s: Option<i64>,
    exemption: Option<Exemption>,
    pub(super) versions: Option<Versions>,
    keys: OnceLock<Result<Arc<[Arc<CertifiedKey>]>, String>>,
    configs: [OnceLock<Result<Arc<ServerConfig>, String>>; Alpn::COUNT],
}

impl Site {
    /// Compiles a site.
    ///
    /// # Errors
    /// A certificate, key or authority that cannot be used, as a sentence.
    pub fn new(parts: SiteParts<'_>, tls: &ServerTls) -> Result<Site, String> {
        let staples = parts.staples;
        let read = |pair: PairParts<'_>| SiteCertificate::read(pair, staples, tls.provider());
        let certificates: Vec<SiteCertificate> =
            parts.pairs.into_iter().map(read).collect::<Result<_, _>>()?;
        if certificates.is_empty() {
            return Err("a site needs a certificate".to_owned());
        }
        let client = parts.client.map(|client| ClientPolicy::new(client, tls.provider())).transpose()?;
        Ok(Site {
            id: parts.id.into(),
            names: normal_names(&parts.names),
            client,
            state: SiteState::Serving,
            certificates: certificates.into(),
            refused_until_s: None,
            exemption: parts.exemption,
            versions: parts.versions,
            keys: OnceLock::new(),
            configs: [const { OnceLock::new() }; Alpn::COUNT],
        })
    }

    /// The site of an object that cannot be used: handshakes for its names are refused.
    pub fn faulty(id: &str, names: &[&str]) -> Site {
        Site {
            id: id.into(),
            names: normal_names(names),
            client: None,
            state: SiteState::Faulty,
            certificates: Arc::default(),
            refused_until_s: None,
            exemption: None,
            versions: None,
            keys: OnceLock::new(),
            configs: [const { OnceLock::new() }; Alpn::COUNT],
        }
    }

    /// The same certificates, which are shown to nodes and not to clients.
    #[must_use]
    pub fn to_nodes(self) -> Site {
        Site { names: Vec::new(), state: SiteState::ToNodes, ..self }
    }

    /// The same site without the certificates that ended before `now_s`, in seconds since the Unix epoch.
    /// Without any left it is withheld.
    #[must_use]
    pub fn without_expired(&self, now_s: i64) -> Site {
        let has_one = self.certificates.iter().any(|one| one.not_after_s >= now_s);
        let state = if has_one { SiteState::Serving } else { SiteState::Withheld };
        Site { state, refused_until_s: Some(now_s), ..self.with_all_certificates() }
    }

    /// The same site with those of its certificates that were left out.
    #[must_use]
    pub fn with_all_certificates(&self) -> Site {
        Site {
            id: self.id.clone(),
            names: self.names.clone(),
            client: self.client.clone(),
            state: if self.state == SiteState::Withheld { SiteState::Serving } else { self.state },
            certificates: self.certificates.clone(),
            refused_until_s: None,
            exemption: self.exemption.clone(),
            versions: self.versions,
            keys: OnceLock::new(),
            configs: [const { OnceLock::new() }; Alpn::COUNT],
        }
    }

    /// Its certificates in their order, those that are refused included.
    pub fn certificates(&self) -> &[SiteCertificate] {
        &self.certificates
    }

    /// Whether it shows this one of its certificates.
    pub fn shows(&self, certificate: &SiteCertificate) -> bool {
        matches!(self.state, SiteState::Serving | SiteState::ToNodes) && self.is_wanted(certificate)
    }

    fn is_wanted(&self, certificate: &SiteCertificate) -> bool {
        self.refused_until_s.is_none_or(|until_s| certificate.not_after_s >= until_s)
    }

    /// Whether a request with this path needs no client certificate.
    pub fn is_exempt(&self, path: &[u8]) -> bool {
        self.exemption.as_ref().is_some_and(|exemption| exemption(path))
    }

    /// Whether requests for its names depend on the connection that they come over.
    pub fn restricts_requests(&self) -> bool {
        self.client.is_some() || self.state == SiteState::Faulty
    }

    /// The policy that a session has to have been made under to be resumed here.
    pub(super) fn policy_tag(&self) -> [u8; 32] {
        self.client.as_ref().map_or([0; 32], |client| client.tag())
    }

    /// The certificates with their keys in the form that rustls takes, made at the first handshake.
    pub(super) fn keys(&self, provider: &CryptoProvider) -> Result<Arc<[Arc<CertifiedKey>]>, String> {
        let load = || {
            let wanted = self.certificates.iter().filter(|one| self.is_wanted(one));
            let mut keys: Vec<_> = wanted.map(|one| one.load(provider)).collect::<Result<_, _>>()?;
            // Signing with RSA costs ten times as much; it is left for clients that know nothing else.
            keys.sort_by_key(|key| key.key.algorithm() == SignatureAlgorithm::RSA);
            Ok(keys.into_iter().map(Arc::new).collect())
        };
        self.keys.get_or_init(load).clone()
    }

    #[cfg(all(test, not(feature = "simulation")))]
    pub(super) fn has_loaded_keys(&self) -> bool {
        self.keys.get().is_some()
    }

    pub(super) fn config(&self, tls: &ServerTls, alpn: Alpn) -> Result<Arc<ServerConfig>, String> {
        self.configs[alpn as usize].get_or_init(|| tls.config(self, alpn).map(Arc::new)).clone()
    }
}

fn normal_names(names: &[&str]) -> Vec<Box<str>> {
    let normal = |name: &&str| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase().into();
    names.iter().map(normal).collect()
}

impl std::fmt::Debug for Site {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Site")
            .field("id", &self.id)
            .field("names", &self.names)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// Chooses among a site's certificates: the first with a key that the client can verify.
#[derive(Debug)]
pub(super) struct SiteKeys(pub(super) Arc<[Arc<CertifiedKey>]>);

impl ResolvesServerCert for SiteKeys {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let offered = hello.signature_schemes();
        self.0.iter().find(|key| key.key.choose_scheme(offered).is_some()).cloned()
    }
}
