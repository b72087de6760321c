//! A worker with an event loop that a plugin of the test blocks: readiness and metrics report it until it continues,
//! and name the route.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock, Mutex};

use exchange::Exchange;
use exchange::options::Timeouts;
use exchange::plugin::{Flow, Phase, Plugin, PluginKind, Reply};
use gateway::compile::Compiler;
use gateway::engine::{Engine, EngineConfig};
use gateway::testing;
use model::catalog::{Catalog, PluginInfo};
use model::snapshot::{Change, Policy, Snapshot};
use model::{Key, Kind, Written};
use net::listener::{Protocols, Wanted};
use net::quic::QuicProcess;
use serde_json::json;
use testkit::{wait_for, wait_until};

/// Lets the plugin continue.
type Gate = (Sender<()>, Mutex<Receiver<()>>);
static GATE: LazyLock<Gate> = LazyLock::new(|| {
    let (open, gate) = channel();
    (open, Mutex::new(gate))
});

/// Blocks its worker until the test lets it continue, as an endless computation would.
struct Stands;

impl Plugin for Stands {
    fn access<'a>(&'a self, _: &'a mut Exchange) -> Flow<'a> {
        GATE.1.lock().unwrap().recv().unwrap();
        Flow::reply(Reply::status(204))
    }
}

static STANDS: PluginKind = PluginKind {
    name: "stands",
    priority: 1,
    phases: &[Phase::Access],
    auth: false,
    prefer_route: false,
    schema: || json!({"type": "object"}),
    consumer_schema: None,
    metadata_schema: None,
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
    check_proto: None,
    build: |_, _| Ok(Arc::new(Stands)),
    stream: None,
    apis: &[],
    control_endpoints: &[],
    parts: &[],
    opens_endpoints: false,
    runs_by_metadata: false,
    documentation: "",
};
const KINDS: &[&PluginKind] = &[&STANDS];

fn engine() -> (Engine, SocketAddr) {
    let route = json!({"uri": "/stand", "plugins": {"stands": {}}});
    let key = Key::new(Kind::Route, "slow-one").unwrap();
    let written =
        Written { key: key.clone(), text: route.to_string().into(), created_index: 1, modified_index: 1 };
    let info = |kind: &&'static PluginKind| PluginInfo::new(kind.name, 1, (kind.schema)());
    let catalog = Catalog::new(KINDS.iter().map(info).collect()).unwrap();
    let change = Change { key, written: Some(written) };
    let applied = Snapshot::empty().apply(&catalog, &[change], 1, Policy::Strict);
    let services = Arc::new(exchange::testing::services());
    let mut compiler = Compiler::new(KINDS, router::Mode::default(), Timeouts::default(), services.clone());
    let (runtime, faults) = compiler.apply(&applied);
    assert_eq!(faults, Vec::new());
    let (options, _) = testing::without_routes();
    let config = EngineConfig {
        options,
        workers: 1,
        runtime,
        access_log: None,
        session_log: None,
        services,
        quic: QuicProcess::first().unwrap(),
    };
    let engine = Engine::start(config).unwrap();
    let proxy = Wanted { address: ([127, 0, 0, 1], 0).into(), protocols: Protocols::HTTP1 };
    let address = engine.listen(&[proxy]).unwrap().added[0];
    (engine, address)
}

fn metrics(engine: &Engine) -> String {
    let mut text = String::new();
    engine.write_metrics(&mut text);
    text
}

#[test]
fn stalled_worker_is_reported_with_its_route() {
    let (engine, address) = engine();
    wait_until("the worker runs", || engine.ready().is_ok());
    assert!(metrics(&engine).contains("weir_worker_stalled{worker=\"0\"} 0\n"));
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"GET /stand HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();

    let told = wait_for("a complaint", || engine.ready().err());
    assert!(told.starts_with("worker 0 has not turned its event loop for "), "{told}");
    assert!(told.ends_with(" ms; it works on a request of route slow-one"), "{told}");
    assert!(metrics(&engine).contains("weir_worker_stalled{worker=\"0\"} 1\n"));

    GATE.0.send(()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
    wait_until("the worker is ready again", || engine.ready().is_ok());
    wait_until("the mark is taken away", || {
        metrics(&engine).contains("weir_worker_stalled{worker=\"0\"} 0\n")
    });
    assert!(metrics(&engine).contains("weir_worker_stalls_total{worker=\"0\"} 1\n"));
    engine.stop();
}
