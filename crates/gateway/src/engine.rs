//! The data plane as the boot code uses it: starts workers, publishes generations and listeners, drains,
//! stops, and reports readiness.

mod crew;
mod life;
mod watch;

use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use stdx::published::Published;
use stdx::threads;
use tokio::sync::oneshot;

use crew::Crew;
use life::Seed;
use watch::StallWatch;

use crate::command::{
    AcceptQueuePolicy, CLOSE_GRACE_MS, EndpointCall, Handle, ListenerClosing, WorkerCommand,
};
use crate::observe::access_log::AccessLog;
use crate::observe::log_writer::LogWriter;
use crate::observe::tap::WorkerTap;
use crate::observe::traffic::history::TrafficHistory;
use crate::observe::{exposition, series_text};
use crate::runtime::Runtime;
use crate::upstream::{Upstream, protection};
use exchange::observe::metrics::SharedSeries;
use exchange::observe::node_loads::{NodeLoadQuery, NodeLoads};
use exchange::options::Options;
use exchange::overload::{OverloadState, memory};
use exchange::plugin::services::Services;
use model::instance::ConnectionCounts;
use model::loaded_endpoint::LoadedEndpoint;
use model::report::{EndpointReply, EndpointRequest};
use net::env;
use net::listener::{self, ListenFault, Listener, ListenerChanges, ListenerSet, WantedListener};
use net::quic::QuicProcess;

/// Interval at which a drain checks whether it is done.
const DRAIN_POLL: Duration = Duration::from_millis(5);
/// The same interval once a drain has taken [`DRAIN_IS_LONG`], because an old process may wait an hour for
/// its last tunnel.
const LONG_DRAIN_POLL: Duration = Duration::from_millis(100);
const DRAIN_IS_LONG: Duration = Duration::from_secs(5);
/// How long a connection that has sent nothing yet may still send its first request when the engine ends: its
/// client has just connected, and would lose the request.
const FIRST_REQUEST_MS: u64 = 2_000;
/// Over how long the kept connections of a process that was replaced are told to close: 10,000 of them come
/// back at 1,000 a second, which costs the new process little.
const SPREAD_MS: u64 = 10_000;
/// Longest delay of a worker's timers, unless the machine is overloaded.
const TIMERS_LATE_MS: u64 = 200;

/// A running data plane.
pub struct Engine {
    published: Arc<Published<Runtime>>,
    listeners: Arc<Published<ListenerSet>>,
    /// Held while the set of listeners changes.
    listening: Mutex<Listens>,
    /// How many workers serve.
    seats: usize,
    crew: Arc<Crew>,
    series: Arc<Mutex<Vec<SharedSeries>>>,
    services: Arc<Services>,
    traffic: Arc<TrafficHistory>,
    shared: Arc<OverloadState>,
    /// The worker that the next request to an endpoint of loaded code goes to.
    next_asked: AtomicUsize,
}

/// Whether the engine may have listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listens {
    Yes,
    /// The engine has begun to end.
    NoMore,
}

/// The parts that an engine is started with.
pub struct EngineConfig {
    /// Limits, deadlines, forwarding.
    pub options: Arc<Options>,
    /// How many workers.
    pub workers: usize,
    /// The first generation.
    pub runtime: Arc<Runtime>,
    /// The access log, if there is one.
    pub access_log: Option<(AccessLog, LogWriter)>,
    /// The log of sessions of layer 4, if there is one.
    pub session_log: Option<(AccessLog, LogWriter)>,
    /// The services that plugins were built with.
    pub services: Arc<Services>,
    /// Keys and generation of the workers' QUIC endpoints.
    pub quic: QuicProcess,
}

impl Engine {
    /// Starts the workers. They accept nothing until they are told where: [`Engine::open`],
    /// [`Engine::listen`].
    ///
    /// # Errors
    /// When a thread cannot be made.
    pub fn start(config: EngineConfig) -> io::Result<Engine> {
        let published = Arc::new(Published::new(config.runtime));
        let listeners: Arc<Published<ListenerSet>> = Arc::new(Published::new(Arc::default()));
        let (handles, ends) = crew::channels(config.workers);
        let (reclaimer, dead) = channel::<Arc<Runtime>>();
        let series: Arc<Mutex<Vec<SharedSeries>>> = Arc::default();
        let shared = Arc::new(OverloadState::new(&config.options));
        let memory_limit_bytes = config.options.limits.memory_limit_bytes;
        if memory_limit_bytes != 0 {
            memory::watch(&shared, |shared| &shared.memory, memory_limit_bytes)?;
            config.services.limit_memory(shared.clone());
        }
        let statuses = handles.iter().map(|worker| worker.status.clone()).collect();
        let traffic = TrafficHistory::begin(statuses, memory_limit_bytes);
        let stands_most_ms = config.options.limits.worker_stall_timeout_ms;
        let seed = Seed {
            index: 0,
            seat: 0,
            options: config.options,
            published: published.clone(),
            listeners: listeners.clone(),
            reclaimer,
            handle: handles[0].clone(),
            shared: shared.clone(),
            upstream_warnings: Arc::default(),
            peers: handles,
            quic: config.quic,
            series: series.clone(),
            access_log: config.access_log,
            session_log: config.session_log,
        };
        let crew = Arc::new(Crew::start(seed, config.workers, ends)?);
        bury_and_watch(&crew, published.clone(), dead, stands_most_ms)?;
        Ok(Engine {
            published,
            listeners,
            listening: Mutex::new(Listens::Yes),
            seats: config.workers,
            crew,
            series,
            services: config.services,
            traffic,
            shared,
            next_asked: AtomicUsize::new(0),
        })
    }

    /// The workers that serve.
    fn workers(&self) -> impl Iterator<Item = &Handle> {
        self.crew.handles().iter().filter(|worker| worker.status.takes_part())
    }

    /// Brings a generation into force: every request that begins from now on is decided by it.
    pub fn publish(&self, runtime: Arc<Runtime>) {
        self.published.publish(runtime);
    }

    /// The generation in force.
    pub fn current(&self) -> Arc<Runtime> {
        self.published.load()
    }

    /// The listeners in force.
    pub fn listeners(&self) -> Arc<ListenerSet> {
        self.listeners.load()
    }

    /// Names the addresses of this process that are not the proxy's: no session goes to one because its
    /// client wanted to.
    pub fn set_other_listeners(&self, addresses: Vec<SocketAddr>) {
        self.shared.own_addresses.set_others(addresses);
    }

    /// Listens on `set` and nothing else.
    pub fn open(&self, set: ListenerSet) {
        let listens = self.listening();
        if *listens == Listens::Yes {
            let old = self.listeners.load();
            let is_gone = |one: &&Arc<Listener>| !set.iter().any(|other| other.id() == one.id());
            let gone: ListenerSet = old.iter().filter(is_gone).cloned().collect();
            self.replace_listeners(set, &gone);
        }
    }

    /// Opens the `wanted` listeners: existing ones are kept untouched, new ones are bound first, and the
    /// others stop accepting. Connections that the kernel has queued at a removed listener are served; its
    /// connections end after the exchange in flight; its tunnels are kept.
    ///
    /// # Errors
    /// The first listener that cannot be bound; nothing has changed then.
    pub fn listen(&self, wanted: &[WantedListener]) -> Result<ListenerChanges, ListenFault> {
        let listens = self.listening();
        if *listens == Listens::NoMore {
            return Ok(ListenerChanges::default());
        }
        let plan = listener::plan(&self.listeners.load(), wanted, self.seats)?;
        self.replace_listeners(plan.set, &plan.removed);
        Ok(plan.change)
    }

    fn replace_listeners(&self, set: ListenerSet, removed: &[Arc<Listener>]) {
        // The kernel accepts as long as one descriptor of the socket is open, so these are closed before the
        // workers close theirs.
        removed.iter().for_each(|listener| listener.close());
        let connections = set.iter().filter(|listener| !listener.wanted().protocols.udp);
        self.shared.own_addresses.set_proxy(connections.map(|listener| listener.address()).collect());
        self.listeners.publish(Arc::new(set));
        self.tell(|| WorkerCommand::Listeners);
    }

    fn listening(&self) -> MutexGuard<'_, Listens> {
        self.listening.lock()
    }

    /// The revision that each worker has taken up.
    pub fn revisions(&self) -> Vec<u64> {
        self.workers().map(|worker| worker.status.revision.load(Ordering::Acquire)).collect()
    }

    /// Whether every worker has a configuration, turns its event loop and accepts connections, and every
    /// other thread runs.
    ///
    /// # Errors
    /// The first worker or thread that does not, as a sentence.
    pub fn ready(&self) -> Result<(), String> {
        let configured = self.workers().map(|worker| worker.status.configured.load(Ordering::Acquire));
        readiness(*self.listening() == Listens::NoMore, configured)?;
        let standing = watch::complaint(self.crew.handles(), now_ms(), || self.current());
        standing.or_else(threads::complaint).map_or(Ok(()), Err)
    }

    /// Sockets that workers accept on, or still serve the queue of.
    fn accepting(&self) -> usize {
        self.workers().map(|worker| worker.status.accepting.load(Ordering::Acquire)).sum()
    }

    /// Open client connections.
    pub fn connections(&self) -> usize {
        self.workers().map(|worker| worker.status.connections.load(Ordering::Relaxed)).sum()
    }

    /// Open sessions of layer 4 over TCP, within TLS too, and over UDP.
    pub fn sessions(&self) -> (usize, usize) {
        let tcp = self.workers().map(|worker| worker.status.sessions.tcp_open.load(Ordering::Relaxed));
        (tcp.sum(), self.datagram_sessions())
    }

    /// Open sessions of layer 4 over UDP.
    fn datagram_sessions(&self) -> usize {
        self.workers().map(|worker| worker.status.sessions.udp_open.load(Ordering::Relaxed)).sum()
    }

    /// Stops accepting, serves the connections that the kernel has queued, lets exchanges end for at most
    /// `grace`, then stops. What plugins have queued is delivered meanwhile and, after the last exchange, in
    /// the rest of `grace`. True if all ended in time.
    pub fn drain(&self, grace: Duration, abandon: &dyn Fn() -> bool) -> bool {
        let first_ms = FIRST_REQUEST_MS.min(part_ms(grace, 2));
        let closing = ListenerClosing { spread_ms: 0, kept_ms: 0, first_ms, queue: AcceptQueuePolicy::Serve };
        self.end(grace, abandon, closing)
    }

    /// As [`Engine::drain`], when another process accepts on the same sockets: the kernel's queue is left to
    /// it, and connections are told to close one after the other, see [`Engine::hand_over_times`].
    pub fn hand_over(&self, grace: Duration, abandon: &dyn Fn() -> bool) -> bool {
        let (spread_ms, wait_ms) = hand_over_ms(grace);
        let closing = ListenerClosing {
            spread_ms,
            kept_ms: wait_ms,
            first_ms: wait_ms,
            queue: AcceptQueuePolicy::Leave,
        };
        self.end(grace, abandon, closing)
    }

    /// The times of [`Engine::hand_over`] with this `grace` for kept connections: during the first time each
    /// connection is told to close with its next response; a connection without a further request is closed
    /// when the second time has passed as well. No exchange begins after that.
    pub fn hand_over_times(grace: Duration) -> (Duration, Duration) {
        let (spread_ms, wait_ms) = hand_over_ms(grace);
        (Duration::from_millis(spread_ms), Duration::from_millis(wait_ms + TIMERS_LATE_MS))
    }

    /// Tells every connection to close at once, during [`Engine::hand_over`].
    pub fn shorten_hand_over(&self) {
        let closing =
            ListenerClosing { spread_ms: 0, kept_ms: 0, first_ms: 0, queue: AcceptQueuePolicy::Leave };
        self.tell(|| WorkerCommand::Drain(closing));
    }

    fn end(&self, grace: Duration, abandon: &dyn Fn() -> bool, closing: ListenerClosing) -> bool {
        *self.listening() = Listens::NoMore;
        self.listeners.load().iter().for_each(|listener| listener.close());
        self.services.flush_now();
        self.tell(|| WorkerCommand::Drain(closing));
        let began = Instant::now();
        let deadline = began + grace;
        // A queue that is still served counts as connections, and is checked first because its entries become
        // connections; these leave work of plugins behind.
        let is_done = || {
            self.accepting() == 0
                && self.connections() == 0
                && self.datagram_sessions() == 0
                && self.services.work_is_done()
        };
        while !is_done() && Instant::now() < deadline && !abandon() {
            std::thread::sleep(if began.elapsed() < DRAIN_IS_LONG { DRAIN_POLL } else { LONG_DRAIN_POLL });
        }
        let all_ended = self.connections() == 0 && self.datagram_sessions() == 0;
        self.stop();
        let left = self.services.settle(deadline, abandon);
        if left > 0 {
            tracing::warn!(
                entries = left,
                "what plugins had to report was not delivered in time and is lost"
            );
        }
        all_ended
    }

    /// Stops at once and waits for the threads.
    pub fn stop(&self) {
        self.tell(|| WorkerCommand::Stop);
        self.crew.join();
    }

    /// The measurements of all workers at the nodes of `only`, or of all upstreams. A worker that does not
    /// answer within `LOADS_WAIT` is left out.
    pub fn loads(&self, only: Option<&Upstream>) -> NodeLoads {
        let (answer, answers) = channel();
        let only = only.map(|upstream| &upstream.nodes);
        self.tell(|| WorkerCommand::Loads(NodeLoadQuery { only: only.cloned(), answer: answer.clone() }));
        drop(answer);
        let deadline = Instant::now() + LOADS_WAIT;
        let mut loads = NodeLoads::default();
        while let Ok(measured) = answers.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            loads.add(measured);
        }
        loads
    }

    /// Lets a worker answer a request of the control API to an endpoint of loaded code; each time the next
    /// one, as the kernel would spread connections. Nothing is sent if the worker cannot answer.
    pub fn ask_endpoint(
        &self,
        endpoint: LoadedEndpoint,
        request: EndpointRequest,
    ) -> oneshot::Receiver<Result<EndpointReply, String>> {
        let (answer, reply) = oneshot::channel();
        let next = self.next_asked.fetch_add(1, Ordering::Relaxed) % self.seats.max(1);
        if let Some(worker) = self.workers().nth(next) {
            let call = Box::new(EndpointCall { endpoint, request, answer });
            // An error drops the sender.
            let _ = worker.commands.send(WorkerCommand::Endpoint(call));
        }
        reply
    }

    /// The rates and figures of the traffic. They are kept up to date from [`TrafficHistory::start`] on.
    pub fn traffic(&self) -> &Arc<TrafficHistory> {
        &self.traffic
    }

    /// The records of single requests, worker by worker.
    pub fn taps(&self) -> impl Iterator<Item = &WorkerTap> {
        self.crew.handles().iter().map(|worker| &worker.status.tap)
    }

    /// The client connections of all workers.
    pub fn connection_counts(&self) -> ConnectionCounts {
        exposition::connection_counts(self.crew.handles().iter().map(|worker| &*worker.status))
    }

    /// Appends all counters in the Prometheus text format.
    pub fn write_metrics(&self, text: &mut String) {
        exposition::write_worker_metrics(self.crew.handles().iter().map(|worker| &*worker.status), text);
        let series = self.series.lock().clone();
        series_text::write_series(&series, text);
        let current = self.current();
        exposition::write_certificates(&current.sites, text);
        protection::metrics::write_protection_metrics(
            current.upstreams.iter().map(|(_, upstream)| &**upstream),
            text,
        );
        self.services.write_metrics(text);
        exposition::write_threads(&threads::lives(), text);
    }

    /// Makes a critical task of every worker panic, so that tests can check the restart.
    #[doc(hidden)]
    pub fn break_workers(&self) {
        self.tell(|| WorkerCommand::Panic);
    }

    fn tell(&self, command: impl Fn() -> WorkerCommand) {
        for worker in self.workers() {
            // A worker that has ended needs no command.
            let _ = worker.commands.send(command());
        }
    }
}

/// Longest wait for the measurements of workers, which answer between two turns of their event loops.
const LOADS_WAIT: Duration = Duration::from_millis(250);

/// A fraction of `grace` in milliseconds.
fn part_ms(grace: Duration, parts: u32) -> u64 {
    u64::try_from((grace / parts).as_millis()).unwrap_or(u64::MAX)
}

/// Over how long connections are told to close, and how long each then waits for a request: both within half
/// of `grace`.
fn hand_over_ms(grace: Duration) -> (u64, u64) {
    (SPREAD_MS.min(part_ms(grace, 4)), CLOSE_GRACE_MS.min(part_ms(grace, 4)))
}

fn readiness(draining: bool, configured: impl Iterator<Item = bool>) -> Result<(), String> {
    if draining {
        return Err("the workers take no new connections: they are being drained".to_owned());
    }
    let waiting = configured.enumerate().filter(|(_, configured)| !configured);
    let waiting: Vec<String> = waiting.map(|(index, _)| index.to_string()).collect();
    match &waiting[..] {
        [] => Ok(()),
        [one] => Err(format!("worker {one} has no configuration yet")),
        several => Err(format!("workers {} have no configuration yet", several.join(", "))),
    }
}

/// Body of the side thread: frees old generations, which for a large configuration takes longer than a
/// request may wait, and checks meanwhile whether the workers turn their event loops. One that has stood for
/// `stands_most_ms` is replaced; 0 is never.
fn bury_and_watch(
    crew: &Arc<Crew>,
    published: Arc<Published<Runtime>>,
    dead: Receiver<Arc<Runtime>>,
    stands_most_ms: u64,
) -> io::Result<()> {
    let mut watch = StallWatch::new(crew.handles().to_vec(), now_ms(), stands_most_ms);
    // Weak, because the crew holds the other end of the channel, which tells the end of the engine.
    let crew = Arc::downgrade(crew);
    let run = move || {
        let mut next_ms = now_ms();
        loop {
            let now = now_ms();
            if now >= next_ms {
                for standing in watch.look(now, || published.load()) {
                    if let Some(crew) = crew.upgrade() {
                        crew.replace_or_exit(standing.index, standing.for_ms, &standing.request);
                    }
                }
                next_ms = now + watch::PERIOD_MS;
            }
            match dead.recv_timeout(Duration::from_millis(next_ms - now.min(next_ms))) {
                Ok(generation) => drop(generation),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    };
    std::thread::Builder::new().name("reclaimer".to_owned()).spawn(run)?;
    Ok(())
}

/// Milliseconds of the clock that workers use for their beat.
fn now_ms() -> u64 {
    env::monotonic_ns() / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_is_ready_when_every_worker_is() {
        let check = |draining: bool, configured: &[bool], reason: &str| {
            let answer = readiness(draining, configured.iter().copied()).err().unwrap_or_default();
            assert_eq!(answer, reason, "{draining} {configured:?}");
        };
        check(false, &[true, true], "");
        check(false, &[true, false], "worker 1 has no configuration yet");
        check(false, &[false, true, false], "workers 0, 2 have no configuration yet");
        check(true, &[true], "the workers take no new connections: they are being drained");
    }
}
