//! Keycloak as a server of permissions: its endpoints, the token of the client, and the resources of a path.
//! Errors are sentences for the log and hold no token.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use exchange::local::WorkerLocal;
use exchange::plugin::Build;
use exchange::plugin::outbound::{DestinationOpener, OutboundDestination, OutboundResponse, OutboundTls};
use jsonx::Bounds;
use net::endpoint::KeepAlive;
use net::env;
use serde_json::Value;

use super::settings::AuthzKeycloakConfig;
use crate::shared::api_call::{self, Calls};
use crate::shared::fetched::Fetched;

/// The longest call, below the time that a plugin may wait in a phase.
const TIMEOUT_MS_MAX: u64 = 20_000;
/// The least age of a token that is fetched anew because Keycloak has refused it.
const TOKEN_MIN_AGE_MS: u64 = 5_000;
/// The most resources of one path that permissions are asked for.
const RESOURCES_MAX: usize = 128;

/// See the module.
pub(super) struct KeycloakServer {
    discovery: Option<OutboundDestination>,
    token: Option<OutboundDestination>,
    registration: Option<OutboundDestination>,
    opener: DestinationOpener,
    tls: OutboundTls,
    keep_alive: KeepAlive,
    calls: Calls,
    kept_ms: u64,
    client_id: String,
    client_secret: Option<String>,
    token_seconds: u64,
    token_leeway_s: u64,
    found: Arc<KeycloakCache>,
}

/// The fetched endpoints and token; outlives configuration changes that do not concern it.
#[derive(Default)]
struct KeycloakCache {
    endpoints: Fetched<KeycloakEndpoints>,
    token: Fetched<ClientToken>,
}

struct KeycloakEndpoints {
    token: Option<OutboundDestination>,
    registration: Option<OutboundDestination>,
}

struct ClientToken {
    authorization: String,
    expires_ms: u64,
}

impl KeycloakServer {
    /// # Errors
    /// Why a URL cannot be called, a sentence.
    pub(super) fn new(build: &Build<'_>, config: &AuthzKeycloakConfig) -> Result<KeycloakServer, String> {
        let tls = OutboundTls::verifying(config.ssl_verify);
        let keep_alive = KeepAlive {
            size: if config.keepalive { config.keepalive_pool } else { 0 },
            idle_timeout_ms: config.keepalive_timeout,
            ..KeepAlive::default()
        };
        let open = |url: &Option<String>| {
            let open = |url: &String| build.services.destination(url, keep_alive, &tls);
            url.as_ref().map(open).transpose()
        };
        Ok(KeycloakServer {
            discovery: open(&config.discovery)?,
            token: open(&config.token_endpoint)?,
            registration: open(&config.resource_registration_endpoint)?,
            opener: build.services.opener(),
            keep_alive,
            calls: Calls::new(
                config.timeout.min(TIMEOUT_MS_MAX),
                build.services.call_failures("authz-keycloak"),
            ),
            kept_ms: config.cache_ttl_seconds.saturating_mul(1_000),
            client_id: config.client_id.clone(),
            client_secret: config.client_secret.clone(),
            token_seconds: config.access_token_expires_in,
            token_leeway_s: config.access_token_expires_leeway,
            found: build.states.keep(&key(config), KeycloakCache::default),
            tls,
        })
    }

    /// The answer of the token endpoint to a form; `authorization` is that field of the request.
    ///
    /// # Errors
    /// There was no answer.
    pub(super) async fn ask(
        &self,
        local: &WorkerLocal,
        form: String,
        authorization: Option<&str>,
    ) -> Result<OutboundResponse, String> {
        let endpoints;
        let endpoint = match &self.token {
            Some(endpoint) => endpoint,
            None => {
                endpoints = self.endpoints(local).await?;
                endpoints.token.as_ref().ok_or("Unable to determine token endpoint.")?
            }
        };
        let fields: Vec<(&str, &str)> =
            authorization.map(|value| ("Authorization", value)).into_iter().collect();
        api_call::post_form(local, endpoint, &self.calls, form, &fields).await
    }

    /// The resources that Keycloak has for a path.
    ///
    /// # Errors
    /// Keycloak does not say.
    pub(super) async fn resources(&self, local: &WorkerLocal, path: &str) -> Result<Vec<String>, String> {
        let token = self.client_token(local).await?;
        let mut answer = self.ask_resources(local, path, &token).await?;
        if answer.status == 401 {
            // Keycloak has forgotten the token, such as after a restart. A client without the permission is
            // answered 401 with each new token too, so that not every request may fetch one.
            let renewed = self.found.token.renew(&token, TOKEN_MIN_AGE_MS, self.fetch_token(local)).await;
            if let Some(renewed) = renewed.map_err(|reason| reason.to_string())? {
                answer = self.ask_resources(local, path, &renewed).await?;
            }
        }
        if answer.status != 200 {
            return Err(format!("the resource registration endpoint answered with status {}", answer.status));
        }
        let found: Option<Vec<String>> = jsonx::read(&answer.body, Bounds::DEFAULT).ok();
        let mut found =
            found.ok_or("the resource registration endpoint answered with no list of identifiers")?;
        found.truncate(RESOURCES_MAX);
        Ok(found)
    }

    async fn ask_resources(
        &self,
        local: &WorkerLocal,
        path: &str,
        token: &ClientToken,
    ) -> Result<OutboundResponse, String> {
        let endpoints;
        let endpoint = match &self.registration {
            Some(endpoint) => endpoint,
            None => {
                endpoints = self.endpoints(local).await?;
                endpoints.registration.as_ref().ok_or("Unable to determine registration endpoint.")?
            }
        };
        let target = api_call::with_query(endpoint.target(), [("uri", path), ("matchingUri", "true")]);
        let fields = [("Authorization", &*token.authorization)];
        api_call::get(local, endpoint, Some(&target), &self.calls, &fields).await
    }

    /// The token with which the client asks for resources.
    async fn client_token(&self, local: &WorkerLocal) -> Result<Arc<ClientToken>, String> {
        let to_text = |reason: Arc<str>| reason.to_string();
        let token = self.found.token.get(self.kept_ms, self.fetch_token(local)).await.map_err(to_text)?;
        if token.expires_ms > now_ms() {
            return Ok(token);
        }
        let renewed = self.found.token.renew(&token, 0, self.fetch_token(local)).await.map_err(to_text)?;
        Ok(renewed.unwrap_or(token))
    }

    async fn fetch_token(&self, local: &WorkerLocal) -> Result<ClientToken, String> {
        let asked_ms = now_ms();
        let mut form = vec![("grant_type", "client_credentials"), ("client_id", &*self.client_id)];
        form.extend(self.client_secret.as_deref().map(|secret| ("client_secret", secret)));
        let answer = self.ask(local, api_call::encode_form(form), None).await?;
        let said: Value = jsonx::read(&answer.body, Bounds::SMALL).unwrap_or_default();
        let token = said["access_token"].as_str().filter(|_| answer.status == 200).ok_or_else(|| {
            format!("the token endpoint answered with status {} and no token for the client", answer.status)
        })?;
        let lifetime_s = said["expires_in"].as_u64().unwrap_or(self.token_seconds);
        let lifetime_s = lifetime_s.saturating_sub(1).saturating_sub(self.token_leeway_s);
        Ok(ClientToken {
            authorization: format!("Bearer {token}"),
            expires_ms: asked_ms.saturating_add(lifetime_s.saturating_mul(1_000)),
        })
    }

    async fn endpoints(&self, local: &WorkerLocal) -> Result<Arc<KeycloakEndpoints>, String> {
        let discovery = self.discovery.as_ref().ok_or("there is no discovery document configured")?;
        let fetch = async {
            let answer = api_call::get(local, discovery, None, &self.calls, &[]).await?;
            let document: Value = api_call::parse_json_response(&answer, discovery)?;
            Ok(KeycloakEndpoints {
                token: self.open(&document["token_endpoint"]).await?,
                registration: self.open(&document["resource_registration_endpoint"]).await?,
            })
        };
        let found = self.found.endpoints.get(self.kept_ms, fetch).await;
        found.map_err(|reason| format!("Accessing discovery URL failed: {reason}"))
    }

    async fn open(&self, url: &Value) -> Result<Option<OutboundDestination>, String> {
        let Some(url) = url.as_str() else { return Ok(None) };
        let wait_ms = self.calls.timeout_ms();
        self.opener.open(url, self.keep_alive, &self.tls, wait_ms).await.map(Some)
    }
}

/// The name of what was fetched: all that it depends on, as a hash, because the secret is among it.
fn key(config: &AuthzKeycloakConfig) -> String {
    let parts = format!(
        "{:?}",
        (
            &config.discovery,
            &config.token_endpoint,
            &config.resource_registration_endpoint,
            &config.client_id,
            &config.client_secret,
            config.ssl_verify,
            (config.keepalive, config.keepalive_pool, config.keepalive_timeout),
        )
    );
    format!("authz-keycloak/{}", HEXLOWER.encode(digest(&SHA256, parts.as_bytes()).as_ref()))
}

fn now_ms() -> u64 {
    env::monotonic_ns() / 1_000_000
}
