//! Data and queues that the instances of one plugin share over all workers. They live as long as the process
//! knows the plugin's name, so that a new version of the code finds them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use stdx::hash::FastMap;
use tokio::sync::Notify;

use crate::abi::AbiStatus;
use crate::limits::{QUEUE_BYTES_MAX, QUEUE_ITEMS_MAX, QUEUES_MAX, SHARED_BYTES_MAX, SHARED_KEYS_MAX};
use crate::metrics::GuestMetrics;

/// The data, queues and metrics of all plugins of the process.
#[derive(Default)]
pub(crate) struct SharedStore {
    plugins: Mutex<BTreeMap<&'static str, Arc<SharedData>>>,
    queues: Mutex<Vec<Arc<SharedQueue>>>,
    /// The metrics that guests define.
    pub metrics: Arc<GuestMetrics>,
}

/// The data of one plugin.
#[derive(Default)]
pub(crate) struct SharedData {
    values: Mutex<SharedValues>,
}

/// A value and the number of its last change.
type Versioned = (Arc<[u8]>, u32);

#[derive(Default)]
struct SharedValues {
    by_key: FastMap<Box<[u8]>, Versioned>,
    bytes: usize,
    last_cas: u32,
}

/// A queue of one plugin.
pub(crate) struct SharedQueue {
    plugin: Box<str>,
    name: Box<[u8]>,
    items: Mutex<Items>,
    /// Told of each new item; one worker of those that registered the queue takes it.
    pub ready: Notify,
}

/// The items of a queue, oldest first, and how many bytes they have together.
type Items = (VecDeque<Box<[u8]>>, usize);

impl SharedStore {
    /// The data of `plugin`.
    pub(crate) fn data(&self, plugin: &'static str) -> Arc<SharedData> {
        self.plugins.lock().entry(plugin).or_default().clone()
    }

    /// The number of the queue `name` of `plugin`, made if there is none.
    pub(crate) fn register_queue(&self, plugin: &str, name: &[u8]) -> Result<u32, AbiStatus> {
        let mut queues = self.queues.lock();
        if let Some(found) = position(&queues, plugin, name) {
            return Ok(found);
        }
        if queues.iter().filter(|queue| &*queue.plugin == plugin).count() >= QUEUES_MAX {
            return Err(AbiStatus::InternalFailure);
        }
        queues.push(Arc::new(SharedQueue {
            plugin: plugin.into(),
            name: name.into(),
            items: Mutex::default(),
            ready: Notify::new(),
        }));
        Ok(queues.len() as u32)
    }

    /// The number of an existing queue.
    pub(crate) fn resolve_queue(&self, plugin: &str, name: &[u8]) -> Result<u32, AbiStatus> {
        position(&self.queues.lock(), plugin, name).ok_or(AbiStatus::NotFound)
    }

    /// The queue with this number.
    pub(crate) fn queue(&self, number: u32) -> Result<Arc<SharedQueue>, AbiStatus> {
        let index = number.checked_sub(1).ok_or(AbiStatus::NotFound)?;
        self.queues.lock().get(index as usize).cloned().ok_or(AbiStatus::NotFound)
    }
}

/// Numbers of queues begin at 1, because some guests take 0 for none.
fn position(queues: &[Arc<SharedQueue>], plugin: &str, name: &[u8]) -> Option<u32> {
    let found = queues.iter().position(|queue| &*queue.plugin == plugin && &*queue.name == name)?;
    Some(found as u32 + 1)
}

impl SharedData {
    /// The value of `key` with the number of its version.
    pub(crate) fn get(&self, key: &[u8]) -> Option<(Arc<[u8]>, u32)> {
        self.values.lock().by_key.get(key).cloned()
    }

    /// Sets the value of `key`; where `cas` is not 0, only if the present value has this version.
    pub(crate) fn set(&self, key: &[u8], value: &[u8], cas: u32) -> Result<(), AbiStatus> {
        let mut values = self.values.lock();
        let present = values.by_key.get(key).map(|(value, version)| (value.len(), *version));
        if cas != 0 && present.is_none_or(|(_, version)| version != cas) {
            return Err(AbiStatus::CasMismatch);
        }
        let freed = present.map_or(0, |(length, _)| key.len() + length);
        let bytes = values.bytes - freed + key.len() + value.len();
        if bytes > SHARED_BYTES_MAX || (present.is_none() && values.by_key.len() >= SHARED_KEYS_MAX) {
            return Err(AbiStatus::InternalFailure);
        }
        values.bytes = bytes;
        // 0 means "any version" in a call, so that no value has it.
        values.last_cas = values.last_cas.checked_add(1).unwrap_or(1);
        let version = values.last_cas;
        values.by_key.insert(key.into(), (value.into(), version));
        Ok(())
    }
}

impl SharedQueue {
    /// Adds an item and tells one of the workers that wait.
    pub(crate) fn push(&self, item: &[u8]) -> Result<(), AbiStatus> {
        let mut items = self.items.lock();
        let bytes = items.1 + item.len();
        if items.0.len() >= QUEUE_ITEMS_MAX || bytes > QUEUE_BYTES_MAX {
            return Err(AbiStatus::InternalFailure);
        }
        items.1 = bytes;
        items.0.push_back(item.into());
        drop(items);
        self.ready.notify_one();
        Ok(())
    }

    /// Takes the oldest item.
    pub(crate) fn pop(&self) -> Result<Box<[u8]>, AbiStatus> {
        let mut items = self.items.lock();
        let item = items.0.pop_front().ok_or(AbiStatus::Empty)?;
        items.1 -= item.len();
        Ok(item)
    }

    /// How many items there are.
    pub(crate) fn len(&self) -> usize {
        self.items.lock().0.len()
    }

    /// Whether there is no item.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_version_does_not_overwrite() {
        let data = SharedData::default();
        assert_eq!(data.get(b"k"), None);
        assert_eq!(data.set(b"k", b"1", 9), Err(AbiStatus::CasMismatch), "there is none to compare with");
        data.set(b"k", b"1", 0).unwrap();
        let (_, version) = data.get(b"k").unwrap();
        data.set(b"k", b"2", version).unwrap();
        assert_eq!(data.set(b"k", b"3", version), Err(AbiStatus::CasMismatch));
        assert_eq!(&*data.get(b"k").unwrap().0, b"2");
    }

    #[test]
    fn shared_data_is_bounded() {
        let data = SharedData::default();
        let half = vec![0; SHARED_BYTES_MAX / 2];
        data.set(b"a", &half, 0).unwrap();
        assert_eq!(data.set(b"b", &half, 0), Err(AbiStatus::InternalFailure));
        data.set(b"a", b"", 0).unwrap();
        data.set(b"b", &half, 0).unwrap();
        let keys = SharedData::default();
        for key in 0..SHARED_KEYS_MAX {
            keys.set(&key.to_le_bytes(), b"", 0).unwrap();
        }
        assert_eq!(keys.set(b"one more", b"", 0), Err(AbiStatus::InternalFailure));
        keys.set(&0_usize.to_le_bytes(), b"x", 0).unwrap();
    }

    #[test]
    fn queues_belong_to_their_plugin() {
        let shared = SharedStore::default();
        let first = shared.register_queue("a", b"q").unwrap();
        assert_eq!(shared.register_queue("a", b"q"), Ok(first));
        assert_ne!(shared.register_queue("b", b"q"), Ok(first));
        assert_eq!(
            (shared.resolve_queue("a", b"q"), shared.resolve_queue("c", b"q")),
            (Ok(first), Err(AbiStatus::NotFound))
        );
        let queue = shared.queue(first).unwrap();
        queue.push(b"1").unwrap();
        queue.push(b"2").unwrap();
        assert_eq!(
            (&*queue.pop().unwrap(), &*queue.pop().unwrap(), queue.pop()),
            (&b"1"[..], &b"2"[..], Err(AbiStatus::Empty))
        );
        for _ in 0..QUEUE_ITEMS_MAX {
            queue.push(b"").unwrap();
        }
        assert_eq!(queue.push(b""), Err(AbiStatus::InternalFailure));
        assert!(shared.queue(0).is_err() && shared.queue(99).is_err());
    }
}
