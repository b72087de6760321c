//! The state of an upstream's nodes that all workers share: whether a node may be selected. Workers read it
//! through a version that changes with each transition, so that a selection costs one relaxed load while
//! nothing changes. It is kept by address and name, apart from node sets, so that a change of the set or of
//! another field keeps it.

use std::any::Any;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use crate::env;
use crate::node_health::NodeHealth;

/// The reasons for which a node is not selected; each is one bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Unusable {
    /// Health checks found it down.
    Unhealthy = 1,
    /// Outlier detection ejected it.
    Ejected = 2,
}

impl Unusable {
    const fn index(self) -> usize {
        match self {
            Unusable::Unhealthy => 0,
            Unusable::Ejected => 1,
        }
    }
}

/// The address of a node and its host as written.
type NodeKey = (SocketAddr, Arc<str>);

/// The states of one upstream's nodes.
#[derive(Debug, Default)]
pub struct NodeStates {
    version: AtomicU64,
    /// Whether a set with nodes was published: nodes that are made later have joined it.
    is_in_use: AtomicBool,
    known: Mutex<HashMap<NodeKey, Weak<NodeState>>>,
}

/// The state of one node of one upstream.
#[derive(Debug)]
pub struct NodeState {
    states: Arc<NodeStates>,
    /// The reasons of [`Unusable`] that apply.
    unusable: AtomicU32,
    /// Milliseconds since 1970 at which it joined the set or became usable again, if it did.
    usable_since_ms: AtomicU64,
    /// The counters of health checks; a node without checks leaves them alone.
    health: NodeHealth,
    /// The last transition for each reason, for reports; in the order of [`Unusable`].
    last: Mutex<[Option<Transition>; 2]>,
    /// See [`NodeState::extension`].
    extension: OnceLock<Box<dyn Any + Send + Sync>>,
}

/// When and why a node became usable or unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// The observation that led to it, a phrase for reports and logs.
    pub cause: Arc<str>,
}

impl NodeStates {
    /// A number that changes whenever a node becomes usable or unusable.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// As [`NodeStates::version`], for a reader that takes the states next: they include every transition
    /// that the version counts.
    pub fn version_before_states(&self) -> u64 {
        // Acquire, because a reader that stored a new version with an old state would keep that state until
        // the next transition.
        self.version.load(Ordering::Acquire)
    }

    /// Notes that a set with nodes was published.
    pub(crate) fn set_in_use(&self) {
        self.is_in_use.store(true, Ordering::Relaxed);
    }

    /// The states that anything holds: those of the current set, and of nodes that left it while a worker
    /// still has an earlier set.
    pub fn held(&self) -> Vec<Arc<NodeState>> {
        self.known.lock().values().filter_map(Weak::upgrade).collect()
    }

    /// The state of the node with this address and written host, made if no node set holds it.
    pub fn of(self: &Arc<Self>, address: SocketAddr, host: &Arc<str>) -> Arc<NodeState> {
        let mut known = self.known.lock();
        let key = (address, host.clone());
        if let Some(state) = known.get(&key).and_then(Weak::upgrade) {
            return state;
        }
        // States without a holder are removed whenever the table would have to grow.
        if known.len() == known.capacity() {
            known.retain(|_, state| state.strong_count() > 0);
        }
        let has_joined = self.is_in_use.load(Ordering::Relaxed);
        let usable_since_ms = if has_joined { env::wall_clock().as_millis() as u64 } else { 0 };
        let state = Arc::new(NodeState {
            states: self.clone(),
            unusable: AtomicU32::new(0),
            usable_since_ms: AtomicU64::new(usable_since_ms),
            health: NodeHealth::default(),
            last: Mutex::default(),
            extension: OnceLock::new(),
        });
        known.insert(key, Arc::downgrade(&state));
        state
    }
}

impl NodeState {
    /// Whether no reason forbids its selection.
    #[inline]
    pub fn is_usable(&self) -> bool {
        self.unusable.load(Ordering::Relaxed) == 0
    }

    /// Milliseconds since 1970 at which the node joined a set that was in use, or became usable again,
    /// whichever was later; 0 if neither happened.
    pub fn usable_since_ms(&self) -> u64 {
        self.usable_since_ms.load(Ordering::Relaxed)
    }

    /// Whether this reason applies.
    pub fn is(&self, reason: Unusable) -> bool {
        self.unusable.load(Ordering::Relaxed) & reason as u32 != 0
    }

    /// The last transition for this reason; none if the node never had one.
    pub fn last(&self, reason: Unusable) -> Option<Transition> {
        self.last.lock()[reason.index()].clone()
    }

    /// State of this node that the data plane keeps for all workers, made with the first call. There is one
    /// type of it: `None` for another one.
    #[inline]
    pub fn extension<T: Any + Send + Sync + Default>(&self) -> Option<&T> {
        self.extension.get_or_init(|| Box::new(T::default())).downcast_ref()
    }

    /// The counters of health checks.
    #[inline]
    pub fn health(&self) -> &NodeHealth {
        &self.health
    }

    /// Sets or clears [`Unusable::Unhealthy`] by what [`NodeState::health`] says now, after results were
    /// counted; returns whether that changed it.
    pub fn follow_health(&self, transition: Transition) -> bool {
        let mut last = self.last.lock();
        // Read under the lock, so that of two threads that counted at the same time the later one decides.
        let is_down = self.health.snapshot().state.is_down();
        self.mark_locked(&mut last, Unusable::Unhealthy, is_down, transition)
    }

    /// Sets or clears a reason; returns whether that changed it. Workers see it with their next selection.
    /// The `transition` is kept only if there was one.
    pub fn mark(&self, reason: Unusable, applies: bool, transition: Transition) -> bool {
        self.mark_locked(&mut self.last.lock(), reason, applies, transition)
    }

    fn mark_locked(
        &self,
        last: &mut [Option<Transition>; 2],
        reason: Unusable,
        applies: bool,
        transition: Transition,
    ) -> bool {
        let bit = reason as u32;
        let before = if applies {
            self.unusable.fetch_or(bit, Ordering::Relaxed)
        } else {
            self.unusable.fetch_and(!bit, Ordering::Relaxed)
        };
        let has_changed = (before & bit != 0) != applies;
        if has_changed {
            if before == bit && !applies {
                self.usable_since_ms.store(transition.at_ms, Ordering::Relaxed);
            }
            last[reason.index()] = Some(transition);
            // Release, so that a worker that sees the version sees the bit.
            self.states.version.fetch_add(1, Ordering::Release);
        }
        has_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_health::CheckResult;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn at(at_ms: u64) -> Transition {
        Transition { at_ms, cause: "a test".into() }
    }

    #[test]
    fn state_is_kept_by_address_and_host_while_held() {
        let (states, host) = (Arc::new(NodeStates::default()), Arc::<str>::from("a:80"));
        let first = states.of(address(80), &host);
        assert!(Arc::ptr_eq(&first, &states.of(address(80), &Arc::from("a:80"))));
        assert!(!Arc::ptr_eq(&first, &states.of(address(81), &host)));
        assert!(!Arc::ptr_eq(&first, &states.of(address(80), &Arc::from("b:80"))));
        first.mark(Unusable::Unhealthy, true, at(1));
        drop(first);
        assert_eq!(states.held().len(), 0);
        let again = states.of(address(80), &host);
        assert!(again.is_usable(), "a node that left is forgotten");
        assert!(Arc::ptr_eq(&again, &states.held()[0]));
    }

    #[test]
    fn extension_has_one_type_and_lasts() {
        let node = Arc::<NodeStates>::default().of(address(80), &Arc::from("a:80"));
        node.extension::<AtomicU32>().unwrap().store(7, Ordering::Relaxed);
        assert_eq!(node.extension::<AtomicU32>().map(|count| count.load(Ordering::Relaxed)), Some(7));
        assert!(node.extension::<AtomicU64>().is_none());
    }

    #[test]
    fn start_of_use_is_the_last_of_joining_and_recovery() {
        let states = Arc::new(NodeStates::default());
        let node = states.of(address(80), &Arc::from("a:80"));
        assert_eq!(node.usable_since_ms(), 0);
        node.mark(Unusable::Unhealthy, true, at(1));
        node.mark(Unusable::Ejected, true, at(2));
        node.mark(Unusable::Unhealthy, false, at(3));
        assert_eq!(node.usable_since_ms(), 0, "a reason is left");
        node.mark(Unusable::Ejected, false, at(4));
        assert_eq!(node.usable_since_ms(), 4);
    }

    #[test]
    fn health_marks_the_node_when_it_is_followed() {
        let node = Arc::new(NodeStates::default()).of(address(80), &Arc::from("a:80"));
        assert!(!node.follow_health(at(1)) && node.is_usable());
        assert!(node.health().count(CheckResult::TcpFailure, 1).is_some());
        assert!(node.follow_health(at(2)) && node.is(Unusable::Unhealthy));
        node.health().reset();
        assert!(node.follow_health(at(3)) && node.is_usable());
        assert_eq!(node.last(Unusable::Unhealthy), Some(at(3)));
    }

    #[test]
    fn version_changes_with_each_transition_only() {
        let states = Arc::new(NodeStates::default());
        let node = states.of(address(80), &Arc::from("a:80"));
        use Unusable::{Ejected, Unhealthy};
        // at, reason, applies → changed, version, usable, at of the last transition
        let steps = [
            (1, Unhealthy, false, false, 0, true, None),
            (2, Unhealthy, true, true, 1, false, Some(2)),
            (3, Unhealthy, true, false, 1, false, Some(2)),
            (4, Ejected, true, true, 2, false, Some(4)),
            (5, Unhealthy, false, true, 3, false, Some(5)),
            (6, Ejected, false, true, 4, true, Some(6)),
        ];
        for (at_ms, reason, applies, changed, version, usable, last) in steps {
            assert_eq!(node.mark(reason, applies, at(at_ms)), changed, "{reason:?} {applies}");
            assert_eq!(node.last(reason).map(|last| last.at_ms), last, "{reason:?} {applies}");
            assert_eq!((states.version(), node.is_usable()), (version, usable), "{reason:?} {applies}");
            assert_eq!(node.is(reason), applies);
        }
    }
}
