//! A cache for a plugin that makes the keys of its requests itself: the same zones, store and rules, without
//! templates, bypasses and directives of requests. Its entries can be removed by their key in any later
//! request.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use exchange::Exchange;
use exchange::failure::ExchangeFailure;
use exchange::plugin::state::StateRegistry;
use exchange::plugin::{Build, Flow, StoredReply};
use message::Method;
use parking_lot::Mutex;

use super::counters::CacheStatus;
use super::key::{GivenKey, KeyTemplate, append_length_prefixed};
use super::rules::{CacheRules, Lifetime};
use super::visit::ProxyCacheState;
use super::zone::Zone;
use super::zones::Zones;
use super::{CacheStrategy, ProxyCache, looks_late};

/// Milliseconds for which requests wait for another one that asks the upstream for the same: the default of
/// `proxy-cache`.
const COALESCE_MS: u64 = 5_000;
/// The first byte of keys made here, which tells them from those of `proxy-cache`.
const KEY_MARK: u8 = b'k';

/// See the module.
pub(crate) struct KeyedCache {
    cache: ProxyCache,
    /// Writes the parts of a key that tell users and hosts apart.
    identity: KeyTemplate,
    /// Known to `_caches` as long as this cache exists.
    _purgeable: Arc<Purgeable>,
    _caches: Arc<PurgeableCaches>,
}

/// The settings of a cache.
pub(crate) struct KeyedSettings<'a> {
    /// Where responses are stored.
    pub(crate) strategy: CacheStrategy,
    /// The name of the zone.
    pub(crate) zone: &'a str,
    /// Seconds for which a response in memory is fresh.
    pub(crate) ttl_s: u64,
    /// Consumers have entries of their own.
    pub(crate) consumer_isolation: bool,
    /// Stores responses with Set-Cookie, in memory.
    pub(crate) stores_cookies: bool,
}

impl KeyedCache {
    /// Opens the cache of the plugin `plugin` that is built.
    ///
    /// # Errors
    /// There is no such zone, in the contract's words.
    pub(crate) fn open(
        build: &Build<'_>,
        plugin: &str,
        settings: &KeyedSettings<'_>,
    ) -> Result<KeyedCache, String> {
        let in_memory = settings.strategy == CacheStrategy::Memory;
        let zones = Zones::of(build.states);
        let zone = zones.open(settings.zone, !in_memory)?;
        let purgeable = Arc::new(Purgeable { zone: zone.clone(), in_memory });
        let caches = PurgeableCaches::of(build.states, plugin);
        caches.add(build.owner, &purgeable);
        let cache = ProxyCache {
            key: KeyTemplate::given(),
            rules: CacheRules {
                statuses: [200].into(),
                lifetime: match in_memory {
                    true => Lifetime::Fixed(settings.ttl_s),
                    false => Lifetime::ResponseOr(zones.disk_ttl_s),
                },
                stores_cookies: settings.stores_cookies && in_memory,
                while_revalidate_s: 0,
                if_error_s: 0,
            },
            methods: [Method::Get, Method::Post].into(),
            bypass: None,
            no_cache: None,
            hides_headers: false,
            heeds_requests: false,
            in_memory,
            looks_late: looks_late(build, in_memory),
            body_bytes_max: zone.body_bytes_max(),
            coalesce_ms: COALESCE_MS,
            zone,
            _zones: zones,
        };
        let identity = KeyTemplate::compile(&[], settings.consumer_isolation)?;
        Ok(KeyedCache { cache, identity, _purgeable: purgeable, _caches: caches })
    }

    /// Whether the cache is asked after the access phase.
    pub(crate) fn looks_late(&self) -> bool {
        self.cache.looks_late
    }

    /// Gives the request the key of its method, scheme, host, user and these parts; the key is 64 hexadecimal
    /// digits.
    pub(crate) fn set_key<'p>(
        &self,
        exchange: &mut Exchange,
        parts: impl IntoIterator<Item = &'p [u8]>,
    ) -> String {
        let mut text = Vec::with_capacity(512);
        self.identity.write(exchange, exchange.request.method, &mut text);
        parts
            .into_iter()
            .for_each(|part| append_length_prefixed(&mut text, |text| text.extend_from_slice(part)));
        let digits = HEXLOWER.encode(digest(&SHA256, &text).as_ref());
        exchange.state::<GivenKey>().0 = zone_key(&digits);
        digits
    }

    /// Whether the request has a key.
    pub(crate) fn has_key(&self, exchange: &Exchange) -> bool {
        exchange.peek_state::<GivenKey>().is_some()
    }

    /// Asks the cache for a request with a key.
    pub(crate) fn ask<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        self.cache.begin(exchange)
    }

    /// Notes that the request goes past the cache.
    pub(crate) fn pass_by(&self, exchange: &mut Exchange) {
        exchange.state::<ProxyCacheState>().status = Some(CacheStatus::Bypass);
    }

    /// The stored reply in place of the upstream's response or failure, if there is one.
    pub(crate) fn upstream_response(
        &self,
        exchange: &mut Exchange,
        failure: Option<&ExchangeFailure>,
    ) -> Option<Box<StoredReply>> {
        self.cache.replace(exchange, failure)
    }

    /// Sets `Apisix-Cache-Status` in the response.
    pub(crate) fn show_status(&self, exchange: &mut Exchange) {
        self.cache.show_status(exchange);
    }

    /// Ends the visit of a request, in the log phase.
    pub(crate) fn end(&self, exchange: &Exchange) {
        self.cache.end(exchange);
    }
}

fn zone_key(digits: &str) -> Box<[u8]> {
    [&[KEY_MARK], digits.as_bytes()].concat().into()
}

/// A cache of which entries can be removed.
pub(crate) struct Purgeable {
    zone: Arc<Zone>,
    pub(crate) in_memory: bool,
}

impl Purgeable {
    /// Removes the entry with the key `digits` and its variants; whether there was one.
    pub(crate) fn purge(&self, digits: &str) -> bool {
        self.zone.purge(&zone_key(digits))
    }
}

/// The caches of all instances of a plugin by the object that they stand in. As many as there are instances.
#[derive(Default)]
pub(crate) struct PurgeableCaches(Mutex<HashMap<String, Weak<Purgeable>>>);

impl PurgeableCaches {
    /// Those of the plugin `plugin`.
    pub(crate) fn of(states: &StateRegistry, plugin: &str) -> Arc<PurgeableCaches> {
        states.keep_own(&format!("{plugin} caches"), PurgeableCaches::default)
    }

    fn add(&self, owner: &str, cache: &Arc<Purgeable>) {
        let mut caches = self.0.lock();
        caches.retain(|_, cache| cache.strong_count() > 0);
        caches.insert(owner.trim_start_matches('/').to_owned(), Arc::downgrade(cache));
    }

    /// The cache in the object `owner`, such as `routes/1`.
    pub(crate) fn find(&self, owner: &str) -> Option<Arc<Purgeable>> {
        self.0.lock().get(owner).and_then(Weak::upgrade)
    }
}
