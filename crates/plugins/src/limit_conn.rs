//! # limit-conn
//!
//! Limits how many requests are in progress at the same time. Requests above `conn` are delayed, and those
//! above `conn` and `burst` together are refused. Requests are counted separately for each value of a key.
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
//! **Limit.** `conn` and `burst` are numbers, or texts with variables that yield whole numbers
//! (`"${http_x_quota}"`). A request for which they yield no number is answered 500, or passes with
//! `allow_degradation`. A refusal has the status `rejected_code` and, with `rejected_msg`, the body
//! `{"error_msg": "…"}`. A request counts from this plugin on until it ends, however it ends.
//!
//! **Delay.** A request that is the n-th in progress waits `default_conn_delay` seconds, times (n - 1)
//! divided by `conn` and rounded down; at most 59 seconds. As in APISIX 3.18 the delay does not follow the
//! latency of requests, whatever `only_use_default_delay` says.
//!
//! **Key.** With `key_type` `var`, `key` is a variable's name; with `var_combination` a text with variables
//! (`$remote_addr $http_x_id`). If the variables have no value, the client's address is the key.
//!
//! **Rules.** `rules` holds several limits in place of one: each has a `conn`, a `burst` and a `key` with
//! variables, and applies only if its key has a value and its limits are numbers. A request passes if all
//! rules allow it; if none applies, it is answered 500, or passes with `allow_degradation`.
//!
//! **Counts.** With `policy` `local` requests are counted by this process, over all its workers. The counts
//! survive configuration changes that do not concern them. With `redis` or `redis-cluster` they are counted
//! in Redis by all gateways with this configuration, with the fields `redis_…` that [the
//! guide](../../guide/redis.md) explains. A request that Redis cannot count is answered 500, or passes with
//! `allow_degradation`. The end of a request is told to Redis up to four times. One that Redis does not hear
//! of, because it or a gateway crashed, counts for `key_ttl` seconds; one that takes longer is forgotten
//! then.
//!
//! **On a stream route** sessions are counted in place of requests, from this plugin on until they end. A
//! session above `conn` and `burst` together is closed before a node is chosen; `rejected_code` and
//! `rejected_msg` have no effect. Counts are those of this process, as in APISIX: another `policy` than
//! `local` is refused there.

mod counts;
mod on_streams;
mod rule;
mod shared_counts;

use std::cell::RefCell;
use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::stream::{StreamKind, StreamPhase};
use exchange::plugin::{
    BufferedReply, Build, Explained, Flow, PhaseDecision, Plugin, PluginKind, PluginPhase,
};
use serde_json::Value;

use crate::shared::attributes::attributes;
use crate::shared::config;
use crate::shared::limits::amount::{WrittenAmount, WrittenAmountOrZero};
use crate::shared::limits::delay;
use crate::shared::limits::failures::Failures;
use crate::shared::limits::store::{CountKeyType, CountPolicy, counted_schema, read_counted, refusal_reply};
use counts::{InProgress, LocalCounts};
use rule::{LimitConnRule, compile_conn_rules};
use shared_counts::{SharedCounts, SharedPlace};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "limit-conn",
    1003,
    &[PluginPhase::Access, PluginPhase::Log],
    counted_schema::<LimitConnConfig>,
    build,
)
.checked(check)
.on_streams(StreamKind { phases: &[StreamPhase::Preread], build: on_streams::build })
.checked_on_streams(on_streams::check)
.documented(include_str!("limit_conn.rs"));

attributes! {
    struct LimitConnConfig {
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
        key_type: CountKeyType = CountKeyType::Var;
        /// Where the counts are kept.
        policy: CountPolicy = CountPolicy::Local;
        /// The status of a refusal.
        rejected_code: u16 = 503, { "minimum": 200, "maximum": 599 };
        /// The message of a refusal.
        rejected_msg: Option<String>, { "minLength": 1 };
        /// Lets requests pass that cannot be counted.
        allow_degradation: bool = false;
        /// Several limits in place of one; a request passes if all of them let it.
        rules: Option<Vec<LimitConnRuleConfig>>;
        /// Seconds that a request is counted in Redis at most.
        key_ttl: u64 = 3_600, { "minimum": 1 };
    }
    { "oneOf": [{ "required": ["conn", "burst", "key"] }, { "required": ["rules"] }] }
}

attributes! {
    struct LimitConnRuleConfig {
        /// How many requests may be in progress without delay.
        conn: WrittenAmount;
        /// How many requests above that are delayed instead of refused.
        burst: WrittenAmountOrZero;
        /// The rule's key: a text with variables. Each value is counted separately; without one the rule is
        /// skipped.
        key: String;
    }
}

/// The compiled plugin.
struct LimitConn {
    rules: Box<[LimitConnRule]>,
    /// Whether a rule without numbers is left out instead of failing the request.
    skips_rules: bool,
    unit_delay_ms: f64,
    store: LimitConnStore,
    rejected: BufferedReply,
    failures: Arc<Failures>,
}

/// Where requests are counted.
enum LimitConnStore {
    Local(Arc<LocalCounts>),
    Redis(Arc<SharedCounts>),
}

/// A place that an exchange takes until it ends; dropping it gives it back.
enum LimitConnPermit {
    Local { _place: InProgress },
    Redis(SharedPlace),
}

/// All places of an exchange; a single rule needs no allocation.
#[derive(Default)]
struct Places {
    first: Option<LimitConnPermit>,
    more: Vec<LimitConnPermit>,
}

/// The state of an exchange: a cell, because the log phase sees the exchange unchanged.
#[derive(Default)]
struct LimitConnState(RefCell<Places>);

/// The demand of one rule on a request.
enum LimitConnDemand {
    /// The rule does not apply to it.
    Nothing,
    /// The limit yielded no number.
    Unknown,
    /// At most so many requests in progress, without delay and in all; the key is written.
    Limit { conn: u64, all: u64 },
}

/// Why a request was not allowed.
enum LimitConnRefusal {
    Rejected,
    /// No limit applies, or one yielded no number.
    Unknown,
}

fn check(config: &Value) -> Result<(), String> {
    let (config, _) = read_counted(config, |own: &LimitConnConfig| own.policy)?;
    // Accepted without an effect, as the documentation says.
    let _ = config.only_use_default_delay;
    compile_conn_rules(&config).map(drop)
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let (parsed, settings) = read_counted(config, |own: &LimitConnConfig| own.policy)?;
    let failures =
        Arc::new(Failures::new(build, "limit-conn", parsed.allow_degradation, BufferedReply::status(500)));
    let store = match settings {
        Some(settings) => {
            let counts = SharedCounts::new(build, &settings, config, parsed.key_ttl, failures.clone())?;
            LimitConnStore::Redis(Arc::new(counts))
        }
        None => {
            let identity = config::identity(config);
            LimitConnStore::Local(
                build.states.keep(&format!("limit-conn/{}/{identity}", build.owner), LocalCounts::default),
            )
        }
    };
    Ok(Arc::new(LimitConn {
        rules: compile_conn_rules(&parsed)?,
        skips_rules: parsed.rules.is_some(),
        unit_delay_ms: parsed.default_conn_delay * 1_000.0,
        store,
        rejected: refusal_reply(parsed.rejected_code, parsed.rejected_msg.as_deref()),
        failures,
    }))
}

impl LimitConn {
    /// Takes a place under each rule that applies; gives the wait in milliseconds.
    fn enter(&self, counts: &Arc<LocalCounts>, exchange: &mut Exchange) -> Result<u64, LimitConnRefusal> {
        let mut delay_ms = 0_u64;
        let mut applies = false;
        let mut key = exchange.local().take_bytes();
        let mut stop = None;
        for (index, rule) in self.rules.iter().enumerate() {
            key.clear();
            let (conn, all) = match self.asked(rule, exchange) {
                LimitConnDemand::Limit { conn, all } if rule.key.write_local(index, exchange, &mut key) => {
                    (conn, all)
                }
                LimitConnDemand::Limit { .. } | LimitConnDemand::Nothing => continue,
                LimitConnDemand::Unknown => {
                    stop = Some(LimitConnRefusal::Unknown);
                    break;
                }
            };
            applies = true;
            let Some((place, number)) = counts.enter(&key, all) else {
                stop = Some(LimitConnRefusal::Rejected);
                break;
            };
            delay_ms = delay_ms.saturating_add(self.delay_ms(number, conn));
            exchange.state::<LimitConnState>().push(LimitConnPermit::Local { _place: place });
        }
        exchange.local().give_bytes(key);
        match stop {
            Some(stop) => Err(stop),
            None if applies => Ok(delay_ms),
            None => Err(LimitConnRefusal::Unknown),
        }
    }

    /// As [`LimitConn::enter`], in Redis.
    async fn enter_shared(&self, counts: &Arc<SharedCounts>, exchange: &mut Exchange) -> PhaseDecision {
        let worker = exchange.local().clone();
        let began_ms = worker.now_ms();
        let mut delay_ms = 0_u64;
        let mut applies = false;
        for (index, rule) in self.rules.iter().enumerate() {
            let mut name = counts.name();
            let (conn, all) = match self.asked(rule, exchange) {
                LimitConnDemand::Limit { conn, all }
                    if rule.key.write_shared(index, exchange, name.key_mut()) =>
                {
                    (conn, all)
                }
                LimitConnDemand::Limit { .. } | LimitConnDemand::Nothing => continue,
                LimitConnDemand::Unknown => return self.answer(Err(LimitConnRefusal::Unknown)),
            };
            applies = true;
            // Held before Redis is asked, so that it is given back even if the client leaves meanwhile.
            exchange
                .state::<LimitConnState>()
                .push(LimitConnPermit::Redis(counts.hold(&worker, name.clone())));
            match counts.enter(&worker, &name, all).await {
                Ok(Some(number)) => delay_ms = delay_ms.saturating_add(self.delay_ms(number, conn)),
                Ok(None) => {
                    exchange.state::<LimitConnState>().forget_last();
                    return self.answer(Err(LimitConnRefusal::Rejected));
                }
                Err(error) => return self.failures.decide(&error, worker.now_ms()),
            }
        }
        if !applies {
            return self.answer(Err(LimitConnRefusal::Unknown));
        }
        delay::wait_in_phase(&worker, began_ms, delay_ms).await;
        PhaseDecision::Continue
    }

    fn asked(&self, rule: &LimitConnRule, exchange: &Exchange) -> LimitConnDemand {
        match (rule.conn.of(exchange), rule.burst.of(exchange)) {
            (Some(conn), Some(burst)) => LimitConnDemand::Limit { conn, all: conn.saturating_add(burst) },
            _ if self.skips_rules => LimitConnDemand::Nothing,
            _ => LimitConnDemand::Unknown,
        }
    }

    fn answer(&self, outcome: Result<(), LimitConnRefusal>) -> PhaseDecision {
        let reply = match outcome {
            Ok(()) => None,
            Err(LimitConnRefusal::Rejected) => Some(self.rejected.clone()),
            Err(LimitConnRefusal::Unknown) => self.failures.without_number(),
        };
        reply.map_or(PhaseDecision::Continue, |reply| PhaseDecision::Reply(Box::new(reply)))
    }

    /// The wait of a request that is the `number`-th in progress.
    fn delay_ms(&self, number: u64, conn: u64) -> u64 {
        // A cast of a float stops at the largest number.
        (self.unit_delay_ms * ((number - 1) / conn) as f64) as u64
    }
}

impl LimitConnState {
    fn push(&mut self, place: LimitConnPermit) {
        let places = self.0.get_mut();
        match places.first {
            None => places.first = Some(place),
            Some(_) => places.more.push(place),
        }
    }

    /// Forgets the place that was pushed last: it was not taken.
    fn forget_last(&mut self) {
        let places = self.0.get_mut();
        if let Some(LimitConnPermit::Redis(place)) = places.more.pop().or_else(|| places.first.take()) {
            place.forget();
        }
    }
}

impl Plugin for LimitConn {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let counts = match &self.store {
            LimitConnStore::Local(counts) => counts,
            LimitConnStore::Redis(counts) => {
                return Flow::Wait(Box::pin(self.enter_shared(counts, exchange)));
            }
        };
        match self.enter(counts, exchange) {
            Ok(delay_ms) => delay::continue_after(delay_ms),
            Err(stop) => match self.answer(Err(stop)) {
                PhaseDecision::Reply(reply) => Flow::Reply(reply),
                _ => Flow::Continue,
            },
        }
    }

    fn log(&self, exchange: &Exchange) {
        // An exchange that ends without a log phase drops its states, and the places with them.
        if let Some(held) = exchange.peek_state::<LimitConnState>() {
            drop(held.0.take());
        }
    }

    fn explain(&self, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
        if phase != PluginPhase::Access {
            return Explained::passes();
        }
        let mut limits = Vec::new();
        for rule in &self.rules {
            match self.asked(rule, exchange) {
                LimitConnDemand::Limit { conn, all } => {
                    limits.push(format!("{conn} requests at once, and {} more that are delayed", all - conn));
                }
                LimitConnDemand::Nothing => {}
                LimitConnDemand::Unknown => {
                    return Explained::unknown("the limit has no number for this request");
                }
            }
        }
        Explained::counts(limits.join("; "))
    }
}

#[cfg(test)]
mod tests;
