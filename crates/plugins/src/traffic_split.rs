//! # traffic-split
//!
//! Divides the requests of a route among several upstreams: by weight for a canary, by conditions for a
//! blue-green release, or by both.
//!
//! ```json
//! {
//!   "rules": [
//!     {
//!       "match": [{ "vars": [["http_x_release", "==", "new"]] }],
//!       "weighted_upstreams": [{ "upstream_id": "new" }]
//!     },
//!     {
//!       "weighted_upstreams": [
//!         { "upstream": { "nodes": { "127.0.0.1:1981": 1 } }, "weight": 1 },
//!         { "weight": 9 }
//!       ]
//!     }
//!   ]
//! }
//! ```
//!
//! **Rules** are tried in their order, and the first one that matches decides; without one the request goes
//! to the upstream of the route. A rule matches if one of the
//! [expressions](../../guide/routing.md#expressions) in `match` holds; a rule without `match` matches every
//! request. An expression may read the body (`post_arg_id`).
//!
//! **Upstreams.** Each element of `weighted_upstreams` names an upstream by `upstream_id`, holds one in
//! `upstream`, or has neither: then it stands for the upstream of the route. `upstream_id` counts where both
//! are given. An `upstream` takes all fields of an upstream object, health checks and retries among them; its
//! connections and counters are its own.
//!
//! **Weights.** Of as many requests in a row as the weights add up to, each upstream gets exactly its share.
//! The turns are shared by all workers and go on when the configuration changes. An upstream with weight 0
//! gets no request, unless all weights are 0: then the upstreams share equally.
//!
//! A request that comes to a rule with an `upstream_id` that does not exist is answered 500, and the error
//! log names the upstream, at most once a second for each instance.
//!
//! **On a stream route** sessions are divided in place of requests. Expressions read the variables of
//! sessions, such as `remote_addr`, `ssl_server_name` and `mqtt_client_id`. A session for which an
//! `upstream_id` is chosen that does not exist ends without a node.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use exchange::Exchange;
use exchange::observe::pace::Pace;
use exchange::plugin::events::EventCounter;
use exchange::plugin::stream::{StreamFlow, StreamKind, StreamPhase, StreamPlugin, StreamSession};
use exchange::plugin::{
    BufferedReply, Build, Explained, Flow, Plugin, PluginKind, PluginPhase, UpstreamChoice, UpstreamRef,
};
use model::check;
use model::{Id, ObjectKind, PluginCatalog, schema};
use router::vars::{Expression, VariableSource};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::weighted_turns::{Counter, WeightedTurns};
use crate::shared::{config, expression};

/// The plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("traffic-split", 966, &[PluginPhase::Access], TrafficSplitConfig::schema, build)
        .checked(check)
        .on_streams(StreamKind { phases: &[StreamPhase::Preread], build: build_stream })
        .documented(include_str!("traffic_split.rs"));

attributes! {
    struct TrafficSplitConfig {
        /// The rules; the first one that matches decides.
        rules: Option<Vec<TrafficSplitRuleConfig>>;
    }
}

attributes! {
    struct TrafficSplitRuleConfig {
        /// The rule matches if one of these does; without any it matches every request.
        r#match: Option<Vec<WrittenMatch>>;
        /// The upstreams that share the requests.
        weighted_upstreams: Vec<WeightedUpstream> = vec![WeightedUpstream::ROUTE], {
            "minItems": 1,
            "maxItems": 20,
            "default": [{ "weight": 1 }],
        };
    }
}

attributes! {
    struct WrittenMatch {
        /// An expression over variables.
        vars: Option<Value>, { "type": "array" };
    }
}

attributes! {
    struct WeightedUpstream {
        /// The id of an upstream.
        upstream_id: Option<UpstreamId>;
        /// An upstream of this plugin.
        upstream: Option<OwnUpstream>;
        /// The share of this upstream among all of the rule.
        weight: u64 = 1, { "minimum": 0 };
    }
}

impl WeightedUpstream {
    /// The upstream of the route alone.
    const ROUTE: WeightedUpstream = WeightedUpstream { upstream_id: None, upstream: None, weight: 1 };
}

/// The id of an upstream: a text or a number.
struct UpstreamId(Id);

impl Attribute for UpstreamId {
    fn schema() -> Value {
        schema::find_object_schema(ObjectKind::Route)["properties"]["upstream_id"].clone()
    }

    fn read(written: Value) -> Result<Self, String> {
        Id::deserialize(written).map(UpstreamId).map_err(|error| error.to_string())
    }

    fn write(&self) -> Value {
        self.0.as_str().into()
    }
}

/// An upstream as it is written.
struct OwnUpstream(Value);

impl Attribute for OwnUpstream {
    fn schema() -> Value {
        let mut schema = schema::find_object_schema(ObjectKind::Upstream).clone();
        for name in ["$schema", "title"] {
            schema.as_object_mut().and_then(|fields| fields.shift_remove(name));
        }
        schema
    }

    fn read(written: Value) -> Result<Self, String> {
        Ok(OwnUpstream(written))
    }

    fn write(&self) -> Value {
        self.0.clone()
    }
}

/// The compiled plugin.
struct TrafficSplit {
    rules: Box<[TrafficSplitRule]>,
    missing: EventCounter,
    pace: Pace,
}

struct TrafficSplitRule {
    /// One of these has to hold; `None` matches every request.
    matches: Option<Box<[Expression]>>,
    /// The choices; `None` is the upstream of the route.
    choices: Box<[Option<UpstreamRef>]>,
    /// The upstreams that are named by their ids, which may not exist.
    named: Box<[UpstreamRef]>,
    turns: WeightedTurns,
}

fn check(config: &Value) -> Result<(), String> {
    let parsed: TrafficSplitConfig = config::parse_config(config)?;
    for (index, rule) in parsed.rules.iter().flatten().enumerate() {
        compile_matches(rule.r#match.as_deref())?;
        let weights: Vec<u64> = rule.weighted_upstreams.iter().map(|upstream| upstream.weight).collect();
        WeightedTurns::new(&weights, Counter::default())
            .map_err(|reason| format!("rules[{index}]: {reason}"))?;
        for (upstream, number) in rule.weighted_upstreams.iter().zip(0..) {
            let OwnUpstream(written) = upstream.upstream.as_ref().unwrap_or(&OwnUpstream(Value::Null));
            check_upstream(written).map_err(|reason| {
                format!("rules[{index}].weighted_upstreams[{number}].upstream: {reason}")
            })?;
        }
    }
    Ok(())
}

/// Checks an upstream beyond its schema. Whether the registry that it names exists is known only when it is
/// compiled.
fn check_upstream(written: &Value) -> Result<(), String> {
    if written.is_null() {
        return Ok(());
    }
    let registry = written.get("discovery_type").and_then(Value::as_str).map(Into::into);
    let catalog = PluginCatalog::default().with_registries(registry);
    check::value(&catalog, ObjectKind::Upstream, written)
        .map_err(|refusal| refusal.contract_message().to_owned())
}

fn compile_matches(written: Option<&[WrittenMatch]>) -> Result<Option<Box<[Expression]>>, String> {
    let compile = |one: &WrittenMatch| match &one.vars {
        Some(vars) => expression::compile_expression("vars", vars),
        None => Err("failed to validate the 'vars' expression: missing argument rule".to_owned()),
    };
    written.filter(|all| !all.is_empty()).map(|all| all.iter().map(compile).collect()).transpose()
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(compile(build, config)?))
}

fn build_stream(build: &Build<'_>, config: &Value) -> Result<Arc<dyn StreamPlugin>, String> {
    Ok(Arc::new(compile(build, config)?))
}

fn compile(build: &Build<'_>, config: &Value) -> Result<TrafficSplit, String> {
    let parsed: TrafficSplitConfig = config::parse_config(config)?;
    let rules = parsed.rules.into_iter().flatten().enumerate().map(|(index, rule)| {
        let counter = build.states.keep(&format!("traffic-split/{}/{index}", build.owner), Default::default);
        let weights: Vec<u64> = rule.weighted_upstreams.iter().map(|upstream| upstream.weight).collect();
        let mut named = Vec::new();
        let choice = |(number, upstream): (usize, &WeightedUpstream)| match upstream {
            WeightedUpstream { upstream_id: Some(UpstreamId(id)), .. } => {
                named.push(UpstreamRef::by_id(id));
                Ok(named.last().cloned())
            }
            WeightedUpstream { upstream: Some(OwnUpstream(written)), .. } => {
                build.upstream(&format!("rules/{index}/{number}"), written).map(Some)
            }
            _ => Ok(None),
        };
        Ok(TrafficSplitRule {
            matches: compile_matches(rule.r#match.as_deref())?,
            choices: rule.weighted_upstreams.iter().enumerate().map(choice).collect::<Result<_, String>>()?,
            named: named.into(),
            turns: WeightedTurns::new(&weights, counter)?,
        })
    });
    Ok(TrafficSplit {
        rules: rules.collect::<Result<_, String>>()?,
        missing: build.services.event_counter(KIND.name, "missing_upstream"),
        pace: Pace::every_ms(LOG_INTERVAL_MS),
    })
}

impl TrafficSplitRule {
    fn matches(&self, source: &impl VariableSource) -> bool {
        self.matches.as_ref().is_none_or(|all| all.iter().any(|one| one.evaluate(source)))
    }
}

impl Plugin for TrafficSplit {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        for rule in &self.rules {
            // As in APISIX, a rule that cannot be carried out is a fault for each request that comes to it.
            if let Some(missing) = rule.named.iter().find(|upstream| !exchange.has_upstream(upstream)) {
                self.missing.fetch_add(1, Ordering::Relaxed);
                if let Some(requests) = self.pace.add(1, exchange.local().now_ms()) {
                    tracing::error!(upstream = ?missing, requests, "traffic-split: failed to find upstream by id");
                }
                return Flow::reply(BufferedReply::json(
                    500,
                    &json!({ "error_msg": "failed to fetch upstream info" }),
                ));
            }
            if rule.matches(exchange) {
                // Without one it is the route's own upstream, even if another plugin chose a different one
                // before.
                exchange.decision.upstream.clone_from(&rule.choices[rule.turns.next()]);
                break;
            }
        }
        Flow::Continue
    }

    fn explain(&self, exchange: &mut Exchange, _: PluginPhase) -> Explained {
        for (index, rule) in self.rules.iter().enumerate() {
            if rule.named.iter().any(|upstream| !exchange.has_upstream(upstream)) {
                let body = json!({ "error_msg": "failed to fetch upstream info" });
                return Explained::replies(&BufferedReply::json(500, &body));
            }
            if !rule.matches(exchange) {
                continue;
            }
            // The turn of this request is not taken, so that the share of others does not change.
            let with_share = rule.choices.iter().zip(rule.turns.shares()).filter(|(_, share)| *share > 0.0);
            let choices: Vec<UpstreamChoice> = with_share
                .map(|(upstream, share)| UpstreamChoice { upstream: upstream.clone(), share })
                .collect();
            if let [only] = &choices[..] {
                exchange.decision.upstream.clone_from(&only.upstream);
            }
            return Explained::divides(&format!("rules/{index}: "), choices);
        }
        Explained::passes()
    }
}

impl StreamPlugin for TrafficSplit {
    fn preread<'a>(&'a self, session: &'a mut StreamSession) -> StreamFlow<'a> {
        if let Some(rule) = self.rules.iter().find(|rule| rule.matches(session)) {
            session.chosen_upstream.clone_from(&rule.choices[rule.turns.next()]);
        }
        StreamFlow::Continue
    }
}

/// Milliseconds between two lines about a missing upstream.
const LOG_INTERVAL_MS: u64 = 1_000;

#[cfg(test)]
mod tests;
