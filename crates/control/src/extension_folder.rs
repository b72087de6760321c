//! A folder of extensions: files `NAME.LANGUAGE` become extensions, changed files become their active
//! versions, and extensions of files that are gone are removed. It writes as the Admin API does, so that a
//! faulty file leaves the last good version in force. It names no language.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::{fs, io};

use model::extension::{EXTENSION_CONTENT_BYTES_MAX, version_of};
use model::{ObjectKey, ObjectKind, PluginCatalog};
use outbound::background::BackgroundThread;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::extension_edit::{self, ExtensionPush};
use crate::reconcile::{Reconcile, Revisions, Write, WriteCondition, WriteRefusal};
use crate::view::SharedView;

/// How often the folder is looked at. A version is in force about as soon after its file was written.
const POLL: Duration = Duration::from_secs(1);
/// Files of the folder that are looked at, in the order of their names.
const FILES_MAX: usize = 200;
/// The author of the writes in the history, and the label of the extensions.
const AUTHOR: &str = "extensions-folder";
/// The label that says where an object comes from.
const LABEL: &str = "managed-by";

/// The folder, and the thread that follows it once it is started.
pub(crate) struct FollowedFolder {
    parts: FolderParts,
    thread: Mutex<Option<BackgroundThread>>,
}

/// The parts that the folder is followed with.
#[derive(Clone)]
pub(crate) struct FolderParts {
    pub(crate) folder: PathBuf,
    pub(crate) reconcile: Reconcile,
    pub(crate) view: SharedView,
    pub(crate) catalog: Arc<PluginCatalog>,
}

impl FollowedFolder {
    pub(crate) fn new(parts: FolderParts) -> FollowedFolder {
        FollowedFolder { parts, thread: Mutex::default() }
    }

    /// Follows the folder from now on.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) fn start(&self) -> io::Result<()> {
        let parts = self.parts.clone();
        let thread =
            BackgroundThread::start("extensions", 1, move |stopping| follow(parts.clone(), stopping))?;
        *self.thread.lock() = Some(thread);
        Ok(())
    }

    /// Ends the thread, if it runs.
    pub(crate) fn stop(&self) {
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            thread.stop();
        }
    }
}

async fn follow(parts: FolderParts, mut stopping: watch::Receiver<bool>) {
    let mut folder = Folder { parts, seen: HashMap::new(), logged: HashSet::new() };
    loop {
        tokio::select! {
            () = folder.round() => {}
            // A write that waits for its turn must not delay the end.
            _ = stopping.wait_for(|is_stopping| *is_stopping) => return,
        }
        let pause = tokio::time::timeout(POLL, stopping.wait_for(|is_stopping| *is_stopping));
        if pause.await.is_ok() {
            return;
        }
    }
}

/// The time and the length of a file, by which a change shows.
type ExtensionFileStamp = (Option<SystemTime>, u64);

/// A file of an extension.
struct File {
    name: String,
    language: &'static str,
    path: PathBuf,
    stamp: ExtensionFileStamp,
}

struct Folder {
    parts: FolderParts,
    /// The files as they were when they were read.
    seen: HashMap<PathBuf, ExtensionFileStamp>,
    /// Faults that were logged and hold on.
    logged: HashSet<String>,
}

impl Folder {
    async fn round(&mut self) {
        let Some(loader) = self.parts.catalog.loader() else { return };
        let languages = loader.languages();
        let files = match files(&self.parts.folder, &languages) {
            Ok(files) => files,
            // A folder that cannot be read is not an empty one: nothing is removed.
            Err(error) => {
                self.tell(format!("{}: the folder cannot be read: {error}", self.parts.folder.display()));
                return;
            }
        };
        let mut faults = HashSet::new();
        for file in files.values() {
            if self.seen.get(&file.path) == Some(&file.stamp) {
                continue;
            }
            match self.take(file).await {
                Ok(()) => drop(self.seen.insert(file.path.clone(), file.stamp)),
                Err(ExtensionFileFault::Lasting(reason)) => {
                    self.seen.insert(file.path.clone(), file.stamp);
                    tracing::error!(
                        file = %file.path.display(),
                        %reason,
                        "an extension of the folder is faulty; its last good version stays"
                    );
                }
                Err(ExtensionFileFault::Passing(reason)) => {
                    let line = format!("{}: {reason}; it is tried again", file.path.display());
                    faults.insert(line.clone());
                    self.tell(line);
                }
            }
        }
        self.seen.retain(|path, _| files.values().any(|file| file.path == *path));
        for fault in self.remove_gone(&files).await {
            faults.insert(fault.clone());
            self.tell(fault);
        }
        self.logged.retain(|line| faults.contains(line));
    }

    /// Logs a fault once for as long as it holds on.
    fn tell(&mut self, line: String) {
        if self.logged.insert(line.clone()) {
            tracing::error!("{line}");
        }
    }

    /// Makes the content of a file the active version of its extension.
    async fn take(&self, file: &File) -> Result<(), ExtensionFileFault> {
        let content = fs::read(&file.path).map_err(|error| ExtensionFileFault::Passing(error.to_string()))?;
        if content.len() > EXTENSION_CONTENT_BYTES_MAX {
            let reason =
                format!("it has {} bytes, and {EXTENSION_CONTENT_BYTES_MAX} are allowed", content.len());
            return Err(ExtensionFileFault::Lasting(reason));
        }
        let key = ObjectKey::new(ObjectKind::Extension, &file.name)
            .map_err(|fault| ExtensionFileFault::Lasting(fault.to_string()))?;
        let loader = self
            .parts
            .catalog
            .loader()
            .ok_or_else(|| ExtensionFileFault::Lasting("there is no language".to_owned()))?;
        let (stored, index) = self.stored(&key);
        if stored.as_ref().is_some_and(|object| !is_ours(object)) {
            let reason = format!("the extension {} was written by other means, and stays", file.name);
            return Err(ExtensionFileFault::Lasting(reason));
        }
        if stored.as_ref().is_some_and(|object| object.get("active") == Some(&version_of(&content).into())) {
            return Ok(());
        }
        let now = stdx::clock::unix_time();
        let push = ExtensionPush {
            language: Some(file.language.to_owned()),
            content,
            desc: None,
            author: AUTHOR.to_owned(),
            now_s: now.as_secs(),
            activate: true,
            canary: None,
        };
        let pushed =
            extension_edit::push(loader, &file.name, stored, push).map_err(ExtensionFileFault::Lasting)?;
        let (mut body, version) = pushed;
        body.insert("labels".to_owned(), json!({ LABEL: AUTHOR }));
        body.shift_remove("create_time");
        body.shift_remove("update_time");
        let unchanged = match index {
            Some(index) => WriteCondition { is_at: Some(Revisions::These(vec![index])), is_not_at: None },
            None => WriteCondition { is_at: None, is_not_at: Some(Revisions::Any) },
        };
        let write = Write::Put { key, body, ttl_s: None };
        match self.parts.reconcile.write_if(write, Arc::from(AUTHOR), unchanged).await {
            Ok(_) => {
                tracing::info!(name = %file.name, %version, "an extension of the folder is in force");
                Ok(())
            }
            Err(WriteRefusal::Invalid(reason) | WriteRefusal::ReadOnly(reason)) => {
                Err(ExtensionFileFault::Lasting(reason))
            }
            Err(refused) => Err(ExtensionFileFault::Passing(format!("{refused:?}"))),
        }
    }

    /// Removes the extensions of the folder that have no file any more; gives the faults.
    async fn remove_gone(&self, files: &BTreeMap<String, File>) -> Vec<String> {
        let view = self.parts.view.load();
        let mut faults = Vec::new();
        for written in view.all_written(ObjectKind::Extension) {
            let object: Map<String, Value> = serde_json::from_str(&written.text).unwrap_or_default();
            if !is_ours(&object) || files.contains_key(&*written.key.id) {
                continue;
            }
            let write = Write::Delete { key: written.key.clone(), force: false };
            match self.parts.reconcile.write(write, Arc::from(AUTHOR)).await {
                Ok(_) => {
                    tracing::info!(name = %written.key.id, "the file of an extension is gone, and so is it")
                }
                Err(WriteRefusal::NotFound) => {}
                Err(WriteRefusal::Invalid(reason)) => {
                    faults.push(format!("the file of the extension {} is gone: {reason}", written.key.id));
                }
                Err(refused) => faults.push(format!(
                    "the file of the extension {} is gone, and it cannot be removed: {refused:?}",
                    written.key.id
                )),
            }
        }
        faults
    }

    fn stored(&self, key: &ObjectKey) -> (Option<Map<String, Value>>, Option<u64>) {
        let view = self.parts.view.load();
        match view.written(key) {
            Some(written) => (serde_json::from_str(&written.text).ok(), Some(written.modified_index)),
            None => (None, None),
        }
    }
}

/// The reason why a file is not in force.
enum ExtensionFileFault {
    /// It holds until the file changes.
    Lasting(String),
    /// Another try may succeed.
    Passing(String),
}

fn is_ours(object: &Map<String, Value>) -> bool {
    object.get("labels").is_some_and(|labels| labels[LABEL] == AUTHOR)
}

/// The files of the folder in known languages, by the names of their extensions.
fn files(folder: &Path, languages: &[&'static str]) -> io::Result<BTreeMap<String, File>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str());
        let ending = path.extension().and_then(|ending| ending.to_str());
        let (Some(name), Some(ending)) = (name, ending) else { continue };
        let Some(language) = languages.iter().find(|language| **language == ending) else { continue };
        // A file may go between the two calls; names with a dot in front are those of editors.
        let Ok(facts) = fs::metadata(&path) else { continue };
        if name.starts_with('.') || !facts.is_file() {
            continue;
        }
        let stamp = (facts.modified().ok(), facts.len());
        let file = File { name: name.to_owned(), language, path: path.clone(), stamp };
        files.insert(name.to_owned(), file);
        if files.len() > FILES_MAX {
            files.pop_last();
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rig, block_on, catalog};

    struct Bench {
        rig: Rig,
        folder: Folder,
        directory: tempfile::TempDir,
        _store: tempfile::TempDir,
    }

    impl Bench {
        fn new() -> Bench {
            let (directory, store) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let rig = Rig::store(store.path());
            let parts = FolderParts {
                folder: directory.path().to_owned(),
                reconcile: rig.reconcile.clone(),
                view: rig.view.clone(),
                catalog: catalog(),
            };
            Bench {
                rig,
                folder: Folder { parts, seen: HashMap::new(), logged: HashSet::new() },
                directory,
                _store: store,
            }
        }

        fn write(&self, name: &str, content: &str) {
            fs::write(self.directory.path().join(name), content).unwrap();
        }

        fn round(&mut self) {
            block_on(self.folder.round());
        }

        fn active(&self, name: &str) -> Option<String> {
            let view = self.rig.view.load();
            let written = view.written(&ObjectKey::new(ObjectKind::Extension, name).unwrap())?;
            let object: Value = serde_json::from_str(&written.text).unwrap();
            object["active"].as_str().map(str::to_owned)
        }
    }

    #[test]
    fn files_appear_change_and_vanish() {
        let mut bench = Bench::new();
        bench.write("mine.tiny", "a");
        bench.write("other.txt", "a");
        bench.write(".mine.tiny", "a");
        bench.round();
        assert_eq!(bench.active("mine"), Some(version_of(b"a")));
        assert_eq!(bench.rig.view.load().all_written(ObjectKind::Extension).len(), 1);
        bench.write("mine.tiny", "bb");
        bench.round();
        assert_eq!(bench.active("mine"), Some(version_of(b"bb")));
        bench.write("mine.tiny", "broken");
        bench.round();
        assert_eq!(bench.active("mine"), Some(version_of(b"bb")), "a faulty file changes nothing");
        fs::remove_file(bench.directory.path().join("mine.tiny")).unwrap();
        bench.round();
        assert_eq!(bench.active("mine"), None);
    }

    #[test]
    fn folder_that_cannot_be_read_removes_nothing() {
        let mut bench = Bench::new();
        bench.write("mine.tiny", "a");
        bench.round();
        bench.folder.parts.folder = bench.directory.path().join("none");
        bench.round();
        assert!(bench.active("mine").is_some());
        assert_eq!(bench.folder.logged.len(), 1);
    }

    #[test]
    fn extension_written_by_other_means_stays() {
        let mut bench = Bench::new();
        let body = json!({"language": "tiny", "content": "x"});
        let (status, _) = bench.rig.json("PUT", "/apisix/admin/extensions/mine", &body);
        assert_eq!(status, 201);
        bench.write("mine.tiny", "a");
        bench.round();
        assert_eq!(bench.active("mine"), None, "it is as it was written, without `active`");
    }
}
