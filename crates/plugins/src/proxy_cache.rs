//! # proxy-cache
//!
//! Stores responses of the upstream, in memory or on disk, and answers later requests with them. The header
//! `Apisix-Cache-Status` of a response tells the part of the cache in it.
//!
//! ```json
//! {
//!   "cache_strategy": "memory",
//!   "cache_zone": "memory_cache",
//!   "cache_ttl": 60,
//!   "cache_key": ["$host", "$request_uri"],
//!   "cache_bypass": ["$arg_bypass"],
//!   "no_cache": ["$arg_no_cache"]
//! }
//! ```
//!
//! **Zones.** `cache_zone` names a zone of the setting `proxy_cache` of this instance (`apisix.proxy_cache`
//! of a `config.yaml`); `cache_strategy` has to fit it. All workers share a zone, and it survives
//! configuration changes; a zone on disk survives a restart too. When a zone is full, entries that are rarely
//! used go first. An entry may take a part of its zone only: half of 16 MiB in memory and half of 256 MiB on
//! disk, or half of a zone that is smaller than that. With `memory`, a body longer than `max_resp_body_size`
//! is not stored either. Such bodies pass through.
//!
//! **Key.** Requests with the same values of `cache_key` get the same response. Scheme, authority and whether
//! the method is POST are always part of the key. The authority counts as the upstream is told of it: `Host`
//! with its port and its spelling, and `X-Forwarded-Host`, `-Port`, `-Proto` and `Forwarded`, so that a
//! response which the upstream made for `shop.example:1337` is never sent to a client of `shop.example`.
//! Where `cache_key` names the path (`$uri`, `$request_uri`), the path that the upstream gets counts beside
//! it. With `consumer_isolation` each consumer has entries of its own, unless `cache_key` names
//! `$consumer_name`, `$consumer_group_id`, `$remote_user` or `$http_authorization`. A request that goes to
//! the upstream with an `Authorization` field has entries for that very value, with a consumer and without
//! `consumer_isolation` too; `hide_credentials` of an authentication plugin removes it. The same holds for
//! fields that `openid-connect`, `forward-auth` and `opa` set for the upstream. `Vary` of a response divides
//! a key further, into at most 64 variants. HEAD is answered by the entry of GET and does not make one.
//!
//! **Stored** are responses with one of `cache_http_status` to one of `cache_method`, unless a value of
//! `no_cache` is neither empty nor `0`, or the response has `Cache-Control: private`, `no-store` or
//! `no-cache`, `Vary: *`, or `Set-Cookie` (the last unless `cache_set_cookie` is set and the strategy is
//! `memory`). A response is stored once it is complete; a cut one, one without a length or chunks, and a 206
//! never are. A `Cache-Control` that RFC 9111 does not allow (`max-age=60; private`) counts as `no-store`.
//! Responses that the gateway or another plugin makes are not stored.
//!
//! **Lifetime.** With `memory`, `cache_ttl` seconds; with `cache_control` as `s-maxage`, `max-age` or
//! `Expires` say, less the `Age` of the response, and a response without them is not stored. With `disk` as
//! `X-Accel-Expires` or the fields above say; without them `cache_ttl` of the setting `proxy_cache`, 10
//! seconds by default.
//!
//! **Request directives.** With `memory` and `cache_control`: `no-store` and `no-cache` bypass the cache,
//! `max-age`, `min-fresh` and `max-stale` say how old a response may be, and `only-if-cached` is answered 504
//! without a fresh entry.
//!
//! **Validation.** A stale entry with `ETag` or `Last-Modified` is revalidated: on 304 from the upstream it
//! is sent and is fresh again. Conditional requests (`If-None-Match`, `If-Modified-Since`) and single ranges
//! (`Range`, `If-Range`) of clients are answered from whole entries. A range that is not in the cache goes to
//! the upstream and is not stored. Requests with `If-Match` or `If-Unmodified-Since` bypass the cache. A
//! successful request with another method than GET, HEAD, OPTIONS and those of `cache_method` removes the
//! entry of its key (RFC 9111 section 4.4). Without an entry the conditions of a client are taken out of the
//! request, so that the whole response comes; where the last one could not be stored, they stay.
//!
//! **Stale entries.** `stale_while_revalidate` and `stale_if_error` are seconds for which a stale entry is
//! sent while one request asks the upstream for a new one, or because the upstream cannot be reached or
//! answers 500, 502, 503 or 504. Directives of these names in `Cache-Control` of the response outweigh them
//! where the lifetime comes from the response. `must-revalidate`, `proxy-revalidate` and `s-maxage` forbid
//! both. They are extensions of this gateway, 0 by default.
//!
//! **Background requests.** Within `stale_while_revalidate` no client waits: the first one that meets the
//! stale entry gets it at once, as all others do, and its request goes on to the upstream in the background
//! (RFC 5861 section 3; nginx's `proxy_cache_background_update`). There is one for each entry at a time, with
//! the validators of the entry, as GET and without `Range` where the client sent HEAD or a range. Plugins
//! that run after this one and the choice of the upstream are those of the client's request. Plugins of the
//! response do not run, and of the log phase only those that ran for it: it has no line in access logs and is
//! no request in metrics of requests. After an update in vain the entry is sent as `STALE` for at least a
//! second before the next one. A worker has at most 64 such requests; beyond them a stale entry is sent as
//! `STALE` and not updated. Each takes five minutes at most, and ends with the drain of the gateway. A client
//! that limits the age itself (`max-age`, `min-fresh`, `max-stale`, with `cache_control`) and a request with
//! a body that was not read whole wait for the upstream.
//!
//! **One request to the upstream.** Requests that miss the same key at the same time wait for the first of
//! them, for at most `coalesce_timeout` seconds, and are answered by its response. If that is not stored they
//! go to the upstream themselves, and so they do at once for an event stream, and after a second for a
//! response that does not tell its length. 0 switches this extension off.
//!
//! **Place.** With `disk`, and in a global rule, the cache is asked after all plugins of the access phase, so
//! that a hit counts for limits and a route's authorization holds for it. With `memory` in a route or a
//! service it is asked at the priority of this plugin, as in APISIX: `limit-conn`, `limit-count` and
//! `limit-req` do not see hits, and authentication does.
//!
//! **Purge.** `PURGE` of a URL removes its entry with all variants: 200, or 404 without one. It has to name
//! the same authority as the requests, port included, and come in at the same port if it names none. The
//! route has to take the method, and any client that may send it may purge, as in APISIX. Leave `PURGE` out
//! of the `methods` of a public route, or let some clients only: `"ip-restriction": {"whitelist":
//! ["10.0.0.0/8"], "_meta": {"filter": [["request_method", "==", "PURGE"]]}}`.
//!
//! **Apisix-Cache-Status**: `MISS` without an entry; `HIT`; `EXPIRED`, the entry was stale and the upstream
//! has sent another response; `REVALIDATED`, the upstream has confirmed it; `UPDATING` and `STALE`, a stale
//! entry was sent while a request asks in the background or for another client, or because the upstream
//! fails; `STALE` also where an entry is too old for the client, which then gets a new response; `BYPASS`,
//! the cache was not asked. A method that is not in `cache_method` is `MISS` with `memory` and `BYPASS` with
//! `disk`. `hide_cache_headers` removes `Cache-Control` and `Expires` from responses.
//!
//! A disk that is full or fails makes requests pass through; the error log says so every ten seconds at most.

mod background;
mod conditions;
mod counters;
mod directives;
mod disk;
mod entry;
mod fill;
mod flight;
mod key;
mod keyed;
mod rules;
mod serve;
mod settings;
mod upstream;
mod vary;
mod visit;
mod zone;
mod zones;

use std::sync::Arc;

use exchange::Exchange;
use exchange::failure::ExchangeFailure;
use exchange::plugin::state::StateRegistry;
use exchange::plugin::{Build, Flow, Plugin, PluginKind, PluginPhase, ResponseStep, StoredReply};
use message::{FieldId, Method};
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes, words};
use crate::shared::config;
use key::{Flag, KeyTemplate};
use rules::{CacheRules, Lifetime};
use visit::ProxyCacheState;
use zone::Zone;

pub(crate) use keyed::{KeyedCache, KeyedSettings, Purgeable, PurgeableCaches};
pub use settings::CacheSettings;
pub use zones::Zones;

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "proxy-cache",
    1085,
    &[
        PluginPhase::Access,
        PluginPhase::BeforeProxy,
        PluginPhase::UpstreamResponse,
        PluginPhase::ResponseHead,
        PluginPhase::Log,
    ],
    ProxyCacheConfig::schema,
    build,
)
.checked(check)
.checked_with_running(check_zone)
.documented(include_str!("proxy_cache.rs"));

/// The field that tells the part of the cache in a response.
const STATUS_FIELD: &str = "Apisix-Cache-Status";
/// The zone where none is named.
const DEFAULT_ZONE: &str = "disk_cache_one";
/// The form of an entry of `cache_key`, `cache_bypass` and `no_cache`: a variable, or a text of two
/// characters and more.
const PART_PATTERN: &str = r"(^[^\$].+$|^\$[0-9a-zA-Z_]+$)";

attributes! {
    struct ProxyCacheConfig {
        /// Where responses are stored.
        cache_strategy: CacheStrategy = CacheStrategy::Disk;
        /// The zone of the setting `proxy_cache` that holds them.
        cache_zone: String = DEFAULT_ZONE.into(), { "minLength": 1, "maxLength": 100 };
        /// Variables and texts that tell requests apart by their values.
        cache_key: Vec<String> = vec!["$host".into(), "$request_uri".into()],
            { "minItems": 1, "items": { "type": "string", "pattern": PART_PATTERN, "description": "A variable or a text." } };
        /// Statuses of responses that are stored.
        cache_http_status: Vec<u16> = vec![200, 301, 404],
            { "minItems": 1, "uniqueItems": true, "items": { "type": "integer", "minimum": 200, "maximum": 599, "description": "A status." } };
        /// Methods of requests that are answered from the cache.
        cache_method: Vec<CachedMethod> = vec![CachedMethod::Get, CachedMethod::Head],
            { "minItems": 1, "uniqueItems": true };
        /// Removes Cache-Control and Expires from responses.
        hide_cache_headers: bool = false;
        /// Takes lifetimes from responses and heeds Cache-Control of requests; for the strategy memory.
        cache_control: bool = false;
        /// The cache is not asked if the values of these, one behind the other, are neither empty nor `0`.
        cache_bypass: Option<Vec<String>>,
            { "minItems": 1, "items": { "type": "string", "pattern": PART_PATTERN, "description": "A variable or a text." } };
        /// A response is not stored if the values of these, one behind the other, are neither empty nor `0`.
        no_cache: Option<Vec<String>>,
            { "minItems": 1, "items": { "type": "string", "pattern": PART_PATTERN, "description": "A variable or a text." } };
        /// Seconds for which a response in memory is fresh.
        cache_ttl: u64 = 300, { "minimum": 1 };
        /// Gives each consumer entries of its own.
        consumer_isolation: bool = true;
        /// Stores responses with Set-Cookie; for the strategy memory.
        cache_set_cookie: bool = false;
        /// The longest body in bytes that is stored in memory; longer ones pass through.
        max_resp_body_size: u64 = 67_108_864, { "minimum": 1 };
        /// Seconds for which requests wait for another one that asks the upstream for the same; 0 does not
        /// wait.
        coalesce_timeout: u64 = 5, { "minimum": 0, "maximum": 50 };
        /// Seconds for which a stale response is sent while a request in the background asks for a new one.
        stale_while_revalidate: u64 = 0, { "minimum": 0 };
        /// Seconds for which a stale response is sent where the upstream fails.
        stale_if_error: u64 = 0, { "minimum": 0 };
    }
}

words! {
    pub(crate) enum CacheStrategy {
        Disk = "disk",
        Memory = "memory",
    }
}

words! {
    enum CachedMethod {
        Get = "GET",
        Post = "POST",
        Head = "HEAD",
    }
}

/// The compiled plugin.
struct ProxyCache {
    zone: Arc<Zone>,
    key: KeyTemplate,
    rules: CacheRules,
    methods: Box<[Method]>,
    bypass: Option<Flag>,
    no_cache: Option<Flag>,
    hides_headers: bool,
    /// Cache-Control of requests counts.
    heeds_requests: bool,
    in_memory: bool,
    /// The cache is asked after the access phase. A hit of a global rule would otherwise go past the plugins
    /// of the route.
    looks_late: bool,
    body_bytes_max: u64,
    coalesce_ms: u64,
    /// Keeps the zones outside of an instance, where no other part of the program holds them.
    _zones: Arc<Zones>,
}

fn check(config: &Value) -> Result<(), String> {
    let config: ProxyCacheConfig = config::parse_config(config)?;
    KeyTemplate::compile(&config.cache_key, config.consumer_isolation)?;
    for entries in [&config.cache_bypass, &config.no_cache].into_iter().flatten() {
        Flag::compile(entries)?;
    }
    Ok(())
}

/// Checks the zone. A plugin that is switched off may name one that is still to come, as in the contract.
fn check_zone(states: &StateRegistry, config: &Value) -> Result<(), String> {
    if config.pointer("/_meta/disable") == Some(&Value::Bool(true)) {
        return Ok(());
    }
    let config: ProxyCacheConfig = config::parse_config(config)?;
    check_zone_named(states, &config.cache_zone, config.cache_strategy)
}

/// Checks that a running instance has this zone for this strategy.
pub(crate) fn check_zone_named(
    states: &StateRegistry,
    zone: &str,
    strategy: CacheStrategy,
) -> Result<(), String> {
    let Some(zones) = Zones::running(states) else { return Ok(()) };
    zones.check(zone, strategy == CacheStrategy::Disk)
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let config: ProxyCacheConfig = config::parse_config(config)?;
    let in_memory = config.cache_strategy == CacheStrategy::Memory;
    let zones = Zones::of(build.states);
    let zone = zones.open(&config.cache_zone, !in_memory)?;
    let lifetime = match (in_memory, config.cache_control) {
        (false, _) => Lifetime::ResponseOr(zones.disk_ttl_s),
        (true, true) => Lifetime::Response,
        (true, false) => Lifetime::Fixed(config.cache_ttl),
    };
    let limit_bytes = if in_memory { config.max_resp_body_size } else { u64::MAX };
    let method = |method: &CachedMethod| Method::of(method.word().as_bytes());
    let flag = |entries: Option<Vec<String>>| entries.map(|entries| Flag::compile(&entries)).transpose();
    Ok(Arc::new(ProxyCache {
        key: KeyTemplate::compile(&config.cache_key, config.consumer_isolation)?,
        rules: CacheRules {
            statuses: config.cache_http_status.into(),
            lifetime,
            stores_cookies: config.cache_set_cookie && in_memory,
            while_revalidate_s: config.stale_while_revalidate,
            if_error_s: config.stale_if_error,
        },
        methods: config.cache_method.iter().map(method).collect(),
        bypass: flag(config.cache_bypass)?,
        no_cache: flag(config.no_cache)?,
        hides_headers: config.hide_cache_headers,
        heeds_requests: config.cache_control && in_memory,
        in_memory,
        looks_late: looks_late(build, in_memory),
        body_bytes_max: limit_bytes.min(zone.body_bytes_max()),
        coalesce_ms: config.coalesce_timeout * 1_000,
        zone,
        _zones: zones,
    }))
}

fn looks_late(build: &Build<'_>, in_memory: bool) -> bool {
    !in_memory || build.owner.trim_start_matches('/').starts_with("global_rules/")
}

impl Plugin for ProxyCache {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        match exchange.request.method {
            Method::Purge => self.purge(exchange),
            _ if self.looks_late => Flow::Continue,
            _ => self.begin(exchange),
        }
    }

    fn before_proxy<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        if self.looks_late { self.begin(exchange) } else { Flow::Continue }
    }

    fn upstream_response(
        &self,
        exchange: &mut Exchange,
        failure: Option<&ExchangeFailure>,
    ) -> Option<Box<StoredReply>> {
        self.replace(exchange, failure)
    }

    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        self.show_status(exchange);
        ResponseStep::Done
    }

    fn log(&self, exchange: &Exchange) {
        self.end(exchange);
    }
}

impl ProxyCache {
    /// Looks whether the upstream's response, or its failure, is replaced.
    fn replace(
        &self,
        exchange: &mut Exchange,
        failure: Option<&ExchangeFailure>,
    ) -> Option<Box<StoredReply>> {
        match failure {
            Some(failure) => self.instead_of_failure(exchange, failure),
            None => self.instead_of_response(exchange),
        }
    }

    /// Tells the client the part of the cache in the response.
    fn show_status(&self, exchange: &mut Exchange) {
        let status = exchange.peek_state::<ProxyCacheState>().and_then(|visit| visit.status);
        if let Some(status) = status {
            exchange.decision.cache_status = Some(status.word());
            let headers = &mut exchange.response.headers;
            if self.hides_headers {
                headers.remove_known(FieldId::CacheControl);
                headers.remove_known(FieldId::Expires);
            }
            // A word under a valid name fails only if the response is full; then it is left out.
            let _ = headers.set(STATUS_FIELD, status.word().as_bytes());
        }
    }

    /// Ends the visit of a request, and counts it.
    fn end(&self, exchange: &Exchange) {
        let Some(visit) = exchange.peek_state::<ProxyCacheState>() else { return };
        // Requests that wait for this one go on; it has ended without an entry.
        drop(visit.leader.take());
        if let Some(outcome) = visit.background {
            return self.background_ended(exchange, visit, outcome);
        }
        if let Some(status) = visit.status {
            self.zone.counters.count(exchange.local().index, status);
        }
    }
}

#[cfg(test)]
mod tests;
