//! The state of an upstream's nodes that all workers share: whether a node may be selected. Workers read it through a
//! version that changes with each transition, so that a selection costs one relaxed load while nothing changes. It is
//! kept by address and name, apart from node sets, so that a change of the set or of another field keeps it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// The reasons for which a node is not selected; each is one bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Unusable {
    /// Health checks found it down.
    Unhealthy = 1,
    /// Outlier detection ejected it.
    Ejected = 2,
}

/// The address of a node and its host as written.
type NodeKey = (SocketAddr, Arc<str>);

/// The states of one upstream's nodes.
#[derive(Debug, Default)]
pub struct NodeStates {
    version: AtomicU64,
    known: Mutex<HashMap<NodeKey, Weak<NodeState>>>,
}

/// The state of one node of one upstream.
#[derive(Debug)]
pub struct NodeState {
    states: Arc<NodeStates>,
    /// The reasons of [`Unusable`] that apply.
    unusable: AtomicU32,
}

impl NodeStates {
    /// A number that changes whenever a node becomes usable or unusable.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
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
        let state = Arc::new(NodeState { states: self.clone(), unusable: AtomicU32::new(0) });
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

    /// Whether this reason applies.
    pub fn is(&self, reason: Unusable) -> bool {
        self.unusable.load(Ordering::Relaxed) & reason as u32 != 0
    }

    /// Sets or clears a reason; returns whether that changed it. Workers see it with their next selection.
    pub fn mark(&self, reason: Unusable, applies: bool) -> bool {
        let bit = reason as u32;
        let before = if applies {
            self.unusable.fetch_or(bit, Ordering::Relaxed)
        } else {
            self.unusable.fetch_and(!bit, Ordering::Relaxed)
        };
        let has_changed = (before & bit != 0) != applies;
        if has_changed {
            // Release, so that a worker that sees the version sees the bit.
            self.states.version.fetch_add(1, Ordering::Release);
        }
        has_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn state_is_kept_by_address_and_host_while_held() {
        let (states, host) = (Arc::new(NodeStates::default()), Arc::<str>::from("a:80"));
        let first = states.of(address(80), &host);
        assert!(Arc::ptr_eq(&first, &states.of(address(80), &Arc::from("a:80"))));
        assert!(!Arc::ptr_eq(&first, &states.of(address(81), &host)));
        assert!(!Arc::ptr_eq(&first, &states.of(address(80), &Arc::from("b:80"))));
        first.mark(Unusable::Unhealthy, true);
        drop(first);
        assert!(states.of(address(80), &host).is_usable(), "a node that left is forgotten");
    }

    #[test]
    fn version_changes_with_each_transition_only() {
        let states = Arc::new(NodeStates::default());
        let node = states.of(address(80), &Arc::from("a:80"));
        use Unusable::{Ejected, Unhealthy};
        // reason, applies → changed, version, usable
        let steps = [
            (Unhealthy, false, false, 0, true),
            (Unhealthy, true, true, 1, false),
            (Unhealthy, true, false, 1, false),
            (Ejected, true, true, 2, false),
            (Unhealthy, false, true, 3, false),
            (Ejected, false, true, 4, true),
        ];
        for (reason, applies, changed, version, usable) in steps {
            assert_eq!(node.mark(reason, applies), changed, "{reason:?} {applies}");
            assert_eq!((states.version(), node.is_usable()), (version, usable), "{reason:?} {applies}");
            assert_eq!(node.is(reason), applies);
        }
    }
}
