//! Runs requests through the whole pipeline without a listener: objects are checked and compiled as written,
//! every phase of their plugins runs in its order, and upstreams are real.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::sync::{Arc, LazyLock};

use exchange::WorkerLocal;
use exchange::deadline::Deadline;
use exchange::observe::metrics::WorkerMetrics;
use exchange::options::AttemptTimeouts;
use exchange::plugin::PluginKind;
use exchange::plugin::services::Services;
use exchange::testing::{options, read_head, services};
use model::catalog::PluginCatalog;
use model::snapshot::{FaultPolicy, Snapshot, SnapshotChange};
use model::{ObjectKey, ObjectKind, WrittenObject};
use net::env;
use serde_json::Value;
use stdx::published::Published;

use super::client::Client;
use crate::compile::SnapshotCompiler;
use crate::context::{ContextParts, WorkerContext};
use crate::pipeline;

/// The services of all scenes: one thread for name lookups.
static SERVICES: LazyLock<Arc<Services>> = LazyLock::new(|| Arc::new(services()));

/// A configuration, and the address of the client. Changes of the configuration keep the state of its
/// plugins.
pub struct Scene {
    context: Rc<WorkerContext>,
    client: SocketAddr,
}

/// The response of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The status; 0 if there was no response.
    pub status: u16,
    /// The fields that plugins and the upstream gave, without those of the protocol.
    pub fields: Vec<(String, String)>,
    /// The body.
    pub body: String,
    /// The trailers.
    pub trailers: Vec<(String, String)>,
    /// The response was cut.
    pub is_cut: bool,
}

impl Outcome {
    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| &**value)
    }
}

impl Scene {
    /// The objects at these paths, such as `routes/1`, of a gateway with these plugins.
    ///
    /// # Panics
    /// When an object is refused or cannot be compiled.
    pub fn new(kinds: &'static [&'static PluginKind], objects: &[(&str, Value)]) -> Scene {
        let catalog = PluginCatalog::new(kinds.iter().map(|kind| kind.info()).collect())
            .expect("kinds with good schemas");
        let change = |(path, value): &(&str, Value)| {
            let (collection, id) = path.split_once('/').expect("a collection and an id");
            let kind = ObjectKind::ALL.into_iter().find(|kind| kind.collection() == collection);
            let key = ObjectKey::new(kind.expect("a collection of the Admin API"), id).expect("an id");
            let text = value.to_string().into();
            SnapshotChange {
                key: key.clone(),
                written: Some(WrittenObject { key, text, created_index: 1, modified_index: 1 }),
            }
        };
        let changes: Vec<SnapshotChange> = objects.iter().map(change).collect();
        let applied = Snapshot::empty().apply(&catalog, &changes, 1, FaultPolicy::Strict);
        let refused: Vec<String> =
            applied.snapshot.faulty().map(|faulty| faulty.refusal.to_string()).collect();
        assert!(refused.is_empty(), "{refused:#?}");
        assert!(applied.faults.is_empty(), "{:#?}", applied.faults);
        let mut compiler = SnapshotCompiler::new(
            kinds,
            router::Mode::default(),
            AttemptTimeouts::default(),
            SERVICES.clone(),
        );
        let (runtime, faults) = compiler.apply(&applied);
        assert!(faults.is_empty(), "{faults:#?}");
        let parts = ContextParts {
            published: Arc::new(Published::new(runtime)),
            reclaimer: channel().0,
            status: Arc::default(),
            upstream_warnings: Arc::default(),
            metrics: WorkerMetrics::default(),
            access_log: None,
            session_log: None,
        };
        let context = WorkerContext::new(WorkerLocal::new(0, Arc::new(options()), Arc::default()), parts);
        Scene { context, client: SocketAddr::from((Ipv4Addr::LOCALHOST, 40_000)) }
    }

    /// A scene with one route for every path with these plugins; its upstream is never reachable.
    pub fn with_plugins(kinds: &'static [&'static PluginKind], plugins: &Value) -> Scene {
        let nodes = serde_json::json!({"127.0.0.1:1": 1});
        let route = serde_json::json!({"uri": "/*", "upstream": {"nodes": nodes}, "plugins": plugins});
        Scene::new(kinds, &[("routes/1", route)])
    }

    /// Sets the client's address.
    #[must_use]
    pub fn from(mut self, client: IpAddr) -> Scene {
        self.client.set_ip(client);
        self
    }

    /// Sends a request: a head in the notation of HTTP/1, followed by its body.
    ///
    /// # Panics
    /// When the text has no head, or no event loop can be made.
    pub fn run(&self, request: &str) -> Outcome {
        env::block_on(self.ask(request.as_bytes())).expect("an event loop")
    }

    async fn ask(&self, request: &[u8]) -> Outcome {
        let deadline = Deadline::new(&self.context.local);
        let mut exchange = self.context.exchanges.checkout();
        let head_bytes = read_head(request, &mut exchange.request);
        let mut client = Client { request: request[head_bytes..].to_vec(), ..Client::default() };
        exchange.connection.peer = self.client.into();
        exchange.connection.local = SocketAddr::from((Ipv4Addr::LOCALHOST, 9_080)).into();
        exchange.times.started_ns = self.context.local.clock_ns();
        let served = pipeline::run_pipeline(&self.context, &mut exchange, &mut client, &deadline).await;
        pipeline::log(&self.context, &mut exchange, served.log);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let head = client.head.unwrap_or_default();
        Outcome {
            status: head.status,
            fields: head.headers.iter().map(|field| (text(field.name), text(field.value))).collect(),
            body: text(&client.response),
            trailers: client.trailers,
            is_cut: client.is_cut,
        }
    }
}
