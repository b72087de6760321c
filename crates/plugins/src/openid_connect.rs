//! # openid-connect
//!
//! Authenticates requests with an OpenID provider such as Keycloak: browsers by the authorization code flow
//! and a session cookie, other clients by bearer tokens, which are verified with the provider's keys or by
//! introspection.
//!
//! ```json
//! {
//!   "discovery": "http://127.0.0.1:8080/realms/shop/.well-known/openid-configuration",
//!   "client_id": "gateway",
//!   "client_secret": "$env://OIDC_CLIENT_SECRET",
//!   "scope": "openid email",
//!   "use_pkce": true,
//!   "use_nonce": true,
//!   "session": {"secret": "$env://OIDC_SESSION_SECRET"}
//! }
//! ```
//!
//! While the reference of a secret cannot be resolved, or gives a session secret of less than 16 bytes,
//! requests to the object are answered with 503, because the text of a reference is no secret.
//!
//! The guide [Login with OpenID Connect](../../guide/openid-connect.md) sets it up with Keycloak.
//!
//! **Provider.** The document at `discovery` and the keys at its `jwks_uri` are fetched once for all workers
//! and routes; the document is kept for a day, the keys for `jwk_expires_in` seconds. A token with an unknown
//! key identifier makes the gateway fetch the keys anew, at most every 10 s. A token without one is tried
//! against at most 16 keys of its algorithm, in the order of the document. A call takes at most `timeout`
//! seconds. `ssl_verify` says whether the provider's certificate is verified.
//!
//! **Browsers.** A request without a session is answered by `unauth_action`: `auth` sends the browser to the
//! provider, `deny` answers 401, `pass` forwards the request. The provider sends the browser back to
//! `redirect_uri`, a path or a URL of this route; without it, the path of the request with
//! `/.apisix/redirect` behind it, which the route has to match. The gateway then fetches the tokens, checks
//! signature and claims of the ID token, asks for the user's data, and sends the browser to the URL that it
//! first asked for. `use_pkce` and `use_nonce` protect the code further, `par` sends the parameters to the
//! provider ahead of the browser, and `authorization_params` adds parameters. A callback with an unknown or
//! used state, or one that reports `temporarily_unavailable`, begins the login anew, at most three times in a
//! row; other faults of a login are answered with 500.
//!
//! **Session.** The session is a cookie, encrypted with AES-256-GCM under a key that is derived from
//! `session.secret`, and split where it is longer than a cookie may be. It ends after `idling_timeout` (900
//! s) without a request, after `rolling_timeout` (3600 s) without being written anew, and after
//! `absolute_timeout` (86400 s). Instances and routes with the same secret, `client_id` and `discovery` share
//! sessions; a session of another client does not count. The cookie has `HttpOnly`, `SameSite=Lax`, and,
//! where the request came over TLS to the gateway or to a trusted proxy in front, `Secure`, unless the
//! settings say otherwise. `session_contents` leaves parts of the login out of the session. The logout
//! removes the cookie but cannot recall a copy of it, because there is no table of sessions; the lifetimes
//! bound such a copy. With `storage` `redis` the cookie holds a random identifier, the encrypted session is
//! in Redis under `prefix` and a hash of the identifier, and a logout ends every copy. While Redis does not
//! answer, requests with a session are answered with 500.
//!
//! **Tokens.** An expired access token is renewed with the refresh token, unless
//! `renew_access_token_on_expiry` is `false`; if that fails, the browser is sent to the provider.
//! `refresh_session_interval` sends it there from time to time with `prompt=none`. A request for
//! `logout_path` ends the session, revokes its tokens with `revoke_tokens_on_logout`, and sends the browser
//! to the provider's `end_session_endpoint`, or, where there is none, to `post_logout_redirect_uri`.
//!
//! **Bearer tokens.** They are looked at with `bearer_only`, `introspection_endpoint`, `public_key` or
//! `use_jwks`, in `Authorization` or, without that field, in `X-Access-Token`. With `public_key` or
//! `use_jwks` the token is verified here: a JWS with an asymmetric algorithm (RS, PS, ES 256 to 512, EdDSA),
//! of an issuer in `claim_validator.issuer.valid_issuers` or else the one of the discovery document.
//! Otherwise the provider is asked; an answer is kept until the token expires, or for
//! `introspection_interval` seconds if that is less. A token that is not accepted is answered with 401 and a
//! reason in `WWW-Authenticate`, also while the provider cannot be reached; a missing scope of
//! `required_scopes` or a wrong audience with 403. With `bearer_only` a request without a token is answered
//! with 401; without it, the session counts.
//!
//! **Upstream.** It receives the access token in `X-Access-Token`, or in `Authorization` with
//! `access_token_in_authorization_header`; the claims of the ID token in `X-ID-Token` and the user's data, or
//! the claims of the bearer token, in `X-Userinfo`, both as JSON in Base64 with the digits of all numbers;
//! and, where it is configured, `X-Refresh-Token` and `X-Raw-ID-Token`. Fields of these names that the client
//! sends are removed.
//!
//! **Not supported**, and refused by the check: `dpop.enabled`, `proxy_opts` with a proxy, and
//! `session.redis.server_name`. Encrypted tokens (JWE) are not accepted.
//!
//! Faults are written to the error log, at most one line a second for each instance; lines and answers hold
//! no token.

mod assertion;
mod authorization;
mod bearer;
mod browser;
mod client;
mod cookie;
mod id_token;
mod introspection;
mod keys;
mod login;
mod logout;
mod provider;
mod renewal;
mod session;
mod sessions;
mod settings;
mod token_parts;

use std::sync::Arc;

use data_encoding::BASE64;
use exchange::Exchange;
use exchange::local::WorkerLocal;
use exchange::observe::pace::Pace;
use exchange::plugin::outbound::OutboundTls;
use exchange::plugin::{BufferedReply, Build, Flow, PhaseDecision, Plugin, PluginKind, PluginPhase};
use jsonx::Exact;
use model::validate::UserSchema;
use serde_json::Value;

use crate::shared::attributes::Attribute;
use crate::shared::config;
use crate::shared::jwt::{JwtAlgorithm, VerifyingKey};
use bearer::{BearerCredential, no_token, read_bearer_credential, take_fields};
use client::OpenidClient;
use cookie::Jar;
use introspection::Introspections;
use keys::KeySet;
use provider::{Provider, ProviderEndpoint, keep_alive};
use renewal::Renewals;
use sessions::Sessions;
use settings::OpenidConnectConfig;
use settings::check::check;
use token_parts::Stores;

/// The plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("openid-connect", 2599, &[PluginPhase::Rewrite], OpenidConnectConfig::schema, build)
        .checked(check)
        .documented(include_str!("openid_connect.rs"));

/// The shortest `session.secret`; the schema has seen a reference in its place.
const SECRET_BYTES_MIN: usize = 16;
/// Milliseconds between two lines about faults.
const LOG_INTERVAL_MS: u64 = 1_000;

/// The compiled plugin.
struct OpenidConnect {
    provider: Arc<Provider>,
    client: Arc<OpenidClient>,
    /// None with `bearer_only`, which looks at no session.
    sessions: Option<Sessions>,
    stores: Stores,
    /// The path of the redirect URI, decoded; none: that of the request and a suffix.
    redirect_path: Option<String>,
    par_endpoint: Option<ProviderEndpoint>,
    /// The configured public key.
    public_keys: Option<KeySet>,
    /// The client secret as a key, for ID tokens that are signed with it.
    secret_keys: Vec<(JwtAlgorithm, VerifyingKey)>,
    introspection_endpoint: Option<ProviderEndpoint>,
    introspections: Arc<Introspections>,
    renewals: Arc<Renewals>,
    claim_schema: Option<UserSchema>,
    pace: Pace,
    config: OpenidConnectConfig,
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let config: OpenidConnectConfig = config::parse_config(config)?;
    if config.session.as_ref().is_some_and(|session| session.secret.len() < SECRET_BYTES_MIN) {
        return Err("session.secret: what its reference names is shorter than 16 bytes".to_owned());
    }
    let tls = OutboundTls::verifying(config.ssl_verify);
    let endpoint = |url: Option<&str>| {
        let open = |url| {
            Ok::<_, String>(ProviderEndpoint {
                destination: build.services.destination(url, keep_alive(), &tls)?,
            })
        };
        url.map(open).transpose()
    };
    let open =
        |session| Sessions::new(build, session, Jar::new(session, &config.client_id, &config.discovery));
    let sessions = config.session.as_ref().filter(|_| !config.bearer_only);
    let hmac = [JwtAlgorithm::Hs256, JwtAlgorithm::Hs384, JwtAlgorithm::Hs512].map(|algorithm| {
        let secret = config.client_secret.as_deref()?;
        Some((algorithm, VerifyingKey::from_secret(algorithm, secret.as_bytes()).ok()?))
    });
    let claim_schema = config.claim_schema.clone();
    Ok(Arc::new(OpenidConnect {
        provider: Provider::keep(build, &config.discovery, config.ssl_verify)?,
        client: Arc::new(OpenidClient::new(&config, build.services.call_failures("openid-connect"))?),
        sessions: sessions.map(open).transpose()?,
        stores: Stores::of(&config),
        redirect_path: config.redirect_uri.as_deref().map(path_of),
        par_endpoint: endpoint(config.par.as_ref().and_then(|par| par.endpoint.as_deref()))?,
        public_keys: config.public_key.as_deref().map(KeySet::from_pem).transpose()?,
        secret_keys: hmac.into_iter().flatten().collect(),
        introspection_endpoint: endpoint(config.introspection_endpoint.as_deref())?,
        introspections: Introspections::keep(build),
        renewals: Renewals::keep(build),
        claim_schema: claim_schema.map(|schema| UserSchema::compile(&Value::Object(schema))).transpose()?,
        pace: Pace::every_ms(LOG_INTERVAL_MS),
        config,
    }))
}

/// The path of a path or URL.
fn path_of(target: &str) -> String {
    let path = match target.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |slash| &rest[slash..]),
        None => target,
    };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned()
}

impl Plugin for OpenidConnect {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        Flow::Wait(Box::pin(self.authenticate(exchange)))
    }
}

impl OpenidConnect {
    async fn authenticate(&self, exchange: &mut Exchange) -> PhaseDecision {
        let x_access_token = take_fields(exchange);
        if self.config.takes_bearer() {
            match read_bearer_credential(&exchange.request.headers, x_access_token) {
                BearerCredential::Token(token) => return self.bearer(exchange, &token).await,
                BearerCredential::Malformed => return refuse(BufferedReply::status(400)),
                BearerCredential::Nothing if self.config.bearer_only => {
                    return refuse(no_token(&self.config.realm));
                }
                BearerCredential::Nothing => {}
            }
        }
        match &self.sessions {
            Some(sessions) => self.browser(exchange, sessions).await,
            None => refuse(no_token(&self.config.realm)),
        }
    }

    /// Decides about a request with a bearer token.
    async fn bearer(&self, exchange: &mut Exchange, token: &str) -> PhaseDecision {
        let local = exchange.local().clone();
        let claims = if self.config.verifies_bearer() {
            self.verify_bearer(&local, token).await.map(Arc::new)
        } else {
            self.introspect(exchange, token).await
        };
        let claims = match claims {
            Ok(claims) => claims,
            Err(refusal) => {
                self.log(&local, &format!("OIDC introspection failed: {}", refusal.reason));
                return refuse(self.challenge(&refusal.description));
            }
        };
        if let Err((reply, reason)) = self.authorize_bearer(&claims) {
            self.log(&local, &format!("OIDC introspection failed: {reason}"));
            return refuse(reply);
        }
        self.forward_token(exchange, Some(token));
        if self.config.set_userinfo_header {
            self.forward_json(exchange, "X-Userinfo", &claims);
        }
        PhaseDecision::Continue
    }

    /// Sends the access token to the upstream, as it is configured.
    fn forward_token(&self, exchange: &mut Exchange, token: Option<&str>) {
        let Some(token) = token.filter(|_| self.config.set_access_token_header) else { return };
        if self.config.access_token_in_authorization_header {
            self.forward(exchange, "Authorization", &format!("Bearer {token}"));
        } else {
            self.forward(exchange, "X-Access-Token", token);
        }
    }

    fn forward_json(&self, exchange: &mut Exchange, name: &str, value: &Exact) {
        self.forward(exchange, name, &BASE64.encode(value.text().as_bytes()));
    }

    /// Sets a field for the upstream. Tokens of a provider that are not valid in a field leave it out.
    fn forward(&self, exchange: &mut Exchange, name: &str, value: &str) {
        exchange.decision.user_fields.push(name.into());
        if exchange.request.headers.set(name, value.as_bytes()).is_err() {
            exchange.request.headers.remove(name);
            self.warn(exchange, &format!("the value of {name} is not valid in a field and was left out"));
        }
    }

    fn warn(&self, exchange: &Exchange, reason: &str) {
        self.log(exchange.local(), reason);
    }

    /// Writes a line to the error log, unless one was written a moment ago.
    fn log(&self, local: &WorkerLocal, reason: &str) {
        if let Some(requests) = self.pace.add(1, local.now_ms()) {
            tracing::warn!(reason, requests, "openid-connect");
        }
    }
}

fn refuse(reply: BufferedReply) -> PhaseDecision {
    PhaseDecision::Reply(Box::new(reply))
}

#[cfg(test)]
mod tests;
