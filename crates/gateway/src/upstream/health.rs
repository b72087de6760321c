//! The health checks of one upstream (contract 2.3): which results count for its nodes, and what happens when
//! a node goes down or comes up. Active checks run once per process on a thread of their own (`monitor`);
//! passive ones are the workers' own observations. Both count in [`net::node_health::NodeHealth`], which
//! workers read through the node's state.

mod checks;
pub(crate) mod counts;
mod grpc;
mod io;
mod kept;
pub mod monitor;
mod outcome;
mod passive;
mod probe;
mod request;
pub(crate) mod rules;
mod schedule;
mod share;
mod target;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::resource::HealthChecks;
use net::env;
use net::node_health::{CheckResult, HealthTurn};
use net::node_state::{NodeState, NodeStates, Transition};
use net::nodes::{NodeSet, ResolvedNode};
use parking_lot::Mutex;
use stdx::published::Published;

use counts::{CheckSource, HealthCounts};
pub(crate) use probe::{HealthProbe, ProbeHost, ProbeKind};
pub(crate) use request::HttpRequest;
use rules::{HealthRules, Observation};

/// The compiled health checks of one upstream.
pub(crate) struct CompiledHealthChecks {
    /// The upstream's identity, such as `/upstreams/1`.
    pub(crate) identity: Arc<str>,
    /// The nodes that are checked.
    nodes: Arc<Published<NodeSet>>,
    active: CompiledActiveChecks,
    passive: Option<HealthRules>,
    /// As they are written: another text begins anew.
    written: Box<HealthChecks>,
    counts: Arc<HealthCounts>,
    /// Other checks, or none, have taken the place of these; a worker may hold an earlier generation for
    /// long.
    is_over: AtomicBool,
    /// Locked while a verdict is marked, so that none comes behind the end.
    marking: Mutex<()>,
}

/// Checks that ask the nodes.
pub(crate) struct CompiledActiveChecks {
    rules: HealthRules,
    /// Time between two checks of a node that is up, and of one that is down; 0 makes none.
    up_interval_ms: u64,
    down_interval_ms: u64,
    /// Checks in flight at once.
    concurrency: u32,
    probe: HealthProbe,
}

impl CompiledHealthChecks {
    /// The checks as `written` for the upstream `identity`, with `probe` as the way to ask its `nodes`.
    pub(crate) fn new(
        identity: &Arc<str>,
        nodes: &Arc<Published<NodeSet>>,
        written: &HealthChecks,
        probe: HealthProbe,
        counts: Arc<HealthCounts>,
    ) -> CompiledHealthChecks {
        let active = &written.active;
        CompiledHealthChecks {
            identity: identity.clone(),
            nodes: nodes.clone(),
            active: CompiledActiveChecks {
                rules: HealthRules::new(&active.healthy, &active.unhealthy),
                up_interval_ms: milliseconds(active.healthy.interval),
                down_interval_ms: milliseconds(active.unhealthy.interval),
                concurrency: active.concurrency,
                probe,
            },
            passive: written
                .passive
                .as_ref()
                .map(|passive| HealthRules::new(&passive.healthy, &passive.unhealthy)),
            written: Box::new(written.clone()),
            counts,
            is_over: AtomicBool::new(false),
            marking: Mutex::new(()),
        }
    }

    /// Ends these checks: from now on they take no node out.
    pub(crate) fn end(&self) {
        let _marking = self.marking.lock();
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Whether `other` checks the same nodes in the same way, so that it may go on.
    pub(crate) fn is_same(&self, other: &CompiledHealthChecks) -> bool {
        Arc::ptr_eq(&self.nodes, &other.nodes)
            && self.written == other.written
            && self.active.probe == other.active.probe
    }

    /// Whether these are the checks that were written before, so that verdicts are kept.
    pub(crate) fn is_written(&self, checks: &HealthChecks) -> bool {
        *self.written == *checks
    }

    /// The protocol of the active checks, as users write it.
    pub(crate) fn check_type(&self) -> &'static str {
        self.written.active.check_type.as_str()
    }

    /// The address that is asked for a node.
    pub(crate) fn checked_port(&self, node: &ResolvedNode) -> u16 {
        self.active.probe.port.unwrap_or(node.endpoint.address.port())
    }

    /// The host name that checks are written with, if there is one.
    pub(crate) fn written_host(&self) -> Option<&str> {
        self.written.active.host.as_deref()
    }

    /// Counts an observation of a node, unless the checks are over. Costs two relaxed loads for a good one of
    /// a healthy node.
    #[inline]
    fn note(
        &self,
        node: &ResolvedNode,
        source: CheckSource,
        rules: &HealthRules,
        observation: Observation,
        detail: impl FnOnce() -> Cow<'static, str>,
    ) {
        let Some((result, limit)) = rules.judge(observation) else { return };
        // The counters belong to the checks that took the place of these.
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        if let Some(turn) = node.state.health().count(result, limit) {
            self.turn(node, source, result, turn, &detail());
        }
    }

    /// A node went down or came up.
    #[cold]
    fn turn(
        &self,
        node: &ResolvedNode,
        source: CheckSource,
        result: CheckResult,
        turn: HealthTurn,
        detail: &str,
    ) {
        let count = turn.after.count(result);
        let what = match (result, count) {
            (CheckResult::Success, 1) => "success",
            (CheckResult::Success, _) => "successes",
            (CheckResult::HttpFailure, 1) => "HTTP failure",
            (CheckResult::HttpFailure, _) => "HTTP failures",
            (CheckResult::TcpFailure, 1) => "TCP failure",
            (CheckResult::TcpFailure, _) => "TCP failures",
            (CheckResult::Timeout, 1) => "timeout",
            (CheckResult::Timeout, _) => "timeouts",
        };
        let cause = format!("{} checks: {count} {what}, the last: {detail}", source.as_str());
        let marking = self.marking.lock();
        if self.is_over.load(Ordering::Relaxed) {
            // The checks ended while the result was counted. Only that result is taken back, because those
            // that took their place may have found the node down since.
            let cause = "the checks were changed";
            if node.state.health().undo(turn) {
                node.state.follow_health(Transition { at_ms: now_ms(), cause: cause.into() });
            } else {
                forget_verdict(&node.state, cause);
            }
            return;
        }
        if !node.state.follow_health(Transition { at_ms: now_ms(), cause: cause.as_str().into() }) {
            return;
        }
        drop(marking);
        let is_down = turn.after.state.is_down();
        self.counts.turned(source, is_down);
        let (upstream, address, host) = (&*self.identity, node.endpoint.address, &*node.host);
        if is_down {
            tracing::warn!(upstream, %address, host, %cause, "a node is unhealthy");
        } else {
            tracing::info!(upstream, %address, host, %cause, "a node is healthy again");
        }
    }
}

/// Forgets every verdict on the nodes of an upstream, because their checks were changed or removed. Nodes
/// that left the set are among them: such a node could come back when no check is left that brings it up.
pub(crate) fn forget_verdicts(states: &NodeStates) {
    states.held().iter().for_each(|state| forget_verdict(state, "the checks were changed"));
}

fn forget_verdict(state: &NodeState, cause: &str) {
    state.health().reset();
    state.follow_health(Transition { at_ms: now_ms(), cause: cause.into() });
}

/// Milliseconds since 1970.
fn now_ms() -> u64 {
    u64::try_from(env::wall_clock().as_millis()).unwrap_or(u64::MAX)
}

fn milliseconds(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use net::node_health::HealthSnapshot;
    use net::node_state::Unusable;

    use super::*;
    use crate::upstream::balance::testing::set;

    fn health(cell: &Arc<Published<NodeSet>>) -> CompiledHealthChecks {
        let written: HealthChecks =
            serde_json::from_str(r#"{"active": {"unhealthy": {"tcp_failures": 1}}}"#).unwrap();
        let kind = ProbeKind::Tcp;
        let probe = HealthProbe {
            kind,
            tls: None,
            host: ProbeHost::Checks(None),
            port: None,
            reuses_connection: false,
            timeout_ms: 1,
        };
        CompiledHealthChecks::new(&"/upstreams/1".into(), cell, &written, probe, Arc::default())
    }

    fn fail(health: &CompiledHealthChecks, node: &ResolvedNode) -> bool {
        let rules = &health.active.rules;
        health.note(node, CheckSource::Active, rules, Observation::TcpFailure, || "a test".into());
        node.state.is(Unusable::Unhealthy)
    }

    #[test]
    fn checks_that_are_over_take_no_node_out() {
        let cell = Arc::new(Published::new(Arc::new(set(&[1]))));
        let health = health(&cell);
        let node = cell.load().nodes[0].clone();
        assert!(fail(&health, &node));
        let why = node.state.last(Unusable::Unhealthy).map(|last| last.cause);
        assert_eq!(why.as_deref(), Some("active checks: 1 TCP failure, the last: a test"));
        health.end();
        forget_verdicts(&cell.load().states);
        assert!(!fail(&health, &node));
        assert_eq!(node.state.health().snapshot(), HealthSnapshot::default(), "the next checks begin anew");
    }

    #[test]
    fn verdict_on_a_node_that_left_is_forgotten() {
        let cell = Arc::new(Published::new(Arc::new(set(&[1]))));
        let held = cell.load();
        assert!(fail(&health(&cell), &held.nodes[0]));
        cell.publish(Arc::new(NodeSet { states: held.states.clone(), ..NodeSet::default() }));
        forget_verdicts(&cell.load().states);
        assert!(held.nodes[0].state.is_usable());
    }

    #[test]
    fn checks_that_are_over_keep_a_later_verdict() {
        let cell = Arc::new(Published::new(Arc::new(set(&[1]))));
        let (before, now) = (health(&cell), health(&cell));
        let node = cell.load().nodes[0].clone();
        before.end();
        forget_verdicts(&cell.load().states);
        assert!(fail(&now, &node));
        let verdict = node.state.health().snapshot();
        before.note(&node, CheckSource::Passive, &before.active.rules, Observation::Success, || {
            "a test".into()
        });
        assert!(node.state.is(Unusable::Unhealthy));
        assert_eq!(node.state.health().snapshot(), verdict);
    }

    #[test]
    fn result_counted_at_the_end_of_checks_is_undone() {
        let cell = Arc::new(Published::new(Arc::new(set(&[1]))));
        let health = health(&cell);
        let node = cell.load().nodes[0].clone();
        let turn = node.state.health().count(CheckResult::TcpFailure, 1).unwrap();
        health.end();
        health.turn(&node, CheckSource::Passive, CheckResult::TcpFailure, turn, "a test");
        assert_eq!((node.state.is_usable(), node.state.health().snapshot()), (true, turn.before));
    }
}
