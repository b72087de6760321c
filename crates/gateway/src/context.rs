//! Everything that one worker needs to serve an exchange: its thread's services, the configuration in force,
//! upstreams, exchanges for reuse, counters and the access log. It accepts nothing and starts no task.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use router::path::PathScratch;
use stdx::published::{Published, Reader};

use crate::evict::Evictor;
use crate::observe::access_log::{AccessLog, LineWriter};
use crate::observe::current_work::CurrentWorkCell;
use crate::observe::status::WorkerStatus;
use crate::observe::traffic::worker::WorkerTraffic;
use crate::runtime::merged::MergedChains;
use crate::runtime::{ConsumerPlugins, Generation, Runtime};
use crate::upstream::service::Upstreams;
use crate::upstream::warnings::UpstreamWarnings;
use exchange::Exchange;
use exchange::WorkerLocal;
use exchange::exchange::Consumer;
use exchange::exchange::reuse::ExchangePool;
use exchange::observe::metrics::WorkerMetrics;
use exchange::plugin::chain::Chain;
use exchange::plugin::stream::StreamSession;

/// The state of one worker that its exchanges share.
pub(crate) struct WorkerContext {
    pub(crate) local: Rc<WorkerLocal>,
    pub(crate) status: Arc<WorkerStatus>,
    pub(crate) exchanges: Rc<ExchangePool>,
    pub(crate) upstreams: Upstreams,
    pub(crate) evictor: Rc<Evictor>,
    pub(crate) upstream_warnings: Arc<UpstreamWarnings>,
    pub(crate) path_scratch: RefCell<PathScratch>,
    pub(crate) metrics: Rc<WorkerMetrics>,
    pub(crate) traffic: WorkerTraffic,
    access_log: Option<(AccessLog, RefCell<LineWriter>)>,
    session_log: Option<(AccessLog, RefCell<LineWriter>)>,
    current: RefCell<Current>,
    merged: RefCell<MergedChains>,
    reclaimer: Sender<Arc<Runtime>>,
}

struct Current {
    reader: Reader<Runtime>,
    generation: Rc<Generation>,
}

/// The parts of a [`WorkerContext`] that come from outside the worker's thread.
pub(crate) struct ContextParts {
    pub(crate) published: Arc<Published<Runtime>>,
    pub(crate) reclaimer: Sender<Arc<Runtime>>,
    pub(crate) status: Arc<WorkerStatus>,
    pub(crate) upstream_warnings: Arc<UpstreamWarnings>,
    pub(crate) metrics: WorkerMetrics,
    pub(crate) access_log: Option<(AccessLog, LineWriter)>,
    pub(crate) session_log: Option<(AccessLog, LineWriter)>,
}

impl WorkerContext {
    pub(crate) fn new(local: Rc<WorkerLocal>, parts: ContextParts) -> Rc<WorkerContext> {
        let reader = Reader::new(parts.published);
        let generation = Rc::new(Generation::new(reader.get().clone(), parts.reclaimer.clone()));
        parts.status.revision.store(generation.revision, Ordering::Release);
        let evictor = Evictor::new(local.clone(), parts.status.clone());
        Rc::new(WorkerContext {
            exchanges: ExchangePool::new(local.clone(), parts.status.in_flight.clone()),
            upstreams: Upstreams::new(local.clone(), evictor.clone(), parts.status.upstream_tls.clone()),
            evictor,
            upstream_warnings: parts.upstream_warnings,
            path_scratch: RefCell::default(),
            metrics: local.resource(|| parts.metrics),
            traffic: WorkerTraffic::new(parts.status.clone()),
            access_log: parts.access_log.map(|(log, writer)| (log, RefCell::new(writer))),
            session_log: parts.session_log.map(|(log, writer)| (log, RefCell::new(writer))),
            current: RefCell::new(Current { reader, generation }),
            merged: RefCell::default(),
            reclaimer: parts.reclaimer,
            status: parts.status,
            local,
        })
    }

    /// The cell in which this worker shows its current work to the watch thread.
    #[inline]
    pub(crate) fn current_work(&self) -> &CurrentWorkCell {
        &self.status.current_work
    }

    /// The generation in force: one relaxed load unless it has changed.
    #[inline]
    pub(crate) fn generation(&self) -> Rc<Generation> {
        let mut current = self.current.borrow_mut();
        if let Some(old) = current.reader.refresh() {
            let runtime = current.reader.get().clone();
            self.status.revision.store(runtime.revision, Ordering::Release);
            current.generation = Rc::new(Generation::new(runtime, self.reclaimer.clone()));
            self.metrics.generation_changed();
            self.merged.borrow_mut().clear();
            let _ = self.reclaimer.send(old);
        }
        current.generation.clone()
    }

    /// The route's chain with the consumer's plugins over it.
    pub(crate) fn merged_chain(
        &self,
        route: Option<&Arc<Chain>>,
        consumer: &Arc<Consumer>,
        added: &ConsumerPlugins,
    ) -> Arc<Chain> {
        self.merged.borrow_mut().of(route, consumer, added)
    }

    /// Counts an ended exchange, which `generation` has decided, and writes its line of the access log, if
    /// there is one.
    pub(crate) fn observe(&self, exchange: &Exchange, generation: &Generation) {
        // This thread is the only writer, so a load and a store suffice and cost less than an atomic
        // addition.
        let requests = &self.status.requests;
        requests.store(requests.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let upstream = |slot| generation.upstreams.get(slot).map(|upstream| &upstream.identity);
        self.traffic.record(exchange, upstream, || self.wall_ms());
        if let Some(failure) = &exchange.failure {
            self.status.failures.failed(failure.cause);
        }
        self.status.server_errors.ended(exchange);
        if let Some(call) = &exchange.grpc {
            self.status.grpc.ended(call.status);
        }
        if let Some((log, writer)) = &self.access_log {
            log.write(exchange, &mut writer.borrow_mut());
        }
    }

    /// Counts an ended session of layer 4, and writes its line of the log of sessions, if there is one.
    pub(crate) fn session_ended(&self, session: &StreamSession) {
        self.status.sessions.ended(session);
        if let Some((log, writer)) = &self.session_log {
            log.write(session, &mut writer.borrow_mut());
        }
    }

    /// Milliseconds since 1970, as of the last reading of the clock.
    fn wall_ms(&self) -> u64 {
        let (seconds, nanoseconds) = self.local.wall_at(self.local.recent_ns());
        seconds * 1_000 + u64::from(nanoseconds) / 1_000_000
    }

    /// Hands the collected lines of the access log to its writer.
    pub(crate) fn flush_log(&self) {
        for (_, writer) in self.access_log.iter().chain(&self.session_log) {
            writer.borrow_mut().flush();
        }
    }
}
