//! Copies of the last good answers on disk, a file for each registry, written as a whole and renamed into place. They serve
//! while a registry cannot be asked after a restart. It does not know the registries.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use model::discovery::{Instance, ServiceKey};
use model::outbound::OutboundPolicy;
use serde::{Deserialize, Serialize};

use super::limits::{Limits, usable};
use super::table::{Outcome, RegistryState, Shared};

/// The content of a file.
#[derive(Default, Serialize, Deserialize)]
struct Copy {
    /// Seconds since the Unix epoch.
    last_update: u64,
    services: Vec<CopiedService>,
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

/// Instances of an earlier run.
type Copies = BTreeMap<ServiceKey, Arc<[Instance]>>;

impl Shared {
    /// Reads the copies of all registries. A file that cannot be read is reported and skipped.
    pub(super) fn load_copies(&self) {
        let mut table = self.table.lock();
        for (name, state) in table.iter_mut() {
            let Some(path) = self.path(name) else { return };
            match load(&path, name, &self.policy) {
                Ok(Some(copies)) => state.copies = copies,
                Ok(None) => {}
                Err(reason) => {
                    tracing::warn!(path = %path.display(), %reason, "the last answers of a registry cannot be read");
                }
            }
        }
    }

    /// Writes the copies that have changed. A file that cannot be written is reported.
    pub(super) fn save_copies(&self) {
        let changed: Vec<(&'static str, Copy)> = {
            let mut table = self.table.lock();
            let copy = |(name, state): (&&'static str, &mut RegistryState)| {
                std::mem::take(&mut state.is_unsaved).then(|| (*name, copy_of(state)))
            };
            table.iter_mut().filter_map(copy).collect()
        };
        for (name, copy) in changed {
            let Some(path) = self.path(name) else { return };
            if let Err(reason) = save(&path, &copy) {
                tracing::warn!(path = %path.display(), %reason, "the last answers of a registry cannot be saved");
            }
        }
    }

    /// The text of a registry's file.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub(super) fn read_copy(&self, registry: &str) -> Result<String, String> {
        let path = self.path(registry).ok_or("answers of registries are not kept on disk")?;
        crate::regular_file::read_to_string(&path, FILE_MAX_BYTES).map_err(|error| error.to_string())
    }

    fn path(&self, registry: &str) -> Option<PathBuf> {
        Some(self.directory.as_ref()?.join(format!("{registry}.json")))
    }
}

fn load(path: &Path, registry: &str, policy: &OutboundPolicy) -> Result<Option<Copies>, String> {
    let text = match crate::regular_file::read_to_string(path, FILE_MAX_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let copy: Copy = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let limits = Limits::default();
    let service = |copied: CopiedService| {
        let CopiedService { service, namespace, group, args, nodes } = copied;
        let key = ServiceKey { registry: registry.into(), service, namespace, group, args };
        let instances = nodes.into_iter().map(|node| Instance {
            host: node.host,
            port: node.port,
            weight: node.weight,
            priority: node.priority,
            metadata: node.metadata,
        });
        let (instances, _) = usable(instances.collect(), &limits, policy).ok()?;
        Some((key, instances.into()))
    };
    Ok(Some(copy.services.into_iter().filter_map(service).collect()))
}

fn copy_of(state: &RegistryState) -> Copy {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let answered = state.services.iter().filter(|(_, service)| {
        matches!(service.outcome, Outcome::Known | Outcome::Copied) && !service.instances.is_empty()
    });
    let service = |key: &ServiceKey, instances: &[Instance]| CopiedService {
        service: key.service.clone(),
        namespace: key.namespace.clone(),
        group: key.group.clone(),
        args: key.args.clone(),
        nodes: instances.iter().map(copied).collect(),
    };
    let services = answered.map(|(key, answered)| service(key, &answered.instances)).collect();
    Copy { last_update: now.as_secs(), services }
}

fn copied(instance: &Instance) -> CopiedInstance {
    CopiedInstance {
        host: instance.host.clone(),
        port: instance.port,
        weight: instance.weight,
        priority: instance.priority,
        metadata: instance.metadata.clone(),
    }
}

fn save(path: &Path, copy: &Copy) -> io::Result<()> {
    let text = serde_json::to_vec(copy)?;
    if text.len() as u64 > FILE_MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the answers are too large to be kept"));
    }
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let unfinished = path.with_extension("unfinished");
    let mut open = OpenOptions::new();
    let mut file = open.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    file.write_all(&text)?;
    file.sync_data()?;
    fs::rename(&unfinished, path)
}

/// Bytes of a file: twice what 100,000 instances with a few marks take.
const FILE_MAX_BYTES: u64 = 64 << 20;
