//! The checks without their thread: which nodes they follow, and which outcomes count.

use net::node_state::{Transition, Unusable};
use net::nodes::ResolvedNode;
use stdx::published::Published;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;
use crate::upstream::balance::testing::set;
use crate::upstream::health::{HealthProbe, ProbeHost, ProbeKind};

fn checks() -> (Checks, UnboundedReceiver<CheckEnd>) {
    let (ends, ended) = unbounded_channel();
    (Checks::new(OutboundPolicy::default(), Arc::default(), ends), ended)
}

/// Checks of the nodes in `cell` for a connection, of which one result decides.
fn health(cell: &Arc<Published<NodeSet>>) -> Option<Arc<CompiledHealthChecks>> {
    let written = r#"{"active": {"healthy": {"interval": 10, "successes": 1},
        "unhealthy": {"interval": 30, "tcp_failures": 1}}}"#;
    let (kind, host) = (ProbeKind::Tcp, ProbeHost::Checks(None));
    let probe =
        HealthProbe { kind, tls: None, host, port: None, reuses_connection: false, timeout_ms: 1_000 };
    let written = serde_json::from_str(written).unwrap();
    Some(Arc::new(CompiledHealthChecks::new(&"/upstreams/1".into(), cell, &written, probe, Arc::default())))
}

fn take_out(node: &ResolvedNode) {
    node.state.health().count(net::node_health::CheckResult::TcpFailure, 1);
    node.state.follow_health(Transition { at_ms: 1, cause: "a test".into() });
    assert!(node.state.is(Unusable::Unhealthy));
}

#[test]
fn verdict_on_a_node_that_leaves_is_forgotten() {
    let (mut checks, _ended) = checks();
    let cell = Arc::new(Published::new(Arc::new(set(&[1, 1, 1]))));
    let held = cell.load();
    let without = |left: &[usize]| {
        let stays = |(index, node): (usize, &ResolvedNode)| (!left.contains(&index)).then(|| node.clone());
        let nodes = held.nodes.iter().enumerate().filter_map(stays).collect();
        cell.publish(Arc::new(NodeSet { nodes, states: held.states.clone(), ..NodeSet::default() }));
    };
    checks.replace("/upstreams/1".into(), health(&cell));
    held.nodes.iter().for_each(take_out);
    without(&[0]);
    checks.follow_sets(0);
    let usable = || held.nodes.iter().map(|node| node.state.is_usable()).collect::<Vec<_>>();
    assert_eq!(usable(), [true, false, false]);
    without(&[0, 1]);
    checks.replace("/upstreams/1".into(), health(&cell));
    assert_eq!(usable(), [true, true, false]);
    assert_eq!(checks.targets.len(), 1);
}
