//! # jwe-decrypt
//!
//! Decrypts a JSON Web Encryption token of the request and passes its content on to the upstream in a field.
//!
//! On a route, service, plugin config, consumer group or global rule:
//!
//! ```json
//! {
//!     "header": "Authorization",
//!     "forward_header": "X-Content",
//!     "strict": true
//! }
//! ```
//!
//! On a consumer or, better, on a credential of its own:
//!
//! ```json
//! {
//!     "key": "jacks-key",
//!     "secret": "a-secret-of-exactly-32-bytes-123"
//! }
//! ```
//!
//! The token is in the compact form (RFC 7516) with direct encryption (`"alg": "dir"`) by AES-256 in GCM
//! (`"enc": "A256GCM"`), in the field `header`, with or without `Bearer `. `kid` in its header is the `key`
//! of a consumer, and `secret` its 32 bytes, as text or, with `is_base64_encoded`, in base64. The content
//! replaces the field `forward_header`. A token without `alg` or `enc`, with `zip` or `crit`, or with an
//! encrypted key is malformed.
//!
//! Tokens as RFC 7516 wants them authenticate their header; tokens as APISIX documents them do not. Both are
//! accepted.
//!
//! A request without a token is answered with 403, or passes with `strict` off, without the field
//! `forward_header`. A malformed token, an unknown `kid`, a wrong key, a content that is not valid in a
//! field, and two tokens are answered with 400. The plugin names no consumer: it protects a route only
//! together with another plugin, or if the upstream knows what to make of the content.

mod token;

use std::any::Any;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD};
use exchange::Exchange;
use exchange::plugin::{BufferedReply, Build, Flow, Plugin, PluginKind, PluginPhase};
use serde_json::{Value, json};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::authentication::find_consumer;
use crate::shared::authentication::places::{self, Doubled};
use crate::shared::config::{self, is_reference};
use crate::shared::fields::parse_field_name;
use token::EncryptedToken;

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new(NAME, 2509, &[PluginPhase::Rewrite], JweDecryptConfig::schema, build)
        .checked(|config| compile(config).map(drop))
        .authenticates(consumer_schema, &["key"])
        .checked_on_consumers(check_consumer)
        .compiling_credentials(compile_credential)
        .documented(include_str!("jwe_decrypt.rs"));

attributes! {
    struct JweDecryptConfig {
        /// The request field that holds the token.
        header: Box<str> = "Authorization".into();
        /// The request field that the content is written to.
        forward_header: Box<str> = "Authorization".into();
        /// Whether a request without a token is refused.
        strict: bool = true;
    }
    {"title": "Decrypt a token for the upstream"}
}

fn consumer_schema() -> Value {
    json!({
        "type": "object",
        "title": "A consumer's key for encrypted tokens",
        "properties": {
            "key": {
                "type": "string",
                "minLength": 1,
                "description": "The key id that a token names. No two consumers may have the same."
            },
            "secret": {
                "type": "string",
                "minLength": 1,
                "description": "The 32 bytes that tokens are encrypted with."
            },
            "is_base64_encoded": { "type": "boolean", "description": "The secret is base64." }
        },
        "encrypt_fields": ["key", "secret"],
        "required": ["key", "secret"]
    })
}

fn check_consumer(config: &Value) -> Result<(), String> {
    let is_open = config["secret"].as_str().is_some_and(is_reference);
    if is_open { Ok(()) } else { key(config).map(drop) }
}

fn compile_credential(config: &Value) -> Result<Arc<dyn Any + Send + Sync>, String> {
    let key = UnboundKey::new(&AES_256_GCM, &key(config)?).map_err(|_| "the secret is no key".to_owned())?;
    Ok(Arc::new(LessSafeKey::new(key)))
}

/// The 32 bytes of a consumer's secret.
fn key(config: &Value) -> Result<Vec<u8>, String> {
    let secret = config["secret"].as_str().unwrap_or_default();
    let (bytes, fault) = if config["is_base64_encoded"].as_bool().unwrap_or_default() {
        let text = secret.trim_end_matches('=').as_bytes();
        let decoded = BASE64URL_NOPAD.decode(text).or_else(|_| BASE64_NOPAD.decode(text));
        (decoded.unwrap_or_default(), "the secret length after base64 decode should be 32 chars")
    } else {
        (secret.as_bytes().to_vec(), "the secret length should be 32 chars")
    };
    if bytes.len() == 32 { Ok(bytes) } else { Err(fault.to_owned()) }
}

struct JweDecrypt {
    header: Box<str>,
    forward_header: Box<str>,
    strict: bool,
}

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(compile(config)?))
}

fn compile(config: &Value) -> Result<JweDecrypt, String> {
    let config: JweDecryptConfig = config::parse_config(config)?;
    let field = |written: &str, attribute: &str| {
        parse_field_name(written).map_err(|fault| format!("{attribute}: {fault}"))
    };
    Ok(JweDecrypt {
        header: field(&config.header, "header")?,
        forward_header: field(&config.forward_header, "forward_header")?,
        strict: config.strict,
    })
}

impl Plugin for JweDecrypt {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let content = match places::read_single_field(exchange, &self.header) {
            Ok(None) if self.strict => return refuse(403, "missing JWE token in request"),
            Ok(None) => {
                // The upstream takes the field for the content of a token, and the client may have sent it.
                exchange.request.headers.remove(&self.forward_header);
                return Flow::Continue;
            }
            Ok(Some(value)) => decrypt(exchange, value),
            Err(Doubled) => {
                return Flow::reply(BufferedReply::message(400, "JWE token invalid").into_final());
            }
        };
        let content = match content {
            Ok(content) => content,
            Err(message) => return refuse(400, message),
        };
        match exchange.request.headers.set(&self.forward_header, &content) {
            Ok(()) => Flow::Continue,
            Err(_) => refuse(400, "failed to decrypt JWE token"),
        }
    }
}

/// The content of the token in `value`.
fn decrypt(exchange: &Exchange, value: &[u8]) -> Result<Vec<u8>, &'static str> {
    const SCHEME: &[u8] = b"Bearer ";
    let raw = match value.split_at_checked(SCHEME.len()) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(SCHEME) => token,
        _ => value,
    };
    let token = EncryptedToken::read(raw).ok_or("JWE token invalid")?;
    let key_id = token.key_id().ok_or("missing kid in JWE token")?;
    let consumer = find_consumer(exchange, NAME, key_id).ok_or("invalid kid in JWE token")?;
    let key = consumer.compiled.as_deref().and_then(|compiled| compiled.downcast_ref::<LessSafeKey>());
    let content = key.and_then(|key| token.decrypt(key));
    content.ok_or("failed to decrypt JWE token")
}

fn refuse(status: u16, message: &str) -> Flow<'static> {
    Flow::reply(BufferedReply::message(status, message))
}

const NAME: &str = "jwe-decrypt";

#[cfg(test)]
mod tests;
