//! The parts that tests of several files share: a whole control side in memory, asked without sockets, with a
//! clock that is moved by hand.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, Request};
use http_body_util::Full;
use model::catalog::Subsystem;
use model::control_endpoint::{ControlAnswer, ControlEndpoint};
use model::extension::{ExtensionLoader, LoadedVersion};
use model::report::{
    Breakdown, CertificateReport, CertificateState, Certificates, ListenerReport, Listening, LogLevel,
    MetricsText, NodeHealth, NodeReport, NodeTransition, Readiness, Top, Traffic, TrafficRate, TrafficRow,
    UpstreamHealth, UpstreamNodes, UpstreamReport, WorkerRevision, WorkerRevisions,
};
use model::{Applied, ConfigFault, ObjectKind, PluginCatalog, PluginInfo};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::admin::auth::{AdminKey, Gate};
use crate::admin::call::AdminParts;
use crate::admin::live::LiveState;
use crate::admin::server::Admin;
use crate::clock::Clock;
use crate::control_api::{ControlApi, ControlParts};
use crate::reconcile::file::DeclarativeFile;
use crate::reconcile::source::ConfigSource;
use crate::reconcile::store::EmbeddedStore;
use crate::reconcile::{LoadError, Publisher, Reconcile, ReconcileParts};
use crate::report::Reports;
use crate::sealing::Sealer;
use crate::secret::{SecretOptions, Secrets};
use crate::serve::respond::ApiHeaders;
use crate::serve::role::Role;
use crate::serve::{Handler, respond_to_request};
use crate::source::file::FileSource;
use crate::source::store::{ConfigStore, DirectoryLock};
use crate::summary::{Summaries, Summary};
use crate::tap::TapHub;
use crate::tap::tests::Script;
use crate::view::{SharedView, View};

/// Asks `handler` from the loopback address; returns status, headers and body.
pub(crate) async fn ask(
    handler: &dyn Handler,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, HeaderMap, String) {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(bytes::Bytes::copy_from_slice(body.as_bytes()))).unwrap();
    let response = respond_to_request(handler, request, "127.0.0.1:1".parse().unwrap(), &|_| ()).await;
    let (head, body) = response.into_parts();
    (head.status.as_u16(), head.headers, String::from_utf8(body.to_vec()).unwrap())
}

/// Runs a future to its end on a runtime of its own.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A clock that stands still unless a test moves it.
#[derive(Debug, Default)]
pub(crate) struct HandClock(AtomicU64);

impl HandClock {
    pub(crate) fn advance(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Clock for HandClock {
    fn unix_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Records each publication: the revision and the keys that differ. Returns the faults that a test gave it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorder(pub(crate) Arc<Mutex<Vec<Publication>>>, pub(crate) Arc<Mutex<Vec<ConfigFault>>>);

/// A revision and the keys that differ in it.
pub(crate) type Publication = (u64, Vec<String>);

impl Publisher for Recorder {
    fn publish(&mut self, applied: &Applied) -> Vec<ConfigFault> {
        let keys = applied.diff.iter().map(|difference| difference.key.path()).collect();
        self.0.lock().push((applied.snapshot.revision(), keys));
        self.1.lock().clone()
    }
}

/// A gateway of two workers that is always ready and checks one upstream.
pub(crate) struct Gateway;

impl WorkerRevisions for Gateway {
    fn revisions(&self) -> Vec<WorkerRevision> {
        vec![WorkerRevision { worker: 0, revision: 3 }, WorkerRevision { worker: 1, revision: 2 }]
    }
}

impl MetricsText for Gateway {
    fn write_metrics(&self, text: &mut String) {
        text.push_str("apisix_up 1\n");
    }
}

impl NodeHealth for Gateway {
    fn health(&self) -> Vec<UpstreamHealth> {
        let node = model::report::NodeStatus {
            ip: "127.0.0.1".to_owned(),
            port: 80,
            hostname: Some("<a>".into()),
            status: model::report::NodeVerdict::MostlyHealthy,
            counter: model::report::HealthCounter { success: 1, ..Default::default() },
            reason: None,
        };
        vec![UpstreamHealth { name: "/upstreams/checked".to_owned(), check_type: "http", nodes: vec![node] }]
    }
}

impl UpstreamNodes for Gateway {
    fn upstreams(&self, name: Option<&str>) -> Vec<UpstreamReport> {
        let node = |port: u16, unhealthy: Option<NodeTransition>| NodeReport {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            host: "a".into(),
            weight: 1,
            priority: 0,
            unhealthy,
            ejected: None,
            in_flight: 2,
            ewma_ms: Some(1.5),
            health: Some((model::report::NodeVerdict::Healthy, Default::default())),
            protection: None,
        };
        let down = NodeTransition { at_ms: 1_767_225_661_999, cause: "a test".into() };
        let upstream = UpstreamReport {
            name: "/upstreams/checked".into(),
            method: "roundrobin",
            scheme: "http",
            check_type: Some("tcp"),
            protection: None,
            note: None,
            nodes: vec![node(80, None), node(81, Some(down))],
        };
        if name.is_none_or(|name| name == &*upstream.name) { vec![upstream] } else { Vec::new() }
    }
}

impl Readiness for Gateway {
    fn ready(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A log with one more level besides its first.
pub(crate) struct Level(Mutex<String>);

impl LogLevel for Level {
    fn level(&self) -> String {
        self.0.lock().clone()
    }

    fn set_level(&self, level: &str) -> Result<(), String> {
        if level != "debug" {
            return Err(format!("`{level}` is not a level"));
        }
        level.clone_into(&mut self.0.lock());
        Ok(())
    }
}

impl Listening for Gateway {
    fn listeners(&self) -> Vec<ListenerReport> {
        let address = SocketAddr::from(([127, 0, 0, 1], 9080));
        vec![ListenerReport { name: "proxy", address, protocols: vec!["http1"] }]
    }
}

impl Certificates for Gateway {
    fn certificates(&self, _: usize) -> (Vec<CertificateReport>, usize) {
        let names = vec!["a.example".into()];
        (
            vec![CertificateReport {
                id: "1".into(),
                names,
                is_shown_to_nodes: false,
                state: CertificateState::Faulty,
                facts: None,
            }],
            1,
        )
    }
}

pub(crate) fn reports() -> Reports {
    Reports {
        instance: Arc::default(),
        workers: Arc::new(Gateway),
        metrics: Arc::new(Gateway),
        health: Arc::new(Gateway),
        upstreams: Arc::new(Gateway),
        readiness: Arc::new(Gateway),
        listening: Arc::new(Gateway),
        certificates: Arc::new(Gateway),
        explain: None,
        endpoints: None,
        log_level: Some(Arc::new(Level(Mutex::new("info".to_owned())))),
        traffic: None,
        tap: Some(TapHub::new(Arc::new(Script::with_a_failure()))),
    }
}

/// No environment, and secret managers that answer at once or not at all.
pub(crate) fn secrets() -> Arc<Secrets> {
    let second = std::time::Duration::from_secs(1);
    let options = SecretOptions {
        refresh: second,
        stale: second,
        timeout: second,
        policy: Default::default(),
        ca: None,
        files: Default::default(),
    };
    Arc::new(Secrets::new(options, |_| None))
}

/// A self-signed certificate and its key, in PEM; all tests of this process share it.
pub(crate) fn certificate() -> &'static (String, String) {
    static PAIR: std::sync::LazyLock<(String, String)> = std::sync::LazyLock::new(|| {
        let made = rcgen::generate_simple_self_signed(vec!["a.example".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    });
    &PAIR
}

/// A sealer for that catalog.
pub(crate) fn sealer(keyring: &[&str]) -> Sealer {
    Sealer::new(catalog(), keyring).unwrap()
}

/// A plugin `auth` for consumers, and a plugin `count` with a schema of its own.
pub(crate) fn catalog() -> Arc<PluginCatalog> {
    let mut auth = PluginInfo::new("auth", 2500, json!({ "type": "object", "additionalProperties": false }));
    auth.is_auth = true;
    auth.consumer_key = &["key"];
    auth.consumer_schema = Some(
        json!({
            "type": "object",
            "properties": { "key": { "type": "string" } },
            "encrypt_fields": ["key"],
            "required": ["key"],
        })
        .into(),
    );
    let mut count = PluginInfo::new(
        "count",
        1002,
        json!({
            "type": "object",
            "properties": {
                "count": { "type": "integer", "minimum": 1 },
                "password": { "type": "string" },
            },
            "encrypt_fields": ["password"],
            "required": ["count"],
            "additionalProperties": false,
        }),
    );
    count.control_endpoints = &[ControlEndpoint {
        path: "/v1/plugin/count/query",
        answer: |question| ControlAnswer::Text(format!("{}{}", question.query, question.instance.id)),
    }];
    count.check = |config| {
        if config["password"] == COUNTED_PASSWORD {
            CHECKS.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    count.subsystems = &[Subsystem::Http, Subsystem::Stream];
    count.metadata_schema =
        Some(json!({ "type": "object", "properties": { "size": { "type": "integer" } } }).into());
    Arc::new(PluginCatalog::new(vec![count, auth]).unwrap().with_loader(Arc::new(TinyLanguage)))
}

/// A language of which the content is the name of the one field that configurations must have; `broken`
/// cannot be loaded.
struct TinyLanguage;

impl ExtensionLoader for TinyLanguage {
    fn languages(&self) -> Vec<&'static str> {
        vec!["tiny"]
    }

    fn is_binary(&self, _language: &str) -> bool {
        false
    }

    fn load(&self, name: &str, _language: &str, content: &[u8]) -> Result<LoadedVersion, String> {
        let field = String::from_utf8_lossy(content).into_owned();
        if field == "broken" {
            return Err("line 1: it is broken".to_owned());
        }
        let info = PluginInfo::new(name.to_owned(), 7, json!({ "type": "object", "required": [field] }));
        Ok(LoadedVersion { info, serial: 1, code: Arc::new(()) })
    }
}

/// Each check of a configuration of `count` with this password is counted in [`CHECKS`].
pub(crate) const COUNTED_PASSWORD: &str = "counted";
/// See [`COUNTED_PASSWORD`]. Only one test uses it, because the tests of a process run at the same time.
pub(crate) static CHECKS: AtomicU64 = AtomicU64::new(0);

/// The longest body of a whole set in tests: longer than the one of an object.
pub(crate) const MAX_SET_BYTES: usize = 4 << 20;

/// The store as a source.
pub(crate) fn embedded(store: ConfigStore) -> Box<dyn ConfigSource> {
    Box::new(EmbeddedStore::new(store))
}

/// Traffic that a test wrote.
pub(crate) struct Measured(Vec<(Breakdown, TrafficRate)>);

impl Traffic for Measured {
    fn rates(&self, by: Breakdown) -> Arc<[TrafficRate]> {
        self.0.iter().filter(|(of, _)| *of == by).map(|(_, rate)| rate.clone()).collect()
    }

    /// Endpoints are of the upstream `checked`, and of another one with ten times the traffic.
    fn top(&self, by: Breakdown, _: u64, _: usize) -> Top {
        let row = |rate: &TrafficRate, upstream: &str, times: f64| TrafficRow {
            id: Arc::clone(&rate.id),
            upstream: Some(upstream.into()),
            requests: rate.requests * times,
            client_errors: rate.client_errors,
            server_errors: rate.server_errors,
            mean_us: 0,
            p99_us: rate.p99_us,
            bytes: rate.bytes,
            last_failure: Some(("origin_closed", 1_767_225_662_000)),
        };
        let rows = self.rates(by);
        let rows = rows
            .iter()
            .flat_map(|rate| [row(rate, "/upstreams/checked", 1.0), row(rate, "/upstreams/other", 10.0)]);
        Top { rows: rows.collect(), ..Top::default() }
    }
}

/// The parts of an Admin API with the keys `boss` and `guest`.
fn admin_parts(
    view: &SharedView,
    reconcile: &Reconcile,
    clock: &Arc<HandClock>,
    keyring: &[&str],
    catalog: &Arc<PluginCatalog>,
) -> AdminParts {
    let key = |key: &str, role| AdminKey { key: key.to_owned(), role };
    AdminParts {
        gate: Gate::new(vec![key("boss", Role::Admin), key("guest", Role::Viewer)], true, Vec::new())
            .with_hosts(vec!["admin.example".to_owned()])
            .with_clock(Arc::clone(clock) as Arc<dyn Clock>),
        headers: ApiHeaders::new(Some("3.18.0"), true),
        view: view.clone(),
        reconcile: reconcile.clone(),
        catalog: Arc::clone(catalog),
        reports: reports(),
        sealer: sealer(keyring),
        acme: None,
        max_set_bytes: MAX_SET_BYTES,
        certificate_file: None,
        source: "store",
        ui: true,
        summaries: Summaries::default(),
        live: LiveState::default(),
    }
}

/// A whole control side over a source, without listeners.
pub(crate) struct Rig {
    pub(crate) admin: Admin,
    pub(crate) control: ControlApi,
    pub(crate) view: SharedView,
    pub(crate) clock: Arc<HandClock>,
    pub(crate) published: Recorder,
    pub(crate) reconcile: Reconcile,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Rig {
    /// A rig over the store in `directory`.
    pub(crate) fn store(directory: &Path) -> Rig {
        Rig::sealed_store(directory, &[])
    }

    /// The summaries of a kind as the Admin API lists them, and the view that they are of.
    pub(crate) fn newest_summaries(&self, kind: ObjectKind) -> (Arc<View>, Arc<[Summary]>) {
        self.admin.parts.summaries.newest(&self.view, kind)
    }

    /// A rig over the store in `directory`, with a keyring.
    pub(crate) fn sealed_store(directory: &Path, keyring: &[&str]) -> Rig {
        Rig::start(embedded(ConfigStore::open(directory).unwrap()), keyring).unwrap()
    }

    /// A rig over the store in a directory that is locked already.
    pub(crate) fn locked_store(lock: DirectoryLock) -> Rig {
        Rig::start(embedded(ConfigStore::open_locked(lock).unwrap()), &[]).unwrap()
    }

    /// A rig over a resource file.
    pub(crate) fn file(path: &Path, strict: bool) -> Result<Rig, LoadError> {
        Rig::start(Box::new(DeclarativeFile::new(FileSource::new(path.to_owned()), strict)), &[])
    }

    /// As `store`, with stream routes refused.
    pub(crate) fn store_without_stream_routes(directory: &Path) -> Rig {
        Rig::start_with(embedded(ConfigStore::open(directory).unwrap()), &[], false).unwrap()
    }

    fn start(source: Box<dyn ConfigSource>, keyring: &[&str]) -> Result<Rig, LoadError> {
        Rig::start_with(source, keyring, true)
    }

    fn start_with(
        source: Box<dyn ConfigSource>,
        keyring: &[&str],
        stream_routes: bool,
    ) -> Result<Rig, LoadError> {
        let (view, clock, published, catalog) =
            (SharedView::default(), Arc::new(HandClock::default()), Recorder::default(), catalog());
        let catalog = match stream_routes {
            true => catalog,
            false => Arc::new(PluginCatalog::clone(&catalog).without_stream_routes()),
        };
        // 2026-01-01, in milliseconds.
        clock.advance(1_767_225_600_000);
        let (reconcile, thread) = Reconcile::start(
            source,
            ReconcileParts {
                catalog: Arc::clone(&catalog),
                publisher: Box::new(published.clone()),
                clock: Arc::clone(&clock) as Arc<dyn Clock>,
                beside_file: Vec::new(),
                auto_routes: None,
                view: view.clone(),
                sealer: sealer(keyring),
                secrets: secrets(),
                ocsp: Arc::default(),
                data: None,
            },
        )?;
        let admin = Admin::new(admin_parts(&view, &reconcile, &clock, keyring, &catalog));
        let control = ControlApi::new(ControlParts {
            view: view.clone(),
            reconcile: reconcile.clone(),
            catalog,
            reports: reports(),
            discovery: None,
            registration: None,
            is_file: false,
        });
        Ok(Rig { admin, control, view, clock, published, reconcile, thread: Some(thread) })
    }

    /// Measures this traffic from now on, where the Admin API asks for it.
    pub(crate) fn measure(&mut self, rates: Vec<(Breakdown, TrafficRate)>) {
        let mut parts = admin_parts(&self.view, &self.reconcile, &self.clock, &[], &catalog());
        parts.reports.traffic = Some(Arc::new(Measured(rates)));
        self.admin = Admin::new(parts);
    }

    /// Asks the Admin API with the admin's key; status and body.
    pub(crate) fn ask(&self, method: &str, target: &str, body: &str) -> (u16, String) {
        let (status, _, body) = block_on(ask(&self.admin, method, target, &[("X-API-KEY", "boss")], body));
        (status, body)
    }

    /// As `ask`, with a body and an answer of JSON; an empty answer is `null`.
    pub(crate) fn json(&self, method: &str, target: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, answer) = self.ask(method, target, &body);
        (status, serde_json::from_str(&answer).unwrap_or(Value::Null))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.reconcile.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}
