//! # jwt-auth
//!
//! Accepts requests with a JSON Web Token that a consumer's secret or key signed, and names the consumer to
//! the upstream.
//!
//! On a route, service, plugin config, consumer group or global rule:
//!
//! ```json
//! {
//!     "header": "authorization",
//!     "key_claim_name": "iss",
//!     "claims_to_verify": ["exp"],
//!     "hide_credentials": true
//! }
//! ```
//!
//! On a consumer or, better, on a credential of its own:
//!
//! ```json
//! {
//!     "key": "issuer-of-jack",
//!     "secret": "at-least-32-bytes-that-are-random",
//!     "algorithm": "HS256"
//! }
//! ```
//!
//! The token is taken from the field `header`, with or without `Bearer `, or, if the request has no such
//! field, from the query argument `query`, or else from the cookie `cookie`. Its claim `key_claim_name` is
//! the `key` of a consumer.
//!
//! **Keys.** `HS256`, `HS384` and `HS512` need `secret`, which is base64 with `base64_secret`. `RS…`, `PS…`
//! (RSA with 2048 to 8192 bits), `ES256`, `ES384`, `ES512` and `EdDSA` (Ed25519) need `public_key`: PEM of a
//! public key or of a certificate, or a JWK as text. A key that does not fit `algorithm` is refused when it
//! is written. The token must name the algorithm of its consumer, so that a token without a signature, or one
//! that takes the public key for a secret, is refused. Ed448 and shorter RSA keys are not supported.
//!
//! **Claims.** `exp` and `nbf` are checked where the token has them, `lifetime_grace_period` seconds of the
//! consumer later or earlier; those in `claims_to_verify` must be there. With `store_in_ctx` plugins that run
//! later, and the access log, can read the claims as variables: `$jwt_claim_sub` is the claim `sub`. Numbers
//! keep all their digits.
//!
//! **Answers.** A request without a good token is answered with 401, a `WWW-Authenticate` field that names
//! `realm`, and `{"message": "…"}`; or it passes as the consumer `anonymous_consumer`, if one is set. A
//! request with two tokens in one place is always refused. `hide_credentials` removes the token before the
//! request is forwarded. A token may have 16 KiB and 32 levels of objects and arrays.
//!
//! For a request that passes, the upstream receives `X-Consumer-Username`, `X-Credential-Identifier` and
//! `X-Consumer-Custom-ID` as with `key-auth`.
//!
//! Each worker keeps the tokens that it has verified, up to 8 MiB of them, so that a token that comes again
//! costs no signature. A consumer's new key makes its tokens be verified anew. Weir issues no tokens; `exp`
//! of a consumer, the lifetime of issued tokens, has no effect.

mod credential;

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use exchange::Exchange;
use exchange::exchange::Consumer;
use exchange::plugin::{Build, Explained, Flow, Plugin, PluginKind, PluginPhase, explain_by_running};
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::authentication::places::{self, Doubled};
use crate::shared::authentication::{Authentication, AuthenticationRefusal, REALM_PATTERN, find_consumer};
use crate::shared::config;
use crate::shared::jwt::{ClaimRules, JsonWebToken, TimeClaim, TokenFault, VerifiedTokens};
use credential::Credential;

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new(NAME, 2510, &[PluginPhase::Rewrite], JwtAuthConfig::schema, build)
        .checked(|config| compile(config).map(drop))
        .authenticates(credential::schema, &["key"])
        .checked_on_consumers(credential::check)
        .compiling_credentials(credential::compile_jwt_credential)
        .documented(include_str!("jwt_auth.rs"));

attributes! {
    struct JwtAuthConfig {
        /// The request field that holds the token, perhaps behind the word Bearer.
        header: Box<str> = "authorization".into();
        /// The query argument that holds the token where the field is missing.
        query: Box<str> = "jwt".into();
        /// The cookie that holds the token where the field and the argument are missing.
        cookie: Box<str> = "jwt".into();
        /// Whether the upstream is kept from seeing the token.
        hide_credentials: bool = false;
        /// The claim that holds the key of the consumer.
        key_claim_name: String = "key".into(), {"minLength": 1};
        /// Whether later plugins and the log can read the claims, as variables like jwt_claim_sub.
        store_in_ctx: bool = false;
        /// The realm that WWW-Authenticate names.
        realm: String = "jwt".into(), {"pattern": REALM_PATTERN, "minLength": 1, "maxLength": 128};
        /// The consumer that requests without a good token count as; without it they are refused.
        anonymous_consumer: Option<Box<str>>, {"minLength": 1};
        /// Claims that a token must have. A claim that is not listed is checked only where the token has it.
        claims_to_verify: Option<Vec<TimeClaim>>, {"uniqueItems": true};
    }
    {"title": "Let in requests with a consumer's signed token"}
}

struct JwtAuth {
    header: Box<str>,
    query: Box<str>,
    cookie: Box<str>,
    hide_credentials: bool,
    key_claim_name: String,
    store_in_ctx: bool,
    required_claims: Vec<TimeClaim>,
    authentication: Authentication,
}

/// Where a token was found.
#[derive(Clone, Copy)]
enum TokenLocation {
    Header,
    Query,
    Cookie,
}

/// A token as the client sent it, and where.
type Presented<'e> = (Cow<'e, [u8]>, TokenLocation);

/// A token that was verified.
struct VerifiedJwt {
    consumer: Arc<Consumer>,
    token: Rc<JsonWebToken>,
    place: TokenLocation,
}

const MISSING: AuthenticationRefusal = AuthenticationRefusal::new("Missing JWT token in request");
const DOUBLED: AuthenticationRefusal = AuthenticationRefusal::doubled("More than one JWT token in request");
const MALFORMED: AuthenticationRefusal = AuthenticationRefusal::new("JWT token invalid");
const WITHOUT_KEY: AuthenticationRefusal = AuthenticationRefusal::new("missing user key in JWT token");
const UNKNOWN: AuthenticationRefusal = AuthenticationRefusal::new("Invalid user key in JWT token");
const UNVERIFIED: AuthenticationRefusal = AuthenticationRefusal::new("failed to verify jwt");

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(compile(config)?))
}

fn compile(config: &Value) -> Result<JwtAuth, String> {
    let config: JwtAuthConfig = config::parse_config(config)?;
    Ok(JwtAuth {
        header: config.header,
        query: config.query,
        cookie: config.cookie,
        hide_credentials: config.hide_credentials,
        key_claim_name: config.key_claim_name,
        store_in_ctx: config.store_in_ctx,
        required_claims: config.claims_to_verify.unwrap_or_default(),
        authentication: Authentication::new("Bearer", &config.realm, config.anonymous_consumer),
    })
}

impl Plugin for JwtAuth {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        match self.find(exchange) {
            Ok(found) => {
                self.hide(exchange, found.place);
                if self.store_in_ctx {
                    exchange.decision.claims = Some(found.token.exact.clone());
                }
                self.authentication.admit(exchange, found.consumer)
            }
            Err(refusal) => self.authentication.refuse(exchange, refusal, |exchange| {
                for place in [TokenLocation::Header, TokenLocation::Query, TokenLocation::Cookie] {
                    self.hide(exchange, place);
                }
            }),
        }
    }

    fn explain(&self, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
        explain_by_running(self, exchange, phase)
    }
}

impl JwtAuth {
    /// The consumer of the request's token.
    fn find(&self, exchange: &Exchange) -> Result<VerifiedJwt, AuthenticationRefusal> {
        let (raw, place) = self.find_token(exchange).map_err(|Doubled| DOUBLED)?.ok_or(MISSING)?;
        let tokens = VerifiedTokens::of(exchange.local());
        let token = tokens.read(&raw).map_err(|fault| refused(fault, MALFORMED))?;
        let key = token.claims.get(&self.key_claim_name).ok_or(WITHOUT_KEY)?;
        let consumer = key.as_str().and_then(|key| find_consumer(exchange, NAME, key)).ok_or(UNKNOWN)?;
        let credential =
            consumer.compiled.as_deref().and_then(|compiled| compiled.downcast_ref::<Credential>());
        let credential = credential.ok_or(UNVERIFIED)?;
        tokens.verify(&token, &raw, &credential.key).map_err(|fault| refused(fault, UNVERIFIED))?;
        let rules = ClaimRules {
            required: &self.required_claims,
            leeway_s: credential.leeway_s,
            ..ClaimRules::default()
        };
        let local = exchange.local();
        let (now_s, _) = local.wall_at(local.recent_ns());
        rules.check(&token.claims, now_s).map_err(|fault| refused(fault, UNVERIFIED))?;
        Ok(VerifiedJwt { consumer, token, place })
    }

    /// The request's token, without `Bearer `.
    fn find_token<'e>(&self, exchange: &'e Exchange) -> Result<Option<Presented<'e>>, Doubled> {
        if let Some(value) = places::read_single_field(exchange, &self.header)? {
            return Ok(Some((without_scheme(value).into(), TokenLocation::Header)));
        }
        if let Some(value) = places::argument(exchange, &self.query)? {
            return Ok(Some((value, TokenLocation::Query)));
        }
        Ok(places::cookie(exchange, &self.cookie)?.map(|value| (value.into(), TokenLocation::Cookie)))
    }

    /// Removes the token from the request, where the configuration says so.
    fn hide(&self, exchange: &mut Exchange, place: TokenLocation) {
        match place {
            _ if !self.hide_credentials => {}
            TokenLocation::Header => places::hide_field(exchange, &self.header),
            TokenLocation::Query => places::hide_argument(exchange, &self.query),
            TokenLocation::Cookie => places::hide_cookie(exchange, &self.cookie),
        }
    }
}

/// The client learns no more than the contract's message; the log of an operator that looks for the cause has
/// the fault.
fn refused(fault: TokenFault, refusal: AuthenticationRefusal) -> AuthenticationRefusal {
    tracing::debug!(reason = fault.reason(), "jwt-auth refuses a token");
    refusal
}

fn without_scheme(value: &[u8]) -> &[u8] {
    const SCHEME: &[u8] = b"Bearer ";
    match value.split_at_checked(SCHEME.len()) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(SCHEME) => token,
        _ => value,
    }
}

const NAME: &str = "jwt-auth";

#[cfg(test)]
mod tests;
