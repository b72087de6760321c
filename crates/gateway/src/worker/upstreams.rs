//! A worker's dealings with upstreams: choosing a node, opening and keeping connections. State is kept by slot and by
//! identity, so that a change elsewhere leaves it alone.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use super::Worker;
use stdx::pooled::PooledBox;

use crate::env;
use crate::exchange::Exchange;
use crate::failure::{Cause, Failure};
use crate::h1::origin::{OriginStream, UpstreamConnection};
use crate::overload::Priority;
use crate::overload::limiter::Permit;
use crate::pipeline::key_hash;
use crate::upstream::state::{Selection, UpstreamState};
use crate::upstream::stream::PooledStream;
use crate::upstream::{Endpoint, PassHost, Upstream};

/// The state of each upstream in use, by slot.
#[derive(Default)]
pub(super) struct UpstreamStates {
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

impl Worker {
    /// Chooses a node whose endpoint is not among `tried`.
    #[inline]
    pub(crate) fn choose(
        &self,
        upstream: &Upstream,
        exchange: &mut Exchange,
        tried: &[u64],
    ) -> Result<Selection, Failure> {
        let mut scratch = std::mem::take(&mut exchange.scratch);
        let key_hash = key_hash(upstream, exchange, &mut scratch);
        exchange.scratch = scratch;
        let mut states = self.upstreams.borrow_mut();
        let state = states.of(upstream, self.index);
        state.refresh(upstream, self.index);
        state.choose(key_hash, env::random_u64(), self.now_ms(), tried).ok_or_else(|| {
            let note = state.nodes().note.clone().unwrap_or_else(|| "no node may be used".to_owned());
            Failure::new(Cause::NoNode, note)
        })
    }

    /// Lets a request through to the upstream, if it can take one more.
    pub(crate) fn admit(&self, upstream: &Upstream, priority: Priority) -> Option<Permit> {
        let now_us = self.recent_ns() / 1_000;
        let mut states = self.upstreams.borrow_mut();
        states.of(upstream, self.index).limiter(now_us).admit(now_us, priority)
    }

    /// Another try at the same node begins.
    pub(crate) fn started_again(&self, upstream: &Upstream, selected: Selection) {
        self.upstreams.borrow_mut().of(upstream, self.index).started(selected);
    }

    /// The try at `selected` has ended.
    #[inline]
    pub(crate) fn finished(&self, upstream: &Upstream, selected: Selection, latency_us: u64, failed: bool) {
        let now_ms = self.now_ms();
        self.upstreams.borrow_mut().of(upstream, self.index).finished(selected, latency_us, now_ms, failed);
    }

    /// How many nodes the upstream has now.
    pub(crate) fn node_count(&self, upstream: &Upstream) -> usize {
        self.upstreams.borrow_mut().of(upstream, self.index).nodes().nodes.len()
    }

    /// Whether `selected` still names the node that was chosen.
    pub(crate) fn is_current(&self, upstream: &Upstream, selected: Selection) -> bool {
        self.upstreams.borrow_mut().of(upstream, self.index).is_current(selected)
    }

    /// A stream to the node just chosen, or where to open one; and the node's name, where it is passed on.
    #[inline]
    pub(crate) fn checkout(&self, upstream: &Upstream, selected: Selection, fresh: bool) -> CheckedOutNode {
        let mut states = self.upstreams.borrow_mut();
        let node = &states.of(upstream, self.index).nodes().nodes[selected.index];
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

    /// Tries under way at all upstreams, as far as their methods count them.
    #[cfg(feature = "simulation")]
    pub(crate) fn tries_under_way(&self) -> usize {
        self.upstreams.borrow().slots.iter().flatten().map(|state| state.under_way()).sum()
    }

    fn begin(&self, connection: UpstreamConnection) -> PooledStream {
        let limits = self.options.limits.origin_head;
        PooledStream::Http1(PooledBox::make(|| OriginStream::new(connection, self.take_bytes(), limits)))
    }

    /// Opens a connection to an endpoint, for one stream to begin with.
    ///
    /// # Errors
    /// Why it could not be opened, and whether that is this machine's fault.
    pub(crate) async fn connect(&self, endpoint: &Arc<Endpoint>) -> Result<PooledStream, Failure> {
        match self.open(endpoint.address).await {
            Ok(stream) => {
                let endpoint = endpoint.clone();
                Ok(self.begin(UpstreamConnection { stream, endpoint, served: 0, idle_since_ms: 0 }))
            }
            Err(error) => Err(Failure::new(connect_cause(&error), error.to_string())),
        }
    }

    /// Takes a stream back; what is beneath it is kept for the next request if this exchange was `complete`.
    #[inline]
    pub(crate) fn checkin(&self, stream: PooledStream, complete: bool) {
        match stream {
            PooledStream::Http1(stream) => {
                let (connection, bytes) = stream.into_inner().end(complete);
                self.give_bytes(bytes);
                if let Some(connection) = connection
                    && !self.is_draining()
                {
                    self.pools.borrow_mut().give(connection, self.now_ms());
                }
            }
            // Dropping it ends it; the connection stays where it is.
            #[cfg(test)]
            PooledStream::Scripted(_) => {}
        }
    }
}

/// A chosen node, as far as a try needs it.
pub(crate) struct CheckedOutNode {
    pub(crate) address: SocketAddr,
    pub(crate) endpoint_id: u64,
    /// The node's name, if it is what the node is to see as Host.
    pub(crate) host: Option<Arc<str>>,
    pub(crate) checkout: Checkout,
}

/// What a worker has for a chosen node.
pub(crate) enum Checkout {
    /// A stream, ready for a request.
    Stream(PooledStream),
    /// Nothing; one has to be opened there.
    None(Arc<Endpoint>),
}

/// Whose fault a failed connection attempt is: this machine's when it has no descriptor or port left.
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
    fn what_this_machine_lacks_is_not_the_nodes_fault() {
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
