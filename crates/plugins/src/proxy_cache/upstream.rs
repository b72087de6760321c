//! The response of the upstream, seen by the cache: stored, replaced by an entry that it confirms, or by a
//! stale one.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use exchange::Exchange;
use exchange::failure::{Blame, ExchangeFailure, FailurePhase};
use exchange::plugin::StoredReply;
use message::FieldId;

use super::ProxyCache;
use super::background::no_body;
use super::counters::CacheStatus;
use super::disk::{EntryDestination, rewrite_head};
use super::entry::{CacheEntry, CachedBody, EntryTimes, stored_fields};
use super::fill::Fill;
use super::rules::{StorageRefusal, has_end};
use super::serve;
use super::vary::parse_vary_fields;
use super::visit::{ProxyCacheState, read_recent_clock_s};
use super::zone::signature;

impl ProxyCache {
    /// The stale entry, where the upstream cannot be reached.
    pub(super) fn instead_of_failure(
        &self,
        exchange: &mut Exchange,
        failure: &ExchangeFailure,
    ) -> Option<Box<StoredReply>> {
        if exchange.peek_state::<ProxyCacheState>().is_some_and(|visit| visit.background.is_some()) {
            return None;
        }
        // A client that went away, or sent a faulty request, gets no stored response.
        if failure.cause.blame() == Blame::Client || exchange.attempts.is_empty() && !is_balance(failure) {
            return None;
        }
        self.stale_if_error(exchange)
    }

    fn stale_if_error(&self, exchange: &mut Exchange) -> Option<Box<StoredReply>> {
        let now_s = read_recent_clock_s(exchange);
        let visit = exchange.state::<ProxyCacheState>();
        let entry = visit.stale.clone()?;
        if !entry.times.may_be_stale(now_s, entry.times.if_error_s) {
            return None;
        }
        visit.status = Some(CacheStatus::Stale);
        let conditions = visit.conditions.take();
        drop(visit.leader.take());
        serve::serve_cache_entry(exchange, &entry, conditions.as_ref(), true, now_s)
    }

    /// Looks at a response of the upstream: stores it, or sends an entry that it confirms or cannot replace.
    pub(super) fn instead_of_response(&self, exchange: &mut Exchange) -> Option<Box<StoredReply>> {
        let status = exchange.response.status;
        let (key, stores, revalidates, is_unsafe, is_background) = {
            let visit = exchange.peek_state::<ProxyCacheState>()?;
            let is_background = visit.background.is_some();
            (visit.key.clone()?, visit.stores, visit.revalidates, visit.is_unsafe, is_background)
        };
        if is_background {
            return self.background_response(exchange, key, revalidates);
        }
        if is_unsafe {
            if (200..400).contains(&status) {
                self.zone.purge(&key);
            }
            return None;
        }
        if status == 304 && revalidates {
            return self.confirmed(exchange, &key);
        }
        if matches!(status, 500 | 502 | 503 | 504)
            && let Some(reply) = self.stale_if_error(exchange)
        {
            return Some(reply);
        }
        // The messages of a call are no body for a client that a plugin translates for, and their status is
        // not kept.
        if stores && exchange.grpc.is_none() && !self.store(exchange, key) {
            return not_modified(exchange);
        }
        None
    }

    /// The upstream has confirmed the stale entry.
    pub(super) fn confirmed(&self, exchange: &mut Exchange, key: &Arc<[u8]>) -> Option<Box<StoredReply>> {
        let now_s = read_recent_clock_s(exchange);
        let visit = exchange.state::<ProxyCacheState>();
        let entry = visit.stale.take()?;
        visit.status = Some(CacheStatus::Revalidated);
        let conditions = visit.conditions.take();
        let leader = visit.leader.take();
        let mut refreshed = entry.refreshed(&exchange.response.headers, entry.times);
        if !exchange.response.headers.contains_known(FieldId::Date) {
            // It was made now, not when the entry was (RFC 9110 section 6.6.1). The entry has the field
            // already, so that there is room for it.
            let _ = refreshed.headers.set_known(FieldId::Date, &exchange.local().http_date());
        }
        let judged = self.rules.judge(entry.status, &refreshed.headers, true, now_s);
        let refreshed = match judged {
            Ok(freshness) => {
                let entry = Arc::new(CacheEntry { times: EntryTimes::new(&freshness, now_s), ..refreshed });
                let fields = parse_vary_fields(&entry.headers);
                let signature = asked_signature(exchange, &fields);
                let destination =
                    EntryDestination { zone: self.zone.clone(), key: key.clone(), fields, signature };
                if leader.as_ref().is_none_or(|leader| !leader.is_purged()) {
                    self.zone.insert(key, &destination.fields, &destination.signature, entry.clone());
                    rewrite_head(&destination, &entry);
                }
                entry
            }
            // It is good for this request, and not to be kept.
            Err(_) => {
                self.zone.purge(key);
                Arc::new(refreshed)
            }
        };
        drop(leader);
        serve::serve_cache_entry(exchange, &refreshed, conditions.as_ref(), true, now_s)
    }

    /// Begins to store a response; false if it is not stored.
    pub(super) fn store(&self, exchange: &mut Exchange, key: Arc<[u8]>) -> bool {
        let visit = exchange.state::<ProxyCacheState>();
        let (leader, is_bypassed) = (visit.leader.take(), visit.status == Some(CacheStatus::Bypass));
        let has_stale = visit.stale.is_some();
        let response = &exchange.response;
        let now_s = read_recent_clock_s(exchange);
        let has_end = has_end(response.status, response.version, &response.headers);
        let is_refused = self.no_cache.as_ref().is_some_and(|no_cache| no_cache.is_set(exchange));
        let judged = self.rules.judge(response.status, &response.headers, has_end, now_s);
        let expected = response.headers.get_known(FieldId::ContentLength).and_then(message::syntax::decimal);
        let is_too_long = expected.is_some_and(|bytes| bytes > self.body_bytes_max);
        let freshness = match judged {
            Ok(freshness) if !is_refused && !is_too_long => freshness,
            judged => {
                // A refusal by the response itself counts for the next requests too, unless this one was told
                // to go past the cache: it may be that of a user, and the entry of all others stays.
                let is_of_all = !is_bypassed && !is_refused;
                let marks = match judged {
                    Ok(_) => is_too_long,
                    Err(StorageRefusal::Status) => !has_stale && is_lasting(response.status),
                    Err(_) => true,
                };
                if is_of_all && marks {
                    self.zone.pass(&key, now_s);
                }
                if let Some(leader) = leader {
                    leader.pass();
                }
                return false;
            }
        };
        if !self.zone.can_store() {
            if let Some(leader) = leader {
                leader.pass();
            }
            return false;
        }
        let fields = parse_vary_fields(&response.headers);
        let signature = asked_signature(exchange, &fields);
        let headers = stored_fields(&response.headers, &exchange.local().http_date());
        let body = CachedBody::Memory(bytes::Bytes::new());
        let (status, times) = (response.status, EntryTimes::new(&freshness, now_s));
        let entry = CacheEntry { status, headers, body, times, held_until_s: AtomicU64::new(0) };
        let destination = EntryDestination { zone: self.zone.clone(), key, fields, signature };
        let shared = exchange.local().shared.clone();
        let fill = Fill::new(destination, entry, self.body_bytes_max, expected, &shared, leader);
        exchange.tap_response(Box::new(fill));
        true
    }
}

/// The values of `fields` that the entry was looked for with.
fn asked_signature(exchange: &Exchange, fields: &[Box<str>]) -> Vec<u8> {
    let asked = exchange.peek_state::<ProxyCacheState>().and_then(|visit| visit.asked.as_deref());
    signature(fields, asked.unwrap_or(&exchange.request.headers))
}

/// The answer to a client with conditions, which were taken out of its request for a response that is not
/// stored after all.
fn not_modified(exchange: &mut Exchange) -> Option<Box<StoredReply>> {
    let conditions = exchange.state::<ProxyCacheState>().conditions.take()?;
    let response = &mut exchange.response;
    if response.status != 200 || !conditions.hold(&response.headers) {
        return None;
    }
    response.status = 304;
    response.headers.remove_known(FieldId::ContentLength);
    response.headers.remove_known(FieldId::TransferEncoding);
    Some(no_body())
}

/// Whether the next response to the same request probably has this status as well. It has not if the status
/// is about a range or a condition of one request, or about a moment.
fn is_lasting(status: u16) -> bool {
    status < 500 && !matches!(status, 206 | 304 | 408 | 412 | 416 | 425 | 429)
}

/// Whether the upstream could not be asked at all.
fn is_balance(failure: &ExchangeFailure) -> bool {
    matches!(failure.cause.phase(), FailurePhase::Balance)
}
