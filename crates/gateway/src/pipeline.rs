//! The life of a request between its head and its log line: prepare, match, plugins, forward or reply, log.
//! It knows protocols only as the traits of `body`, and plugins only as chains.

mod active_attempt;
mod adaptive_concurrency;
mod attempt;
mod attempt_limit;
mod attempt_policies;
mod attempt_policy;
mod backoff;
mod chains;
mod challenge;
pub(crate) mod client_certificate;
mod client_watch;
mod collect;
mod connect;
mod deadline;
pub(crate) mod detached;
mod discard;
mod download;
mod download_wait;
mod encode;
mod failure_reply;
mod forwarding;
mod grpc;
mod head_wait;
mod hedge;
mod hedge_times;
mod journey;
mod kept_body;
mod log_phase;
mod min_rate;
mod phases;
mod places;
mod protection;
mod proxy;
mod replay;
mod request_failure;
mod respond;
mod response_body;
mod retries;
mod retry;
mod retry_on_response;
mod run;
mod sticky;
mod stored_reply;
mod stream_reply;
mod turn;
mod upload;
mod wait;
mod websocket;

use std::rc::Rc;
use std::sync::Arc;

use stdx::pooled::PooledBox;

use crate::body::{BodyLength, DownstreamStream};
use crate::context::WorkerContext;
use crate::observe::current_work::CurrentWork;
use crate::runtime::Generation;
use exchange::Exchange;
use exchange::client_address::ClientAddress;
use exchange::deadline::Deadline;
use exchange::failure::{Cause, ExchangeFailure};
use exchange::plugin::PluginPhase;
use exchange::plugin::chain::Chain;
use router::RequestView;

use client_certificate::{Admission, PendingCertificateCheck};
use journey::Journey;
use phases::{Chains, LocalReply};
pub(crate) use run::PipelineOutcome;
use run::{PipelineRun, refuse_undecided};

/// A served exchange: what remains to be done for it, and the chains that its log phase runs.
pub(crate) struct ServedExchange {
    pub(crate) outcome: PipelineOutcome,
    pub(crate) log: LogChains,
}

/// The chains of an exchange, kept for its log phase.
pub(crate) struct LogChains {
    generation: Rc<Generation>,
    merged: Option<Arc<Chain>>,
}

/// Serves the request in `exchange`; its body and its response go through `downstream`.
// A block, because the future of an `async fn` holds its arguments twice, and each exchange in flight holds
// this one.
#[allow(clippy::manual_async_fn)]
pub(crate) fn run_pipeline<'a, S: DownstreamStream>(
    context: &'a WorkerContext,
    exchange: &'a mut Exchange,
    downstream: &'a mut S,
    deadline: &'a Deadline,
) -> impl Future<Output = ServedExchange> {
    async move {
        let generation = context.generation();
        exchange.decision.directory = Some(generation.clone());
        let run = PipelineRun::new(context, &generation, deadline);
        let mut journey = Journey { run: &run, chains: Chains::none(&generation), exchange, downstream };
        context.current_work().set(CurrentWork::Matching);
        context.status.tap.begin(journey.exchange);
        let outcome = match serve(&mut journey).await {
            Ok(outcome) => outcome,
            // In a pooled box, because few requests need this state and it would enlarge the state of all
            // others.
            Err(failure) => PooledBox::pin(failed(&mut journey, failure)).await,
        };
        let merged = journey.chains.into_merged();
        ServedExchange { outcome, log: LogChains { generation, merged } }
    }
}

/// Answers a request that failed: with a stored response if a plugin has one for this failure, otherwise with
/// the failure.
async fn failed<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
    failure: ExchangeFailure,
) -> PipelineOutcome {
    // Bytes that a cut response has brought are of no use to a plugin that wants all of them.
    journey.exchange.copies.tap = None;
    if journey.chains.has(PluginPhase::UpstreamResponse)
        && !journey.downstream.progress().has_started
        && let Some(stored) =
            phases::upstream_response(journey.run.context, &journey.chains, journey.exchange, Some(&failure))
    {
        return match stored_reply::send_stored_reply(journey, *stored).await {
            Ok(()) => PipelineOutcome::Done,
            Err(failure) => respond::send_failure_reply(journey, failure).await,
        };
    }
    respond::send_failure_reply(journey, failure).await
}

/// Serves the request; an error has not been answered yet, and its response passes through the chains.
// A block, because the future of an `async fn` holds its arguments twice, and each exchange in flight holds
// this one.
#[allow(clippy::manual_async_fn)]
fn serve<'a, 'j: 'a, S: DownstreamStream>(
    journey: &'a mut Journey<'j, S>,
) -> impl Future<Output = Result<PipelineOutcome, ExchangeFailure>> {
    async move {
        let run = journey.run;
        let (context, generation) = (run.context, run.generation);
        let options = &context.local.options;
        exchange::prepare::prepare(options, &mut context.path_scratch.borrow_mut(), journey.exchange)?;
        let pending = client_certificate::check(generation, journey.exchange)?;
        grpc::bound(run, journey.exchange);
        check_body_length(journey.downstream.body_length(), options.limits.max_body_bytes)?;
        // Before routes, because a route for every path would otherwise hide the answer from the authority.
        if let Some(answer) = challenge::answer(options.challenges.as_deref(), journey.exchange) {
            return Ok(PooledBox::pin(respond::send_local_reply(journey, answer)).await);
        }
        collect::note_stream(journey);
        let mut pattern = find_route(generation, journey.exchange)?;
        // The body is read only if a candidate route depends on it; then the route is found again.
        if generation.router.uses_request_body()
            && journey.exchange.body.was_missed()
            && Box::pin(collect::for_variables(journey)).await?
        {
            pattern = find_route(generation, journey.exchange)?;
        }
        let admission = match pending {
            PendingCertificateCheck::Nothing => Admission::Served,
            PendingCertificateCheck::Route => {
                let exchange = &mut *journey.exchange;
                let pattern = pattern.or_else(|| fitting_host(generation, exchange));
                client_certificate::check_route(generation, exchange, pattern, options.mutual_tls_over_http)?
            }
        };
        context.current_work().set_route(journey.exchange.decision.route);
        collect::note_stream(journey);
        journey.chains = Chains::new(generation, journey.exchange.decision.route);
        context.local.shared.check_memory(journey.chains.priority())?;
        if journey.chains.concern_request(generation) {
            let reply = phases::run_request_phases(journey).await?;
            if admission == Admission::LedToTls && !is_redirect(reply.as_ref()) {
                return Err(client_certificate::cleartext_refusal());
            }
            match reply {
                None => {}
                Some(LocalReply::Whole(reply)) => {
                    return Ok(PooledBox::pin(respond::send_local_reply(journey, *reply)).await);
                }
                Some(LocalReply::Stream(reply)) => {
                    PooledBox::pin(stream_reply::send_streamed_reply(journey, *reply)).await?;
                    return Ok(PipelineOutcome::Done);
                }
                Some(LocalReply::Stored(reply)) => {
                    PooledBox::pin(stored_reply::send_stored_reply(journey, *reply)).await?;
                    return Ok(PipelineOutcome::Done);
                }
            }
        }
        if admission == Admission::LedToTls {
            return Err(client_certificate::cleartext_refusal());
        }
        proxy::proxy(journey).await
    }
}

/// Whether a plugin answers with a redirect, as the one that leads to TLS does.
fn is_redirect(reply: Option<&LocalReply>) -> bool {
    matches!(reply, Some(LocalReply::Whole(reply)) if matches!(reply.status, 301 | 302 | 303 | 307 | 308))
}

/// Refuses a body with a declared length above `limit_bytes`; 0 is without limit.
fn check_body_length(length: BodyLength, limit_bytes: u64) -> Result<(), ExchangeFailure> {
    match length {
        BodyLength::Known(bytes) if limit_bytes != 0 && bytes > limit_bytes => Err(ExchangeFailure::new(
            Cause::BodyTooLarge,
            format!("the limit for a body is {limit_bytes} bytes"),
        )),
        _ => Ok(()),
    }
}

/// Finds the route with what is known of the request so far, and tells the host pattern by which it matches,
/// where hosts are looked up first.
fn find_route<'g>(
    generation: &'g Generation,
    exchange: &mut Exchange,
) -> Result<Option<&'g str>, ExchangeFailure> {
    let mut params = std::mem::take(&mut exchange.params);
    let found = generation.router.find_match(&*exchange, &mut params);
    exchange.params = params;
    exchange.decision.route = found.map(|found| found.slot);
    refuse_undecided(exchange)?;
    Ok(found.and_then(|found| found.host))
}

/// The host pattern by which the route matches, where hosts only filter.
fn fitting_host<'g>(generation: &'g Generation, exchange: &Exchange) -> Option<&'g str> {
    let route = generation.routes.get(exchange.decision.route?)?;
    route.info.rule.fitting_host(exchange.host(), exchange.raw_host())
}

/// Answers a request with a head that could not be read.
pub(crate) async fn refuse_malformed_request<S: DownstreamStream>(
    context: &WorkerContext,
    exchange: &mut Exchange,
    downstream: &mut S,
    deadline: &Deadline,
    failure: ExchangeFailure,
) -> ServedExchange {
    let generation = context.generation();
    begin_refused(exchange, &generation);
    let run = PipelineRun::new(context, &generation, deadline);
    let mut journey = Journey { run: &run, chains: Chains::none(&generation), exchange, downstream };
    let outcome = respond::send_failure_reply(&mut journey, failure).await;
    ServedExchange { outcome, log: LogChains { generation, merged: None } }
}

/// Logs a request with a malformed head after its stream was reset, as one that was answered with the
/// status of `failure`.
pub(crate) fn log_refused_request(
    context: &WorkerContext,
    exchange: &mut Exchange,
    failure: ExchangeFailure,
) {
    let generation = context.generation();
    begin_refused(exchange, &generation);
    exchange.response.status = failure.cause.status();
    exchange.failure = Some(failure);
    log(context, exchange, LogChains { generation, merged: None });
}

/// Gives a request that is refused what its log line needs. Its texts are those that were read, not canonical
/// ones.
fn begin_refused(exchange: &mut Exchange, generation: &Rc<Generation>) {
    exchange.decision.directory = Some(generation.clone());
    exchange.client = ClientAddress::from(exchange.connection.peer);
    exchange::prepare::prepare_refused(exchange);
}

/// Ends the exchange: times, plugins' log phase, counters, the access log.
pub(crate) fn log(context: &WorkerContext, exchange: &mut Exchange, log: LogChains) {
    // A response that was forwarded whole read the clock after its last byte.
    exchange.times.ended_ns = match exchange.times.upstream_ended_ns {
        0 => context.local.clock_ns(),
        ended_ns => ended_ns,
    };
    let chains = Chains::again(&log.generation, exchange, log.merged);
    log_phase::run_log_phase(context, exchange, &chains);
    context.observe(exchange, &log.generation);
    if context.status.tap.wants(exchange) {
        let upstream = proxy::upstream_identity(&log.generation, exchange);
        context.status.tap.record(exchange, log.generation.revision, upstream);
    }
    context.current_work().set(CurrentWork::Nothing);
}

// Their origins have real sockets, which the network of the simulation does not reach: they would wait for
// ever.
#[cfg(all(test, not(feature = "simulation")))]
mod tests;
