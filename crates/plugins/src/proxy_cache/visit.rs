//! The way of one request through the cache before the upstream is asked: found, bypassed, or waiting for
//! another one.

use std::cell::Cell;
use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{BufferedReply, Flow, PhaseDecision, StoredReply};
use message::{FieldId, Headers, Method};
use net::env;

use super::ProxyCache;
use super::background::{Outcome, answers_stale};
use super::conditions::{Conditions, has_precondition};
use super::counters::CacheStatus;
use super::directives::Directives;
use super::entry::{CacheEntry, CachedBody};
use super::flight::{FlightRole, Leader};
use super::serve;
use super::zone::ZoneLookup;

/// The state of a request.
#[derive(Default)]
pub(super) struct ProxyCacheState {
    /// The part of the cache in the response; none if it has no part in the response.
    pub(super) status: Option<CacheStatus>,
    /// Others wait for this request.
    pub(super) leader: Cell<Option<Leader>>,
    /// Its key, where the response may be stored or an entry be used.
    pub(super) key: Option<Arc<[u8]>>,
    /// The response may be stored.
    pub(super) stores: bool,
    /// The entry that is stale, or not fresh enough for this client.
    pub(super) stale: Option<Arc<CacheEntry>>,
    /// The upstream is asked whether the stale entry is still good.
    pub(super) revalidates: bool,
    /// The fields of the request when its entry was looked for: plugins and attempts change them afterwards,
    /// and the next request is looked for by what it has then.
    pub(super) asked: Option<Box<Headers>>,
    /// The client's conditions, taken out of the request.
    pub(super) conditions: Option<Conditions>,
    /// The end of a background request, as far as it is known; none for a request with a client.
    pub(super) background: Option<Outcome>,
    /// A method that may change the resource of the key.
    pub(super) is_unsafe: bool,
}

/// How an entry answers a request.
enum EntryUsability {
    Fresh,
    /// It may be sent although it is stale, because the client says so.
    Allowed,
    /// The client wants a fresher one.
    TooOld,
    Stale,
}

impl ProxyCache {
    /// Asks the cache, in the access phase or after it.
    pub(super) fn begin<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let method = exchange.request.method;
        if exchange.grpc.is_some() || exchange.request.upgrade_text().is_some() {
            return Flow::Continue;
        }
        if !self.methods.contains(&method) {
            let is_safe = matches!(method, Method::Get | Method::Head | Method::Options);
            let key = (!is_safe).then(|| self.key_of(exchange, Method::Get));
            let status = if self.in_memory { CacheStatus::Miss } else { CacheStatus::Bypass };
            let visit = exchange.state::<ProxyCacheState>();
            (visit.status, visit.is_unsafe, visit.key) = (Some(status), !is_safe, key);
            return Flow::Continue;
        }
        let request = match self.heeds_requests {
            true => Directives::of(&exchange.request.headers),
            false => Directives::default(),
        };
        let is_bypassed = self.bypass.as_ref().is_some_and(|bypass| bypass.is_set(exchange));
        if is_bypassed || request.no_store || request.no_cache || has_precondition(&exchange.request.headers)
        {
            return self.bypass(exchange, is_bypassed);
        }
        self.look(exchange, &request)
    }

    /// Goes past the cache. As nginx does, a zone on disk stores the response of a request that
    /// `cache_bypass` sends past it.
    fn bypass<'a>(&self, exchange: &mut Exchange, is_configured: bool) -> Flow<'a> {
        let stores = !self.in_memory && is_configured && exchange.request.method != Method::Head;
        let key = stores.then(|| self.key_of(exchange, exchange.request.method));
        let visit = exchange.state::<ProxyCacheState>();
        (visit.status, visit.stores, visit.key) = (Some(CacheStatus::Bypass), stores, key);
        Flow::Continue
    }

    /// Removes what is stored for the URL of the request.
    pub(super) fn purge<'a>(&self, exchange: &mut Exchange) -> Flow<'a> {
        let mut found = false;
        for method in [Method::Get, Method::Post] {
            found |= self.zone.purge(&self.key_of(exchange, method));
        }
        Flow::reply(BufferedReply::status(if found { 200 } else { 404 }))
    }

    fn key_of(&self, exchange: &Exchange, method: Method) -> Arc<[u8]> {
        let mut key = Vec::with_capacity(128);
        self.key.write(exchange, method, &mut key);
        key.into()
    }

    /// Looks for an entry; a hit ends here.
    fn look<'a>(&'a self, exchange: &'a mut Exchange, request: &Directives) -> Flow<'a> {
        let now_s = read_recent_clock_s(exchange);
        let mut key = std::mem::take(&mut exchange.scratch);
        key.clear();
        self.key.write(exchange, exchange.request.method, &mut key);
        let found = self.zone.find(&key, &exchange.request.headers, now_s);
        if let ZoneLookup::Entry(entry) = &found {
            let status = match verdict(entry, request, now_s) {
                EntryUsability::Fresh => Some(CacheStatus::Hit),
                EntryUsability::Allowed => Some(CacheStatus::Stale),
                EntryUsability::TooOld | EntryUsability::Stale => None,
            };
            if let Some(status) = status {
                exchange.scratch = key;
                return self.hit(exchange, entry.clone(), status, now_s);
            }
        }
        let shared: Arc<[u8]> = key.as_slice().into();
        exchange.scratch = key;
        self.missed(exchange, shared, found, request, now_s)
    }

    fn hit<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        entry: Arc<CacheEntry>,
        status: CacheStatus,
        now_s: u64,
    ) -> Flow<'a> {
        exchange.state::<ProxyCacheState>().status = Some(status);
        match serve::serve_cache_entry(exchange, &entry, None, false, now_s) {
            Some(reply) => Flow::Stored(reply),
            None => Flow::Wait(Box::pin(async move {
                let method = exchange.request.method;
                match self.open(exchange, &entry).await {
                    Some(reply) => PhaseDecision::Stored(reply),
                    None => {
                        let key = self.key_of(exchange, method);
                        self.zone.purge(&key);
                        if fills(exchange) {
                            return self.wait(exchange, key, Directives::default()).await;
                        }
                        self.go_on(exchange, key, None, CacheStatus::Miss, false);
                        PhaseDecision::Continue
                    }
                }
            })),
        }
    }

    /// The response of an entry on disk, once its file is open; none if it cannot be opened.
    async fn open(&self, exchange: &mut Exchange, entry: &Arc<CacheEntry>) -> Option<Box<StoredReply>> {
        if let CachedBody::Disk(file) = &entry.body {
            file.open_aside().await.ok()?;
        }
        serve::serve_cache_entry(exchange, entry, None, true, read_recent_clock_s(exchange))
    }

    /// Goes on without a fresh entry: leads, or waits for the request that does.
    fn missed<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        key: Arc<[u8]>,
        found: ZoneLookup,
        request: &Directives,
        now_s: u64,
    ) -> Flow<'a> {
        let (stale, status, passes) = match found {
            ZoneLookup::Entry(entry) => match verdict(&entry, request, now_s) {
                EntryUsability::TooOld => (Some(entry), CacheStatus::Stale, false),
                _ => (Some(entry), CacheStatus::Expired, false),
            },
            ZoneLookup::Passes => (None, CacheStatus::Miss, true),
            ZoneLookup::Nothing => (None, CacheStatus::Miss, false),
        };
        if request.only_if_cached {
            exchange.state::<ProxyCacheState>().status = Some(status);
            return Flow::reply(BufferedReply::status(504));
        }
        if let Some(entry) = &stale
            && status == CacheStatus::Expired
            && answers_stale(entry, request, now_s)
            && let Some(status) = self.update(exchange, &key, entry, now_s)
        {
            return self.hit(exchange, entry.clone(), status, now_s);
        }
        if !fills(exchange) || passes || self.coalesce_ms == 0 || !self.zone.can_store() {
            self.go_on(exchange, key, stale, status, passes);
            return Flow::Continue;
        }
        match self.zone.join(&key, &exchange.request.headers) {
            FlightRole::Lead(leader) => {
                exchange.state::<ProxyCacheState>().leader.set(Some(leader));
                self.go_on(exchange, key, stale, status, false);
                Flow::Continue
            }
            FlightRole::Alone => {
                self.go_on(exchange, key, stale, status, false);
                Flow::Continue
            }
            FlightRole::Wait(_) => {
                let request = *request;
                Flow::Wait(Box::pin(self.wait(exchange, key, request)))
            }
        }
    }

    /// Waits for the request that fills `key`, for a limited time.
    async fn wait(&self, exchange: &mut Exchange, key: Arc<[u8]>, request: Directives) -> PhaseDecision {
        let ends_ms = exchange.local().now_ms() + self.coalesce_ms;
        loop {
            // The clock of the worker was read when the task was woken.
            let left_ms = ends_ms.saturating_sub(exchange.local().clock_ns() / 1_000_000);
            let (mut leader, mut passes) = (None, left_ms == 0);
            match self.zone.join(&key, &exchange.request.headers) {
                _ if passes => {}
                FlightRole::Lead(led) => leader = Some(led),
                FlightRole::Alone => passes = true,
                FlightRole::Wait(flight) => tokio::select! {
                    cannot_be_stored = flight.ended() => passes = cannot_be_stored,
                    () = env::sleep_ms(left_ms) => passes = true,
                },
            }
            let now_s = read_recent_clock_s(exchange);
            let mut keeps_conditions = false;
            let (stale, status) = match self.zone.find(&key, &exchange.request.headers, now_s) {
                ZoneLookup::Entry(entry) => match verdict(&entry, &request, now_s) {
                    EntryUsability::Fresh | EntryUsability::Allowed => {
                        exchange.state::<ProxyCacheState>().status = Some(CacheStatus::Hit);
                        match self.open_or_reply(exchange, &entry, now_s).await {
                            Some(reply) => return PhaseDecision::Stored(reply),
                            None => (None, CacheStatus::Miss),
                        }
                    }
                    EntryUsability::TooOld => (Some(entry), CacheStatus::Stale),
                    EntryUsability::Stale => (Some(entry), CacheStatus::Expired),
                },
                ZoneLookup::Passes => {
                    (passes, keeps_conditions) = (true, true);
                    (None, CacheStatus::Miss)
                }
                ZoneLookup::Nothing => (None, CacheStatus::Miss),
            };
            if leader.is_some() || passes {
                exchange.state::<ProxyCacheState>().leader.set(leader);
                self.go_on(exchange, key, stale, status, keeps_conditions);
                return PhaseDecision::Continue;
            }
        }
    }

    async fn open_or_reply(
        &self,
        exchange: &mut Exchange,
        entry: &Arc<CacheEntry>,
        now_s: u64,
    ) -> Option<Box<StoredReply>> {
        match serve::serve_cache_entry(exchange, entry, None, false, now_s) {
            Some(reply) => Some(reply),
            None => self.open(exchange, entry).await,
        }
    }

    /// Sends the request on, so that its response can be stored: without conditions of the client, and with
    /// one of its own where there is a stale entry. Where the last response could not be stored, the client
    /// `keeps_conditions`: the whole response would be of no further use.
    pub(super) fn go_on(
        &self,
        exchange: &mut Exchange,
        key: Arc<[u8]>,
        stale: Option<Arc<CacheEntry>>,
        status: CacheStatus,
        keeps_conditions: bool,
    ) {
        let method = exchange.request.method;
        let is_whole = !exchange.request.headers.contains_known(FieldId::Range);
        let mut conditions = None;
        let mut revalidates = false;
        let asked = (method != Method::Head).then(|| Box::new(exchange.request.headers.clone()));
        if method == Method::Get && is_whole && !keeps_conditions {
            let headers = &mut exchange.request.headers;
            conditions = Some(Conditions::take(headers));
            if let Some(entry) = &stale {
                let (tag, changed) = entry.validators();
                let validators = [(FieldId::IfNoneMatch, tag), (FieldId::IfModifiedSince, changed)];
                for (id, value) in validators {
                    // A received value is valid, so this fails only if the request is full.
                    revalidates |= value.is_some_and(|value| headers.set_known(id, value).is_ok());
                }
            }
        }
        let visit = exchange.state::<ProxyCacheState>();
        visit.status = Some(status);
        visit.stores = method != Method::Head;
        (visit.key, visit.stale, visit.conditions) = (Some(key), stale, conditions);
        visit.asked = asked;
        visit.revalidates = revalidates;
    }
}

/// Whether the response to a request can become an entry that others may wait for.
fn fills(exchange: &Exchange) -> bool {
    exchange.request.method != Method::Head && !exchange.request.headers.contains_known(FieldId::Range)
}

fn verdict(entry: &CacheEntry, request: &Directives, now_s: u64) -> EntryUsability {
    let times = &entry.times;
    if !times.is_fresh(now_s) {
        let allowed = request.max_stale.is_some_and(|limit_s| times.may_be_stale(now_s, limit_s));
        return if allowed { EntryUsability::Allowed } else { EntryUsability::Stale };
    }
    let fresh_for_s = times.fresh_s - times.resident_s(now_s);
    let is_too_old = request.max_age.is_some_and(|limit_s| times.age_s(now_s) > limit_s);
    if is_too_old || request.min_fresh.is_some_and(|least_s| fresh_for_s < least_s) {
        return EntryUsability::TooOld;
    }
    EntryUsability::Fresh
}

/// Unix seconds now.
pub(super) fn read_recent_clock_s(exchange: &Exchange) -> u64 {
    let local = exchange.local();
    local.wall_at(local.recent_ns()).0
}
