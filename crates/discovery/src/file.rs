//! Files of targets in Prometheus's `file_sd` format, JSON or YAML:
//! `[{targets: ["host:port"], labels: {…}}]`, read again when they change.
//!
//! `service_name` is the label `service` of a group where it has one, otherwise the file's name without its
//! ending. The labels `__weight__` and `__priority__` are weight and priority of the group's targets; all
//! other labels become metadata. A file that is faulty keeps its last good targets, and so does a missing
//! file that the block names itself; a file that is removed from a folder takes its targets with it.

mod groups;

use std::collections::BTreeMap;
use std::future::Future;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use model::discovery::{ServiceInstance, ServiceKey};
use serde::Deserialize;
use serde_json::{Value, json};

use super::limits::WEIGHT_MAX;
use super::{BuildContext, Registry, RegistryKind, Services, auto_routes};

pub(super) const KIND: RegistryKind =
    RegistryKind { name: "file", has_ports_by_scheme: false, schema, build };

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "files": {"type": "array", "minItems": 1, "maxItems": 1000, "items": {"type": "string", "minLength": 1}, "description": "Files, folders (their `.json`, `.yaml` and `.yml` files), or `FOLDER/*.ENDING`."},
            "interval_ms": {"type": "integer", "minimum": 10, "maximum": 86_400_000, "default": 500, "description": "Milliseconds between two looks at the files."},
            "weight": {"type": "integer", "minimum": 0, "maximum": WEIGHT_MAX, "default": 1, "description": "The weight of targets without the label `__weight__`."},
            "auto_routes": auto_routes::build_auto_routes_schema()
        },
        "required": ["files"],
        "additionalProperties": false
    })
}

#[derive(Clone, Debug, Deserialize)]
struct FileRegistryBlock {
    files: Vec<PathBuf>,
    #[serde(default = "interval_ms")]
    interval_ms: u64,
    #[serde(default = "weight")]
    weight: u32,
}

const fn interval_ms() -> u64 {
    500
}

const fn weight() -> u32 {
    1
}

fn build(block: &Value, _: &BuildContext) -> Result<Box<dyn Registry>, String> {
    let block = FileRegistryBlock::deserialize(block).map_err(|error| error.to_string())?;
    Ok(Box::new(Targets { block, files: BTreeMap::new() }))
}

/// The services of one file.
type FileServices = BTreeMap<Box<str>, Vec<ServiceInstance>>;

struct Targets {
    block: FileRegistryBlock,
    files: BTreeMap<PathBuf, TargetFile>,
}

/// A file that was seen.
#[derive(Default)]
struct TargetFile {
    stamp: TargetFileStamp,
    found: FileServices,
}

/// Tells whether a file has changed: device, inode, size, and seconds and nanoseconds of its modification.
type TargetFileStamp = (u64, u64, u64, i64, i64);

impl Registry for Targets {
    fn run(mut self: Box<Self>, services: Services) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let pause = Duration::from_millis(self.block.interval_ms);
            // Whether the next look is passed on although no file has changed.
            let mut is_due = true;
            loop {
                let look = tokio::task::spawn_blocking(move || {
                    let looked = self.look();
                    (self, looked)
                });
                let looked;
                match look.await {
                    Ok((targets, result)) => (self, looked) = (targets, result),
                    // The thread has panicked: the registry ends, and is started again.
                    Err(_) => return,
                }
                let reason = looked.reason();
                if looked.has_changed || (is_due && reason.is_none()) {
                    let all = self.all();
                    if services.list_of().is_some() {
                        services.listed(all.keys().map(|key| key.service.clone()).collect());
                    }
                    services.replace_all(all);
                }
                is_due = reason.is_some();
                if let Some(reason) = reason {
                    services.list_failed(&reason);
                    services.failed(None, &reason);
                }
                tokio::time::sleep(pause).await;
            }
        })
    }
}

/// The result of one look at all files.
#[derive(Debug, Default)]
struct Looked {
    has_changed: bool,
    faults: Vec<String>,
}

impl Looked {
    fn reason(&self) -> Option<String> {
        let first = self.faults.first()?;
        Some(match self.faults.len() - 1 {
            0 => first.clone(),
            more => format!("{first}; {more} more files are faulty"),
        })
    }
}

impl Targets {
    /// Reads the files that have changed. It blocks for the system calls.
    fn look(&mut self) -> Looked {
        let mut looked = Looked::default();
        let mut paths = Vec::new();
        for pattern in &self.block.files {
            match expand(pattern) {
                Ok(found) => paths.extend(found),
                Err(reason) => looked.faults.push(format!("{}: {reason}", pattern.display())),
            }
        }
        paths.truncate(FILES_MAX);
        // A folder that cannot be read keeps its files, so that a failed mount does not take all targets
        // away.
        if looked.faults.is_empty() {
            let before = self.files.len();
            self.files.retain(|path, _| paths.contains(path));
            looked.has_changed |= self.files.len() != before;
        }
        for path in paths {
            let stamp = match stamp(&path) {
                Ok(stamp) => stamp,
                Err(reason) => {
                    looked.faults.push(format!("{}: {reason}", path.display()));
                    continue;
                }
            };
            if self.files.get(&path).is_some_and(|known| known.stamp == stamp) {
                continue;
            }
            match read(&path, self.block.weight) {
                Ok(found) => {
                    looked.has_changed = true;
                    self.files.insert(path, TargetFile { stamp, found });
                }
                Err(reason) => looked.faults.push(format!("{}: {reason}", path.display())),
            }
        }
        looked
    }

    /// The services of all files; one that is in several files has the targets of all.
    fn all(&self) -> BTreeMap<ServiceKey, Vec<ServiceInstance>> {
        let mut all: BTreeMap<ServiceKey, Vec<ServiceInstance>> = BTreeMap::new();
        for (service, instances) in self.files.values().flat_map(|known| &known.found) {
            let key = ServiceKey::new(KIND.name, service);
            all.entry(key).or_default().extend(instances.iter().cloned());
        }
        all
    }
}

/// The files that an entry of the block names.
fn expand(pattern: &Path) -> Result<Vec<PathBuf>, String> {
    let wanted = pattern.file_name().and_then(|name| name.to_str()?.strip_prefix("*."));
    let (folder, endings): (&Path, Vec<&str>) = match wanted {
        Some(ending) => (pattern.parent().unwrap_or(Path::new(".")), vec![ending]),
        None if pattern.is_dir() => (pattern, vec!["json", "yaml", "yml"]),
        None => return Ok(vec![pattern.to_owned()]),
    };
    let entries = std::fs::read_dir(folder).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for entry in entries.take(FILES_MAX) {
        let path = entry.map_err(|error| error.to_string())?.path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        // Editors write hidden files beside the file that they change.
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if ending.is_some_and(|ending| endings.contains(&ending)) && !is_hidden {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn stamp(path: &Path) -> Result<TargetFileStamp, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    Ok((metadata.dev(), metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}

fn read(path: &Path, weight: u32) -> Result<FileServices, String> {
    let text =
        outbound::regular_file::read_to_string(path, FILE_MAX_BYTES).map_err(|error| error.to_string())?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    groups::read_target_groups(&text, &name, weight)
}

/// Files of all entries of the block.
const FILES_MAX: usize = 10_000;
/// Bytes of one file.
const FILE_MAX_BYTES: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(files: &[&Path]) -> Targets {
        let files = files.iter().map(|path| (*path).to_owned()).collect();
        Targets { block: FileRegistryBlock { files, interval_ms: 10, weight: 1 }, files: BTreeMap::new() }
    }

    fn names(targets: &Targets) -> Vec<String> {
        targets.all().keys().map(|key| key.service.to_string()).collect()
    }

    #[test]
    fn faulty_file_keeps_its_last_targets() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("web.yaml", "- targets: ['a:1']\n");
        write("api.json", r#"[{"targets": ["b:2"], "labels": {"service": "shop"}}]"#);
        write("notes.txt", "nothing");
        let mut targets = targets(&[folder.path()]);
        assert!(targets.look().has_changed);
        assert_eq!(names(&targets), ["shop", "web"]);
        assert!(!targets.look().has_changed);
        write("web.yaml", "- targets: [");
        let looked = targets.look();
        assert!(looked.reason().unwrap().contains("web.yaml"));
        assert_eq!(names(&targets), ["shop", "web"]);
        std::fs::remove_file(folder.path().join("web.yaml")).unwrap();
        assert!(targets.look().has_changed);
        assert_eq!(names(&targets), ["shop"]);
    }

    #[test]
    fn pattern_and_missing_file_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.yml"), "[]").unwrap();
        std::fs::write(folder.path().join("b.json"), "[]").unwrap();
        assert_eq!(expand(&folder.path().join("*.yml")).unwrap(), [folder.path().join("a.yml")]);
        let mut missing = targets(&[&folder.path().join("none.yml")]);
        assert!(missing.look().reason().unwrap().contains("none.yml"));
        assert!(expand(&folder.path().join("none/*.yml")).is_err());
    }
}
