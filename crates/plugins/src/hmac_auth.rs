//! # hmac-auth
//!
//! Accepts requests that are signed with a consumer's secret, and names the consumer to the upstream. The
//! secret itself is never sent; a signature is valid for parts of one request and for a short time.
//!
//! On a route, service, plugin config, consumer group or global rule:
//!
//! ```json
//! {
//!     "allowed_algorithms": ["hmac-sha256", "hmac-sha512"],
//!     "clock_skew": 60,
//!     "signed_headers": ["date", "@request-target"],
//!     "validate_request_body": true,
//!     "max_req_body_size": 1048576
//! }
//! ```
//!
//! On a consumer or, better, on a credential of its own:
//!
//! ```json
//! {
//!     "key_id": "jacks-key",
//!     "secret_key": "a-long-random-text"
//! }
//! ```
//!
//! The client sends
//!
//! ```text
//! Date: Wed, 25 Nov 2026 12:00:00 GMT
//! Authorization: Signature keyId="jacks-key",algorithm="hmac-sha256",headers="@request-target date",signature="…"
//! ```
//!
//! where the signature is the base64 form of the HMAC of these lines, each with a line feed behind it: the
//! key id; then for each name in `headers`, the method and the target as sent for `@request-target`, and
//! `name: value` for a field. A field that the request lacks adds no line; a field that is there twice is
//! refused.
//!
//! `Date` has to be within `clock_skew` seconds of the gateway's clock. `headers` must name everything in
//! `signed_headers`; with an empty list a client may leave `Date` unsigned, and a captured signature can then
//! be used again.
//!
//! With `validate_request_body` the request needs `Digest: SHA-256=…`, the base64 form of the hash of its
//! body. A client that is to be held to a digest that it signed needs `digest` in `signed_headers`. The body
//! is read after the signature proved good and compared in the access phase; a longer one than
//! `max_req_body_size` bytes is answered with 413, and one with another digest with 401, also where there is
//! an anonymous consumer.
//!
//! A request without a good signature is answered with 401, a `WWW-Authenticate` field that names `realm`,
//! and `{"message": "…"}`; or it passes as the consumer `anonymous_consumer`, if one is set. A request with
//! two `Authorization` fields is always refused. `hide_credentials` removes the field before the request is
//! forwarded. For a request that passes, the upstream receives `X-Consumer-Username`,
//! `X-Credential-Identifier` and `X-Consumer-Custom-ID` as with `key-auth`.

mod digest;
mod signature;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use exchange::Exchange;
use exchange::exchange::Consumer;
use exchange::plugin::{
    BodyNeed, Build, Explained, Flow, PhaseDecision, Plugin, PluginKind, PluginPhase, explain_by_running,
};
use serde_json::{Value, json};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::authentication::places::{self, Doubled};
use crate::shared::authentication::{Authentication, AuthenticationRefusal, REALM_PATTERN, find_consumer};
use crate::shared::config;
use signature::{HmacAlgorithm, Parameters};

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    NAME,
    2530,
    &[PluginPhase::Rewrite, PluginPhase::RequestBody, PluginPhase::Access],
    HmacAuthConfig::schema,
    build,
)
.checked(|config| compile(config).map(drop))
.authenticates(consumer_schema, &["key_id"])
.documented(include_str!("hmac_auth.rs"));

attributes! {
    struct HmacAuthConfig {
        /// The algorithms that a signature may name.
        allowed_algorithms: Vec<HmacAlgorithm> = HmacAlgorithm::ALL.to_vec(), {"minItems": 1};
        /// Seconds that Date may be before or after the gateway's clock.
        clock_skew: u64 = 300, {"minimum": 1};
        /// The fields, or @request-target, that every signature must cover.
        signed_headers: Vec<Box<str>> = vec!["date".into()], {
            "items": {"type": "string", "minLength": 1, "maxLength": 50}
        };
        /// Whether the body must have the hash that the field Digest names.
        validate_request_body: bool = false;
        /// The longest body that is read for this, in bytes; a longer one is answered with 413.
        max_req_body_size: usize = 67_108_864, {"minimum": 1};
        /// Whether the upstream is kept from seeing the signature.
        hide_credentials: bool = false;
        /// The realm that WWW-Authenticate names.
        realm: String = "hmac".into(), {"pattern": REALM_PATTERN, "minLength": 1, "maxLength": 128};
        /// The consumer that requests without a good signature count as; without it they are refused.
        anonymous_consumer: Option<Box<str>>, {"minLength": 1};
    }
    {"title": "Let in requests that are signed with a consumer's secret"}
}

fn consumer_schema() -> Value {
    json!({
        "type": "object",
        "title": "A consumer's secret for signatures",
        "properties": {
            "key_id": {
                "type": "string",
                "minLength": 1,
                "maxLength": 256,
                "description": "The name of the secret, which the client sends. No two consumers may have the same."
            },
            "secret_key": { "type": "string", "minLength": 1, "maxLength": 256, "description": "The secret." }
        },
        "encrypt_fields": ["secret_key"],
        "required": ["key_id", "secret_key"]
    })
}

struct HmacAuth {
    algorithms: Vec<HmacAlgorithm>,
    clock_skew: Duration,
    signed_headers: Vec<Box<str>>,
    /// The longest body that is compared with its digest; none: bodies are not looked at.
    body_bytes_max: Option<usize>,
    hide_credentials: bool,
    authentication: Authentication,
}

const MISSING: AuthenticationRefusal =
    AuthenticationRefusal::new("client request can't be validated: missing Authorization header");
const OTHER_SCHEME: AuthenticationRefusal = AuthenticationRefusal::new(
    "client request can't be validated: Authorization header does not start with 'Signature'",
);
const INVALID: AuthenticationRefusal = AuthenticationRefusal::new("client request can't be validated");
const DOUBLED: AuthenticationRefusal =
    AuthenticationRefusal::doubled("More than one Authorization header in request");

/// The instances that verified the signature of a request and have yet to compare its body, by their
/// addresses: a plugin that runs another one has a different number in the phase that reads the body.
#[derive(Default)]
struct AwaitsBody(Vec<usize>);

/// The number of no instance, for state that belongs to a request and not to an instance.
const NO_INSTANCE: u32 = 0;

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(compile(config)?))
}

fn compile(config: &Value) -> Result<HmacAuth, String> {
    let config: HmacAuthConfig = config::parse_config(config)?;
    Ok(HmacAuth {
        algorithms: config.allowed_algorithms,
        clock_skew: Duration::from_secs(config.clock_skew),
        signed_headers: config.signed_headers,
        body_bytes_max: config.validate_request_body.then_some(config.max_req_body_size),
        hide_credentials: config.hide_credentials,
        authentication: Authentication::new("hmac", &config.realm, config.anonymous_consumer),
    })
}

impl Plugin for HmacAuth {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        match self.find(exchange) {
            Ok(consumer) => {
                if self.body_bytes_max.is_some() {
                    exchange.states.of::<AwaitsBody>(NO_INSTANCE).0.push(self.address());
                }
                self.hide(exchange);
                self.authentication.admit(exchange, consumer)
            }
            Err(refusal) => self.authentication.refuse(exchange, refusal, |exchange| self.hide(exchange)),
        }
    }

    fn wants_request_body(&self, exchange: &Exchange) -> BodyNeed {
        match self.body_bytes_max {
            Some(limit_bytes) if self.awaits_body(exchange) => BodyNeed::Buffer { limit_bytes },
            _ => BodyNeed::None,
        }
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        if self.body_bytes_max.is_none() || !self.awaits_body(exchange) {
            return Flow::Continue;
        }
        let body = exchange.request_body().unwrap_or_default();
        if body.len() <= digest::CHUNK_BYTES {
            return self.compare(exchange, digest::of(body));
        }
        Flow::Wait(Box::pin(async {
            let body = exchange.request_body().unwrap_or_default();
            let computed = digest::in_chunks(body).await;
            match self.compare(exchange, computed) {
                Flow::Reply(reply) => PhaseDecision::Reply(reply),
                _ => PhaseDecision::Continue,
            }
        }))
    }

    fn explain(&self, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
        match phase {
            PluginPhase::Access if self.body_bytes_max.is_some() => {
                Explained::unknown("it compares a digest of the body")
            }
            _ => explain_by_running(self, exchange, phase),
        }
    }
}

impl HmacAuth {
    /// The consumer of the secret that signed the request.
    fn find(&self, exchange: &Exchange) -> Result<Arc<Consumer>, AuthenticationRefusal> {
        let field = places::read_single_field(exchange, "Authorization")
            .map_err(|Doubled| DOUBLED)?
            .ok_or(MISSING)?;
        let parameters = Parameters::read(field.strip_prefix(b"Signature").ok_or(OTHER_SCHEME)?);
        self.verify(exchange, &parameters).map_err(|reason| {
            // The client learns no more than the contract's message; the log of an operator that looks for
            // the cause does.
            tracing::debug!(reason, "hmac-auth refuses a request");
            INVALID
        })
    }

    fn verify(
        &self,
        exchange: &Exchange,
        parameters: &Parameters<'_>,
    ) -> Result<Arc<Consumer>, &'static str> {
        let key_id = parameters.key_id.ok_or("keyId or signature missing")?;
        let signature = parameters.signature.ok_or("keyId or signature missing")?;
        let algorithm = parameters.algorithm.ok_or("algorithm missing")?;
        let consumer = find_consumer(exchange, NAME, key_id).ok_or("Invalid key_id")?;
        let secret = consumer.auth_conf["secret_key"].as_str().ok_or("Invalid key_id")?;
        let algorithm = self.algorithms.iter().find(|own| own.word() == algorithm);
        let algorithm = *algorithm.ok_or("Invalid algorithm")?;
        self.check_date(exchange)?;
        let is_signed = |name: &str| parameters.headers().any(|signed| signed == name);
        if !self.signed_headers.iter().all(|name| is_signed(name)) {
            return Err("expected header missing in signing");
        }
        let message = signature::build_signed_text(exchange, parameters, key_id)?;
        signature::verify_hmac_signature(algorithm, secret, &message, signature)?;
        if self.body_bytes_max.is_some() && single(exchange, "Digest")?.is_none() {
            return Err("Invalid digest");
        }
        Ok(consumer)
    }

    fn check_date(&self, exchange: &Exchange) -> Result<(), &'static str> {
        let date = single(exchange, "Date")?.ok_or("Date header missing. failed to validate clock skew")?;
        let date = std::str::from_utf8(date).ok().and_then(|date| httpdate::parse_http_date(date).ok());
        let date: SystemTime = date.ok_or("Invalid GMT format time")?;
        let local = exchange.local();
        let (now_s, _) = local.wall_at(local.recent_ns());
        let now = UNIX_EPOCH + Duration::from_secs(now_s);
        let apart = now.duration_since(date).unwrap_or_else(|early| early.duration());
        if apart > self.clock_skew { Err("Clock skew exceeded") } else { Ok(()) }
    }

    /// Refuses the request unless `Digest` names the hash of its body.
    fn compare(&self, exchange: &Exchange, computed: String) -> Flow<'static> {
        let is_equal = places::read_single_field(exchange, "Digest")
            .is_ok_and(|named| named == Some(computed.as_bytes()));
        if is_equal { Flow::Continue } else { self.authentication.refuse_with(INVALID.message()) }
    }

    fn awaits_body(&self, exchange: &Exchange) -> bool {
        let waiting = exchange.states.peek::<AwaitsBody>(NO_INSTANCE);
        waiting.is_some_and(|waiting| waiting.0.contains(&self.address()))
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn hide(&self, exchange: &mut Exchange) {
        if self.hide_credentials {
            places::hide_field(exchange, "Authorization");
        }
    }
}

/// The value of a field that a signature depends on; one that is there twice makes the signature invalid.
fn single<'e>(exchange: &'e Exchange, name: &str) -> Result<Option<&'e [u8]>, &'static str> {
    places::read_single_field(exchange, name).map_err(|Doubled| "a field is there twice")
}

const NAME: &str = "hmac-auth";

#[cfg(test)]
mod tests;
