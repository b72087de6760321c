//! # csrf
//!
//! Refuses requests that another site makes a browser send: a request that changes something must repeat a
//! signed token of a cookie in a field, which other sites cannot read.
//!
//! ```json
//! {
//!     "key": "a-long-random-text",
//!     "expires": 7200,
//!     "name": "csrf-token"
//! }
//! ```
//!
//! Every response sets the cookie `name` with a new token. A request with another method than GET, HEAD or
//! OPTIONS must have the token in the cookie and, with the same text, in the field `name`, `expires` seconds
//! after it was made at most; 0 or less means without end. A token that was made more than a minute in the
//! future is refused. Otherwise it is answered with 401 and the reason as `{"error_msg": "…"}`. A request
//! with two such cookies or fields is refused. Without an end the cookie lasts as long as the browser runs.
//!
//! The token is base64 of a JSON object with `random`, `expires` (the time it was made, in seconds) and
//! `sign`, the SHA-256 of both with `key`. It has the form that APISIX makes, so that both accept each
//! other's tokens.

use std::fmt::Write as _;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::{BASE64, BASE64_NOPAD, HEXLOWER};
use exchange::Exchange;
use exchange::plugin::{
    BufferedReply, Build, Explained, Flow, Plugin, PluginKind, PluginPhase, ResponseStep, explain_by_running,
};
use jsonx::Bounds;
use message::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use stdx::clock::HttpDate;
use subtle::ConstantTimeEq;

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::authentication::places;
use crate::shared::config::{self, is_reference};
use crate::shared::fields::is_token;

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new(NAME, 2980, &[PluginPhase::Access, PluginPhase::ResponseHead], CsrfConfig::schema, build)
        .checked(|config| compile(config).map(drop))
        .documented(include_str!("csrf.rs"));

attributes! {
    struct CsrfConfig {
        /// The secret that signs tokens.
        key: String, { "minLength": 1 };
        /// Seconds that a token is accepted; 0 or less: without end.
        expires: i64 = 7200;
        /// The name of the cookie and of the field.
        name: Box<str> = "apisix-csrf-token".into();
    }
    {"title": "Ask for a token that other sites cannot read", "encrypt_fields": ["key"]}
}

struct Csrf {
    key: String,
    expires_s: i64,
    name: Box<str>,
}

/// A token inside its base64. The numbers keep their text, because the signature covers it.
#[derive(Deserialize)]
struct CsrfToken<'t> {
    #[serde(borrow)]
    random: &'t RawValue,
    #[serde(borrow)]
    expires: &'t RawValue,
    sign: &'t str,
}

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(compile(config)?))
}

fn compile(config: &Value) -> Result<Csrf, String> {
    let config: CsrfConfig = config::parse_config(config)?;
    if !is_token(&config.name) && !is_reference(&config.name) {
        return Err(format!("name: `{}` is no name of a cookie and a field", config.name));
    }
    Ok(Csrf { key: config.key, expires_s: config.expires, name: config.name })
}

impl Plugin for Csrf {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        if matches!(exchange.request.method, Method::Get | Method::Head | Method::Options) {
            return Flow::Continue;
        }
        match self.check(exchange) {
            Ok(()) => Flow::Continue,
            Err(reason) => Flow::reply(BufferedReply::json(401, &json!({ "error_msg": reason }))),
        }
    }

    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        let now_s = now_s(exchange);
        let mut cookie = format!("{}={};path=/;SameSite=Lax", self.name, self.token(now_s));
        if let Ok(expires_s @ 1..) = u64::try_from(self.expires_s) {
            let mut date = HttpDate::new();
            let until = String::from_utf8_lossy(date.at(now_s.saturating_add(expires_s).min(DATE_MAX_S)));
            let _ = write!(cookie, ";Expires={until}");
        }
        // Fails only if the response has as many fields as are allowed; then the client keeps its last token.
        let _ = exchange.response.headers.append("Set-Cookie", cookie.as_bytes());
        ResponseStep::Done
    }

    fn explain(&self, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
        explain_by_running(self, exchange, phase)
    }
}

impl Csrf {
    /// Compares the tokens of field and cookie.
    fn check(&self, exchange: &Exchange) -> Result<(), &'static str> {
        const MISMATCH: &str = "csrf token mismatch";
        let field = places::read_single_field(exchange, &self.name).map_err(|_| MISMATCH)?;
        let field = field.filter(|field| !field.is_empty()).ok_or("no csrf token in headers")?;
        let cookie = places::cookie(exchange, &self.name).map_err(|_| MISMATCH)?.ok_or("no csrf cookie")?;
        if !bool::from(field.ct_eq(cookie)) {
            return Err(MISMATCH);
        }
        if self.is_good(cookie, now_s(exchange)) {
            Ok(())
        } else {
            Err("Failed to verify the csrf token signature")
        }
    }

    fn is_good(&self, text: &[u8], now_s: u64) -> bool {
        let Ok(json) = BASE64.decode(text).or_else(|_| BASE64_NOPAD.decode(text)) else { return false };
        let Ok(token) = jsonx::read::<CsrfToken<'_>>(&json, Bounds::SMALL) else { return false };
        let number = |raw: &RawValue| raw.get().parse::<f64>().ok();
        let (Some(_), Some(made_s)) = (number(token.random), number(token.expires)) else { return false };
        let age_s = now_s as f64 - made_s;
        // A token from the future would be accepted until then, whatever `expires` says.
        if !(-AHEAD_MAX_S..).contains(&age_s) || (self.expires_s > 0 && age_s > self.expires_s as f64) {
            return false;
        }
        let sign = self.sign(token.random.get(), token.expires.get());
        sign.as_bytes().ct_eq(token.sign.as_bytes()).into()
    }

    /// A new token.
    fn token(&self, now_s: u64) -> String {
        let mut bytes = [0; 8];
        // Without random numbers of the system the time alone makes tokens different; the signature protects
        // them.
        let _ = aws_lc_rs::rand::fill(&mut bytes);
        // 14 digits, as APISIX writes numbers.
        let random = format!("0.1{:013}", u64::from_le_bytes(bytes) % 10_000_000_000_000);
        let random = random.trim_end_matches('0');
        let made = now_s.to_string();
        let sign = self.sign(random, &made);
        let json = format!("{{\"random\":{random},\"expires\":{made},\"sign\":\"{sign}\"}}");
        BASE64.encode(json.as_bytes())
    }

    fn sign(&self, random: &str, made: &str) -> String {
        let text = format!("{{expires:{made},random:{random},key:{}}}", self.key);
        HEXLOWER.encode(digest(&SHA256, text.as_bytes()).as_ref())
    }
}

/// Seconds since the Unix epoch.
fn now_s(exchange: &Exchange) -> u64 {
    let local = exchange.local();
    local.wall_at(local.recent_ns()).0
}

const NAME: &str = "csrf";
/// Seconds that the clock of the gateway that made a token may be ahead.
const AHEAD_MAX_S: f64 = 60.0;
/// The last second of the year 9999: the form of dates in fields has four digits for the year.
const DATE_MAX_S: u64 = 253_402_300_799;

#[cfg(test)]
mod tests;
