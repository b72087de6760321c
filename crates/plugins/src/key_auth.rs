//! # key-auth
//!
//! Accepts requests that present the key of a consumer, in a header field or in the query, and names the consumer to the
//! upstream.
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
//! The key is taken from the field `header`, or, if the request has no such field, from the query argument `query`.
//! With `bearer_token` the field is `Authorization` and its value `Bearer ` and the key. `hide_credentials` removes the
//! field or argument that held the key before the request is forwarded; from a request that passes as
//! `anonymous_consumer` it removes both.
//!
//! A request without a key, or with an unknown key, is answered with 401, a `WWW-Authenticate` field that names
//! `realm`, and the reason as `{"message": "…"}`; or it passes as the consumer `anonymous_consumer`, if one is set,
//! with the plugins and limits of that consumer. A request that presents two keys in one place is always refused,
//! because two readers could each use a different key.
//!
//! For a request that passes, the upstream receives `X-Consumer-Username`, `X-Credential-Identifier` (the credential's
//! id, if the key belongs to a credential) and `X-Consumer-Custom-ID` (the consumer's label `custom_id`, if it has
//! one); fields of these names that the client sent are removed.
//!
//! A consumer's key that is written as a reference to a secret (`$env://…`, `$secret://…`) and cannot be resolved
//! grants no access: the text of the reference is not a key.
//!
//! Keys are found by a hash over the whole key with a secret seed, so that the time of a look-up does not show how much
//! of a guessed key is right.

use std::borrow::Cow;
use std::sync::Arc;

use exchange::Exchange;
use exchange::exchange::Consumer;
use exchange::plugin::{Build, Flow, Phase, Plugin, PluginKind, Reply};
use serde_json::{Value, json};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config::{self, is_reference};
use crate::shared::consumer::set_consumer_headers;
use crate::shared::query::{arguments, decode};

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(NAME, 2500, &[Phase::Rewrite], Config::schema, build)
    .checked(|config| compile(config).map(drop))
    .authenticates(consumer_schema, &["key"])
    .documented(include_str!("key_auth.rs"));

attributes! {
    struct Config {
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
    anonymous_consumer: Option<Box<str>>,
    /// The value of `WWW-Authenticate`.
    challenge: Box<str>,
}

/// Where a key was found.
#[derive(Clone, Copy)]
enum Place {
    Header,
    Query,
}

/// Why a request is not authenticated.
enum Refusal {
    Missing,
    Doubled,
    NotBearer,
    Unknown,
}

impl Refusal {
    fn message(&self) -> &'static str {
        match self {
            Refusal::Missing => "Missing API key in request",
            Refusal::Doubled => "More than one API key in request",
            Refusal::NotBearer => "Invalid Bearer token format",
            Refusal::Unknown => "Invalid API key in request",
        }
    }
}

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(compile(config)?))
}

fn compile(config: &Value) -> Result<KeyAuth, String> {
    let config: Config = config::parse(config)?;
    let header = if config.bearer_token { "Authorization".into() } else { config.header };
    let scheme = if config.bearer_token { "Bearer" } else { "apikey" };
    let realm = config.realm;
    Ok(KeyAuth {
        header,
        query: config.query,
        hide_credentials: config.hide_credentials,
        bearer_token: config.bearer_token,
        anonymous_consumer: config.anonymous_consumer,
        challenge: format!("{scheme} realm=\"{realm}\"").into(),
    })
}

impl Plugin for KeyAuth {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let consumer = match self.find(exchange) {
            Ok((consumer, place)) => {
                if self.hide_credentials {
                    self.hide(exchange, place);
                }
                consumer
            }
            Err(refusal) => match (&self.anonymous_consumer, &refusal) {
                (None, _) | (_, Refusal::Doubled) => return self.refuse(refusal.message()),
                (Some(name), _) => {
                    // A key that is unknown here may be valid elsewhere, so the node must not receive it either.
                    if self.hide_credentials {
                        self.hide(exchange, Place::Header);
                        self.hide(exchange, Place::Query);
                    }
                    match exchange.consumer_named(name) {
                        Some(consumer) => consumer,
                        None => return self.refuse("Invalid user authorization"),
                    }
                }
            },
        };
        set_consumer_headers(exchange, &consumer);
        exchange.authenticate(consumer);
        Flow::Continue
    }
}

impl KeyAuth {
    /// The consumer of the request's key, and the place of the key.
    fn find(&self, exchange: &Exchange) -> Result<(Arc<Consumer>, Place), Refusal> {
        let mut fields = exchange.request.headers.get_all(&self.header);
        let (key, place) = match (fields.next(), fields.next()) {
            (Some(_), Some(_)) => return Err(Refusal::Doubled),
            (Some(value), None) if self.bearer_token => {
                (Cow::from(value.strip_prefix(b"Bearer ").ok_or(Refusal::NotBearer)?), Place::Header)
            }
            (Some(value), None) => (Cow::from(value), Place::Header),
            (None, _) => (self.find_argument(exchange)?, Place::Query),
        };
        let key = std::str::from_utf8(&key).map_err(|_| Refusal::Unknown)?;
        if is_reference(key) {
            return Err(Refusal::Unknown);
        }
        Ok((exchange.find_consumer(NAME, key).ok_or(Refusal::Unknown)?, place))
    }

    fn find_argument<'e>(&self, exchange: &'e Exchange) -> Result<Cow<'e, [u8]>, Refusal> {
        let query = exchange.forward_query().ok_or(Refusal::Missing)?;
        let mut values =
            arguments(query).filter(|(_, name, _)| self.is_key_argument(name)).map(|(.., value)| value);
        match (values.next(), values.next()) {
            (None, _) => Err(Refusal::Missing),
            (Some(value), None) => Ok(decode(value)),
            (Some(_), Some(_)) => Err(Refusal::Doubled),
        }
    }

    fn is_key_argument(&self, name: &[u8]) -> bool {
        *decode(name) == *self.query.as_bytes()
    }

    /// Removes the key from the request; the rest of the query stays as it was sent.
    fn hide(&self, exchange: &mut Exchange, place: Place) {
        match place {
            Place::Header => {
                exchange.request.headers.remove(&self.header);
            }
            Place::Query => {
                let Some(query) = exchange.forward_query() else { return };
                if !arguments(query).any(|(_, name, _)| self.is_key_argument(name)) {
                    return;
                }
                let kept = arguments(query).filter(|(_, name, _)| !self.is_key_argument(name));
                let kept: Vec<&[u8]> = kept.map(|(whole, ..)| whole).collect();
                let kept = kept.join(&b'&');
                exchange.set_forward_query(&kept).expect("parts of a query can stand in a query");
            }
        }
    }

    fn refuse(&self, message: &str) -> Flow<'static> {
        Flow::reply(Reply::message(401, message).with_header("WWW-Authenticate", &*self.challenge))
    }
}

const NAME: &str = "key-auth";
/// Printable ASCII that needs no escape in a quoted string (RFC 9110 section 5.6.4).
const REALM_PATTERN: &str = r"^[\x20-\x21\x23-\x5B\]-\x7E]+$";

#[cfg(test)]
mod tests;
