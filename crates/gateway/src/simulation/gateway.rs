//! The gateway inside a simulation: its workers run on one executor instead of threads. Publishes
//! configurations, drains, stops and restarts workers as the engine and the control side do.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};

use model::catalog::{PluginCatalog, PluginInfo};
use model::snapshot::{FaultPolicy, Snapshot, SnapshotChange};
use model::{ObjectKey, ObjectKind, WrittenObject};
use serde_json::Value;
use stdx::published::Published;
use tokio::sync::mpsc::UnboundedReceiver;

use super::ledger::Ledger;
use super::names::{self, Names};
use super::plan::{Plan, Plant, proxy_address, second_address};
use super::plugins;
use crate::command::{self, Handle, ListenerClosing, WorkerCommand};
use crate::compile::SnapshotCompiler;
use crate::context::ContextParts;
use crate::observe::idle_counts::IdleState;
use crate::runtime::Runtime;
use crate::upstream::warnings::UpstreamWarnings;
use crate::worker::{self, Worker, WorkerParts};
use exchange::client_address::RealIpOptions;
use exchange::observe::metrics::WorkerMetrics;
use exchange::options::ForwardOptions;
use exchange::options::Options;
use exchange::overload::OverloadState;
use exchange::plugin::outbound::OutboundPolicy;
use exchange::plugin::services::Services;
use net::env::memory::{self, TaskGroup, end_worker, note, spawn_worker, streams_of, tasks_of};
use net::listener::{self, ListenerSet, Protocols, WantedListener};
use net::resolver::Resolver;

/// A gateway with all its workers in memory.
pub(crate) struct Gateway {
    plan: Rc<Plan>,
    ledger: Rc<Ledger>,
    options: Arc<Options>,
    published: Arc<Published<Runtime>>,
    reclaimer: std::sync::mpsc::Sender<Arc<Runtime>>,
    dead: Receiver<Arc<Runtime>>,
    control: RefCell<Control>,
    lives: RefCell<Vec<Life>>,
    handles: Vec<Handle>,
    listeners: Arc<Published<ListenerSet>>,
    shared: Arc<OverloadState>,
    upstream_warnings: Arc<UpstreamWarnings>,
}

/// The control side: the snapshot, its compiler and the revision.
struct Control {
    compiler: SnapshotCompiler,
    snapshot: Snapshot,
    revision: u64,
}

/// A worker and the tasks that run it.
struct Life {
    worker: Rc<Worker>,
    group: TaskGroup,
    commands: Commands,
}

/// The receiving end of a worker's commands; it survives a restart of the worker's event loop.
type Commands = Rc<Cell<Option<UnboundedReceiver<WorkerCommand>>>>;

/// The commands while an event loop borrows them; dropping it gives them back to `home`.
struct Checkout {
    receiver: Option<UnboundedReceiver<WorkerCommand>>,
    home: Commands,
}

impl Drop for Checkout {
    fn drop(&mut self) {
        self.home.set(self.receiver.take());
    }
}

fn catalog() -> &'static PluginCatalog {
    static CATALOG: OnceLock<PluginCatalog> = OnceLock::new();
    CATALOG.get_or_init(|| {
        let info = |kind: &&exchange::plugin::PluginKind| {
            PluginInfo::new(kind.name, i64::from(kind.priority), (kind.schema)())
        };
        PluginCatalog::new(plugins::KINDS.iter().map(info).collect()).unwrap()
    })
}

/// The addresses that the listeners must have, with the second one or without.
fn wanted(second: bool) -> Vec<WantedListener> {
    let addresses = [Some(proxy_address()), second.then(second_address)];
    let wanted = |address| WantedListener { address, protocols: Protocols::HTTP1 };
    addresses.into_iter().flatten().map(wanted).collect()
}

/// A change as a source would hand it to the control side; an absent `object` deletes.
pub(crate) fn change(kind: ObjectKind, id: &str, object: Option<&Value>, revision: u64) -> SnapshotChange {
    let key = ObjectKey::new(kind, id).unwrap();
    let written = object.map(|object| WrittenObject {
        key: key.clone(),
        text: object.to_string().into(),
        created_index: revision,
        modified_index: revision,
    });
    SnapshotChange { key, written }
}

impl Gateway {
    /// Starts a gateway with the configuration `first`; its workers run once the executor does.
    pub(crate) fn new(
        plan: &Rc<Plan>,
        ledger: &Rc<Ledger>,
        names: &Names,
        first: &[(ObjectKind, String, Value)],
    ) -> Gateway {
        let options = Options {
            path: router::path::PathOptions::default(),
            real_ip: RealIpOptions::default(),
            forward: ForwardOptions {
                trusted_addresses: Vec::new(),
                via: Some("weir".into()),
                server: None,
                show_upstream_status: false,
                error_header: false,
                accel_fields: false,
                html_errors: true,
                alt_svc: exchange::options::AltSvc::default(),
            },
            limits: plan.limits,
            upstream_timeouts: plan.timeouts,
            pin: false,
            challenges: None,
            https_port: 9443,
            mutual_tls_over_http: false,
            http1_only: Vec::new(),
        };
        let resolver = Resolver::start(Arc::new(names.clone()), names::BOUNDS).unwrap();
        let services = Arc::new(Services::new(resolver, OutboundPolicy::default()));
        let compiler =
            SnapshotCompiler::new(plugins::KINDS, router::Mode::default(), plan.timeouts, services);
        let mut control = Control { compiler, snapshot: Snapshot::empty(), revision: 0 };
        let changes: Vec<SnapshotChange> =
            first.iter().map(|(kind, id, object)| change(*kind, id, Some(object), 1)).collect();
        let runtime = control.apply(&changes);
        let (reclaimer, dead) = channel();
        let (handles, receivers): (Vec<_>, Vec<_>) = (0..plan.workers).map(|_| command::channel()).unzip();
        let listeners = listener::bind_all(&[], &wanted(plan.second_listener), plan.workers).unwrap();
        let gateway = Gateway {
            plan: plan.clone(),
            ledger: ledger.clone(),
            options: Arc::new(options),
            published: Arc::new(Published::new(runtime)),
            reclaimer,
            dead,
            control: RefCell::new(control),
            lives: RefCell::default(),
            handles,
            listeners: Arc::new(Published::new(Arc::new(listeners))),
            shared: Arc::default(),
            upstream_warnings: Arc::default(),
        };
        for (index, receiver) in receivers.into_iter().enumerate() {
            let life = gateway.start(index, Rc::new(Cell::new(Some(receiver))));
            gateway.lives.borrow_mut().push(life);
        }
        gateway
    }

    fn start(&self, index: usize, commands: Commands) -> Life {
        let worker = Worker::new(WorkerParts {
            index,
            seat: index,
            options: self.options.clone(),
            listeners: self.listeners.clone(),
            shared: self.shared.clone(),
            quic: net::quic::QuicProcess::first().unwrap(),
            context: ContextParts {
                published: self.published.clone(),
                reclaimer: self.reclaimer.clone(),
                status: self.handles[index].status.clone(),
                upstream_warnings: self.upstream_warnings.clone(),
                metrics: WorkerMetrics::default(),
                access_log: None,
                session_log: None,
            },
        });
        let (inner, home, peers) = (worker.clone(), commands.clone(), self.handles.clone());
        let group = spawn_worker(async move {
            let mut checkout = Checkout { receiver: home.take(), home };
            let receiver = checkout.receiver.as_mut().expect("one loop at a time");
            worker::run_worker_tasks(inner, peers, receiver).await;
        });
        Life { worker, group, commands }
    }

    /// The running worker with this number.
    pub(crate) fn worker(&self, index: usize) -> Rc<Worker> {
        self.lives.borrow()[index].worker.clone()
    }

    /// Applies and publishes a change.
    pub(crate) fn publish(&self, kind: ObjectKind, id: &str, object: Option<&Value>) {
        let runtime = {
            let mut control = self.control.borrow_mut();
            let revision = control.revision + 1;
            control.apply(&[change(kind, id, object, revision)])
        };
        self.published.publish(runtime);
        self.dead.try_iter().for_each(drop);
    }

    /// Adds or removes the second listener as the engine does; false if its address is still in use.
    pub(crate) fn listen(&self, second: bool) -> bool {
        let Ok(plan) = listener::plan(&self.listeners.load(), &wanted(second), self.plan.workers) else {
            return false;
        };
        note(|| format!("listeners: {:?}", plan.change));
        plan.removed.iter().for_each(|listener| listener.close());
        self.listeners.publish(Arc::new(plan.set));
        self.tell(|| WorkerCommand::Listeners);
        true
    }

    /// Ends a worker's event loop and starts it again, as after a panic.
    pub(crate) fn upset(&self, index: usize) {
        if self.ledger.stop_ns.get() != u64::MAX {
            return;
        }
        note(|| format!("worker {index} ends and is started again"));
        self.ledger.upset();
        let life = self.lives.borrow_mut().remove(index);
        end_worker(life.group);
        let life = self.start(index, life.commands);
        self.lives.borrow_mut().insert(index, life);
    }

    fn tell(&self, command: impl Fn() -> WorkerCommand) {
        for handle in &self.handles {
            // A worker that has ended needs no command.
            let _ = handle.commands.send(command());
        }
    }

    /// Stops accepting and lets exchanges end.
    pub(crate) fn drain(&self) {
        note(|| "drain".to_owned());
        self.ledger.drain_ns.set(memory::monotonic_ns());
        self.listeners.load().iter().for_each(|listener| listener.close());
        self.tell(|| WorkerCommand::Drain(ListenerClosing::at_once(self.plan.farewell_ms)));
    }

    /// Stops the workers.
    pub(crate) fn stop(&self) {
        note(|| "stop".to_owned());
        self.ledger.stop_ns.set(memory::monotonic_ns());
        self.tell(|| WorkerCommand::Stop);
    }

    /// Open downstream connections, as counted by the workers.
    pub(crate) fn connections(&self) -> usize {
        self.handles.iter().map(|handle| handle.status.connections.load(Ordering::Relaxed)).sum()
    }

    /// Requests served, as counted by the workers.
    pub(crate) fn requests(&self) -> u64 {
        self.handles.iter().map(|handle| handle.status.requests.load(Ordering::Relaxed)).sum()
    }

    /// Checks that every counter is back at zero and all streams and timers are released while no request is
    /// in flight.
    pub(crate) fn judge_at_rest(&self) {
        let leaving: usize =
            self.handles.iter().map(|handle| handle.status.leaving.load(Ordering::Relaxed)).sum();
        if leaving != 0 {
            self.ledger.violation(format!("{leaving} connections are about to give way when all is over"));
        }
        if self.plan.planted == Some(Plant::CountLeaks) {
            self.handles[0].status.connections.fetch_add(1, Ordering::Relaxed);
        }
        let check = |what: &str, index: usize, found: usize, wanted: usize| {
            if found != wanted {
                self.ledger
                    .violation(format!("worker {index} has {found} {what}, not {wanted}, when all is over"));
            }
        };
        for (index, life) in self.lives.borrow().iter().enumerate() {
            let worker = &life.worker;
            let pooled = worker.context.upstreams.pools().borrow().len();
            check(
                "connections counted",
                index,
                self.handles[index].status.connections.load(Ordering::Relaxed),
                0,
            );
            check("streams", index, streams_of(life.group), pooled);
            check("timers", index, worker.context.local.timers.borrow().registered(), 0);
            let silent = |silence: &IdleState| self.handles[index].status.idle.count(*silence) as usize;
            check("silent connections", index, IdleState::ALL.iter().map(silent).sum(), 0);
            check("requests under way at nodes", index, worker.context.upstreams.attempts_in_flight(), 0);
        }
        for (_, upstream) in self.published.load().upstreams.iter() {
            let protection = upstream.protection.as_ref();
            let places = protection.map_or(0, |protection| protection.places(&upstream.nodes.load()));
            if places != 0 {
                self.ledger
                    .violation(format!("{places} places of {} are held when all is over", upstream.identity));
            }
        }
    }

    /// Checks that only the loops of the workers run after the drain.
    pub(crate) fn judge_drained(&self) {
        for (index, life) in self.lives.borrow().iter().enumerate() {
            let tasks = tasks_of(life.group);
            // The worker's body and its slow loop.
            if tasks != 2 {
                self.ledger.violation(format!("worker {index} still runs {tasks} tasks after its drain"));
            }
            if streams_of(life.group) != 0 {
                self.ledger.violation(format!("worker {index} holds streams after its drain"));
            }
        }
    }

    /// Checks that no task runs and no worker is referenced after the stop.
    pub(crate) fn judge_stopped(&self) {
        for (index, life) in self.lives.borrow().iter().enumerate() {
            if tasks_of(life.group) + streams_of(life.group) != 0 {
                self.ledger.violation(format!("worker {index} still runs after its stop"));
            }
            let holders = Rc::strong_count(&life.worker);
            if holders != 1 {
                self.ledger.violation(format!("worker {index} is held {holders} times after its stop"));
            }
        }
    }
}

impl Control {
    fn apply(&mut self, changes: &[SnapshotChange]) -> Arc<Runtime> {
        self.revision += 1;
        let applied = self.snapshot.apply(catalog(), changes, self.revision, FaultPolicy::Strict);
        let (runtime, faults) = self.compiler.apply(&applied);
        assert_eq!(faults, Vec::new(), "the simulation's configuration is good");
        assert!(applied.faults.is_empty(), "{:?}", applied.faults);
        self.snapshot = applied.snapshot;
        runtime
    }
}
