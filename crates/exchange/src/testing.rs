//! For tests of plugins: an exchange with a thread and a configuration of its own, without a socket or a
//! clock to wait for. It knows no plugin and is no part of the crate's interface.

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::task::{Context, Poll, Waker};

use contract::ContractDocument;
use message::{Headers, RequestHead, Version};
use model::catalog::{PluginCatalog, SchemaType};
use model::check::UnknownFields;
use net::resolver::{Resolver, SystemLookup, TtlBounds};
use parking_lot::Mutex;
use router::path::{PathOptions, PathScratch};
use router::{Rule, RuleInput};
use serde_json::Value;

use crate::client_address::RealIpOptions;
use crate::exchange::{Consumer, Directory, Exchange, RouteInfo, UpstreamOrigin};
use crate::local::WorkerLocal;
use crate::options::{AttemptTimeouts, EngineLimits, ForwardOptions, Options};
use crate::plugin::chain::PluginInstance;
use crate::plugin::outbound::OutboundPolicy;
use crate::plugin::services::Services;
use crate::plugin::state::StateRegistry;
use crate::plugin::{Assembly, BufferedReply, Build, Flow, PhaseDecision, Plugin, PluginKind, ResponseStep};

/// Everything that the exchanges of a test share: consumers, a route, state that outlives configurations.
pub struct Scene {
    directory: TestDirectory,
    route: Option<u32>,
    local: Option<Rc<WorkerLocal>>,
    states: Arc<StateRegistry>,
    owner: &'static str,
    path: PathOptions,
}

/// The host of every node of a scene.
pub const NODE_HOST: &str = "node.test";

/// The consumers and routes of a scene.
#[derive(Clone, Default)]
struct TestDirectory {
    routes: Vec<RouteInfo>,
    consumers: Vec<(&'static str, String, Arc<Consumer>)>,
    named: Vec<Arc<Consumer>>,
}

impl Directory for TestDirectory {
    fn route(&self, slot: u32) -> Option<&RouteInfo> {
        self.routes.get(slot as usize)
    }

    fn route_with_id(&self, id: &str) -> Option<&RouteInfo> {
        self.routes.iter().find(|route| &*route.id == id)
    }

    fn consumer(&self, plugin: &str, key: &str) -> Option<&Arc<Consumer>> {
        let found = self.consumers.iter().find(|(of, known, _)| *of == plugin && known == key);
        found.map(|(_, _, consumer)| consumer)
    }

    fn consumer_named(&self, username: &str) -> Option<&Arc<Consumer>> {
        self.named.iter().find(|consumer| &*consumer.username == username)
    }

    fn has_upstream(&self, _: &str) -> bool {
        false
    }

    fn node_host(&self, _: u32, _: u64) -> Option<Arc<str>> {
        Some(NODE_HOST.into())
    }

    fn upstream_origin(&self, _: &str) -> Option<UpstreamOrigin> {
        None
    }
}

impl Default for Scene {
    fn default() -> Scene {
        Scene {
            directory: TestDirectory::default(),
            route: None,
            local: None,
            states: Arc::default(),
            owner: "routes/1",
            path: PathOptions::default(),
        }
    }
}

impl Scene {
    /// No consumers, no route; plugins are built as if written in `routes/1`.
    pub fn new() -> Scene {
        Scene::default()
    }

    /// Adds a consumer that is found by its name only.
    #[must_use]
    pub fn with_named_consumer(mut self, consumer: Consumer) -> Scene {
        self.directory.named.push(Arc::new(consumer));
        self
    }

    /// Adds a consumer that is found by `key` in `plugin`.
    #[must_use]
    pub fn with_consumer(mut self, plugin: &'static str, key: &str, consumer: Consumer) -> Scene {
        self.directory.consumers.push((plugin, key.to_owned(), Arc::new(consumer)));
        self
    }

    /// Sets how paths are brought into their canonical form.
    #[must_use]
    pub fn with_path_options(mut self, path: PathOptions) -> Scene {
        self.path = path;
        self
    }

    /// Says which route the exchanges have matched.
    #[must_use]
    pub fn with_route(mut self, route: RouteInfo) -> Scene {
        self.route = Some(self.directory.routes.len() as u32);
        self.directory.routes.push(route);
        self
    }

    /// The state that outlives configurations.
    pub fn states(&self) -> Arc<StateRegistry> {
        Arc::clone(&self.states)
    }

    /// Builds an instance; the configuration must be good.
    pub fn build(&self, kind: &PluginKind, config: &Value) -> Arc<dyn Plugin> {
        self.build_with(kind, config, None)
    }

    /// Builds an instance where the plugin has metadata.
    pub fn build_with(&self, kind: &PluginKind, config: &Value, metadata: Option<&Value>) -> Arc<dyn Plugin> {
        (kind.check)(config).expect("the test's configuration passes the check");
        let build = build(self.owner, metadata, &self.states, &SERVICES);
        (kind.build)(&build, config).expect("the test's configuration can be built")
    }

    /// An exchange that has been matched and no more; `head` is a whole request head, its body may follow it.
    /// The client is 127.0.0.1, unless a test says otherwise.
    pub fn exchange(&mut self, head: &[u8]) -> Box<Exchange> {
        let local = self.local.get_or_insert_with(|| local(self.path)).clone();
        let mut exchange = Box::new(Exchange::new(local.clone()));
        let head_bytes = read_head(head, &mut exchange.request);
        exchange.stats.request_bytes = head.len() as u64;
        exchange.connection.peer = std::net::SocketAddr::from(([127, 0, 0, 1], 40_000)).into();
        exchange.connection.local = std::net::SocketAddr::from(([127, 0, 0, 1], 9_080)).into();
        let prepared = crate::prepare::prepare(&local.options, &mut PathScratch::default(), &mut exchange);
        assert!(prepared.is_ok(), "the gateway does not serve the test's request");
        if head_bytes < head.len() {
            exchange.body.keep_whole(head[head_bytes..].to_vec(), None);
        }
        exchange.decision.directory = Some(Rc::new(self.directory.clone()));
        exchange.decision.route = self.route;
        exchange.times.started_ns = net::env::monotonic_ns();
        exchange
    }
}

/// Reads a request head of a test, in the notation of HTTP/1, into `request`; the bytes it takes.
///
/// # Panics
/// When the head has another form than `METHOD target VERSION` and lines of fields.
pub fn read_head(text: &[u8], request: &mut RequestHead) -> usize {
    let end = text.windows(4).position(|window| window == b"\r\n\r\n").expect("a head ends in an empty line");
    let head = str::from_utf8(&text[..end]).expect("a head of a test is text");
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let version = if words.next() == Some("HTTP/1.0") { Version::Http10 } else { Version::Http11 };
    let fields: Vec<(&str, &str)> =
        lines.map(|line| line.split_once(':').expect("a field has a colon")).collect();
    let host = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
    let authority = host.map_or("", |(_, host)| host.trim());
    let made = request.set(version, method.as_bytes(), authority.as_bytes(), target.as_bytes());
    made.expect("the test's request line is well-formed");
    for (name, value) in fields {
        request.headers.append(name, value.trim().as_bytes()).expect("the test's fields are well-formed");
    }
    end + b"\r\n\r\n".len()
}

/// Services that look names up as the system does.
pub fn services() -> Services {
    let resolver =
        Resolver::start(Arc::<SystemLookup>::default(), TtlBounds::default()).expect("a thread can be made");
    Services::new(resolver, OutboundPolicy::default())
}

/// The kinds that plugins of tests may build inside them.
static KNOWN: OnceLock<&'static [&'static PluginKind]> = OnceLock::new();

/// Lets plugins build instances of `kinds` inside them, in all tests of this program; without it they find
/// none.
pub fn know(kinds: &'static [&'static PluginKind]) {
    KNOWN.get_or_init(|| kinds);
}

/// The definition of the proto with the id 1, unless a test [puts](put_proto) another.
pub const PROTO: &str = "syntax = \"proto3\"; package shop;
    message Order { string id = 1; int64 cents = 2; repeated string items = 3; }
    service Orders { rpc Get(Order) returns (Order); }";

/// Protos that tests have put. Their texts are never freed, because instances may refer to them.
static PROTOS: Mutex<Vec<(String, &str)>> = Mutex::new(Vec::new());

/// Makes `content` the content of the proto `id`, in all tests of this program.
pub fn put_proto(id: &str, content: &str) {
    PROTOS.lock().push((id.to_owned(), String::from(content).leak()));
}

/// The values to build an instance with where no configuration is compiled: of other plugins those of
/// [`know`] are found, any upstream is accepted.
pub fn build<'a>(
    owner: &'a str,
    metadata: Option<&'a Value>,
    states: &'a StateRegistry,
    services: &'a Services,
) -> Build<'a> {
    Build { owner, metadata, states, services, assembly: &TestAssembly, depth: 0 }
}

struct TestAssembly;

/// The state of instances inside others.
static INNER_STATES: LazyLock<StateRegistry> = LazyLock::new(StateRegistry::default);

/// The document of the contract that examples name.
const PETS: &str = "openapi: 3.1.0\npaths: {/pets: {get: {operationId: getPet}}}";

impl Assembly for TestAssembly {
    /// Of `_meta`, only `disable` counts.
    fn plugin(
        &self,
        owner: &str,
        depth: u8,
        name: &str,
        config: &Value,
    ) -> Result<Option<Arc<PluginInstance>>, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(1_000);
        let known = KNOWN.get().into_iter().copied().flatten();
        let kind =
            *known.into_iter().find(|kind| kind.name == name).ok_or(format!("unknown plugin [{name}]"))?;
        if config.pointer("/_meta/disable") == Some(&Value::Bool(true)) {
            return Ok(None);
        }
        (kind.check)(config)?;
        let build = Build { depth, ..build(owner, None, &INNER_STATES, &SERVICES) };
        Ok(Some(Arc::new(PluginInstance {
            name: kind.name,
            priority: i64::from(kind.priority),
            phases: kind.phases,
            prefer_route: kind.prefer_route,
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            filter: None,
            error_response: None,
            reads_body: false,
            plugin: (kind.build)(&build, config)?,
        })))
    }

    fn proto(&self, id: &str) -> Option<&str> {
        let protos = PROTOS.lock();
        let put = protos.iter().rev().find(|(known, _)| known == id).map(|(_, content)| *content);
        put.or_else(|| (id == "1").then_some(PROTO))
    }

    fn contract(&self, id: &str) -> Option<Arc<ContractDocument>> {
        (id == "pets").then(|| ContractDocument::read(PETS).ok().map(Arc::new)).flatten()
    }

    fn upstream(&self, _: &Arc<str>, _: &Value) -> Result<(), String> {
        Ok(())
    }
}

/// Runs a step of a response phase to its end.
///
/// # Panics
/// When the plugin waits for something that does not come at once.
pub fn finish(step: ResponseStep<'_>) {
    if let ResponseStep::Wait(future) = step {
        let polled = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_ready(), "the plugin waits for something this test does not provide");
    }
}

/// The services of tests that have no use for services of their own.
static SERVICES: LazyLock<Services> = LazyLock::new(services);

/// A consumer with this name and no labels, group or plugins.
pub fn consumer(username: &str) -> Consumer {
    Consumer {
        missing: None,
        username: username.into(),
        group_id: None,
        credential_id: None,
        labels: Vec::new(),
        written: format!("{{\"username\":\"{username}\"}}").into(),
        auth_conf: Value::Null,
        compiled: None,
        bulkhead: None,
        attached: None,
    }
}

/// A route with this id that matches every path and has nothing else.
pub fn route(id: &str) -> RouteInfo {
    let input = RuleInput { paths: vec!["/*".to_owned()], ..RuleInput::default() };
    RouteInfo {
        id: id.into(),
        name: None,
        service: None,
        rule: Arc::new(Rule::new(input).expect("/* is a path pattern")),
        written: format!("{{\"id\":\"{id}\"}}").into(),
    }
}

/// Puts a response into the exchange, as a node would have answered.
pub fn respond(exchange: &mut Exchange, status: u16, fields: &[(&str, &str)]) {
    exchange.response.clear();
    exchange.response.status = status;
    for (name, value) in fields {
        exchange
            .response
            .headers
            .append(name, value.as_bytes())
            .expect("the test's response fields are well-formed");
    }
}

/// Paths that code of users may write, and what a node gets: the form of a client's path. Refused without
/// one.
pub const WRITTEN_PATHS: &[(&str, Option<&str>)] = &[
    ("/a", Some("/a")),
    ("/a/../b", Some("/b")),
    ("/a/./b//c", Some("/a/b/c")),
    ("/x/..", Some("/")),
    ("//admin/.", Some("/admin/")),
    ("/../../admin", None),
    ("/a/../../admin", None),
    ("/a/..//../admin", None),
    ("admin", None),
    ("", None),
];

/// Takes the fields that plugins want on every response.
pub fn early_fields(exchange: &mut Exchange) -> Vec<(String, String)> {
    exchange.early_fields.drain(..).map(|(name, value)| (name.into(), value.into())).collect()
}

/// The fields of a list, each as `Name: value`.
pub fn lines(headers: &message::Headers) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    headers.iter().map(|field| format!("{}: {}", text(field.name), text(field.value))).collect()
}

/// The answer a phase gave, if it gave one.
///
/// # Panics
/// When the plugin waits for something that does not come at once.
pub fn decide(flow: Flow<'_>) -> Option<BufferedReply> {
    let decision = match flow {
        Flow::Continue => PhaseDecision::Continue,
        Flow::Reply(reply) => PhaseDecision::Reply(reply),
        Flow::Stream(reply) => PhaseDecision::Stream(reply),
        Flow::Stored(reply) => PhaseDecision::Stored(reply),
        Flow::Wait(future) => match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(decision) => decision,
            Poll::Pending => panic!("the plugin waits for something this test does not provide"),
        },
    };
    match decision {
        PhaseDecision::Continue => None,
        PhaseDecision::Reply(reply) => Some(*reply),
        PhaseDecision::Stream(reply) => Some(reply.head),
        PhaseDecision::Stored(_) => panic!("a stored response is no local reply"),
    }
}

/// Says whether a configuration is accepted, as the Admin API would: by the schema of that use and the
/// plugin's check. What is accepted for routes must also build, or the plugin contradicts itself.
///
/// # Errors
/// The first fault, in words.
///
/// # Panics
/// When schema, check and build do not agree.
pub fn accepts(kind: &'static PluginKind, schema_type: SchemaType, config: &Value) -> Result<(), String> {
    let catalog = PluginCatalog::new(vec![kind.info()]).expect("the plugin's schemas are JSON Schemas");
    let plugin = catalog.get(kind.name).expect("it was put in");
    let checked = plugin.check(schema_type, config, UnknownFields::Refuse);
    if let Some(fault) = checked.faults.first() {
        return Err(fault.plugin_message());
    }
    if schema_type == SchemaType::Plugin {
        let states = StateRegistry::default();
        let build = build("routes/1", None, &states, &SERVICES);
        let built = match &kind.stream {
            Some(stream) if !kind.serves_http => (stream.build)(&build, config).map(drop),
            _ => (kind.build)(&build, config).map(drop),
        };
        assert_eq!(built, Ok(()), "{} accepts {config} and cannot build it", kind.name);
    }
    Ok(())
}

/// Checks a row of a test of configurations: `fault` is a part of the words that it is refused with; none: it
/// is accepted.
///
/// # Panics
/// When it is not so.
pub fn check_configuration(
    kind: &'static PluginKind,
    schema_type: SchemaType,
    config: &Value,
    fault: Option<&str>,
) {
    let got = accepts(kind, schema_type, config);
    let reason = got.as_ref().err();
    let is_expected = match (reason, fault) {
        (Some(reason), Some(fault)) => reason.contains(fault),
        (reason, fault) => reason.is_none() && fault.is_none(),
    };
    assert!(is_expected, "{config}: {got:?}, expected {fault:?}");
}

/// A check of rows of configurations of the plugin `kind`, each as of [`check_configuration`].
pub fn configuration_check(kind: &'static PluginKind) -> impl Fn(Value, Option<&str>) {
    move |config, fault| check_configuration(kind, SchemaType::Plugin, &config, fault)
}

/// The object `config` with the fields of the object `more`, which replace its own.
///
/// # Panics
/// When one of them is no object.
pub fn with_fields(mut config: Value, more: &Value) -> Value {
    let (Value::Object(fields), Value::Object(more)) = (&mut config, more) else { panic!("no object") };
    fields.extend(more.clone());
    config
}

/// Fields as a message has them.
///
/// # Panics
/// When one of them cannot be sent.
pub fn headers_of(fields: &[(&str, &str)]) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in fields {
        headers.append(name, value.as_bytes()).expect("a field of a test can be sent");
    }
    headers
}

/// Options of an engine that trusts no peer, with the default limits.
pub fn options() -> Options {
    Options {
        path: PathOptions::default(),
        real_ip: RealIpOptions::default(),
        forward: ForwardOptions {
            trusted_addresses: Vec::new(),
            via: None,
            server: None,
            show_upstream_status: false,
            error_header: false,
            accel_fields: false,
            html_errors: true,
            alt_svc: crate::options::AltSvc::default(),
        },
        limits: EngineLimits::default(),
        upstream_timeouts: AttemptTimeouts::default(),
        pin: false,
        challenges: None,
        https_port: 9443,
        mutual_tls_over_http: false,
        http1_only: Vec::new(),
    }
}

/// The services of a thread for tests.
pub fn local(path: PathOptions) -> Rc<WorkerLocal> {
    WorkerLocal::new(0, Arc::new(Options { path, ..options() }), Arc::default())
}
