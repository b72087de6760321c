//! The places that an exchange holds at the limits of its route, its consumer and its upstream, and for a
//! tunnel at the node. They are given back when they are dropped.

use crate::upstream::protection::Protection;
use crate::upstream::protection::hold::{NodeHold, UpstreamPlace};
use exchange::overload::gate::GateEntry;

/// See the module.
#[derive(Default)]
pub(crate) struct HeldPlaces {
    pub(super) upstream: Option<UpstreamPlace>,
    pub(super) route: Option<GateEntry>,
    pub(super) consumer: Option<GateEntry>,
}

/// The places that a tunnel holds until it ends.
pub(crate) struct TunnelPlaces {
    _exchange: HeldPlaces,
    _node: Option<NodeHold>,
}

impl HeldPlaces {
    /// With the place at a `node`; none if there is no place at all.
    pub(super) fn with_node(self, node: Option<NodeHold>) -> Option<Box<TunnelPlaces>> {
        let HeldPlaces { upstream, route, consumer } = &self;
        let is_any = upstream.is_some() || route.is_some() || consumer.is_some() || node.is_some();
        is_any.then(|| Box::new(TunnelPlaces { _exchange: self, _node: node }))
    }

    /// Whether there is a place at the upstream with this protection.
    pub(super) fn is_of(&self, protection: &Protection) -> bool {
        self.upstream.as_ref().is_some_and(|place| place.is_of(protection))
    }
}
