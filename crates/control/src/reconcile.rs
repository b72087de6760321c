//! The one thread that owns the configuration. Writes, reloads and expiries arrive over a channel, pass the source, the
//! snapshot and the publisher in that order, and are answered when they are in force. It knows neither HTTP nor the
//! data plane.
//!
//! Writes that wait at the same time share one durable transaction, so that one fsync serves many.

mod batch;
pub(crate) mod configs;
mod etcd;
mod file;
mod gate;
mod good;
mod journal;
mod release;
mod secrets;
mod start_faults;
mod told;
pub(crate) mod versions;
pub(crate) mod whole;
mod write;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::{Applied, Catalog, Change, Fault, Snapshot};
use thiserror::Error;
use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::sealing::{Medium, Sealer};
use crate::secret::Secrets;
use crate::source::etcd::{EtcdSource, EtcdSourceError, Update};
use crate::source::file::FileSource;
use crate::source::store::{Store, StoreError};
use crate::stored_key;
use crate::view::{SharedView, View};

pub use configs::Configs;
pub use gate::WriteGate;
pub use release::{HandOver, Released};
pub use write::{Author, Done, Part, Refused, Write};

/// Brings a snapshot into force for requests.
pub trait Publisher: Send {
    /// Compiles the objects that differ and passes them to every worker. Returns every fault that only the compiler
    /// finds, of this change and of earlier ones, as long as it exists; a fault says whether the object's former
    /// compiled form is kept.
    fn publish(&mut self, applied: &Applied) -> Vec<Fault>;
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

/// The source of the configuration.
#[derive(Debug)]
pub enum Source {
    /// The embedded store; the Admin API writes it.
    Store(Store),
    /// A declarative file; the Admin API only reads. `strict`: a file with any fault changes nothing.
    File {
        file: FileSource,
        /// All or nothing.
        strict: bool,
    },
    /// etcd, which several instances share; the Admin API of each writes it.
    Etcd(Box<EtcdSource>),
}

/// The parts of the reconciling thread.
pub struct Parts {
    pub source: Source,
    /// All plugins of this gateway.
    pub catalog: Arc<Catalog>,
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
    /// The data directory, where good forms of objects that have become faulty are kept; none: the forms last as long
    /// as the process.
    pub data: Option<PathBuf>,
}

/// Sends commands to the reconciling thread.
#[derive(Debug, Clone)]
pub struct Reconcile {
    commands: SyncSender<Command>,
    gate: WriteGate,
}

/// A command for the thread.
#[derive(Debug)]
enum Command {
    Write(Write, Author, oneshot::Sender<Result<Done, Refused>>),
    Reload(oneshot::Sender<Vec<String>>),
    Adopt,
    Etcd(Update),
    Secrets,
    Release(release::Release),
    Task(Task),
    Stop,
}

/// A closure that runs on the thread; it sends its result itself.
struct Task(Box<dyn FnOnce(&mut Reconciler) + Send>);

impl std::fmt::Debug for Task {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Task")
    }
}

impl Reconcile {
    /// Loads the source, publishes its objects and starts the thread. When this returns, the configuration is in force.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn start(parts: Parts) -> Result<(Reconcile, JoinHandle<()>), LoadError> {
        let (commands, inbox) = sync_channel(MAX_WAITING);
        let good = good::GoodForms::load(&parts);
        let mut reconciler = Reconciler {
            parts,
            good,
            start_faults: start_faults::StartFaults::default(),
            snapshot: Snapshot::default(),
            faults: Vec::new(),
            document_faults: Vec::new(),
            compile_faults: Vec::new(),
            reference_faults: Vec::new(),
            told: told::Told::default(),
            behind: false,
            secrets_awaited: false,
            inbox,
            deferred: VecDeque::new(),
            configs: Arc::default(),
        };
        let poke = commands.clone();
        // If the queue is full, the next tick finds the changed secrets.
        reconciler.parts.secrets.on_change(move || drop(poke.try_send(Command::Secrets)));
        reconciler.load(&commands)?;
        reconciler.note_start_faults();
        let thread = std::thread::Builder::new()
            .name("reconcile".to_owned())
            .spawn(move || reconciler.run())
            .map_err(LoadError::Thread)?;
        Ok((Reconcile { commands, gate: WriteGate::default() }, thread))
    }

    /// Sends a write; the answer comes when the write is durable and published.
    pub async fn write(&self, write: Write, author: Author) -> Result<Done, Refused> {
        self.gate.pass().await;
        let (reply, answer) = oneshot::channel();
        match self.commands.try_send(Command::Write(write, author, reply)) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                return Err(Refused::Store("too many writes are waiting".to_owned()));
            }
            Err(TrySendError::Disconnected(_)) => return Err(stopping()),
        }
        answer.await.unwrap_or_else(|_| Err(stopping()))
    }

    /// Runs a closure on the thread between its writes; none if the thread is too busy, or stopping.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        task: impl FnOnce(&mut Reconciler) -> T + Send + 'static,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        // The caller may have dropped its future, so a failed send is ignored.
        let task = Task(Box::new(move |reconciler| drop(reply.send(task(reconciler)))));
        self.commands.try_send(Command::Task(task)).ok()?;
        answer.await.ok()
    }

    /// As [`Reconcile::run`], for a task that writes.
    pub(crate) async fn change<T: Send + 'static>(
        &self,
        task: impl FnOnce(&mut Reconciler) -> T + Send + 'static,
    ) -> Option<T> {
        self.gate.pass().await;
        self.run(task).await
    }

    /// The gate that writes pass.
    pub(crate) fn gate(&self) -> &WriteGate {
        &self.gate
    }

    /// Reads the file again now; the answer is the list of faults. With etcd, starts reading everything again and does
    /// not wait for it. With the store it does nothing.
    pub async fn reload(&self) -> Vec<String> {
        let (reply, answer) = oneshot::channel();
        if self.commands.try_send(Command::Reload(reply)).is_err() {
            return vec!["the gateway is too busy to reload, or stopping".to_owned()];
        }
        answer.await.unwrap_or_default()
    }

    /// Requests that the file is read again and does not wait for it; for signal handlers.
    pub fn request_reload(&self) {
        let (reply, _) = oneshot::channel();
        if self.commands.try_send(Command::Reload(reply)).is_err() {
            tracing::warn!("a reload was asked for, but the control thread is too busy");
        }
    }

    /// Requests that the data in etcd is taken over, even if it is older than the data that this instance has served.
    /// With another source it does nothing. False if the thread's queue is full.
    pub fn adopt(&self) -> bool {
        self.commands.try_send(Command::Adopt).is_ok()
    }

    /// Requests that the thread ends after the commands that already wait.
    pub fn stop(&self) {
        // A full channel has capacity again after a wait; a closed one means that the thread has ended.
        let _ = self.commands.send(Command::Stop);
    }
}

/// A write and its author.
type Signed = (Write, Author);

/// The thread's own state.
pub(crate) struct Reconciler {
    parts: Parts,
    snapshot: Snapshot,
    /// Faults of the source, each as a line: all faults of a file, or records of the store that are no objects.
    faults: Vec<String>,
    /// Those faults of the file that belong to no object.
    document_faults: Vec<String>,
    /// Faults that the compiler found and no later change has removed.
    compile_faults: Vec<Fault>,
    /// References to secrets that are not resolved, in objects that are in force nevertheless.
    reference_faults: Vec<Fault>,
    /// Good forms of objects that are faulty now, on disk.
    good: good::GoodForms,
    /// Faults that keep this instance from being ready.
    start_faults: start_faults::StartFaults,
    /// The faulty objects that were reported in the log.
    told: told::Told,
    /// Whether the store was released to another process and may hold more than the snapshot.
    behind: bool,
    /// Whether the thread has waited for the secret values of the first configuration.
    secrets_awaited: bool,
    inbox: Receiver<Command>,
    /// Commands that arrived while the thread waited for another one.
    deferred: VecDeque<Command>,
    /// The statement of the last whole set by the Admin API about itself.
    configs: Arc<Configs>,
}

impl Reconciler {
    fn run(mut self) {
        let mut next_tick = Instant::now() + TICK;
        loop {
            match self.receive(next_tick) {
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

    /// The next command; deferred commands come first.
    fn receive(&mut self, deadline: Instant) -> Result<Command, RecvTimeoutError> {
        match self.deferred.pop_front() {
            Some(command) => Ok(command),
            None => self.inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())),
        }
    }

    /// Serves one command and the writes that wait directly behind it.
    fn serve(&mut self, command: Command) -> Flow {
        let mut writes = Vec::new();
        let mut next = Some(command);
        while let Some(command) = next.take() {
            match command {
                Command::Write(write, author, reply) => {
                    writes.push(((write, author), reply));
                    if writes.len() < MAX_BATCH {
                        next = self.deferred.pop_front().or_else(|| self.inbox.try_recv().ok());
                    }
                }
                // Updates from etcd come first, because writes are answered when the follower has reported them.
                Command::Etcd(update) => {
                    self.take(update);
                    next = self.deferred.pop_front().or_else(|| self.inbox.try_recv().ok());
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

    fn serve_other(&mut self, command: Command) -> Flow {
        match command {
            Command::Reload(reply) => {
                let faults = self.reload();
                // The caller may have dropped its future, so a failed send is ignored.
                let _ = reply.send(faults);
                Flow::Continue
            }
            Command::Adopt => {
                self.read_etcd_again(true);
                Flow::Continue
            }
            Command::Secrets => {
                self.take_changed_secrets();
                Flow::Continue
            }
            Command::Release(release) => self.release(&release),
            Command::Task(task) => {
                (task.0)(self);
                Flow::Continue
            }
            Command::Stop => Flow::Stop,
            Command::Write(..) | Command::Etcd(_) => unreachable!("the caller has served them"),
        }
    }

    fn write_all(&mut self, writes: Vec<(Signed, oneshot::Sender<Result<Done, Refused>>)>) {
        if writes.is_empty() {
            return;
        }
        let (writes, replies): (Vec<_>, Vec<_>) = writes.into_iter().unzip();
        for (result, reply) in self.write(writes).into_iter().zip(replies) {
            // The write is done even if the client has disconnected, so a failed send is ignored.
            let _ = reply.send(result);
        }
    }

    /// Loads the first configuration.
    fn load(&mut self, commands: &SyncSender<Command>) -> Result<(), LoadError> {
        match &mut self.parts.source {
            Source::Etcd(_) => self.load_from_etcd(commands),
            Source::Store(store) => {
                let revision = store.revision();
                let mut changes: Vec<Change> = Vec::new();
                for (path, record) in store.load()? {
                    match stored_key::parse(&path) {
                        Some(key) => {
                            changes.push(stored_key::change(&self.parts.sealer, Medium::Store, key, record))
                        }
                        None => {
                            let fault =
                                format!("the store holds {path}, which is no object this version knows");
                            tracing::error!("{fault}");
                            self.faults.push(fault);
                        }
                    }
                }
                self.configs = Configs::load(store)?;
                self.apply_first(changes, revision);
                Ok(())
            }
            Source::File { strict, .. } => {
                let strict = *strict;
                let faults = self.reload();
                // A file that cannot be taken over has no last good form yet, so that the gateway would serve an empty
                // configuration.
                if self.snapshot.revision() == 0 || (strict && !faults.is_empty()) {
                    return Err(LoadError::File(faults.join("\n")));
                }
                Ok(())
            }
        }
    }

    /// Periodic work, each second.
    fn tick(&mut self) {
        self.parts.catalog.release_unused();
        self.take_changed_secrets();
        match &mut self.parts.source {
            Source::Store(_) => self.sweep(),
            Source::File { file, .. } => {
                if file.changed() {
                    self.reload();
                }
            }
            Source::Etcd(etcd) => etcd.tick(),
        }
    }

    /// Passes a new snapshot to workers and readers.
    fn publish(&mut self, applied: Applied) {
        self.good.keep(&self.parts.sealer, &applied.snapshot);
        self.hand_over(applied);
    }

    /// As [`Reconciler::publish`]; the good forms on disk stay unchanged.
    fn hand_over(&mut self, applied: Applied) {
        self.prepare_secrets(&applied);
        let publisher = &mut self.parts.publisher;
        // The configuration is already checked and stored, so that a bug in the compiler must not end the control side.
        let faults = catch_unwind(AssertUnwindSafe(|| publisher.publish(&applied))).unwrap_or_else(|_| {
            vec![Fault::general(format!(
                "revision {} cannot be compiled: a panic",
                applied.snapshot.revision()
            ))]
        });
        for fault in faults.iter().filter(|fault| fault.key.is_none()) {
            tracing::error!(%fault, "the configuration cannot be compiled");
        }
        self.compile_faults = faults;
        self.compile_faults.truncate(MAX_COMPILE_FAULTS);
        let touched =
            |fault: &Fault| applied.diff.iter().any(|difference| Some(&difference.key) == fault.key.as_ref());
        self.reference_faults.retain(|fault| !touched(fault));
        self.reference_faults.extend(self.secret_faults(&applied));
        self.reference_faults.truncate(MAX_COMPILE_FAULTS);
        self.snapshot = applied.snapshot;
        let touched = applied.faults.into_iter().chain(self.compile_faults.iter().cloned());
        let touched = touched.filter_map(|fault| fault.key).collect();
        // Faults of objects in a file are logged elsewhere, with their lines.
        let elsewhere = matches!(self.parts.source, Source::File { .. });
        told::tell_skipped(&applied.diff);
        self.start_faults.settle(&self.snapshot, &self.compile_faults);
        let view = self.view();
        self.told.tell(&view, touched, elsewhere);
        self.parts.view.store(view);
    }

    /// The newest known change, and its time in milliseconds.
    fn changed(&self) -> Option<(u64, u64)> {
        match &self.parts.source {
            Source::Store(store) => store.latest_change(),
            Source::File { .. } | Source::Etcd(_) => None,
        }
    }

    /// Replaces the view for readers.
    fn show(&self) {
        self.parts.view.store(self.view());
    }

    fn view(&self) -> View {
        let mut view = View {
            snapshot: self.snapshot.clone(),
            skips_plugins: self.parts.catalog.ignores_any(),
            unready: Vec::new(),
            faults: self.faults.clone(),
            compile_faults: self.compile_faults.clone(),
            reference_faults: self.reference_faults.clone(),
            etcd: match &self.parts.source {
                Source::Etcd(etcd) => Some(etcd.status.clone()),
                Source::Store(_) | Source::File { .. } => None,
            },
            configs: Arc::clone(&self.configs),
            changed: self.changed(),
        };
        view.unready = self.start_faults.reasons(&view);
        view
    }
}

impl Drop for Reconciler {
    fn drop(&mut self) {
        self.parts.secrets.stop();
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Flow {
    Continue,
    Stop,
}

fn stopping() -> Refused {
    Refused::Store("the gateway is stopping".to_owned())
}

/// Capacity of the command queue. The Admin listener has fewer seats, so that its requests never fill it.
const MAX_WAITING: usize = 1024;
/// Limit of compile faults that are kept. The first thousand usually show the cause.
const MAX_COMPILE_FAULTS: usize = 1000;
/// Writes in one transaction, so that one fsync serves many; more would delay the first answers by more than a few
/// milliseconds of checks.
const MAX_BATCH: usize = 256;
/// Interval at which files are checked and expired objects removed (APISIX checks once a second).
const TICK: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
