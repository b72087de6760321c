//! The trait of a configuration source, as the reconciling thread and the Admin API use it. It names no
//! source; `SourceConfig` of `start.rs` lists them.

use std::sync::Arc;

use model::ObjectKey;

use super::configs::{ConfigsUpdate, Overtaken};
use super::versions::{VersionFilter, VersionList};
use super::whole::{Differing, Terms, WholeRefused};
use super::write::{Done, WriteRefusal};
use super::{Flow, LoadError, Reconciler, Signed};
use crate::plan::ConfigPlan;
use crate::source::etcd::SharedEtcd;
use crate::source::store::{RevisionInfo, StoreError};

/// Facts about a source that do not change while it is used.
#[derive(Debug, Clone, Default)]
pub(crate) struct SourceFacts {
    /// The name that tells it from other sources, in files of this disk.
    pub(crate) identity: String,
    /// Whether its objects have revisions of their own: an object that was deleted and made again is then
    /// known as another.
    pub(crate) has_revisions: bool,
    /// Whether it logs the faults of its objects itself, with their lines.
    pub(crate) logs_faults: bool,
}

/// The way to state that all instances of a cluster share, beside their configuration.
pub(crate) struct ClusterAccess {
    /// The client.
    pub(crate) etcd: SharedEtcd,
    /// The prefix of the objects.
    pub(crate) prefix: String,
    /// The runtime of the client's tasks.
    pub(crate) runtime: tokio::runtime::Handle,
}

/// Wakes the reconciling thread, which then calls [`ConfigSource::take_updates`].
pub(crate) type Wake = Arc<dyn Fn() + Send + Sync>;

/// A source of the configuration. Every method runs on the reconciling thread and brings what it reads or
/// writes into force by the reconciler. A source that is only read keeps the defaults, which refuse with
/// [`ConfigSource::refusal`].
pub(crate) trait ConfigSource: Send {
    /// Its facts that do not change.
    fn facts(&self) -> SourceFacts;

    /// Brings the first configuration into force. A source that is told of changes from other threads calls
    /// `wake`.
    ///
    /// # Errors
    /// Why there is no configuration to start with.
    fn load(&mut self, reconciler: &mut Reconciler, wake: Wake) -> Result<(), LoadError>;

    /// Looks for changes and does what is due, each second.
    fn tick(&mut self, reconciler: &mut Reconciler);

    /// Takes the changes that it has been told of, without waiting.
    fn take_updates(&mut self, _reconciler: &mut Reconciler) {}

    /// Reads everything again; gives back the faults found, each as one line.
    fn reload(&mut self, _reconciler: &mut Reconciler) -> Vec<String> {
        Vec::new()
    }

    /// Reads everything again after a panic of the thread, at any step of a change: what is stored comes into
    /// force.
    fn recover(&mut self, reconciler: &mut Reconciler) {
        drop(self.reload(reconciler));
    }

    /// Takes over everything that it holds, even if that is older than what was served.
    fn adopt(&mut self, _reconciler: &mut Reconciler) {}

    /// Brings into force what another process wrote while this one had released the source. Called before
    /// each write and each look at versions.
    ///
    /// # Errors
    /// The source cannot be opened again.
    fn catch_up(&mut self, _reconciler: &mut Reconciler) -> Result<(), StoreError> {
        Ok(())
    }

    /// The cluster that shares this source; none if no other instance writes it.
    fn cluster(&self) -> Option<ClusterAccess> {
        None
    }

    /// Why it does not take what the defaults refuse, and what to do instead.
    fn refusal(&self) -> WriteRefusal {
        WriteRefusal::Store("this source takes no writes".to_owned())
    }

    /// Does the writes in order, as far as they are allowed; one result each, given when the write is durable
    /// and in force.
    fn write(
        &mut self,
        _reconciler: &mut Reconciler,
        writes: Vec<Signed>,
    ) -> Vec<Result<Done, WriteRefusal>> {
        writes.iter().map(|_| Err(self.refusal())).collect()
    }

    /// Writes all that differs in one revision, or nothing of it.
    ///
    /// # Errors
    /// Why nothing was written.
    fn write_whole(
        &mut self,
        _reconciler: &mut Reconciler,
        _differing: &[Differing],
        _terms: &Terms<'_>,
    ) -> Result<(), WholeRefused> {
        Err(WholeRefused::Write(self.refusal()))
    }

    /// Puts a whole set in the place of what is there, together with what the set says of itself.
    ///
    /// # Errors
    /// Why nothing was written; the inner error: another set came in between.
    fn put_configs(
        &mut self,
        _reconciler: &mut Reconciler,
        _put: ConfigsUpdate,
    ) -> Result<Result<(), Overtaken>, WholeRefused> {
        Err(WholeRefused::Write(self.refusal()))
    }

    /// The objects that differ from what was there at `version`.
    ///
    /// # Errors
    /// The version is not kept, or cannot be read.
    fn differences_to(
        &mut self,
        _reconciler: &Reconciler,
        _version: u64,
    ) -> Result<Vec<Differing>, WholeRefused> {
        Err(WholeRefused::Write(self.refusal()))
    }

    /// The kept versions below `below` that pass the filter, newest first, at most `limit` of them.
    ///
    /// # Errors
    /// It keeps none, or they cannot be read.
    fn versions(
        &mut self,
        _reconciler: &Reconciler,
        _below: u64,
        _limit: usize,
        _filter: &VersionFilter,
    ) -> Result<VersionList, WholeRefused> {
        Err(WholeRefused::Write(self.refusal()))
    }

    /// One version, and what it changed.
    ///
    /// # Errors
    /// The version is not kept, or cannot be read.
    fn version(
        &mut self,
        _reconciler: &Reconciler,
        _version: u64,
    ) -> Result<(RevisionInfo, ConfigPlan), WholeRefused> {
        Err(WholeRefused::Write(self.refusal()))
    }

    /// The text of an object at a version; none if it did not exist.
    ///
    /// # Errors
    /// As [`ConfigSource::version`].
    fn object_at(
        &mut self,
        _reconciler: &Reconciler,
        _version: u64,
        _key: &ObjectKey,
    ) -> Result<Option<Arc<str>>, WholeRefused> {
        Err(WholeRefused::Write(self.refusal()))
    }

    /// The changes from one version to another, in either order.
    ///
    /// # Errors
    /// As [`ConfigSource::version`].
    fn plan_between(
        &mut self,
        _reconciler: &Reconciler,
        _from: u64,
        _to: u64,
    ) -> Result<ConfigPlan, WholeRefused> {
        Err(WholeRefused::Write(self.refusal()))
    }

    /// Closes what another process is to open, until [`ConfigSource::catch_up`] is called.
    fn release(&mut self) {}

    /// Leaves the source to another process for good; says whether this one goes on, for the requests of kept
    /// connections.
    fn give_away(&mut self) -> Flow {
        Flow::Continue
    }
}
