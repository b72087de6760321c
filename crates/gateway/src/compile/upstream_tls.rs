//! The TLS identity of an upstream: whether its nodes are verified, and the certificate that they are shown,
//! which may be written in it or be an `ssl` object of type `client`. It reads references to secrets, and
//! opens nothing.

use std::sync::Arc;

use model::resource::{HttpVersion, Resource, Ssl, SslType, UpstreamConfig, UpstreamScheme, UpstreamTls};
use model::snapshot::Snapshot;
use model::{Id, ObjectKey, ObjectKind};

use super::SnapshotCompiler;
use net::tls::client::ClientTls;
use net::tls::identity::{ALPN_HTTP1, ALPN_HTTP2, ALPN_HTTP2_OR_HTTP1, CertificateAndKey, ClientIdentity};

impl SnapshotCompiler {
    /// The identity of connections to the nodes of `upstream`; nothing for a scheme without TLS.
    ///
    /// # Errors
    /// A certificate or key that is missing or cannot be used, as a sentence.
    pub(super) fn upstream_tls(
        &self,
        snapshot: &Snapshot,
        upstream: &UpstreamConfig,
    ) -> Result<Option<Arc<ClientTls>>, String> {
        if !matches!(upstream.scheme, UpstreamScheme::Https | UpstreamScheme::Grpcs | UpstreamScheme::Tls) {
            return Ok(None);
        }
        let identity = ClientIdentity {
            alpn: match (upstream.scheme, upstream.http_version) {
                (UpstreamScheme::Tls, _) => &[],
                (UpstreamScheme::Grpcs, _) => ALPN_HTTP2,
                (_, HttpVersion::Http2) => ALPN_HTTP2_OR_HTTP1,
                (_, HttpVersion::Http1) => ALPN_HTTP1,
            },
            ..self.client_identity(snapshot, upstream)?
        };
        let found = self.services.tls().intern(identity);
        found.map(Some).map_err(|reason| format!("tls: {reason}"))
    }

    /// The identity that `tls` of an upstream describes, without ALPN.
    ///
    /// # Errors
    /// A certificate, key or secret that cannot be used, as a sentence.
    pub(super) fn client_identity(
        &self,
        snapshot: &Snapshot,
        upstream: &UpstreamConfig,
    ) -> Result<ClientIdentity, String> {
        let tls = upstream.tls.as_deref();
        Ok(ClientIdentity {
            verifies: tls.is_some_and(|tls| tls.verify || tls.ca_certs.is_some()),
            roots: tls
                .and_then(|tls| tls.ca_certs.as_deref())
                .map(|text| self.authorities(text))
                .transpose()?,
            certificate: tls.map(|tls| self.certificate(snapshot, tls)).transpose()?.flatten(),
            alpn: &[],
        })
    }

    /// The authorities that nodes are verified against in place of the process's.
    fn authorities(&self, text: &str) -> Result<Box<str>, String> {
        let resolved = self.resolved(text).map_err(|reason| format!("tls.ca_certs: {reason}"))?;
        Ok(resolved.into())
    }

    /// The certificate chain and the key that nodes are shown.
    fn certificate(
        &self,
        snapshot: &Snapshot,
        tls: &UpstreamTls,
    ) -> Result<Option<CertificateAndKey>, String> {
        if let Some(id) = &tls.client_cert_id {
            let (chain, key) = &client_ssl(snapshot, id)?.pairs[0];
            let resolved =
                self.resolved(chain).and_then(|chain| Ok((chain.into(), self.resolved(key)?.into())));
            return resolved.map(Some).map_err(|reason| format!("tls: ssl {id}: {reason}"));
        }
        let (Some(chain), Some(key)) = (&tls.client_cert, &tls.client_key) else { return Ok(None) };
        let chain = self.resolved(chain).map_err(|reason| format!("tls.client_cert: {reason}"))?;
        let key = self.resolved(key).map_err(|reason| format!("tls.client_key: {reason}"))?;
        Ok(Some((chain.into(), key.into())))
    }
}

/// The certificate object `id`, if it may be presented to nodes.
fn client_ssl<'s>(snapshot: &'s Snapshot, id: &Id) -> Result<&'s Ssl, String> {
    let object = snapshot.get(&ObjectKey::of(ObjectKind::Ssl, id));
    let Some(Resource::Ssl(ssl)) = object.map(|object| &object.resource) else {
        return Err(format!("tls.client_cert_id: ssl {id} does not exist"));
    };
    if ssl.ssl_type != SslType::Client {
        return Err(format!("tls.client_cert_id: ssl {id} is not of type client"));
    }
    if !ssl.enabled {
        return Err(format!("tls.client_cert_id: ssl {id} is disabled (status 0)"));
    }
    Ok(ssl)
}
