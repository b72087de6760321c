//! The service and the upstream that a route leads to, as far as objects say it: plugins that choose an
//! upstream by the request are not asked.

use model::resource::Resource;
use model::{ObjectKey, ObjectKind, Snapshot, SnapshotObject};

/// The upstream of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RouteTarget {
    /// An object of its own.
    Upstream(ObjectKey),
    /// Written inside the object of that key.
    Inside(ObjectKey),
}

/// The service of a route.
pub(crate) fn service_of(object: &SnapshotObject) -> Option<ObjectKey> {
    let id = match &object.resource {
        Resource::Route(route) => route.service_id.as_ref(),
        Resource::StreamRoute(route) => route.service_id.as_ref(),
        _ => None,
    };
    id.map(|id| ObjectKey::of(ObjectKind::Service, id))
}

/// The upstream of a route or service: its own one, otherwise that of its service.
pub(crate) fn find_route_target(snapshot: &Snapshot, object: &SnapshotObject) -> Option<RouteTarget> {
    let own = match &object.resource {
        Resource::Route(route) => route.upstream_id.as_ref(),
        Resource::Service(service) => service.upstream_id.as_ref(),
        Resource::StreamRoute(route) => route.upstream_id.as_ref(),
        _ => None,
    };
    match own {
        Some(id) => Some(RouteTarget::Upstream(ObjectKey::of(ObjectKind::Upstream, id))),
        None if object.resource.upstream().is_some() => Some(RouteTarget::Inside(object.key().clone())),
        // A service refers to no other service, so that this ends.
        None => find_route_target(snapshot, snapshot.get(&service_of(object)?)?),
    }
}
