//! Bearer tokens (RFC 6750): where a request has one, and its verification with the keys of the provider or
//! with a configured key. Introspection is in [`super::introspection`].

use std::rc::Rc;

use exchange::Exchange;
use exchange::local::WorkerLocal;
use exchange::plugin::BufferedReply;
use jsonx::Exact;
use message::{FieldId, Headers};
use model::validate::SchemaSteps;
use serde_json::{Value, json};

use super::OpenidConnect;
use super::id_token::unverified;
use super::keys::algorithm_of;
use crate::shared::authentication::places::{self, Doubled};
use crate::shared::jwt::{ClaimRules, JsonWebToken, JwtAlgorithm, VerifiedTokens};

/// The credential of a request.
pub(super) enum BearerCredential {
    Token(String),
    Nothing,
    /// Authorization is malformed, or it or X-Access-Token is there twice.
    Malformed,
}

/// A token that is not accepted.
pub(super) struct TokenRefusal {
    /// The reason in the log.
    pub(super) reason: String,
    /// The reason that the client is told; it holds nothing of the gateway's surroundings.
    pub(super) description: String,
}

impl TokenRefusal {
    /// A reason that both may know.
    pub(super) fn shown(reason: impl Into<String>) -> TokenRefusal {
        let reason = reason.into();
        TokenRefusal { description: reason.clone(), reason }
    }

    /// A reason for the log, and another one for the client.
    pub(super) fn kept(reason: impl Into<String>, description: &str) -> TokenRefusal {
        TokenRefusal { reason: reason.into(), description: description.to_owned() }
    }
}

/// The bearer token of a request: in Authorization or, without that field, in `x_access_token`, which is what
/// the client has sent as X-Access-Token.
pub(super) fn read_bearer_credential(
    headers: &Headers,
    x_access_token: Result<Option<String>, Doubled>,
) -> BearerCredential {
    let mut values = headers.get_all_known(FieldId::Authorization);
    let Some(value) = values.next() else {
        return match x_access_token {
            Ok(Some(token)) => BearerCredential::Token(token),
            Ok(None) => BearerCredential::Nothing,
            Err(Doubled) => BearerCredential::Malformed,
        };
    };
    // Two readers could each take a different one.
    if values.next().is_some() {
        return BearerCredential::Malformed;
    }
    let Some(space) = value.iter().position(|byte| *byte == b' ') else { return BearerCredential::Malformed };
    if !value[..space].eq_ignore_ascii_case(b"bearer") {
        return BearerCredential::Nothing;
    }
    match str::from_utf8(&value[space + 1..]) {
        Ok(token) => BearerCredential::Token(token.trim().to_owned()),
        Err(_) => BearerCredential::Malformed,
    }
}

impl OpenidConnect {
    /// The claims of a bearer token that is verified here.
    ///
    /// # Errors
    /// Why the token is not accepted.
    pub(super) async fn verify_bearer(&self, local: &WorkerLocal, raw: &str) -> Result<Exact, TokenRefusal> {
        let issuers = self.issuers(local).await?;
        let verified = VerifiedTokens::of(local);
        let token = verified
            .read(raw.as_bytes())
            .map_err(|fault| TokenRefusal::shown(format!("invalid jwt: {}", fault.reason())))?;
        let name = algorithm_of(raw).unwrap_or_default();
        let expected = self.config.token_signing_alg_values_expected.as_deref();
        match JwtAlgorithm::from_name(&name) {
            None if name == "none" && self.config.accept_none_alg => {}
            None if name == "none" => {
                return Err(TokenRefusal::shown("token uses 'none' alg but accept_none_alg is not enabled"));
            }
            _ if expected.is_some_and(|expected| expected != name) => {
                return Err(TokenRefusal::shown("token is signed by unexpected algorithm"));
            }
            None => {
                return Err(TokenRefusal::shown(
                    "jwt signature verification failed: algorithm not supported",
                ));
            }
            Some(algorithm) if algorithm.is_symmetric() => {
                return Err(TokenRefusal::shown(
                    "jwt signature verification failed: the token is not signed by a public key",
                ));
            }
            Some(_) => {
                let verifying = self.verify_with_keys(local, &token, raw).await;
                verifying
                    .map_err(|reason| TokenRefusal::kept(reason, "jwt signature verification failed"))?;
            }
        }
        let (now_s, _) = local.wall_at(local.clock_ns());
        let rules =
            ClaimRules { leeway_s: self.config.iat_slack, issuers: &issuers, ..ClaimRules::default() };
        let checked = rules.check(&token.claims, now_s);
        checked
            .map_err(|fault| TokenRefusal::shown(format!("jwt verification failed: {}", fault.reason())))?;
        Ok(Exact::from(&*token.exact))
    }

    /// The issuers that are trusted.
    async fn issuers(&self, local: &WorkerLocal) -> Result<Vec<String>, TokenRefusal> {
        let validator = self.config.claim_validator.as_ref();
        let listed = validator.and_then(|validator| validator.issuer.as_ref()?.valid_issuers.clone());
        match listed {
            Some(listed) if listed.is_empty() => Err(TokenRefusal::shown("no issuer is trusted")),
            Some(listed) => Ok(listed),
            None => match self.provider.discovery(local, &self.client.calls).await {
                Ok(discovery) => Ok(vec![discovery.issuer.clone()]),
                // Without an issuer to compare with, a token of another issuer with the same key would pass.
                Err(reason) => Err(TokenRefusal::kept(reason, "issuer validation unavailable")),
            },
        }
    }

    /// Verifies a signature with the configured key or with those of the provider. Keys of the provider are
    /// fetched anew for a key identifier that is not known, because the provider may have changed its keys.
    ///
    /// # Errors
    /// Why the signature is not accepted, a sentence for the log.
    pub(super) async fn verify_with_keys(
        &self,
        local: &WorkerLocal,
        token: &Rc<JsonWebToken>,
        raw: &str,
    ) -> Result<(), String> {
        let verified = VerifiedTokens::of(local);
        if let Some(keys) = &self.public_keys {
            return keys.verify(&verified, token, raw).map_err(|fault| unverified(&fault.reason()));
        }
        let calls = &self.client.calls;
        let kept_ms = self.config.jwk_expires_in.saturating_mul(1_000);
        let mut keys = self.provider.keys(local, calls, kept_ms).await?;
        if !keys.knows(token)
            && let Some(newer) = self.provider.newer_keys(local, calls, &keys).await?
        {
            keys = newer;
        }
        keys.verify(&verified, token, raw).map_err(|fault| unverified(&fault.reason()))
    }

    /// The answer to a token that is not accepted.
    pub(super) fn challenge(&self, description: &str) -> BufferedReply {
        // The text may come from a schema or from the library; in a quoted string it must not end the string.
        let is_plain = |character: &char| matches!(character, ' '..='~') && !matches!(character, '"' | '\\');
        let description: String = description.chars().filter(is_plain).collect();
        let realm = &self.config.realm;
        let value =
            format!("Bearer realm=\"{realm}\", error=\"invalid_token\", error_description=\"{description}\"");
        BufferedReply::status(401).with_header("WWW-Authenticate", value)
    }

    /// Checks what the token of a request says: scopes, audience and the schema of claims.
    ///
    /// # Errors
    /// The answer to the client, and the reason for the log.
    pub(super) fn authorize_bearer(&self, claims: &Value) -> Result<(), (BufferedReply, String)> {
        if let Some(required) = &self.config.required_scopes {
            let granted = claims.get("scope").and_then(Value::as_str).unwrap_or_default();
            require_scopes(required, granted)?;
        }
        let rules = self.config.claim_validator.as_ref().and_then(|rules| rules.audience.as_ref());
        if let Some(rules) = rules {
            let audience = claims.get(&rules.claim);
            let forbidden = |error: &str, reason: &str| {
                Err((BufferedReply::json(403, &json!({ "error": error })), reason.to_owned()))
            };
            let has_it = match audience {
                Some(Value::Array(listed)) => listed.iter().any(|one| *one == *self.client.id),
                Some(one) => *one == *self.client.id,
                None if rules.required || rules.match_with_client_id => {
                    return forbidden("required audience claim not present", "required audience not present");
                }
                None => false,
            };
            if rules.match_with_client_id && !has_it {
                return forbidden("mismatched audience", "the audience does not match the client id");
            }
        }
        self.check_claims(claims)
    }

    /// Checks the schema of claims.
    ///
    /// # Errors
    /// As [`OpenidConnect::authorize_bearer`].
    pub(super) fn check_claims(&self, claims: &Value) -> Result<(), (BufferedReply, String)> {
        let Some(schema) = &self.claim_schema else { return Ok(()) };
        let faults = schema.faults(claims, &mut SchemaSteps::on_worker());
        let Some(fault) = faults.first() else { return Ok(()) };
        let reason = format!("{} {}", fault.pointer, fault.reason).trim().to_owned();
        Err((self.challenge(&reason), format!("claim validation failed: {reason}")))
    }
}

/// Whether `granted`, scopes separated by spaces, has all of `required`.
///
/// # Errors
/// The answer to the client, and the reason for the log.
pub(super) fn require_scopes(required: &[String], granted: &str) -> Result<(), (BufferedReply, String)> {
    let has = |scope: &String| granted.split_ascii_whitespace().any(|one| one == scope);
    if required.iter().all(has) {
        return Ok(());
    }
    let error = format!("required scopes {} not present", required.join(", "));
    Err((BufferedReply::json(403, &json!({ "error": error })), "required scopes not present".to_owned()))
}

/// The answer to a client that has sent no token.
pub(super) fn no_token(realm: &str) -> BufferedReply {
    BufferedReply::status(401).with_header("WWW-Authenticate", format!("Bearer realm=\"{realm}\""))
}

/// Takes the fields away that only this plugin may set; the X-Access-Token that was among them, or that it
/// was there twice.
pub(super) fn take_fields(exchange: &mut Exchange) -> Result<Option<String>, Doubled> {
    let sent = places::read_single_field(exchange, "x-access-token");
    let text = |value: &[u8]| str::from_utf8(value).ok().map(str::to_owned);
    let token = sent.map(|value| value.and_then(text));
    for name in ["X-Access-Token", "X-Userinfo", "X-ID-Token", "X-Refresh-Token", "X-Raw-ID-Token"] {
        exchange.request.headers.remove(name);
    }
    token
}
