//! Sharing of compiled objects. A plugin instance belongs to the object that it is written in, so that all
//! routes of a service share one instance and it survives changes of other objects; equal chains are one
//! chain. The table holds weak references only: an instance that no generation uses is dropped.

use std::sync::{Arc, Weak};

use model::snapshot::{Snapshot, SnapshotObject};
use model::{ObjectKey, ObjectKind};
use stdx::hash::FastMap;

use exchange::plugin::chain::{Chain, PluginInstance};

/// The table is not swept for dead entries below this number.
const SWEEP_MIN: usize = 256;

/// The table of shared instances and chains.
#[derive(Default)]
pub(super) struct Sharing {
    instances: FastMap<(ObjectKey, &'static str), SharedInstance>,
    /// Chains by the numbers of their instances, in their order.
    chains: FastMap<Box<[u32]>, Weak<Chain>>,
    instances_after_sweep: usize,
    chains_after_sweep: usize,
}

/// An instance and the objects that it was made of.
struct SharedInstance {
    instance: Weak<PluginInstance>,
    owner: Weak<SnapshotObject>,
    metadata: Option<Weak<SnapshotObject>>,
    /// The version of the values behind references in both.
    version: u64,
}

impl Sharing {
    /// The instance of plugin `name` written in `owner`, if it was made of what the snapshot has now and is
    /// in use.
    pub(super) fn instance(
        &self,
        snapshot: &Snapshot,
        owner: &ObjectKey,
        name: &'static str,
        version: u64,
    ) -> Option<Arc<PluginInstance>> {
        let shared = self.instances.get(&(owner.clone(), name))?;
        let same_metadata = match (&shared.metadata, metadata_of(snapshot, name)) {
            (None, None) => true,
            (Some(held), Some(now)) => is(held, now),
            _ => false,
        };
        if same_metadata && shared.version == version && is(&shared.owner, snapshot.get(owner)?) {
            shared.instance.upgrade()
        } else {
            None
        }
    }

    /// The instance of plugin `name` written in `owner`, if the object is as it was when the instance was
    /// made, whatever else it was made of.
    pub(super) fn former(
        &self,
        snapshot: &Snapshot,
        owner: &ObjectKey,
        name: &'static str,
    ) -> Option<Arc<PluginInstance>> {
        let shared = self.instances.get(&(owner.clone(), name))?;
        if is(&shared.owner, snapshot.get(owner)?) { shared.instance.upgrade() } else { None }
    }

    /// Remembers an instance for later calls.
    pub(super) fn keep_instance(
        &mut self,
        snapshot: &Snapshot,
        owner: &ObjectKey,
        instance: &Arc<PluginInstance>,
        version: u64,
    ) {
        let Some(object) = snapshot.get(owner) else { return };
        if self.instances.len() >= SWEEP_MIN.max(2 * self.instances_after_sweep) {
            self.instances.retain(|_, shared| shared.instance.strong_count() > 0);
            self.instances_after_sweep = self.instances.len();
        }
        let shared = SharedInstance {
            instance: Arc::downgrade(instance),
            owner: Arc::downgrade(object),
            metadata: metadata_of(snapshot, instance.name).map(Arc::downgrade),
            version,
        };
        self.instances.insert((owner.clone(), instance.name), shared);
    }

    /// The chain of these instances.
    pub(super) fn chain(&mut self, instances: Vec<Arc<PluginInstance>>) -> Arc<Chain> {
        let numbers: Box<[u32]> = instances.iter().map(|instance| instance.number).collect();
        if let Some(chain) = self.chains.get(&numbers).and_then(Weak::upgrade) {
            return chain;
        }
        if self.chains.len() >= SWEEP_MIN.max(2 * self.chains_after_sweep) {
            self.chains.retain(|_, chain| chain.strong_count() > 0);
            self.chains_after_sweep = self.chains.len();
        }
        let chain = Arc::new(Chain::new(instances));
        self.chains.insert(numbers, Arc::downgrade(&chain));
        chain
    }
}

fn metadata_of<'s>(snapshot: &'s Snapshot, plugin: &str) -> Option<&'s Arc<SnapshotObject>> {
    snapshot.get(&ObjectKey::new(ObjectKind::PluginMetadata, plugin).ok()?)
}

/// Whether `held` is the object `now`. The weak reference keeps the address from being reused.
fn is(held: &Weak<SnapshotObject>, now: &Arc<SnapshotObject>) -> bool {
    std::ptr::eq(held.as_ptr(), Arc::as_ptr(now))
}

#[cfg(test)]
mod tests;
