//! # key-auth
//!
//! Accepts requests that present the key of a consumer, in a header field or in the query, and names the
//! consumer to the upstream.
//!
//! On a route, service, plugin config, consumer group or global rule:
//!
//! ```json
//! {
//!     "header": "apikey",
//!     "query": "apikey",
//!     "hide_credentials": true
//! }
//! ```
//!
//! On a consumer or, better, on a credential of its own:
//!
//! ```json
//! {
//!     "key": "a-long-random-text"
//! }
//! ```
//!
//! The key is taken from the field `header`, or, if the request has no such field, from the query argument
//! `query`. An empty key is none: a consumer cannot have one, and a field without a value finds no consumer,
//! even beside a key in the query. With `bearer_token` the field is `Authorization` and its value `Bearer `
//! and the key. `hide_credentials` removes the field or argument that held the key before the request is
//! forwarded; from a request that passes as `anonymous_consumer` it removes both.
//!
//! A request without a key, or with an unknown key, is answered with 401, a `WWW-Authenticate` field that
//! names `realm`, and the reason as `{"message": "…"}`; or it passes as the consumer `anonymous_consumer`, if
//! one is set, with the plugins and limits of that consumer. A request that presents two keys in one place is
//! always refused, because two readers could each use a different key.
//!
//! For a request that passes, the upstream receives `X-Consumer-Username`, `X-Credential-Identifier` (the
//! credential's id, if the key belongs to a credential) and `X-Consumer-Custom-ID` (the consumer's label
//! `custom_id`, if it has one); fields of these names that the client sent are removed.
//!
//! A consumer's key that is written as a reference to a secret (`$env://…`, `$secret://…`) and cannot be
//! resolved grants no access: the text of the reference is not a key.
//!
//! Keys are found by a hash over the whole key with a secret seed, so that the time of a look-up does not
//! show how much of a guessed key is right.

use std::borrow::Cow;
use std::sync::Arc;

use exchange::Exchange;
use exchange::exchange::Consumer;
use exchange::plugin::{Build, Explained, Flow, Plugin, PluginKind, PluginPhase, explain_by_running};
use serde_json::{Value, json};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::authentication::places::{self, Doubled};
use crate::shared::authentication::{Authentication, AuthenticationRefusal, REALM_PATTERN, find_consumer};
use crate::shared::config;

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new(NAME, 2500, &[PluginPhase::Rewrite], KeyAuthConfig::schema, build)
        .checked(|config| compile(config).map(drop))
        .authenticates(consumer_schema, &["key"])
        .documented(include_str!("key_auth.rs"));

attributes! {
    struct KeyAuthConfig {
        /// The request field that holds the key.
        header: Box<str> = "apikey".into();
        /// The query argument that holds the key where the field is missing.
        query: Box<str> = "apikey".into();
        /// The realm that WWW-Authenticate names.
        realm: String = "key".into(), {"pattern": REALM_PATTERN, "minLength": 1, "maxLength": 128};
        /// Whether the node is kept from seeing the key.
        hide_credentials: bool = false;
        /// Takes the key from Authorization, behind the word Bearer, instead of from header.
        bearer_token: bool = false;
        /// The consumer that requests without a good key count as; without it they are refused.
        anonymous_consumer: Option<Box<str>>, {"minLength": 1};
    }
    {"title": "Let in who presents a consumer's key"}
}

fn consumer_schema() -> Value {
    json!({
        "type": "object",
        "title": "A consumer's key",
        "properties": {
            "key": {
                "type": "string",
                "minLength": 1,
                "description": "The key. No two consumers may have the same."
            }
        },
        "encrypt_fields": ["key"],
        "required": ["key"]
    })
}

struct KeyAuth {
    header: Box<str>,
    query: Box<str>,
    hide_credentials: bool,
    bearer_token: bool,
    authentication: Authentication,
}

/// Where a key was found.
#[derive(Clone, Copy)]
enum KeyLocation {
    Header,
    Query,
}

const MISSING: AuthenticationRefusal = AuthenticationRefusal::new("Missing API key in request");
const DOUBLED: AuthenticationRefusal = AuthenticationRefusal::doubled("More than one API key in request");
const NOT_BEARER: AuthenticationRefusal = AuthenticationRefusal::new("Invalid Bearer token format");
const UNKNOWN: AuthenticationRefusal = AuthenticationRefusal::new("Invalid API key in request");

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(compile(config)?))
}

fn compile(config: &Value) -> Result<KeyAuth, String> {
    let config: KeyAuthConfig = config::parse_config(config)?;
    let header = if config.bearer_token { "Authorization".into() } else { config.header };
    let scheme = if config.bearer_token { "Bearer" } else { "apikey" };
    Ok(KeyAuth {
        header,
        query: config.query,
        hide_credentials: config.hide_credentials,
        bearer_token: config.bearer_token,
        authentication: Authentication::new(scheme, &config.realm, config.anonymous_consumer),
    })
}

impl Plugin for KeyAuth {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        match self.find(exchange) {
            Ok((consumer, place)) => {
                self.hide(exchange, place);
                self.authentication.admit(exchange, consumer)
            }
            // A key that is unknown here may be valid elsewhere, so the node must not receive it either.
            Err(refusal) => self.authentication.refuse(exchange, refusal, |exchange| {
                self.hide(exchange, KeyLocation::Header);
                self.hide(exchange, KeyLocation::Query);
            }),
        }
    }

    fn explain(&self, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
        explain_by_running(self, exchange, phase)
    }
}

impl KeyAuth {
    /// The consumer of the request's key, and the place of the key.
    fn find(&self, exchange: &Exchange) -> Result<(Arc<Consumer>, KeyLocation), AuthenticationRefusal> {
        let field = places::read_single_field(exchange, &self.header).map_err(|Doubled| DOUBLED)?;
        let (key, place) = match field {
            Some(value) if self.bearer_token => {
                (Cow::from(value.strip_prefix(b"Bearer ").ok_or(NOT_BEARER)?), KeyLocation::Header)
            }
            Some(value) => (Cow::from(value), KeyLocation::Header),
            None => {
                let argument = places::argument(exchange, &self.query).map_err(|Doubled| DOUBLED)?;
                (argument.ok_or(MISSING)?, KeyLocation::Query)
            }
        };
        let key = std::str::from_utf8(&key).map_err(|_| UNKNOWN)?;
        Ok((find_consumer(exchange, NAME, key).ok_or(UNKNOWN)?, place))
    }

    /// Removes the key from the request, where the configuration says so.
    fn hide(&self, exchange: &mut Exchange, place: KeyLocation) {
        match place {
            _ if !self.hide_credentials => {}
            KeyLocation::Header => places::hide_field(exchange, &self.header),
            KeyLocation::Query => places::hide_argument(exchange, &self.query),
        }
    }
}

const NAME: &str = "key-auth";

#[cfg(test)]
mod tests;
