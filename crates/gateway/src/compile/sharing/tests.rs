//! Instances and chains are shared by the routes that use the same object, and dropped with the last one.

use std::sync::atomic::{AtomicUsize, Ordering};

use model::WrittenObject;
use model::catalog::{PluginCatalog, PluginInfo};
use model::snapshot::{FaultPolicy, SnapshotChange};
use serde_json::{Value, json};

use super::*;
use crate::compile::SnapshotCompiler;
use crate::runtime::Runtime;
use exchange::options::AttemptTimeouts;
use exchange::plugin::{Plugin, PluginKind, PluginPhase};

static BUILT: AtomicUsize = AtomicUsize::new(0);
static STOPPED: AtomicUsize = AtomicUsize::new(0);

struct ConnectionGuard;

impl Plugin for ConnectionGuard {
    fn stop(&self) {
        STOPPED.fetch_add(1, Ordering::SeqCst);
    }
}

static COUNTED: PluginKind = PluginKind {
    name: "counted",
    priority: 1,
    phases: &[PluginPhase::Log],
    auth: false,
    prefer_route: false,
    schema: || json!({"type": "object"}),
    consumer_schema: None,
    metadata_schema: Some(|| json!({"type": "object"})),
    check: |_| Ok(()),
    check_running: None,
    consumer_key: &[],
    compile_credential: None,
    serves_http: true,
    check_consumer: |_| Ok(()),
    check_metadata: |_| Ok(()),
    check_with_metadata: |_, _| Ok(()),
    is_global: false,
    check_stream: |_| Ok(()),
    check_proto: Some(|_| Ok(())),
    check_contract: None,
    build: |_, _| {
        BUILT.fetch_add(1, Ordering::SeqCst);
        Ok(Arc::new(ConnectionGuard))
    },
    stream: None,
    apis: &[],
    control_endpoints: &[],
    parts: &[],
    opens_endpoints: false,
    runs_by_metadata: false,
    documentation: "",
};

static KINDS: [&PluginKind; 1] = [&COUNTED];

struct Stage {
    compiler: SnapshotCompiler,
    catalog: PluginCatalog,
    snapshot: Snapshot,
}

impl Stage {
    fn new() -> Stage {
        let mut info = PluginInfo::new(COUNTED.name, 1, (COUNTED.schema)());
        info.metadata_schema = Some(json!({"type": "object"}).into());
        let services = Arc::new(exchange::testing::services());
        Stage {
            compiler: SnapshotCompiler::new(
                &KINDS,
                router::Mode::default(),
                AttemptTimeouts::default(),
                services,
            ),
            catalog: PluginCatalog::new(vec![info]).unwrap(),
            snapshot: Snapshot::empty(),
        }
    }

    /// Puts objects in, or takes them out where there is none.
    fn apply(&mut self, changes: &[(ObjectKind, String, Option<Value>)]) -> Arc<Runtime> {
        let change = |(kind, id, object): &(ObjectKind, String, Option<Value>)| {
            let key = ObjectKey::new(*kind, id).unwrap();
            let written = |object: &Value| WrittenObject {
                key: key.clone(),
                text: object.to_string().into(),
                created_index: 1,
                modified_index: 1,
            };
            SnapshotChange { key: key.clone(), written: object.as_ref().map(written) }
        };
        let changes: Vec<SnapshotChange> = changes.iter().map(change).collect();
        let revision = self.snapshot.revision() + 1;
        let applied = self.snapshot.apply(&self.catalog, &changes, revision, FaultPolicy::Strict);
        assert!(applied.faults.is_empty(), "{:?}", applied.faults);
        self.snapshot = applied.snapshot.clone();
        let (runtime, faults) = self.compiler.apply(&applied);
        assert_eq!(faults, Vec::new());
        runtime
    }
}

fn route(id: usize, fields: Value) -> (ObjectKind, String, Option<Value>) {
    let mut object = json!({"uri": format!("/{id}"), "service_id": "s"});
    object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    (ObjectKind::Route, id.to_string(), Some(object))
}

fn service(mark: u32) -> (ObjectKind, String, Option<Value>) {
    let object = json!({"upstream": {"nodes": {"127.0.0.1:1": 1}}, "plugins": {"counted": {"mark": mark}}});
    (ObjectKind::Service, "s".to_owned(), Some(object))
}

/// The only instance of a route, by its number.
fn instance(runtime: &Runtime, id: usize) -> u32 {
    let slot = *runtime.route_slots.get(&*id.to_string()).unwrap();
    let [only] = runtime.routes.get(slot).unwrap().plugins.instances() else { panic!("one instance") };
    only.number
}

#[test]
fn instance_belongs_to_object_that_holds_it() {
    const ROUTES: usize = 300;
    let built = || BUILT.load(Ordering::SeqCst);
    let mut stage = Stage::new();
    let own = || route(0, json!({"plugins": {"counted": {}}}));
    let mut all: Vec<_> = (1..ROUTES).map(|id| route(id, json!({}))).collect();
    all.extend([service(1), own()]);
    let first = stage.apply(&all);
    assert_eq!(built(), 2, "one for the service and one for the route with its own");
    let chain = |id: usize| {
        Arc::as_ptr(&first.routes.get(*first.route_slots.get(&*id.to_string()).unwrap()).unwrap().plugins)
    };
    assert!((2..ROUTES).all(|id| chain(id) == chain(1)), "equal chains are one");
    assert_ne!(instance(&first, 0), instance(&first, 1));

    // Another route of the service, and the same service for a route that changes.
    let second = stage.apply(&[route(ROUTES, json!({})), route(1, json!({"priority": 7}))]);
    assert_eq!(built(), 2);
    assert!([1, 2, ROUTES].iter().all(|id| instance(&second, *id) == instance(&first, 2)));

    // A changed service gets a new instance; the route with its own plugin keeps its instance.
    let third = stage.apply(&[service(2)]);
    assert_eq!(built(), 3);
    assert_eq!(instance(&third, 0), instance(&first, 0));
    assert!((1..=ROUTES).all(|id| instance(&third, id) == instance(&third, 1)));
    assert_ne!(instance(&third, 1), instance(&first, 1));

    let metadata = |object: Option<Value>| [(ObjectKind::PluginMetadata, "counted".to_owned(), object)];
    let fourth = stage.apply(&metadata(Some(json!({"a": 1}))));
    assert_eq!(built(), 5, "metadata is part of what an instance is made of");
    assert_ne!(instance(&fourth, 0), instance(&third, 0));
    let fifth = stage.apply(&metadata(None));
    assert_eq!(built(), 7);

    let proto = |content: &str| (ObjectKind::Proto, "7".to_owned(), Some(json!({ "content": content })));
    let reader =
        |priority: u32| route(0, json!({"priority": priority, "plugins": {"counted": {"proto_id": 7}}}));
    stage.apply(&[proto("a"), reader(1)]);
    assert_eq!(built(), 8);
    let sixth = stage.apply(&[proto("b")]);
    assert_eq!(built(), 9, "a proto is part of what an instance is made of that names it");
    assert_eq!(instance(&sixth, 1), instance(&fifth, 1));
    stage.apply(&[proto("b"), route(1, json!({"priority": 8}))]);
    assert_eq!(built(), 9);

    let gone: Vec<_> = (0..=ROUTES).map(|id| (ObjectKind::Route, id.to_string(), None)).collect();
    let last = stage.apply(&gone);
    drop((first, second, third, fourth, fifth, sixth, last));
    assert_eq!(STOPPED.load(Ordering::SeqCst), built(), "nobody holds an instance that no generation uses");
}
