//! Connects the control side and the engine: compiles each configuration that control publishes and passes it
//! to the engine, and answers control's questions about the running gateway.

use discovery::ServiceDiscovery;
use discovery::registration::Registration;
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use control::ocsp::Ocsp;
use control::{Publisher, Reports, Secrets, TapHub};
use exchange::options::Options;
use exchange::plugin::PHASE_WAIT_MS;
use gateway::compile::trial::Trial;
use gateway::compile::{CompileFault, SnapshotCompiler};
use gateway::engine::{Engine, EngineConfig};
use gateway::observe::log_writer::LogWriter;
use gateway::runtime::Runtime;
use gateway::upstream::health::monitor::HealthMonitor;
use gateway::upstream::{Upstream, report};
use model::acme::Challenges;
use model::instance::{ConnectionCounts, Connections, InstanceInfo};
use model::loaded_endpoint::LoadedEndpoint;
use model::report::{
    Breakdown, CertificateReport, Certificates, EndpointRequest, EndpointResponder, Explain, ExplainQuestion,
    ExplainSession, ListenerReport, Listening, LogLevel, MetricsText, NodeHealth, OpenSessions, PendingReply,
    Readiness, Top, Traffic, TrafficInterval, TrafficNow, TrafficPoint, TrafficRate, UnusableNodes,
    UpstreamHealth, UpstreamNodes, UpstreamReport, WorkerRevision, WorkerRevisions,
};
use model::tickets::{SharedTicketKeys, TicketKey};
use model::{Applied, ConfigFault};
use net::listener::Application;
use net::tls::server::{ChallengeIdentity, Orders, ServerTls, TicketSecret};
use plugins::Zones;
use serde_json::Value;

use super::tap::GatewayTap;
use super::{certificates, metrics, process_metrics};
use crate::log::LogControl;

/// The engine after its start, and the generation to start it with.
#[derive(Default)]
pub(super) struct Gateway {
    engine: OnceLock<Engine>,
    latest: Mutex<Option<Arc<Runtime>>>,
    /// Whether the instance is about to drain: it still serves, and is not ready any more.
    is_leaving: AtomicBool,
}

impl Gateway {
    /// Starts the engine with the generation published last.
    ///
    /// # Errors
    /// The thread of a worker cannot be started.
    pub(super) fn start(&self, config: impl FnOnce(Arc<Runtime>) -> EngineConfig) -> anyhow::Result<&Engine> {
        // Held until the engine can be published to, because a change in between would otherwise be lost.
        let latest = self.latest();
        let runtime = latest.clone().expect("control publishes a configuration before it is started");
        let engine = Engine::start(config(runtime))?;
        engine.traffic().start()?;
        await_workers(&engine);
        assert!(self.engine.set(engine).is_ok(), "the engine is started once");
        Ok(self.engine().expect("set in the line above"))
    }

    /// From now on the instance is not ready, although it still serves.
    pub(super) fn leave(&self) {
        self.is_leaving.store(true, Ordering::Relaxed);
    }

    /// The engine, if it runs.
    pub(super) fn engine(&self) -> Option<&Engine> {
        self.engine.get()
    }

    fn publish(&self, runtime: Arc<Runtime>) {
        let mut latest = self.latest();
        if let Some(engine) = self.engine() {
            engine.publish(runtime.clone());
        }
        *latest = Some(runtime);
    }

    fn latest(&self) -> MutexGuard<'_, Option<Arc<Runtime>>> {
        self.latest.lock()
    }
}

/// Waits a moment until the workers have taken up their configuration, because a supervisor may ask for the
/// status as soon as the instance prints `ready`. A worker that fails shows in the status; the start does not
/// hang.
fn await_workers(engine: &Engine) {
    let deadline = Instant::now() + WORKERS_START_WITHIN;
    while engine.ready().is_err() && Instant::now() < deadline {
        std::thread::sleep(WORKERS_POLL);
    }
}

/// A worker's thread starts within milliseconds, on a busy machine within some hundred.
const WORKERS_START_WITHIN: Duration = Duration::from_secs(2);
/// How often the start checks the workers.
const WORKERS_POLL: Duration = Duration::from_millis(1);

/// Compiles snapshots and publishes them to the workers.
pub(super) struct Bridge {
    compiler: SnapshotCompiler,
    gateway: Arc<Gateway>,
}

impl Bridge {
    pub(super) fn new(compiler: SnapshotCompiler, gateway: Arc<Gateway>) -> Bridge {
        Bridge { compiler, gateway }
    }
}

impl Connections for Gateway {
    fn connections(&self) -> ConnectionCounts {
        self.engine().map(Engine::connection_counts).unwrap_or_default()
    }
}

impl Publisher for Bridge {
    fn publish(&mut self, applied: &Applied) -> Vec<ConfigFault> {
        let (runtime, faults) = self.compiler.apply(applied);
        self.gateway.publish(runtime);
        faults.into_iter().map(fault).collect()
    }

    fn expire(&mut self) -> Option<Vec<ConfigFault>> {
        let (runtime, faults) = self.compiler.expire()?;
        self.gateway.publish(runtime);
        Some(faults.into_iter().map(fault).collect())
    }
}

fn fault(fault: CompileFault) -> ConfigFault {
    ConfigFault { key: Some(fault.key), pointer: String::new(), reason: fault.reason, kept: fault.kept }
}

/// The part of control that orders certificates, as TLS handshakes meet it.
pub(super) fn orders(challenges: &Arc<Challenges>) -> Arc<dyn Orders> {
    Arc::new(ControlOrders(Arc::clone(challenges)))
}

#[derive(Debug)]
struct ControlOrders(Arc<Challenges>);

impl Orders for ControlOrders {
    fn challenge(&self, name: &str) -> Option<ChallengeIdentity> {
        let found = self.0.certificate(name)?;
        Some(ChallengeIdentity { certificate: found.certificate.clone(), key: found.key.clone() })
    }

    fn missing(&self, name: &str) {
        // The handshake fails in any case; control counts and logs the rest.
        let _ = self.0.ask(name);
    }
}

/// The keys of session tickets, for control to share them with other instances.
pub(super) fn ticket_keys(tls: &Arc<ServerTls>) -> Arc<dyn SharedTicketKeys> {
    Arc::new(TlsTicketKeys(Arc::clone(tls)))
}

struct TlsTicketKeys(Arc<ServerTls>);

impl SharedTicketKeys for TlsTicketKeys {
    fn share(&self, keys: &[TicketKey]) {
        let secret =
            |key: &TicketKey| TicketSecret { name: key.name, secret: key.secret, made_s: key.from_s };
        self.0.adopt_ticket_secrets(&keys.iter().map(secret).collect::<Vec<_>>());
    }
}

/// The reports that control may ask for.
pub(super) fn reports(parts: ReportSources) -> Reports {
    let (log, instance) = (Arc::new(parts.log.clone()), Arc::clone(&parts.instance));
    let tap = TapHub::new(Arc::new(GatewayTap(Arc::clone(&parts.gateway))));
    let report = Arc::new(parts);
    Reports {
        instance,
        workers: report.clone(),
        metrics: report.clone(),
        health: report.clone(),
        upstreams: report.clone(),
        readiness: report.clone(),
        listening: report.clone(),
        certificates: report.clone(),
        traffic: Some(report.clone()),
        explain: Some(report.clone()),
        endpoints: Some(report),
        log_level: Some(log),
        tap: Some(tap),
    }
}

/// The parts of the gateway that reports are made of.
pub(super) struct ReportSources {
    pub(super) gateway: Arc<Gateway>,
    pub(super) options: Arc<Options>,
    pub(super) instance: Arc<InstanceInfo>,
    pub(super) log: LogControl,
    pub(super) access_logs: Arc<[LogWriter]>,
    pub(super) secrets: Arc<Secrets>,
    pub(super) ocsp: Arc<Ocsp>,
    pub(super) discovery: Option<Arc<ServiceDiscovery>>,
    pub(super) registration: Option<Arc<Registration>>,
    pub(super) cache: Arc<Zones>,
    pub(super) health: Arc<HealthMonitor>,
    /// Compiles objects that are not saved.
    pub(super) trial: Trial,
    /// The listeners of the control side; those of the proxy come from the engine.
    pub(super) listeners: Vec<ListenerReport>,
}

impl WorkerRevisions for ReportSources {
    fn revisions(&self) -> Vec<WorkerRevision> {
        let revisions = self.gateway.engine().map(Engine::revisions).unwrap_or_default();
        revisions
            .into_iter()
            .enumerate()
            .map(|(worker, revision)| WorkerRevision { worker, revision })
            .collect()
    }
}

impl MetricsText for ReportSources {
    fn write_metrics(&self, text: &mut String) {
        if let Some(engine) = self.gateway.engine() {
            engine.write_metrics(text);
            metrics::write_node(engine, &self.log, &self.access_logs, text);
            process_metrics::write_process_metrics(&self.options.limits, self.instance.boot_time_s, text);
            self.secrets.write_metrics(text);
            self.ocsp.write_metrics(text);
            self.cache.write_metrics(text);
            report::write_node_status(engine.current().upstreams.iter().map(|(_, upstream)| upstream), text);
            self.health.write_metrics(text);
            if let Some(discovery) = &self.discovery {
                discovery.write_metrics(text);
            }
            if let Some(registration) = &self.registration {
                registration.write_metrics(text);
            }
        }
    }
}

impl NodeHealth for ReportSources {
    fn health(&self) -> Vec<UpstreamHealth> {
        let Some(runtime) = self.gateway.engine().map(Engine::current) else { return Vec::new() };
        let mut all: Vec<_> =
            runtime.upstreams.iter().filter_map(|(_, upstream)| report::health(upstream)).collect();
        all.sort_by(|left, right| left.name.cmp(&right.name));
        all
    }
}

impl UpstreamNodes for ReportSources {
    fn upstreams(&self, name: Option<&str>) -> Vec<UpstreamReport> {
        let Some(engine) = self.gateway.engine() else { return Vec::new() };
        let runtime = engine.current();
        let is_asked = |upstream: &Arc<Upstream>| name.is_none_or(|name| name == &*upstream.identity);
        let asked = || runtime.upstreams.iter().map(|(_, upstream)| upstream).filter(|one| is_asked(one));
        let loads = engine.loads(name.and_then(|_| asked().next()).map(|upstream| &**upstream));
        let mut all: Vec<_> = asked().map(|upstream| report::report_upstream(upstream, &loads)).collect();
        all.sort_by(|left, right| left.name.cmp(&right.name));
        all
    }

    fn unusable(&self) -> Vec<UnusableNodes> {
        let Some(runtime) = self.gateway.engine().map(Engine::current) else { return Vec::new() };
        let mut all: Vec<_> =
            runtime.upstreams.iter().filter_map(|(_, upstream)| report::unusable(upstream)).collect();
        all.sort_by(|left, right| left.name.cmp(&right.name));
        all
    }
}

impl Traffic for ReportSources {
    fn rates(&self, by: Breakdown) -> Arc<[TrafficRate]> {
        self.gateway.engine().map_or_else(|| Arc::from([]), |engine| engine.traffic().rates(by))
    }

    fn now(&self) -> Option<TrafficNow> {
        let now = self.gateway.engine()?.traffic().now()?;
        let access_log: u64 = self.access_logs.iter().map(LogWriter::lost_lines).sum();
        Some(TrafficNow { log_lines_lost: access_log + self.log.lost_lines(), ..now })
    }

    fn points(&self, step: TrafficInterval, since: u64, most: usize) -> Vec<TrafficPoint> {
        self.gateway.engine().map(|engine| engine.traffic().points(step, since, most)).unwrap_or_default()
    }

    fn top(&self, by: Breakdown, window_s: u64, limit: usize) -> Top {
        self.gateway.engine().map(|engine| engine.traffic().top(by, window_s, limit)).unwrap_or_default()
    }
}

impl Readiness for ReportSources {
    fn ready(&self) -> Result<(), String> {
        match self.gateway.engine() {
            Some(_) if self.gateway.is_leaving.load(Ordering::Relaxed) => {
                Err("the instance is about to drain".to_owned())
            }
            Some(engine) => engine.ready(),
            None => Err("the workers have not started yet".to_owned()),
        }
    }
}

impl Listening for ReportSources {
    fn listeners(&self) -> Vec<ListenerReport> {
        let proxy = self.gateway.engine().map(Engine::listeners).unwrap_or_default();
        let proxy = proxy.iter().map(|listener| {
            let (wanted, address) = (listener.wanted(), listener.address());
            let is_http = wanted.protocols.application == Application::Http1;
            let http2 = (is_http && self.options.serves_http2(wanted.address, address)).then_some("http2");
            ListenerReport {
                name: super::sockets::find_setting_name(listener),
                address,
                protocols: wanted.protocols.names().into_iter().chain(http2).collect(),
            }
        });
        proxy.chain(self.listeners.iter().cloned()).collect()
    }

    fn sessions(&self) -> OpenSessions {
        let (tcp, udp) = self.gateway.engine().map(Engine::sessions).unwrap_or_default();
        OpenSessions { tcp, udp }
    }
}

impl Certificates for ReportSources {
    fn certificates(&self, most: usize) -> (Vec<CertificateReport>, usize) {
        let current = self.gateway.engine().map(Engine::current);
        current.map_or((Vec::new(), 0), |runtime| certificates::list_certificates(&runtime.sites, most))
    }
}

impl Explain for ReportSources {
    fn explain(&self, question: &ExplainQuestion, with: Option<&Applied>) -> Result<Value, String> {
        let engine = self.gateway.engine().ok_or("the workers have not started yet")?;
        let runtime = engine.current();
        let runtime =
            with.map_or_else(|| Ok(runtime.clone()), |applied| self.trial.apply(&runtime, applied))?;
        gateway::explain::explain(&runtime, &self.options, question)
    }

    fn explain_session(&self, session: &ExplainSession) -> Result<Value, String> {
        let engine = self.gateway.engine().ok_or("the workers have not started yet")?;
        gateway::explain::explain_session(&engine.current(), session)
    }
}

/// How long an answer of an endpoint is waited for: as long as a worker lets it run, and a while for a busy
/// worker.
const ENDPOINT_WAIT: Duration = Duration::from_millis(PHASE_WAIT_MS + 5_000);

impl EndpointResponder for ReportSources {
    fn ask(&self, endpoint: LoadedEndpoint, request: EndpointRequest) -> PendingReply {
        let reply = self.gateway.engine().map(|engine| engine.ask_endpoint(endpoint, request));
        Box::pin(async move {
            let reply = reply.ok_or("the workers have not started yet")?;
            let waited = tokio::time::timeout(ENDPOINT_WAIT, reply).await;
            let reply = waited.map_err(|_| "no worker has answered in time")?;
            reply.unwrap_or_else(|_| Err("the worker has failed".to_owned()))
        })
    }
}

impl LogLevel for LogControl {
    fn level(&self) -> String {
        LogControl::level(self)
    }

    fn set_level(&self, level: &str) -> Result<(), String> {
        LogControl::set_level(self, level)
    }
}
