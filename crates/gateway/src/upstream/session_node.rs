//! Nodes for sessions of layer 4: chosen by the same balancers, policies and health states as those of
//! requests, with the same places where the upstream is protected, and a connection for each. Sessions do not
//! wait in queues. It passes on no byte.

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::Upstream;
use super::counted::CountedTransport;
use super::protection::Protection;
use super::protection::hold::{NodeHold, UpstreamPlace};
use super::protection::result::AttemptResult;
use super::service::Upstreams;
use super::state::SelectedNode;
use super::wanted::WantedNode;
use exchange::exchange::Attempt;
use exchange::failure::{Cause, ExchangeFailure};
use net::endpoint::Endpoint;

/// Two workers may choose the last place of a node at once; then the one without it chooses again, at most so
/// often.
const CHOICES_MAX: usize = 3;

/// A node that was chosen for a session, with its place.
pub(crate) struct SessionNode {
    /// Where connections to it go.
    pub(crate) endpoint: Arc<Endpoint>,
    /// The node as the configuration writes it.
    pub(crate) host: Arc<str>,
    /// None where the session goes to its own destination.
    selected: Option<SelectedNode>,
    hold: Option<NodeHold>,
}

impl SessionNode {
    /// The destination of a session that goes where its client wanted to go; none if the upstream has nodes.
    pub(crate) fn original(upstream: &Upstream, destination: SocketAddr) -> Option<SessionNode> {
        let endpoint = upstream.original.as_ref()?.endpoint(destination);
        let host: Arc<str> =
            if endpoint.tls.is_some() { destination.to_string().into() } else { Arc::default() };
        Some(SessionNode { endpoint, host, selected: None, hold: None })
    }

    /// Its address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.endpoint.address
    }

    /// The number of its endpoint.
    pub(crate) fn endpoint_id(&self) -> u64 {
        self.endpoint.id
    }
}

impl Upstreams {
    /// Chooses a node for a session that is not among `tried`. `place` is the session's place at the
    /// upstream, which is taken if it has none.
    ///
    /// # Errors
    /// There is no node, or no place at one.
    pub(crate) fn choose_for_session(
        &self,
        upstream: &Upstream,
        wanted: &WantedNode,
        tried: &[u64],
        place: &mut Option<UpstreamPlace>,
    ) -> Result<SessionNode, ExchangeFailure> {
        let (selected, hold) = match &upstream.protection {
            None => (self.select(upstream, wanted, tried)?, None),
            Some(protection) => {
                let (selected, hold) = self.choose_protected(upstream, protection, wanted, tried, place)?;
                (selected, Some(hold))
            }
        };
        let Some((endpoint, host)) = self.node_for_session(upstream, selected) else {
            self.released(upstream, selected);
            return Err(ExchangeFailure::new(Cause::NoNode, "the node is gone"));
        };
        Ok(SessionNode { endpoint, host, selected: Some(selected), hold })
    }

    fn choose_protected(
        &self,
        upstream: &Upstream,
        protection: &Arc<Protection>,
        wanted: &WantedNode,
        tried: &[u64],
        place: &mut Option<UpstreamPlace>,
    ) -> Result<(SelectedNode, NodeHold), ExchangeFailure> {
        let now_ms = self.now_ms();
        let broken =
            || ExchangeFailure::new(Cause::CircuitOpen, "the circuit breaker of the upstream is open");
        if protection.breaker.is_some() && protection.shared.breaker.refuses(now_ms) {
            return Err(broken());
        }
        if place.is_none() {
            let full = || {
                ExchangeFailure::new(Cause::UpstreamRequests, "the upstream has as many sessions as it may")
            };
            *place = Some(UpstreamPlace::new(protection).ok_or_else(full)?);
        }
        let mut full = None;
        for choice in 0..CHOICES_MAX {
            let admission = self.admission(protection, choice > 0 && full.is_none());
            let selected = self.select_admitted(upstream, protection, wanted, tried, &admission);
            full = admission.full();
            let Some((selected, mut hold)) = selected.zip(admission.into_hold()) else { continue };
            if !hold.pass_breaker(now_ms) {
                self.released(upstream, selected);
                return Err(broken());
            }
            return Ok((selected, hold));
        }
        if let Some(cause) = full {
            return Err(ExchangeFailure::new(
                cause,
                "every node has as many sessions or connections as it may",
            ));
        }
        let selected = self.select(upstream, wanted, tried)?;
        let gone = || ExchangeFailure::new(Cause::NoNode, "the node is gone");
        Ok((selected, self.hold_again(upstream, selected).ok_or_else(gone)?))
    }

    /// Opens a connection to the node, from `source` if it is there; `in_handshake` tells how far it came.
    ///
    /// # Errors
    /// Why it could not be opened.
    pub(crate) async fn open_for_session(
        &self,
        node: &SessionNode,
        source: Option<IpAddr>,
        server_name: Option<&str>,
        in_handshake: &Cell<bool>,
    ) -> Result<CountedTransport, ExchangeFailure> {
        self.connector().open_for_session(&node.endpoint, source, server_name, in_handshake).await
    }

    /// Counts whether the node could be connected: for ejection, the breaker and passive health checks. Its
    /// place is held on.
    pub(crate) fn note_connect(&self, upstream: &Upstream, node: &mut SessionNode, attempt: &Attempt) {
        if let Some(hold) = &mut node.hold {
            let result = AttemptResult {
                status: attempt.status,
                failed: attempt.failed,
                latency_us: attempt.connect_us.max(attempt.total_us),
                ..AttemptResult::default()
            };
            self.note_result(upstream, hold, &result);
        }
    }

    /// The session at the node has ended, or has failed there.
    pub(crate) fn session_ended(&self, upstream: &Upstream, node: SessionNode, attempt: &Attempt) {
        if let Some(selected) = node.selected {
            self.record(upstream, selected, attempt);
        }
    }

    /// The session was given up before anything was known of the node.
    pub(crate) fn session_given_up(&self, upstream: &Upstream, node: SessionNode) {
        if let Some(selected) = node.selected {
            self.abandoned(upstream, selected, 0);
        }
    }
}
