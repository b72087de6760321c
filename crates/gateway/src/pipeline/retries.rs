//! The attempts of one exchange that failed or were discarded, and the decision about the next one: by
//! APISIX's `retries` and `retry_timeout`, or by the retry policy of the upstream. Attempts are counted and
//! their times added up only here.

use net::env;
use smallvec::SmallVec;

use super::active_attempt::AttemptFailure;
use super::journey::Journey;
use super::retry::{self, RetryDecision, RetryInput};
use super::run::PipelineRun;
use super::upload::Upload;
use crate::body::{AttemptProgress, DownstreamStream};
use crate::upstream::Upstream;
use crate::upstream::retry_policy::RetryPolicy;
use crate::upstream::state::SelectedNode;
use exchange::Exchange;
use exchange::failure::{Blame, Cause, ExchangeFailure};
use exchange::overload::retry_reason::RetryReason;
use exchange::plugin::NextAttempt;

/// See the module.
pub(super) struct Retries {
    /// Endpoints that are not tried again, by identity, because an index changes with the node set.
    pub(super) nodes: SmallVec<[u64; 4]>,
    /// Why the last attempt failed.
    pub(super) last: Option<ExchangeFailure>,
    /// An endpoint that is tried once more, on a fresh connection.
    pub(super) repeat: Option<SelectedNode>,
    repeated: bool,
    started_ns: u64,
    /// Attempts that were made, as the retry policy counts them.
    made: u32,
    /// The wait before the next attempt.
    wait_ms: u64,
    /// Whether a second attempt was made beside a slow one.
    has_hedged: bool,
}

impl Retries {
    /// Of an exchange that makes its first attempt.
    pub(super) fn new(started_ns: u64) -> Retries {
        Retries {
            nodes: SmallVec::new(),
            last: None,
            repeat: None,
            repeated: false,
            started_ns,
            made: 1,
            wait_ms: 0,
            has_hedged: false,
        }
    }

    /// The facts that plugins get before the next attempt.
    pub(super) fn next_attempt(&self, exchange: &Exchange) -> NextAttempt {
        NextAttempt { failed: exchange.attempts.len(), cause: self.last.as_ref().map(|last| last.cause) }
    }

    /// Prepares the next attempt for another upstream; every endpoint of it may be selected.
    pub(super) fn begin_elsewhere(&mut self) {
        self.nodes.clear();
        self.repeat = None;
        self.repeated = false;
    }

    /// Whether a stale connection was replaced, so that the attempt needs a fresh one.
    pub(super) fn is_repeated(&self) -> bool {
        self.repeated
    }

    /// Whether the exchange has had its one second attempt beside a slow one.
    pub(super) fn has_hedged(&self) -> bool {
        self.has_hedged
    }

    /// Notes that a second attempt is made beside a slow one.
    pub(super) fn begin_hedged(&mut self) {
        self.has_hedged = true;
    }

    /// Notes that a hedged attempt takes the place of the one at `first`.
    pub(super) fn replaced(&mut self, first: SelectedNode) {
        self.nodes.push(first.endpoint_id);
    }

    /// Milliseconds to wait before the next attempt.
    pub(super) fn take_wait_ms(&mut self) -> u64 {
        std::mem::take(&mut self.wait_ms)
    }

    /// Whether all endpoints may be selected again, because the policy has allowed another attempt and every
    /// usable one was tried or is at its limit; `none` is the failure to find another.
    #[cold]
    pub(super) fn may_start_again(&mut self, upstream: &Upstream, none: &ExchangeFailure) -> bool {
        let has_none = matches!(none.cause, Cause::NoNode | Cause::NodeRequests | Cause::NodeConnections);
        let may = upstream.retry.is_some() && !self.nodes.is_empty() && has_none;
        if may {
            self.nodes.clear();
        }
        may
    }

    /// Whether the response in `exchange` gives way to another attempt, which is then prepared. The response
    /// is passed on if no retry may be made.
    pub(super) fn discards_response<S: DownstreamStream>(
        &mut self,
        policy: &RetryPolicy,
        journey: &mut Journey<'_, S>,
        upstream: &Upstream,
        upload: &mut Upload,
        selected: SelectedNode,
    ) -> bool {
        let Journey { run, exchange, downstream, .. } = journey;
        let Some(reason) = policy.wants_instead_of(exchange) else { return false };
        let has_switched = exchange.decision.is_upgrade && exchange.response.status < 300;
        let request = &exchange.request;
        if has_switched
            || downstream.progress().has_started
            || self.made >= policy.attempts
            || !policy.allows_repetition(request.method, &request.headers)
        {
            return false;
        }
        let headers = &exchange.response.headers;
        let Some(wait_ms) = policy.wait_ms(self.made, env::random_u64(), Some(headers)) else { return false };
        if !self.has_time_for(wait_ms, run, upstream) || !self.withdraw(policy, run) {
            return false;
        }
        if !upload.rewind(*downstream) {
            policy.budget.give_back(run.local().now_ms());
            return false;
        }
        // The cause of an earlier attempt says nothing about this one.
        self.last = None;
        self.commit(run, upstream, selected, reason, wait_ms);
        true
    }

    /// Decides whether to retry after a failed attempt; an error is final.
    #[cold]
    pub(super) fn on_failure(
        &mut self,
        run: &PipelineRun<'_>,
        upstream: &Upstream,
        exchange: &mut Exchange,
        failed: AttemptFailure,
        body_is_whole: bool,
    ) -> Result<(), ExchangeFailure> {
        let AttemptFailure { failure, progress, selected } = failed;
        if failure.cause.is_timeout()
            && failure.cause.blame() == Blame::Upstream
            && let Some(permit) = run.permit.take()
        {
            permit.answered(run.local().recent_ns() / 1_000);
        }
        let warn = |failure: &ExchangeFailure| {
            let route = exchange.route().map(|route| &route.id);
            run.context.upstream_warnings.note(route, upstream, failure, run.local().now_ms());
        };
        if run.deadline.is_overdue() {
            warn(&failure);
            return Err(failure);
        }
        let reason = RetryReason::of(&failure, progress.sent);
        let report = self.report(upstream, exchange, reason, progress, body_is_whole);
        let next = retry::decide_retry(&failure, report);
        // An endpoint may close an idle connection at any time, so only the retry shows whether it is
        // healthy.
        if next != RetryDecision::SameNode {
            warn(&failure);
        }
        match next {
            RetryDecision::GiveUp => return Err(failure),
            RetryDecision::SameNode => {
                self.repeated = true;
                self.repeat = Some(selected);
            }
            RetryDecision::OtherNode => match &upstream.retry {
                Some(policy) => {
                    let wait_ms = self.grant(policy, run, upstream, exchange);
                    let Some(wait_ms) = wait_ms else { return Err(self.last_word(failure, run, upstream)) };
                    self.commit(run, upstream, selected, reason, wait_ms);
                }
                None => {
                    self.nodes.push(selected.endpoint_id);
                    let nodes = run.context.upstreams.node_count(upstream);
                    let retries =
                        upstream.retries.map_or(nodes.saturating_sub(1), |retries| retries as usize);
                    if self.nodes.len() > retries || self.nodes.len() >= nodes {
                        if !exchange.take_fallback() {
                            return Err(failure);
                        }
                        self.nodes.clear();
                    }
                    if self.is_past_retry_timeout(0, run, upstream) {
                        return Err(failure.because(Cause::RetryDeadline));
                    }
                    run.context.status.retries.retried(reason);
                }
            },
        }
        self.last = Some(failure);
        Ok(())
    }

    /// The facts about a failed attempt for the decision.
    fn report(
        &self,
        upstream: &Upstream,
        exchange: &Exchange,
        reason: RetryReason,
        progress: AttemptProgress,
        body_is_whole: bool,
    ) -> RetryInput {
        let (policy, request) = (upstream.retry.as_deref(), &exchange.request);
        let head_is_missing = exchange.attempts.last().is_some_and(|attempt| attempt.status == 0);
        RetryInput {
            sent: progress.sent,
            reused: progress.is_reused,
            is_repeatable: policy.map_or(request.method.is_idempotent(), |policy| {
                policy.allows_repetition(request.method, &request.headers)
            }),
            is_wanted: policy.is_none_or(|policy| policy.wants_after(reason)),
            is_invalid_head: policy.is_some() && head_is_missing && reason == RetryReason::InvalidResponse,
            body_is_whole,
            repeated: self.repeated,
        }
    }

    /// The wait before the retry that the policy grants after a failure; none if it grants none.
    fn grant(
        &mut self,
        policy: &RetryPolicy,
        run: &PipelineRun<'_>,
        upstream: &Upstream,
        exchange: &mut Exchange,
    ) -> Option<u64> {
        if self.made < policy.attempts {
            let wait_ms = policy.wait_ms(self.made, env::random_u64(), None)?;
            if !self.has_time_for(wait_ms, run, upstream) {
                return None;
            }
            if self.withdraw(policy, run) {
                return Some(wait_ms);
            }
        }
        // A fallback is no further load of this upstream: it neither waits nor is paid from the budget.
        if !self.has_time_for(0, run, upstream) || !exchange.take_fallback() {
            return None;
        }
        // The next attempt counts as the first one, at the upstream that a plugin selects for it.
        self.made = 0;
        self.nodes.clear();
        Some(0)
    }

    /// The failure of an exchange that gets no further attempt from its policy.
    fn last_word(
        &self,
        failure: ExchangeFailure,
        run: &PipelineRun<'_>,
        upstream: &Upstream,
    ) -> ExchangeFailure {
        if self.is_past_retry_timeout(0, run, upstream) {
            return failure.because(Cause::RetryDeadline);
        }
        failure
    }

    /// Takes a retry from the budget, or counts that there was none.
    pub(super) fn withdraw(&self, policy: &RetryPolicy, run: &PipelineRun<'_>) -> bool {
        let is_granted = policy.budget.withdraw(run.local().now_ms());
        if !is_granted {
            run.context.status.retries.refused_by_budget();
        }
        is_granted
    }

    /// Whether an attempt may begin after `wait_ms`.
    fn has_time_for(&self, wait_ms: u64, run: &PipelineRun<'_>, upstream: &Upstream) -> bool {
        let begins_ms = run.local().now_ms().saturating_add(wait_ms);
        let is_before_cap = run.deadline.cap_ms().is_none_or(|cap_ms| begins_ms < cap_ms);
        is_before_cap && !self.is_past_retry_timeout(wait_ms, run, upstream)
    }

    fn is_past_retry_timeout(&self, wait_ms: u64, run: &PipelineRun<'_>, upstream: &Upstream) -> bool {
        let passed_ms = run.local().clock_ns().saturating_sub(self.started_ns) / 1_000_000;
        upstream.retry_timeout_ms != 0 && passed_ms.saturating_add(wait_ms) >= upstream.retry_timeout_ms
    }

    /// Prepares the retry that the policy has granted. When every endpoint was tried, all but the last one
    /// may be selected again.
    fn commit(
        &mut self,
        run: &PipelineRun<'_>,
        upstream: &Upstream,
        selected: SelectedNode,
        reason: RetryReason,
        wait_ms: u64,
    ) {
        self.nodes.push(selected.endpoint_id);
        let nodes = run.context.upstreams.node_count(upstream);
        if self.nodes.len() >= nodes {
            self.nodes.clear();
            if nodes > 1 {
                self.nodes.push(selected.endpoint_id);
            }
        }
        self.repeated = false;
        self.made += 1;
        self.wait_ms = wait_ms;
        run.context.status.retries.retried(reason);
    }
}
