//! Runs the chains of one exchange: global rules first, then the route's chain, merged with the consumer's
//! once the consumer is known. The order is that of contract section 2.5.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use super::chains::ChainScope;
pub(super) use super::chains::Chains;
use super::collect;
use super::journey::Journey;
use super::run::{PipelineRun, refuse_undecided};
use super::wait::HALF_CLOSE_GRACE_MS;
use crate::body::{BodyLength, DownstreamStream};
use crate::context::WorkerContext;
use crate::runtime::ConsumerPlugins;
use exchange::Exchange;
use exchange::exchange::body_demand::BodyDemand;
use exchange::exchange::{PluginReply, SharedCopy};
use exchange::failure::{Cause, ExchangeFailure};
use exchange::plugin::chain::{Chain, PluginInstance};
use exchange::plugin::preflight::{PREFLIGHT_PRIORITY, is_preflight};
use exchange::plugin::{
    BodyNeed, BufferedReply, Flow, PHASE_WAIT_MS, PhaseDecision, PluginPhase, Portion, ResponseStep,
    StoredReply, StreamedReply,
};
use message::Headers;

/// A reply by which a plugin ends the request phases.
pub(super) enum LocalReply {
    /// A reply with a whole body.
    Whole(Box<BufferedReply>),
    /// A reply with a body that comes in pieces.
    Stream(Box<StreamedReply>),
    /// A stored response.
    Stored(Box<StoredReply>),
}

impl LocalReply {
    /// The status of the reply; that of a stored response is in the exchange.
    pub(super) fn status(&self, exchange: &Exchange) -> u16 {
        match self {
            LocalReply::Whole(reply) => reply.status,
            LocalReply::Stream(reply) => reply.head.status,
            LocalReply::Stored(_) => exchange.response.status,
        }
    }
}

/// Calls `call` for each instance of a phase that cannot end the exchange.
pub(super) fn each(
    context: &WorkerContext,
    chains: &Chains<'_>,
    phase: PluginPhase,
    exchange: &mut Exchange,
    mut call: impl FnMut(&PluginInstance, &mut Exchange),
) {
    for chain in chains.both() {
        for instance in chain.of(phase) {
            if enter(context, chains, chain, instance, exchange) {
                let started = exchange.begin_run();
                call(instance, exchange);
                exchange.end_run(instance.name, phase, started);
            }
        }
    }
}

/// Shows the response of the upstream to the plugins, or the `failure` in place of it; a stored response of
/// the first plugin that has one is to be sent instead.
pub(super) fn upstream_response(
    context: &WorkerContext,
    chains: &Chains<'_>,
    exchange: &mut Exchange,
    failure: Option<&ExchangeFailure>,
) -> Option<Box<StoredReply>> {
    // An earlier attempt may have brought a part of another body.
    exchange.copies.tap = None;
    let mut stored = None;
    each(context, chains, PluginPhase::UpstreamResponse, exchange, |instance, exchange| {
        if stored.is_none() {
            stored = instance.plugin.upstream_response(exchange, failure);
            if stored.is_some() {
                note_reply(exchange, instance, PluginPhase::UpstreamResponse);
            }
        }
    });
    stored
}

/// Runs the phase of the response head.
///
/// # Errors
/// When a plugin waits too long, because the head must not be sent without its change.
#[inline]
pub(super) async fn run_response_head_phase<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
) -> Result<(), ExchangeFailure> {
    for chain in journey.chains.both() {
        for instance in chain.of(PluginPhase::ResponseHead) {
            if !enter(journey.run.context, &journey.chains, chain, instance, journey.exchange) {
                continue;
            }
            let started = journey.exchange.begin_run();
            let ended = match instance.plugin.response_head(journey.exchange) {
                ResponseStep::Wait(future) => {
                    wait_for_plugin(journey.run, journey.downstream, future, instance.name).await
                }
                ResponseStep::Done => Ok(()),
                ResponseStep::Failed(reason) => Err(failed(instance.name, reason)),
                ResponseStep::FailedBecause(cause, reason) => Err(ExchangeFailure::new(cause, reason)),
            };
            journey.exchange.end_run(instance.name, PluginPhase::ResponseHead, started);
            ended?;
        }
    }
    Ok(())
}

/// Whether a plugin edits the body of the response.
pub(super) fn edits_response_body(
    context: &WorkerContext,
    exchange: &mut Exchange,
    chains: &Chains<'_>,
) -> bool {
    let mut edits = false;
    each(context, chains, PluginPhase::ResponseBody, exchange, |instance, exchange| {
        let need = instance.plugin.wants_response_body(exchange);
        edits |= matches!(need, BodyNeed::Stream | BodyNeed::Buffer { .. });
    });
    edits
}

/// Gives a piece of a request body, or the end of it, to the plugins that edit it.
pub(super) fn piece_of_request_body(
    run: &PipelineRun<'_>,
    exchange: &mut Exchange,
    chains: &Chains<'_>,
    body: &mut Vec<u8>,
    portion: Portion,
) {
    each(run.context, chains, PluginPhase::RequestBody, exchange, |instance, exchange| {
        if instance.plugin.wants_request_body(exchange) == BodyNeed::Stream {
            instance.plugin.request_body(exchange, body, portion);
        }
    });
}

/// Gives the trailers of a response, of which there may be none, to the plugins of the body phase: before the
/// last piece of the body, so that a plugin may move them into it.
pub(super) fn response_trailers(
    context: &WorkerContext,
    exchange: &mut Exchange,
    chains: &Chains<'_>,
    trailers: &mut Headers,
) {
    each(context, chains, PluginPhase::ResponseBody, exchange, |instance, exchange| {
        instance.plugin.response_trailers(exchange, trailers);
    });
}

/// Gives the trailers and then the whole body of a response to the plugins that edit it.
///
/// # Errors
/// As for [`run_response_head_phase`].
pub(super) async fn whole_response_body<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
    body: &mut Vec<u8>,
    trailers: &mut Headers,
) -> Result<(), ExchangeFailure> {
    response_trailers(journey.run.context, journey.exchange, &journey.chains, trailers);
    for chain in journey.chains.both() {
        for instance in chain.of(PluginPhase::ResponseBody) {
            if !enter(journey.run.context, &journey.chains, chain, instance, journey.exchange) {
                continue;
            }
            match instance.plugin.wants_response_body(journey.exchange) {
                BodyNeed::None => {}
                BodyNeed::Copy { limit_bytes } => journey.exchange.copy_response(limit_bytes),
                BodyNeed::Stream | BodyNeed::Buffer { .. } => {
                    let started = journey.exchange.begin_run();
                    let ended = match instance.plugin.response_body(journey.exchange, body, Portion::Last) {
                        ResponseStep::Wait(future) => {
                            wait_for_plugin(journey.run, journey.downstream, future, instance.name).await
                        }
                        ResponseStep::Done => Ok(()),
                        ResponseStep::Failed(reason) => Err(failed(instance.name, reason)),
                        ResponseStep::FailedBecause(cause, reason) => {
                            Err(ExchangeFailure::new(cause, reason))
                        }
                    };
                    journey.exchange.end_run(instance.name, PluginPhase::ResponseBody, started);
                    ended?;
                }
            }
        }
    }
    Ok(())
}

/// The length to announce for a whole body before these trailers: those of a body of known length would not
/// be sent.
pub(super) fn length_before(trailers: &Headers, body: &[u8]) -> BodyLength {
    if trailers.is_empty() { BodyLength::Known(body.len() as u64) } else { BodyLength::Unknown }
}

/// Gives a piece of a response body, or the end of it, to the plugins that edit it.
///
/// # Errors
/// When a plugin waits.
pub(super) fn piece_of_response_body(
    run: &PipelineRun<'_>,
    exchange: &mut Exchange,
    chains: &Chains<'_>,
    body: &mut Vec<u8>,
    portion: Portion,
) -> Result<(), ExchangeFailure> {
    for chain in chains.both() {
        for instance in chain.of(PluginPhase::ResponseBody) {
            if !enter(run.context, chains, chain, instance, exchange) {
                continue;
            }
            let wanted = instance.plugin.wants_response_body(exchange);
            if !matches!(wanted, BodyNeed::Stream | BodyNeed::Buffer { .. }) {
                continue;
            }
            let started = exchange.begin_run();
            let ended = match instance.plugin.response_body(exchange, body, portion) {
                ResponseStep::Done => Ok(()),
                ResponseStep::Wait(_) => {
                    Err(failed(instance.name, "it waits while it edits a streamed body".to_owned()))
                }
                ResponseStep::Failed(reason) => Err(failed(instance.name, reason)),
                ResponseStep::FailedBecause(cause, reason) => Err(ExchangeFailure::new(cause, reason)),
            };
            exchange.end_run(instance.name, PluginPhase::ResponseBody, started);
            ended?;
        }
    }
    Ok(())
}

/// The failure of a plugin without which the response must not be sent.
fn failed(name: &'static str, reason: String) -> ExchangeFailure {
    ExchangeFailure::new(Cause::PluginFailed, format!("the plugin {name} failed: {reason}")).of_plugin(name)
}

/// Notes that `instance` made the response, for logs and metrics.
fn note_reply(exchange: &mut Exchange, instance: &PluginInstance, phase: PluginPhase) {
    exchange.decision.plugin_reply = Some(PluginReply { plugin: instance.name, phase });
}

/// Whether `instance` runs for this exchange; then [`Exchange::state`] gives the state of this instance.
#[inline]
fn enter(
    context: &WorkerContext,
    chains: &Chains<'_>,
    chain: &Chain,
    instance: &PluginInstance,
    exchange: &mut Exchange,
) -> bool {
    if chains.gives_way(chain, instance) || !instance.applies(exchange) {
        return false;
    }
    exchange.instance.set(instance.number);
    context.current_work().set_route(exchange.decision.route);
    true
}

/// Runs the request phases up to the selection of an endpoint; a reply ends the exchange.
pub(super) async fn run_request_phases<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
) -> Result<Option<LocalReply>, ExchangeFailure> {
    refuse_what_is_incomplete(journey.run, &journey.chains)?;
    let answers_preflight = journey.chains.has(PluginPhase::Preflight) && is_preflight(journey.exchange);
    if journey.chains.has(PluginPhase::Rewrite) || answers_preflight {
        if journey.chains.both().any(Chain::reads_body_in_rewrite) {
            Box::pin(collect::for_variables(journey)).await?;
        }
        if answers_preflight && let Some(reply) = Box::pin(preflight(journey)).await? {
            return Ok(Some(reply));
        }
        let concerns =
            |instance: &PluginInstance| !answers_preflight || instance.priority <= PREFLIGHT_PRIORITY;
        for scope in ChainScope::IN_ORDER {
            if let Some(reply) = run_until_reply(journey, PluginPhase::Rewrite, scope, concerns).await? {
                return Ok(Some(reply));
            }
        }
        if let Some(reply) = join_consumer(journey).await? {
            return Ok(Some(reply));
        }
        // It may have been read for a variable before a plugin limited it.
        collect::refuse_long(journey.exchange)?;
    }
    if let Some(reply) = collect_request_body(journey).await? {
        return Ok(Some(reply));
    }
    for phase in [PluginPhase::Access, PluginPhase::BeforeProxy] {
        // A request without a route ends with the access phase.
        if phase == PluginPhase::BeforeProxy && journey.chains.route.is_none() {
            let begun = journey.exchange.begun_reply.take().map(LocalReply::Whole);
            return begun.map(Some).ok_or_else(|| ExchangeFailure::new(Cause::NoRoute, "no route matches"));
        }
        for scope in ChainScope::IN_ORDER {
            if journey.chains.in_scope(scope).is_some_and(|chain| chain.has(phase))
                && let Some(reply) = run_until_reply(journey, phase, scope, |_| true).await?
            {
                return Ok(Some(reply));
            }
        }
    }
    // A plugin that only reads the body may have left its filter undecided; then no endpoint may be asked.
    refuse_undecided(journey.exchange)?;
    Ok(journey.exchange.begun_reply.take().map(LocalReply::Whole))
}

/// Runs the part of the rewrite phase that comes before authentication, then the plugins that answer
/// preflight requests.
async fn preflight<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
) -> Result<Option<LocalReply>, ExchangeFailure> {
    for phase in [PluginPhase::Rewrite, PluginPhase::Preflight] {
        let concerns = |instance: &PluginInstance| {
            phase == PluginPhase::Preflight || instance.priority > PREFLIGHT_PRIORITY
        };
        for scope in ChainScope::IN_ORDER {
            if let Some(reply) = run_until_reply(journey, phase, scope, concerns).await? {
                return Ok(Some(reply));
            }
        }
    }
    Ok(None)
}

/// Refuses a request with incomplete protection, because a missing global rule, service or plugin config may
/// be the one that requires a key.
fn refuse_what_is_incomplete(run: &PipelineRun<'_>, chains: &Chains<'_>) -> Result<(), ExchangeFailure> {
    let route = chains.route.and_then(|route| route.missing.as_ref());
    match run.generation.global_missing.as_ref().or(route) {
        Some(missing) => Err(missing.failure()),
        None => Ok(()),
    }
}

/// Runs the instances of `phase` in one chain until one replies.
pub(super) async fn run_until_reply<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
    phase: PluginPhase,
    scope: ChainScope,
    concerns: impl Fn(&PluginInstance) -> bool,
) -> Result<Option<LocalReply>, ExchangeFailure> {
    let Journey { run, chains, exchange, downstream } = journey;
    let Some(chain) = chains.in_scope(scope) else { return Ok(None) };
    for instance in chain.of(phase) {
        if chains.gives_way(chain, instance)
            || exchange.skips(instance.name)
            || !concerns(instance)
            || !instance.decides(exchange)
        {
            continue;
        }
        refuse_undecided(exchange)?;
        exchange.instance.set(instance.number);
        run.context.current_work().set_route(exchange.decision.route);
        let started = exchange.begin_run();
        let (decision, waited) = {
            let demand = exchange.body_demand().clone();
            let flow = match phase {
                PluginPhase::Preflight => instance.plugin.preflight(exchange),
                PluginPhase::Rewrite => instance.plugin.rewrite(exchange),
                PluginPhase::Access => instance.plugin.access(exchange),
                _ => instance.plugin.before_proxy(exchange),
            };
            match flow {
                Flow::Continue => (Ok(PhaseDecision::Continue), false),
                Flow::Reply(reply) => (Ok(PhaseDecision::Reply(reply)), false),
                Flow::Stream(reply) => (Ok(PhaseDecision::Stream(reply)), false),
                Flow::Stored(reply) => (Ok(PhaseDecision::Stored(reply)), false),
                Flow::Wait(future) => {
                    // Boxed, so that requests without such a plugin hold no memory for it.
                    let waiting = Box::pin(wait_with_body(run, *downstream, &demand, future, instance.name));
                    (waiting.await, true)
                }
            }
        };
        exchange.end_run(instance.name, phase, started);
        if waited {
            // Later steps take the thread's last reading of the clock for the present time.
            exchange.local().clock_ns();
        }
        let decision = decision?;
        let (ends, is_begun) =
            (!matches!(decision, PhaseDecision::Continue), exchange.begun_reply.is_begun());
        // A begun reply is that of the plugin that began it.
        if (ends && !is_begun) || (is_begun && exchange.decision.plugin_reply.is_none()) {
            note_reply(exchange, instance, phase);
        }
        match decision {
            PhaseDecision::Continue => {}
            PhaseDecision::Reply(reply) => {
                let reply = exchange.begun_reply.end_with(instance.dress(reply));
                return Ok(Some(LocalReply::Whole(reply)));
            }
            PhaseDecision::Stream(_) | PhaseDecision::Stored(_) if is_begun => {
                // The head of the begun reply does not fit such a body.
                return Ok(exchange.begun_reply.take().map(LocalReply::Whole));
            }
            PhaseDecision::Stream(reply) => return Ok(Some(LocalReply::Stream(reply))),
            PhaseDecision::Stored(reply) => return Ok(Some(LocalReply::Stored(reply))),
        }
    }
    refuse_undecided(exchange)?;
    Ok(None)
}

/// The state of a plugin that is waited for.
enum Waited<T> {
    /// It has ended.
    Done(T),
    /// It asks for the request body, of at most so many bytes.
    WantsBody(usize),
}

/// As [`wait_for_plugin`], in a phase of the request: the plugin may ask for the request body, which is read
/// then. The time of the client does not count as time of the plugin.
async fn wait_with_body<S: DownstreamStream, T>(
    run: &PipelineRun<'_>,
    downstream: &mut S,
    demand: &BodyDemand,
    mut future: Pin<Box<dyn Future<Output = T> + '_>>,
    name: &'static str,
) -> Result<T, ExchangeFailure> {
    demand.open();
    let mut wait_ms = PHASE_WAIT_MS;
    loop {
        let began_ms = run.local().now_ms();
        match wait(run, downstream, Some(demand), future.as_mut(), name, wait_ms).await? {
            Waited::Done(result) => {
                demand.close();
                return Ok(result);
            }
            Waited::WantsBody(limit_bytes) => {
                let spent_ms = run.local().now_ms().saturating_sub(began_ms);
                wait_ms = wait_ms.saturating_sub(spent_ms).max(1);
                demand.answer(Box::pin(collect::on_demand(run, downstream, limit_bytes)).await?);
            }
        }
    }
}

/// Waits for the `future` of the plugin `name`. The client is watched meanwhile, so that a slow server of the
/// plugin does not hold the memory of a client that has gone away.
async fn wait_for_plugin<S: DownstreamStream, T>(
    run: &PipelineRun<'_>,
    downstream: &mut S,
    mut future: Pin<Box<dyn Future<Output = T> + '_>>,
    name: &'static str,
) -> Result<T, ExchangeFailure> {
    // Boxed, so that requests without such a plugin hold no memory for it.
    match Box::pin(wait(run, downstream, None, future.as_mut(), name, PHASE_WAIT_MS)).await? {
        Waited::Done(result) => Ok(result),
        Waited::WantsBody(_) => {
            Err(ExchangeFailure::new(Cause::PluginFailed, "it asks for a body in vain").of_plugin(name))
        }
    }
}

async fn wait<S: DownstreamStream, T>(
    run: &PipelineRun<'_>,
    downstream: &mut S,
    demand: Option<&BodyDemand>,
    mut future: Pin<&mut (dyn Future<Output = T> + '_)>,
    name: &'static str,
    wait_ms: u64,
) -> Result<Waited<T>, ExchangeFailure> {
    let ends_ms = run.local().now_ms().saturating_add(wait_ms);
    let mut armed = false;
    poll_fn(|cx| {
        if let Poll::Ready(result) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(Waited::Done(result)));
        }
        if let Some(limit_bytes) = demand.and_then(BodyDemand::asked) {
            return Poll::Ready(Ok(Waited::WantsBody(limit_bytes)));
        }
        if run.deadline.is_overdue() {
            let detail = format!("the plugin {name} was waited for");
            return Poll::Ready(Err(ExchangeFailure::new(Cause::RequestTimeout, detail)));
        }
        let is_expired = armed && run.deadline.expired();
        if is_expired && run.is_client_leaving.get() {
            let detail = format!("it went away while the plugin {name} was waited for");
            return Poll::Ready(Err(ExchangeFailure::new(Cause::ClientGone, detail)));
        }
        let left_ms = ends_ms.saturating_sub(run.local().now_ms());
        if is_expired && left_ms == 0 {
            let detail = format!("the plugin {name} took longer than {PHASE_WAIT_MS} ms in one phase");
            return Poll::Ready(Err(ExchangeFailure::new(Cause::PluginFailed, detail).of_plugin(name)));
        }
        if !run.is_client_leaving.get() && downstream.poll_closed(cx).is_ready() {
            run.is_client_leaving.set(true);
            armed = false;
        }
        if !armed {
            armed = true;
            let grace_ms = if run.is_client_leaving.get() { HALF_CLOSE_GRACE_MS } else { left_ms };
            // 0 would mean without a deadline.
            run.deadline.set(cx, grace_ms.min(left_ms).max(1));
        }
        Poll::Pending
    })
    .await
}

/// Merges the plugins of an authenticated consumer into the route's chain, and runs the rewrite phase of
/// those that only the consumer has.
async fn join_consumer<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
) -> Result<Option<LocalReply>, ExchangeFailure> {
    let Some(consumer) = journey.exchange.decision.consumer.clone() else { return Ok(None) };
    if let Some(missing) = &consumer.missing {
        return Err(missing.failure());
    }
    let Some(added) = ConsumerPlugins::of(&consumer) else { return Ok(None) };
    let own = journey.chains.route.map(|route| &route.plugins);
    let merged = journey.run.context.merged_chain(own, &consumer, added);
    journey.chains.merged = Some(merged);
    let is_new = |instance: &PluginInstance| {
        own.is_none_or(|chain| chain.instances().iter().all(|other| other.name != instance.name))
    };
    run_until_reply(journey, PluginPhase::Rewrite, ChainScope::Local, is_new).await
}

/// Reads the body if plugins need it whole, or use variables in it. It runs after authentication, so that an
/// unauthenticated client cannot make the gateway hold a body. The reply to a longer body is that of the
/// plugin with the lowest limit, unless the limit for all bodies of the request is lower.
async fn collect_request_body<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
) -> Result<Option<LocalReply>, ExchangeFailure> {
    let mut limit: Option<(usize, u32)> = None;
    let mut copied = 0;
    each(
        journey.run.context,
        &journey.chains,
        PluginPhase::RequestBody,
        journey.exchange,
        |instance, exchange| match instance.plugin.wants_request_body(exchange) {
            BodyNeed::Buffer { limit_bytes } => {
                if limit.is_none_or(|(lowest_bytes, _)| limit_bytes < lowest_bytes) {
                    limit = Some((limit_bytes, instance.number));
                }
            }
            BodyNeed::Copy { limit_bytes } => copied = copied.max(limit_bytes),
            BodyNeed::Stream => journey.run.edits_request_body.set(true),
            BodyNeed::None => {}
        },
    );
    if copied > 0 {
        journey.exchange.copies.request = Some(SharedCopy::new(copied, journey.run.local().shared.clone()));
    }
    if let Some((limit_bytes, number)) = limit {
        let Err(failure) = Box::pin(collect::collect_whole_body(journey, limit_bytes)).await else {
            return Ok(None);
        };
        let accepted_bytes = journey.exchange.max_request_body_bytes();
        if accepted_bytes != 0 && accepted_bytes < limit_bytes as u64 {
            return Err(failure);
        }
        let mut instances = journey.chains.both().flat_map(|chain| chain.of(PluginPhase::RequestBody));
        let instance = instances.find(|instance| instance.number == number);
        return match instance
            .and_then(|instance| Some((instance, instance.plugin.refuse_long_body(journey.exchange)?)))
        {
            Some((instance, reply)) if failure.cause == Cause::BodyTooLarge => {
                journey.downstream.close_afterwards();
                note_reply(journey.exchange, instance, PluginPhase::RequestBody);
                Ok(Some(LocalReply::Whole(instance.dress(Box::new(reply)))))
            }
            _ => Err(failure),
        };
    } else if journey.chains.both().any(Chain::reads_body) {
        Box::pin(collect::for_variables(journey)).await?;
    }
    Ok(None)
}
