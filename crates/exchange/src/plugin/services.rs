//! Services for plugins beyond their phases: destinations for calls over HTTP, and queues that deliver their
//! batches in the background. One for the process; instances are built with it and keep what they asked for.
//! It knows no plugin.

use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::batch::{BatchQueue, QueueSettings, Queues, Sink};
use super::call_failures::{AllCallFailures, CallFailures};
use super::events::{EventCounter, PluginEvents};
use super::outbound::{
    DatagramDestination, DestinationOpener, GrpcDestination, OutboundDestination, OutboundPolicy,
    OutboundTls, StreamDestination, StreamDestinations,
};
use super::process::ProcessFacts;
use super::scrapes::Scrapes;
use super::service_thread::ServiceThread;
use super::unfinished::UnfinishedWork;
use crate::overload;
use model::report::MetricsText;
use net::endpoint::KeepAlive;
use net::nodes::AddressRule;
use net::resolver::Resolver;
use net::tls::identity::ClientIdentities;

/// How often the end looks whether everything is delivered.
const SETTLE_POLL: Duration = Duration::from_millis(5);

/// See the module.
pub struct Services {
    resolver: Arc<Resolver>,
    policy: Arc<OutboundPolicy>,
    tls: Arc<ClientIdentities>,
    queues: Queues,
    failures: AllCallFailures,
    unfinished: UnfinishedWork,
    events: PluginEvents,
    scrapes: Arc<Scrapes>,
    process: Arc<ProcessFacts>,
    /// Metrics that plugins define themselves.
    metrics: Mutex<Vec<Arc<dyn MetricsText>>>,
    /// Started with the first queue: a gateway without one has no such thread.
    thread: Mutex<Option<ServiceThread>>,
}

impl Services {
    /// Services that look names up through `resolver`.
    pub fn new(resolver: Resolver, policy: OutboundPolicy) -> Services {
        Services {
            resolver: Arc::new(resolver),
            policy: Arc::new(policy),
            tls: Arc::default(),
            queues: Queues::default(),
            failures: AllCallFailures::default(),
            unfinished: UnfinishedWork::default(),
            events: PluginEvents::default(),
            scrapes: Arc::default(),
            process: Arc::default(),
            metrics: Mutex::default(),
            thread: Mutex::default(),
        }
    }

    /// Services with the same names and trust, and with queues, counters and a thread of their own, which end
    /// with them: for instances that do not come into force.
    #[must_use]
    pub fn apart(&self) -> Services {
        Services {
            resolver: self.resolver.clone(),
            policy: self.policy.clone(),
            tls: self.tls.clone(),
            queues: Queues::default(),
            failures: AllCallFailures::default(),
            unfinished: UnfinishedWork::default(),
            events: PluginEvents::default(),
            scrapes: self.scrapes.clone(),
            process: self.process.clone(),
            metrics: Mutex::default(),
            thread: Mutex::default(),
        }
    }

    /// Opens TLS connections with `tls`, which says what is trusted; without this, the system's authorities
    /// are.
    #[must_use]
    pub fn with_tls(mut self, tls: ClientIdentities) -> Services {
        self.tls = Arc::new(tls);
        self
    }

    /// The TLS identities of connections to upstreams and destinations.
    pub fn tls(&self) -> &ClientIdentities {
        &self.tls
    }

    /// The metrics of the instance.
    pub fn scrapes(&self) -> &Arc<Scrapes> {
        &self.scrapes
    }

    /// The facts of the process.
    pub fn process(&self) -> &Arc<ProcessFacts> {
        &self.process
    }

    /// Keeps entries of plugins only as long as memory lasts, in an engine that shares `overload`.
    pub fn limit_memory(&self, overload: Arc<overload::OverloadState>) {
        self.queues.limit_memory(overload);
    }

    /// The addresses that nodes of registries may not have: those that plugins may not call.
    pub fn address_rule(&self) -> AddressRule {
        let policy = self.policy.clone();
        AddressRule(Arc::new(move |address| policy.refuses(address)))
    }

    /// Where names of nodes and destinations are looked up.
    pub fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    /// A destination for calls; its name is looked up from now on, as long as it has a holder. `tls` counts
    /// for an `https` URI.
    ///
    /// # Errors
    /// Why plugins cannot reach `uri`, a sentence (see [`super::outbound::check_uri`]).
    pub fn destination(
        &self,
        uri: &str,
        keep_alive: KeepAlive,
        tls: &OutboundTls,
    ) -> Result<OutboundDestination, String> {
        OutboundDestination::new(uri, keep_alive, tls, &self.tls, &self.resolver, self.policy.clone())
    }

    /// A destination for unary calls of gRPC at `uri`, of which scheme, host and port count.
    ///
    /// # Errors
    /// Why plugins cannot reach `uri`, a sentence.
    pub fn grpc_destination(&self, uri: &str, tls: &OutboundTls) -> Result<GrpcDestination, String> {
        GrpcDestination::new(uri, tls, &self.tls, &self.resolver, self.policy.clone())
    }

    /// An opener of destinations that are known only while requests run, such as the endpoints of a discovery
    /// document.
    pub fn opener(&self) -> DestinationOpener {
        DestinationOpener::new(self.resolver.clone(), self.tls.clone(), self.policy.clone())
    }

    /// A destination for byte streams, `HOST:PORT`, in cleartext without `tls`; see
    /// [`super::outbound::StreamDestination`].
    ///
    /// # Errors
    /// Why streams cannot be opened to it, a sentence.
    pub fn stream_destination(
        &self,
        place: &str,
        tls: Option<&OutboundTls>,
    ) -> Result<StreamDestination, String> {
        StreamDestination::new(place, tls, &self.tls, &self.resolver, self.policy.clone())
    }

    /// A destination for datagrams, `HOST:PORT`; see [`super::outbound::DatagramDestination`].
    ///
    /// # Errors
    /// Why datagrams cannot be sent to it, a sentence.
    pub fn datagram_destination(&self, place: &str) -> Result<DatagramDestination, String> {
        DatagramDestination::new(place, &self.resolver, self.policy.clone())
    }

    /// Makes destinations for byte streams later on: for servers that are known only once another one names
    /// them, such as the nodes of a cluster. They are in cleartext without `tls`.
    pub fn stream_destinations(&self, tls: Option<OutboundTls>) -> StreamDestinations {
        StreamDestinations::new(tls, self.tls.clone(), self.resolver.clone(), self.policy.clone())
    }

    /// A queue that sends its batches to `sink`, on the service thread. When the last holder lets it go, what
    /// it still holds is delivered.
    ///
    /// # Errors
    /// When the service thread cannot be started.
    pub fn queue(&self, settings: QueueSettings, sink: impl Sink) -> Result<BatchQueue, String> {
        let thread = |error: io::Error| format!("cannot start the service thread: {error}");
        let mut running = self.thread.lock();
        let thread = match &mut *running {
            Some(running) => running,
            none => none.insert(ServiceThread::start().map_err(thread)?),
        };
        Ok(self.queues.add(settings, Box::new(sink), thread))
    }

    /// The counter of requests for which a server that `plugin` asks has failed.
    pub fn call_failures(&self, plugin: &'static str) -> CallFailures {
        self.failures.of(plugin)
    }

    /// Work on workers that the end of the process waits for.
    pub fn unfinished_work(&self) -> &UnfinishedWork {
        &self.unfinished
    }

    /// Whether no plugin has unfinished work on a worker.
    pub fn work_is_done(&self) -> bool {
        self.unfinished.is_done()
    }

    /// Tells queues and unfinished work that the end is near: from now on they hold nothing back.
    pub fn flush_now(&self) {
        self.unfinished.end_soon();
        self.queues.flush_now();
    }

    /// Waits until every queue is empty, until `deadline` or until `abandon` says so; gives how many entries
    /// are left.
    pub fn settle(&self, deadline: Instant, abandon: &dyn Fn() -> bool) -> usize {
        self.flush_now();
        loop {
            let left = self.queued_entries();
            if left == 0 || Instant::now() >= deadline || abandon() {
                return left;
            }
            std::thread::sleep(SETTLE_POLL);
        }
    }

    /// The counter of `event` in the plugin `plugin`, for the metrics.
    pub fn event_counter(&self, plugin: &'static str, event: &'static str) -> EventCounter {
        self.events.counter(plugin, event)
    }

    /// Shows the metrics of `source` as well, from now on. Adding it again has no effect.
    pub fn add_metrics(&self, source: Arc<dyn MetricsText>) {
        let mut metrics = self.metrics.lock();
        if !metrics.iter().any(|known| Arc::ptr_eq(known, &source)) {
            metrics.push(source);
        }
    }

    /// Entries of all queues that are not yet delivered or given up.
    pub fn queued_entries(&self) -> usize {
        self.queues.held_entries()
    }

    /// Appends the counters of queues, failures and events, and the metrics of plugins, in the Prometheus
    /// text format.
    pub fn write_metrics(&self, text: &mut String) {
        self.queues.write_metrics(text);
        self.failures.write_metrics(text);
        self.events.write_metrics(text);
        for source in self.metrics.lock().iter() {
            source.write_metrics(text);
        }
    }
}
