//! State that instances share: what ACME keeps (accounts, records of certificates, open challenges, wishes,
//! the leader) and the keys of session tickets, as texts under paths. Alone, an instance keeps them in its
//! data folder; with etcd, among Weir's own keys there, so that every instance sees every change. It does not
//! know what the texts mean.

mod cluster;
mod local;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::source::etcd::SharedEtcd;
use cluster::ClusterMedium;
use local::FolderMedium;

/// See the module; cheap to clone.
#[derive(Clone)]
pub(crate) struct SharedState {
    documents: Arc<Documents>,
    medium: Medium,
}

#[derive(Clone)]
enum Medium {
    Folder(Arc<FolderMedium>),
    Cluster(Arc<ClusterMedium>),
}

/// The documents as this instance knows them.
#[derive(Default)]
struct Documents {
    known: RwLock<BTreeMap<String, SharedDocument>>,
    changed: Notify,
}

/// A text and the revision that wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedDocument {
    pub(crate) text: Arc<str>,
    pub(crate) revision: u64,
}

impl SharedState {
    /// The state of an instance that is alone, in this folder, which is made when the first text is kept.
    ///
    /// # Errors
    /// The folder is there and cannot be read.
    pub(crate) fn alone(folder: PathBuf) -> std::io::Result<SharedState> {
        let folder = FolderMedium::new(folder);
        let documents = Documents::default();
        *documents.known.write() = folder.load()?;
        Ok(SharedState { documents: Arc::new(documents), medium: Medium::Folder(Arc::new(folder)) })
    }

    /// The state of a cluster in this folder of Weir's own keys, which is followed from now on.
    pub(crate) fn cluster(etcd: SharedEtcd, prefix: &str, folder: &str, handle: &Handle) -> SharedState {
        let documents = Arc::new(Documents::default());
        let cluster = ClusterMedium::follow(etcd, (prefix.to_owned(), folder.to_owned()), &documents, handle);
        SharedState { documents, medium: Medium::Cluster(Arc::new(cluster)) }
    }

    /// Whether other instances see this state.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.medium, Medium::Cluster(_))
    }

    /// Whether everything there is has been read.
    pub(crate) fn is_read(&self) -> bool {
        match &self.medium {
            Medium::Folder(_) => true,
            Medium::Cluster(cluster) => cluster.is_read(),
        }
    }

    /// The text at `path`.
    pub(crate) fn get(&self, path: &str) -> Option<SharedDocument> {
        self.documents.known.read().get(path).cloned()
    }

    /// All texts below `prefix`, each under its rest of the path.
    pub(crate) fn list(&self, prefix: &str) -> Vec<(String, Arc<str>)> {
        let known = self.documents.known.read();
        let from_prefix = known.range(prefix.to_owned()..);
        from_prefix
            .map_while(|(path, document)| {
                Some((path.strip_prefix(prefix)?.to_owned(), Arc::clone(&document.text)))
            })
            .collect()
    }

    /// Writes the text at `path`, if that is still as this instance knows it; with `ttl` it ends by itself.
    /// False: it has changed meanwhile.
    ///
    /// # Errors
    /// It could not be written, or that is not known; a sentence.
    pub(crate) async fn put(&self, path: &str, text: &str, ttl: Option<Duration>) -> Result<bool, String> {
        let before = self.get(path).map_or(0, |document| document.revision);
        let revision = match &self.medium {
            Medium::Folder(folder) => Some(folder.put(path, text).map_err(|fault| fault.to_string())?),
            Medium::Cluster(cluster) => cluster.put(path, Some(text), before, ttl).await?,
        };
        let Some(revision) = revision else { return Ok(false) };
        self.documents.set(path, Some(SharedDocument { text: text.into(), revision }), revision);
        Ok(true)
    }

    /// Removes the text at `path`, if that is still as this instance knows it.
    ///
    /// # Errors
    /// As [`SharedState::put`].
    pub(crate) async fn remove(&self, path: &str) -> Result<bool, String> {
        let Some(before) = self.get(path) else { return Ok(true) };
        let revision = match &self.medium {
            Medium::Folder(folder) => {
                folder.remove(path).map_err(|fault| fault.to_string())?;
                Some(before.revision)
            }
            Medium::Cluster(cluster) => cluster.put(path, None, before.revision, None).await?,
        };
        let Some(revision) = revision else { return Ok(false) };
        self.documents.set(path, None, revision);
        Ok(true)
    }

    /// Until some text changes.
    pub(crate) async fn changed(&self) {
        self.documents.changed.notified().await;
    }
}

impl Documents {
    /// Takes over what is at `path` since `revision`; an older state is ignored.
    fn set(&self, path: &str, document: Option<SharedDocument>, revision: u64) {
        let mut known = self.known.write();
        if known.get(path).is_some_and(|known| known.revision > revision) {
            return;
        }
        match document {
            Some(document) if known.len() < DOCUMENTS_MAX || known.contains_key(path) => {
                known.insert(path.to_owned(), document);
            }
            Some(_) => tracing::warn!(path, "a text of the shared state is ignored: there are too many"),
            None => drop(known.remove(path)),
        }
        drop(known);
        self.changed.notify_one();
    }
}

impl std::fmt::Debug for SharedState {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shared").field("is_cluster", &self.is_cluster()).finish_non_exhaustive()
    }
}

/// Texts that are remembered: a few for each of the most certificates that settings allow.
const DOCUMENTS_MAX: usize = 300_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::block_on;

    #[test]
    fn texts_survive_a_restart_where_they_must() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("acme");
        let shared = SharedState::alone(folder.clone()).unwrap();
        assert!(shared.is_read() && !shared.is_cluster() && !folder.exists());
        block_on(async {
            assert_eq!(shared.put("certificates/acme-a.example", "{}", None).await, Ok(true));
            assert_eq!(shared.put("certificates/acme-b.example", "[]", None).await, Ok(true));
            assert_eq!(shared.put("accounts/00ff", "1", None).await, Ok(true));
            assert_eq!(shared.put("challenges/token", "x", None).await, Ok(true));
            assert_eq!(shared.remove("certificates/acme-b.example").await, Ok(true));
            assert_eq!(shared.remove("certificates/none").await, Ok(true));
        });
        assert_eq!(shared.list("certificates/"), [("acme-a.example".to_owned(), "{}".into())]);
        assert_eq!(shared.list("challenges/").len(), 1);
        let again = SharedState::alone(folder).unwrap();
        assert_eq!(again.list("certificates/"), [("acme-a.example".to_owned(), "{}".into())]);
        assert_eq!(again.get("accounts/00ff").map(|document| document.text), Some("1".into()));
        assert!(again.list("challenges/").is_empty(), "a challenge ends with its process");
    }

    #[test]
    fn older_states_are_ignored() {
        let documents = Documents::default();
        let document = |text: &str, revision| Some(SharedDocument { text: text.into(), revision });
        let text = || documents.known.read().get("a").map(|document| document.text.to_string());
        documents.set("a", document("new", 7), 7);
        documents.set("a", document("old", 6), 6);
        documents.set("a", None, 6);
        assert_eq!(text().as_deref(), Some("new"));
        documents.set("a", document("newer", 8), 8);
        assert_eq!(text().as_deref(), Some("newer"));
        documents.set("a", None, 9);
        assert_eq!(text(), None);
    }
}
