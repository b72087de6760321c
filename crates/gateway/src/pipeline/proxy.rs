//! Forwards one request: finds its upstream, selects an endpoint and makes attempts until a response was
//! passed on or the request has failed. `attempt` makes a single attempt, `retries` decides about the next
//! one.

use stdx::pooled::PooledBox;

use super::attempt::{self, AttemptEnd};
use super::backoff;
use super::collect;
use super::deadline;
use super::forwarding::{Forwarding, timeouts_of};
use super::grpc;
use super::journey::Journey;
use super::phases;
use super::protection::{self, HeldNode};
use super::retries::Retries;
use super::run::{PipelineOutcome, refuse_undecided};
use super::stored_reply;
use super::upload::Upload;
use crate::body::DownstreamStream;
use crate::forward::upgrade;
use crate::runtime::Generation;
use crate::upstream::Upstream;
use crate::upstream::wanted::WantedNode;
use exchange::Exchange;
use exchange::failure::{Cause, ExchangeFailure};
use exchange::overload::Priority;
use exchange::plugin::PluginPhase;
use net::endpoint::EndpointProtocol;

/// Forwards the request; an error has not been answered yet.
// A block, because the future of an `async fn` holds its arguments twice, and each exchange in flight holds
// this one.
#[allow(clippy::manual_async_fn)]
pub(super) fn proxy<'a, 'j: 'a, S: DownstreamStream>(
    journey: &'a mut Journey<'j, S>,
) -> impl Future<Output = Result<PipelineOutcome, ExchangeFailure>> {
    async move {
        let upstream = find_upstream(journey)?;
        if upstream.reads_body() {
            Box::pin(collect::for_variables(journey)).await?;
        }
        bound(journey, upstream)?;
        collect::wait_for_prefix(journey).await?;
        collect::refuse_long(journey.exchange)?;
        let mut forwarding = begin(journey, upstream)?;
        let mut lost_places = 0;
        loop {
            if journey.chains.has(PluginPhase::Attempt) {
                follow_plugins(journey, &mut forwarding)?;
            }
            let held = select_node(journey, &mut forwarding).await?;
            match attempt::make(journey, &mut forwarding, held).await {
                Ok(AttemptEnd::Answered(outcome)) => return Ok(outcome),
                Ok(AttemptEnd::Discarded) => {}
                Ok(AttemptEnd::Replaced(stored)) => {
                    PooledBox::pin(stored_reply::send_stored_reply(journey, *stored)).await?;
                    return Ok(PipelineOutcome::Done);
                }
                // Another request took the last connection between the choice of the node and the connect, so
                // that nothing was sent: another node is chosen, or the request waits in the queue.
                Err(attempt)
                    if attempt.failure.cause == Cause::NodeConnections
                        && lost_places < protection::CHOICES_MAX =>
                {
                    lost_places += 1;
                    journey.exchange.attempts.pop();
                }
                Err(attempt) => {
                    let Forwarding { upstream, upload, retries, .. } = &mut forwarding;
                    let body_is_whole = upload.rewind(journey.downstream);
                    retries.on_failure(journey.run, upstream, journey.exchange, attempt, body_is_whole)?;
                }
            }
            let wait_ms = forwarding.retries.take_wait_ms();
            if wait_ms > 0 {
                PooledBox::pin(backoff::wait_before_retry(journey.run, journey.downstream, wait_ms)).await?;
            }
        }
    }
}

/// Bounds the exchange by the deadlines of its call and of the upstream, and refuses a call that cannot be
/// forwarded.
fn bound<S>(journey: &mut Journey<'_, S>, upstream: &Upstream) -> Result<(), ExchangeFailure> {
    grpc::check_version(journey.exchange, upstream)?;
    grpc::bound_translated(journey.run, journey.exchange);
    match &upstream.deadline {
        Some(policy) => deadline::start_deadline(journey.run, journey.exchange, policy),
        None => Ok(()),
    }
}

/// Takes the places of the request at the limits, and prepares its first attempt.
fn begin<'j, S: DownstreamStream>(
    journey: &mut Journey<'j, S>,
    upstream: &'j Upstream,
) -> Result<Forwarding<'j>, ExchangeFailure> {
    let run = journey.run;
    // Read when the request began to arrive, or by a plugin that waited; matching takes about a microsecond.
    let started_ns = run.local().recent_ns();
    journey.exchange.times.upstream_started_ns = started_ns;
    if run.local().options.limits.adaptive_concurrency {
        let priority = journey.chains.priority();
        let permit = run.context.upstreams.admit(upstream, priority).ok_or_else(|| overloaded(priority))?;
        run.permit.set(Some(permit));
    }
    protection::enter_bulkheads(run, journey.exchange, &journey.chains)?;
    let mut upload = Upload::new(run, journey.exchange);
    let length = upload.length(journey.downstream);
    journey.exchange.decision.is_upgrade = journey.chains.route().is_some_and(|route| route.enable_websocket)
        && upgrade::is_passed_on(journey.exchange, upstream.protocol.is_http2(), length);
    if journey.downstream.must_switch_protocols() && !journey.exchange.decision.is_upgrade {
        return Err(ExchangeFailure::new(Cause::NotImplemented, "the route does not take WebSocket"));
    }
    let wanted = WantedNode::of(upstream, journey.exchange, run.local().now_ms());
    if let Some(policy) = &upstream.retry {
        policy.budget.note_request(run.local().now_ms());
        upload.keep(policy.max_body_bytes, journey.downstream);
    }
    let timeouts = timeouts_of(journey, upstream);
    Ok(Forwarding { upstream, timeouts, wanted, retries: Retries::new(started_ns), upload })
}

/// Lets the plugins of the attempt phase choose the upstream of the next attempt.
fn follow_plugins<'j, S: DownstreamStream>(
    journey: &mut Journey<'j, S>,
    forwarding: &mut Forwarding<'j>,
) -> Result<(), ExchangeFailure> {
    let next = forwarding.retries.next_attempt(journey.exchange);
    let (context, chains) = (journey.run.context, &journey.chains);
    phases::each(context, chains, PluginPhase::Attempt, journey.exchange, |instance, exchange| {
        instance.plugin.before_attempt(exchange, next);
    });
    refuse_undecided(journey.exchange)?;
    let upstream = find_upstream(journey)?;
    if !std::ptr::eq(upstream, forwarding.upstream) {
        forwarding.retries.begin_elsewhere();
    }
    forwarding.direct_to(journey, upstream);
    Ok(())
}

/// Selects the node of the next attempt, with a place at it.
async fn select_node<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
    forwarding: &mut Forwarding<'_>,
) -> Result<HeldNode, ExchangeFailure> {
    let upstreams = &journey.run.context.upstreams;
    let Forwarding { upstream, wanted, retries, .. } = forwarding;
    if let Some(selected) = retries.repeat.take()
        && upstreams.is_current(upstream, selected)
    {
        upstreams.started_again(upstream, selected);
        return Ok(HeldNode { selected, hold: upstreams.hold_again(upstream, selected) });
    }
    let selected = match protection::select(journey, upstream, wanted, &retries.nodes).await {
        Err(none) if retries.may_start_again(upstream, &none) => {
            // In a pooled box, because few requests need this state.
            PooledBox::pin(protection::select(journey, upstream, wanted, &[])).await
        }
        selected => selected,
    };
    // If the node set has changed and no endpoint is left, the failed attempt is the cause to report.
    selected.map_err(|none| {
        retries.last.take().unwrap_or_else(|| {
            protection::count_refused(upstream, none.cause);
            none
        })
    })
}

fn find_upstream<'j, S>(journey: &Journey<'j, S>) -> Result<&'j Upstream, ExchangeFailure> {
    let generation = journey.run.generation;
    if let Some(selected) = &journey.exchange.decision.upstream {
        let slot = generation.upstream_slots.get(selected.identity());
        let upstream = slot.and_then(|slot| generation.upstreams.get(*slot));
        let missing = || format!("{selected:?}, selected by a plugin, does not exist");
        let upstream = upstream.ok_or_else(|| ExchangeFailure::new(Cause::NoUpstream, missing()))?;
        return speaks_http(upstream);
    }
    let slot = journey.chains.route().and_then(|route| route.upstream);
    let slot = slot.ok_or_else(|| ExchangeFailure::new(Cause::NoUpstream, "the route has no upstream"))?;
    let upstream = generation.upstreams.get(slot);
    let upstream =
        upstream.ok_or_else(|| ExchangeFailure::new(Cause::NoUpstream, "the upstream does not exist"))?;
    speaks_http(upstream)
}

/// The upstream, unless it is one of layer 4.
fn speaks_http(upstream: &Upstream) -> Result<&Upstream, ExchangeFailure> {
    if upstream.protocol == EndpointProtocol::Raw {
        let detail =
            format!("the upstream has the scheme {}, which is one of stream routes", upstream.scheme);
        return Err(ExchangeFailure::new(Cause::NoUpstream, detail));
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

fn overloaded(priority: Priority) -> ExchangeFailure {
    let detail = format!("the upstream is slower than usual; {} requests are refused", priority.as_str());
    ExchangeFailure::new(Cause::Overloaded, detail)
}
