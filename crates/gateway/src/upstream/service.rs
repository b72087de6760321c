//! The upstreams of one worker: selects an endpoint, checks streams out and in, records attempts. State is kept by slot
//! and by identity, so that a change of another object does not affect it.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use net::endpoint::Endpoint;
use stdx::pooled::PooledBox;

use super::h1::{H1Stream, UpstreamConnection};
use super::pool::Pools;
use super::state::{Selection, UpstreamState};
use super::stream::PooledStream;
use super::{PassHost, Upstream};
use crate::evict::{self, Evictor, lacks_descriptors};
use exchange::Local;
use exchange::exchange::Attempt;
use exchange::failure::{Blame, Cause, Failure};
use exchange::overload::Priority;
use exchange::overload::limiter::Permit;
use net::env;
use net::transport::Transport;

/// The state of each upstream in use, by slot.
#[derive(Default)]
struct UpstreamStates {
    slots: Vec<Option<Box<UpstreamState>>>,
}

impl UpstreamStates {
    #[inline]
    fn of(&mut self, upstream: &Upstream, stagger: usize) -> &mut UpstreamState {
        let slot = upstream.slot as usize;
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || None);
        }
        let state = &mut self.slots[slot];
        if !state.as_ref().is_some_and(|state| state.fits(upstream)) {
            *state = Some(Box::new(UpstreamState::new(upstream, stagger)));
        }
        state.as_mut().expect("made above if it was missing")
    }
}

/// The upstreams of one worker.
pub(crate) struct Upstreams {
    local: Rc<Local>,
    evictor: Rc<Evictor>,
    states: RefCell<UpstreamStates>,
    pools: RefCell<Pools>,
    /// Whether the worker drains: connections are closed when they are checked in.
    is_draining: Cell<bool>,
}

impl Upstreams {
    pub(crate) fn new(local: Rc<Local>, evictor: Rc<Evictor>) -> Upstreams {
        Upstreams {
            local,
            evictor,
            states: RefCell::default(),
            pools: RefCell::default(),
            is_draining: Cell::new(false),
        }
    }

    /// Selects an endpoint that is not among `tried`. `key_hash` is used by consistent hashing.
    #[inline]
    pub(crate) fn select(
        &self,
        upstream: &Upstream,
        key_hash: u32,
        tried: &[u64],
    ) -> Result<Selection, Failure> {
        let mut states = self.states.borrow_mut();
        let state = states.of(upstream, self.local.index);
        state.refresh(upstream, self.local.index);
        state.choose(key_hash, env::random_u64(), self.local.now_ms(), tried).ok_or_else(|| {
            let note = state.nodes().note.clone().unwrap_or_else(|| "no node may be used".to_owned());
            Failure::new(Cause::NoNode, note)
        })
    }

    /// Admits a request to the upstream, if its concurrency limit allows one more.
    pub(crate) fn admit(&self, upstream: &Upstream, priority: Priority) -> Option<Permit> {
        let now_us = self.local.recent_ns() / 1_000;
        let mut states = self.states.borrow_mut();
        states.of(upstream, self.local.index).limiter(now_us).admit(now_us, priority)
    }

    /// Records that another attempt at the same endpoint begins.
    pub(crate) fn started_again(&self, upstream: &Upstream, selected: Selection) {
        self.states.borrow_mut().of(upstream, self.local.index).started(selected);
    }

    /// Records the result of the attempt at `selected`: its status or cause of failure, and its times.
    #[inline]
    pub(crate) fn record(&self, upstream: &Upstream, selected: Selection, attempt: &Attempt) {
        let latency_us = if attempt.head_us > 0 { attempt.head_us } else { attempt.total_us };
        // A client that went away says nothing about the endpoint.
        let failed = attempt.failed.is_some_and(|cause| cause.blame() == Blame::Origin);
        self.finished(upstream, selected, latency_us, failed);
    }

    /// Records that the attempt at `selected` has ended without a result.
    pub(crate) fn abandoned(&self, upstream: &Upstream, selected: Selection, latency_us: u64) {
        self.finished(upstream, selected, latency_us, false);
    }

    #[inline]
    fn finished(&self, upstream: &Upstream, selected: Selection, latency_us: u64, failed: bool) {
        let now_ms = self.local.now_ms();
        let mut states = self.states.borrow_mut();
        states.of(upstream, self.local.index).finished(selected, latency_us, now_ms, failed);
    }

    /// The number of nodes that the upstream has now.
    pub(crate) fn node_count(&self, upstream: &Upstream) -> usize {
        self.states.borrow_mut().of(upstream, self.local.index).nodes().nodes.len()
    }

    /// Whether `selected` still identifies the node that was chosen.
    pub(crate) fn is_current(&self, upstream: &Upstream, selected: Selection) -> bool {
        self.states.borrow_mut().of(upstream, self.local.index).is_current(selected)
    }

    /// Checks out a stream to the selected node, or names the endpoint to connect to; with the node's name if it is
    /// forwarded as Host.
    #[inline]
    pub(crate) fn checkout(&self, upstream: &Upstream, selected: Selection, fresh: bool) -> CheckedOutNode {
        let mut states = self.states.borrow_mut();
        let node = &states.of(upstream, self.local.index).nodes().nodes[selected.index];
        let host = (upstream.pass_host == PassHost::Node).then(|| node.host.clone());
        let endpoint = &node.endpoint;
        let begin = |connection| self.begin(connection);
        let stream = if fresh { None } else { self.pools.borrow_mut().lend(endpoint.id, begin) };
        let checkout = match stream {
            Some(stream) => Checkout::Stream(stream),
            None => Checkout::None(endpoint.clone()),
        };
        CheckedOutNode { address: endpoint.address, endpoint_id: endpoint.id, host, checkout }
    }

    /// Attempts in flight at all upstreams, if their methods count them.
    #[cfg(feature = "simulation")]
    pub(crate) fn attempts_in_flight(&self) -> usize {
        self.states.borrow().slots.iter().flatten().map(|state| state.under_way()).sum()
    }

    fn begin(&self, connection: UpstreamConnection) -> PooledStream {
        let limits = self.local.options.limits.origin_head;
        PooledStream::Http1(PooledBox::make(|| H1Stream::new(connection, self.local.take_bytes(), limits)))
    }

    /// Opens a connection to an endpoint, for one stream at first.
    ///
    /// # Errors
    /// Why it could not be opened, and whether this machine is the cause.
    pub(crate) async fn connect(&self, endpoint: &Arc<Endpoint>) -> Result<PooledStream, Failure> {
        match self.open(endpoint.address).await {
            Ok(stream) => {
                let (stream, endpoint) = (Transport::Tcp(stream), endpoint.clone());
                Ok(self.begin(UpstreamConnection { stream, endpoint, served: 0, idle_since_ms: 0 }))
            }
            Err(error) => Err(Failure::new(connect_cause(&error), error.to_string())),
        }
    }

    /// Checks a stream in; its connection is kept for the next request if this exchange was `complete`.
    #[inline]
    pub(crate) fn checkin(&self, stream: PooledStream, complete: bool) {
        match stream {
            PooledStream::Http1(stream) => {
                let (connection, bytes) = stream.into_inner().end(complete);
                self.local.give_bytes(bytes);
                if let Some(connection) = connection
                    && !self.is_draining.get()
                {
                    self.pools.borrow_mut().give(connection, self.local.now_ms());
                }
            }
            // Dropping it ends the stream; the script keeps the connection.
            #[cfg(test)]
            PooledStream::Scripted(_) => {}
        }
    }

    /// Opens a socket to `address`. If no descriptor is free, idle client connections are closed, and if there are
    /// none, this worker's idle connections to endpoints.
    ///
    /// # Errors
    /// The error of the system call.
    async fn open(&self, address: SocketAddr) -> io::Result<env::Stream> {
        for _ in 0..OPENS_AGAIN {
            match env::connect(address).await {
                Ok(stream) => {
                    self.evictor.keep_reserve(stream.descriptor());
                    return Ok(stream);
                }
                Err(error) if lacks_descriptors(&error) && self.free_descriptors().await => {}
                Err(error) => return Err(error),
            }
        }
        env::connect(address).await
    }

    /// Closes connections because a system call found no descriptor, and waits until they have ended. False if there
    /// was nothing to close.
    #[cold]
    pub(crate) async fn free_descriptors(&self) -> bool {
        if self.evictor.free_descriptors().await {
            return true;
        }
        let now_ms = self.local.now_ms();
        self.pools.borrow_mut().close_idle(u64::from(evict::USED_LEAST_MS), now_ms) > 0
    }

    /// Closes connections that have been idle for too long, and returns how many idle ones are left.
    pub(crate) fn sweep(&self, now_ms: u64) -> usize {
        let mut pools = self.pools.borrow_mut();
        pools.sweep(now_ms);
        pools.len()
    }

    /// Closes every idle connection.
    pub(crate) fn close_idle(&self) {
        self.pools.borrow_mut().clear();
    }

    /// Closes every idle connection, and later ones when they are checked in.
    pub(crate) fn drain(&self) {
        self.is_draining.set(true);
        self.close_idle();
    }

    /// The pools, for tests that put streams into them or count them.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn pools(&self) -> &RefCell<Pools> {
        &self.pools
    }
}

/// How often a connection is tried again because an idle one was closed for it.
const OPENS_AGAIN: usize = 8;

/// The selected node, as far as an attempt needs it.
pub(crate) struct CheckedOutNode {
    pub(crate) address: SocketAddr,
    pub(crate) endpoint_id: u64,
    /// The node's name, if the endpoint receives it as Host.
    pub(crate) host: Option<Arc<str>>,
    pub(crate) checkout: Checkout,
}

/// The result of a checkout for a selected endpoint.
pub(crate) enum Checkout {
    /// A stream that is ready for a request.
    Stream(PooledStream),
    /// No idle connection: one has to be opened to this endpoint.
    None(Arc<Endpoint>),
}

/// The cause of a failed connection attempt: this machine's when it has no descriptor or port left.
fn connect_cause(error: &io::Error) -> Cause {
    const EMFILE: i32 = 24;
    const ENFILE: i32 = 23;
    const ENOBUFS: i32 = 105;
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::AddrNotAvailable | io::ErrorKind::OutOfMemory, _) => Cause::NoResources,
        (_, Some(EMFILE | ENFILE | ENOBUFS)) => Cause::NoResources,
        (io::ErrorKind::TimedOut, _) => Cause::ConnectTimeout,
        _ => Cause::ConnectFailed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_shortage_is_not_blamed_on_endpoint() {
        let check = |code: i32, cause: Cause| {
            assert_eq!(connect_cause(&io::Error::from_raw_os_error(code)), cause, "error {code}");
        };
        // EMFILE, ENFILE, ENOBUFS, ENOMEM; and EADDRNOTAVAIL, when all local ports are in use.
        [24, 23, 105, 12, 99].into_iter().for_each(|code| check(code, Cause::NoResources));
        // ECONNREFUSED, EHOSTUNREACH, ECONNRESET; ETIMEDOUT.
        [111, 113, 104].into_iter().for_each(|code| check(code, Cause::ConnectFailed));
        check(110, Cause::ConnectTimeout);
    }
}
