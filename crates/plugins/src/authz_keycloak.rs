//! # authz-keycloak
//!
//! Asks Keycloak's authorization services whether the user of a bearer token may use a resource.
//!
//! ```json
//! {
//!   "discovery": "http://127.0.0.1:8080/realms/shop/.well-known/uma2-configuration",
//!   "client_id": "shop-api",
//!   "client_secret": "$env://KEYCLOAK_CLIENT_SECRET",
//!   "lazy_load_paths": true,
//!   "http_method_as_scope": true
//! }
//! ```
//!
//! For each request the gateway sends the token in `Authorization` to the token endpoint (`token_endpoint`,
//! or the one in the document at `discovery`) with the UMA grant, the client as audience, and the permissions
//! to decide about. Keycloak checks the token and evaluates its policies; the request continues only if it
//! answers 200. A 401 or 403 and other answers below 500 are passed on with their body; with
//! `access_denied_redirect_uri` a refused client receives a redirect with status 307 in place of 403. A
//! request without `Authorization` is answered with 401; a value without `Bearer ` counts as the token.
//!
//! **Permissions** are those in `permissions`, each a resource or `resource#scope`. With `lazy_load_paths`
//! Keycloak is asked for the resources of the request's path; the client then authenticates with a token of
//! its own, which is kept until it expires, and for `cache_ttl_seconds` at most. `http_method_as_scope` adds
//! the method as a scope to each. Where there is no permission to ask for, `policy_enforcement_mode` decides:
//! `ENFORCING` refuses the request with 403, `PERMISSIVE` asks Keycloak without one.
//!
//! **Password grant.** With `password_grant_token_generation_incoming_uri` a POST of a form with `username`
//! and `password` to this URI is answered with Keycloak's tokens for that user. A missing field is answered
//! with 422, a refusal with 401.
//!
//! **Without an answer** of Keycloak within `timeout` milliseconds, or with one that is not understood, the
//! request is answered with 503. The error log names the reason, at most once a second for each instance.

mod server;
mod settings;

use std::borrow::Cow;
use std::sync::Arc;

use exchange::Exchange;
use exchange::local::WorkerLocal;
use exchange::observe::pace::Pace;
use exchange::plugin::outbound::OutboundResponse;
use exchange::plugin::{
    BodyNeed, BufferedReply, Build, Flow, PhaseDecision, Plugin, PluginKind, PluginPhase,
};
use jsonx::Bounds;
use message::{FieldId, Method};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::shared::api_call;
use crate::shared::attributes::Attribute;
use crate::shared::config;
use message::query::{arguments, decode};
use server::KeycloakServer;
use settings::{AuthzKeycloakConfig, EnforcementMode, check};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "authz-keycloak",
    2000,
    &[PluginPhase::RequestBody, PluginPhase::Access],
    AuthzKeycloakConfig::schema,
    build,
)
.checked(check)
.documented(include_str!("authz_keycloak.rs"));

/// Milliseconds between two lines about faults.
const LOG_INTERVAL_MS: u64 = 1_000;

/// The compiled plugin.
struct AuthzKeycloak {
    server: KeycloakServer,
    pace: Pace,
    config: AuthzKeycloakConfig,
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let config: AuthzKeycloakConfig = config::parse_config(config)?;
    Ok(Arc::new(AuthzKeycloak {
        server: KeycloakServer::new(build, &config)?,
        pace: Pace::every_ms(LOG_INTERVAL_MS),
        config,
    }))
}

impl Plugin for AuthzKeycloak {
    fn wants_request_body(&self, exchange: &Exchange) -> BodyNeed {
        match self.is_for_token(exchange) {
            true => BodyNeed::Buffer { limit_bytes: self.config.max_req_body_size },
            false => BodyNeed::None,
        }
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        if self.is_for_token(exchange) {
            return Flow::Wait(Box::pin(self.hand_out_token(exchange)));
        }
        match authorization(exchange) {
            Some(token) => Flow::Wait(Box::pin(self.evaluate(exchange, token))),
            None => Flow::reply(BufferedReply::message(401, "Missing JWT token in request")),
        }
    }
}

impl AuthzKeycloak {
    /// Whether the request asks for a token by name and password.
    fn is_for_token(&self, exchange: &Exchange) -> bool {
        let Some(uri) = &self.config.password_grant_token_generation_incoming_uri else { return false };
        let request = &exchange.request;
        let (path, query) = match uri.split_once('?') {
            Some((path, query)) => (path, Some(query.as_bytes())),
            None => (&**uri, None),
        };
        request.method == Method::Post
            && exchange.path() == path.as_bytes()
            && request.query() == query
            && request.headers.get("content-type").is_some_and(is_form)
    }

    async fn evaluate(&self, exchange: &Exchange, token: String) -> PhaseDecision {
        let local = exchange.local().clone();
        let mut permissions: Cow<'_, [String]> = Cow::Borrowed(&*self.config.permissions);
        if self.config.lazy_load_paths {
            let path = String::from_utf8_lossy(exchange.path());
            match self.server.resources(&local, &path).await {
                Ok(found) => permissions = found.into(),
                Err(reason) => return self.unavailable(&local, &reason),
            }
        }
        if permissions.is_empty() && self.config.policy_enforcement_mode == EnforcementMode::Enforcing {
            return self.deny(NOT_AUTHORIZED.as_bytes().to_vec());
        }
        let scope = self.config.http_method_as_scope.then(|| exchange.request.method_text());
        let scope = scope.map(String::from_utf8_lossy);
        let form = decision_form(&self.config, &permissions, scope.as_deref());
        match self.server.ask(&local, form, Some(&token)).await {
            Ok(answer) => self.decide(&local, answer),
            Err(reason) => self.unavailable(&local, &reason),
        }
    }

    fn decide(&self, local: &WorkerLocal, answer: OutboundResponse) -> PhaseDecision {
        let status = answer.status;
        match status {
            200 if is_consent(&answer.body) => PhaseDecision::Continue,
            403 => self.deny(answer.body),
            400..500 => {
                if status != 401 {
                    self.log(local, &format!("the token endpoint answered with status {status}"));
                }
                reply(
                    BufferedReply::status(status)
                        .with_header("Content-Type", "application/json")
                        .with_body(answer.body),
                )
            }
            500.. => {
                self.log(local, &format!("the token endpoint answered with status {status}"));
                reply(BufferedReply::status(status))
            }
            _ => self.unavailable(
                local,
                &format!("the token endpoint answered with status {status} and no decision"),
            ),
        }
    }

    fn deny(&self, body: Vec<u8>) -> PhaseDecision {
        reply(match &self.config.access_denied_redirect_uri {
            Some(uri) => BufferedReply::status(307).with_header("Location", uri.clone()),
            None => {
                BufferedReply::status(403).with_header("Content-Type", "application/json").with_body(body)
            }
        })
    }

    /// Answers a form with name and password with the tokens of that user.
    async fn hand_out_token(&self, exchange: &Exchange) -> PhaseDecision {
        let local = exchange.local().clone();
        let body = exchange.request_body().unwrap_or_default();
        let field = |wanted: &str| {
            let found = arguments(body).find(|(_, name, _)| *decode(name) == *wanted.as_bytes());
            found.map(|(_, _, value)| String::from_utf8_lossy(&decode(value)).into_owned())
        };
        let Some(username) = field("username") else {
            return reply(BufferedReply::message(422, "username is missing."));
        };
        let Some(password) = field("password") else {
            return reply(BufferedReply::message(422, "password is missing."));
        };
        let mut form = vec![("grant_type", "password"), ("client_id", &*self.config.client_id)];
        form.extend(self.config.client_secret.as_deref().map(|secret| ("client_secret", secret)));
        form.extend([("username", &*username), ("password", &*password)]);
        match self.server.ask(&local, api_call::encode_form(form), None).await {
            Err(reason) => {
                self.log(&local, &reason);
                reply(BufferedReply::message(401, "Accessing token endpoint URL failed."))
            }
            Ok(answer)
                if answer.status == 200 && jsonx::read::<IgnoredAny>(&answer.body, Bounds::SMALL).is_ok() =>
            {
                let tokens = BufferedReply::status(200).with_header("Content-Type", "application/json");
                reply(tokens.with_header("Cache-Control", "no-store").with_body(answer.body))
            }
            Ok(answer) => {
                self.log(
                    &local,
                    &format!("the token endpoint answered a password grant with status {}", answer.status),
                );
                reply(BufferedReply::message(401, "Could not decode JSON from response."))
            }
        }
    }

    fn unavailable(&self, local: &WorkerLocal, reason: &str) -> PhaseDecision {
        self.log(local, reason);
        reply(BufferedReply::status(503))
    }

    /// Writes a line to the error log, unless one was written a moment ago.
    fn log(&self, local: &WorkerLocal, reason: &str) {
        if let Some(requests) = self.pace.add(1, local.now_ms()) {
            tracing::warn!(reason, requests, "authz-keycloak");
        }
    }
}

fn reply(reply: BufferedReply) -> PhaseDecision {
    PhaseDecision::Reply(Box::new(reply))
}

/// Whether a content type is that of a form, whatever its case and parameters.
fn is_form(content_type: &[u8]) -> bool {
    let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    essence.eq_ignore_ascii_case(b"application/x-www-form-urlencoded")
}

/// The value of Authorization for Keycloak. None without the field, and where it is there twice, because
/// Keycloak and the upstream could each take a different one.
fn authorization(exchange: &Exchange) -> Option<String> {
    let mut values = exchange.request.headers.get_all_known(FieldId::Authorization);
    let value = str::from_utf8(values.next()?).ok().filter(|_| values.next().is_none())?;
    let has_scheme = value.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer "));
    Some(if has_scheme { value.to_owned() } else { format!("Bearer {value}") })
}

/// The form that asks for a decision. The scope joins those that a permission has already.
fn decision_form(config: &AuthzKeycloakConfig, permissions: &[String], scope: Option<&str>) -> String {
    let with_scope = |permission: &String| match scope {
        None => permission.clone(),
        Some(scope) if permission.contains('#') => format!("{permission}, {scope}"),
        Some(scope) => format!("{permission}#{scope}"),
    };
    let permissions: Vec<String> = permissions.iter().map(with_scope).collect();
    let mut form = vec![
        ("grant_type", config.grant_type.word()),
        ("audience", &*config.client_id),
        ("response_mode", "decision"),
    ];
    form.extend(permissions.iter().map(|permission| ("permission", &**permission)));
    api_call::encode_form(form)
}

/// Whether a body says that the permissions are granted. A page of another server does not.
fn is_consent(body: &[u8]) -> bool {
    let said: Option<Value> = jsonx::read(body, Bounds::SMALL).ok();
    said.is_some_and(|said| said.is_object() && said.get("result") != Some(&Value::Bool(false)))
}

/// Keycloak's words where there is no permission to ask it for.
const NOT_AUTHORIZED: &str = r#"{"error":"access_denied","error_description":"not_authorized"}"#;

#[cfg(test)]
mod tests;
