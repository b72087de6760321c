//! # limit-count
//!
//! Allows a number of requests in a window of time, and refuses the rest until the window has passed. Requests are
//! counted separately for each value of a key, which is the client's address by default. The counters are shared by all
//! workers of the process and survive configuration changes that do not concern them.
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
//! (`$remote_addr $http_x_id`); with `constant` all requests are counted together. If the variables have no value, the
//! client's address is the key.
//!
//! **Limit.** `count` and `time_window` (seconds) are numbers, or texts with variables that yield whole numbers
//! (`"${http_x_quota}"`). A request for which they yield no number is answered 500, or passes with `allow_degradation`.
//! `rules` holds several limits in place of one: each has a `count`, a `time_window` and a `key` with variables, and
//! applies only if its key has a value. A request passes if all rules allow it.
//!
//! **Windows.** A `fixed` window begins with the first request after the last one ended. A `sliding` one allows no
//! burst at the border of two windows.
//!
//! **Response fields.** `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` (whole seconds until
//! requests are allowed again) are set on every response unless `show_limit_quota_header` is false. With `rules` their
//! names are `X-1-RateLimit-Limit` and so on, with the rule's number or its `header_prefix`. The plugin's metadata
//! renames them: `limit_header`, `remaining_header`, `reset_header`. A refusal has the status `rejected_code` and, with
//! `rejected_msg`, the body `{"error_msg": "…"}`.
//!
//! **Groups.** Routes that name the same `group` share their counters; their configurations must be the same. To change
//! the configuration of a group, give it a new name.
//!
//! Counters are kept by this process (`policy` `local`). The policies `redis`, `redis-cluster` and `redis-sentinel` are
//! refused, because this gateway counts in its own process only.

mod rule;
mod window;

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::state::StateRegistry;
use exchange::plugin::{Build, Flow, Phase, Plugin, PluginKind, Reply, Step};
use serde_json::{Value, json};

use crate::shared::attributes::{Attribute, attributes, words};
use crate::shared::config;
use crate::shared::fields::is_token;
use crate::shared::limits::amount::WrittenAmount;
use rule::{Rule, rules_of};
use window::{Counters, Quota, Taken, WindowType};

/// The plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("limit-count", 1002, &[Phase::Access, Phase::ResponseHead], Config::schema, build)
        .checked(check)
        .checked_with_running(check_group)
        .with_metadata(metadata_schema)
        .documented(include_str!("limit_count.rs"));

attributes! {
    struct Config {
        /// How many requests are allowed in one window: a number, or a text with variables.
        count: Option<WrittenAmount>;
        /// The length of a window in seconds: a number, or a text with variables.
        time_window: Option<WrittenAmount>;
        /// How windows follow each other.
        window_type: WindowType = WindowType::Fixed;
        /// Several limits in place of one; a request passes if all of them let it.
        rules: Option<Vec<WrittenRule>>;
        /// Routes with the same group share their counters.
        group: Option<String>;
        /// The key: a variable's name, a text with variables, or a constant. Each of its values is counted separately.
        key: String = "remote_addr".into();
        /// How the key is to be read.
        key_type: KeyType = KeyType::Var;
        /// The status of a refusal.
        rejected_code: u16 = 503, { "minimum": 200, "maximum": 599 };
        /// The message of a refusal.
        rejected_msg: Option<String>, { "minLength": 1 };
        /// Where the counters are kept.
        policy: Policy = Policy::Local;
        /// Lets requests pass that cannot be counted.
        allow_degradation: bool = false;
        /// Tells clients their quota in response fields.
        show_limit_quota_header: bool = true;
        /// Concerns policies with a store; local counters need no synchronisation.
        sync_interval: f64 = -1.0, { "default": -1 };
    }
    { "oneOf": [{ "required": ["count", "time_window"] }, { "required": ["rules"] }] }
}

attributes! {
    struct WrittenRule {
        /// How many requests this rule allows in one window.
        count: WrittenAmount;
        /// The length of this rule's window in seconds.
        time_window: WrittenAmount;
        /// The rule's key: a text with variables. Each value is counted separately; without one the rule is skipped.
        key: String;
        /// The rule's name in its response fields, as 1 in X-1-RateLimit-Limit; the rule's number by default.
        header_prefix: Option<String>;
    }
}

words! {
    enum KeyType {
        Var = "var",
        VarCombination = "var_combination",
        Constant = "constant",
    }
}

words! {
    enum Policy {
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

const DEFAULT_NAMES: [&str; 3] = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];

/// The compiled plugin.
struct LimitCount {
    rules: Box<[Rule]>,
    window_type: WindowType,
    counters: Arc<Counters>,
    rejected: Reply,
    allow_degradation: bool,
    show_quota: bool,
    /// Keeps the group known while one of its routes exists.
    _group: Option<Arc<Group>>,
}

/// Routes that share their counters.
struct Group {
    identity: String,
    counters: Arc<Counters>,
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

fn check(config: &Value) -> Result<(), String> {
    let parsed: Config = config::parse(config)?;
    if parsed.policy != Policy::Local {
        let policy = parsed.policy.word();
        return Err(format!(
            "policy {policy} is not supported by this gateway yet; local counts in this process"
        ));
    }
    // Only counters in a store are synchronised.
    let _ = parsed.sync_interval;
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
    rules_of(&parsed, DEFAULT_NAMES.map(str::to_owned)).map(|_| ())
}

/// Refuses a configuration of a group that running routes use with another one.
fn check_group(states: &StateRegistry, config: &Value) -> Result<(), String> {
    let Some(name) = config.get("group").and_then(Value::as_str) else { return Ok(()) };
    states.held::<Group>(&group_key(name)).map_or(Ok(()), |running| running.admits(&config::identity(config)))
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let parsed: Config = config::parse(config)?;
    let identity = config::identity(config);
    let group = parsed.group.as_deref().map(|name| join_group(build.states, name, &identity)).transpose()?;
    let counters = match &group {
        Some(group) => group.counters.clone(),
        None => build.states.keep(&format!("limit-count/{}/{identity}", build.owner), Counters::new),
    };
    let rejected = match &parsed.rejected_msg {
        Some(message) => Reply::json(parsed.rejected_code, &json!({ "error_msg": message })),
        None => Reply::status(parsed.rejected_code),
    };
    Ok(Arc::new(LimitCount {
        rules: rules_of(&parsed, metadata_names(build.metadata))?,
        window_type: parsed.window_type,
        counters,
        rejected,
        allow_degradation: parsed.allow_degradation,
        show_quota: parsed.show_limit_quota_header,
        _group: group,
    }))
}

fn join_group(states: &StateRegistry, name: &str, identity: &str) -> Result<Arc<Group>, String> {
    let make = || Group { identity: identity.to_owned(), counters: Arc::new(Counters::new()) };
    let group = states.keep(&group_key(name), make);
    group.admits(identity)?;
    Ok(group)
}

/// The key of a group's state. Keys of other counters begin with `limit-count/`.
fn group_key(name: &str) -> String {
    format!("limit-count group {name}")
}

impl Group {
    /// Whether a route with this configuration may count here.
    fn admits(&self, identity: &str) -> Result<(), String> {
        if self.identity == identity { Ok(()) } else { Err("group conf mismatched".to_owned()) }
    }
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

/// Why a request was not allowed.
enum Stop {
    Rejected,
    /// The limit yielded no number.
    Unknown,
}

impl LimitCount {
    /// Counts the request under one rule; `None` if the rule does not apply to it.
    fn count(&self, index: usize, rule: &Rule, exchange: &Exchange) -> Result<Option<Shown>, Stop> {
        let mut key = exchange.local().take_bytes();
        let counted = self.count_under(&mut key, index, rule, exchange);
        exchange.local().give_bytes(key);
        counted
    }

    fn count_under(
        &self,
        key: &mut Vec<u8>,
        index: usize,
        rule: &Rule,
        exchange: &Exchange,
    ) -> Result<Option<Shown>, Stop> {
        if !rule.key.write_local(index, exchange, key) {
            return Ok(None);
        }
        let (Some(limit), Some(seconds)) = (rule.count.of(exchange), rule.time_window.of(exchange)) else {
            return Err(Stop::Unknown);
        };
        let quota = Quota { limit, window_ms: seconds.saturating_mul(1_000), window_type: self.window_type };
        let taken = self.counters.take(key, quota, exchange.local().now_ms());
        Ok(Some(Shown { rule: index, limit, taken }))
    }

    fn all(&self, exchange: &mut Exchange) -> Result<(), Stop> {
        let mut applied = false;
        for (index, rule) in self.rules.iter().enumerate() {
            let Some(shown) = self.count(index, rule, exchange)? else { continue };
            applied = true;
            if self.show_quota {
                exchange.state::<Quotas>().push(shown);
            }
            if !shown.taken.allowed {
                return Err(Stop::Rejected);
            }
        }
        if applied { Ok(()) } else { Err(Stop::Unknown) }
    }
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
        match self.all(exchange) {
            Ok(()) => Flow::Continue,
            Err(Stop::Rejected) => Flow::reply(self.rejected.clone()),
            Err(Stop::Unknown) if self.allow_degradation => Flow::Continue,
            Err(Stop::Unknown) => Flow::reply(Reply::status(500)),
        }
    }

    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a> {
        let Some(quotas) = exchange.peek_state::<Quotas>() else { return Step::Done };
        let (first, more) = (quotas.first, quotas.more.clone());
        for shown in first.into_iter().chain(more) {
            let mut number = itoa::Buffer::new();
            // Rounded up, so that a client that waits that long passes.
            let numbers = [shown.limit, shown.taken.remaining, shown.taken.reset_ms.div_ceil(1_000)];
            for (name, value) in self.rules[shown.rule].names.iter().zip(numbers) {
                // A field of digits under a checked name fails only if the response is full; then the field is left
                // out.
                let _ = exchange.response.headers.set(name, number.format(value).as_bytes());
            }
        }
        Step::Done
    }
}

#[cfg(test)]
mod tests;
