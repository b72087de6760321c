//! An `ssl` object of the server's side: a site with its names, certificates and policy. References to secrets are replaced
//! here. One that cannot be compiled keeps its last good form.

use std::borrow::Cow;
use std::sync::Arc;

use model::Key;
use model::resource::{Resource, Ssl, SslClient, SslType};
use model::secret_reference::is_reference;
use model::snapshot::Snapshot;
use net::tls::server::client_policy::ClientPolicyParts;
use net::tls::server::site::{Exemption, Site, SiteParts};
use net::tls::server::{ServerTls, Versions};
use router::vars::Pattern;

use super::{CompileFault, Compiler};

impl Compiler {
    /// Handshakes are made under these settings; without it `ssl` objects are not compiled.
    #[must_use]
    pub fn with_tls(mut self, tls: Arc<ServerTls>) -> Compiler {
        self.current.tls = Some(tls);
        self
    }

    /// Compiles the `ssl` object under `key`, or takes it out if it is gone, off, or of the other side.
    pub(super) fn compile_ssl(&mut self, snapshot: &Snapshot, key: &Key) {
        let Some(tls) = self.current.tls.clone() else { return };
        let written = snapshot.get(key).and_then(|object| match &object.resource {
            Resource::Ssl(written) => Some(written),
            _ => None,
        });
        let written = written.filter(|ssl| ssl.enabled && ssl.ssl_type == SslType::Server);
        let built = written.map(|ssl| self.build_site(key, ssl, &tls)).transpose();
        let before = self.sites.get(&key.id).cloned();
        match built {
            Ok(site) => {
                let table = Arc::make_mut(&mut self.current.sites);
                if let Some(before) = before {
                    table.remove(&before);
                    self.sites.remove(&key.id);
                }
                if let Some(site) = site {
                    table.insert(&site);
                    self.sites.insert(key.id.clone(), site);
                }
            }
            Err(reason) => self.note(CompileFault { key: key.clone(), reason, kept: before.is_some() }),
        }
    }

    fn build_site(&self, key: &Key, ssl: &Ssl, tls: &ServerTls) -> Result<Arc<Site>, String> {
        let pairs: Result<Vec<_>, String> = ssl
            .pairs
            .iter()
            .map(|(certificate, key)| Ok((self.resolved(certificate)?, self.resolved(key)?)))
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
        let parts = SiteParts {
            id: &key.id,
            names: ssl.snis.iter().map(|name| &**name).collect(),
            pairs: pairs.iter().map(|(certificate, key)| (&**certificate, &**key)).collect(),
            versions,
            client,
            exemption: ssl.client.as_deref().map(exemption).transpose()?.flatten(),
        };
        Site::new(parts, tls).map(Arc::new)
    }

    /// The text, or what it refers to.
    pub(super) fn resolved<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, String> {
        if !is_reference(text) {
            return Ok(Cow::Borrowed(text));
        }
        self.secrets.value(text).map(Cow::Owned)
    }
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
    Ok(Some(Box::new(move |path: &[u8]| {
        patterns.iter().any(|pattern| pattern.is_match(path).unwrap_or(false))
    })))
}
