//! The etcd source of one instance: its client and threads, the copy on disk, and the current state. It does
//! not know the use of the updates.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle, Runtime};

use super::{
    Etcd, EtcdConfig, EtcdCopy, EtcdError, FollowerCommands, KeySpace, LastGood, SharedEtcd, Update,
    follow_etcd,
};
use crate::source::etcd::{EtcdState, EtcdStatus};
use crate::source::store::{DirectoryLock, StoreError};

/// etcd as the source of one instance.
#[derive(Debug)]
pub struct EtcdSource {
    /// The client, for writes.
    pub(crate) etcd: SharedEtcd,
    /// The keys of this gateway.
    pub(crate) space: KeySpace,
    /// The copy of the last data on disk.
    pub(crate) last_good: LastGood,
    /// Commands to the follower.
    pub(crate) follower: Arc<FollowerCommands>,
    /// The last revision that the follower reported.
    pub(crate) followed: u64,
    /// Keys below the prefix that hold no object, each with the reason.
    pub(crate) strays: BTreeMap<String, String>,
    /// The state for readers.
    pub(crate) status: EtcdStatus,
    /// The content of the copy on disk at the start, until it is taken.
    pub(crate) kept: Option<EtcdCopy>,
    /// Notes that this instance has written since it last checked their count.
    pub(crate) notes_written: usize,
    /// Most operations that etcd takes in one transaction.
    pub(crate) max_operations: usize,
    /// The earliest time to write a copy that lacks changes again.
    pub(crate) copy_again_at: Option<Instant>,
    /// Time that a start waits for etcd when the disk has no copy.
    pub(crate) start_timeout: Duration,
    /// The updates of the follower, once it has been started.
    pub(crate) updates: Option<Receiver<Update>>,
    runtime: Option<Runtime>,
}

/// The reasons why etcd cannot be a source.
#[derive(Debug, thiserror::Error)]
pub enum EtcdSourceError {
    /// The client cannot be made.
    #[error(transparent)]
    Client(#[from] EtcdError),
    /// The copy on disk cannot be opened.
    #[error(transparent)]
    LastGood(#[from] StoreError),
    /// The system cannot start a thread.
    #[error("cannot start etcd's thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl EtcdSource {
    /// A source that is not followed yet.
    ///
    /// # Errors
    /// See [`EtcdSourceError`].
    pub fn new(config: EtcdConfig, lock: &DirectoryLock) -> Result<EtcdSource, EtcdSourceError> {
        let (last_good, kept) = LastGood::open(lock, &config.prefix)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(RUNTIME_THREADS)
            .max_blocking_threads(RUNTIME_THREADS)
            .thread_name("etcd")
            .enable_all()
            .build()?;
        let space = KeySpace::new(&config.prefix);
        let status = EtcdStatus::starting(config.endpoints.first().map_or("", String::as_str));
        let (start_timeout, max_operations) = (config.start_timeout, config.max_operations);
        let etcd = runtime.block_on(async { Etcd::new(config) })?;
        let follower = Arc::new(FollowerCommands::default());
        follower.raise_floor(kept.revision);
        Ok(EtcdSource {
            etcd: Arc::new(etcd),
            space,
            last_good,
            follower,
            followed: 0,
            strays: BTreeMap::new(),
            status,
            kept: Some(kept),
            notes_written: 0,
            max_operations,
            copy_again_at: None,
            start_timeout,
            updates: None,
            runtime: Some(runtime),
        })
    }

    /// Starts to follow. `tell` gets every update in order, and returns false when the receiver is gone.
    pub(crate) fn follow<T, F>(&self, tell: T)
    where
        T: Fn(Update) -> F + Send + Sync + 'static,
        F: Future<Output = bool> + Send + 'static,
    {
        let following =
            follow_etcd(Arc::clone(&self.etcd), self.space.clone(), Arc::clone(&self.follower), tell);
        self.handle().spawn(following);
    }

    /// The runtime for calls of etcd.
    pub(crate) fn handle(&self) -> Handle {
        self.runtime.as_ref().expect("it is taken when this is dropped").handle().clone()
    }

    /// Sets the state of etcd, and logs it if it has changed.
    pub(crate) fn is_now(&mut self, state: EtcdState, reason: Option<String>) {
        if self.status.state != state {
            let endpoint = self.etcd.endpoint();
            match (&state, &reason) {
                (EtcdState::Following, _) => tracing::info!(endpoint, "following etcd"),
                (_, Some(reason)) => tracing::warn!(%reason, "{}", state.in_words()),
                _ => {}
            }
        }
        self.etcd.endpoint().clone_into(&mut self.status.endpoint);
        self.status.state = state;
        self.status.reason = reason;
    }
}

impl Drop for EtcdSource {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// One thread, because all of its work waits for the network.
const RUNTIME_THREADS: usize = 1;
