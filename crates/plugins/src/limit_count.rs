//! # limit-count
//!
//! Allows a number of requests in a window of time, and refuses the rest until the window has passed.
//! Requests are counted separately for each value of a key, which is the client's address by default. The
//! counters are shared by all workers of the process and survive configuration changes that do not concern
//! them.
//!
//! ```json
//! {
//!   "count": 100,
//!   "time_window": 60,
//!   "key_type": "var",
//!   "key": "http_x_api_key",
//!   "rejected_code": 429,
//!   "rejected_msg": "slow down"
//! }
//! ```
//!
//! **Key.** With `key_type` `var`, `key` is a variable's name; with `var_combination` a text with variables
//! (`$remote_addr $http_x_id`); with `constant` all requests are counted together. If the variables have no
//! value, the client's address is the key.
//!
//! **Limit.** `count` and `time_window` (seconds) are numbers, or texts with variables that yield whole
//! numbers (`"${http_x_quota}"`). A request for which they yield no number is answered 500, or passes with
//! `allow_degradation`. `rules` holds several limits in place of one: each has a `count`, a `time_window` and
//! a `key` with variables, and applies only if its key has a value. A request passes if all rules allow it.
//!
//! **Windows.** A `fixed` window begins with the first request after the last one ended. A `sliding` one
//! allows no burst at the border of two windows.
//!
//! **Response fields.** `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` (whole seconds
//! until requests are allowed again) are set on every response unless `show_limit_quota_header` is false.
//! With `rules` their names are `X-1-RateLimit-Limit` and so on, with the rule's number or its
//! `header_prefix`. The plugin's metadata renames them: `limit_header`, `remaining_header`, `reset_header`. A
//! refusal has the status `rejected_code` and, with `rejected_msg`, the body `{"error_msg": "…"}`.
//!
//! **Groups.** Routes that name the same `group` share their counters; their configurations must be the same.
//! To change the configuration of a group, give it a new name.
//!
//! **Counters.** With `policy` `local` they are kept by this process, for at most 1,048,576 keys. With
//! `redis`, `redis-cluster` or `redis-sentinel` they are kept in Redis and shared by all gateways with this
//! configuration, with the fields `redis_…` and `sentinel_…` that [the guide](../../guide/redis.md) explains.
//! A request that Redis cannot count is answered 500, or passes with `allow_degradation`.
//!
//! **Delayed synchronisation.** With a `sync_interval` of at least 0.1 seconds no request waits for Redis:
//! each gateway counts in its memory and adds what it let through to the count in Redis, for a new key or
//! window at once and then every interval. All gateways together may exceed a limit by what they let through
//! in one interval. While Redis fails, each gateway counts alone. A window that is not longer than the
//! interval is counted in Redis directly.

mod by_cost;
mod delayed;
mod group;
mod rule;
mod shared_windows;
mod window;

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{
    BufferedReply, Build, Explained, Flow, PhaseDecision, Plugin, PluginKind, PluginPhase, ResponseStep,
};
use serde_json::{Value, json};

use crate::shared::attributes::{Attribute, AttributeFields, attributes, words};
use crate::shared::config;
use crate::shared::fields::is_token;
use crate::shared::limits::amount::WrittenAmount;
use crate::shared::limits::failures::Failures;
use crate::shared::limits::key::shared_prefix;
use crate::shared::limits::store::refusal_reply;
use crate::shared::redis::RedisClient;
use crate::shared::redis::settings::{RedisFields, RedisSettings, SentinelFields, add_to_schema};
use delayed::Delayed;
use group::LimitCountGroup;
use rule::{LimitCountRule, compile_count_rules};
use shared_windows::SharedWindows;
use window::{LocalWindows, Quota, Taken, WindowType};

pub(crate) use by_cost::CostLimit;

/// The plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new(NAME, 1002, &[PluginPhase::Access, PluginPhase::ResponseHead], schema, build)
        .checked(check)
        .checked_with_running(group::check)
        .with_metadata(metadata_schema)
        .documented(include_str!("limit_count.rs"));

const NAME: &str = "limit-count";

attributes! {
    struct LimitCountConfig {
        /// How many requests are allowed in one window: a number, or a text with variables.
        count: Option<WrittenAmount>;
        /// The length of a window in seconds: a number, or a text with variables.
        time_window: Option<WrittenAmount>;
        /// How windows follow each other.
        window_type: WindowType = WindowType::Fixed;
        /// Several limits in place of one; a request passes if all of them let it.
        rules: Option<Vec<LimitCountRuleConfig>>;
        /// Routes with the same group share their counters.
        group: Option<String>;
        /// The key: a variable's name, a text with variables, or a constant. Each of its values is counted
        /// separately.
        key: String = "remote_addr".into();
        /// How the key is to be read.
        key_type: LimitCountKeyType = LimitCountKeyType::Var;
        /// The status of a refusal.
        rejected_code: u16 = 503, { "minimum": 200, "maximum": 599 };
        /// The message of a refusal.
        rejected_msg: Option<String>, { "minLength": 1 };
        /// Where the counters are kept.
        policy: LimitCountPolicy = LimitCountPolicy::Local;
        /// Lets requests pass that cannot be counted.
        allow_degradation: bool = false;
        /// Tells clients their quota in response fields.
        show_limit_quota_header: bool = true;
        /// Seconds between two synchronisations with Redis; -1 asks Redis for every request.
        sync_interval: f64 = SYNC_OFF, { "default": -1 };
    }
    { "oneOf": [{ "required": ["count", "time_window"] }, { "required": ["rules"] }] }
}

attributes! {
    struct LimitCountRuleConfig {
        /// How many requests this rule allows in one window.
        count: WrittenAmount;
        /// The length of this rule's window in seconds.
        time_window: WrittenAmount;
        /// The rule's key: a text with variables. Each value is counted separately; without one the rule is
        /// skipped.
        key: String;
        /// The rule's name in its response fields, as 1 in X-1-RateLimit-Limit; the rule's number by default.
        header_prefix: Option<String>;
    }
}

words! {
    enum LimitCountKeyType {
        Var = "var",
        VarCombination = "var_combination",
        Constant = "constant",
    }
}

words! {
    enum LimitCountPolicy {
        Local = "local",
        Redis = "redis",
        RedisCluster = "redis-cluster",
        RedisSentinel = "redis-sentinel",
    }
}

fn metadata_schema() -> Value {
    let name = |description: &str, default: &str| json!({ "description": description, "type": "string", "default": default });
    json!({
        "type": "object",
        "properties": {
            "limit_header": name("The field that tells the limit.", DEFAULT_NAMES[0]),
            "remaining_header": name("The field that tells how many requests are left.", DEFAULT_NAMES[1]),
            "reset_header": name("The field that tells the seconds until the window ends.", DEFAULT_NAMES[2]),
        },
    })
}

/// The `sync_interval` that means none.
const SYNC_OFF: f64 = -1.0;
/// The least `sync_interval` otherwise.
const SYNC_INTERVAL_MIN_S: f64 = 0.1;

const DEFAULT_NAMES: [&str; 3] = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];

/// The compiled plugin.
struct LimitCount {
    rules: Box<[LimitCountRule]>,
    window_type: WindowType,
    store: LimitCountStore,
    rejected: BufferedReply,
    failures: Arc<Failures>,
    show_quota: bool,
    /// Keeps the group known while one of its routes exists.
    _group: Option<Arc<LimitCountGroup>>,
}

/// Where requests are counted.
#[derive(Clone)]
enum LimitCountStore {
    Local(Arc<LocalWindows>),
    Redis(Arc<SharedWindows>),
    Delayed(Arc<Delayed>),
}

/// The values of the response fields of one rule, for the last request that it counted.
#[derive(Clone, Copy)]
struct Shown {
    rule: usize,
    limit: u64,
    taken: Taken,
}

/// The values that an exchange's response will show; a single rule needs no allocation.
#[derive(Default)]
struct Quotas {
    first: Option<Shown>,
    more: Vec<Shown>,
}

fn schema() -> Value {
    let mut schema = LimitCountConfig::schema();
    add_to_schema(&mut schema, true);
    schema
}

/// The configuration, and the Redis that counts.
fn read(config: &Value) -> Result<(LimitCountConfig, Option<RedisSettings>), String> {
    let mut fields = AttributeFields::of(config.clone())?;
    let own = LimitCountConfig::take(&mut fields)?;
    let (redis, sentinel) = (RedisFields::take(&mut fields)?, SentinelFields::take(&mut fields)?);
    fields.finish(&[LimitCountConfig::NAMES, RedisFields::NAMES, SentinelFields::NAMES])?;
    let settings = match own.policy {
        LimitCountPolicy::Local => None,
        LimitCountPolicy::Redis => Some(redis.single()?),
        LimitCountPolicy::RedisCluster => Some(redis.cluster()?),
        LimitCountPolicy::RedisSentinel => Some(redis.sentinel(sentinel)?),
    };
    Ok((own, settings))
}

fn check(config: &Value) -> Result<(), String> {
    let (parsed, settings) = read(config)?;
    if settings.is_some() && interval_ms(&parsed).is_some() {
        if parsed.sync_interval < SYNC_INTERVAL_MIN_S {
            return Err("sync_interval should not be smaller than 0.1".to_owned());
        }
        let window = config.get("time_window").and_then(Value::as_f64);
        if window.is_some_and(|window| parsed.sync_interval >= window) {
            return Err("sync_interval should be smaller than time_window".to_owned());
        }
    }
    if parsed.rules.is_some() && (parsed.count.is_some() || parsed.time_window.is_some()) {
        return Err("count/time_window and rules cannot be specified at the same time".to_owned());
    }
    if parsed.rules.is_some() && parsed.group.is_some() {
        return Err("group and rules cannot be specified at the same time".to_owned());
    }
    let rules = parsed.rules.as_deref().unwrap_or_default();
    for (index, rule) in rules.iter().enumerate() {
        if rules[..index].iter().any(|earlier| earlier.key == rule.key) {
            return Err(format!("duplicate key '{}' in rules", rule.key));
        }
    }
    compile_count_rules(&parsed, DEFAULT_NAMES.map(str::to_owned)).map(|_| ())
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(compile(NAME, build, config)?))
}

/// Compiles the limit of the plugin `plugin`.
fn compile(plugin: &'static str, build: &Build<'_>, config: &Value) -> Result<LimitCount, String> {
    let (parsed, settings) = read(config)?;
    let reply = BufferedReply::json(500, &json!({ "error_msg": "failed to limit count" }));
    let failures = Arc::new(Failures::new(build, plugin, parsed.allow_degradation, reply));
    let store = || store(plugin, build, config, &parsed, settings.as_ref(), &failures);
    let group = match &parsed.group {
        Some(name) => {
            Some(LimitCountGroup::join(build.states, plugin, name, &config::identity(config), store)?)
        }
        None => None,
    };
    Ok(LimitCount {
        rules: compile_count_rules(&parsed, metadata_names(build.metadata))?,
        window_type: parsed.window_type,
        store: match &group {
            Some(group) => group.store.clone(),
            None => store()?,
        },
        rejected: refusal_reply(parsed.rejected_code, parsed.rejected_msg.as_deref()),
        failures: failures.clone(),
        show_quota: parsed.show_limit_quota_header,
        _group: group,
    })
}

/// The counters of an object, or of a group: the ones that are there already, if there are any.
fn store(
    plugin: &'static str,
    build: &Build<'_>,
    config: &Value,
    parsed: &LimitCountConfig,
    settings: Option<&RedisSettings>,
    failures: &Arc<Failures>,
) -> Result<LimitCountStore, String> {
    let identity = config::identity(config);
    let Some(settings) = settings else {
        let counters = build.states.keep(&format!("{plugin}/{}/{identity}", build.owner), LocalWindows::new);
        return Ok(LimitCountStore::Local(counters));
    };
    let prefix = match &parsed.group {
        Some(group) => format!("{group}:"),
        None => shared_prefix(build.owner, config),
    };
    let windows = SharedWindows::new(RedisClient::new(build, settings)?, plugin, prefix, parsed.window_type);
    let Some(interval_ms) = interval_ms(parsed) else { return Ok(LimitCountStore::Redis(Arc::new(windows))) };
    let unfinished = build.services.unfinished_work().clone();
    let make = || Delayed::new(windows, interval_ms, failures.clone(), unfinished);
    let key = format!("{plugin}/{}/{identity}", build.owner);
    Ok(LimitCountStore::Delayed(build.states.keep(&key, make)))
}

/// The interval of synchronisation; none without a delayed one.
fn interval_ms(config: &LimitCountConfig) -> Option<u64> {
    // The number says so exactly, as in APISIX.
    #[allow(clippy::float_cmp)]
    let is_on = config.sync_interval != SYNC_OFF;
    is_on.then_some((config.sync_interval * 1_000.0) as u64)
}

/// The names of the response fields; an invalid name is replaced by the default.
fn metadata_names(metadata: Option<&Value>) -> [String; 3] {
    let named = |attribute: &str, default: &str| {
        let name = metadata.and_then(|metadata| metadata.get(attribute)).and_then(Value::as_str);
        name.filter(|name| is_token(name)).unwrap_or(default).to_owned()
    };
    [
        named("limit_header", DEFAULT_NAMES[0]),
        named("remaining_header", DEFAULT_NAMES[1]),
        named("reset_header", DEFAULT_NAMES[2]),
    ]
}

impl LimitCount {
    fn quota(&self, rule: &LimitCountRule, exchange: &Exchange, cost: u64) -> Option<Quota> {
        let (limit, seconds) = (rule.count.of(exchange)?, rule.time_window.of(exchange)?);
        Some(Quota { limit, window_ms: seconds.saturating_mul(1_000), window_type: self.window_type, cost })
    }

    /// Counts the request, which takes `cost` of the limit, under the rules, as long as nothing has to be
    /// waited for.
    fn all<'a>(&'a self, exchange: &'a mut Exchange, cost: u64) -> Flow<'a> {
        let mut applied = false;
        for (index, rule) in self.rules.iter().enumerate() {
            let mut key = exchange.local().take_bytes();
            let outcome = self.count(index, rule, &mut key, exchange, cost);
            exchange.local().give_bytes(key);
            match outcome {
                LimitCountOutcome::Skipped => {}
                LimitCountOutcome::Taken(limit, taken) => {
                    applied = true;
                    if !self.note(exchange, Shown { rule: index, limit, taken }) {
                        return Flow::reply(self.rejected.clone());
                    }
                }
                LimitCountOutcome::Unknown => return flow(self.failures.without_number()),
                LimitCountOutcome::Waits => {
                    return Flow::Wait(Box::pin(self.rest(exchange, index, applied, cost)));
                }
            }
        }
        if applied { Flow::Continue } else { flow(self.failures.without_number()) }
    }

    /// Counts the request under one rule, unless it has to wait for that.
    fn count(
        &self,
        index: usize,
        rule: &LimitCountRule,
        key: &mut Vec<u8>,
        exchange: &Exchange,
        cost: u64,
    ) -> LimitCountOutcome {
        let worker = exchange.local();
        let applies = match &self.store {
            LimitCountStore::Redis(_) => return LimitCountOutcome::Waits,
            LimitCountStore::Local(_) => rule.key.write_local(index, exchange, key),
            LimitCountStore::Delayed(delayed) => {
                delayed.windows().begin_key(key);
                rule.key.write_shared(index, exchange, key)
            }
        };
        if !applies {
            return LimitCountOutcome::Skipped;
        }
        let Some(quota) = self.quota(rule, exchange, cost) else { return LimitCountOutcome::Unknown };
        let taken = match &self.store {
            LimitCountStore::Local(counters) => counters.take(key, quota, worker.now_ms()),
            LimitCountStore::Delayed(delayed) if delayed.takes(quota.window_ms) => {
                delayed.take(worker, key, quota)
            }
            LimitCountStore::Delayed(_) | LimitCountStore::Redis(_) => return LimitCountOutcome::Waits,
        };
        LimitCountOutcome::Taken(quota.limit, taken)
    }

    /// Counts the request under the rules from number `first` on, in Redis.
    async fn rest(
        &self,
        exchange: &mut Exchange,
        first: usize,
        mut applied: bool,
        cost: u64,
    ) -> PhaseDecision {
        let worker = exchange.local().clone();
        for (index, rule) in self.rules.iter().enumerate().skip(first) {
            let windows = match &self.store {
                LimitCountStore::Redis(windows) => windows,
                LimitCountStore::Delayed(delayed) => delayed.windows(),
                // Local counters are never waited for.
                LimitCountStore::Local(_) => return PhaseDecision::Continue,
            };
            let mut key = Vec::new();
            windows.begin_key(&mut key);
            if !rule.key.write_shared(index, exchange, &mut key) {
                continue;
            }
            let Some(quota) = self.quota(rule, exchange, cost) else {
                return decision(self.failures.without_number());
            };
            let taken = match &self.store {
                LimitCountStore::Delayed(delayed) if delayed.takes(quota.window_ms) => {
                    Ok(delayed.take(&worker, &key, quota))
                }
                _ => windows.take(&worker, &key, quota).await,
            };
            let taken = match taken {
                Ok(taken) => taken,
                Err(error) => return self.failures.decide(&error, worker.now_ms()),
            };
            applied = true;
            if !self.note(exchange, Shown { rule: index, limit: quota.limit, taken }) {
                return PhaseDecision::Reply(Box::new(self.rejected.clone()));
            }
        }
        if applied { PhaseDecision::Continue } else { decision(self.failures.without_number()) }
    }

    /// The quota that the request would meet; nothing is counted.
    fn quota_left(&self, exchange: &Exchange) -> Explained {
        let mut limits = Vec::new();
        for (index, rule) in self.rules.iter().enumerate() {
            let mut key = Vec::new();
            if !rule.key.write_local(index, exchange, &mut key) {
                continue;
            }
            let Some(quota) = self.quota(rule, exchange, 1) else {
                return Explained::unknown("the limit has no number for this request");
            };
            let window_s = quota.window_ms / 1_000;
            let LimitCountStore::Local(counters) = &self.store else {
                limits.push(format!("{} in {window_s} s, counted in Redis", quota.limit));
                continue;
            };
            let left = counters.left(&key, quota, exchange.local().now_ms());
            if left == 0 {
                let why = format!("all {} in {window_s} s are used", quota.limit);
                return Explained::replies(&self.rejected).because(why);
            }
            limits.push(format!("{left} of {} left in {window_s} s", quota.limit));
        }
        Explained::counts(limits.join("; "))
    }

    /// Keeps the values for the response's fields; whether the request may pass.
    fn note(&self, exchange: &mut Exchange, shown: Shown) -> bool {
        if self.show_quota {
            exchange.state::<Quotas>().push(shown);
        }
        shown.taken.allowed
    }
}

/// The outcome of one rule.
enum LimitCountOutcome {
    /// The rule does not apply.
    Skipped,
    /// The request was counted, under this limit.
    Taken(u64, Taken),
    /// The limit yielded no number.
    Unknown,
    /// It cannot be counted without waiting for Redis.
    Waits,
}

fn flow<'a>(reply: Option<BufferedReply>) -> Flow<'a> {
    reply.map_or(Flow::Continue, Flow::reply)
}

fn decision(reply: Option<BufferedReply>) -> PhaseDecision {
    reply.map_or(PhaseDecision::Continue, |reply| PhaseDecision::Reply(Box::new(reply)))
}

impl Quotas {
    fn push(&mut self, shown: Shown) {
        match self.first {
            None => self.first = Some(shown),
            Some(_) => self.more.push(shown),
        }
    }
}

impl Plugin for LimitCount {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        self.all(exchange, 1)
    }

    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        self.show(exchange);
        ResponseStep::Done
    }

    fn explain(&self, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
        if phase == PluginPhase::Access { self.quota_left(exchange) } else { Explained::passes() }
    }
}

impl LimitCount {
    /// Sets the fields of the response that tell the quota.
    fn show(&self, exchange: &mut Exchange) {
        let Some(quotas) = exchange.peek_state::<Quotas>() else { return };
        let (first, more) = (quotas.first, quotas.more.clone());
        for shown in first.into_iter().chain(more) {
            let mut number = itoa::Buffer::new();
            // Rounded up, so that a client that waits that long passes.
            let numbers = [shown.limit, shown.taken.remaining, shown.taken.reset_ms.div_ceil(1_000)];
            for (name, value) in self.rules[shown.rule].names.iter().zip(numbers) {
                // A field of digits under a checked name fails only if the response is full; then the field
                // is left out.
                let _ = exchange.response.headers.set(name, number.format(value).as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests;
