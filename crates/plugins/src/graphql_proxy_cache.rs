//! # graphql-proxy-cache
//!
//! Stores responses of a GraphQL upstream and answers the same query from the store. Requests are GET with
//! the argument `query`, or POST with a body of JSON that has the member `query`, or with a document as
//! `application/graphql`.
//!
//! ```json
//! {
//!   "cache_strategy": "memory",
//!   "cache_zone": "memory_cache",
//!   "cache_ttl": 60
//! }
//! ```
//!
//! **Zones** are those of [proxy-cache](proxy-cache.md), with the same limits, metrics and behaviour when
//! they are full. `cache_strategy` has to fit the zone. With `memory` a response is fresh for `cache_ttl`
//! seconds; with `disk` for as long as the response says, otherwise for `cache_ttl` of the setting
//! `proxy_cache`.
//!
//! **Key.** Two requests get the same response if they are for the same route, service, scheme, authority (as
//! with `proxy-cache`), path and query, and have the same body to the byte, variables included. With
//! `consumer_isolation` each consumer has entries of its own. A request that goes to the upstream with an
//! `Authorization` field has entries for that very value in any case. Another configuration of the plugin
//! begins with an empty cache. The response field `APISIX-Cache-Key` tells the key.
//!
//! **Stored** are complete responses with status 200, unless `Cache-Control` forbids it or they have
//! `Set-Cookie` (`cache_set_cookie` allows it with `memory`). GraphQL servers answer 200 for many errors too:
//! such a response is stored as any other. Documents with a mutation or a subscription go past the cache.
//!
//! **Apisix-Cache-Status** tells the part of the cache, as with `proxy-cache`: `MISS`, `HIT`, `EXPIRED`, and
//! `BYPASS` for mutations and subscriptions.
//!
//! **Refusals.** Methods other than GET and POST are answered 405. A request without a document, or with one
//! that cannot be parsed or has more than 15,000 tokens or 100 levels, is answered 400, and the message says
//! why. So is a body or a query of more bytes than the setting
//! [`max_matched_body_bytes`](../settings.md#max_matched_body_bytes) allows, `variables` that are no object,
//! and a POST that has `query`, `variables`, `operationName` or `extensions` in its query string too.
//!
//! **Purge.** A route with `public-api` opens
//! `PURGE /apisix/plugin/graphql-proxy-cache/STRATEGY/ROUTE_ID/KEY`, which removes the entry with all its
//! variants. The answer is 200, and 404 if the route has no such cache or, with `disk`, the entry does not
//! exist. It is 400 if the strategy is not that of the route. Protect that route: a client that may use it
//! can empty the cache.

use std::sync::Arc;

use exchange::Exchange;
use exchange::failure::ExchangeFailure;
use exchange::plugin::state::StateRegistry;
use exchange::plugin::{
    BodyNeed, BufferedReply, Build, Flow, Plugin, PluginApi, PluginKind, PluginPhase, ResponseStep,
    StoredReply,
};
use message::Method;
use serde_json::Value;

use crate::proxy_cache::{
    CacheStrategy, KeyedCache, KeyedSettings, Purgeable, PurgeableCaches, check_zone_named,
};
use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;
use crate::shared::graphql::OperationKind;
use crate::shared::graphql::request::{
    GraphqlRequest, NO_BODY, bytes_max, find_graphql_source, refuse_graphql_request,
};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    NAME,
    1009,
    &[
        PluginPhase::RequestBody,
        PluginPhase::Access,
        PluginPhase::BeforeProxy,
        PluginPhase::UpstreamResponse,
        PluginPhase::ResponseHead,
        PluginPhase::Log,
    ],
    GraphqlProxyCacheConfig::schema,
    build,
)
.checked_with_running(check_zone)
.with_apis(&[PluginApi { method: Method::Purge, path: "/apisix/plugin/graphql-proxy-cache/*" }])
.documented(include_str!("graphql_proxy_cache.rs"));

const NAME: &str = "graphql-proxy-cache";
/// The field that tells the key of a response.
const KEY_FIELD: &str = "APISIX-Cache-Key";

attributes! {
    struct GraphqlProxyCacheConfig {
        /// The zone of the setting `proxy_cache` that holds the responses.
        cache_zone: String = "disk_cache_one".into(), { "minLength": 1, "maxLength": 100 };
        /// Where responses are stored.
        cache_strategy: CacheStrategy = CacheStrategy::Disk;
        /// Seconds for which a response in memory is fresh.
        cache_ttl: u64 = 300, { "minimum": 1 };
        /// Gives each consumer entries of its own.
        consumer_isolation: bool = true;
        /// Stores responses with Set-Cookie; for the strategy memory.
        cache_set_cookie: bool = false;
    }
}

/// The compiled plugin.
struct GraphqlProxyCache {
    cache: KeyedCache,
    /// The configuration, as a part of keys.
    identity: Box<str>,
}

/// The key of a request's response, as clients see it.
#[derive(Default)]
struct ShownKey(String);

fn check_zone(states: &StateRegistry, config: &Value) -> Result<(), String> {
    if config.pointer("/_meta/disable") == Some(&Value::Bool(true)) {
        return Ok(());
    }
    let config: GraphqlProxyCacheConfig = config::parse_config(config)?;
    check_zone_named(states, &config.cache_zone, config.cache_strategy)
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    // The instance inside `public-api` has no cache of its own.
    if build.owner.ends_with(&format!("#{NAME}")) {
        return Ok(Arc::new(Purge { caches: PurgeableCaches::of(build.states, NAME) }));
    }
    let parsed: GraphqlProxyCacheConfig = config::parse_config(config)?;
    let settings = KeyedSettings {
        strategy: parsed.cache_strategy,
        zone: &parsed.cache_zone,
        ttl_s: parsed.cache_ttl,
        consumer_isolation: parsed.consumer_isolation,
        stores_cookies: parsed.cache_set_cookie,
    };
    Ok(Arc::new(GraphqlProxyCache {
        cache: KeyedCache::open(build, NAME, &settings)?,
        identity: config::identity(config).into(),
    }))
}

impl Plugin for GraphqlProxyCache {
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
        if !matches!(exchange.request.method, Method::Get | Method::Post) {
            return Flow::reply(BufferedReply::status(405));
        }
        match is_cacheable(exchange) {
            Err(text) => return Flow::reply(refuse_graphql_request(&text)),
            Ok(false) => {
                self.cache.pass_by(exchange);
                return Flow::Continue;
            }
            Ok(true) => self.set_key(exchange),
        }
        if self.cache.looks_late() { Flow::Continue } else { self.cache.ask(exchange) }
    }

    fn before_proxy<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        if self.cache.looks_late() && self.cache.has_key(exchange) {
            return self.cache.ask(exchange);
        }
        Flow::Continue
    }

    fn upstream_response(
        &self,
        exchange: &mut Exchange,
        failure: Option<&ExchangeFailure>,
    ) -> Option<Box<StoredReply>> {
        self.cache.upstream_response(exchange, failure)
    }

    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        self.cache.show_status(exchange);
        if let Some(key) = exchange.peek_state::<ShownKey>().map(|key| key.0.clone()) {
            // Digits under a valid name fail only if the response is full; then the field is left out.
            let _ = exchange.response.headers.set(KEY_FIELD, key.as_bytes());
        }
        ResponseStep::Done
    }

    fn log(&self, exchange: &Exchange) {
        self.cache.end(exchange);
    }
}

/// Whether the request is a query, so that its response may be stored; the error is the text for the client.
fn is_cacheable(exchange: &Exchange) -> Result<bool, String> {
    let document = GraphqlRequest::of(exchange)?.document()?;
    Ok(document.operations.iter().all(|operation| operation.kind == OperationKind::Query))
}

impl GraphqlProxyCache {
    fn set_key(&self, exchange: &mut Exchange) {
        let (route, service) = match exchange.route() {
            Some(route) => (route.id.clone(), route.service.as_ref().map(|service| service.id.clone())),
            None => (Arc::from(""), None),
        };
        // As the upstream gets it: the decoded path does not tell all spellings apart.
        let path = exchange.forward_path().to_vec();
        let query = exchange.request.query().unwrap_or_default().to_vec();
        let content_type = exchange.request.headers.get("content-type").unwrap_or_default().to_vec();
        let source = find_graphql_source(exchange).unwrap_or_default().to_vec();
        let parts: [&[u8]; 7] = [
            self.identity.as_bytes(),
            route.as_bytes(),
            service.as_deref().unwrap_or_default().as_bytes(),
            &path,
            &query,
            &content_type,
            &source,
        ];
        let shown = self.cache.set_key(exchange, parts);
        exchange.state::<ShownKey>().0 = shown;
    }
}

/// The instance that serves the endpoint.
struct Purge {
    caches: Arc<PurgeableCaches>,
}

impl Plugin for Purge {
    fn api<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        Flow::reply(BufferedReply::status(self.purge(exchange)))
    }
}

impl Purge {
    /// Removes the entry that the path names; the status of the answer.
    fn purge(&self, exchange: &Exchange) -> u16 {
        let path = String::from_utf8_lossy(exchange.path()).into_owned();
        // `/apisix/plugin/graphql-proxy-cache/STRATEGY/ROUTE_ID/KEY`
        let mut segments = path.split('/').skip(4).map(str::to_owned);
        let (strategy, route, key) = (segments.next(), segments.next(), segments.next());
        let in_memory = match strategy.as_deref() {
            Some("memory") => true,
            Some("disk") => false,
            _ => return 400,
        };
        let (Some(route), Some(key)) = (route.filter(|id| !id.is_empty()), key.filter(|key| !key.is_empty()))
        else {
            return 400;
        };
        let Some(cache) = self.caches_of(exchange, &route) else { return 404 };
        if cache.in_memory != in_memory {
            return 400;
        }
        // As in APISIX, one in memory that does not exist is as good as removed.
        if cache.purge(&key) || in_memory { 200 } else { 404 }
    }

    /// The cache of a route: its own, or that of its plugin config or service.
    fn caches_of(&self, exchange: &Exchange, id: &str) -> Option<Arc<Purgeable>> {
        let route = exchange.decision.directory.as_ref()?.route_with_id(id)?;
        let own = self.caches.find(&format!("routes/{id}"));
        let of_config = || {
            let written: Value = serde_json::from_str(&route.written).ok()?;
            let config = written.get("plugin_config_id")?;
            let config = config.as_str().map_or_else(|| config.to_string(), str::to_owned);
            self.caches.find(&format!("plugin_configs/{config}"))
        };
        let of_service = || self.caches.find(&format!("services/{}", route.service.as_ref()?.id));
        own.or_else(of_config).or_else(of_service)
    }
}

#[cfg(test)]
mod tests;
