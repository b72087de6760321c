//! Forwards one request: finds its upstream, selects an endpoint, makes an attempt, and after a failure decides about a
//! retry. Attempts are counted and deadlines added up only here; `attempt` makes a single attempt.

use smallvec::SmallVec;

use super::attempt::{attempt_at, micros};
use super::collect;
use super::grpc;
use super::phases::{self, Chains};
use super::protection::{self, HeldNode};
use super::retry::{self, Next, RetryInput};
use super::run::{Outcome, Run, refuse_undecided};
use super::target::Forward;
use super::upload::Upload;
use crate::body::{BodyLength, DownstreamStream};
use crate::upstream::Upstream;
use crate::upstream::state::Selection;
use crate::upstream::wanted::WantedNode;
use exchange::Exchange;
use exchange::failure::{Blame, Cause, Failure};
use exchange::overload::Priority;
use exchange::plugin::{NextAttempt, Phase};

/// Forwards the request; an error has not been answered yet.
pub(super) async fn proxy<S: DownstreamStream>(
    run: &Run<'_>,
    exchange: &mut Exchange,
    server: &mut S,
    chains: &Chains<'_>,
) -> Result<Outcome, Failure> {
    let upstream = find_upstream(run, exchange, chains)?;
    if upstream.reads_body() {
        Box::pin(collect::for_variables(run, exchange, server)).await?;
    }
    grpc::check_version(exchange, upstream)?;
    collect::wait_for_prefix(run, exchange, server).await?;
    let mut forward = forward_to(run, chains, upstream);
    // Read when the request began to arrive, or by a plugin that waited; matching takes about a microsecond.
    let started_ns = run.local().recent_ns();
    exchange.times.upstream_started_ns = started_ns;
    if run.local().options.limits.adaptive_concurrency {
        let priority = chains.priority();
        run.permit
            .set(Some(run.context.upstreams.admit(upstream, priority).ok_or_else(|| overloaded(priority))?));
    }
    protection::enter_bulkheads(run, exchange, chains)?;
    let mut upload = Upload::new(run, chains, exchange);
    exchange.decision.is_upgrade = wants_websocket(exchange, chains, upload.length(server));
    if server.must_switch_protocols() && !exchange.decision.is_upgrade {
        return Err(Failure::new(Cause::NotImplemented, "the route does not take WebSocket"));
    }
    let mut wanted = WantedNode::of(upstream, exchange, run.local().now_ms());
    let mut failed =
        FailedAttempts { nodes: SmallVec::new(), last: None, repeat: None, repeated: false, started_ns };
    loop {
        if chains.has(Phase::Attempt) {
            let attempt = failed.next_attempt(exchange);
            phases::each(run.context, chains, Phase::Attempt, exchange, |instance, exchange| {
                instance.plugin.before_attempt(exchange, attempt);
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
            _ => protection::select(&forward, server, &wanted, &failed.nodes)
                .await
                .map_err(|none| failed.last.take().unwrap_or(none))?,
        };
        let selected = held.selected;
        match attempt_at(&forward, exchange, server, &mut upload, held, failed.repeated).await {
            Ok(outcome) => return Ok(outcome),
            Err((failure, report)) => {
                let report = RetryInput { body_is_whole: upload.rewind(server), ..report };
                failed.on_failure(&forward, exchange, selected, failure, report)?
            }
        }
    }
}

fn forward_to<'r, 'w>(run: &'r Run<'w>, chains: &'r Chains<'r>, upstream: &'r Upstream) -> Forward<'r, 'w> {
    let timeouts = chains.route().and_then(|route| route.timeouts).unwrap_or(upstream.timeouts);
    Forward { run, chains, upstream, timeouts }
}

/// The failed attempts of one exchange.
struct FailedAttempts {
    /// Endpoints that are not tried again, by identity, because an index changes with the node set.
    nodes: SmallVec<[u64; 4]>,
    /// Why the last attempt failed.
    last: Option<Failure>,
    /// An endpoint that is tried once more, on a fresh connection.
    repeat: Option<Selection>,
    repeated: bool,
    started_ns: u64,
}

impl FailedAttempts {
    /// The facts that plugins get before the next attempt.
    fn next_attempt(&self, exchange: &Exchange) -> NextAttempt {
        NextAttempt { failed: exchange.attempts.len(), cause: self.last.as_ref().map(|last| last.cause) }
    }

    /// Prepares the next attempt for another upstream; every endpoint of it may be selected.
    fn begin_elsewhere(&mut self) {
        self.nodes.clear();
        self.repeat = None;
        self.repeated = false;
    }

    /// Decides whether to retry after a failed attempt at `selected`; an error is final.
    #[cold]
    fn on_failure(
        &mut self,
        forward: &Forward<'_, '_>,
        exchange: &mut Exchange,
        selected: Selection,
        failure: Failure,
        report: RetryInput,
    ) -> Result<(), Failure> {
        let Forward { run, upstream, .. } = *forward;
        if failure.cause.is_timeout()
            && failure.cause.blame() == Blame::Origin
            && let Some(permit) = run.permit.take()
        {
            permit.answered(run.local().recent_ns() / 1_000);
        }
        let warn = |failure: &Failure| {
            run.context.upstream_warnings.note(exchange, upstream, failure, run.local().now_ms());
        };
        if run.deadline.is_overdue() {
            warn(&failure);
            return Err(failure);
        }
        let report = RetryInput { repeated: self.repeated, ..report };
        let next = retry::after(&failure, report);
        // An endpoint may close an idle connection at any time, so only the retry shows whether it is healthy.
        if next != Next::SameNode {
            warn(&failure);
        }
        match next {
            Next::GiveUp => Err(failure),
            Next::SameNode => {
                self.repeated = true;
                self.repeat = Some(selected);
                self.last = Some(failure);
                Ok(())
            }
            Next::OtherNode => {
                self.nodes.push(selected.endpoint_id);
                let nodes = run.context.upstreams.node_count(upstream);
                let retries = upstream.retries.map_or(nodes.saturating_sub(1), |retries| retries as usize);
                if self.nodes.len() > retries || self.nodes.len() >= nodes {
                    if !exchange.take_fallback() {
                        return Err(failure);
                    }
                    self.nodes.clear();
                }
                if upstream.retry_timeout_ms != 0
                    && micros(self.started_ns, run.local().clock_ns()) / 1_000 >= upstream.retry_timeout_ms
                {
                    return Err(failure.because(Cause::RetryDeadline));
                }
                self.last = Some(failure);
                Ok(())
            }
        }
    }
}

fn find_upstream<'r>(
    run: &'r Run<'_>,
    exchange: &Exchange,
    chains: &Chains<'_>,
) -> Result<&'r Upstream, Failure> {
    if let Some(selected) = &exchange.decision.upstream {
        let slot = run.generation.upstream_slots.get(selected.identity());
        let upstream = slot.and_then(|slot| run.generation.upstreams.get(*slot));
        return upstream.map(|upstream| &**upstream).ok_or_else(|| {
            Failure::new(Cause::NoUpstream, format!("{selected:?}, selected by a plugin, does not exist"))
        });
    }
    let slot = chains.route().and_then(|route| route.upstream);
    let slot = slot.ok_or_else(|| Failure::new(Cause::NoUpstream, "the route has no upstream"))?;
    let upstream = run.generation.upstreams.get(slot);
    upstream
        .map(|upstream| &**upstream)
        .ok_or_else(|| Failure::new(Cause::NoUpstream, "the upstream does not exist"))
}

/// Only a WebSocket handshake is forwarded as an upgrade, and only where it is allowed; every other `Upgrade` field is
/// removed, above all `h2c` (RFC 9110 section 7.8 lets a server ignore it).
fn wants_websocket(exchange: &Exchange, chains: &Chains<'_>, length: BodyLength) -> bool {
    chains.route().is_some_and(|route| route.enable_websocket)
        && exchange.request.method == message::Method::Get
        && matches!(length, BodyLength::None | BodyLength::Known(0))
        && exchange.request.upgrade_text().is_some_and(|protocol| protocol.eq_ignore_ascii_case(b"websocket"))
}

fn overloaded(priority: Priority) -> Failure {
    let detail = format!("the upstream is slower than usual; {} requests are refused", priority.as_str());
    Failure::new(Cause::Overloaded, detail)
}
