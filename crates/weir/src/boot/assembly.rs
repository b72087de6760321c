//! The instance while it is put together: first all that needs no data, then the data folder, then control
//! side and engine.

use std::net::SocketAddr;
use std::sync::Arc;

use control::source::store::DirectoryLock;
use control::{AdminConfig, Control, ControlConfig, Sealer, SystemClock};
use discovery::registration::Registration;
use gateway::compile::SnapshotCompiler;
use gateway::engine::{Engine, EngineConfig};
use gateway::observe::log_writer::LogWriter;
use model::PluginCatalog;
use model::instance::{Connections, InstanceInfo};
use model::report::ListenerReport;
use net::quic::QuicProcess;
use plugins::Zones;

use super::bridge::{self, Bridge, Gateway};
use super::options::OpenLog;
use super::parts::{Front, Referents};
use super::sockets::Sockets;
use super::upgrade::Predecessor;
use super::{admin_keys, data, instance, options, registration, running_catalog, sealer, source};
use crate::log::LogControl;
use crate::settings::Settings;

/// Every part that control side or engine are started with.
pub(super) struct Assembly {
    pub(super) settings: Settings,
    pub(super) log: LogControl,
    pub(super) log_writers: Arc<[LogWriter]>,
    pub(super) front: Front,
    pub(super) referents: Referents,
    pub(super) gateway: Arc<Gateway>,
    /// The registrations in registries, not begun.
    pub(super) registration: Option<Arc<Registration>>,
    pub(super) lock: Option<DirectoryLock>,
    pub(super) catalog: Arc<PluginCatalog>,
    /// The addresses of the control side: routes of layer 4 must not lead there.
    pub(super) listener_addresses: Vec<SocketAddr>,
    access_log: OpenLog,
    session_log: OpenLog,
    instance: Arc<InstanceInfo>,
    cache: Arc<Zones>,
    sealer: Sealer,
    admin: AdminConfig,
    listener_reports: Vec<ListenerReport>,
}

impl Assembly {
    /// Makes the parts, and takes the data folder when everything that does not need it is there.
    ///
    /// # Errors
    /// A part cannot be made, or another process has the data folder.
    pub(super) fn start(
        settings: Settings,
        log: LogControl,
        sockets: &mut Sockets,
        predecessor: Option<&Predecessor>,
    ) -> anyhow::Result<(Assembly, SnapshotCompiler)> {
        let listener_reports = std::mem::take(&mut sockets.reports);
        let listener_addresses = listener_reports.iter().map(|report| report.address).collect();
        let (access_log, session_log) = options::access_logs(&settings)?;
        let both = access_log.iter().chain(&session_log);
        let log_writers = both.map(|(_, writer)| writer.clone()).collect();
        let front = Front::new(&settings, &sockets.proxy)?;
        let (referents, compiler) = Referents::start(&settings, &front.tls)?;
        let registration = registration(&settings, &sockets.proxy)?;
        let admin_keys =
            admin_keys(&settings).map_err(|error| data::explain_start_error(&settings, error))?;
        let lock = match predecessor.map(|old| old.take_data(&settings.data)).transpose()?.flatten() {
            Some(inherited) => Some(inherited),
            None => data::lock_data_folder(&settings)
                .map_err(|error| data::explain_start_error(&settings, error))?,
        };
        let cache = settings.cache().map_err(|reason| anyhow::anyhow!("proxy_cache: {reason}"))?;
        let cache = Zones::start(&cache, compiler.states());
        let catalog = Arc::new(running_catalog(&settings, compiler.states(), &referents.extensions));
        let sealer = sealer(&settings, &catalog)?;
        let instance = Arc::new(instance(&settings));
        #[cfg(feature = "lua")]
        lua::set_host(lua::natives::Host {
            instance_id: Some(instance.id.as_str().into()),
            ..Default::default()
        });
        let assembly = Assembly {
            admin: options::build_admin_config(&settings, admin_keys),
            gateway: Arc::new(Gateway::default()),
            settings,
            log,
            log_writers,
            access_log,
            session_log,
            front,
            referents,
            registration,
            lock,
            catalog,
            listener_addresses,
            instance,
            cache,
            sealer,
            listener_reports,
        };
        Ok((assembly, compiler))
    }

    /// Starts the control side, which publishes the first configuration to the gateway.
    ///
    /// # Errors
    /// The source cannot be read, or a strict file has faults.
    pub(super) fn start_control(&self, compiler: SnapshotCompiler) -> anyhow::Result<Control> {
        let report = self.report(&compiler);
        let settings = &self.settings;
        let Referents { services, secrets, ocsp, discovery, .. } = &self.referents;
        let control = Control::start(ControlConfig {
            source: source(settings),
            catalog: self.catalog.clone(),
            publisher: Box::new(Bridge::new(compiler, self.gateway.clone())),
            reports: bridge::reports(report),
            clock: Arc::new(SystemClock),
            lock: self.lock.as_ref().map(DirectoryLock::try_clone).transpose()?,
            admin: self.admin.clone(),
            sealer: self.sealer.clone(),
            secrets: secrets.clone(),
            ready_with_faults: settings.ready_with_faults,
            acme: options::acme(settings),
            challenges: self.front.challenges.clone(),
            ocsp: ocsp.clone(),
            discovery: discovery.clone(),
            registration: self.registration.clone(),
            extensions_folder: settings.extensions_folder.clone(),
            server_info_ttl_s: (settings.server_info_report_seconds > 0 && settings.admin.is_some())
                .then_some(settings.server_info_report_seconds),
            ticket_keys: shares_tickets(settings).then(|| bridge::ticket_keys(&self.front.tls)),
        })?;
        services.scrapes().serve(&control.metrics());
        let connections: Arc<dyn Connections> = self.gateway.clone();
        services.process().serve(self.instance.clone(), &connections);
        Ok(control)
    }

    /// Starts the workers with the configuration published last. They listen on nothing yet.
    ///
    /// # Errors
    /// The thread of a worker cannot be started.
    pub(super) fn start_engine(&self, quic: QuicProcess) -> anyhow::Result<&Engine> {
        self.gateway.start(|runtime| EngineConfig {
            options: self.front.options.clone(),
            workers: self.settings.workers,
            runtime,
            access_log: self.access_log.clone(),
            session_log: self.session_log.clone(),
            services: self.referents.services.clone(),
            quic,
        })
    }

    /// The parts of the gateway that the control side shows.
    fn report(&self, compiler: &SnapshotCompiler) -> bridge::ReportSources {
        bridge::ReportSources {
            gateway: self.gateway.clone(),
            options: self.front.options.clone(),
            instance: self.instance.clone(),
            log: self.log.clone(),
            access_logs: self.log_writers.clone(),
            secrets: self.referents.secrets.clone(),
            ocsp: self.referents.ocsp.clone(),
            discovery: self.referents.discovery.clone(),
            registration: self.registration.clone(),
            cache: self.cache.clone(),
            health: self.referents.health.clone(),
            trial: compiler.trial(),
            listeners: self.listener_reports.clone(),
        }
    }
}

/// Whether keys of session tickets are shared with other instances: without a TLS listener nothing is written
/// to etcd.
fn shares_tickets(settings: &Settings) -> bool {
    let lists = [
        &settings.proxy_tls,
        &settings.proxy_tls_http3,
        &settings.proxy_protocol_tls,
        &settings.stream_tls,
        &settings.stream_proxy_protocol_tls,
    ];
    let has_tls = lists.iter().any(|list| !list.is_empty());
    settings.ssl_session_tickets && has_tls
}
