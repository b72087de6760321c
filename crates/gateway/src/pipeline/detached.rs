//! The rest of a request that goes on without its client: later plugins of the request phases, the upstream,
//! and the log phase of the plugins that ran. It answers nothing; the response is for the plugin that
//! detached the request.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use super::chains::ChainScope;
use super::journey::Journey;
use super::log_phase;
use super::phases::{self, Chains};
use super::proxy;
use super::run::{PipelineRun, refuse_undecided};
use crate::body::DownstreamStream;
use crate::context::WorkerContext;
use crate::observe::current_work::CurrentWork;
use crate::runtime::{ConsumerPlugins, Generation};
use exchange::Exchange;
use exchange::deadline::Deadline;
use exchange::exchange::Directory;
use exchange::failure::ExchangeFailure;
use exchange::plugin::PluginPhase;
use exchange::plugin::chain::{Chain, PluginInstance};

/// The part of a request that is yet to come.
pub(crate) struct RemainingRequest {
    generation: Rc<Generation>,
    merged: Option<Arc<Chain>>,
    /// It begins behind this instance in this phase.
    phase: PluginPhase,
    instance: u32,
}

impl RemainingRequest {
    /// That of `exchange` behind the instance that runs for it in `phase`; none if its configuration is not
    /// of this gateway.
    pub(crate) fn of(
        context: &WorkerContext,
        exchange: &Exchange,
        phase: PluginPhase,
    ) -> Option<RemainingRequest> {
        let directory: Rc<dyn Directory> = exchange.decision.directory.clone()?;
        let directory: Rc<dyn std::any::Any> = directory;
        let generation = directory.downcast::<Generation>().ok()?;
        let route = exchange.decision.route.and_then(|slot| generation.routes.get(slot));
        let consumer = exchange.decision.consumer.as_ref();
        let added = consumer.and_then(|consumer| Some((consumer, ConsumerPlugins::of(consumer)?)));
        let merged = added.map(|(consumer, added)| {
            context.merged_chain(route.map(|route| &route.plugins), consumer, added)
        });
        Some(RemainingRequest { generation, merged, phase, instance: exchange.instance.get() })
    }
}

/// Serves the rest of the request in `exchange`, to its log phase.
pub(crate) async fn run_detached<S: DownstreamStream>(
    context: &WorkerContext,
    exchange: &mut Exchange,
    downstream: &mut S,
    deadline: &Deadline,
    rest: RemainingRequest,
) {
    let ran = RefCell::new(vec![rest.instance]);
    let chains_of = |exchange: &Exchange| {
        let mut chains = Chains::new(&rest.generation, exchange.decision.route).without_response();
        chains.merged.clone_from(&rest.merged);
        chains
    };
    {
        let run = PipelineRun::new(context, &rest.generation, deadline);
        let chains = chains_of(exchange);
        let mut journey = Journey { run: &run, chains, exchange: &mut *exchange, downstream };
        if let Err(failure) = go_on(&mut journey, &rest, &ran).await {
            let Journey { chains, exchange, .. } = &mut journey;
            exchange.copies.tap = None;
            if chains.has(PluginPhase::UpstreamResponse) {
                // A stored response in place of this failure has no client.
                phases::upstream_response(context, chains, exchange, Some(&failure));
            }
            exchange.begin_response();
            exchange.response.status = failure.cause.status();
            exchange.failure = Some(failure);
        }
    }
    exchange.times.ended_ns = context.local.clock_ns();
    let ran = ran.into_inner();
    let chains = chains_of(exchange);
    log_phase::run_log(context, exchange, &chains, |instance| ran.contains(&instance.number));
    context.current_work().set(CurrentWork::Nothing);
}

async fn go_on<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
    rest: &RemainingRequest,
    ran: &RefCell<Vec<u32>>,
) -> Result<(), ExchangeFailure> {
    journey.run.local().shared.check_memory(journey.chains.priority())?;
    let is_behind = Cell::new(false);
    for phase in [PluginPhase::Access, PluginPhase::BeforeProxy] {
        let comes_later = |instance: &PluginInstance| {
            if is_behind.get() {
                ran.borrow_mut().push(instance.number);
                return true;
            }
            is_behind.set(phase == rest.phase && instance.number == rest.instance);
            false
        };
        for scope in ChainScope::IN_ORDER {
            if journey.chains.in_scope(scope).is_some_and(|chain| chain.has(phase))
                && let Some(reply) = phases::run_until_reply(journey, phase, scope, comes_later).await?
            {
                // A limit, for example: the request is not sent.
                journey.exchange.stats.answered_locally = true;
                let status = reply.status(journey.exchange);
                journey.exchange.begin_response();
                journey.exchange.response.status = status;
                return Ok(());
            }
        }
    }
    refuse_undecided(journey.exchange)?;
    proxy::proxy(journey).await.map(|_| ())
}
