//! # traffic-label
//!
//! Sets fields of the request by conditions and weights, so that later plugins and the upstream can tell
//! apart the parts of the traffic.
//!
//! ```json
//! {
//!   "rules": [
//!     {
//!       "match": ["OR", ["arg_version", "==", "new"], ["http_x_beta", "==", "1"]],
//!       "actions": [
//!         { "set_headers": { "X-Release": "canary", "X-From": "$remote_addr" }, "weight": 1 },
//!         { "weight": 9 }
//!       ]
//!     }
//!   ]
//! }
//! ```
//!
//! The rules are tried in their order. `match` is an [expression](../../guide/routing.md#expressions); a rule
//! without it matches every request. Of the `actions` of a rule that matches one is chosen by weight: of as
//! many requests in a row as the weights add up to, each gets exactly its share. An action with `set_headers`
//! sets these fields, with variables in their values, and no further rule is tried. An action without
//! `set_headers` sets none, and the rules after it are tried.
//!
//! A field that the client has sent is replaced. An empty value, or one that is not valid in a field, removes
//! it.
//!
//! The plugin runs before [traffic-split](traffic-split.md), which can match the fields (`http_x_release`).

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{Build, Flow, Plugin, PluginKind, PluginPhase};
use router::vars::Expression;
use serde_json::{Map, Value, json};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::fields::{FieldOperation, FieldOperations};
use crate::shared::weighted_turns::{Counter, WeightedTurns};
use crate::shared::{config, expression, fields};

/// The plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("traffic-label", 967, &[PluginPhase::Access], TrafficLabelConfig::schema, build)
        .checked(|config| compile(config, |_| Counter::default()).map(drop))
        .documented(include_str!("traffic_label.rs"));

attributes! {
    struct TrafficLabelConfig {
        /// The rules.
        rules: Vec<TrafficLabelRuleConfig>, { "minItems": 1 };
    }
}

attributes! {
    struct TrafficLabelRuleConfig {
        /// The condition; without it the rule matches every request.
        r#match: Option<Value>, {
            "type": "array",
            "minItems": 1,
            "items": { "anyOf": [{ "type": "array" }, { "type": "string" }] },
        };
        /// The actions, one of which is chosen for a request.
        actions: Vec<WrittenAction>, { "minItems": 1 };
    }
}

/// An action as it is written. Its fields are read by hand, because an unknown one is an unsupported action.
struct WrittenAction {
    set_headers: Option<Map<String, Value>>,
    weight: u64,
}

impl Attribute for WrittenAction {
    fn schema() -> Value {
        json!({
            "type": "object",
            "additionalProperties": true,
            "properties": {
                "set_headers": { "description": "Fields of the request that are set.", "type": "object", "minProperties": 1 },
                "weight": {
                    "description": "The share of this action among all of the rule.",
                    "type": "integer",
                    "default": 1,
                    "minimum": 1,
                },
            },
        })
    }

    fn read(written: Value) -> Result<Self, String> {
        let Value::Object(mut fields) = written else { return Err(format!("{written} is no object")) };
        let set_headers = fields.shift_remove("set_headers").map(Map::read).transpose()?;
        let weight = fields.shift_remove("weight").map_or(Ok(1), u64::read)?;
        match fields.keys().next() {
            Some(name) => Err(format!("not supported action: {name}")),
            None => Ok(WrittenAction { set_headers, weight }),
        }
    }

    fn write(&self) -> Value {
        json!({ "set_headers": self.set_headers, "weight": self.weight })
    }
}

/// The compiled plugin.
struct TrafficLabel {
    rules: Box<[TrafficLabelRule]>,
}

struct TrafficLabelRule {
    condition: Option<Expression>,
    actions: Box<[Option<FieldOperations>]>,
    turns: WeightedTurns,
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let counter =
        |index: usize| build.states.keep(&format!("traffic-label/{}/{index}", build.owner), Default::default);
    compile(config, counter).map(|plugin| Arc::new(plugin) as Arc<dyn Plugin>)
}

fn compile(config: &Value, counter: impl Fn(usize) -> Counter) -> Result<TrafficLabel, String> {
    let config: TrafficLabelConfig = config::parse_config(config).map_err(|reason| {
        // The contract's line has no place in front of it.
        reason.find("not supported action: ").map_or(reason.clone(), |at| reason[at..].to_owned())
    })?;
    let rules = config.rules.iter().enumerate().map(|(index, rule)| {
        let weights: Vec<u64> = rule.actions.iter().map(|action| action.weight).collect();
        let condition = rule
            .r#match
            .as_ref()
            .map(|written| expression::compile_expression("match", written))
            .transpose()?;
        let set = |headers: &Map<String, Value>| {
            let set = fields::compile_field_values(headers)
                .map_err(|reason| format!("failed to validate the 'set_headers' action: {reason}"))?;
            Ok::<_, String>(FieldOperations { set, ..FieldOperations::default() })
        };
        let actions = rule.actions.iter().map(|action| action.set_headers.as_ref().map(set).transpose());
        Ok(TrafficLabelRule {
            condition,
            actions: actions.collect::<Result<_, String>>()?,
            turns: WeightedTurns::new(&weights, counter(index))?,
        })
    });
    Ok(TrafficLabel { rules: rules.collect::<Result<_, String>>()? })
}

impl Plugin for TrafficLabel {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        for rule in &self.rules {
            if !rule.condition.as_ref().is_none_or(|condition| condition.evaluate(exchange)) {
                continue;
            }
            if let Some(operations) = &rule.actions[rule.turns.next()] {
                for operation in operations.render(exchange, None) {
                    if let FieldOperation::Set(name, value) = operation {
                        set(exchange, name, &value);
                    }
                }
                break;
            }
        }
        Flow::Continue
    }
}

/// Sets a field of the request. The client's own is removed where the value cannot be sent, because it must
/// not stand in its place.
fn set(exchange: &mut Exchange, name: &str, value: &[u8]) {
    if name.eq_ignore_ascii_case("Host") {
        // A value that cannot be a Host leaves the old one, because every request needs one.
        if let Ok(host) = str::from_utf8(value)
            && !host.is_empty()
        {
            let _ = exchange.set_forward_host(host);
        }
    } else if value.is_empty() || exchange.request.headers.set(name, value).is_err() {
        exchange.remove_request_field(name);
    } else if name.eq_ignore_ascii_case("X-Real-IP") {
        exchange.keep_real_ip_field();
    }
}

#[cfg(test)]
mod tests;
