//! # limit-conn
//!
//! Limits how many requests are in progress at the same time. Requests above `conn` are delayed, and those above `conn`
//! and `burst` together are refused. Requests are counted separately for each value of a key.
//!
//! ```json
//! {
//!   "conn": 100,
//!   "burst": 50,
//!   "default_conn_delay": 0.1,
//!   "key_type": "var",
//!   "key": "remote_addr",
//!   "rejected_code": 429
//! }
//! ```
//!
//! **Limit.** `conn` and `burst` are numbers, or texts with variables that yield whole numbers (`"${http_x_quota}"`). A
//! request for which they yield no number is answered 500, or passes with `allow_degradation`. A refusal has the status
//! `rejected_code` and, with `rejected_msg`, the body `{"error_msg": "…"}`. A request counts from this plugin on until
//! it ends, however it ends.
//!
//! **Delay.** A request that is the n-th in progress waits `default_conn_delay` seconds, times (n - 1) divided by `conn`
//! and rounded down; at most 59 seconds. As in APISIX 3.18 the delay does not follow the latency of requests, whatever
//! `only_use_default_delay` says.
//!
//! **Key.** With `key_type` `var`, `key` is a variable's name; with `var_combination` a text with variables
//! (`$remote_addr $http_x_id`). If the variables have no value, the client's address is the key.
//!
//! **Rules.** `rules` holds several limits in place of one: each has a `conn`, a `burst` and a `key` with variables, and
//! applies only if its key has a value and its limits are numbers. A request passes if all rules allow it; if none
//! applies, it is answered 500, or passes with `allow_degradation`.
//!
//! With `policy` `local` requests are counted by this process, over all its workers. The counts survive configuration
//! changes that do not concern them.

mod counts;
mod rule;

use std::cell::RefCell;
use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{Build, Flow, Phase, Plugin, PluginKind, Reply};
use serde_json::{Value, json};

use crate::shared::attributes::{Attribute, attributes, words};
use crate::shared::config;
use crate::shared::limits::amount::{WrittenAmount, WrittenAmountOrZero};
use crate::shared::limits::delay;
use counts::{Counts, InProgress};
use rule::{Rule, rules_of};

/// The plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("limit-conn", 1003, &[Phase::Access, Phase::Log], Config::schema, build)
        .checked(check)
        .documented(include_str!("limit_conn.rs"));

attributes! {
    struct Config {
        /// How many requests may be in progress without delay: a number, or a text with variables.
        conn: Option<WrittenAmount>;
        /// How many requests above that are delayed instead of refused: a number, or a text with variables.
        burst: Option<WrittenAmountOrZero>;
        /// Seconds that a request above the limit is delayed by.
        default_conn_delay: f64, { "exclusiveMinimum": 0 };
        /// Concerns estimated delays; the delay is always computed from default_conn_delay.
        only_use_default_delay: bool = false;
        /// The key: a variable's name or a text with variables. Each of its values is counted separately.
        key: Option<String>;
        /// How the key is to be read.
        key_type: KeyType = KeyType::Var;
        /// Where the counts are kept.
        policy: Policy = Policy::Local;
        /// The status of a refusal.
        rejected_code: u16 = 503, { "minimum": 200, "maximum": 599 };
        /// The message of a refusal.
        rejected_msg: Option<String>, { "minLength": 1 };
        /// Lets requests pass that cannot be counted.
        allow_degradation: bool = false;
        /// Several limits in place of one; a request passes if all of them let it.
        rules: Option<Vec<WrittenRule>>;
    }
    { "oneOf": [{ "required": ["conn", "burst", "key"] }, { "required": ["rules"] }] }
}

attributes! {
    struct WrittenRule {
        /// How many requests may be in progress without delay.
        conn: WrittenAmount;
        /// How many requests above that are delayed instead of refused.
        burst: WrittenAmountOrZero;
        /// The rule's key: a text with variables. Each value is counted separately; without one the rule is skipped.
        key: String;
    }
}

words! {
    enum KeyType {
        Var = "var",
        VarCombination = "var_combination",
    }
}

words! {
    enum Policy {
        Redis = "redis",
        RedisCluster = "redis-cluster",
        Local = "local",
    }
}

/// The compiled plugin.
struct LimitConn {
    rules: Box<[Rule]>,
    /// Whether a rule without numbers is left out instead of failing the request.
    skips_rules: bool,
    unit_delay_ms: f64,
    counts: Arc<Counts>,
    rejected: Reply,
    allow_degradation: bool,
}

/// The places that an exchange takes until it ends; a single rule needs no allocation.
#[derive(Default)]
struct Places {
    first: Option<InProgress>,
    more: Vec<InProgress>,
}

/// The state of an exchange: a cell, because the log phase sees the exchange unchanged.
#[derive(Default)]
struct Held(RefCell<Places>);

/// Why a request was not allowed.
enum Stop {
    Rejected,
    /// No limit applies, or one yielded no number.
    Unknown,
}

fn check(config: &Value) -> Result<(), String> {
    let config: Config = config::parse(config)?;
    if config.policy != Policy::Local {
        let policy = config.policy.word();
        return Err(format!(
            "policy {policy} is not supported by this gateway yet; local counts in this process"
        ));
    }
    // Accepted without an effect, as the documentation says.
    let _ = config.only_use_default_delay;
    rules_of(&config).map(drop)
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let parsed: Config = config::parse(config)?;
    let identity = config::identity(config);
    Ok(Arc::new(LimitConn {
        rules: rules_of(&parsed)?,
        skips_rules: parsed.rules.is_some(),
        unit_delay_ms: parsed.default_conn_delay * 1_000.0,
        counts: build.states.keep(&format!("limit-conn/{}/{identity}", build.owner), Counts::default),
        rejected: match &parsed.rejected_msg {
            Some(message) => Reply::json(parsed.rejected_code, &json!({ "error_msg": message })),
            None => Reply::status(parsed.rejected_code),
        },
        allow_degradation: parsed.allow_degradation,
    }))
}

impl LimitConn {
    /// Takes a place under each rule that applies; gives the wait in milliseconds.
    fn enter(&self, exchange: &mut Exchange) -> Result<u64, Stop> {
        let mut delay_ms = 0_u64;
        let mut applies = false;
        let mut key = exchange.local().take_bytes();
        let mut stop = None;
        for (index, rule) in self.rules.iter().enumerate() {
            key.clear();
            let limits = (rule.conn.of(exchange), rule.burst.of(exchange));
            let (Some(conn), Some(burst)) = limits else {
                if self.skips_rules {
                    continue;
                }
                stop = Some(Stop::Unknown);
                break;
            };
            if !rule.key.write_local(index, exchange, &mut key) {
                continue;
            }
            applies = true;
            let Some((place, number)) = self.counts.enter(&key, conn.saturating_add(burst)) else {
                stop = Some(Stop::Rejected);
                break;
            };
            delay_ms = delay_ms.saturating_add(self.delay_ms(number, conn));
            exchange.state::<Held>().push(place);
        }
        exchange.local().give_bytes(key);
        match stop {
            Some(stop) => Err(stop),
            None if applies => Ok(delay_ms),
            None => Err(Stop::Unknown),
        }
    }

    /// The wait of a request that is the `number`-th in progress.
    fn delay_ms(&self, number: u64, conn: u64) -> u64 {
        // A cast of a float stops at the largest number.
        (self.unit_delay_ms * ((number - 1) / conn) as f64) as u64
    }
}

impl Held {
    fn push(&mut self, place: InProgress) {
        let places = self.0.get_mut();
        match places.first {
            None => places.first = Some(place),
            Some(_) => places.more.push(place),
        }
    }
}

impl Plugin for LimitConn {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        match self.enter(exchange) {
            Ok(delay_ms) => delay::continue_after(delay_ms),
            Err(Stop::Rejected) => Flow::reply(self.rejected.clone()),
            Err(Stop::Unknown) if self.allow_degradation => Flow::Continue,
            Err(Stop::Unknown) => Flow::reply(Reply::status(500)),
        }
    }

    fn log(&self, exchange: &Exchange) {
        // Dropping a place gives it back. An exchange that ends without a log phase drops its states as well.
        if let Some(held) = exchange.peek_state::<Held>() {
            held.0.take();
        }
    }
}

#[cfg(test)]
mod tests;
