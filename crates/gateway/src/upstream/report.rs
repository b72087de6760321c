//! An upstream and its nodes as reports and metrics show them. It changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::report::{
    HealthCounter, NodeReport, NodeStatus, NodeTransition, NodeVerdict, UnusableNodes, UpstreamHealth,
    UpstreamReport,
};
use net::node_health::{CheckResult, HealthSnapshot, HealthState};
use net::node_state::Unusable;
use net::nodes::ResolvedNode;
use stdx::prometheus_text::{header, sample};

use super::Upstream;
use super::authority::without_port_str;
use super::protection_report;
use exchange::observe::node_loads::NodeLoads;

/// The nodes in the metrics at most; a scrape of more would be megabytes.
const STATUS_MAX: usize = 10_000;

/// The upstream and the state of its nodes.
pub fn report_upstream(upstream: &Upstream, loads: &NodeLoads) -> UpstreamReport {
    let set = upstream.nodes.load();
    UpstreamReport {
        name: upstream.identity.clone(),
        method: upstream.balancer.name,
        scheme: upstream.scheme,
        check_type: upstream.health.as_ref().map(|health| health.check_type()),
        protection: protection_report::of_upstream(upstream),
        note: set.note.clone(),
        nodes: set.nodes.iter().map(|node| node_report(upstream, node, loads)).collect(),
    }
}

fn node_report(upstream: &Upstream, node: &ResolvedNode, loads: &NodeLoads) -> NodeReport {
    let load = loads.at(&upstream.nodes, node.endpoint.id);
    let snapshot = node.state.health().snapshot();
    NodeReport {
        address: node.endpoint.address,
        host: shown_host(&node.host).into(),
        weight: node.weight,
        priority: node.priority,
        unhealthy: transition(node, Unusable::Unhealthy),
        ejected: transition(node, Unusable::Ejected),
        in_flight: load.in_flight,
        ewma_ms: load.latency_us.map(|us| us / 1_000.0),
        health: upstream.health.is_some().then(|| (verdict(snapshot), counter(snapshot))),
        protection: upstream.protection.is_some().then(|| protection_report::of_node(&node.state)),
    }
}

/// The nodes of the upstream that are not used; none where all are.
pub fn unusable(upstream: &Upstream) -> Option<UnusableNodes> {
    let set = upstream.nodes.load();
    let unusable = |node: &ResolvedNode| {
        // Costs one load for a node that is used.
        if node.state.is_usable() {
            return None;
        }
        let reasons = [(Unusable::Unhealthy, "unhealthy"), (Unusable::Ejected, "ejected")];
        let found = reasons.into_iter().find_map(|(reason, name)| Some((name, transition(node, reason)?)));
        found.map(|(name, transition)| (node.endpoint.address, name, transition))
    };
    let nodes: Vec<_> = set.nodes.iter().filter_map(unusable).collect();
    let name = &upstream.identity;
    (!nodes.is_empty()).then(|| UnusableNodes { name: Arc::clone(name), total: set.nodes.len(), nodes })
}

/// The host of an authority; an IPv6 address is without brackets.
fn shown_host(authority: &str) -> &str {
    without_port_str(authority).trim_matches(['[', ']'])
}

/// Since when and why `reason` applies; none where it does not.
fn transition(node: &ResolvedNode, reason: Unusable) -> Option<NodeTransition> {
    let last = node.state.last(reason).filter(|_| node.state.is(reason))?;
    Some(NodeTransition { at_ms: last.at_ms, cause: last.cause })
}

/// The health of the upstream's nodes; none without checks.
pub fn health(upstream: &Upstream) -> Option<UpstreamHealth> {
    let health = upstream.health.as_ref()?;
    let status = |node: &ResolvedNode| {
        let snapshot = node.state.health().snapshot();
        NodeStatus {
            ip: node.endpoint.address.ip().to_string(),
            port: health.checked_port(node),
            hostname: Some(health.written_host().unwrap_or(shown_host(&node.host)).into()),
            status: verdict(snapshot),
            counter: counter(snapshot),
            reason: transition(node, Unusable::Unhealthy).map(|transition| transition.cause),
        }
    };
    Some(UpstreamHealth {
        name: upstream.identity.to_string(),
        check_type: health.check_type(),
        nodes: upstream.nodes.load().nodes.iter().map(status).collect(),
    })
}

/// Appends the verdict on each node (contract 2.6), under APISIX's name.
pub fn write_node_status<'u>(upstreams: impl Iterator<Item = &'u Arc<Upstream>>, text: &mut String) {
    let name = "apisix_upstream_status";
    header(
        text,
        name,
        "gauge",
        "1 for a node that health checks take for up, 0 for one that they take for down.",
    );
    let mut left = STATUS_MAX;
    for upstream in upstreams.filter_map(|upstream| health(upstream)) {
        let owner = format!("/apisix{}", upstream.name);
        let nodes = up_by_address(&upstream.nodes);
        for ((ip, port), is_up) in nodes.iter().take(left) {
            sample(text, name, &[("name", &owner), ("ip", ip), ("port", port)], u8::from(*is_up));
        }
        left = left.saturating_sub(nodes.len());
    }
}

/// Whether the node of each address is up. Two nodes have one address where they are written by two names or
/// where the checks have a port of their own; the address is up only if both are, because a scrape with a
/// series twice is refused.
fn up_by_address(nodes: &[NodeStatus]) -> BTreeMap<(&str, u16), bool> {
    let mut up = BTreeMap::new();
    for node in nodes {
        let is_up = matches!(node.status, NodeVerdict::Healthy | NodeVerdict::MostlyHealthy);
        *up.entry((&*node.ip, node.port)).or_insert(true) &= is_up;
    }
    up
}

fn verdict(snapshot: HealthSnapshot) -> NodeVerdict {
    match snapshot.state {
        HealthState::Healthy => NodeVerdict::Healthy,
        HealthState::MostlyHealthy => NodeVerdict::MostlyHealthy,
        HealthState::MostlyUnhealthy => NodeVerdict::MostlyUnhealthy,
        HealthState::Unhealthy => NodeVerdict::Unhealthy,
    }
}

fn counter(snapshot: HealthSnapshot) -> HealthCounter {
    let count = |result| u32::from(snapshot.count(result));
    HealthCounter {
        success: count(CheckResult::Success),
        http_failure: count(CheckResult::HttpFailure),
        tcp_failure: count(CheckResult::TcpFailure),
        timeout_failure: count(CheckResult::Timeout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_shown_without_their_port() {
        for (authority, host) in [("a.test:80", "a.test"), ("a.test", "a.test"), ("[::1]:80", "::1")] {
            assert_eq!(shown_host(authority), host);
        }
    }

    #[test]
    fn address_of_two_nodes_has_the_worse_verdict() {
        let node = |ip: &str, status: NodeVerdict| NodeStatus {
            ip: ip.into(),
            port: 80,
            hostname: None,
            status,
            counter: counter(HealthSnapshot::default()),
            reason: None,
        };
        let nodes = [
            node("10.0.0.2", NodeVerdict::MostlyUnhealthy),
            node("10.0.0.1", NodeVerdict::Healthy),
            node("10.0.0.2", NodeVerdict::Healthy),
        ];
        let expected = BTreeMap::from([(("10.0.0.1", 80), true), (("10.0.0.2", 80), false)]);
        assert_eq!(up_by_address(&nodes), expected);
    }
}
