//! An attempt in flight: its stream, its place at the node, and the record of its end.

use std::net::SocketAddr;
use std::sync::Arc;

use super::attempt_limit::AttemptLimit;
use super::protection::HeldNode;
use crate::body::AttemptProgress;
use crate::context::WorkerContext;
use crate::upstream::protection::hold::NodeHold;
use crate::upstream::protection::result::AttemptResult;
use crate::upstream::retry_policy::RetryPolicy;
use crate::upstream::state::SelectedNode;
use crate::upstream::stream::PooledStream;
use crate::upstream::{PassHost, Upstream};
use exchange::Exchange;
use exchange::exchange::Attempt;
use exchange::failure::ExchangeFailure;

/// An attempt in flight.
pub(super) struct ActiveAttempt<'t> {
    pub(super) upstream_stream: PooledStream,
    pub(super) in_flight: InFlightGuard<'t>,
    pub(super) address: SocketAddr,
    pub(super) connect_us: u64,
    pub(super) limit: AttemptLimit,
    /// The policy by which a second attempt may be made beside this one.
    pub(super) hedged_by: Option<&'t RetryPolicy>,
}

/// An attempt that has failed.
pub(super) struct AttemptFailure {
    pub(super) failure: ExchangeFailure,
    pub(super) progress: AttemptProgress,
    /// Its node, which is another one than the first if a hedged attempt has taken the place of the first.
    pub(super) selected: SelectedNode,
}

/// Records the end of an attempt, of which `is_reused` says whether its connection was a kept one. Returns
/// its place at the node.
pub(super) fn finish_attempt(
    exchange: &mut Exchange,
    in_flight: InFlightGuard<'_>,
    failure: Option<&ExchangeFailure>,
    is_reused: bool,
) -> Option<NodeHold> {
    // A whole response read the clock at its end.
    let local = &in_flight.context.local;
    let ended_ns = if failure.is_none() { local.recent_ns() } else { local.clock_ns() };
    let last = exchange.attempts.last_mut().expect("pushed when the attempt began");
    last.total_us = micros(in_flight.started_ns, ended_ns);
    last.failed = failure.map(|failure| failure.cause);
    let last = *last;
    in_flight.finish(exchange, &last, is_reused)
}

/// Counts an attempt at its endpoint's balancer until it is finished or dropped, because a plugin's panic
/// must not leave the endpoint loaded for ever.
pub(super) struct InFlightGuard<'t> {
    context: &'t WorkerContext,
    upstream: &'t Upstream,
    pub(super) selected: SelectedNode,
    /// Its place at the node, which is given back with the guard.
    hold: Option<NodeHold>,
    pub(super) started_ns: u64,
    is_over: bool,
}

impl<'t> InFlightGuard<'t> {
    /// Of an attempt at the node that is `held`.
    #[inline]
    pub(super) fn new(
        context: &'t WorkerContext,
        upstream: &'t Upstream,
        held: HeldNode,
        started_ns: u64,
    ) -> InFlightGuard<'t> {
        let HeldNode { selected, hold } = held;
        InFlightGuard { context, upstream, selected, hold, started_ns, is_over: false }
    }

    /// Records the failure of an attempt that `record` describes, beside another one of the exchange; returns
    /// the record.
    pub(super) fn finish_failed(
        self,
        exchange: &Exchange,
        record: Attempt,
        failure: &ExchangeFailure,
        is_reused: bool,
    ) -> Attempt {
        let total_us = micros(self.started_ns, self.context.local.clock_ns());
        let record = Attempt { total_us, failed: Some(failure.cause), ..record };
        self.finish(exchange, &record, is_reused);
        record
    }

    /// Records the end of an attempt beside another one of the exchange, with a response head that is not
    /// passed on; returns the record.
    pub(super) fn finish_unwanted(self, exchange: &Exchange, record: Attempt) -> Attempt {
        let total_us = micros(self.started_ns, self.context.local.clock_ns());
        let record = Attempt { total_us, head_us: total_us, ..record };
        self.finish(exchange, &record, false);
        record
    }

    /// Whether the attempt shows whether its node, or its upstream, is usable again.
    pub(super) fn is_probe(&self) -> bool {
        self.hold.as_ref().is_some_and(NodeHold::is_probe)
    }

    #[cold]
    fn abandon(&self) {
        let latency_us = micros(self.started_ns, self.context.local.clock_ns());
        self.context.upstreams.abandoned(self.upstream, self.selected, latency_us);
    }

    fn finish(mut self, exchange: &Exchange, attempt: &Attempt, is_reused: bool) -> Option<NodeHold> {
        self.is_over = true;
        let (upstreams, upstream) = (&self.context.upstreams, self.upstream);
        upstreams.record(upstream, self.selected, attempt);
        let mut hold = self.hold.take()?;
        upstreams.note_result(upstream, &mut hold, &AttemptResult::of(exchange, attempt, is_reused));
        Some(hold)
    }
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.abandon();
        }
    }
}

/// Sets the Host that the endpoint receives.
pub(super) fn set_host(exchange: &mut Exchange, upstream: &Upstream, node: Option<Arc<str>>) {
    // A rewrite by a plugin takes precedence over the upstream's `pass_host`.
    if exchange.target.host_is_rewritten {
        return;
    }
    match &upstream.pass_host {
        // An attempt at another upstream may have set it.
        PassHost::Pass => exchange.target.forward_host = None,
        PassHost::Rewrite(host) => exchange.target.forward_host = Some(host.as_bytes().to_vec()),
        PassHost::Node => exchange.target.forward_host = node.map(|host| host.as_bytes().to_vec()),
    }
}

/// Microseconds between two readings of the clock.
pub(super) fn micros(from_ns: u64, to_ns: u64) -> u64 {
    to_ns.saturating_sub(from_ns) / 1_000
}
