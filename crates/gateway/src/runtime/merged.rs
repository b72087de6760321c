//! Chains merged for a route and a consumer, made on first use and kept within a limit. They are dropped with
//! the generation that they were made for.

use std::sync::Arc;

use stdx::hash::FastMap;

use super::ConsumerPlugins;
use exchange::exchange::Consumer;
use exchange::plugin::chain::{Chain, PluginInstance};

/// Merged chains that a worker keeps. At the limit all are dropped and made again on use, so that many
/// consumers on many routes cannot take unlimited memory.
const KEPT_MAX: usize = 4_096;

/// The merged chains of one worker.
#[derive(Default)]
pub(crate) struct MergedChains {
    kept: FastMap<(usize, usize), (Arc<Consumer>, Arc<Chain>)>,
}

impl MergedChains {
    /// Drops all of them, because the generation has changed.
    pub(crate) fn clear(&mut self) {
        self.kept.clear();
    }

    /// The route's chain merged with the consumer's plugins: a plugin of the consumer replaces the route's
    /// whole (contract 2.5).
    pub(crate) fn of(
        &mut self,
        route: Option<&Arc<Chain>>,
        consumer: &Arc<Consumer>,
        added: &ConsumerPlugins,
    ) -> Arc<Chain> {
        // The addresses are unique keys, because the generation keeps the route's chain alive and the entry
        // the consumer.
        let key = (route.map_or(0, |chain| Arc::as_ptr(chain) as usize), Arc::as_ptr(consumer) as usize);
        if let Some((_, chain)) = self.kept.get(&key) {
            return chain.clone();
        }
        let own = route.map_or(&[][..], |chain| chain.instances());
        let stays = |one: &&Arc<PluginInstance>| {
            added.plugins.iter().all(|other| other.name != one.name) && !added.disabled.contains(&one.name)
        };
        let all = own.iter().filter(stays).chain(added.plugins.iter()).cloned().collect();
        let chain = Arc::new(Chain::new(all));
        if self.kept.len() >= KEPT_MAX {
            self.kept.clear();
        }
        self.kept.insert(key, (consumer.clone(), chain.clone()));
        chain
    }
}
