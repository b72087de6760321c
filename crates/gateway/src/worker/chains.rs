//! Chains merged for a route and a consumer, made on first use and kept within a bound. They are forgotten with the
//! generation they were made for.

use std::sync::Arc;

use stdx::hash::FastMap;

use super::Worker;
use crate::plugin::chain::{Chain, Instance};
use crate::runtime::Consumer;

/// Merged chains a worker keeps; beyond it all are forgotten and made again on use, which bounds the memory that many
/// consumers on many routes can hold.
const KEPT_MAX: usize = 4_096;

/// See the module.
#[derive(Default)]
pub(super) struct Merged {
    kept: FastMap<(usize, usize), (Arc<Consumer>, Arc<Chain>)>,
}

impl Merged {
    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }
}

impl Worker {
    /// The route's chain with the consumer's plugins over it: a whole plugin of the consumer wins (contract 2.5).
    pub(crate) fn merged_chain(&self, route: Option<&Arc<Chain>>, consumer: &Arc<Consumer>) -> Arc<Chain> {
        let mut merged = self.chains.borrow_mut();
        // The addresses name them: the generation keeps the route's chain alive, the entry keeps the consumer.
        let key = (route.map_or(0, |chain| Arc::as_ptr(chain) as usize), Arc::as_ptr(consumer) as usize);
        if let Some((_, chain)) = merged.kept.get(&key) {
            return chain.clone();
        }
        let own = route.map_or(&[][..], |chain| chain.instances());
        let stays = |one: &&Arc<Instance>| {
            consumer.plugins.iter().all(|other| other.name != one.name)
                && !consumer.disabled.contains(&one.name)
        };
        let all = own.iter().filter(stays).chain(consumer.plugins.iter()).cloned().collect();
        let chain = Arc::new(Chain::new(all));
        if merged.kept.len() >= KEPT_MAX {
            merged.kept.clear();
        }
        merged.kept.insert(key, (consumer.clone(), chain.clone()));
        chain
    }
}
