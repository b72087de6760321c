//! The node set of a plan: each address of a name that may be connected to is a node. It looks nothing up.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use stdx::published::Published;
use stdx::weight_share::weights_of_addresses;

use super::Name;
use crate::endpoint::{EndpointKey, EndpointTable};
use crate::node_state::NodeStates;
use crate::nodes::{NodePlan, NodeSet, PlannedNode, ResolvedNode};

/// The hosts of a plan that are no addresses.
pub(super) fn names(plan: &NodePlan) -> impl Iterator<Item = &str> {
    plan.nodes.iter().map(|node| &*node.host).filter(|host| host.parse::<IpAddr>().is_err())
}

/// The nodes of a plan with what is known of their names: every address of a name is a node, with its share
/// of the weight.
fn node_set(
    plan: &NodePlan,
    known: &BTreeMap<Box<str>, Name>,
    endpoints: &EndpointTable,
    states: &Arc<NodeStates>,
) -> NodeSet {
    let mut note = plan.note.as_deref().map(str::to_owned);
    let addresses: Vec<Vec<IpAddr>> =
        plan.nodes.iter().map(|planned| addresses_of(plan, planned, known, &mut note)).collect();
    let counts = plan.nodes.iter().zip(&addresses).map(|(planned, found)| (planned.weight, found.len()));
    let weights = weights_of_addresses(&counts.collect::<Vec<_>>(), u32::MAX);
    let mut nodes = Vec::new();
    for ((planned, addresses), weight) in plan.nodes.iter().zip(addresses).zip(weights) {
        for address in addresses {
            let address = SocketAddr::new(address, planned.port);
            nodes.push(ResolvedNode {
                endpoint: endpoints.intern(EndpointKey {
                    address,
                    tls: plan.tls.clone(),
                    protocol: plan.protocol,
                    keep_alive: plan.keep_alive,
                }),
                host: planned.authority.clone(),
                weight,
                priority: planned.priority,
                metadata: planned.metadata.clone(),
                state: states.of(address, &planned.authority),
            });
        }
    }
    let derived = plan.derive.map(|derive| derive(&nodes));
    NodeSet { nodes, derived, note, states: states.clone() }
}

/// The addresses of one node that may be connected to; `note` says why there are none, or fewer.
fn addresses_of(
    plan: &NodePlan,
    planned: &PlannedNode,
    known: &BTreeMap<Box<str>, Name>,
    note: &mut Option<String>,
) -> Vec<IpAddr> {
    let host = &planned.host;
    let mut addresses = match host.parse::<IpAddr>() {
        Ok(address) => vec![address],
        Err(_) => match known.get(host) {
            Some(state) if !state.addresses.is_empty() => state.addresses.clone(),
            state => {
                let reason =
                    state.and_then(|state| state.error.as_deref()).unwrap_or("it was not looked up yet");
                *note = Some(format!("the node {host} has no address: {reason}"));
                return Vec::new();
            }
        },
    };
    if let Some(refuses) = &plan.refuses {
        addresses.retain(|address| match (refuses.0)(*address) {
            None => true,
            Some(fault) => {
                *note = Some(format!("the node {host} is left out at {address}, which is {fault}"));
                false
            }
        });
    }
    addresses
}

/// Has the nodes of `plan` in `cell`. Requests are served from it meanwhile: a new name must not leave them
/// without nodes for as long as its first lookup takes.
pub(super) fn publish_nodes(
    cell: &Published<NodeSet>,
    plan: &NodePlan,
    known: &BTreeMap<Box<str>, Name>,
    endpoints: &EndpointTable,
) {
    let waits = names(plan).any(|host| known.get(host).is_none_or(|name| !name.tried));
    let held = cell.load();
    if !waits || held.nodes.is_empty() {
        publish(cell, &held, node_set(plan, known, endpoints, &held.states), plan.refuses.is_some());
    }
}

/// Publishes `set` unless the cell holds the same nodes already: an equal set must not reset any balancer. A
/// note of a set that `is_guarded` by a rule is logged, because a request tells it only where no node is
/// left.
fn publish(cell: &Published<NodeSet>, held: &NodeSet, set: NodeSet, is_guarded: bool) {
    let same = held.note == set.note
        && held.nodes.len() == set.nodes.len()
        && held.nodes.iter().zip(&set.nodes).all(|(a, b)| {
            a.endpoint.id == b.endpoint.id
                && a.weight == b.weight
                && a.priority == b.priority
                && a.host == b.host
                && a.metadata == b.metadata
        });
    if !same {
        if let Some(note) = set.note.as_deref().filter(|_| is_guarded && held.note != set.note) {
            tracing::warn!(%note, "nodes of a registry cannot be used");
        }
        if !set.nodes.is_empty() {
            set.states.set_in_use();
        }
        cell.publish(Arc::new(set));
    }
}
