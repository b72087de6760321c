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

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use exchange::Exchange;
use exchange::plugin::{Build, Flow, Phase, Plugin, PluginKind, Reply, Step};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::shared::config;
use crate::shared::fields::is_token;
use rule::{Key, Rule, WrittenAmount, octets, rules_of};
use window::{Counters, Quota, Taken, WindowType};

/// The plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("limit-count", 1002, &[Phase::Access, Phase::ResponseHead], schema, build)
        .checked(check)
        .with_metadata(metadata_schema)
        .documented(include_str!("limit_count.rs"));

fn schema() -> Value {
    let amount = |description: &str| {
        json!({
            "description": description,
            "oneOf": [
                { "type": "integer", "exclusiveMinimum": 0 },
                { "type": "string", "pattern": "^[0-9]+$|\\$", "$comment": AMOUNT_TEXT },
            ],
        })
    };
    json!({
        "type": "object",
        "properties": {
            "count": amount("How many requests are allowed in one window: a number, or a text with variables."),
            "time_window": amount("The length of a window in seconds: a number, or a text with variables."),
            "window_type": {
                "description": "How windows follow each other.",
                "type": "string", "enum": ["fixed", "sliding"], "default": "fixed",
            },
            "rules": {
                "description": "Several limits in place of one; a request passes if all of them let it.",
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "count": amount("How many requests this rule allows in one window."),
                        "time_window": amount("The length of this rule's window in seconds."),
                        "key": {
                            "description": "What is counted apart, with variables; without a value the rule is skipped.",
                            "type": "string",
                        },
                        "header_prefix": {
                            "description": "What stands for the rule in the names of its response fields; its number by default.",
                            "type": "string",
                        },
                    },
                    "required": ["count", "time_window", "key"],
                },
            },
            "group": { "description": "Routes with the same group share their counters.", "type": "string" },
            "key": {
                "description": "What is counted apart: a variable's name, a text with variables, or a constant.",
                "type": "string", "default": "remote_addr",
            },
            "key_type": {
                "description": "How the key is to be read.",
                "type": "string", "enum": ["var", "var_combination", "constant"], "default": "var",
            },
            "rejected_code": {
                "description": "The status of a refusal.",
                "type": "integer", "minimum": 200, "maximum": 599, "default": 503,
            },
            "rejected_msg": { "description": "The message of a refusal.", "type": "string", "minLength": 1 },
            "policy": {
                "description": "Where the counters are kept.",
                "type": "string", "enum": ["local", "redis", "redis-cluster", "redis-sentinel"], "default": "local",
            },
            "allow_degradation": {
                "description": "Lets requests pass that cannot be counted.",
                "type": "boolean", "default": false,
            },
            "show_limit_quota_header": {
                "description": "Tells clients their quota in response fields.",
                "type": "boolean", "default": true,
            },
            "sync_interval": {
                "description": "Concerns policies with a store; local counters need no synchronisation.",
                "type": "number", "default": -1,
            },
        },
        "oneOf": [{ "required": ["count", "time_window"] }, { "required": ["rules"] }],
    })
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

/// The required form of a count or a window that is a text, because any other text can never yield a number.
const AMOUNT_TEXT: &str = "a whole number or a text with variables, such as ${http_x_quota}";

const DEFAULT_NAMES: [&str; 3] = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    count: Option<WrittenAmount>,
    time_window: Option<WrittenAmount>,
    #[serde(default = "fixed")]
    window_type: String,
    rules: Option<Vec<WrittenRule>>,
    group: Option<String>,
    #[serde(default = "remote_addr")]
    key: String,
    #[serde(default)]
    key_type: KeyType,
    #[serde(default = "unavailable")]
    rejected_code: u16,
    rejected_msg: Option<String>,
    #[serde(default = "local")]
    policy: String,
    #[serde(default)]
    allow_degradation: bool,
    #[serde(default = "yes")]
    show_limit_quota_header: bool,
    #[serde(rename = "sync_interval", default)]
    _sync_interval: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRule {
    count: WrittenAmount,
    time_window: WrittenAmount,
    key: String,
    header_prefix: Option<String>,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum KeyType {
    #[default]
    Var,
    VarCombination,
    Constant,
}

fn fixed() -> String {
    "fixed".to_owned()
}

fn remote_addr() -> String {
    "remote_addr".to_owned()
}

fn unavailable() -> u16 {
    503
}

fn local() -> String {
    "local".to_owned()
}

fn yes() -> bool {
    true
}

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

/// The groups of running instances. It is static because a check has to know them too and has no runtime's state.
static GROUPS: LazyLock<Mutex<HashMap<String, Weak<Group>>>> = LazyLock::new(Mutex::default);

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
    if parsed.policy != "local" {
        return Err(format!(
            "policy {} is not supported by this gateway yet; local counts in this process",
            parsed.policy
        ));
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
    if let Some(group) = &parsed.group
        && let Some(running) = GROUPS.lock().get(group).and_then(Weak::upgrade)
        && running.identity != config::identity(config)
    {
        return Err("group conf mismatched".to_owned());
    }
    rules_of(&parsed, DEFAULT_NAMES.map(str::to_owned)).map(|_| ())
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let parsed: Config = config::parse(config)?;
    let identity = config::identity(config);
    let group = parsed.group.as_deref().map(|name| join_group(name, &identity)).transpose()?;
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
        window_type: if parsed.window_type == "sliding" { WindowType::Sliding } else { WindowType::Fixed },
        counters,
        rejected,
        allow_degradation: parsed.allow_degradation,
        show_quota: parsed.show_limit_quota_header,
        _group: group,
    }))
}

fn join_group(name: &str, identity: &str) -> Result<Arc<Group>, String> {
    let mut groups = GROUPS.lock();
    if let Some(running) = groups.get(name).and_then(Weak::upgrade) {
        return if running.identity == identity {
            Ok(running)
        } else {
            Err("group conf mismatched".to_owned())
        };
    }
    groups.retain(|_, group| group.strong_count() > 0);
    let group = Arc::new(Group { identity: identity.to_owned(), counters: Arc::new(Counters::new()) });
    groups.insert(name.to_owned(), Arc::downgrade(&group));
    Ok(group)
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
        let mut text = Vec::new();
        let mut address = [0; 17];
        let key: &[u8] = match &rule.key {
            Key::Constant => b"",
            Key::ClientAddress => octets(exchange.client_address(), &mut address),
            Key::Rendered(template) => match template.render(exchange, &mut text) {
                0 => octets(exchange.client_address(), &mut address),
                _ => &text,
            },
            Key::RenderedOrSkip(template) => {
                // Rules share a table, so each key begins with the number of its rule, with which no text begins.
                text.extend_from_slice(&index.to_be_bytes());
                match template.render(exchange, &mut text) {
                    0 => return Ok(None),
                    _ => &text,
                }
            }
        };
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
