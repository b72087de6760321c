//! Starting and stopping the control side: source, reconciling thread, listeners, in that order. It does not know
//! settings files and flags; boot passes their values.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use ipnet::IpNet;
use model::Catalog;
use model::acme::Challenges;
use model::tickets::SharedTicketKeys;
use thiserror::Error;
use tokio::sync::watch;

use crate::acme::{Acme, AcmeConfig, AcmeParts, beside_file};
use crate::admin::auth::{AdminKey, Gate};
use crate::admin::{Admin, AdminParts, ApiHeaders, max_set_bytes};
use crate::clock::Clock;
use crate::control_api::{ControlApi, ControlParts};
use crate::discovery::Discovery;
use crate::metrics_server::Metrics;
use crate::ocsp::Ocsp;
use crate::reconcile::file::DeclarativeFile;
use crate::reconcile::source::Source;
use crate::reconcile::store::EmbeddedStore;
use crate::reconcile::{HandOver, LoadError, Parts, Publisher, Reconcile, WriteGate};
use crate::report::Reports;
use crate::sealing::Sealer;
use crate::secret::Secrets;
use crate::serve::{Busy, Handler, serve};
use crate::shared_state::Shared;
use crate::source::etcd::{EtcdConfig, EtcdSource};
use crate::source::file::FileSource;
use crate::source::store::{DirectoryLock, Store, StoreError};
use crate::status::Status;
use crate::ticket_keys::{self, TicketSharing};
use crate::tls::{ServerTls, TlsFiles};
use crate::view::SharedView;

/// The parts that the control side needs to start.
pub struct ControlConfig {
    /// The source of the configuration.
    pub source: SourceConfig,
    /// All plugins of this gateway.
    pub catalog: Arc<Catalog>,
    /// Passes each configuration to the workers.
    pub publisher: Box<dyn Publisher>,
    /// The state of the running gateway.
    pub reports: Reports,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// The lock of the store's directory, if it is held already.
    pub lock: Option<DirectoryLock>,
    /// The rules of the Admin API.
    pub admin: AdminConfig,
    /// The key that secrets in the store are encrypted with.
    pub sealer: Sealer,
    /// The values of references to secrets; the compiler behind the publisher has them too.
    pub secrets: Arc<Secrets>,
    /// Whether the instance is ready although faults keep routes or global rules out of force since its start.
    pub ready_with_faults: bool,
    /// Certificates to order by ACME; none orders none.
    pub acme: Option<AcmeConfig>,
    /// The place where the data plane finds answers to challenges.
    pub challenges: Arc<Challenges>,
    /// The OCSP responses that are stapled; the compiler behind the publisher has them too.
    pub ocsp: Arc<Ocsp>,
    /// The data plane's keys of session tickets, which a cluster shares; none where there are no tickets.
    pub ticket_keys: Option<Arc<dyn SharedTicketKeys>>,
    /// The registries that name nodes of upstreams, if any are configured; the compiler behind the publisher has them too.
    pub discovery: Option<Arc<Discovery>>,
}

/// The source of the configuration.
#[derive(Debug, Clone)]
pub enum SourceConfig {
    /// The embedded store in this data directory.
    Store {
        /// The data directory; made if it is missing.
        directory: PathBuf,
    },
    /// A declarative file.
    File {
        path: PathBuf,
        /// Whether a file with any fault changes nothing, and prevents the start.
        strict: bool,
        /// The directory for good forms of faulty objects; made when there is one.
        directory: PathBuf,
    },
    /// etcd; a copy of its data is kept in this data directory.
    Etcd {
        /// Endpoints, prefix and credentials.
        config: Box<EtcdConfig>,
        /// The data directory; made if it is missing.
        directory: PathBuf,
    },
}

impl SourceConfig {
    /// The data directory.
    fn directory(&self) -> &Path {
        match self {
            SourceConfig::Store { directory }
            | SourceConfig::File { directory, .. }
            | SourceConfig::Etcd { directory, .. } => directory,
        }
    }

    /// The source; this is the one place that names them all.
    fn open(self, lock: Option<DirectoryLock>) -> Result<Box<dyn Source>, LoadError> {
        Ok(match self {
            SourceConfig::Store { directory } => {
                let store = match lock {
                    Some(lock) => Store::open_locked(lock)?,
                    None => Store::open(&directory)?,
                };
                Box::new(EmbeddedStore::new(store))
            }
            SourceConfig::File { path, strict, .. } => {
                Box::new(DeclarativeFile::new(FileSource::new(path), strict))
            }
            SourceConfig::Etcd { config, directory } => {
                let lock = match lock {
                    Some(lock) => lock,
                    None => DirectoryLock::take(&directory).map_err(StoreError::from)?,
                };
                Box::new(EtcdSource::new(*config, &lock)?)
            }
        })
    }
}

/// Bound sockets; none means that the listener is off.
#[derive(Debug, Default)]
pub struct Listeners {
    /// The Admin API.
    pub admin: Option<TcpListener>,
    /// The control API.
    pub control: Option<TcpListener>,
    /// `/status`.
    pub status: Option<TcpListener>,
    /// The metrics.
    pub metrics: Option<TcpListener>,
}

/// The rules of the Admin API.
#[derive(Debug, Clone)]
pub struct AdminConfig {
    /// Keys with their roles.
    pub keys: Vec<AdminKey>,
    /// Off: every client on the allow list may do everything (`admin_key_required: false`).
    pub key_required: bool,
    /// Networks that may connect; empty means the contract's default.
    pub allow: Vec<IpNet>,
    /// `enable_admin_cors`.
    pub cors: bool,
    /// The APISIX version shown in `Server`; none: `Server` has no version.
    pub emulated_version: Option<String>,
    /// Whether stream routes are accepted; otherwise they are refused as APISIX refuses them with layer 4 off.
    pub stream_routes: bool,
    /// The memory that the process may use, in bytes, which limits the bodies of whole sets; 0 is no limit.
    pub memory_limit_bytes: u64,
    /// HTTPS with these files; none: plain HTTP.
    pub tls: Option<TlsFiles>,
}

impl Default for AdminConfig {
    fn default() -> AdminConfig {
        AdminConfig {
            keys: Vec::new(),
            key_required: true,
            allow: Vec::new(),
            cors: true,
            emulated_version: Some(EMULATED_VERSION.to_owned()),
            stream_routes: true,
            memory_limit_bytes: 0,
            tls: None,
        }
    }
}

/// The reasons why the control side does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// There is no first configuration.
    #[error(transparent)]
    Source(#[from] LoadError),
    /// The certificate of the Admin API cannot be used.
    #[error("the Admin API cannot be served over HTTPS: {0}")]
    Tls(String),
    /// Certificates cannot be ordered.
    #[error("certificates cannot be ordered by ACME: {0}")]
    Acme(String),
    /// The runtime or a listener cannot be set up.
    #[error("cannot start the control side: {0}")]
    Io(#[from] std::io::Error),
}

/// The running control side.
pub struct Control {
    reconcile: Reconcile,
    view: SharedView,
    reconcile_thread: Option<JoinHandle<()>>,
    runtime: Option<tokio::runtime::Runtime>,
    stop: watch::Sender<bool>,
    admin_paused: watch::Sender<bool>,
    admin_busy: Busy,
    admin_tls: Option<Arc<ServerTls>>,
    acme: Option<Arc<Acme>>,
    /// Ends with this value.
    _ticket_sharing: Option<TicketSharing>,
    handlers: Handlers,
}

impl Control {
    /// Loads the configuration and publishes it, both before this returns. Listeners open with [`Control::listen`].
    ///
    /// # Errors
    /// See [`StartError`]; no thread is left running.
    pub fn start(config: ControlConfig) -> Result<Control, StartError> {
        let admin_tls = config.admin.tls.clone().map(ServerTls::load).transpose().map_err(StartError::Tls)?;
        let data = Some(config.source.directory().to_owned());
        let is_file = matches!(config.source, SourceConfig::File { .. });
        let source = config.source.open(config.lock)?;
        let view = SharedView::default();
        let sealer = config.sealer.clone();
        let acme = match config.acme {
            Some(acme) => Some((acme, shared_state(&*source, data.as_deref())?)),
            None => None,
        };
        let ticket_sharing = config.ticket_keys.zip(source.cluster()).map(|(keys, access)| {
            let handle = access.runtime;
            let shared = Shared::cluster(access.etcd, &access.prefix, ticket_keys::FOLDER, &handle);
            TicketSharing::start(shared, sealer.clone(), Arc::clone(&config.clock), keys, &handle)
        });
        let beside = acme.as_ref().filter(|_| is_file);
        let beside_file = beside.map(|(_, shared)| beside_file(shared, &sealer)).unwrap_or_default();
        let (reconcile, thread) = Reconcile::start(
            source,
            Parts {
                catalog: Arc::clone(&config.catalog),
                publisher: config.publisher,
                clock: Arc::clone(&config.clock),
                beside_file,
                view: view.clone(),
                sealer: config.sealer,
                secrets: config.secrets,
                ocsp: config.ocsp,
                data,
            },
        )?;
        let acme = acme.map(|(acme, shared)| {
            Acme::new(AcmeParts {
                config: acme,
                shared,
                reconcile: reconcile.clone(),
                view: view.clone(),
                sealer: sealer.clone(),
                clock: config.clock,
                challenges: config.challenges,
                beside_file: is_file,
            })
            .map(Arc::new)
        });
        // The thread is told to end where there is nothing to go on with.
        let acme = match acme.transpose() {
            Ok(acme) => acme,
            Err(fault) => {
                reconcile.stop();
                return Err(StartError::Acme(fault));
            }
        };
        let (stop, admin_paused) = (watch::Sender::new(false), watch::Sender::new(false));
        let status_view = (!config.ready_with_faults).then(|| view.clone());
        let status = {
            let reports = &config.reports;
            Status::new(Arc::clone(&reports.readiness), Arc::clone(&reports.certificates), status_view)
        };
        let handlers = handlers(HandlerParts {
            reconcile: reconcile.clone(),
            view: view.clone(),
            admin: config.admin,
            catalog: config.catalog,
            reports: config.reports,
            status,
            sealer,
            acme: acme.clone(),
            discovery: config.discovery,
        });
        let mut control = Control {
            reconcile,
            view,
            reconcile_thread: Some(thread),
            runtime: None,
            stop,
            admin_paused,
            admin_busy: Busy::default(),
            admin_tls: admin_tls.map(Arc::new),
            acme,
            _ticket_sharing: ticket_sharing,
            handlers,
        };
        // If there is none, dropping `control` ends the thread.
        control.runtime = Some(runtime()?);
        Ok(control)
    }

    /// Serves on these sockets from now on, and begins to order certificates, because the data plane can answer challenges
    /// by then.
    ///
    /// # Errors
    /// A socket cannot be registered with the runtime; the sockets before it are served.
    pub fn listen(&self, listeners: Listeners) -> std::io::Result<()> {
        let Some(runtime) = &self.runtime else { return Ok(()) };
        let never = watch::Sender::new(false);
        let not_asked = Busy::default();
        let tls = self.admin_tls.as_ref();
        let all = [
            (listeners.admin, tls, &self.handlers.admin, &self.admin_paused, &self.admin_busy),
            (listeners.control, None, &self.handlers.control, &never, &not_asked),
            (listeners.status, None, &self.handlers.status, &never, &not_asked),
            (listeners.metrics, None, &self.handlers.metrics, &never, &not_asked),
        ];
        for (listener, tls, handler, paused, busy) in all {
            let Some(listener) = listener else { continue };
            listener.set_nonblocking(true)?;
            let entered = runtime.enter();
            let listener = tokio::net::TcpListener::from_std(listener)?;
            drop(entered);
            let (paused, stop) = (paused.subscribe(), self.stop.subscribe());
            runtime.spawn(serve(listener, tls.cloned(), Arc::clone(handler), paused, stop, busy.clone()));
        }
        self.acme.as_ref().map_or(Ok(()), |acme| acme.start())
    }

    /// Passes the source to another process.
    pub fn hand_over(&self) -> HandOver {
        HandOver::new(self.reconcile.clone(), self.admin_paused.clone()).after(self.admin_busy.clone())
    }

    /// The gate that writes of the Admin API pass.
    pub fn write_gate(&self) -> WriteGate {
        self.reconcile.gate().clone()
    }

    /// Stops the listeners and the work on certificates, and continues to follow the source.
    pub fn stop_listening(&self) {
        self.stop_acme();
        // All listeners may have ended, which is the state that is asked for.
        let _ = self.stop.send(true);
    }

    /// The revision in force.
    pub fn revision(&self) -> u64 {
        self.view.load().revision()
    }

    /// The view for readers.
    pub fn view(&self) -> SharedView {
        self.view.clone()
    }

    /// Requests that the file is read again (signal HUP); returns at once.
    pub fn reload(&self) {
        self.reconcile.request_reload();
    }

    /// Stops the listeners, finishes the writes that wait and releases the data directory.
    pub fn shutdown(mut self) {
        self.end();
    }

    fn stop_acme(&self) {
        if let Some(acme) = &self.acme {
            acme.stop();
        }
    }

    fn end(&mut self) {
        // First, because its writes go through the thread that ends next.
        self.stop_acme();
        // The receiver may be gone, which is the state that is asked for.
        let _ = self.stop.send(true);
        if let Some(thread) = self.reconcile_thread.take() {
            self.reconcile.stop();
            if thread.join().is_err() {
                tracing::error!("the control thread had panicked");
            }
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.end();
    }
}

struct Handlers {
    admin: Arc<dyn Handler>,
    control: Arc<dyn Handler>,
    status: Arc<dyn Handler>,
    metrics: Arc<dyn Handler>,
}

/// The parts of the handlers of all listeners.
struct HandlerParts {
    reconcile: Reconcile,
    view: SharedView,
    admin: AdminConfig,
    catalog: Arc<Catalog>,
    reports: Reports,
    status: Status,
    sealer: Sealer,
    acme: Option<Arc<Acme>>,
    discovery: Option<Arc<Discovery>>,
}

fn handlers(parts: HandlerParts) -> Handlers {
    let HandlerParts { reconcile, view, admin, catalog, reports, status, sealer, acme, discovery } = parts;
    let control = ControlApi::new(ControlParts {
        view: view.clone(),
        reconcile: reconcile.clone(),
        catalog: Arc::clone(&catalog),
        reports: reports.clone(),
        discovery,
    });
    let metrics = Metrics::new(Arc::clone(&reports.metrics), view.clone(), acme.clone());
    let admin = Admin::new(AdminParts {
        gate: Gate::new(admin.keys, admin.key_required, admin.allow),
        headers: ApiHeaders::new(admin.emulated_version.as_deref(), admin.cors),
        view: view.clone(),
        reconcile: reconcile.clone(),
        catalog,
        reports,
        stream_routes: admin.stream_routes,
        sealer,
        acme,
        max_set_bytes: max_set_bytes(admin.memory_limit_bytes),
    });
    Handlers {
        admin: Arc::new(admin),
        control: Arc::new(control),
        status: Arc::new(status),
        metrics: Arc::new(metrics),
    }
}

/// Where the state of certificates is shared: in etcd, else in the data folder.
fn shared_state(source: &dyn Source, data: Option<&Path>) -> Result<Shared, StartError> {
    match source.cluster() {
        Some(access) => Ok(Shared::cluster(access.etcd, &access.prefix, ACME_FOLDER, &access.runtime)),
        None => {
            let folder = data.unwrap_or(Path::new(".")).join(ACME_FOLDER);
            Shared::alone(folder.clone())
                .map_err(|fault| StartError::Acme(format!("{}: {fault}", folder.display())))
        }
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(RUNTIME_THREADS)
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .thread_name("control")
        .enable_all()
        .build()
}

/// The folder of accounts, records and certificates within the data folder.
const ACME_FOLDER: &str = "acme";
/// The version of APISIX that the interface emulates (decision 0029).
pub const EMULATED_VERSION: &str = "3.18.0";
/// Two threads, so that one accepts while the other serves. Not more, because the data plane needs the cores.
const RUNTIME_THREADS: usize = 2;
/// Limit of listings and scrapes that run at once.
const MAX_BLOCKING_THREADS: usize = 4;
/// Longest time for answers that are not complete when the gateway stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::testing::{Recorder, catalog, reports};
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};

    fn config(source: SourceConfig) -> ControlConfig {
        let keys = vec![AdminKey { key: "boss".to_owned(), role: crate::Role::Admin }];
        ControlConfig {
            source,
            catalog: catalog(),
            publisher: Box::new(Recorder::default()),
            reports: reports(),
            clock: Arc::new(SystemClock),
            lock: None,
            admin: AdminConfig { keys, ..AdminConfig::default() },
            sealer: crate::testing::sealer(&[]),
            secrets: crate::testing::secrets(),
            ready_with_faults: false,
            acme: None,
            challenges: Arc::default(),
            ocsp: Arc::default(),
            ticket_keys: None,
            discovery: None,
        }
    }

    fn bound() -> (Option<TcpListener>, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (Some(listener), address)
    }

    fn talk(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn all_listeners_answer_and_end() {
        let directory = tempfile::tempdir().unwrap();
        let ((admin, admin_at), (control, control_at), (status, status_at), (metrics, metrics_at)) =
            (bound(), bound(), bound(), bound());
        let listeners = Listeners { admin, control, status, metrics };
        let source = SourceConfig::Store { directory: directory.path().to_owned() };
        let running = Control::start(config(source.clone())).unwrap();
        running.listen(listeners).unwrap();
        let check = |address: SocketAddr, target: &str, expected: &str| {
            let request =
                format!("GET {target} HTTP/1.1\r\nHost: x\r\nX-API-KEY: boss\r\nConnection: close\r\n\r\n");
            let answer = talk(address, &request);
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with(expected), "{answer}");
        };
        check(admin_at, "/apisix/admin/routes", "{\"list\":[],\"total\":0}\n");
        check(control_at, "/v1/routes", "[]\n");
        check(status_at, "/status/ready", "{\"status\":\"ok\"}\n");
        check(metrics_at, "/apisix/prometheus/metrics", "weir_config_skipped_plugins 0\n");
        let huge = format!(
            "PUT /apisix/admin/routes/1 HTTP/1.1\r\nHost: x\r\nX-API-KEY: boss\r\nContent-Length: {}\r\n\r\n",
            1_u64 << 40
        );
        assert!(talk(admin_at, &huge).starts_with("HTTP/1.1 400"), "refused before a byte of the body");
        let keyless = "PUT /apisix/admin/routes/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n";
        assert!(talk(admin_at, keyless).starts_with("HTTP/1.1 401"));
        assert_eq!(running.revision(), 0);
        running.shutdown();
        assert!(TcpStream::connect(admin_at).is_err());
        Control::start(config(source)).unwrap();
    }

    #[test]
    fn directory_in_use_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let source = SourceConfig::Store { directory: directory.path().to_owned() };
        let running = Control::start(config(source.clone())).unwrap();
        let Err(refusal) = Control::start(config(source)) else { panic!("two processes on one store") };
        let refusal = refusal.to_string();
        assert!(refusal.contains("in use by process"), "{refusal}");
        running.shutdown();
    }
}
