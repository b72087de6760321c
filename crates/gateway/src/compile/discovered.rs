//! Upstreams with nodes from a registry: each change of the service becomes a new plan of the same cell,
//! without a compilation. It knows no registry.

use std::sync::{Arc, Weak};

use model::discovery::{ServiceDirectory, ServiceInstance, ServiceKey, ServiceNodes};
use model::resource::UpstreamDiscovery;
use net::nodes::{NodePlan, NodeSet, PlannedNode};
use parking_lot::Mutex;
use stdx::published::Published;

use super::SnapshotCompiler;
use crate::upstream::Discovered;
use exchange::plugin::services::Services;

impl SnapshotCompiler {
    /// Follows services of registries through `directory`; without it, upstreams with a registry have no
    /// nodes.
    #[must_use]
    pub fn with_directory(mut self, directory: Arc<dyn ServiceDirectory>) -> SnapshotCompiler {
        self.directory = Some(directory);
        self
    }

    /// Fills `cell` with the nodes of a plan, and keeps it filled where a registry names them. `before`
    /// filled the same cell until now.
    pub(super) fn fill(
        &self,
        discovery: Option<&UpstreamDiscovery>,
        cell: &Arc<Published<NodeSet>>,
        plan: NodePlan,
        default_port: u16,
        before: Option<&Discovered>,
    ) -> Option<Discovered> {
        let round = before.map_or_else(Arc::default, |before| Arc::clone(&before.round));
        let number = {
            // With the lock: when it is free again, a change that is being taken up for the plan before has
            // ended.
            let mut current = round.lock();
            *current += 1;
            *current
        };
        let Some((discovery, directory)) = discovery.zip(self.directory.as_ref()) else {
            self.services.resolver().follow(cell, plan);
            return before.is_some().then(|| Discovered { round, _following: Box::new(()) });
        };
        let key =
            ServiceKey::of_upstream(discovery, directory.has_ports_by_scheme(&discovery.discovery_type));
        // A registry is not the configuration: its nodes are judged by their addresses, those of names too.
        let plan = NodePlan { refuses: Some(self.services.address_rule()), ..plan };
        let follower = ServiceFollower {
            cell: Arc::downgrade(cell),
            services: Arc::clone(&self.services),
            plan,
            default_port,
            round: Arc::clone(&round),
            number,
        };
        let following = directory.follow(&key, Box::new(move |nodes| follower.take(nodes)));
        Some(Discovered { round, _following: following })
    }
}

/// Takes up changes of a service for one upstream.
struct ServiceFollower {
    cell: Weak<Published<NodeSet>>,
    services: Arc<Services>,
    /// The plan without nodes.
    plan: NodePlan,
    default_port: u16,
    round: Arc<Mutex<u64>>,
    /// The round in which this follower fills the cell.
    number: u64,
}

impl ServiceFollower {
    fn take(&self, nodes: &ServiceNodes) {
        let round = self.round.lock();
        let Some(cell) = self.cell.upgrade() else { return };
        if *round != self.number {
            return;
        }
        // The nodes of the plan before serve until the registry was asked.
        if nodes.is_pending && !cell.load().nodes.is_empty() {
            return;
        }
        let planned = nodes.instances.iter().map(|instance| planned(instance, self.default_port));
        let note = nodes.note.clone();
        let plan = NodePlan { nodes: planned.collect(), note, ..self.plan.clone() };
        self.services.resolver().follow(&cell, plan);
    }
}

fn planned(instance: &ServiceInstance, default_port: u16) -> PlannedNode {
    let port = if instance.port == 0 { default_port } else { instance.port };
    let host = &instance.host;
    let authority = match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    };
    PlannedNode {
        host: host.clone(),
        port,
        authority: authority.into(),
        weight: instance.weight,
        priority: i64::from(instance.priority),
        metadata: (!instance.metadata.is_empty()).then(|| Arc::new(instance.metadata.clone())),
    }
}
