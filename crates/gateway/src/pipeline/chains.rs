//! The chains of plugins of one exchange: the global one, and the route's, with the consumer's once the
//! consumer is known. It runs none.

use std::sync::Arc;

use crate::runtime::{CompiledRoute, Generation};
use exchange::Exchange;
use exchange::overload::Priority;
use exchange::plugin::PluginPhase;
use exchange::plugin::chain::{Chain, PluginInstance};

/// The part of an exchange's plugins that a chain has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChainScope {
    /// The global rules.
    Global,
    /// The route, with its service, plugin config and consumer.
    Local,
}

impl ChainScope {
    /// In the order in which the chains of a phase run (contract section 2.5).
    pub(super) const IN_ORDER: [ChainScope; 2] = [ChainScope::Global, ChainScope::Local];
}

/// The chains of one exchange.
pub(super) struct Chains<'g> {
    pub(super) global: &'g Chain,
    pub(super) route: Option<&'g Arc<CompiledRoute>>,
    pub(super) merged: Option<Arc<Chain>>,
    /// The response goes to no client, and its plugins do not run.
    is_without_response: bool,
}

impl<'g> Chains<'g> {
    /// The chains of a request to the route in `slot`.
    pub(super) fn new(generation: &'g Generation, slot: Option<u32>) -> Chains<'g> {
        Chains {
            global: &generation.global,
            route: slot.and_then(|slot| generation.routes.get(slot)),
            merged: None,
            is_without_response: false,
        }
    }

    /// The chains of a request that was never matched: none runs.
    pub(super) fn none(generation: &'g Generation) -> Chains<'g> {
        Chains { global: &generation.global, route: None, merged: None, is_without_response: false }
    }

    /// The chains as they were when the exchange was answered.
    pub(super) fn again(
        generation: &'g Generation,
        exchange: &Exchange,
        merged: Option<Arc<Chain>>,
    ) -> Chains<'g> {
        Chains { merged, ..Chains::new(generation, exchange.decision.route) }
    }

    /// The same chains without the phases in which plugins change a response for its client.
    pub(super) fn without_response(self) -> Chains<'g> {
        Chains { is_without_response: true, ..self }
    }

    /// The route of the request.
    pub(super) fn route(&self) -> Option<&'g Arc<CompiledRoute>> {
        self.route
    }

    /// The priority of the route.
    pub(super) fn priority(&self) -> Priority {
        self.route.map_or(Priority::Default, |route| route.priority)
    }

    /// The chain with the consumer's plugins, if there is one.
    pub(super) fn into_merged(self) -> Option<Arc<Chain>> {
        self.merged
    }

    /// The route's chain, with the consumer's plugins where there are any.
    pub(super) fn local(&self) -> Option<&Chain> {
        self.merged.as_deref().or(self.route.map(|route| &*route.plugins))
    }

    /// The chain of `scope`, if there is one.
    pub(super) fn in_scope(&self, scope: ChainScope) -> Option<&Chain> {
        match scope {
            ChainScope::Global => Some(self.global),
            ChainScope::Local => self.local(),
        }
    }

    /// The global chain, then the local one.
    pub(super) fn both(&self) -> impl Iterator<Item = &Chain> {
        std::iter::once(self.global).chain(self.local())
    }

    /// Whether `phases::run_request_phases` has anything to do: a plugin in a request phase, or a refusal.
    pub(super) fn concern_request(&self, generation: &Generation) -> bool {
        generation.global_missing.is_some()
            || self.global.concerns_request()
            || self.route.is_none_or(|route| route.missing.is_some() || route.plugins.concerns_request())
    }

    /// Whether a plugin takes part in `phase`.
    pub(super) fn has(&self, phase: PluginPhase) -> bool {
        const OF_RESPONSE: [PluginPhase; 4] = [
            PluginPhase::Informational,
            PluginPhase::ResponseHead,
            PluginPhase::ResponseBody,
            PluginPhase::Encode,
        ];
        if self.is_without_response && OF_RESPONSE.contains(&phase) {
            return false;
        }
        self.both().any(|chain| chain.has(phase))
    }

    /// Whether a global instance yields to the route's own instance (contract section 2.5, `prefer_route`).
    pub(super) fn gives_way(&self, chain: &Chain, instance: &PluginInstance) -> bool {
        instance.prefer_route
            && std::ptr::eq(chain, self.global)
            && self
                .local()
                .is_some_and(|local| local.instances().iter().any(|other| other.name == instance.name))
    }
}
