//! The one thread that owns the configuration. Writes, reloads and expiries arrive over a channel, pass the
//! source, the snapshot and the publisher in that order, and are answered when they are in force. It knows
//! neither HTTP nor the data plane.
//!
//! Writes that wait at the same time share one durable transaction, so that one fsync serves many.

mod automatic;
mod batch;
mod condition;
pub(crate) mod configs;
pub(crate) mod etcd;
mod fault_log;
pub(crate) mod file;
mod gate;
mod good;
mod journal;
pub(crate) mod patch;
mod publishing;
mod release;
mod restart;
mod secrets;
pub(crate) mod source;
mod start_faults;
pub(crate) mod store;
pub(crate) mod stored_change;
pub(crate) mod versions;
pub(crate) mod whole;
mod write;
mod write_failure;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use discovery::AutoRoutes;
use model::{Applied, ConfigFault, ObjectKey, PluginCatalog, Snapshot};
use stdx::threads::ThreadLife;
use thiserror::Error;
use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::ocsp::Ocsp;
use crate::sealing::Sealer;
use crate::secret::Secrets;
use crate::source::etcd::{EtcdSourceError, EtcdStatus};
use crate::source::store::{SetStatement, StoreError};
use crate::view::{SharedView, WriteFailure};
use source::{ConfigSource, SourceFacts};

pub use condition::{Revisions, WriteCondition};
pub use gate::WriteGate;
pub use release::{HandOver, Released};
pub use write::{Author, Done, PatchPart, Write, WriteRefusal};

/// Brings a snapshot into force for requests.
pub trait Publisher: Send {
    /// Compiles the objects that differ and passes them to every worker. Returns every fault that only the
    /// compiler finds, of this change and of earlier ones, as long as it exists; a fault says whether the
    /// object's former compiled form is kept.
    fn publish(&mut self, applied: &Applied) -> Vec<ConfigFault>;

    /// Takes certificates out of force that have expired, where a setting says so. Called every second.
    /// Returns all faults, as [`Publisher::publish`] does, if something has changed.
    fn expire(&mut self) -> Option<Vec<ConfigFault>> {
        None
    }
}

/// The reasons why there is no first configuration.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The store cannot be opened or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file cannot be read or is no document; in strict mode, it has any fault. Each fault is one line,
    /// `file:line: path: reason`.
    #[error("{0}")]
    File(String),
    /// etcd cannot be a source.
    #[error(transparent)]
    EtcdSource(#[from] EtcdSourceError),
    /// etcd has not answered with its data, and this disk has no copy of it.
    #[error("there is no configuration to start with: {0}")]
    Etcd(String),
    /// The system cannot start a thread.
    #[error("cannot start the control thread: {0}")]
    Thread(std::io::Error),
}

/// The parts of the reconciling thread.
pub struct ReconcileParts {
    /// All plugins of this gateway.
    pub catalog: Arc<PluginCatalog>,
    /// Passes each snapshot to the workers.
    pub publisher: Box<dyn Publisher>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// The view for readers, which the thread replaces.
    pub view: SharedView,
    /// Encrypts and decrypts secrets in the store.
    pub sealer: Sealer,
    /// The values of references to secrets.
    pub secrets: Arc<Secrets>,
    /// The OCSP responses that are stapled to certificates.
    pub ocsp: Arc<Ocsp>,
    /// Objects that are kept beside a resource file, where the source is one: certificates that this instance
    /// has ordered.
    pub beside_file: Vec<(ObjectKey, Arc<str>)>,
    /// The routes that are made of services of registries, and how long a start waits for the first ones.
    pub auto_routes: Option<(Arc<AutoRoutes>, Duration)>,
    /// The data directory, where good forms of objects that have become faulty are kept; none: the forms last
    /// as long as the process.
    pub data: Option<PathBuf>,
}

/// Sends commands to the reconciling thread.
#[derive(Debug, Clone)]
pub struct Reconcile {
    commands: SyncSender<ReconcileCommand>,
    gate: WriteGate,
    life: Arc<ThreadLife>,
}

/// A command for the thread.
#[derive(Debug)]
enum ReconcileCommand {
    Write(Signed, oneshot::Sender<Result<Done, WriteRefusal>>),
    Reload(oneshot::Sender<Vec<String>>),
    Adopt,
    /// The source has updates to be taken.
    Updates,
    /// Values of secrets, or OCSP responses, have changed.
    Secrets,
    Release(release::Release),
    Task(ReconcileTask),
    Stop,
}

/// A closure that runs on the thread; it sends its result itself.
struct ReconcileTask(Box<dyn FnOnce(&mut ControlLoop) + Send>);

impl std::fmt::Debug for ReconcileTask {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Task")
    }
}

impl Reconcile {
    /// Loads the source, publishes its objects and starts the thread. When this returns, the configuration is
    /// in force.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub(crate) fn start(
        source: Box<dyn ConfigSource>,
        parts: ReconcileParts,
    ) -> Result<(Reconcile, JoinHandle<()>), LoadError> {
        let (commands, inbox) = sync_channel(MAX_WAITING);
        let facts = source.facts();
        let good = good::GoodForms::load(parts.data.as_deref(), &facts.identity);
        let (auto_routes, first_wait) = parts.auto_routes.clone().unzip();
        let reconciler = Reconciler {
            parts,
            facts,
            automatic: automatic::Automatic::new(auto_routes),
            good,
            start_faults: start_faults::StartFaults::default(),
            snapshot: Snapshot::default(),
            faults: Vec::new(),
            document_faults: Vec::new(),
            compile_faults: Vec::new(),
            reference_faults: Vec::new(),
            fault_log: fault_log::FaultLog::default(),
            secrets_awaited: false,
            configs: Arc::default(),
            changed: None,
            etcd: None,
            write_failure: None,
        };
        let poke = commands.clone();
        // If the queue is full, the next tick finds the changed secrets.
        reconciler.parts.secrets.on_change(move || drop(poke.try_send(ReconcileCommand::Secrets)));
        let poke = commands.clone();
        reconciler.parts.ocsp.on_change(move || drop(poke.try_send(ReconcileCommand::Secrets)));
        let mut control = ControlLoop { source, reconciler, inbox };
        let wake = commands.clone();
        // With a full queue the updates are taken before the next command of it.
        control.source.load(
            &mut control.reconciler,
            Arc::new(move || drop(wake.try_send(ReconcileCommand::Updates))),
        )?;
        control.reconciler.first_automatic_routes(first_wait.unwrap_or_default());
        control.reconciler.note_start_faults();
        let life = ThreadLife::begin(restart::THREAD);
        let lived = Arc::clone(&life);
        let thread = std::thread::Builder::new()
            .name(restart::THREAD.to_owned())
            .spawn(move || control.live(&lived))
            .map_err(LoadError::Thread)?;
        Ok((Reconcile { commands, gate: WriteGate::default(), life }, thread))
    }

    /// Sends a write; the answer comes when the write is durable and published.
    pub async fn write(&self, write: Write, author: Author) -> Result<Done, WriteRefusal> {
        self.write_if(write, author, WriteCondition::default()).await
    }

    /// As [`Reconcile::write`], if the object meets the condition when its turn comes.
    pub async fn write_if(
        &self,
        write: Write,
        author: Author,
        condition: WriteCondition,
    ) -> Result<Done, WriteRefusal> {
        self.gate.pass().await;
        if self.life.is_down() {
            return Err(restart::not_done());
        }
        let (reply, answer) = oneshot::channel();
        let panics = self.life.panics();
        let signed = Signed { write, author, condition };
        match self.commands.try_send(ReconcileCommand::Write(signed, reply)) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                return Err(WriteRefusal::Store("too many writes are waiting".to_owned()));
            }
            Err(TrySendError::Disconnected(_)) => return Err(stopping()),
        }
        answer.await.unwrap_or_else(|_| Err(self.lost(panics)))
    }

    /// Why there is no answer to a write that was sent when the thread had panicked so often.
    fn lost(&self, panics: u64) -> WriteRefusal {
        if self.life.panics() == panics { stopping() } else { restart::not_known() }
    }

    /// Runs a closure on the thread between its writes; none if the thread is too busy, or stopping.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        task: impl FnOnce(&mut ControlLoop) -> T + Send + 'static,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        // The caller may have dropped its future, so a failed send is ignored.
        let task = ReconcileTask(Box::new(move |control| drop(reply.send(task(control)))));
        self.commands.try_send(ReconcileCommand::Task(task)).ok()?;
        answer.await.ok()
    }

    /// As [`Reconcile::run`], for a task that writes.
    pub(crate) async fn change<T: Send + 'static>(
        &self,
        task: impl FnOnce(&mut ControlLoop) -> T + Send + 'static,
    ) -> Option<T> {
        self.gate.pass().await;
        self.run(task).await
    }

    /// The gate that writes pass.
    pub(crate) fn gate(&self) -> &WriteGate {
        &self.gate
    }

    /// Reads the file again now; the answer is the list of faults. With etcd, starts reading everything again
    /// and does not wait for it. With the store it does nothing.
    pub async fn reload(&self) -> Vec<String> {
        let (reply, answer) = oneshot::channel();
        if self.commands.try_send(ReconcileCommand::Reload(reply)).is_err() {
            return vec!["the gateway is too busy to reload, or stopping".to_owned()];
        }
        answer.await.unwrap_or_default()
    }

    /// Requests that the file is read again and does not wait for it; for signal handlers.
    pub fn request_reload(&self) {
        let (reply, _) = oneshot::channel();
        if self.commands.try_send(ReconcileCommand::Reload(reply)).is_err() {
            tracing::warn!("a reload was asked for, but the control thread is too busy");
        }
    }

    /// Requests that the data in etcd is taken over, even if it is older than the data that this instance has
    /// served. With another source it does nothing. False if the thread's queue is full.
    pub fn adopt(&self) -> bool {
        self.commands.try_send(ReconcileCommand::Adopt).is_ok()
    }

    /// Requests that the thread ends after the commands that already wait.
    pub fn stop(&self) {
        // A full channel has capacity again after a wait; a closed one means that the thread has ended.
        let _ = self.commands.send(ReconcileCommand::Stop);
    }
}

/// A write, its author, and the state that it expects.
#[derive(Debug, Clone)]
pub(crate) struct Signed {
    write: Write,
    author: Author,
    condition: WriteCondition,
}

/// The thread: commands come in, and go through the source to the reconciler.
pub(crate) struct ControlLoop {
    source: Box<dyn ConfigSource>,
    reconciler: Reconciler,
    inbox: Receiver<ReconcileCommand>,
}

/// The configuration in force and everything that is known of it. Sources bring changes to it.
pub(crate) struct Reconciler {
    parts: ReconcileParts,
    facts: SourceFacts,
    /// The configuration of the source.
    snapshot: Snapshot,
    /// Routes that are laid over it.
    automatic: automatic::Automatic,
    /// Faults of the source, each as a line: all faults of a file, or records of the store that are no
    /// objects.
    faults: Vec<String>,
    /// Those faults of the file that belong to no object.
    document_faults: Vec<String>,
    /// Faults that the compiler found and no later change has removed.
    compile_faults: Vec<ConfigFault>,
    /// References to secrets that are not resolved, in objects that are in force nevertheless.
    reference_faults: Vec<ConfigFault>,
    /// Good forms of objects that are faulty now, on disk.
    good: good::GoodForms,
    /// Faults that keep this instance from being ready.
    start_faults: start_faults::StartFaults,
    /// The faulty objects that were reported in the log.
    fault_log: fault_log::FaultLog,
    /// Whether the thread has waited for the secret values of the first configuration.
    secrets_awaited: bool,
    /// The statement of the last whole set by the Admin API about itself.
    configs: Arc<SetStatement>,
    /// The newest change that is known of, and its time in milliseconds; kept by sources that have such.
    changed: Option<(u64, u64)>,
    /// The state of etcd, kept by that source.
    etcd: Option<EtcdStatus>,
    /// The last failure of a write, until one succeeds.
    write_failure: Option<WriteFailure>,
}

impl ControlLoop {
    /// Serves commands and ticks until the thread is to end.
    fn run(&mut self) {
        let mut next_tick = Instant::now() + TICK;
        loop {
            match self.inbox.recv_timeout(next_tick.saturating_duration_since(Instant::now())) {
                Ok(command) => {
                    if self.serve(command) == Flow::Stop {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if Instant::now() >= next_tick {
                self.tick();
                next_tick = Instant::now() + TICK;
            }
        }
    }

    /// Serves one command and the writes that wait directly behind it.
    fn serve(&mut self, command: ReconcileCommand) -> Flow {
        let mut writes = Vec::new();
        let mut next = Some(command);
        while let Some(command) = next.take() {
            match command {
                ReconcileCommand::Write(signed, reply) => {
                    writes.push((signed, reply));
                    if writes.len() < MAX_BATCH {
                        next = self.inbox.try_recv().ok();
                    }
                }
                other => {
                    self.write_all(std::mem::take(&mut writes));
                    return self.serve_other(other);
                }
            }
        }
        self.write_all(writes);
        Flow::Continue
    }

    fn serve_other(&mut self, command: ReconcileCommand) -> Flow {
        self.source.take_updates(&mut self.reconciler);
        match command {
            ReconcileCommand::Reload(reply) => {
                let faults = self.source.reload(&mut self.reconciler);
                // The caller may have dropped its future, so a failed send is ignored.
                let _ = reply.send(faults);
                Flow::Continue
            }
            ReconcileCommand::Adopt => {
                self.source.adopt(&mut self.reconciler);
                Flow::Continue
            }
            ReconcileCommand::Secrets => {
                self.reconciler.take_changed_secrets();
                self.reconciler.take_changed_staples();
                Flow::Continue
            }
            // They are taken by now.
            ReconcileCommand::Updates => Flow::Continue,
            ReconcileCommand::Release(release) => self.release(&release),
            ReconcileCommand::Task(task) => {
                (task.0)(self);
                Flow::Continue
            }
            ReconcileCommand::Stop => Flow::Stop,
            ReconcileCommand::Write(..) => unreachable!("the caller has served them"),
        }
    }

    fn write_all(&mut self, writes: Vec<(Signed, oneshot::Sender<Result<Done, WriteRefusal>>)>) {
        if writes.is_empty() {
            return;
        }
        let (writes, replies): (Vec<_>, Vec<_>) = writes.into_iter().unzip();
        for (result, reply) in self.write(writes).into_iter().zip(replies) {
            // The write is done even if the client has disconnected, so a failed send is ignored.
            let _ = reply.send(result);
        }
    }

    /// Does the writes, in order, as far as they are allowed; one result each.
    fn write(&mut self, writes: Vec<Signed>) -> Vec<Result<Done, WriteRefusal>> {
        // Updates come first: a write is answered when its own has been taken.
        self.source.take_updates(&mut self.reconciler);
        let results = match self.source.catch_up(&mut self.reconciler) {
            Ok(()) => self.source.write(&mut self.reconciler, writes),
            Err(fault) => vec![Err(WriteRefusal::Store(fault.to_string())); writes.len()],
        };
        self.reconciler.note_writes(&results);
        results
    }

    /// Periodic work, each second.
    fn tick(&mut self) {
        self.reconciler.parts.catalog.release_unused();
        self.reconciler.parts.secrets.check_files();
        self.reconciler.take_changed_secrets();
        self.reconciler.take_changed_staples();
        self.reconciler.take_automatic_routes();
        self.reconciler.expire();
        self.source.take_updates(&mut self.reconciler);
        self.source.tick(&mut self.reconciler);
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Continue,
    Stop,
}

fn stopping() -> WriteRefusal {
    WriteRefusal::Store("the gateway is stopping".to_owned())
}

/// Capacity of the command queue. The Admin listener has fewer seats, so that its requests never fill it.
const MAX_WAITING: usize = 1024;
/// Writes in one transaction, so that one fsync serves many; more would delay the first answers by more than
/// a few milliseconds of checks.
const MAX_BATCH: usize = 256;
/// Interval at which files are checked and expired objects removed (APISIX checks once a second).
const TICK: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
