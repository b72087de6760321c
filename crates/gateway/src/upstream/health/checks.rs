//! The active checks of every upstream: they follow the node sets, make the checks that are due, and count
//! the outcomes at the nodes' states. They run on one thread.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use model::outbound::OutboundPolicy;
use net::env;
use net::node_state::NodeState;
use net::nodes::NodeSet;
use stdx::published::Reader;
use tokio::sync::mpsc::UnboundedSender;

use super::counts::{CheckSource, HealthCounts};
use super::outcome::CheckOutcome;
use super::rules::Observation;
use super::schedule::{CheckSchedule, Id};
use super::share::{Begin, SharedCheck, Shares};
use super::target::CheckTarget;
use super::{CompiledHealthChecks, forget_verdict};

/// How often node sets are looked at, which change without a compilation: one relaxed load for each upstream.
const SETS_EVERY_MS: u64 = 200;

/// See the module.
pub(super) struct Checks {
    policy: OutboundPolicy,
    counts: Arc<HealthCounts>,
    schedule: CheckSchedule,
    upstreams: HashMap<Arc<str>, CheckedUpstream>,
    /// The nodes of all upstreams by the number that the schedule knows.
    targets: HashMap<Id, Rc<CheckedTarget>>,
    /// The checks of all targets.
    shares: Shares,
    next_id: Id,
    /// When node sets are looked at next.
    sets_at_ms: u64,
    ends: UnboundedSender<CheckEnd>,
}

struct CheckedUpstream {
    health: Arc<CompiledHealthChecks>,
    nodes: Reader<NodeSet>,
    group: Id,
    targets: Vec<Id>,
}

struct CheckedTarget {
    health: Arc<CompiledHealthChecks>,
    target: CheckTarget,
    /// The beginning of the last check that was counted.
    counted_ms: Cell<Option<u64>>,
}

/// A check that has ended. There are as many at most as checks in flight, so that the channel needs no bound
/// of its own.
pub(super) struct CheckEnd {
    id: Id,
    check: Rc<SharedCheck>,
    /// None if its task panicked.
    outcome: Option<CheckOutcome>,
}

impl Checks {
    pub(super) fn new(
        policy: OutboundPolicy,
        counts: Arc<HealthCounts>,
        ends: UnboundedSender<CheckEnd>,
    ) -> Checks {
        Checks {
            policy,
            counts,
            schedule: CheckSchedule::default(),
            upstreams: HashMap::new(),
            targets: HashMap::new(),
            shares: Shares::default(),
            next_id: 0,
            sets_at_ms: 0,
            ends,
        }
    }

    /// Takes in changes of upstreams, and begins the checks that are due.
    pub(super) fn turn(&mut self, changes: HashMap<Arc<str>, Option<Arc<CompiledHealthChecks>>>) {
        for (identity, health) in changes {
            self.replace(identity, health);
        }
        let now_ms = monotonic_ms();
        if now_ms >= self.sets_at_ms {
            self.sets_at_ms = now_ms + SETS_EVERY_MS;
            self.follow_sets(now_ms);
        }
        while let Some(id) = self.schedule.take_due(now_ms) {
            self.begin(id, now_ms);
        }
    }

    /// When there is something to do at the latest, in milliseconds of the monotonic clock.
    pub(super) fn next_ms(&self) -> u64 {
        self.schedule.next_ms().map_or(self.sets_at_ms, |at_ms| at_ms.min(self.sets_at_ms))
    }

    fn replace(&mut self, identity: Arc<str>, health: Option<Arc<CompiledHealthChecks>>) {
        let mut left = Vec::new();
        if let Some(old) = self.upstreams.remove(&identity) {
            left = self.forget(&old.targets);
            self.schedule.remove_group(old.group);
        }
        // The compiler has forgotten the verdicts of checks that ended.
        let Some(health) = health else { return };
        let group = self.next_id();
        self.schedule.add_group(group, health.active.concurrency);
        let nodes = Reader::new(health.nodes.clone());
        let mut upstream = CheckedUpstream { health, nodes, group, targets: Vec::new() };
        self.follow(&mut upstream, monotonic_ms());
        let states: HashSet<_> =
            upstream.nodes.get().nodes.iter().map(|node| Arc::as_ptr(&node.state)).collect();
        left.retain(|checked| !states.contains(&Arc::as_ptr(&checked.target.node.state)));
        forget_verdicts_on(&left);
        self.upstreams.insert(identity, upstream);
    }

    fn follow_sets(&mut self, now_ms: u64) {
        let mut upstreams = std::mem::take(&mut self.upstreams);
        for upstream in upstreams.values_mut() {
            if upstream.nodes.refresh().is_some() {
                self.follow(upstream, now_ms);
            }
        }
        self.upstreams = upstreams;
    }

    /// Takes up the node set of an upstream: nodes that stay go on, new ones begin, others are forgotten.
    fn follow(&mut self, upstream: &mut CheckedUpstream, now_ms: u64) {
        let set = upstream.nodes.get().clone();
        let before = std::mem::take(&mut upstream.targets);
        let mut kept: HashMap<*const NodeState, Id> = before
            .iter()
            .filter_map(|id| Some((Arc::as_ptr(&self.targets.get(id)?.target.node.state), *id)))
            .collect();
        let mut seen = HashSet::with_capacity(set.nodes.len());
        for node in &set.nodes {
            let state = Arc::as_ptr(&node.state);
            // The same node twice is asked once.
            if !seen.insert(state) {
                continue;
            }
            let id = match kept.remove(&state) {
                Some(id) => id,
                None => {
                    let id = self.next_id();
                    let interval_ms = upstream.health.interval_ms(node);
                    self.schedule.add(id, upstream.group, now_ms, interval_ms, env::random_u64());
                    id
                }
            };
            let Checks { policy, shares, .. } = self;
            let target = CheckTarget::new(node, &upstream.health.active.probe, policy, shares);
            if let Some(what) = target.refused {
                let address = target.address();
                tracing::warn!(upstream = &*upstream.health.identity, %address, "a node is not asked by health checks: its \
                    address is {what}; the setting outbound_allow lists what may be asked all the same");
            }
            let health = upstream.health.clone();
            let counted_ms =
                self.targets.get(&id).map_or_else(Cell::default, |before| before.counted_ms.clone());
            self.targets.insert(id, Rc::new(CheckedTarget { health, target, counted_ms }));
            upstream.targets.push(id);
        }
        let left: Vec<Id> = kept.into_values().collect();
        forget_verdicts_on(&self.forget(&left));
    }

    /// Removes targets, and returns them.
    fn forget(&mut self, targets: &[Id]) -> Vec<Rc<CheckedTarget>> {
        // The removal goes through all due times.
        if targets.is_empty() {
            return Vec::new();
        }
        self.schedule.remove(targets);
        targets.iter().filter_map(|id| self.targets.remove(id)).collect()
    }

    /// Begins the check of a target on a task of its own, unless one that is the same serves it.
    fn begin(&mut self, id: Id, now_ms: u64) {
        let Some(checked) = self.targets.get(&id).cloned() else { return };
        let CheckedTarget { health, target, counted_ms } = &*checked;
        let check = target.check.clone();
        match check.begin(id, now_ms, health.interval_ms(&target.node), counted_ms.get()) {
            Begin::Wait => return self.schedule.waits(id),
            Begin::Take(began_ms, outcome) => return self.take_outcome(id, began_ms, Some(&outcome)),
            Begin::Check => {}
        }
        let ending = CheckEndGuard { id, check, outcome: None, ends: self.ends.clone() };
        env::spawn(async move {
            let mut ending = ending;
            let CheckedTarget { health, target, .. } = &*checked;
            let probe = &health.active.probe;
            let (outcome, response) = match target.refused {
                Some(what) => {
                    (CheckOutcome::new(Observation::TcpFailure, format!("the address is {what}")), None)
                }
                None => probe.check(&target.check).await,
            };
            ending.outcome = Some(outcome);
            // It counts now, however long the rest of the response takes.
            drop(ending);
            if let Some(response) = response {
                target.check.connection.keep(response, probe.timeout_ms).await;
            }
        });
    }

    /// Takes in a check that has ended, for its target and for those that waited for it.
    pub(super) fn take_end(&mut self, end: CheckEnd) {
        let CheckEnd { id, check, outcome } = end;
        if let Some(outcome) = &outcome {
            self.counts.checked(outcome.observation);
        }
        let (began_ms, waiting) = check.ended(outcome.as_ref());
        for id in std::iter::once(id).chain(waiting) {
            self.take_outcome(id, began_ms, outcome.as_ref());
        }
    }

    /// Counts the outcome of the check that began at `began_ms` for a target. That of a node that has left
    /// meanwhile is dropped.
    fn take_outcome(&mut self, id: Id, began_ms: u64, outcome: Option<&CheckOutcome>) {
        let Some(checked) = self.targets.get(&id) else {
            return self.schedule.ended(id, monotonic_ms(), 0);
        };
        let CheckedTarget { health, target, counted_ms } = &**checked;
        counted_ms.set(Some(began_ms));
        if let Some(outcome) = outcome {
            if let Some(observation) = outcome.observation {
                let rules = &health.active.rules;
                health.note(&target.node, CheckSource::Active, rules, observation, || outcome.detail.clone());
            } else {
                let (upstream, address) = (&*health.identity, target.address());
                tracing::debug!(upstream, %address, reason = %outcome.detail, "a health check could not be made");
            }
        }
        self.schedule.ended(id, monotonic_ms(), health.interval_ms(&target.node));
    }

    fn next_id(&mut self) -> Id {
        self.next_id += 1;
        self.next_id
    }
}

/// Forgets the verdicts on nodes that left their upstream. A worker may hold the state of such a node for
/// long, and the node begins anew when it comes back.
fn forget_verdicts_on(left: &[Rc<CheckedTarget>]) {
    for checked in left {
        forget_verdict(&checked.target.node.state, "the node left the upstream");
    }
}

impl CompiledHealthChecks {
    /// Time between two checks of a node as it is now.
    fn interval_ms(&self, node: &net::nodes::ResolvedNode) -> u64 {
        let is_down = node.state.health().snapshot().state.is_down();
        if is_down { self.active.down_interval_ms } else { self.active.up_interval_ms }
    }
}

/// Reports the end of a check, also when its task panics, because its place in flight would otherwise never
/// be free.
struct CheckEndGuard {
    id: Id,
    check: Rc<SharedCheck>,
    outcome: Option<CheckOutcome>,
    ends: UnboundedSender<CheckEnd>,
}

impl Drop for CheckEndGuard {
    fn drop(&mut self) {
        // The receiver lives as long as the thread.
        let _ =
            self.ends.send(CheckEnd { id: self.id, check: self.check.clone(), outcome: self.outcome.take() });
    }
}

/// Milliseconds of the monotonic clock.
pub(super) fn monotonic_ms() -> u64 {
    env::monotonic_ns() / 1_000_000
}

#[cfg(test)]
mod tests;
