//! # api-breaker
//!
//! Answers in place of an upstream that fails, for a time that doubles while it goes on failing.
//!
//! ```json
//! {
//!   "break_response_code": 502,
//!   "break_response_body": "{\"message\": \"try again later\"}",
//!   "break_response_headers": [{ "key": "Content-Type", "value": "application/json" }],
//!   "max_breaker_sec": 60,
//!   "unhealthy": { "http_statuses": [500, 503], "failures": 3 },
//!   "healthy": { "http_statuses": [200], "successes": 2 }
//! }
//! ```
//!
//! Responses of the upstream are counted for each host and path that clients ask for, so that one failing
//! path does not break the others of its route. After `unhealthy.failures` responses with one of
//! `unhealthy.http_statuses` (500 to 599) requests are answered with `break_response_code` for 2 seconds,
//! after as many more for 4, then 8 and so on up to `max_breaker_sec`. When the time is over all requests
//! pass. After `healthy.successes` responses with one of `healthy.http_statuses` (200 to 499), without a
//! failure among them, everything is forgotten.
//!
//! An upstream that cannot be reached or does not answer in time counts as 502 or 504. Responses of the
//! gateway itself and of plugins do not count. `break_response_headers` are sent only with a
//! `break_response_body`, as in APISIX; their values may hold variables, and of a repeated `key` the last
//! value counts.
//!
//! The counters are shared by all workers and survive configuration changes. They are held for up to 16,384
//! hosts and paths that fail on each route; beyond that the one that failed longest ago is forgotten. The
//! error log has a line when requests begin to be answered, at most one a second for each instance; the
//! metric `weir_plugin_events_total` counts these times (`opened`) and the requests (`answered`).
//!
//! To leave a whole upstream or a node alone, by more conditions and with a limited number of probes, use
//! `circuit_breaker` and `outlier_ejection` of the [upstream](../../guide/protecting-upstreams.md) instead.

mod breakers;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use exchange::Exchange;
use exchange::failure::Cause;
use exchange::observe::pace::Pace;
use exchange::plugin::events::EventCounter;
use exchange::plugin::{BufferedReply, Build, Flow, Plugin, PluginKind, PluginPhase};
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;
use crate::shared::reply_fields::ReplyFields;
use breakers::{BreakerThresholds, Breakers};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "api-breaker",
    1005,
    &[PluginPhase::Access, PluginPhase::Log],
    ApiBreakerConfig::schema,
    build,
)
.checked(|config| headers(&config::parse_config(config)?).map(drop))
.documented(include_str!("api_breaker.rs"));

attributes! {
    struct ApiBreakerConfig {
        /// The status of the response in place of the upstream's.
        break_response_code: u16, { "minimum": 200, "maximum": 599 };
        /// The body of that response.
        break_response_body: Option<String>;
        /// Fields of that response; sent only with a body.
        break_response_headers: Option<Vec<WrittenHeader>>;
        /// The longest time, in seconds, for which requests are answered in place of the upstream.
        max_breaker_sec: u64 = 300, { "minimum": 3 };
        /// The responses that count as failures.
        unhealthy: Unhealthy = Unhealthy { http_statuses: vec![500], failures: 3 };
        /// The responses that count as successes.
        healthy: Healthy = Healthy { http_statuses: vec![200], successes: 3 };
    }
}

attributes! {
    struct WrittenHeader {
        /// The name of the field.
        key: String, { "minLength": 1 };
        /// Its value, with variables.
        value: String, { "minLength": 1 };
    }
}

attributes! {
    struct Unhealthy {
        /// The statuses.
        http_statuses: Vec<u16> = vec![500], {
            "minItems": 1,
            "uniqueItems": true,
            "items": { "type": "integer", "minimum": 500, "maximum": 599 },
        };
        /// How many failures break.
        failures: u64 = 3, { "minimum": 1 };
    }
}

attributes! {
    struct Healthy {
        /// The statuses.
        http_statuses: Vec<u16> = vec![200], {
            "minItems": 1,
            "uniqueItems": true,
            "items": { "type": "integer", "minimum": 200, "maximum": 499 },
        };
        /// How many successes in a row end the state of failure.
        successes: u64 = 3, { "minimum": 1 };
    }
}

/// The compiled plugin.
struct ApiBreaker {
    reply: BufferedReply,
    headers: ReplyFields,
    unhealthy: Box<[u16]>,
    healthy: Box<[u16]>,
    rules: BreakerThresholds,
    breakers: Arc<Breakers>,
    opened: EventCounter,
    answered: EventCounter,
    pace: Pace,
}

/// The fields of the response; none without a body.
fn headers(config: &ApiBreakerConfig) -> Result<ReplyFields, String> {
    let written = config.break_response_headers.iter().flatten();
    let written: Vec<(&str, Value)> =
        written.map(|header| (&*header.key, Value::from(header.value.as_str()))).collect();
    let written = written.iter().map(|(name, value)| (*name, value));
    let all = ReplyFields::compile("break_response_headers", written)?;
    Ok(if config.break_response_body.is_some() { all } else { ReplyFields::default() })
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let config: ApiBreakerConfig = config::parse_config(config)?;
    let headers = headers(&config)?;
    let body = config.break_response_body.unwrap_or_default().into_bytes();
    Ok(Arc::new(ApiBreaker {
        reply: BufferedReply::status(config.break_response_code).with_body(body),
        headers,
        unhealthy: config.unhealthy.http_statuses.into(),
        healthy: config.healthy.http_statuses.into(),
        rules: BreakerThresholds {
            failures: config.unhealthy.failures,
            successes: config.healthy.successes,
            max_break_ms: config.max_breaker_sec.saturating_mul(1_000),
        },
        breakers: build.states.keep(&format!("api-breaker/{}", build.owner), Breakers::new),
        opened: build.services.event_counter(KIND.name, "opened"),
        answered: build.services.event_counter(KIND.name, "answered"),
        pace: Pace::every_ms(LOG_INTERVAL_MS),
    }))
}

impl ApiBreaker {
    fn reply(&self, exchange: &Exchange) -> BufferedReply {
        self.headers.add_to(exchange, self.reply.clone())
    }
}

impl Plugin for ApiBreaker {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let now_ms = exchange.local().now_ms();
        if self.breakers.is_open(exchange.host(), exchange.path(), &self.rules, now_ms) {
            self.answered.fetch_add(1, Ordering::Relaxed);
            return Flow::reply(self.reply(exchange));
        }
        Flow::Continue
    }

    fn log(&self, exchange: &Exchange) {
        let Some(attempt) = exchange.attempts.last() else { return };
        let status = attempt.failed.map_or(attempt.status, Cause::status);
        let (host, path) = (exchange.host(), exchange.path());
        if self.unhealthy.contains(&status) {
            let now_ms = exchange.local().now_ms();
            let Some(break_ms) = self.breakers.note_failure(host, path, &self.rules, now_ms) else { return };
            self.opened.fetch_add(1, Ordering::Relaxed);
            if let Some(breaks) = self.pace.add(1, now_ms) {
                let path = String::from_utf8_lossy(path);
                tracing::warn!(status, %path, break_ms, breaks, "api-breaker answers in place of the upstream");
            }
        } else if self.healthy.contains(&status) {
            self.breakers.note_success(host, path, &self.rules);
        }
    }
}

/// Milliseconds between two lines about failing upstreams.
const LOG_INTERVAL_MS: u64 = 1_000;

#[cfg(test)]
mod tests;
