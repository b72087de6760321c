//! Places for a request: among those of its route and consumer, of its upstream, and at a node; with a wait
//! in the queue of the upstream where it has one. An upstream without protection is selected from at once.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use stdx::pooled::PooledBox;

use super::client_watch::{ClientWatch, GivenUp};
use super::journey::Journey;
use super::phases::Chains;
use super::run::PipelineRun;
use super::wait::client_gone_failure;
use crate::body::DownstreamStream;
use crate::upstream::Upstream;
use crate::upstream::protection::hold::{NodeHold, UpstreamPlace};
use crate::upstream::protection::{Protection, ProtectionCounts, QueueRule};
use crate::upstream::state::SelectedNode;
use crate::upstream::wanted::WantedNode;
use exchange::Exchange;
use exchange::failure::{Cause, ExchangeFailure};
use exchange::overload::bulkhead::Bulkhead;
use exchange::overload::wait_queue::Blocked;

/// Two workers may choose the last place of a node at once; then the one without it chooses again, at most so
/// often.
pub(super) const CHOICES_MAX: usize = 3;

/// A selected node, with a place at it if the upstream is protected.
pub(super) struct HeldNode {
    pub(super) selected: SelectedNode,
    pub(super) hold: Option<NodeHold>,
}

/// Why there is no place.
enum NoPlace {
    /// There may be one later.
    Later(Cause),
    /// No place that becomes free changes it.
    Never(ExchangeFailure),
}

/// Takes the places of the route and of the consumer.
///
/// # Errors
/// `route_max_requests`, `consumer_max_requests`.
pub(super) fn enter_bulkheads(
    run: &PipelineRun<'_>,
    exchange: &Exchange,
    chains: &Chains<'_>,
) -> Result<(), ExchangeFailure> {
    let route = chains.route().and_then(|route| route.bulkhead.as_ref());
    let consumer = exchange.consumer().and_then(|consumer| consumer.bulkhead.as_ref());
    if route.is_none() && consumer.is_none() {
        return Ok(());
    }
    let enter = |bulkhead: Option<&Bulkhead>, cause, what: &str| {
        let Some(bulkhead) = bulkhead else { return Ok(None) };
        bulkhead.enter().map(Some).ok_or_else(|| {
            ExchangeFailure::new(
                cause,
                format!("the {what} has {} requests in flight", bulkhead.max_requests),
            )
        })
    };
    let mut places = run.places.borrow_mut();
    places.route = enter(route, Cause::RouteRequests, "route")?;
    places.consumer = enter(consumer, Cause::ConsumerRequests, "consumer")?;
    Ok(())
}

/// Selects a node that is not among `tried`, with a place at it.
///
/// # Errors
/// There is no node, or no place in time.
pub(super) async fn select<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
    upstream: &Upstream,
    wanted: &WantedNode,
    tried: &[u64],
) -> Result<HeldNode, ExchangeFailure> {
    let run = journey.run;
    let Some(protection) = &upstream.protection else {
        let selected = run.context.upstreams.select(upstream, wanted, tried)?;
        return Ok(HeldNode { selected, hold: None });
    };
    let search = NodeSearch { run, upstream, protection, wanted, tried };
    // A retry at another node does not wait, because it would hold up requests that may use the nodes it has
    // tried.
    let queue = protection.queue.filter(|_| tried.is_empty());
    // Requests that wait go first, except those for nodes of their own without a place; a retry gives its
    // place at the upstream back before it waits behind them.
    let waits_first = queue.is_some() && !run.places.borrow().is_of(protection);
    search.check_breaker()?;
    let cause = if waits_first && !protection.shared.queue.lets_pass() {
        Cause::UpstreamRequests
    } else {
        match search.place(false) {
            Ok(held) => return Ok(held),
            Err(NoPlace::Never(failure)) => return Err(failure),
            Err(NoPlace::Later(cause)) => cause,
        }
    };
    match queue {
        None => Err(refused(cause)),
        // In a pooled box, because few requests wait.
        Some(rule) => {
            // A retry that kept its place while it waits would keep out the requests that it waits behind.
            drop(run.places.borrow_mut().upstream.take());
            PooledBox::pin(wait(&search, rule, journey)).await
        }
    }
}

/// One request's search for a place.
struct NodeSearch<'s> {
    run: &'s PipelineRun<'s>,
    upstream: &'s Upstream,
    protection: &'s Arc<Protection>,
    wanted: &'s WantedNode,
    tried: &'s [u64],
}

impl NodeSearch<'_> {
    /// Takes a place at the upstream, unless the exchange has one, and at a node; `is_first` of those that
    /// wait.
    fn place(&self, is_first: bool) -> Result<HeldNode, NoPlace> {
        self.check_breaker().map_err(NoPlace::Never)?;
        let mut places = self.run.places.borrow_mut();
        let is_new = !places.is_of(self.protection);
        if is_new {
            // A plugin may have chosen another upstream for this attempt.
            places.upstream = None;
            let place = UpstreamPlace::new(self.protection);
            places.upstream = Some(place.ok_or(NoPlace::Later(Cause::UpstreamRequests))?);
        }
        let held = self.node();
        // A request that waits for a node keeps no other out; an attempt in flight keeps its place beside a
        // hedged one.
        if held.is_err()
            && is_new
            && let Some(place) = places.upstream.take().filter(|_| is_first)
        {
            place.give_back_as_first();
        }
        held
    }

    /// Refuses the request while the circuit breaker lets none through.
    fn check_breaker(&self) -> Result<(), ExchangeFailure> {
        let now_ms = self.run.local().now_ms();
        let refuses = self.protection.breaker.is_some() && self.protection.shared.breaker.refuses(now_ms);
        if refuses { Err(self.broken()) } else { Ok(()) }
    }

    fn node(&self) -> Result<HeldNode, NoPlace> {
        let (run, upstream) = (self.run, self.upstream);
        let (upstreams, now_ms) = (&run.context.upstreams, run.local().now_ms());
        let mut full = None;
        for choice in 0..CHOICES_MAX {
            let ignores_circuits = choice > 0 && full.is_none();
            let admission = upstreams.admission(self.protection, ignores_circuits);
            let selected =
                upstreams.select_admitted(upstream, self.protection, self.wanted, self.tried, &admission);
            full = admission.full();
            let Some((selected, mut hold)) = selected.zip(admission.into_hold()) else { continue };
            if !hold.pass_breaker(now_ms) {
                upstreams.released(upstream, selected);
                return Err(NoPlace::Never(self.broken()));
            }
            return Ok(HeldNode { selected, hold: Some(hold) });
        }
        if let Some(cause) = full {
            return Err(NoPlace::Later(cause));
        }
        // There is no node; the plain selection says why.
        let selected = upstreams.select(upstream, self.wanted, self.tried).map_err(NoPlace::Never)?;
        Ok(HeldNode { selected, hold: upstreams.hold_again(upstream, selected) })
    }

    /// Whether requests for other nodes may get a place while this one has none by `cause`.
    fn blocked(&self, cause: Cause) -> Blocked {
        let is_at_nodes = matches!(cause, Cause::NodeRequests | Cause::NodeConnections);
        // Without subsets all requests may be sent to the same nodes.
        let is_for_some = is_at_nodes && self.upstream.policies.subsets.is_some();
        if is_for_some { Blocked::ForSome } else { Blocked::ForAll }
    }

    fn broken(&self) -> ExchangeFailure {
        let failure = ExchangeFailure::new(Cause::CircuitOpen, "the circuit breaker of the upstream is open");
        match &self.protection.breaker {
            Some(breaker) => failure.answered_with(&breaker.answer),
            None => failure,
        }
    }
}

/// Waits in the queue of the upstream for a place.
async fn wait<S: DownstreamStream>(
    search: &NodeSearch<'_>,
    rule: QueueRule,
    journey: &mut Journey<'_, S>,
) -> Result<HeldNode, ExchangeFailure> {
    let (run, shared) = (search.run, &search.protection.shared);
    let counts = &shared.counts;
    let priority = journey.chains.priority();
    let full = || {
        count(&counts.refused_by_queue);
        let detail = format!("{} requests wait for the upstream", shared.queue.length());
        ExchangeFailure::new(Cause::QueueFull, detail)
    };
    let mut waiter = shared.queue.join(priority, rule.length).ok_or_else(full)?;
    let began_ns = run.local().clock_ns();
    let mut watch = ClientWatch::new(run, rule.timeout_ms);
    poll_fn(|cx| {
        let enter = || match search.place(true) {
            Ok(held) => Ok(Ok(held)),
            Err(NoPlace::Never(failure)) => Ok(Err(failure)),
            Err(NoPlace::Later(cause)) => Err(search.blocked(cause)),
        };
        match waiter.poll(cx, enter) {
            Poll::Ready(Ok(entered)) => {
                let waited_us = run.local().clock_ns().saturating_sub(began_ns) / 1_000;
                shared.queue.count_wait(waited_us);
                restart_permit(run);
                return Poll::Ready(entered);
            }
            Poll::Ready(Err(_displaced)) => return Poll::Ready(Err(full())),
            Poll::Pending => {}
        }
        watch.poll(run, cx, journey.downstream).map(|given_up| match given_up {
            GivenUp::ClientGone => Err(client_gone_failure()),
            GivenUp::Late if run.deadline.is_overdue() => {
                Err(ExchangeFailure::new(Cause::RequestTimeout, "it waited for a place at the upstream"))
            }
            GivenUp::Late => {
                count(&counts.queue_timeouts);
                let detail = format!("it waited {} ms for a place at the upstream", rule.timeout_ms);
                Err(ExchangeFailure::new(Cause::QueueTimeout, detail))
            }
        })
    })
    .await
}

/// The wait is no latency of the upstream, which the limit by latency measures.
fn restart_permit(run: &PipelineRun<'_>) {
    if let Some(mut permit) = run.permit.take() {
        permit.restart(run.local().recent_ns() / 1_000);
        run.permit.set(Some(permit));
    }
}

fn refused(cause: Cause) -> ExchangeFailure {
    let detail = match cause {
        Cause::NodeRequests => "every node has as many requests as it may",
        Cause::NodeConnections => "every node has as many connections as it may",
        _ => "the upstream has as many requests as it may",
    };
    ExchangeFailure::new(cause, detail)
}

/// Counts a request that ends because there is no place for it. A hedge or retry without a place is no such
/// request, because its client gets the result of another attempt.
#[cold]
pub(super) fn count_refused(upstream: &Upstream, cause: Cause) {
    let Some(protection) = &upstream.protection else { return };
    let counts: &ProtectionCounts = &protection.shared.counts;
    match cause {
        Cause::NodeRequests => count(&counts.refused_by_node_requests),
        Cause::NodeConnections => count(&counts.refused_by_node_connections),
        Cause::UpstreamRequests => count(&counts.refused_by_requests),
        Cause::CircuitOpen => count(&counts.refused_by_breaker),
        _ => {}
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
