//! Copies of the last good answers: in memory for services that are not followed at the moment, and on disk,
//! a file for each registry, written as a whole and renamed into place. They serve while a registry cannot be
//! asked after a restart. It does not know the registries.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::discovery::{ServiceInstance, ServiceKey};
use model::outbound::OutboundPolicy;
use serde::{Deserialize, Serialize};

use super::auto_routes::Names;
use super::limits::{RegistryLimits, usable};
use super::table::{DiscoveryShared, RegistryState, ServiceOutcome};

/// The content of a file.
#[derive(Default, Serialize, Deserialize)]
struct RegistryCopy {
    /// Seconds since the Unix epoch.
    last_update: u64,
    services: Vec<CopiedService>,
    /// The names of all services, where routes are made of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    listed: Option<Names>,
}

#[derive(Serialize, Deserialize)]
struct CopiedService {
    service: Box<str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    namespace: Box<str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    group: Box<str>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    args: BTreeMap<Box<str>, Box<str>>,
    nodes: Vec<CopiedInstance>,
}

#[derive(Serialize, Deserialize)]
struct CopiedInstance {
    host: Box<str>,
    port: u16,
    weight: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    priority: i32,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<Box<str>, Box<str>>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(priority: &i32) -> bool {
    *priority == 0
}

/// Last good answers of an earlier run, or of services that were followed before.
#[derive(Default)]
pub(super) struct ServiceCopies {
    services: BTreeMap<ServiceKey, Arc<[ServiceInstance]>>,
    /// The instances of all services.
    count: usize,
}

impl ServiceCopies {
    pub(super) fn get(&self, key: &ServiceKey) -> Option<&Arc<[ServiceInstance]>> {
        self.services.get(key)
    }

    /// Keeps the instances of a service. Beyond the limits of a registry the first services make room.
    pub(super) fn insert(
        &mut self,
        key: ServiceKey,
        instances: Arc<[ServiceInstance]>,
        limits: &RegistryLimits,
    ) {
        self.remove(&key);
        while self.services.len() >= limits.services
            || self.count + instances.len() > limits.registry_instances
        {
            let Some((_, dropped)) = self.services.pop_first() else { return };
            self.count -= dropped.len();
        }
        self.count += instances.len();
        self.services.insert(key, instances);
    }

    pub(super) fn remove(&mut self, key: &ServiceKey) {
        if let Some(removed) = self.services.remove(key) {
            self.count -= removed.len();
        }
    }

    pub(super) fn clear(&mut self) {
        *self = ServiceCopies::default();
    }
}

impl DiscoveryShared {
    /// Reads the copies of all registries. A file that cannot be read is reported and skipped.
    pub(super) fn load_copies(&self) {
        let mut table = self.table.lock();
        for (name, state) in table.iter_mut() {
            let Some(path) = self.path(name) else { return };
            match load(&path, name, &self.policy) {
                Ok(Some((copies, listed))) => {
                    state.copies = copies;
                    if let (Some(listed), Some(routes)) = (listed, &self.auto_routes) {
                        routes.listed(name, listed);
                    }
                }
                Ok(None) => {}
                Err(reason) => {
                    tracing::warn!(path = %path.display(), %reason, "the last answers of a registry cannot be read");
                }
            }
        }
    }

    /// Writes the copies that have changed; it waits for another call that writes. A file that cannot be
    /// written is reported, and written with the next change or at the next stop.
    pub(super) fn save_copies(&self) {
        // Over the whole function, so that a stop does not end before a copy that another thread writes is on
        // disk.
        let _saving = self.saving.lock();
        let changed: Vec<(&'static str, RegistryCopy)> = {
            let mut table = self.table.lock();
            let copy = |(name, state): (&&'static str, &mut RegistryState)| {
                std::mem::take(&mut state.is_unsaved).then(|| (*name, self.copy_of(name, state)))
            };
            table.iter_mut().filter_map(copy).collect()
        };
        for (name, copy) in changed {
            let Some(path) = self.path(name) else { return };
            if let Err(reason) = save(&path, &copy) {
                tracing::warn!(path = %path.display(), %reason, "the last answers of a registry cannot be saved");
                if let Some(state) = self.table.lock().get_mut(name) {
                    state.is_unsaved = true;
                }
            }
        }
    }

    /// The text of a registry's file.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub(super) fn read_copy(&self, registry: &str) -> Result<String, String> {
        let path = self.path(registry).ok_or("answers of registries are not kept on disk")?;
        outbound::regular_file::read_to_string(&path, FILE_MAX_BYTES).map_err(|error| error.to_string())
    }

    fn copy_of(&self, registry: &str, state: &RegistryState) -> RegistryCopy {
        let listed = self.auto_routes.as_ref().and_then(|routes| routes.names(registry));
        RegistryCopy { listed: listed.map(|names| (*names).clone()), ..copy_of(state) }
    }

    fn path(&self, registry: &str) -> Option<PathBuf> {
        Some(self.directory.as_ref()?.join(format!("{registry}.json")))
    }
}

/// The last good answers of a file, and the names of all services.
type LoadedCopies = (ServiceCopies, Option<Names>);

fn load(path: &Path, registry: &str, policy: &OutboundPolicy) -> Result<Option<LoadedCopies>, String> {
    let text = match outbound::regular_file::read_to_string(path, FILE_MAX_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let copy: RegistryCopy = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let limits = RegistryLimits::default();
    let service = |copied: CopiedService| {
        let CopiedService { service, namespace, group, args, nodes } = copied;
        let key = ServiceKey { registry: registry.into(), service, namespace, group, args };
        let instances = nodes.into_iter().map(|node| ServiceInstance {
            host: node.host,
            port: node.port,
            weight: node.weight,
            priority: node.priority,
            metadata: node.metadata,
        });
        let (instances, _) = usable(instances.collect(), &limits, policy).ok()?;
        Some((key, Arc::from(instances)))
    };
    let mut copies = ServiceCopies::default();
    for (key, instances) in copy.services.into_iter().filter_map(service) {
        copies.insert(key, instances, &limits);
    }
    Ok(Some((copies, copy.listed)))
}

fn copy_of(state: &RegistryState) -> RegistryCopy {
    let now = stdx::clock::unix_time();
    let answered = state.services.iter().filter(|(_, service)| {
        matches!(service.outcome, ServiceOutcome::Known | ServiceOutcome::Copied)
            && !service.instances.is_empty()
    });
    let service = |key: &ServiceKey, instances: &[ServiceInstance]| CopiedService {
        service: key.service.clone(),
        namespace: key.namespace.clone(),
        group: key.group.clone(),
        args: key.args.clone(),
        nodes: instances.iter().map(copied).collect(),
    };
    let services = answered.map(|(key, answered)| service(key, &answered.instances)).collect();
    RegistryCopy { last_update: now.as_secs(), services, listed: None }
}

fn copied(instance: &ServiceInstance) -> CopiedInstance {
    CopiedInstance {
        host: instance.host.clone(),
        port: instance.port,
        weight: instance.weight,
        priority: instance.priority,
        metadata: instance.metadata.clone(),
    }
}

fn save(path: &Path, copy: &RegistryCopy) -> io::Result<()> {
    let text = serde_json::to_vec(copy)?;
    if text.len() as u64 > FILE_MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the answers are too large to be kept"));
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // The name has the process id, because instances that share the folder write at the same time.
    let unfinished = path.with_extension(format!("json.{}", std::process::id()));
    let mut open = OpenOptions::new();
    let mut file = open.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    file.write_all(&text)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    File::open(folder)?.sync_all()
}

/// Bytes of a file: twice the size of 100,000 instances with a few entries of metadata each.
const FILE_MAX_BYTES: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    use serde_json::Value;

    use super::*;
    use crate::Services;

    fn instances(count: u16) -> Arc<[ServiceInstance]> {
        let one = |port| ServiceInstance { host: "h".into(), port, weight: 1, ..ServiceInstance::default() };
        (1..=count).map(one).collect()
    }

    /// A table that keeps its copies in this folder, with one answer that is not saved yet.
    fn answered(folder: PathBuf) -> Arc<DiscoveryShared> {
        let blocks = [("file", Value::Null)].into_iter();
        let shared = Arc::new(DiscoveryShared::new(blocks, Some(folder), OutboundPolicy::default()));
        let key = ServiceKey::new("file", "web");
        shared.follow(&key, Box::new(|_| {}));
        Services::new(Arc::clone(&shared), "file").answer(&key, instances(1).to_vec());
        shared
    }

    #[test]
    fn failed_write_is_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let copies = folder.path().join("copies");
        fs::write(&copies, "a file in the place of the folder").unwrap();
        let shared = answered(copies.clone());
        shared.save_copies();
        assert!(shared.read_copy("file").is_err());
        fs::remove_file(&copies).unwrap();
        shared.save_copies();
        assert!(shared.read_copy("file").unwrap().contains("web"));
        let names = fs::read_dir(&copies).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["file.json"], "no unfinished file is left");
    }

    #[test]
    fn save_waits_for_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let shared = answered(folder.path().to_owned());
        let other = shared.saving.lock();
        let (sender, saved) = channel();
        let saving = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            saving.save_copies();
            sender.send(()).unwrap();
        });
        // A save that does not wait ends within a few milliseconds.
        assert_eq!(saved.recv_timeout(Duration::from_millis(200)), Err(RecvTimeoutError::Timeout));
        drop(other);
        thread.join().unwrap();
        assert!(shared.read_copy("file").unwrap().contains("web"));
    }

    #[test]
    fn copies_in_memory_are_bounded() {
        let limits = RegistryLimits { services: 3, registry_instances: 10, ..RegistryLimits::default() };
        let mut copies = ServiceCopies::default();
        let key = |name: &str| ServiceKey::new("file", name);
        for name in ["a", "b", "c", "d"] {
            copies.insert(key(name), instances(1), &limits);
        }
        assert!(copies.get(&key("a")).is_none());
        copies.insert(key("d"), instances(9), &limits);
        assert_eq!((copies.services.len(), copies.count), (2, 10));
        copies.insert(key("e"), instances(11), &limits);
        assert_eq!((copies.services.len(), copies.count), (0, 0), "too many for one registry");
        copies.insert(key("f"), instances(2), &limits);
        copies.remove(&key("f"));
        assert_eq!(copies.count, 0);
    }
}
