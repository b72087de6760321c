//! The provider as its discovery document describes it: its endpoints and its keys, fetched once for all
//! workers and all routes that name it, and kept for a time. Outlives configuration changes.

use std::sync::Arc;

use exchange::local::WorkerLocal;
use exchange::plugin::Build;
use exchange::plugin::outbound::{DestinationOpener, OutboundDestination, OutboundTls};
use net::endpoint::KeepAlive;
use serde_json::Value;

use super::keys::KeySet;
use crate::shared::api_call::{self, Calls};
use crate::shared::fetched::Fetched;

/// Milliseconds that a discovery document is kept: a day, as APISIX keeps it.
const DISCOVERY_KEPT_MS: u64 = 24 * 60 * 60 * 1_000;
/// The shortest time between two fetches of the keys because of an unknown key, in milliseconds: tokens with
/// made-up key identifiers must not make the gateway call the provider all the time.
const KEYS_MIN_AGE_MS: u64 = 10_000;

/// See the module.
pub(super) struct Provider {
    discovery_url: OutboundDestination,
    opener: DestinationOpener,
    tls: OutboundTls,
    discovery: Fetched<DiscoveryDocument>,
    keys: Fetched<KeySet>,
}

/// An endpoint of the provider.
pub(super) struct ProviderEndpoint {
    pub(super) destination: OutboundDestination,
}

/// The parts of a discovery document that the plugin uses.
pub(super) struct DiscoveryDocument {
    pub(super) issuer: String,
    pub(super) authorization: Option<String>,
    pub(super) end_session: Option<String>,
    pub(super) token: Option<ProviderEndpoint>,
    pub(super) userinfo: Option<ProviderEndpoint>,
    pub(super) keys: Option<ProviderEndpoint>,
    pub(super) introspection: Option<ProviderEndpoint>,
    pub(super) revocation: Option<ProviderEndpoint>,
    pub(super) par: Option<ProviderEndpoint>,
    /// The methods of client authentication; none: the document does not say.
    pub(super) auth_methods: Option<Vec<String>>,
    /// The algorithms of ID tokens; none: the document does not say.
    pub(super) id_token_algorithms: Option<Vec<String>>,
}

impl Provider {
    /// The provider with this discovery document; routes that name the same one share it.
    ///
    /// # Errors
    /// Why the URL cannot be called, a sentence.
    pub(super) fn keep(build: &Build<'_>, url: &str, verifies: bool) -> Result<Arc<Provider>, String> {
        let tls = OutboundTls::verifying(verifies);
        let discovery_url = build.services.destination(url, keep_alive(), &tls)?;
        let opener = build.services.opener();
        let make = || Provider {
            discovery_url,
            opener,
            tls,
            discovery: Fetched::default(),
            keys: Fetched::default(),
        };
        Ok(build.states.keep(&format!("openid-connect/provider/{verifies}/{url}"), make))
    }

    /// The discovery document.
    ///
    /// # Errors
    /// The provider cannot be reached or its document cannot be used, a sentence for the log.
    pub(super) async fn discovery(
        &self,
        local: &WorkerLocal,
        calls: &Calls,
    ) -> Result<Arc<DiscoveryDocument>, String> {
        let fetch = async {
            let answer = api_call::get(local, &self.discovery_url, None, calls, &[]).await?;
            let document: Value = api_call::parse_json_response(&answer, &self.discovery_url)?;
            self.read(&document, calls).await
        };
        self.discovery
            .get(DISCOVERY_KEPT_MS, fetch)
            .await
            .map_err(|reason| format!("accessing discovery url failed: {reason}"))
    }

    /// The keys of the provider, kept for `kept_ms` milliseconds.
    ///
    /// # Errors
    /// They cannot be fetched, a sentence for the log.
    pub(super) async fn keys(
        &self,
        local: &WorkerLocal,
        calls: &Calls,
        kept_ms: u64,
    ) -> Result<Arc<KeySet>, String> {
        let fetch = self.fetch_keys(local, calls);
        self.keys.get(kept_ms, fetch).await.map_err(|reason| format!("accessing jwks url failed: {reason}"))
    }

    /// Newer keys than `known`, which lack the key of a token; none if `known` is new.
    ///
    /// # Errors
    /// They cannot be fetched, a sentence for the log.
    pub(super) async fn newer_keys(
        &self,
        local: &WorkerLocal,
        calls: &Calls,
        known: &Arc<KeySet>,
    ) -> Result<Option<Arc<KeySet>>, String> {
        let fetch = self.fetch_keys(local, calls);
        let renewed = self.keys.renew(known, KEYS_MIN_AGE_MS, fetch).await;
        renewed.map_err(|reason| format!("accessing jwks url failed: {reason}"))
    }

    async fn fetch_keys(&self, local: &WorkerLocal, calls: &Calls) -> Result<KeySet, String> {
        let discovery = self.discovery(local, calls).await?;
        let endpoint = discovery.keys.as_ref().ok_or("the discovery document has no usable jwks_uri")?;
        let answer = api_call::get(local, &endpoint.destination, None, calls, &[]).await?;
        KeySet::read(&api_call::parse_json_response(&answer, &endpoint.destination)?)
    }

    async fn read(&self, document: &Value, calls: &Calls) -> Result<DiscoveryDocument, String> {
        let text = |name: &str| document.get(name).and_then(Value::as_str).map(str::to_owned);
        let texts = |name: &str| {
            let listed = document.get(name)?.as_array()?;
            Some(listed.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        };
        let issuer = text("issuer").ok_or("the discovery document has no issuer")?;
        let web = |name: &str| text(name).filter(|url| is_web_url(url));
        Ok(DiscoveryDocument {
            issuer,
            authorization: web("authorization_endpoint"),
            end_session: web("end_session_endpoint"),
            token: self.endpoint(document, "token_endpoint", calls).await,
            userinfo: self.endpoint(document, "userinfo_endpoint", calls).await,
            keys: self.endpoint(document, "jwks_uri", calls).await,
            introspection: self.endpoint(document, "introspection_endpoint", calls).await,
            revocation: self.endpoint(document, "revocation_endpoint", calls).await,
            par: self.endpoint(document, "pushed_authorization_request_endpoint", calls).await,
            auth_methods: texts("token_endpoint_auth_methods_supported"),
            id_token_algorithms: texts("id_token_signing_alg_values_supported"),
        })
    }

    /// An endpoint of the document; none if it is missing or cannot be called.
    async fn endpoint(&self, document: &Value, name: &str, calls: &Calls) -> Option<ProviderEndpoint> {
        let url = document.get(name)?.as_str()?;
        let wait_ms = calls.timeout_ms();
        match self.opener.open(url, keep_alive(), &self.tls, wait_ms).await {
            Ok(destination) => Some(ProviderEndpoint { destination }),
            Err(reason) => {
                tracing::warn!(endpoint = name, %reason, "the discovery document of {} is faulty", self.discovery_url.uri());
                None
            }
        }
    }
}

impl ProviderEndpoint {
    /// The URL, which is the audience of client assertions.
    pub(super) fn url(&self) -> &str {
        self.destination.uri()
    }
}

/// Whether a browser may be sent to `url`.
fn is_web_url(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

/// Connections to providers are kept as the outbound client's default says.
pub(super) fn keep_alive() -> KeepAlive {
    KeepAlive { size: 5, idle_timeout_ms: 60_000, ..KeepAlive::default() }
}
