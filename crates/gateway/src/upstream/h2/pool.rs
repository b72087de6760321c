//! The HTTP/2 connections of one worker, by endpoint, and the streams that it lends of them: the oldest
//! connection with a free stream is filled first, so that the others can age out. It opens nothing itself.

use std::rc::Rc;

use http2::Limits;
use stdx::hash::FastMap;

use super::link::H2Link;
use super::pending::PendingConnect;
use super::stream::UpstreamH2Stream;
use crate::upstream::opening::WantedStream;
use exchange::failure::ExchangeFailure;
use net::endpoint::Endpoint;

/// After an endpoint closed a connection without SETTINGS, WebSockets have connections of HTTP/1 for so long.
/// It may have been restarted with HTTP/2 by then.
const NO_TUNNELS_MS: u64 = 60_000;

/// The connections of one worker.
#[derive(Default)]
pub(crate) struct SharedPools {
    endpoints: FastMap<u64, SharedPool>,
}

/// The connections to one endpoint.
#[derive(Default)]
struct SharedPool {
    links: Vec<Rc<H2Link>>,
    pending: Vec<Rc<PendingConnect>>,
    /// The endpoint selected HTTP/1.1 where it had the choice.
    selects_http1: bool,
    /// Until then WebSockets are not tried over HTTP/2, in milliseconds of the worker's clock.
    no_tunnels_until_ms: u64,
    /// Streams that the endpoint allowed on a connection, when it last told.
    known_streams: Option<u32>,
}

impl SharedPool {
    /// Streams that a new connection is assumed to take: at least one, because the endpoint may have changed
    /// its mind.
    fn assumed_streams(&mut self) -> u32 {
        if let Some(known) = self.links.iter().rev().find_map(|link| link.allowed_streams()) {
            self.known_streams = Some(known);
        }
        self.known_streams.map_or(Limits::STREAMS_BEFORE_SETTINGS, |known| known.max(1))
    }
}

/// A stream for a WebSocket, or what is known of an endpoint without one.
pub(crate) enum TunnelLend {
    Stream(UpstreamH2Stream),
    /// The SETTINGS of this connection have not arrived.
    Unsettled(Rc<H2Link>),
    /// The endpoint takes no extended CONNECT.
    Refused,
    /// A connection has to be opened.
    Unknown,
}

/// The request that opens a connection: the caller's or another one.
pub(crate) enum Join {
    /// Another request opens it: the caller waits for that connect.
    Wait(Rc<PendingConnect>),
    /// The caller opens it.
    Open(Rc<PendingConnect>),
}

impl SharedPools {
    /// A stream to the endpoint, if it can be had without opening a connection. A request that `was_refused`
    /// gets none on a connection that refused one just now.
    #[inline]
    pub(crate) fn lend(
        &mut self,
        endpoint_id: u64,
        server_name: Option<&str>,
        was_refused: bool,
    ) -> Option<UpstreamH2Stream> {
        let pool = self.endpoints.get_mut(&endpoint_id)?;
        let link = pool.links.iter().find(|link| link.is_for(server_name) && link.can_take(was_refused))?;
        Some(UpstreamH2Stream::new(link))
    }

    /// A stream that can become a tunnel, if it can be had without opening a connection.
    pub(crate) fn lend_tunnel(&mut self, wanted: WantedStream<'_>, now_ms: u64) -> TunnelLend {
        let Some(pool) = self.endpoints.get(&wanted.endpoint.id) else { return TunnelLend::Unknown };
        if pool.selects_http1 || now_ms < pool.no_tunnels_until_ms {
            return TunnelLend::Refused;
        }
        let mut unsettled = None;
        for link in pool.links.iter().filter(|link| link.is_for(wanted.server_name) && !link.has_ended()) {
            match link.takes_tunnels() {
                Some(true) if link.can_take(wanted.is_repeated) => {
                    return TunnelLend::Stream(UpstreamH2Stream::new(link));
                }
                Some(true) => {}
                Some(false) => return TunnelLend::Refused,
                None => unsettled = Some(link.clone()),
            }
        }
        unsettled.map_or(TunnelLend::Unknown, TunnelLend::Unsettled)
    }

    /// Notes that the endpoint does not speak HTTP/2 as it should, so that WebSockets do without for a while.
    pub(crate) fn note_no_tunnels(&mut self, endpoint_id: u64, now_ms: u64) {
        let pool = self.endpoints.entry(endpoint_id).or_default();
        pool.no_tunnels_until_ms = now_ms.saturating_add(NO_TUNNELS_MS);
    }

    /// Joins a connect to the endpoint that fewer than `most` requests wait for, or begins one.
    pub(crate) fn join(&mut self, endpoint_id: u64, server_name: Option<&str>, most: u32) -> Join {
        let pool = self.endpoints.entry(endpoint_id).or_default();
        let most = most.min(pool.assumed_streams());
        let free = |one: &&Rc<PendingConnect>| one.server_name() == server_name && one.waiting() < most;
        if let Some(pending) = pool.pending.iter().find(free) {
            return Join::Wait(pending.clone());
        }
        let pending = PendingConnect::new(server_name.map(Box::from));
        pool.pending.push(pending.clone());
        Join::Open(pending)
    }

    /// Ends a connect that [`SharedPools::join`] began.
    pub(crate) fn settle(
        &mut self,
        endpoint_id: u64,
        pending: &Rc<PendingConnect>,
        outcome: Result<(), ExchangeFailure>,
    ) {
        if let Some(pool) = self.endpoints.get_mut(&endpoint_id) {
            pool.pending.retain(|one| !Rc::ptr_eq(one, pending));
        }
        pending.settle(outcome);
    }

    /// Streams that a new connection to the endpoint is assumed to take.
    pub(crate) fn assumed_streams(&mut self, endpoint_id: u64) -> u32 {
        self.endpoints.entry(endpoint_id).or_default().assumed_streams()
    }

    /// Adds a connection that was opened. One that has ended is taken out with the next.
    pub(crate) fn add(&mut self, endpoint: &Endpoint, link: Rc<H2Link>) {
        let pool = self.endpoints.entry(endpoint.id).or_default();
        pool.selects_http1 = false;
        pool.links.retain(|link| !link.has_ended());
        pool.links.push(link);
    }

    /// Notes that the endpoint selected HTTP/1.1 where it had the choice.
    pub(crate) fn note_http1(&mut self, endpoint_id: u64) {
        self.endpoints.entry(endpoint_id).or_default().selects_http1 = true;
    }

    /// Whether the endpoint last selected HTTP/1.1, so that requests share no connection.
    pub(crate) fn selects_http1(&self, endpoint_id: u64) -> bool {
        self.endpoints.get(&endpoint_id).is_some_and(|pool| pool.selects_http1)
    }

    /// Whether a connection to the endpoint takes one more stream, or one is being opened.
    pub(crate) fn has_capacity(&self, endpoint_id: u64) -> bool {
        let pool = self.endpoints.get(&endpoint_id);
        pool.is_some_and(|pool| {
            !pool.pending.is_empty() || pool.links.iter().any(|link| link.can_take(false))
        })
    }

    /// An open connection of the endpoint that allows no stream at all.
    pub(crate) fn without_streams(&self, endpoint_id: u64, server_name: Option<&str>) -> Option<Rc<H2Link>> {
        let links = &self.endpoints.get(&endpoint_id)?.links;
        links.iter().find(|link| link.is_for(server_name) && link.allows_none()).cloned()
    }

    /// Lets connections end that have been idle for too long or are more than are kept, and forgets pools
    /// without any.
    pub(crate) fn sweep(&mut self, now_ms: u64) {
        self.endpoints.retain(|_, pool| {
            let mut idle = 0;
            for link in &pool.links {
                let Some(from_ms) = link.idle_from_ms() else { continue };
                idle += 1;
                let keep_alive = link.endpoint().keep_alive;
                let has_expired = keep_alive.idle_timeout_ms != 0
                    && now_ms.saturating_sub(from_ms) >= keep_alive.idle_timeout_ms;
                if has_expired || idle > keep_alive.size || link.endpoint().takes_idle_away() {
                    link.close();
                }
            }
            pool.links.retain(|link| !link.has_ended());
            let is_noted = pool.selects_http1 || now_ms < pool.no_tunnels_until_ms;
            !pool.links.is_empty() || !pool.pending.is_empty() || is_noted
        });
    }

    /// Lets connections end that have been idle for at least `least_ms`; how many.
    pub(crate) fn close_idle(&mut self, least_ms: u64, now_ms: u64) -> usize {
        let mut count = 0;
        for pool in self.endpoints.values_mut() {
            pool.links.retain(|link| {
                let is_idle =
                    link.idle_from_ms().is_some_and(|from_ms| now_ms.saturating_sub(from_ms) >= least_ms);
                if is_idle {
                    link.close();
                    count += 1;
                }
                !is_idle
            });
        }
        count
    }

    /// Lets an idle connection to the endpoint end; false if there is none.
    pub(crate) fn close_idle_at(&mut self, endpoint_id: u64) -> bool {
        let Some(pool) = self.endpoints.get_mut(&endpoint_id) else { return false };
        let idle = pool.links.iter().position(|link| link.idle_from_ms().is_some());
        idle.map(|index| pool.links.remove(index).close()).is_some()
    }

    /// How many idle connections there are.
    pub(crate) fn idle_count(&self) -> usize {
        let links = self.endpoints.values().flat_map(|pool| &pool.links);
        links.filter(|link| link.idle_from_ms().is_some()).count()
    }
}
