//! etcd as one node has it: its client and threads, the copy on disk, and what is known of it at the moment. It refuses to
//! know what becomes of what it tells.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle, Runtime};

use super::{Etcd, EtcdConfig, EtcdError, Follower, Kept, KeySpace, LastGood, SharedEtcd, Update, follow};
use crate::source::store::{DirectoryLock, StoreError};
use crate::view::{EtcdState, EtcdStatus};

/// etcd as the source of one node.
#[derive(Debug)]
pub struct EtcdSource {
    /// For writes.
    pub(crate) etcd: SharedEtcd,
    /// Which keys are this gateway's.
    pub(crate) space: KeySpace,
    /// What was in force last, on disk.
    pub(crate) last_good: LastGood,
    /// How the one who follows is told things.
    pub(crate) follower: Arc<Follower>,
    /// The last revision that the follower told of.
    pub(crate) followed: u64,
    /// Keys below the prefix that hold no object, and why.
    pub(crate) strays: BTreeMap<String, String>,
    /// For those who ask.
    pub(crate) status: EtcdStatus,
    /// What the copy on disk held at the start, until it is taken.
    pub(crate) kept: Option<Kept>,
    /// Notes of versions that this node has written since it last looked how many there are.
    pub(crate) notes_written: usize,
    /// Most operations that etcd takes in one transaction.
    pub(crate) max_operations: usize,
    /// When a copy that lacks changes may be made anew.
    pub(crate) copy_again_at: Option<Instant>,
    /// How long a start waits when the disk held nothing.
    pub(crate) start_timeout: Duration,
    /// The updates of the follower, once it has been started.
    pub(crate) updates: Option<Receiver<Update>>,
    runtime: Option<Runtime>,
}

/// Why etcd cannot be a source at all.
#[derive(Debug, thiserror::Error)]
pub enum EtcdSourceError {
    /// The client cannot be made.
    #[error(transparent)]
    Client(#[from] EtcdError),
    /// The copy on disk cannot be opened.
    #[error(transparent)]
    LastGood(#[from] StoreError),
    /// The system gives no thread.
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
        let follower = Arc::new(Follower::default());
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

    /// Starts to follow; `tell` gets every update in order, and says false when nobody listens any more.
    pub(crate) fn follow<T, F>(&self, tell: T)
    where
        T: Fn(Update) -> F + Send + Sync + 'static,
        F: Future<Output = bool> + Send + 'static,
    {
        let following = follow(Arc::clone(&self.etcd), self.space.clone(), Arc::clone(&self.follower), tell);
        self.handle().spawn(following);
    }

    /// Where calls of etcd run.
    pub(crate) fn handle(&self) -> Handle {
        self.runtime.as_ref().expect("it is taken when this is dropped").handle().clone()
    }

    /// Remembers how etcd is, saying so in the log when that has changed.
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

/// Everything here waits for the network.
const RUNTIME_THREADS: usize = 1;
