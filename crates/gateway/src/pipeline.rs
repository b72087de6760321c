//! The life of a request between its head and its log line: prepare, match, plugins, forward or reply, log. It knows
//! protocols only as the traits of `body`, and plugins only as chains.

mod attempt;
mod collect;
mod connect;
mod download;
mod min_rate;
mod phases;
mod prepare;
mod proxy;
mod respond;
mod retry;
mod turn;
mod upload;

use std::cell::Cell;
use std::rc::Rc;

use stdx::pooled::PooledBox;

use crate::body::DownstreamStream;
use crate::client_address::ClientAddress;
use crate::deadline::Deadline;
use crate::exchange::Exchange;
use crate::failure::{Cause, Failure};
use crate::h1::tunnel::UpstreamTunnel;
use crate::plugin::Phase;
use crate::runtime::Generation;
use crate::worker::{CurrentWork, Worker};

use min_rate::MinRateGuard;
use phases::Chains;
pub(crate) use prepare::prepare;
pub(crate) use proxy::key_hash;

/// What is left to do once the pipeline is done with a request.
pub(crate) enum Outcome {
    /// Nothing: it was answered, or cut.
    Done,
    /// The node accepted the upgrade; bytes pass from now on.
    Tunnel(Box<UpstreamTunnel>),
}

/// What the steps of one exchange share.
pub(crate) struct Run<'a> {
    worker: &'a Rc<Worker>,
    generation: &'a Generation,
    deadline: &'a Deadline,
    /// How long the client has been waited for already, if a try goes on with its body.
    body_guard: Cell<Option<Box<MinRateGuard>>>,
    /// The client has closed its sending side behind its request while something was waited for. It may have gone.
    is_client_leaving: Cell<bool>,
}

/// Serves the request in `exchange`, whose body and response go through `server`.
pub(crate) async fn run<S: DownstreamStream>(
    worker: &Rc<Worker>,
    exchange: &mut Exchange,
    server: &mut S,
    deadline: &Deadline,
) -> Outcome {
    let generation = worker.generation();
    exchange.generation = Some(generation.clone());
    let run = Run {
        worker,
        generation: &generation,
        deadline,
        body_guard: Cell::default(),
        is_client_leaving: Cell::default(),
    };
    let mut chains = Chains::none(&generation);
    worker.current_work().set(CurrentWork::Matching);
    match serve(&run, exchange, server, &mut chains).await {
        Ok(outcome) => outcome,
        // In memory of its own: what few requests need makes the state of the others no larger.
        Err(failure) => PooledBox::pin(respond::fail(&run, exchange, server, &chains, failure)).await,
    }
}

/// Serves it; an error has not been answered yet, and `chains` are those that its answer passes.
async fn serve<'r, S: DownstreamStream>(
    run: &Run<'r>,
    exchange: &mut Exchange,
    server: &mut S,
    chains: &mut Chains<'r>,
) -> Result<Outcome, Failure> {
    let worker = run.worker;
    prepare::prepare(&worker.options, &mut worker.path_scratch.borrow_mut(), exchange)?;
    find_route(run.generation, exchange)?;
    // Only a route that would have looked into the body makes it worth reading; then the choice is made again.
    if run.generation.router.uses_request_body()
        && exchange.body.was_missed()
        && Box::pin(collect::for_variables(run, exchange, server)).await?
    {
        find_route(run.generation, exchange)?;
    }
    worker.current_work().set_route(exchange.route);
    *chains = Chains::new(run.generation, exchange.route);
    worker.shared.check_memory(chains.priority())?;
    if chains.concern_request(run.generation) {
        let reply = phases::request(run, exchange, server, chains).await?;
        exchange.chain = chains.merged();
        if let Some(reply) = reply {
            return Ok(PooledBox::pin(respond::reply(run, exchange, server, chains, *reply)).await);
        }
    }
    proxy::proxy(run, exchange, server, chains).await
}

/// Finds the route by what is known of the request so far.
fn find_route(generation: &Generation, exchange: &mut Exchange) -> Result<(), Failure> {
    let mut params = std::mem::take(&mut exchange.params);
    exchange.route = generation.router.find(&*exchange, &mut params);
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
    worker: &Rc<Worker>,
    exchange: &mut Exchange,
    server: &mut S,
    deadline: &Deadline,
    failure: Failure,
) -> Outcome {
    let generation = worker.generation();
    exchange.generation = Some(generation.clone());
    let client = ClientAddress::from(exchange.connection.peer);
    (exchange.client_address, exchange.client_port) = (client.address, client.port);
    let run = Run {
        worker,
        generation: &generation,
        deadline,
        body_guard: Cell::default(),
        is_client_leaving: Cell::default(),
    };
    respond::fail(&run, exchange, server, &Chains::none(&generation), failure).await
}

/// Ends the exchange: times, plugins' log phase, counters, the access log.
pub(crate) fn log(worker: &Worker, exchange: &mut Exchange) {
    // A response passed on whole read the clock behind its last byte.
    exchange.times.ended_ns = match exchange.times.upstream_ended_ns {
        0 => worker.clock_ns(),
        ended_ns => ended_ns,
    };
    if let Some(generation) = exchange.generation.clone() {
        let chains = Chains::again(&generation, exchange);
        phases::each(&chains, Phase::Log, exchange, |instance, exchange| instance.plugin.log(exchange));
    }
    worker.observe(exchange);
    worker.current_work().set(CurrentWork::Nothing);
}

/// A failure as the client is told of it: the status's name, and what is wrong where the client can act on it. Nodes and
/// their troubles are for the log only.
fn explanation(failure: &Failure) -> String {
    let status = failure.cause.status();
    let name = crate::reason::phrase(status);
    match failure.cause {
        Cause::NoRoute => "404 Route Not Found".to_owned(),
        cause if cause.blame() == crate::failure::Blame::Client => {
            format!("{status} {name}: {}", failure.detail)
        }
        cause => format!("{status} {name}: {}", cause.code()),
    }
}

#[cfg(test)]
mod tests;
