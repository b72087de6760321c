//! Requests in the background for stale entries (RFC 5861 section 3): the client that meets one first is
//! answered from it like all others, while its request goes on to the upstream without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use exchange::Exchange;
use exchange::inner::{Detachment, InnerRequests};
use exchange::observe::pace::Pace;
use exchange::plugin::{PluginPhase, StoredBody, StoredReply};
use message::{FieldId, Method};

use super::ProxyCache;
use super::counters::CacheStatus;
use super::directives::Directives;
use super::entry::CacheEntry;
use super::flight::FlightRole;
use super::visit::{ProxyCacheState, read_recent_clock_s};
use super::zone::ZoneLookup;

/// Milliseconds between two lines about background requests that failed.
const LOG_INTERVAL_MS: u64 = 10_000;

/// The end of a background request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Another response took the place of the entry.
    Replaced,
    /// The upstream has confirmed the entry.
    Revalidated,
    /// The response is not stored, because it or a rule forbids it.
    Refused,
    /// There was no response, a cut one, or one of a server that fails.
    #[default]
    Failed,
    /// It was not sent, because as many are under way as the worker may have.
    Limited,
}

impl Outcome {
    pub(super) const ALL: [Outcome; 5] =
        [Outcome::Replaced, Outcome::Revalidated, Outcome::Refused, Outcome::Failed, Outcome::Limited];

    pub(super) fn word(self) -> &'static str {
        match self {
            Outcome::Replaced => "replaced",
            Outcome::Revalidated => "revalidated",
            Outcome::Refused => "refused",
            Outcome::Failed => "failed",
            Outcome::Limited => "limited",
        }
    }
}

/// The background requests of one zone by their end. They are rare, so that workers share one count.
pub(super) struct BackgroundCounters {
    ended: [AtomicU64; Outcome::ALL.len()],
    pace: Pace,
}

impl Default for BackgroundCounters {
    fn default() -> BackgroundCounters {
        BackgroundCounters { ended: Default::default(), pace: Pace::every_ms(LOG_INTERVAL_MS) }
    }
}

impl BackgroundCounters {
    fn count(&self, outcome: Outcome) {
        self.ended[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The requests with this end.
    pub(super) fn total(&self, outcome: Outcome) -> u64 {
        self.ended[outcome as usize].load(Ordering::Relaxed)
    }
}

/// Whether a stale `entry` may answer a request with these directives while it is updated. A client that says
/// how old or stale a response may be has set its own limit (RFC 9111 section 5.2.1).
pub(super) fn answers_stale(entry: &CacheEntry, request: &Directives, now_s: u64) -> bool {
    let has_limit = request.max_age.is_some() || request.min_fresh.is_some() || request.max_stale.is_some();
    !has_limit && entry.times.may_be_stale(now_s, entry.times.while_revalidate_s)
}

impl ProxyCache {
    /// Begins to update the stale `entry`, unless that is under way or has just failed. Gives the status by
    /// which the entry answers the request; none if the client's own request has to update it.
    pub(super) fn update(
        &self,
        exchange: &Exchange,
        key: &Arc<[u8]>,
        entry: &Arc<CacheEntry>,
        now_s: u64,
    ) -> Option<CacheStatus> {
        if entry.holds_updates(now_s) {
            return Some(CacheStatus::Stale);
        }
        let leader = match self.zone.join(key, &exchange.request.headers) {
            FlightRole::Lead(leader) => leader,
            FlightRole::Wait(_) | FlightRole::Alone => return Some(CacheStatus::Updating),
        };
        // Another worker may have ended an update since the entry was found.
        match self.zone.find(key, &exchange.request.headers, now_s) {
            ZoneLookup::Entry(found) if Arc::ptr_eq(&found, entry) => {}
            _ => return Some(CacheStatus::Updating),
        }
        if exchange.request.method == Method::Head && !self.methods.contains(&Method::Get) {
            return None;
        }
        let mut leader = Some(leader);
        let mut begin = |detached: &mut Exchange| {
            ask_for_whole(detached);
            let visit = detached.state::<ProxyCacheState>();
            visit.leader.set(leader.take());
            visit.background = Some(Outcome::default());
            self.go_on(detached, key.clone(), Some(entry.clone()), CacheStatus::Expired, false);
        };
        let phase = if self.looks_late { PluginPhase::BeforeProxy } else { PluginPhase::Access };
        match InnerRequests::of(exchange.local()).detach(exchange, phase, &mut begin) {
            Detachment::Begun => Some(CacheStatus::Updating),
            Detachment::Full => {
                self.zone.background.count(Outcome::Limited);
                Some(CacheStatus::Stale)
            }
            Detachment::Impossible => None,
        }
    }

    /// Looks at the response to a background request, and puts an empty one in the place of one that is not
    /// stored: there is no client for it.
    pub(super) fn background_response(
        &self,
        exchange: &mut Exchange,
        key: Arc<[u8]>,
        revalidates: bool,
    ) -> Option<Box<StoredReply>> {
        let status = exchange.response.status;
        let outcome = match status {
            304 if revalidates => {
                self.confirmed(exchange, &key);
                Outcome::Revalidated
            }
            500 | 502 | 503 | 504 => Outcome::Failed,
            _ if self.store(exchange, key) => Outcome::Replaced,
            _ => Outcome::Refused,
        };
        exchange.state::<ProxyCacheState>().background = Some(outcome);
        (outcome != Outcome::Replaced).then(no_body)
    }

    /// Counts a background request that has ended with `outcome` as far as its response tells, and keeps the
    /// next one waiting if it was in vain.
    pub(super) fn background_ended(&self, exchange: &Exchange, visit: &ProxyCacheState, outcome: Outcome) {
        let is_cut = outcome == Outcome::Replaced && exchange.failure.is_some();
        let is_too_long = exchange.copies.tap_refusal.as_ref().is_some_and(|refusal| refusal.get());
        let outcome = match outcome {
            Outcome::Replaced if is_too_long => Outcome::Refused,
            _ if is_cut => Outcome::Failed,
            outcome => outcome,
        };
        self.zone.background.count(outcome);
        if matches!(outcome, Outcome::Failed | Outcome::Refused)
            && let Some(entry) = &visit.stale
        {
            entry.hold_updates(read_recent_clock_s(exchange));
        }
        if outcome == Outcome::Failed
            && let Some(requests) = self.zone.background.pace.add(1, exchange.local().now_ms())
        {
            let zone = &*self.zone.name;
            let status = exchange.response.status;
            let reason = exchange.failure.as_ref().map_or("", |failure| &*failure.detail);
            tracing::warn!(
                zone,
                status,
                reason,
                requests,
                "stale entries were not updated in the background"
            );
        }
    }
}

/// Makes a request one for the whole response: entries answer HEAD and ranges, and are made of responses to
/// GET.
fn ask_for_whole(exchange: &mut Exchange) {
    let request = &mut exchange.request;
    if request.method == Method::Head {
        request.set_method("GET").expect("GET is a token");
    }
    request.headers.remove_known(FieldId::Range);
    request.headers.remove("If-Range");
}

/// The body of a response without one.
pub(super) fn no_body() -> Box<StoredReply> {
    Box::new(StoredReply { length: 0, body: StoredBody::Whole(bytes::Bytes::new()) })
}

#[cfg(test)]
mod tests;
