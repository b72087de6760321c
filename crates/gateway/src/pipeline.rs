//! The life of a request between its head and its log line: prepare, match, plugins, forward or reply, log. It knows
//! protocols only as the traits of `body`, and plugins only as chains.

mod attempt;
mod collect;
mod connect;
mod download;
mod min_rate;
mod phases;
mod proxy;
mod respond;
mod retry;
mod turn;
mod upload;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use stdx::pooled::PooledBox;

use crate::body::{BodyLength, DownstreamStream};
use crate::context::WorkerContext;
use crate::h1::tunnel::UpstreamTunnel;
use crate::observe::current_work::CurrentWork;
use crate::runtime::Generation;
use exchange::Exchange;
use exchange::Local;
use exchange::client_address::ClientAddress;
use exchange::deadline::Deadline;
use exchange::failure::{Cause, Failure};
use exchange::overload::limiter::Permit;
use exchange::plugin::Phase;
use exchange::plugin::chain::Chain;

use min_rate::MinRateGuard;
use phases::Chains;

/// A served exchange: what is left to do for it, and the chains that its log phase runs.
pub(crate) struct Served {
    pub(crate) outcome: Outcome,
    pub(crate) log: LogChains,
}

/// The chains of an exchange, kept for its log phase.
pub(crate) struct LogChains {
    generation: Rc<Generation>,
    merged: Option<Arc<Chain>>,
}

/// What is left to do once the pipeline is done with a request.
pub(crate) enum Outcome {
    /// Nothing: it was answered, or cut.
    Done,
    /// The node accepted the upgrade; bytes pass from now on.
    Tunnel(Box<UpstreamTunnel>),
}

/// What the steps of one exchange share.
pub(crate) struct Run<'a> {
    context: &'a WorkerContext,
    generation: &'a Generation,
    deadline: &'a Deadline,
    /// Its place among the requests that wait for the upstream, where their number is limited.
    permit: Cell<Option<Permit>>,
    /// How long the client has been waited for already, if a try goes on with its body.
    body_guard: Cell<Option<Box<MinRateGuard>>>,
    /// The client has closed its sending side behind its request while something was waited for. It may have gone.
    is_client_leaving: Cell<bool>,
}

impl<'a> Run<'a> {
    fn new(context: &'a WorkerContext, generation: &'a Generation, deadline: &'a Deadline) -> Run<'a> {
        Run {
            context,
            generation,
            deadline,
            permit: Cell::default(),
            body_guard: Cell::default(),
            is_client_leaving: Cell::default(),
        }
    }

    /// The services of this thread.
    #[inline]
    fn local(&self) -> &'a Local {
        &self.context.local
    }
}

/// Serves the request in `exchange`, whose body and response go through `server`.
pub(crate) async fn run<S: DownstreamStream>(
    context: &WorkerContext,
    exchange: &mut Exchange,
    server: &mut S,
    deadline: &Deadline,
) -> Served {
    let generation = context.generation();
    exchange.decision.directory = Some(generation.clone());
    let run = Run::new(context, &generation, deadline);
    let mut chains = Chains::none(&generation);
    context.current_work().set(CurrentWork::Matching);
    let outcome = match serve(&run, exchange, server, &mut chains).await {
        Ok(outcome) => outcome,
        // In memory of its own: what few requests need makes the state of the others no larger.
        Err(failure) => PooledBox::pin(respond::fail(&run, exchange, server, &chains, failure)).await,
    };
    let merged = chains.into_merged();
    Served { outcome, log: LogChains { generation, merged } }
}

/// Serves it; an error has not been answered yet, and `chains` are those that its answer passes.
async fn serve<'r, S: DownstreamStream>(
    run: &Run<'r>,
    exchange: &mut Exchange,
    server: &mut S,
    chains: &mut Chains<'r>,
) -> Result<Outcome, Failure> {
    let context = run.context;
    let options = &context.local.options;
    exchange::prepare::prepare(options, &mut context.path_scratch.borrow_mut(), exchange)?;
    check_body_length(server.body_length(), options.limits.max_body_bytes)?;
    find_route(run.generation, exchange)?;
    // Only a route that would have looked into the body makes it worth reading; then the choice is made again.
    if run.generation.router.uses_request_body()
        && exchange.body.was_missed()
        && Box::pin(collect::for_variables(run, exchange, server)).await?
    {
        find_route(run.generation, exchange)?;
    }
    context.current_work().set_route(exchange.decision.route);
    *chains = Chains::new(run.generation, exchange.decision.route);
    context.local.shared.check_memory(chains.priority())?;
    if chains.concern_request(run.generation) {
        let reply = phases::request(run, exchange, server, chains).await?;
        if let Some(reply) = reply {
            return Ok(PooledBox::pin(respond::reply(run, exchange, server, chains, *reply)).await);
        }
    }
    proxy::proxy(run, exchange, server, chains).await
}

/// Refuses a body that is declared longer than `limit_bytes`; 0 is without limit.
fn check_body_length(length: BodyLength, limit_bytes: u64) -> Result<(), Failure> {
    match length {
        BodyLength::Known(bytes) if limit_bytes != 0 && bytes > limit_bytes => {
            Err(Failure::new(Cause::BodyTooLarge, format!("the limit for a body is {limit_bytes} bytes")))
        }
        _ => Ok(()),
    }
}

/// Finds the route by what is known of the request so far.
fn find_route(generation: &Generation, exchange: &mut Exchange) -> Result<(), Failure> {
    let mut params = std::mem::take(&mut exchange.params);
    exchange.decision.route = generation.router.find(&*exchange, &mut params);
    exchange.params = params;
    refuse_undecided(exchange)
}

/// Refuses a request for which it is not known whether a rule holds: another route, or going on without a plugin,
/// might be the way around a protection.
#[inline]
fn refuse_undecided(exchange: &Exchange) -> Result<(), Failure> {
    match exchange.gave_up.get() {
        None => Ok(()),
        Some(reason) => Err(Failure::new(Cause::PatternLimit, reason.to_string())),
    }
}

/// Answers a request whose head could not be read.
pub(crate) async fn refuse<S: DownstreamStream>(
    context: &WorkerContext,
    exchange: &mut Exchange,
    server: &mut S,
    deadline: &Deadline,
    failure: Failure,
) -> Served {
    let generation = context.generation();
    exchange.decision.directory = Some(generation.clone());
    exchange.client = ClientAddress::from(exchange.connection.peer);
    let run = Run::new(context, &generation, deadline);
    let outcome = respond::fail(&run, exchange, server, &Chains::none(&generation), failure).await;
    Served { outcome, log: LogChains { generation, merged: None } }
}

/// Ends the exchange: times, plugins' log phase, counters, the access log.
pub(crate) fn log(context: &WorkerContext, exchange: &mut Exchange, log: LogChains) {
    // A response passed on whole read the clock behind its last byte.
    exchange.times.ended_ns = match exchange.times.upstream_ended_ns {
        0 => context.local.clock_ns(),
        ended_ns => ended_ns,
    };
    let chains = Chains::again(&log.generation, exchange, log.merged);
    phases::each(context, &chains, Phase::Log, exchange, |instance, exchange| instance.plugin.log(exchange));
    context.observe(exchange);
    context.current_work().set(CurrentWork::Nothing);
}

/// A failure as the client is told of it: the status's name, and what is wrong where the client can act on it. Nodes and
/// their troubles are for the log only.
fn explanation(failure: &Failure) -> String {
    let status = failure.cause.status();
    let name = message::reason::phrase(status);
    match failure.cause {
        Cause::NoRoute => "404 Route Not Found".to_owned(),
        cause if cause.blame() == exchange::failure::Blame::Client => {
            format!("{status} {name}: {}", failure.detail)
        }
        cause => format!("{status} {name}: {}", cause.code()),
    }
}

#[cfg(test)]
mod tests;
