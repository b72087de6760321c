//! Forwards one request: finds its upstream, selects an endpoint and makes attempts until a response was passed on or the
//! request has failed. `attempt` makes a single attempt, `retries` decides about the next one.

use stdx::pooled::PooledBox;

use super::attempt::{self, AttemptEnd, BegunAttempt};
use super::backoff;
use super::collect;
use super::deadline;
use super::grpc;
use super::phases::{self, Chains};
use super::protection::{self, HeldNode};
use super::retries::Retries;
use super::run::{Outcome, Run, refuse_undecided};
use super::stored_reply;
use super::target::Forward;
use super::upload::Upload;
use crate::body::DownstreamStream;
use crate::forward::upgrade;
use crate::runtime::Generation;
use crate::upstream::Upstream;
use crate::upstream::wanted::WantedNode;
use exchange::Exchange;
use exchange::failure::{Cause, Failure};
use exchange::overload::Priority;
use exchange::plugin::Phase;
use net::endpoint::Protocol;

/// Forwards the request; an error has not been answered yet.
// A block, because the future of an `async fn` holds its arguments twice, and each exchange in flight holds this one.
#[allow(clippy::manual_async_fn)]
pub(super) fn proxy<'a, S: DownstreamStream>(
    run: &'a Run<'_>,
    exchange: &'a mut Exchange,
    downstream: &'a mut S,
    chains: &'a Chains<'_>,
) -> impl Future<Output = Result<Outcome, Failure>> {
    async move {
        let upstream = find_upstream(run, exchange, chains)?;
        if upstream.reads_body() {
            Box::pin(collect::for_variables(run, exchange, downstream)).await?;
        }
        grpc::check_version(exchange, upstream)?;
        grpc::bound_translated(run, exchange);
        if let Some(policy) = &upstream.deadline {
            deadline::begin(run, exchange, policy)?;
        }
        collect::wait_for_prefix(run, exchange, downstream).await?;
        collect::refuse_long(exchange)?;
        let mut forward = forward_to(run, chains, upstream);
        // Read when the request began to arrive, or by a plugin that waited; matching takes about a microsecond.
        let started_ns = run.local().recent_ns();
        exchange.times.upstream_started_ns = started_ns;
        if run.local().options.limits.adaptive_concurrency {
            let priority = chains.priority();
            run.permit.set(Some(
                run.context.upstreams.admit(upstream, priority).ok_or_else(|| overloaded(priority))?,
            ));
        }
        protection::enter_bulkheads(run, exchange, chains)?;
        let mut upload = Upload::new(run, chains, exchange);
        exchange.decision.is_upgrade = chains.route().is_some_and(|route| route.enable_websocket)
            && upgrade::is_passed_on(exchange, upstream.protocol.is_http2(), upload.length(downstream));
        if downstream.must_switch_protocols() && !exchange.decision.is_upgrade {
            return Err(Failure::new(Cause::NotImplemented, "the route does not take WebSocket"));
        }
        let mut wanted = WantedNode::of(upstream, exchange, run.local().now_ms());
        let mut failed = Retries::new(started_ns);
        if let Some(policy) = &upstream.retry {
            policy.budget.note_request(run.local().now_ms());
            upload.keep(policy.max_body_bytes, downstream);
        }
        let mut lost_places = 0;
        loop {
            if chains.has(Phase::Attempt) {
                let next = failed.next_attempt(exchange);
                phases::each(run.context, chains, Phase::Attempt, exchange, |instance, exchange| {
                    instance.plugin.before_attempt(exchange, next);
                });
                refuse_undecided(exchange)?;
                let upstream = find_upstream(run, exchange, chains)?;
                if !std::ptr::eq(upstream, forward.upstream) {
                    failed.begin_elsewhere();
                }
                forward = forward_to(run, chains, upstream);
                wanted = WantedNode::of(upstream, exchange, run.local().now_ms());
            }
            let upstream = forward.upstream;
            let held = match failed.repeat.take() {
                Some(selected) if run.context.upstreams.is_current(upstream, selected) => {
                    run.context.upstreams.started_again(upstream, selected);
                    HeldNode { selected, hold: run.context.upstreams.hold_again(upstream, selected) }
                }
                // If the node set has changed and no endpoint is left, the failed attempt is the cause to report.
                _ => match protection::select(&forward, downstream, &wanted, &failed.nodes).await {
                    Err(none) if failed.may_start_again(upstream, &none) => {
                        // In a pooled box, because few requests need this state.
                        PooledBox::pin(protection::select(&forward, downstream, &wanted, &[])).await
                    }
                    selected => selected,
                }
                .map_err(|none| {
                    failed.last.take().unwrap_or_else(|| {
                        protection::count_refused(upstream, none.cause);
                        none
                    })
                })?,
            };
            let ended = 'attempt: {
                let attempt = match attempt::begin(&forward, exchange, held, failed.is_repeated()) {
                    BegunAttempt::Ready(attempt) => attempt,
                    // In a pooled box, because nearly every attempt finds an open connection and needs no state for this.
                    BegunAttempt::Connecting(connecting) => {
                        match PooledBox::pin(attempt::open(&forward, exchange, downstream, connecting)).await
                        {
                            Ok(attempt) => attempt,
                            Err(failed) => break 'attempt Err(failed),
                        }
                    }
                };
                attempt::complete(&forward, exchange, downstream, &mut upload, attempt, &wanted, &mut failed)
                    .await
            };
            match ended {
                Ok(AttemptEnd::Answered(outcome)) => return Ok(outcome),
                Ok(AttemptEnd::Discarded) => {}
                Ok(AttemptEnd::Replaced(stored)) => {
                    PooledBox::pin(stored_reply::send(run, exchange, downstream, chains, *stored)).await?;
                    return Ok(Outcome::Done);
                }
                // Another request took the last connection between the choice of the node and the connect, so that nothing
                // was sent: another node is chosen, or the request waits in the queue.
                Err(attempt)
                    if attempt.failure.cause == Cause::NodeConnections
                        && lost_places < protection::CHOICES_MAX =>
                {
                    lost_places += 1;
                    exchange.attempts.pop();
                }
                Err(attempt) => {
                    let body_is_whole = upload.rewind(downstream);
                    failed.on_failure(&forward, exchange, attempt, body_is_whole)?;
                }
            }
            let wait_ms = failed.take_wait_ms();
            if wait_ms > 0 {
                PooledBox::pin(backoff::wait(run, downstream, wait_ms)).await?;
            }
        }
    }
}

fn forward_to<'r, 'w>(run: &'r Run<'w>, chains: &'r Chains<'r>, upstream: &'r Upstream) -> Forward<'r, 'w> {
    let timeouts = chains.route().and_then(|route| route.timeouts).unwrap_or(upstream.timeouts);
    Forward { run, chains, upstream, timeouts }
}

fn find_upstream<'r>(
    run: &'r Run<'_>,
    exchange: &Exchange,
    chains: &Chains<'_>,
) -> Result<&'r Upstream, Failure> {
    if let Some(selected) = &exchange.decision.upstream {
        let slot = run.generation.upstream_slots.get(selected.identity());
        let upstream = slot.and_then(|slot| run.generation.upstreams.get(*slot));
        let missing = || format!("{selected:?}, selected by a plugin, does not exist");
        let upstream = upstream.ok_or_else(|| Failure::new(Cause::NoUpstream, missing()))?;
        return speaks_http(upstream);
    }
    let slot = chains.route().and_then(|route| route.upstream);
    let slot = slot.ok_or_else(|| Failure::new(Cause::NoUpstream, "the route has no upstream"))?;
    let upstream = run.generation.upstreams.get(slot);
    let upstream = upstream.ok_or_else(|| Failure::new(Cause::NoUpstream, "the upstream does not exist"))?;
    speaks_http(upstream)
}

/// The upstream, unless it is one of layer 4.
fn speaks_http(upstream: &Upstream) -> Result<&Upstream, Failure> {
    if upstream.protocol == Protocol::Raw {
        let detail =
            format!("the upstream has the scheme {}, which is one of stream routes", upstream.scheme);
        return Err(Failure::new(Cause::NoUpstream, detail));
    }
    Ok(upstream)
}

/// The identity of the upstream that a plugin selected for the request, else of its route's.
pub(super) fn upstream_identity<'r>(generation: &'r Generation, exchange: &'r Exchange) -> Option<&'r str> {
    if let Some(selected) = &exchange.decision.upstream {
        return Some(selected.identity());
    }
    let slot = generation.routes.get(exchange.decision.route?)?.upstream?;
    generation.upstreams.get(slot).map(|upstream| &*upstream.identity)
}

fn overloaded(priority: Priority) -> Failure {
    let detail = format!("the upstream is slower than usual; {} requests are refused", priority.as_str());
    Failure::new(Cause::Overloaded, detail)
}
