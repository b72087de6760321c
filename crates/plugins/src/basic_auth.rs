//! # basic-auth
//!
//! Accepts requests that present the name and the password of a consumer in `Authorization: Basic …` (RFC
//! 7617), and names the consumer to the upstream.
//!
//! On a route, service, plugin config, consumer group or global rule:
//!
//! ```json
//! {
//!     "hide_credentials": true,
//!     "realm": "internal"
//! }
//! ```
//!
//! On a consumer or, better, on a credential of its own:
//!
//! ```json
//! {
//!     "username": "foo",
//!     "password": "a-long-random-text"
//! }
//! ```
//!
//! `username` is the name that the client sends; it need not be the consumer's name. The password ends with
//! the field, and may contain colons. White space in what the client sends is ignored, as in APISIX, if the
//! text as sent is not right, because tools often encode a line break at its end. This holds inside too: `ja
//! ck` and `p w` are accepted for `jack` and `pw`, so that white space in a password adds nothing to it.
//!
//! A request without the field, with a malformed one or with a wrong name or password is answered with 401, a
//! `WWW-Authenticate` field that names `realm`, and the reason as `{"message": "…"}`; or it passes as the
//! consumer `anonymous_consumer`, if one is set. A wrong password and an unknown name give the same answer
//! after the same work. A request with two `Authorization` fields is always refused. `hide_credentials`
//! removes the field before the request is forwarded.
//!
//! For a request that passes, the upstream receives `X-Consumer-Username`, `X-Credential-Identifier` and
//! `X-Consumer-Custom-ID` as with `key-auth`.
//!
//! A consumer with a reference to a secret (`$env://…`, `$secret://…`) that cannot be resolved is not found.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::{BASE64, BASE64_NOPAD};
use exchange::Exchange;
use exchange::exchange::Consumer;
use exchange::plugin::{Build, Explained, Flow, Plugin, PluginKind, PluginPhase, explain_by_running};
use serde_json::{Value, json};
use subtle::ConstantTimeEq;

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::authentication::places::{self, Doubled};
use crate::shared::authentication::{Authentication, AuthenticationRefusal, REALM_PATTERN, find_consumer};
use crate::shared::config;

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new(NAME, 2520, &[PluginPhase::Rewrite], BasicAuthConfig::schema, build)
        .checked(|config| compile(config).map(drop))
        .authenticates(consumer_schema, &["username"])
        .documented(include_str!("basic_auth.rs"));

attributes! {
    struct BasicAuthConfig {
        /// Whether the upstream is kept from seeing the credentials.
        hide_credentials: bool = false;
        /// The realm that WWW-Authenticate names.
        realm: String = "basic".into(), {"pattern": REALM_PATTERN, "minLength": 1, "maxLength": 128};
        /// The consumer that requests without good credentials count as; without it they are refused.
        anonymous_consumer: Option<Box<str>>, {"minLength": 1};
    }
    {"title": "Let in requests with a consumer's name and password"}
}

fn consumer_schema() -> Value {
    json!({
        "type": "object",
        "title": "A consumer's name and password",
        "properties": {
            "username": {
                "type": "string",
                "minLength": 1,
                "description": "The name that the client sends. No two consumers may have the same."
            },
            "password": { "type": "string", "minLength": 1, "description": "The password." }
        },
        "encrypt_fields": ["password"],
        "required": ["username", "password"]
    })
}

struct BasicAuth {
    hide_credentials: bool,
    authentication: Authentication,
}

const MISSING: AuthenticationRefusal = AuthenticationRefusal::new("Missing authorization in request");
const MALFORMED: AuthenticationRefusal = AuthenticationRefusal::new("Invalid authorization in request");
const UNKNOWN: AuthenticationRefusal = AuthenticationRefusal::new("Invalid user authorization");
const DOUBLED: AuthenticationRefusal =
    AuthenticationRefusal::doubled("More than one authorization in request");

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(compile(config)?))
}

fn compile(config: &Value) -> Result<BasicAuth, String> {
    let config: BasicAuthConfig = config::parse_config(config)?;
    Ok(BasicAuth {
        hide_credentials: config.hide_credentials,
        authentication: Authentication::new("Basic", &config.realm, config.anonymous_consumer),
    })
}

impl Plugin for BasicAuth {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        match find(exchange) {
            Ok(consumer) => {
                self.hide(exchange);
                self.authentication.admit(exchange, consumer)
            }
            Err(refusal) => self.authentication.refuse(exchange, refusal, |exchange| self.hide(exchange)),
        }
    }

    fn explain(&self, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
        explain_by_running(self, exchange, phase)
    }
}

impl BasicAuth {
    fn hide(&self, exchange: &mut Exchange) {
        if self.hide_credentials {
            places::hide_field(exchange, "Authorization");
        }
    }
}

/// The consumer of the request's name and password.
fn find(exchange: &Exchange) -> Result<Arc<Consumer>, AuthenticationRefusal> {
    let field =
        places::read_single_field(exchange, "Authorization").map_err(|Doubled| DOUBLED)?.ok_or(MISSING)?;
    let decoded = decode(field).ok_or(MALFORMED)?;
    if let Some(consumer) = verify(exchange, &decoded)? {
        return Ok(consumer);
    }
    let compact: Vec<u8> = decoded.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    if compact.len() == decoded.len() {
        return Err(UNKNOWN);
    }
    verify(exchange, &compact)?.ok_or(UNKNOWN)
}

/// The decoded credentials of a field with the scheme `Basic`, in any case.
fn decode(field: &[u8]) -> Option<Vec<u8>> {
    let (scheme, text) = field.split_at_checked(b"Basic ".len())?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let text = text.trim_ascii();
    BASE64.decode(text).or_else(|_| BASE64_NOPAD.decode(text)).ok()
}

/// The consumer of `name:password`, if there is one with this password. The comparison takes the same time
/// for every password and for names without a consumer.
fn verify(exchange: &Exchange, credentials: &[u8]) -> Result<Option<Arc<Consumer>>, AuthenticationRefusal> {
    let colon = credentials.iter().position(|byte| *byte == b':').ok_or(MALFORMED)?;
    let (name, password) = (&credentials[..colon], &credentials[colon + 1..]);
    if password.is_empty() {
        return Err(MALFORMED);
    }
    let consumer = std::str::from_utf8(name).ok().and_then(|name| find_consumer(exchange, NAME, name));
    let expected = consumer.as_ref().and_then(|consumer| consumer.auth_conf["password"].as_str());
    let given = digest(&SHA256, password);
    let is_equal = digest(&SHA256, expected.unwrap_or_default().as_bytes()).as_ref().ct_eq(given.as_ref());
    let is_good = expected.is_some() && bool::from(is_equal);
    Ok(consumer.filter(|_| is_good))
}

const NAME: &str = "basic-auth";

#[cfg(test)]
mod tests;
