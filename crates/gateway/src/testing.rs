//! For tests of other crates: compiles configurations from their written form. It is no part of the gateway's
//! interface.

mod client;
mod scene;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use exchange::options::{AttemptTimeouts, Options};
use exchange::plugin::PluginKind;
use exchange::plugin::chain::Chain;
use exchange::plugin::stream::StreamSession;
use exchange::plugin::stream::chain::Preread;
use exchange::testing::{options, services};
use model::catalog::PluginCatalog;
use model::snapshot::{FaultPolicy, Snapshot, SnapshotChange};
use model::{ObjectKey, ObjectKind, WrittenObject};
use router::{Mode, Router};
use serde_json::Value;
use stdx::persistent::{ChunkedVec, ShardedMap};

use crate::compile::SnapshotCompiler;
use crate::runtime::{Consumers, Runtime, StreamRoute};

pub use scene::{Outcome, Scene};

/// A stream route with these plugins, compiled from its written form.
///
/// # Panics
/// When it cannot be compiled.
pub fn stream_route(kinds: &'static [&'static PluginKind], plugins: &Value) -> Arc<StreamRoute> {
    let value = serde_json::json!({"server_port": 9100, "upstream": {"nodes": {"127.0.0.1:1": 1}}, "plugins": plugins});
    let runtime = runtime_of(kinds, &[(ObjectKind::StreamRoute, "1", value)]);
    runtime.stream_routes.get("1").expect("it was compiled").clone()
}

/// A configuration of these objects, compiled from their written forms, with the plugins `kinds`.
///
/// # Panics
/// When one of them is faulty.
pub fn runtime_of(
    kinds: &'static [&'static PluginKind],
    objects: &[(ObjectKind, &str, Value)],
) -> Arc<Runtime> {
    let catalog = PluginCatalog::new(kinds.iter().map(|kind| kind.info()).collect())
        .expect("the schemas are JSON Schemas");
    let changes = objects.iter().map(|(kind, id, value)| {
        let key = ObjectKey::new(*kind, id).expect("an id");
        let text = value.to_string().into();
        let written = WrittenObject { key: key.clone(), text, created_index: 1, modified_index: 1 };
        SnapshotChange { key, written: Some(written) }
    });
    let applied = Snapshot::empty().apply(&catalog, &changes.collect::<Vec<_>>(), 1, FaultPolicy::Strict);
    let mut compiler =
        SnapshotCompiler::new(kinds, Mode::default(), AttemptTimeouts::default(), Arc::new(services()));
    let (runtime, faults) = compiler.apply(&applied);
    assert!(faults.is_empty(), "{faults:?}");
    runtime
}

/// Runs the preread phase of the route, for plugins that decide at once.
///
/// # Panics
/// When a plugin waits.
pub fn run_preread(route: &StreamRoute, session: &mut StreamSession) -> Preread {
    let mut position = 0;
    let mut running = pin!(route.plugins.preread(session, &mut position));
    match running.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => panic!("a plugin waits"),
    }
}

/// Options and a configuration for an engine that answers every request with 404.
pub fn without_routes() -> (Arc<Options>, Arc<Runtime>) {
    (Arc::new(options()), Arc::new(empty_runtime()))
}

fn empty_runtime() -> Runtime {
    Runtime {
        global_missing: None,
        unplaced: Arc::default(),
        route_slots: ShardedMap::new(),
        revision: 1,
        router: Router::new(Mode::default()),
        routes: ChunkedVec::new(),
        upstreams: ChunkedVec::new(),
        upstream_slots: ShardedMap::new(),
        global: Arc::new(Chain::default()),
        consumers: Consumers::default(),
        stream_routes: ShardedMap::new(),
        stream_table: Arc::default(),
        tls: None,
        sites: Arc::default(),
    }
}
