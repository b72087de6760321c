//! # graphql-limit-count
//!
//! Limits GraphQL requests by what they cost rather than by their number: each takes its cost of a quota for
//! a window of time. The quota, its key, windows, groups and stores are those of
//! [limit-count](limit-count.md), field by field.
//!
//! ```json
//! {
//!   "count": 1000,
//!   "time_window": 60,
//!   "key_type": "var",
//!   "key": "remote_addr",
//!   "rejected_code": 429,
//!   "cost_strategy": "depth"
//! }
//! ```
//!
//! **Requests** are POST with a body of JSON that has the member `query`, or with a document as
//! `application/graphql`. Other methods are answered 405. A request without a document, or with one that
//! cannot be parsed or has more than 15,000 tokens or 100 levels, or expands to more than 10,000 selections,
//! is answered 400, and the message says why. So is a list of requests, a compressed body, a body of more
//! bytes than the setting [`max_matched_body_bytes`](../settings.md#max_matched_body_bytes) allows,
//! `variables` that are no object, and a request that has `query`, `variables`, `operationName` or
//! `extensions` in its query string too, because the upstream could run that instead.
//!
//! **Cost.** `cost_strategy` says what a request costs, at least 1:
//!
//! - `depth`: how many selection sets of the query stand inside each other.
//! - `complexity`: the cost of a field is *(the costs of the fields selected below it) × `mul_value` +
//!   `add_value`*. Without weights each field costs 1, and so does the operation.
//! - `node_quantifier`: only fields that have one of their `mul_arguments` in the query cost something: their
//!   `add_value`, as often as they are resolved.
//!
//! The last two round up, so that a whole number becomes the next one. `score_factor` scales the cost, which
//! is at most 2^53. Of several operations the one that `operationName` names counts, without it the dearest.
//!
//! **Weights.** `cost_decorations` lists them, each with its `field_path`: a type (`Product`) weighs every
//! field that returns it, and a root type (`Query`) the operation; a type and a field (`Product.reviews`)
//! that field; a longer chain (`Query.products.nodes.reviews`) the field where it is reached through that
//! chain. Of two that fit, the longer one counts in each value that it has. The values of the arguments in
//! `add_arguments` are added to `add_value`, those of `mul_arguments` are multiplied into `mul_value`. An
//! argument that is no number, or a negative one, counts as absent. With `resolve_variables` variables count
//! by the value in the request, by the default in the query, and absent arguments by the default in the
//! schema. APISIX keeps these weights below the service, at
//! `/apisix/admin/services/ID/graphql_cost_decorations`; write them here instead.
//!
//! **Schema.** With weights the plugin asks the upstream for its schema by an introspection query, when a
//! request needs it, for each service once; it asks again after an hour, and the old schema counts until it
//! has a new one. The call goes to the first node of the upstream of the service, else of the route, at the
//! path of the request, or to `introspection_endpoint`. The path and the Host field that have given a schema
//! once are kept for later calls. Set `introspection_endpoint` where a route has several paths, because
//! otherwise the first request chooses by which of their schemas all are counted. Only
//! `introspection_headers` are sent along, nothing of the client's request. Without a schema the request is
//! answered 400, and the error log says why once a second at most. A call takes at most 9 seconds.
//!
//! **Refusals.** A request beyond the quota is answered with `rejected_code`. One that costs more than
//! `max_cost` is answered 403 whatever is left; it takes its cost all the same. The response field
//! `X-Graphql-Query-Cost` tells the cost, unless `show_limit_quota_header` is false.

mod cost;
mod decorations;
mod schema_index;
mod sources;

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::state::StateRegistry;
use exchange::plugin::{
    BodyNeed, BufferedReply, Build, Flow, PhaseDecision, Plugin, PluginKind, PluginPhase, ResponseStep,
};
use message::Method;
use serde_json::{Map, Value};

use crate::limit_count::CostLimit;
use crate::shared::attributes::{Attribute, AttributeFields, attributes, words};
use crate::shared::graphql::request::{GraphqlRequest, NO_BODY, bytes_max, refuse_graphql_request};
use crate::shared::graphql::{GraphqlDocument, GraphqlOperation};
use crate::shared::outages::Outages;
use cost::{CostFormula, Inputs, bounded, query_cost};
use decorations::{Decoration, Decorations};
use schema_index::SchemaIndex;
use sources::Sources;

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    NAME,
    1004,
    &[PluginPhase::RequestBody, PluginPhase::Access, PluginPhase::ResponseHead],
    schema,
    build,
)
.checked(check)
.checked_with_running(check_group)
.with_metadata(CostLimit::metadata_schema)
.documented(include_str!("graphql_limit_count.rs"));

const NAME: &str = "graphql-limit-count";
/// The field that tells the cost of a request.
const COST_FIELD: &str = "X-Graphql-Query-Cost";
/// The largest cost: above it a count of Redis could overflow.
const COST_MAX: f64 = 9_007_199_254_740_992.0;

attributes! {
    struct GraphqlLimitCountConfig {
        /// The way in which the cost of a request is computed.
        cost_strategy: CostStrategy = CostStrategy::Depth;
        /// Requests that cost more are refused; 0 refuses none.
        max_cost: f64 = 0.0, { "minimum": 0, "default": 0 };
        /// The factor that scales costs.
        score_factor: f64 = 1.0, { "exclusiveMinimum": 0, "default": 1 };
        /// Variables, and defaults of variables and arguments, count.
        resolve_variables: bool = true;
        /// The URL of the schema in place of the upstream's.
        introspection_endpoint: Option<String>, { "pattern": "^https?://" };
        /// Fields of the request for the schema.
        introspection_headers: Option<Map<String, Value>>,
            { "patternProperties": { "^[^:]+$": { "type": "string", "minLength": 1 } } };
        /// The weights of types and fields.
        cost_decorations: Option<Vec<Decoration>>;
    }
}

words! {
    enum CostStrategy {
        Depth = "depth",
        Complexity = "complexity",
        NodeQuantifier = "node_quantifier",
    }
}

fn schema() -> Value {
    let mut schema = CostLimit::schema();
    if let (Some(all), Value::Object(own)) =
        (schema["properties"].as_object_mut(), GraphqlLimitCountConfig::schema()["properties"].take())
    {
        all.extend(own);
    }
    if let Some(encrypted) = schema["encrypt_fields"].as_array_mut() {
        encrypted.push("introspection_headers".into());
    }
    schema
}

/// The own fields, and the rest, which are those of `limit-count`.
fn read(config: &Value) -> Result<(GraphqlLimitCountConfig, Value), String> {
    let own = GraphqlLimitCountConfig::take(&mut AttributeFields::of(config.clone())?)?;
    let mut rest = config.clone();
    if let Some(fields) = rest.as_object_mut() {
        fields.retain(|name, _| !GraphqlLimitCountConfig::NAMES.contains(&&**name));
    }
    Ok((own, rest))
}

fn check(config: &Value) -> Result<(), String> {
    let (own, rest) = read(config)?;
    CostLimit::check(&rest)?;
    Decorations::compile(own.cost_decorations.as_deref().unwrap_or_default())
        .map(drop)
        .map_err(|reason| format!("cost_decorations: {reason}"))
}

fn check_group(states: &StateRegistry, config: &Value) -> Result<(), String> {
    CostLimit::check_group(NAME, states, &read(config)?.1)
}

/// The compiled plugin.
struct GraphqlLimitCount {
    limit: CostLimit,
    strategy: CostStrategy,
    max_cost: f64,
    score_factor: f64,
    resolves_variables: bool,
    /// The weights, and where the schemas come from; none: no field has a weight.
    weights: Option<(Decorations, Sources)>,
    rejected_code: u16,
    shows_cost: bool,
    outages: Outages,
}

/// The cost of a request, for its response.
#[derive(Default)]
struct ShownCost(u64);

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let (own, rest) = read(config)?;
    let (rejected_code, shows_cost) = CostLimit::refusal(&rest)?;
    let weights = match own.cost_decorations.as_deref().unwrap_or_default() {
        [] => None,
        _ if own.cost_strategy == CostStrategy::Depth => None,
        written => Some((
            Decorations::compile(written)?,
            Sources::new(build, own.introspection_endpoint, own.introspection_headers.unwrap_or_default())?,
        )),
    };
    Ok(Arc::new(GraphqlLimitCount {
        limit: CostLimit::compile(NAME, build, &rest)?,
        strategy: own.cost_strategy,
        max_cost: own.max_cost,
        score_factor: own.score_factor,
        resolves_variables: own.resolve_variables,
        weights,
        rejected_code,
        shows_cost,
        outages: Outages::new(build, NAME),
    }))
}

impl Plugin for GraphqlLimitCount {
    fn wants_request_body(&self, exchange: &Exchange) -> BodyNeed {
        match exchange.request.method {
            Method::Post => BodyNeed::Buffer { limit_bytes: bytes_max(exchange) },
            _ => BodyNeed::None,
        }
    }

    fn refuse_long_body(&self, exchange: &Exchange) -> Option<BufferedReply> {
        (exchange.request.method == Method::Post).then(|| refuse_graphql_request(NO_BODY))
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        if exchange.request.method != Method::Post {
            return Flow::reply(BufferedReply::status(405));
        }
        let read = GraphqlRequest::of(exchange).and_then(|request| Ok((request.document()?, request)));
        let (document, request) = match read {
            Ok(read) => read,
            Err(text) => return Flow::reply(refuse_graphql_request(&text)),
        };
        match &self.weights {
            Some((decorations, sources)) => Flow::Wait(Box::pin(async move {
                let schema = match sources.get(exchange).await {
                    Ok(schema) => schema,
                    Err(reason) => return self.without_schema(exchange, &reason),
                };
                match self.cost(&document, &request, decorations, Some(&schema)) {
                    Err(text) => PhaseDecision::Reply(Box::new(refuse_graphql_request(text))),
                    Ok(cost) => match self.charge(exchange, cost) {
                        Flow::Wait(waits) => waits.await,
                        Flow::Reply(reply) => PhaseDecision::Reply(reply),
                        _ => PhaseDecision::Continue,
                    },
                }
            })),
            None => match self.cost(&document, &request, &Decorations::default(), None) {
                Err(text) => Flow::reply(refuse_graphql_request(text)),
                Ok(cost) => self.charge(exchange, cost),
            },
        }
    }

    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        self.limit.show(exchange);
        if self.shows_cost
            && let Some(cost) = exchange.peek_state::<ShownCost>().map(|cost| cost.0)
        {
            let mut digits = itoa::Buffer::new();
            // Digits under a valid name fail only if the response is full; then the field is left out.
            let _ = exchange.response.headers.set(COST_FIELD, digits.format(cost).as_bytes());
        }
        ResponseStep::Done
    }
}

impl GraphqlLimitCount {
    /// The cost of a request, at least 1; the error is the text for the client.
    fn cost(
        &self,
        document: &GraphqlDocument,
        request: &GraphqlRequest,
        decorations: &Decorations,
        schema: Option<&SchemaIndex>,
    ) -> Result<u64, &'static str> {
        let operations = chosen(document, request.operation_name.as_deref());
        let strategy = match self.strategy {
            CostStrategy::Depth => {
                let depth = document.depth(&operations);
                let depth =
                    depth.map_err(|_| "Invalid graphql request: fragment spreads must not form cycles")?;
                return Ok(self.scaled(depth as f64));
            }
            CostStrategy::Complexity => CostFormula::Complexity,
            CostStrategy::NodeQuantifier => CostFormula::NodeQuantifier,
        };
        let inputs = Inputs {
            decorations,
            schema,
            variables: request.variables.as_ref().filter(|_| self.resolves_variables),
            uses_defaults: self.resolves_variables,
        };
        let raw = query_cost(strategy, document, &operations, &inputs)
            .map_err(|_| "Invalid graphql request: the query expands too many selections")?;
        // A part of APISIX's definition: whole costs become the next number.
        Ok(self.scaled(raw + 0.01))
    }

    fn scaled(&self, raw: f64) -> u64 {
        bounded(raw * self.score_factor).ceil().max(1.0) as u64
    }

    /// Takes the cost of the quota, and decides.
    fn charge<'a>(&'a self, exchange: &'a mut Exchange, cost: u64) -> Flow<'a> {
        exchange.state::<ShownCost>().0 = cost;
        let flow = |reply: Option<Box<BufferedReply>>| reply.map_or(Flow::Continue, Flow::Reply);
        match self.limit.charge(exchange, cost) {
            Flow::Continue => flow(self.conclude(None, cost)),
            Flow::Reply(reply) => flow(self.conclude(Some(reply), cost)),
            Flow::Wait(waits) => Flow::Wait(Box::pin(async move {
                let reply = match waits.await {
                    PhaseDecision::Reply(reply) => Some(reply),
                    _ => None,
                };
                self.conclude(reply, cost).map_or(PhaseDecision::Continue, PhaseDecision::Reply)
            })),
            other => other,
        }
    }

    /// The reply to a request of this cost to which the limit gave `reply`. The maximum outweighs a refusal
    /// by the limit, but not a limit that cannot count.
    fn conclude(&self, reply: Option<Box<BufferedReply>>, cost: u64) -> Option<Box<BufferedReply>> {
        let fails = reply.as_ref().is_some_and(|reply| reply.status == 500) && self.rejected_code != 500;
        if fails || self.max_cost <= 0.0 || cost as f64 <= self.max_cost {
            return reply;
        }
        let text = format!("Invalid graphql request: query cost {cost} exceeds max_cost {}", self.max_cost);
        Some(Box::new(BufferedReply::message(403, &text)))
    }

    fn without_schema(&self, exchange: &Exchange, reason: &str) -> PhaseDecision {
        if let Some(requests) = self.outages.add(exchange.local().now_ms()) {
            tracing::warn!(reason, requests, "{NAME} has no schema of the upstream");
        }
        let text = "Invalid graphql request: failed to introspect the upstream graphql schema";
        PhaseDecision::Reply(Box::new(refuse_graphql_request(text)))
    }
}

/// The operations that count: the named one of several, or all.
fn chosen<'d>(document: &'d GraphqlDocument, name: Option<&str>) -> Vec<&'d GraphqlOperation> {
    let all = &document.operations;
    let named =
        all.iter().find(|operation| all.len() > 1 && name.is_some() && operation.name.as_deref() == name);
    named.map_or_else(|| all.iter().collect(), |named| vec![named])
}

#[cfg(test)]
mod tests;
