//! An `ssl` object of the server's side: a site with its names, certificates and policy. References to
//! secrets are replaced here. One that cannot be compiled keeps its last good form; without one, handshakes
//! for its names are refused.

use std::borrow::Cow;
use std::sync::Arc;

use model::ObjectKey;
use model::resource::{Resource, Ssl, SslClient, SslType};
use model::secret_reference::is_certificate_reference;
use model::snapshot::Snapshot;
use model::staple::Staples;
use net::tls::server::client_policy::ClientPolicyParts;
use net::tls::server::site::{Exemption, PairParts, Site, SiteParts, SiteState};
use net::tls::server::{ServerTls, Versions};
use router::vars::Pattern;

use super::expiry::ExpiredCertificates;
use super::{CompileFault, SnapshotCompiler};

impl SnapshotCompiler {
    /// Handshakes are made under these settings, and expired certificates treated so; without it `ssl`
    /// objects are not compiled.
    #[must_use]
    pub fn with_tls(mut self, tls: Arc<ServerTls>, expired: ExpiredCertificates) -> SnapshotCompiler {
        self.current.tls = Some(tls);
        self.expiry.policy = expired;
        self
    }

    /// Staples these OCSP responses to the certificates of objects that ask for it.
    #[must_use]
    pub fn with_staples(mut self, staples: Arc<dyn Staples>) -> SnapshotCompiler {
        self.staples = Some(staples);
        self
    }

    /// Compiles the `ssl` object under `key`, or takes it out if it is gone or off. Of one that nodes are
    /// shown, only the end is of interest here.
    pub(super) fn compile_ssl(&mut self, snapshot: &Snapshot, key: &ObjectKey) {
        let Some(tls) = self.current.tls.clone() else { return };
        if let Some((closed, _)) = snapshot.closed(key) {
            let site = served(&closed.resource).map(|ssl| faulty_site(key, ssl));
            return self.place_site(&key.id, site);
        }
        let object = snapshot.get(key).map(|object| &object.resource);
        if let Some(ssl) = object.and_then(shown_to_nodes) {
            // The upstreams that show it report what is wrong with it.
            let site = self.build_site(key, ssl, &tls).ok().map(Site::to_nodes);
            return self.place_site(&key.id, site);
        }
        let written = object.and_then(served);
        match written.map(|ssl| self.build_site(key, ssl, &tls)).transpose() {
            Ok(site) => self.place_site(&key.id, site),
            Err(reason) => {
                let before = self.current.sites.get(&key.id);
                let kept = before.is_some_and(|site| site.state != SiteState::Faulty);
                if !kept {
                    self.place_site(&key.id, written.map(|ssl| faulty_site(key, ssl)));
                }
                self.note(CompileFault { key: key.clone(), reason, kept });
            }
        }
    }

    fn build_site(&self, key: &ObjectKey, ssl: &Ssl, tls: &ServerTls) -> Result<Site, String> {
        let pairs: Result<Vec<_>, String> = ssl
            .pairs
            .iter()
            .map(|(certificate, key)| {
                // The checks of a write have seen a pair only if it is written in the object.
                let is_checked = !is_certificate_reference(certificate) && !is_certificate_reference(key);
                Ok((self.resolved(certificate)?, self.resolved(key)?, is_checked))
            })
            .collect();
        let pairs = pairs?;
        let authorities = ssl.client.as_ref().map(|client| self.resolved(&client.ca)).transpose()?;
        let revoked = ssl
            .client
            .as_ref()
            .and_then(|client| client.crl.as_deref())
            .map(|crl| self.resolved(crl))
            .transpose()?;
        let client = ssl.client.as_deref().zip(authorities.as_deref()).map(|(client, authorities)| {
            ClientPolicyParts {
                authorities,
                revoked: revoked.as_deref().unwrap_or_default(),
                depth: client.depth,
                // As in APISIX: where some requests need no certificate, the handshake cannot ask for one.
                is_mandatory: client.skip_mtls_uri_regex.is_empty(),
            }
        });
        let versions = match &ssl.ssl_protocols[..] {
            [] => None,
            names => Some(Versions::parse(names.iter().map(|name| &**name))?),
        };
        let staples = self.staples.as_deref().filter(|_| ssl.ocsp_stapling.enabled);
        let staples = staples.map(|staples| move |der: &net::tls::CertificateDer<'_>| staples.staple(der));
        let parts = SiteParts {
            id: &key.id,
            names: ssl.snis.iter().map(|name| &**name).collect(),
            pairs: pairs
                .iter()
                .map(|(chain, key, is_checked)| PairParts { chain, key, is_checked: *is_checked })
                .collect(),
            versions,
            client,
            exemption: ssl.client.as_deref().map(exemption).transpose()?.flatten(),
            staples: staples.as_ref().map(|find| find as _),
        };
        let site = Site::new(parts, tls)?;
        let must_staple = site.certificates().iter().any(|certificate| certificate.must_staple);
        if must_staple && !ssl.ocsp_stapling.enabled {
            tracing::warn!(
                ssl = %key.id,
                "the certificate has to be shown with an OCSP response (must-staple), and clients may refuse it: set \
                 ocsp_stapling.enabled"
            );
        }
        Ok(site)
    }

    /// The text, or what it refers to.
    pub(super) fn resolved<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, String> {
        if !is_certificate_reference(text) {
            return Ok(Cow::Borrowed(text));
        }
        self.secrets.value(text).map(Cow::Owned)
    }
}

/// The `ssl` object, if it is on and of the server's side.
fn served(resource: &Resource) -> Option<&Ssl> {
    match resource {
        Resource::Ssl(ssl) if ssl.enabled && ssl.ssl_type == SslType::Server => Some(ssl),
        _ => None,
    }
}

/// The `ssl` object, if it is on and shown to nodes.
fn shown_to_nodes(resource: &Resource) -> Option<&Ssl> {
    match resource {
        Resource::Ssl(ssl) if ssl.enabled && ssl.ssl_type == SslType::Client => Some(ssl),
        _ => None,
    }
}

fn faulty_site(key: &ObjectKey, ssl: &Ssl) -> Site {
    let names: Vec<&str> = ssl.snis.iter().map(|name| &**name).collect();
    Site::faulty(&key.id, &names)
}

/// The paths that need no client certificate. A search that is given up exempts nothing.
fn exemption(client: &SslClient) -> Result<Option<Exemption>, String> {
    if client.skip_mtls_uri_regex.is_empty() {
        return Ok(None);
    }
    let patterns = client.skip_mtls_uri_regex.iter().map(|source| {
        Pattern::compile(source, false).map_err(|error| format!("client.skip_mtls_uri_regex: {error}"))
    });
    let patterns = patterns.collect::<Result<Vec<_>, _>>()?;
    Ok(Some(Arc::new(move |path: &[u8]| {
        patterns.iter().any(|pattern| pattern.is_match(path).unwrap_or(false))
    })))
}
