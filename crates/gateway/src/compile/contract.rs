//! A contract: each of its routes is compiled like one that a user wrote, under the contract's plugins.

use std::sync::Arc;

use model::ObjectKey;
use model::resource::{Contract, Resource};
use model::snapshot::{Snapshot, SnapshotObject};

use super::SnapshotCompiler;
use super::route::RouteParent;

impl SnapshotCompiler {
    /// Compiles the routes of the contract under `key` as they are now, or takes them out if it is gone.
    pub(super) fn compile_contract(&mut self, snapshot: &Snapshot, key: &ObjectKey) {
        for id in self.contract_routes.remove(&key.id).unwrap_or_default() {
            self.remove_route(&id);
        }
        let (object, closed) = match (snapshot.get(key), snapshot.closed(key)) {
            (Some(object), _) => (object, None),
            (None, Some((object, refusal))) => (object, Some(refusal.to_string())),
            (None, None) => return,
        };
        let Resource::Contract(contract) = &object.resource else { return };
        if !contract.status {
            return;
        }
        let mut ids: Vec<Arc<str>> = Vec::with_capacity(contract.routes.routes.len());
        for route in &contract.routes.routes {
            let derived = object.derived(route.key.clone(), Resource::Route(route.route.clone()));
            let parent = parent(contract, object);
            self.compile_route_of(snapshot, &derived, &route.route, closed.as_deref(), Some(parent));
            ids.push(Arc::clone(&route.key.id));
        }
        self.contract_routes.insert(Arc::clone(&key.id), ids);
    }
}

fn parent<'o>(contract: &'o Contract, object: &'o SnapshotObject) -> RouteParent<'o> {
    RouteParent {
        plugins: &contract.routes.shared,
        key: object.key(),
        has_upstream: contract.upstream_id.is_none() && contract.upstream.is_some(),
    }
}
