//! The thread that makes the active checks of every upstream, once per process. The compiler tells it which upstreams are
//! checked; it follows their node sets, makes the checks that are due, and counts what they met at the nodes' states.

use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use model::outbound::OutboundPolicy;
use net::env;
use net::nodes::NodeSet;
use parking_lot::Mutex;
use stdx::published::Reader;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::Health;
use super::counts::{HealthCounts, Source};
use super::outcome::CheckOutcome;
use super::rules::Observation;
use super::schedule::{Id, Schedule};
use super::share::{Begin, Share, Shares};
use super::target::Target;

/// How often node sets are looked at, which change without a compilation: one relaxed load for each upstream.
const SETS_EVERY_MS: u64 = 200;
/// Due times are rounded up to this, so that 10,000 checks in a second wake the thread 100 times at most.
const STEP_MS: u64 = 10;

/// See the module. Dropping it ends the thread.
pub struct HealthMonitor {
    shared: Arc<Shared>,
    /// Started with the first upstream that is checked: a gateway without one has no such thread.
    is_running: Mutex<bool>,
}

struct Shared {
    policy: OutboundPolicy,
    inbox: Mutex<Inbox>,
    changed: Notify,
    counts: Arc<HealthCounts>,
}

/// Changes that the thread has not taken up: one for each upstream at most.
#[derive(Default)]
struct Inbox {
    changes: HashMap<Arc<str>, Option<Arc<Health>>>,
    is_closed: bool,
}

impl HealthMonitor {
    /// Checks that ask no address which `policy` refuses.
    pub fn new(policy: OutboundPolicy) -> HealthMonitor {
        let (inbox, changed, counts) = (Mutex::default(), Notify::new(), Arc::default());
        let shared = Arc::new(Shared { policy, inbox, changed, counts });
        HealthMonitor { shared, is_running: Mutex::new(false) }
    }

    /// The counters of all checks.
    pub(crate) fn counts(&self) -> &Arc<HealthCounts> {
        &self.shared.counts
    }

    /// Checks the upstream `identity` from now on as `health` says, or no longer.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub(crate) fn set(&self, identity: &Arc<str>, health: Option<Arc<Health>>) -> io::Result<()> {
        let mut is_running = self.is_running.lock();
        if !*is_running {
            if health.is_none() {
                return Ok(());
            }
            let shared = self.shared.clone();
            env::service("health", move || run(shared))?;
            *is_running = true;
        }
        self.shared.inbox.lock().changes.insert(identity.clone(), health);
        self.shared.changed.notify_one();
        Ok(())
    }

    /// Appends the counters in the Prometheus text format.
    pub fn write_metrics(&self, text: &mut String) {
        self.shared.counts.write_metrics(text);
    }
}

impl Drop for HealthMonitor {
    fn drop(&mut self) {
        self.shared.inbox.lock().is_closed = true;
        self.shared.changed.notify_one();
    }
}

async fn run(shared: Arc<Shared>) {
    let (ends, mut ended) = unbounded_channel();
    let mut thread = Checks {
        shared,
        schedule: Schedule::default(),
        upstreams: HashMap::new(),
        targets: HashMap::new(),
        shares: Shares::default(),
        next_id: 0,
        sets_at_ms: 0,
        ends,
    };
    while thread.turn(&mut ended) {
        let now_ms = now_ms();
        let wake_ms =
            thread.schedule.next_ms().map_or(thread.sets_at_ms, |at_ms| at_ms.min(thread.sets_at_ms));
        let pause_ms = wake_ms.saturating_sub(now_ms).max(STEP_MS);
        let shared = thread.shared.clone();
        tokio::select! {
            biased;
            () = shared.changed.notified() => {}
            Some(end) = ended.recv() => thread.take_end(end),
            () = env::sleep_ms(pause_ms) => {}
        }
    }
}

/// The state of the thread.
struct Checks {
    shared: Arc<Shared>,
    schedule: Schedule,
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
    health: Arc<Health>,
    nodes: Reader<NodeSet>,
    group: Id,
    targets: Vec<Id>,
}

struct CheckedTarget {
    health: Arc<Health>,
    target: Target,
}

/// A check that has ended. There are as many at most as checks in flight, so that the channel needs no bound of its own.
struct CheckEnd {
    id: Id,
    check: Rc<Share>,
    /// None if its task panicked.
    outcome: Option<CheckOutcome>,
}

impl Checks {
    /// Takes in changes and results, and begins the checks that are due. False when the monitor is gone.
    fn turn(&mut self, ended: &mut UnboundedReceiver<CheckEnd>) -> bool {
        let changes = {
            let mut inbox = self.shared.inbox.lock();
            if inbox.is_closed {
                return false;
            }
            std::mem::take(&mut inbox.changes)
        };
        for (identity, health) in changes {
            self.replace(identity, health);
        }
        while let Ok(end) = ended.try_recv() {
            self.take_end(end);
        }
        let now_ms = now_ms();
        if now_ms >= self.sets_at_ms {
            self.sets_at_ms = now_ms + SETS_EVERY_MS;
            self.follow_sets(now_ms);
        }
        while let Some(id) = self.schedule.take_due(now_ms) {
            self.begin(id, now_ms);
        }
        true
    }

    fn replace(&mut self, identity: Arc<str>, health: Option<Arc<Health>>) {
        if let Some(old) = self.upstreams.remove(&identity) {
            self.forget(&old.targets);
            self.schedule.remove_group(old.group);
        }
        let Some(health) = health else { return };
        let group = self.next_id();
        self.schedule.add_group(group, health.active.concurrency);
        let nodes = Reader::new(health.nodes.clone());
        let mut upstream = CheckedUpstream { health, nodes, group, targets: Vec::new() };
        self.follow(&mut upstream, now_ms());
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
        let mut kept: HashMap<*const net::node_state::NodeState, Id> = before
            .iter()
            .filter_map(|id| Some((Arc::as_ptr(&self.targets.get(id)?.target.node.state), *id)))
            .collect();
        for node in &set.nodes {
            let id = match kept.remove(&Arc::as_ptr(&node.state)) {
                Some(id) => id,
                // The same node twice is asked once.
                None if upstream.targets.iter().any(|id| self.is_of(*id, node)) => continue,
                None => {
                    let id = self.next_id();
                    let interval_ms = upstream.health.interval_ms(node);
                    self.schedule.add(id, upstream.group, now_ms, interval_ms, env::random_u64());
                    id
                }
            };
            let Checks { shared, shares, .. } = self;
            let target = Target::new(node, &upstream.health.active.probe, &shared.policy, shares);
            if let Some(what) = target.refused {
                let address = target.address();
                tracing::warn!(upstream = &*upstream.health.identity, %address, "a node is not asked by health checks: its \
                    address is {what}; the setting outbound_allow lists what may be asked all the same");
            }
            let health = upstream.health.clone();
            self.targets.insert(id, Rc::new(CheckedTarget { health, target }));
            upstream.targets.push(id);
        }
        let left: Vec<Id> = kept.into_values().collect();
        self.forget(&left);
    }

    fn is_of(&self, id: Id, node: &net::nodes::Node) -> bool {
        self.targets.get(&id).is_some_and(|one| one.target.is_of(node))
    }

    fn forget(&mut self, targets: &[Id]) {
        // The removal goes through all due times.
        if targets.is_empty() {
            return;
        }
        self.schedule.remove(targets);
        targets.iter().for_each(|id| drop(self.targets.remove(id)));
    }

    /// Begins the check of a target on a task of its own, unless one that is the same serves it.
    fn begin(&mut self, id: Id, now_ms: u64) {
        let Some(checked) = self.targets.get(&id).cloned() else { return };
        let CheckedTarget { health, target } = &*checked;
        let check = target.check.clone();
        match check.begin(id, now_ms, health.interval_ms(&target.node)) {
            Begin::Wait => return,
            Begin::Take(outcome) => return self.take_outcome(id, Some(&outcome)),
            Begin::Check => {}
        }
        let ending = Ending { id, check, outcome: None, ends: self.ends.clone() };
        env::spawn(async move {
            let mut ending = ending;
            let CheckedTarget { health, target } = &*checked;
            ending.outcome = Some(match target.refused {
                Some(what) => CheckOutcome::new(Observation::TcpFailure, format!("the address is {what}")),
                None => health.active.probe.check(&target.check.key).await,
            });
        });
    }

    /// Takes in a check that has ended, for its target and for those that waited for it.
    fn take_end(&mut self, end: CheckEnd) {
        let CheckEnd { id, check, outcome } = end;
        if let Some(outcome) = &outcome {
            self.shared.counts.checked(outcome.observation);
        }
        let waiting = check.ended(outcome.as_ref());
        for id in std::iter::once(id).chain(waiting) {
            self.take_outcome(id, outcome.as_ref());
        }
    }

    /// Counts an outcome for a target. That of a node that has left meanwhile is dropped.
    fn take_outcome(&mut self, id: Id, outcome: Option<&CheckOutcome>) {
        let Some(checked) = self.targets.get(&id) else {
            return self.schedule.ended(id, now_ms(), 0);
        };
        let CheckedTarget { health, target } = &**checked;
        if let Some(outcome) = outcome {
            if let Some(observation) = outcome.observation {
                let rules = &health.active.rules;
                health.note(&target.node, Source::Active, rules, observation, || outcome.detail.clone());
            } else {
                let (upstream, address) = (&*health.identity, target.address());
                tracing::debug!(upstream, %address, reason = %outcome.detail, "a health check could not be made");
            }
        }
        self.schedule.ended(id, now_ms(), health.interval_ms(&target.node));
    }

    fn next_id(&mut self) -> Id {
        self.next_id += 1;
        self.next_id
    }
}

impl Health {
    /// Time between two checks of a node as it is now.
    fn interval_ms(&self, node: &net::nodes::Node) -> u64 {
        let is_down = node.state.health().snapshot().state.is_down();
        if is_down { self.active.down_interval_ms } else { self.active.up_interval_ms }
    }
}

/// Reports the end of a check, also when its task panics, because its place in flight would otherwise never be free.
struct Ending {
    id: Id,
    check: Rc<Share>,
    outcome: Option<CheckOutcome>,
    ends: UnboundedSender<CheckEnd>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        // The receiver lives as long as the thread.
        let _ =
            self.ends.send(CheckEnd { id: self.id, check: self.check.clone(), outcome: self.outcome.take() });
    }
}

fn now_ms() -> u64 {
    env::monotonic_ns() / 1_000_000
}
