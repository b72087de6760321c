//! The start of an instance, from its settings until it serves: alone, or as the successor of a process, from which it
//! takes sockets and store over step by step. Its end is in `signals`.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use control::ocsp::Ocsp;
use control::source::store::{DirectoryLock, Instance, InstanceListener};
use control::{Control, ControlConfig, SystemClock};
use discovery::registration::Registration;
use gateway::engine::{Engine, EngineConfig};
use gateway::observe::log_writer::LogWriter;
use gateway::upstream::health::monitor::HealthMonitor;
use model::acme::Challenges;
use model::instance::Connections;
use net::listener::{Application, Listener};
use net::quic::QuicProcess;
use net::tls::server::ServerTls;
use plugins::{Runner, Zones};

use super::bridge::{self, Bridge, Gateway};
use super::extensions::Extensions;
use super::live::LiveSettings;
use super::runner::{RunnerSettings, Supervisor};
use super::upgrade::{Executable, Offer, Predecessor, QUIC_LINE};
use super::{
    admin_keys, compiler, core_dumps, data, discovery, instance, options, outbound_policy, registration,
    running_catalog, sealer, secrets, services, sockets, source,
};
use crate::log::{self, LogControl};
use crate::settings::{Loaded, Settings, SettingsSource};

/// How often a successor checks whether its workers run.
const RUNNING_POLL: Duration = Duration::from_millis(2);

/// How long a successor waits for its plugin runner, so that no request fails at an upgrade. Half of the default time that an
/// upgrade may take.
const RUNNER_WAIT: Duration = Duration::from_secs(30);

/// An instance that serves.
pub(super) struct Node {
    pub(super) settings: Settings,
    pub(super) live: LiveSettings,
    pub(super) control: Control,
    pub(super) gateway: Arc<Gateway>,
    tls: Arc<ServerTls>,
    quic: QuicProcess,
    /// The process of the plugin runner.
    pub(super) runner: Supervisor,
    pub(super) log: LogControl,
    pub(super) access_logs: Arc<[LogWriter]>,
    /// The registrations in registries; dropping it leaves the instance registered, for a successor.
    pub(super) registration: Option<Arc<Registration>>,
    /// The lines that announce its listeners on standard output.
    pub(super) lines: Vec<String>,
    /// True if it replaces a predecessor.
    pub(super) is_successor: bool,
    executable: Option<Executable>,
    lock: Option<DirectoryLock>,
    /// Duplicates of the control side's sockets, for a successor.
    spare: Vec<(&'static str, SocketAddr, TcpListener)>,
}

impl Node {
    /// Starts every part, in an order in which a failed start can be undone.
    ///
    /// # Errors
    /// A failed start, with its reason.
    pub(super) fn start(
        settings_source: SettingsSource,
        executable: Option<Executable>,
        predecessor: Option<&Predecessor>,
    ) -> anyhow::Result<Node> {
        let Loaded { settings, remarks } = settings_source.load()?;
        let log = log::start(&settings.error_log, settings.error_log_format, &settings.log_level)?;
        remarks.warn();
        core_dumps::allow(settings.core_dumps);
        let inherited = predecessor.map(Predecessor::take_sockets).unwrap_or_default();
        let sockets = sockets::bind(&settings, inherited)?;
        let lines = sockets.lines();
        let own_addresses = sockets.reports.iter().map(|report| report.address).collect();
        let (access_log, session_log) = options::access_logs(&settings)?;
        let both = access_log.iter().chain(&session_log);
        let log_writers: Arc<[LogWriter]> = both.map(|(_, writer)| writer.clone()).collect();
        let challenges = Arc::new(Challenges::default());
        let mut engine_options = options::engine(&settings, &challenges);
        let https = sockets.proxy.iter().find(|listener| serves_https(listener));
        if let Some(listener) = https.filter(|_| options::redirect_port(&settings).is_none()) {
            engine_options.https_port = listener.address().port();
        }
        let engine_options = Arc::new(engine_options);
        let tls =
            ServerTls::new(&options::tls(&settings)).map_err(anyhow::Error::msg).context("cannot use TLS")?;
        let tls = match &engine_options.challenges {
            Some(challenges) => Arc::new(tls.with_orders(bridge::orders(challenges))),
            None => Arc::new(tls),
        };
        let gateway = Arc::new(Gateway::default());
        let services = services(&settings)?;
        let secrets = secrets(&settings);
        let extensions = Extensions::start(&settings, &services)?;
        let compiler = compiler(&settings, services.clone(), secrets.clone())
            .with_fixed_extensions(extensions.fixed())
            .with_tls(tls.clone(), settings.ssl_expired_certificates);
        let ocsp = Arc::new(Ocsp::new(outbound_policy(&settings)));
        let compiler = compiler.with_staples(ocsp.clone());
        let health = Arc::new(HealthMonitor::new(outbound_policy(&settings)));
        let compiler = match settings.upstream_health_checks {
            true => compiler.with_health(health.clone()),
            false => compiler,
        };
        let discovery = discovery(&settings)?;
        let compiler = match &discovery {
            Some(directory) => compiler.with_directory(directory.clone()),
            None => compiler,
        };
        let registration = registration(&settings, &sockets.proxy)?;
        let admin_keys = admin_keys(&settings).map_err(|error| data::explained(&settings, error))?;
        let lock = match predecessor.map(|old| old.take_data(&settings.data)).transpose()?.flatten() {
            Some(inherited) => Some(inherited),
            None => data::lock(&settings).map_err(|error| data::explained(&settings, error))?,
        };
        let cache = settings.cache().map_err(|reason| anyhow::anyhow!("proxy_cache: {reason}"))?;
        let cache = Zones::start(&cache, compiler.states());
        let runner = Runner::serve(compiler.states());
        let runner = Supervisor::start(RunnerSettings::of(&settings), runner, &services);
        let catalog = Arc::new(running_catalog(&settings, compiler.states(), &extensions));
        let sealer = sealer(&settings, &catalog)?;
        let instance = Arc::new(instance(&settings));
        #[cfg(feature = "lua")]
        lua::set_host(lua::natives::Host {
            instance_id: Some(instance.id.as_str().into()),
            ..Default::default()
        });
        let trial = compiler.trial();
        let stream_routes = catalog.clone();
        let control = Control::start(ControlConfig {
            source: source(&settings),
            catalog,
            publisher: Box::new(Bridge::new(compiler, gateway.clone())),
            reports: bridge::reports(bridge::Report {
                gateway: gateway.clone(),
                options: engine_options.clone(),
                instance: instance.clone(),
                log: log.clone(),
                access_logs: log_writers.clone(),
                secrets: secrets.clone(),
                ocsp: ocsp.clone(),
                discovery: discovery.clone(),
                registration: registration.clone(),
                cache,
                health,
                trial,
                listeners: sockets.reports,
            }),
            clock: Arc::new(SystemClock),
            lock: lock.as_ref().map(DirectoryLock::try_clone).transpose()?,
            admin: options::admin(&settings, admin_keys),
            sealer,
            secrets,
            ready_with_faults: settings.ready_with_faults,
            acme: options::acme(&settings),
            challenges,
            ocsp,
            discovery,
            registration: registration.clone(),
            extensions_folder: settings.extensions_folder.clone(),
            server_info_ttl_s: (settings.server_info_report_seconds > 0 && settings.admin.is_some())
                .then_some(settings.server_info_report_seconds),
            ticket_keys: shares_tickets(&settings).then(|| bridge::ticket_keys(&tls)),
        })?;
        services.scrapes().serve(&control.metrics());
        let connections: Arc<dyn Connections> = gateway.clone();
        services.process().serve(instance, &connections);
        let workers = settings.workers;
        let quic = match predecessor.and_then(Predecessor::take_quic) {
            Some(quic) => quic,
            None => QuicProcess::first().map_err(anyhow::Error::msg).context("cannot use QUIC")?,
        };
        let own_quic = quic.clone();
        let engine = gateway.start(|runtime| EngineConfig {
            options: engine_options,
            workers,
            runtime,
            access_log,
            session_log,
            services: services.clone(),
            quic,
        })?;
        if let Some(predecessor) = predecessor {
            tls.adopt_ticket_secrets(&predecessor.take_ticket_secrets());
            wait_until_running(engine);
            // The predecessor has a runner that answers meanwhile.
            runner.await_running(RUNNER_WAIT);
            predecessor.await_commit()?;
        }
        for listener in &*sockets.proxy {
            if let Err(error) = listener.complete() {
                let address = listener.address();
                tracing::warn!(%error, %address, "some workers get their connections from others");
            }
        }
        engine.set_other_listeners(own_addresses);
        engine.open(sockets.proxy);
        if predecessor.is_some() {
            control.write_gate().hold();
        }
        control.listen(sockets.control)?;
        if let Some(lock) = &lock {
            if predecessor.is_some() {
                lock.announce()?;
            }
            tell_where(lock, &settings, &sockets.spare);
        }
        if let Some(predecessor) = predecessor {
            predecessor.serving();
        }
        if let Some(registration) = &registration {
            registration.start(control.readiness()).context("cannot start the thread of registrations")?;
        }
        let live = LiveSettings::new(settings_source, settings.clone(), services, stream_routes);
        Ok(Node {
            settings,
            live,
            control,
            gateway,
            tls,
            quic: own_quic,
            runner,
            log,
            access_logs: log_writers,
            registration,
            lines,
            is_successor: predecessor.is_some(),
            executable,
            lock,
            spare: sockets.spare,
        })
    }

    /// The sockets, folder, lock and program to offer a successor.
    ///
    /// # Errors
    /// Out of descriptors, or the program of this process is not known.
    pub(super) fn offer(&self) -> anyhow::Result<Offer> {
        let executable = self
            .executable
            .clone()
            .ok_or_else(|| anyhow::anyhow!("it is not known where this binary lies"))?;
        let mut all = Vec::new();
        for listener in self.gateway.engine().map(Engine::listeners).unwrap_or_default().iter() {
            let asked = listener.wanted().address;
            let name = sockets::name_of(listener);
            all.extend(listener.descriptors()?.into_iter().map(|socket| (name, asked, socket)));
            let datagrams = listener.datagrams().descriptors()?.into_iter();
            let of_udp = if listener.wanted().protocols.udp { name } else { sockets::DATAGRAMS };
            all.extend(datagrams.map(|socket| (of_udp, asked, TcpListener::from(OwnedFd::from(socket)))));
        }
        for (name, asked, socket) in &self.spare {
            all.push((name, *asked, socket.try_clone()?));
        }
        let has_http3 = all.iter().any(|(name, ..)| *name == sockets::DATAGRAMS);
        if has_http3 {
            let line = TcpListener::from(self.quic.line_for_successor()?);
            all.push((QUIC_LINE, SocketAddr::from(([0, 0, 0, 0], 0)), line));
        }
        Ok(Offer {
            executable,
            sockets: all,
            ticket_secrets: self.tls.ticket_secrets(),
            quic: self.quic.clone(),
            data: self.settings.data.clone(),
            lock: self.lock.as_ref().map(DirectoryLock::try_clone).transpose()?,
            hand_over: self.control.hand_over(),
            timeout: Duration::from_secs(self.settings.upgrade_timeout_seconds),
        })
    }

    /// Writes into the lock that this process runs on the data folder, and the addresses it listens on.
    ///
    /// # Errors
    /// The lock cannot be written to.
    pub(super) fn announce(&self) -> std::io::Result<()> {
        let Some(lock) = &self.lock else { return Ok(()) };
        lock.announce()?;
        tell_where(lock, &self.settings, &self.spare);
        Ok(())
    }

    /// Keeps the parts that go on after a hand-over: the data plane with its plugin runner, and the control side, which follows
    /// a file or etcd for a while. Closes the lock of the data folder and the spare sockets; the successor has its own descriptors of
    /// both, and the files in the folder are its own by then.
    pub(super) fn let_go(self) -> (Arc<Gateway>, Control, Supervisor) {
        // The successor has the same identity in registries, and renews it.
        if let Some(registration) = &self.registration {
            registration.stop();
        }
        // All other fields are dropped when this returns.
        (self.gateway, self.control, self.runner)
    }

    /// The lock of the data folder, if it is held.
    pub(super) fn lock(&self) -> Option<&DirectoryLock> {
        self.lock.as_ref()
    }
}

/// Whether the listener serves HTTP over TLS.
fn serves_https(listener: &Listener) -> bool {
    let protocols = listener.wanted().protocols;
    protocols.tls && protocols.application == Application::Http1
}

/// Whether keys of session tickets are shared with other instances: without a TLS listener nothing is written to etcd.
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

/// Writes the addresses of the control side into the lock, for commands that look for this instance.
fn tell_where(
    lock: &DirectoryLock,
    settings: &Settings,
    sockets: &[(&'static str, SocketAddr, TcpListener)],
) {
    let listener = |(name, _, socket): &(&'static str, SocketAddr, TcpListener)| {
        let certificate = settings.admin_tls_cert.as_ref().filter(|_| *name == "admin");
        // Commands may be run in another folder.
        let certificate = certificate.and_then(|path| std::path::absolute(path).ok());
        Some(InstanceListener { name: (*name).to_owned(), address: socket.local_addr().ok()?, certificate })
    };
    if let Err(error) = Instance::announce(lock, sockets.iter().filter_map(listener).collect()) {
        tracing::warn!(%error, "commands will not find this instance by its data folder; name it with --admin or --control");
    }
}

/// Waits without a limit of its own, because the predecessor has a deadline, after which it ends a start without
/// running workers.
fn wait_until_running(engine: &Engine) {
    while engine.ready().is_err() {
        std::thread::sleep(RUNNING_POLL);
    }
}
