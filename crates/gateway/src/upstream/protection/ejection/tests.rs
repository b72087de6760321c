//! Tests of ejections: their condition by latency, and rules that are removed while requests are in flight.

use std::sync::atomic::Ordering;

use super::*;
use crate::upstream::balance::testing::set;
use crate::upstream::protection::{FailureStatuses, SharedProtection, UNLIMITED};
use exchange::overload::circuit::CircuitRules;

/// An upstream that ejects a node with its first failure, for a second.
struct Scene {
    protection: Protection,
    cell: Published<NodeSet>,
}

impl Scene {
    fn new(nodes: &[u32], latency: Option<LatencyRule>) -> Scene {
        let circuit = CircuitRules {
            consecutive_failures: if latency.is_some() { 0 } else { 1 },
            failure_rate: None,
            half_open_requests: 1,
            base_open_ms: 1_000,
            max_open_ms: 1_000,
        };
        let failures = FailureStatuses { http: [500].into(), grpc: [].into() };
        let ejection = Ejection { circuit, failures, latency, max_ejected_percent: 50 };
        let shared = SharedProtection::default();
        *shared.ejects.lock() = true;
        let protection = Protection {
            identity: "/upstreams/1".into(),
            ejection: Some(ejection),
            breaker: None,
            max_requests: UNLIMITED,
            max_requests_per_node: UNLIMITED,
            limits_connections: false,
            queue: None,
            shared: Arc::new(shared),
        };
        Scene { protection, cell: Published::new(Arc::new(set(nodes))) }
    }

    fn state(&self, index: usize) -> Arc<NodeState> {
        self.cell.load().nodes[index].state.clone()
    }

    fn fail(&self, index: usize, now_ms: u64) {
        self.nodes().note(&self.state(index), now_ms, CircuitEvidence::Failure, None, None);
    }

    fn nodes(&self) -> EjectionNodes<'_> {
        let rules = self.protection.ejection.as_ref().expect("it has rules");
        EjectionNodes { protection: &self.protection, rules, cell: &self.cell }
    }

    fn is_ejected(&self, index: usize) -> bool {
        self.state(index).is(Unusable::Ejected)
    }
}

#[test]
fn rules_that_were_removed_eject_no_node() {
    let scene = Scene::new(&[1, 1], None);
    scene.fail(0, 1_000);
    assert!(scene.is_ejected(0));
    let states = [scene.state(0), scene.state(1)];
    forget(&scene.protection.shared, states.iter());
    assert!(!scene.is_ejected(0));
    // A request in flight has the rules of the earlier form.
    scene.fail(0, 1_001);
    scene.fail(1, 1_001);
    assert!(!scene.is_ejected(0) && !scene.is_ejected(1));
    assert_eq!(scene.protection.shared.counts.ejections.load(Ordering::Relaxed), 1);
}

#[test]
fn fast_failures_do_not_eject_the_healthy_node() {
    let latency = LatencyRule { factor: 2.0, min_requests: 1, window_ms: 1_000 };
    let scene = Scene::new(&[1, 1, 1], Some(latency));
    for now_ms in 1_000..1_500 {
        for index in 1..3 {
            scene.fail(index, now_ms);
        }
        scene.nodes().note(&scene.state(0), now_ms, CircuitEvidence::Success, Some(20_000), None);
    }
    assert!(!scene.is_ejected(0), "the other nodes refuse, which is faster");
    for now_ms in 1_500..2_000 {
        scene.nodes().note(&scene.state(1), now_ms, CircuitEvidence::Success, Some(2_000), None);
        scene.nodes().note(&scene.state(0), now_ms, CircuitEvidence::Success, Some(20_000), None);
    }
    assert!(scene.is_ejected(0), "another node is faster");
}

#[test]
fn prevented_ejection_waits_before_the_next_one() {
    let scene = Scene::new(&[1], None);
    let prevented = || scene.protection.shared.counts.ejections_prevented.load(Ordering::Relaxed);
    // at → prevented ejections
    for (now_ms, count) in [(1_000, 1), (1_001, 1), (1_099, 1), (1_100, 2), (1_150, 2)] {
        scene.fail(0, now_ms);
        assert_eq!(prevented(), count, "{now_ms}");
    }
}
