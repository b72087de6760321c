//! Starting and stopping the control side: source, reconciling thread, listeners, in that order. It does not
//! know settings files and flags; boot passes their values.

mod config;
mod handlers;

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;

use model::report::MetricsText;

use crate::acme::{Acme, AcmeParts, load_ordered_certificates};
use crate::extension_folder::{FolderParts, FollowedFolder};
use crate::reconcile::source::ConfigSource;
use crate::reconcile::{HandOver, Reconcile, ReconcileParts, WriteGate};
use crate::serve::tls::ServerTls;
use crate::serve::{Busy, serve};
use crate::server_info::ServerInfoReport;
use crate::shared_state::SharedState;
use crate::status::StatusHandler;
use crate::ticket_keys::{self, TicketSharing};
use crate::view::SharedView;
pub use config::{
    AdminConfig, ControlConfig, ControlListeners, ControlStartError, EMULATED_VERSION, SourceConfig,
};
use handlers::{HandlerParts, Handlers, handlers};

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
    extensions: Option<FollowedFolder>,
    /// Ends with this value.
    _ticket_sharing: Option<TicketSharing>,
    /// Ends with this value.
    _server_info: Option<ServerInfoReport>,
    handlers: Handlers,
    status: Arc<StatusHandler>,
}

impl Control {
    /// All metrics of the instance.
    pub fn metrics(&self) -> Arc<dyn MetricsText> {
        self.handlers.scrape.clone()
    }

    /// Loads the configuration and publishes it, both before this returns. Listeners open with
    /// [`Control::listen`].
    ///
    /// # Errors
    /// See [`ControlStartError`]; no thread is left running.
    pub fn start(config: ControlConfig) -> Result<Control, ControlStartError> {
        let admin_tls =
            config.admin.tls.clone().map(ServerTls::load).transpose().map_err(ControlStartError::Tls)?;
        let data = Some(config.source.directory().to_owned());
        let source_name = config.source.name();
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
            let shared = SharedState::cluster(access.etcd, &access.prefix, ticket_keys::FOLDER, &handle);
            TicketSharing::start(shared, sealer.clone(), Arc::clone(&config.clock), keys, &handle)
        });
        let server_info = config.server_info_ttl_s.zip(source.cluster()).map(|(ttl_s, access)| {
            let instance = Arc::clone(&config.reports.instance);
            ServerInfoReport::start(access.etcd, &access.prefix, instance, ttl_s, &access.runtime)
        });
        let beside = acme.as_ref().filter(|_| is_file);
        let beside_file =
            beside.map(|(_, shared)| load_ordered_certificates(shared, &sealer)).unwrap_or_default();
        let auto_routes = config
            .discovery
            .as_ref()
            .and_then(|discovery| Some((discovery.auto_routes()?, discovery.settle_limit())));
        let (reconcile, thread) = Reconcile::start(
            source,
            ReconcileParts {
                catalog: Arc::clone(&config.catalog),
                publisher: config.publisher,
                clock: Arc::clone(&config.clock),
                beside_file,
                view: view.clone(),
                sealer: config.sealer,
                secrets: config.secrets,
                ocsp: config.ocsp,
                auto_routes,
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
                clock: Arc::clone(&config.clock),
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
                return Err(ControlStartError::Acme(fault));
            }
        };
        let (stop, admin_paused) = (watch::Sender::new(false), watch::Sender::new(false));
        let status_view = (!config.ready_with_faults).then(|| view.clone());
        let status = {
            let reports = &config.reports;
            Arc::new(StatusHandler::new(
                Arc::clone(&reports.readiness),
                Arc::clone(&reports.certificates),
                status_view,
            ))
        };
        let extensions = config.extensions_folder.map(|folder| {
            let (reconcile, view, catalog) = (reconcile.clone(), view.clone(), Arc::clone(&config.catalog));
            FollowedFolder::new(FolderParts { folder, reconcile, view, catalog })
        });
        let handlers = handlers(HandlerParts {
            reconcile: reconcile.clone(),
            view: view.clone(),
            admin: config.admin,
            catalog: config.catalog,
            reports: config.reports,
            status: Arc::clone(&status),
            sealer,
            clock: config.clock,
            acme: acme.clone(),
            discovery: config.discovery,
            registration: config.registration,
            source: source_name,
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
            extensions,
            _ticket_sharing: ticket_sharing,
            _server_info: server_info,
            handlers,
            status,
        };
        // If there is none, dropping `control` ends the thread.
        control.runtime = Some(runtime()?);
        Ok(control)
    }

    /// Serves on these sockets from now on, and begins to order certificates, because the data plane can
    /// answer challenges by then.
    ///
    /// # Errors
    /// A socket cannot be registered with the runtime; the sockets before it are served.
    pub fn listen(&self, listeners: ControlListeners) -> std::io::Result<()> {
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
        self.acme.as_ref().map_or(Ok(()), |acme| acme.start())?;
        self.extensions.as_ref().map_or(Ok(()), FollowedFolder::start)
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
        self.stop_background();
        // All listeners may have ended, which is the state that is asked for.
        let _ = self.stop.send(true);
    }

    /// Tells whether this instance can take traffic, as `/status/ready` does.
    pub fn readiness(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let status = Arc::clone(&self.status);
        move || status.ready().is_ok()
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

    fn stop_background(&self) {
        if let Some(acme) = &self.acme {
            acme.stop();
        }
        if let Some(extensions) = &self.extensions {
            extensions.stop();
        }
    }

    fn end(&mut self) {
        // First, because its writes go through the thread that ends next.
        self.stop_background();
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

/// Where the state of certificates is shared: in etcd, else in the data folder.
fn shared_state(source: &dyn ConfigSource, data: Option<&Path>) -> Result<SharedState, ControlStartError> {
    match source.cluster() {
        Some(access) => Ok(SharedState::cluster(access.etcd, &access.prefix, ACME_FOLDER, &access.runtime)),
        None => {
            let folder = data.unwrap_or(Path::new(".")).join(ACME_FOLDER);
            SharedState::alone(folder.clone())
                .map_err(|fault| ControlStartError::Acme(format!("{}: {fault}", folder.display())))
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
/// Two threads, so that one accepts while the other serves. Not more, because the data plane needs the cores.
const RUNTIME_THREADS: usize = 2;
/// Limit of listings and scrapes that run at once.
const MAX_BLOCKING_THREADS: usize = 4;
/// Longest time for answers that are not complete when the gateway stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::auth::AdminKey;
    use crate::clock::SystemClock;
    use crate::testing::{Recorder, catalog, reports};
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};

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
            registration: None,
            extensions_folder: None,
            server_info_ttl_s: None,
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
        let listeners = ControlListeners { admin, control, status, metrics };
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
