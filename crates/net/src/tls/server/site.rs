//! A site: server names with their certificates and the policy for connections to them. What rustls needs of it is made at
//! its first handshake, so that many sites cost little before they are used.

use std::sync::{Arc, OnceLock};

use rustls::SignatureAlgorithm;
use rustls::server::{ClientHello, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::Alpn;
use super::client_policy::{ClientPolicy, ClientPolicyParts};
use super::settings::{ServerTls, Versions};
use crate::tls::client::pair;

/// Judges whether a request with this path needs no client certificate.
pub type Exemption = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// A site as it is written.
pub struct SiteParts<'a> {
    /// The id of the object, which decides between sites of the same name: the first in order serves.
    pub id: &'a str,
    /// Host names; `*.example.com` is every name with one label more, `*` every name.
    pub names: Vec<&'a str>,
    /// Certificate chains with their keys, PEM; several for keys of different kinds.
    pub pairs: Vec<(&'a str, &'a str)>,
    /// The versions of TLS, if others than the listener's.
    pub versions: Option<Versions>,
    /// Client certificates, if they are asked for.
    pub client: Option<ClientPolicyParts<'a>>,
    /// Requests that need none.
    pub exemption: Option<Exemption>,
}

/// See the module.
pub struct Site {
    /// The id of the object.
    pub id: Arc<str>,
    /// Its names in lower case.
    pub names: Vec<Box<str>>,
    /// How clients are judged, if they are.
    pub client: Option<Arc<ClientPolicy>>,
    /// The end of its certificates' validity, in seconds since the Unix epoch, in their order.
    pub not_after_s: Vec<i64>,
    exemption: Option<Exemption>,
    pub(super) versions: Option<Versions>,
    pub(super) keys: Arc<[Arc<CertifiedKey>]>,
    configs: [OnceLock<Result<Arc<ServerConfig>, String>>; 3],
}

impl Site {
    /// Compiles a site.
    ///
    /// # Errors
    /// A certificate, key or authority that cannot be used, as a sentence.
    pub fn new(parts: SiteParts<'_>, tls: &ServerTls) -> Result<Site, String> {
        let mut keys = Vec::with_capacity(parts.pairs.len());
        let mut not_after_s = Vec::with_capacity(parts.pairs.len());
        for (chain, key) in parts.pairs {
            let (chain, key) = pair(chain, key)?;
            let (_, own) = X509Certificate::from_der(&chain[0]).map_err(|error| error.to_string())?;
            not_after_s.push(own.validity().not_after.timestamp());
            let key = tls.provider().key_provider.load_private_key(key).map_err(|error| error.to_string())?;
            keys.push(Arc::new(CertifiedKey::new(chain, key)));
        }
        if keys.is_empty() {
            return Err("a site needs a certificate".to_owned());
        }
        // Signing with RSA costs ten times as much; it is left for clients that know nothing else.
        keys.sort_by_key(|key| key.key.algorithm() == SignatureAlgorithm::RSA);
        let client = parts.client.map(|client| ClientPolicy::new(client, tls.provider())).transpose()?;
        let normal = |name: &str| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase().into();
        Ok(Site {
            id: parts.id.into(),
            names: parts.names.into_iter().map(normal).collect(),
            client,
            not_after_s,
            exemption: parts.exemption,
            versions: parts.versions,
            keys: keys.into(),
            configs: [const { OnceLock::new() }; 3],
        })
    }

    /// Whether a request with this path needs no client certificate.
    pub fn is_exempt(&self, path: &[u8]) -> bool {
        self.exemption.as_ref().is_some_and(|exemption| exemption(path))
    }

    /// The policy that a session has to have been made under to be resumed here.
    pub(super) fn policy_tag(&self) -> [u8; 32] {
        self.client.as_ref().map_or([0; 32], |client| client.tag())
    }

    pub(super) fn config(&self, tls: &ServerTls, alpn: Alpn) -> Result<Arc<ServerConfig>, String> {
        self.configs[alpn as usize].get_or_init(|| tls.config(self, alpn).map(Arc::new)).clone()
    }
}

impl std::fmt::Debug for Site {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Site")
            .field("id", &self.id)
            .field("names", &self.names)
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
