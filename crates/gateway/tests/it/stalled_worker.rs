//! A worker with an event loop that a plugin of the test blocks: readiness and metrics report it until it
//! continues, and name the route. One that stands for too long is replaced.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock, Mutex};

use exchange::Exchange;
use exchange::options::AttemptTimeouts;
use exchange::plugin::{BufferedReply, Flow, Plugin, PluginKind, PluginPhase};
use gateway::compile::SnapshotCompiler;
use gateway::engine::{Engine, EngineConfig};
use gateway::testing;
use model::catalog::{PluginCatalog, PluginInfo};
use model::snapshot::{FaultPolicy, Snapshot, SnapshotChange};
use model::{ObjectKey, ObjectKind, WrittenObject};
use net::listener::{Protocols, WantedListener};
use net::quic::QuicProcess;
use serde_json::json;
use testkit::{wait_for, wait_until};

/// Lets the plugin continue.
type Gate = (Sender<()>, Mutex<Receiver<()>>);
static GATE: LazyLock<Gate> = LazyLock::new(gate);
/// The one of requests for `/stand-on`.
static OTHER_GATE: LazyLock<Gate> = LazyLock::new(gate);

fn gate() -> Gate {
    let (open, gate) = channel();
    (open, Mutex::new(gate))
}

/// Blocks its worker until the test lets it continue, as an endless computation would.
struct Stands;

impl Plugin for Stands {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let gate = if exchange.target.path.ends_with(b"-on") { &OTHER_GATE } else { &GATE };
        gate.1.lock().unwrap().recv().unwrap();
        Flow::reply(BufferedReply::status(204))
    }
}

static STANDS: PluginKind = PluginKind {
    name: "stands",
    priority: 1,
    phases: &[PluginPhase::Access],
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
    check_contract: None,
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

fn engine(stall_timeout_ms: u64) -> (Engine, SocketAddr) {
    let route = json!({"uri": "/stand*", "plugins": {"stands": {}}});
    let key = ObjectKey::new(ObjectKind::Route, "slow-one").unwrap();
    let written = WrittenObject {
        key: key.clone(),
        text: route.to_string().into(),
        created_index: 1,
        modified_index: 1,
    };
    let info = |kind: &&'static PluginKind| PluginInfo::new(kind.name, 1, (kind.schema)());
    let catalog = PluginCatalog::new(KINDS.iter().map(info).collect()).unwrap();
    let change = SnapshotChange { key, written: Some(written) };
    let applied = Snapshot::empty().apply(&catalog, &[change], 1, FaultPolicy::Strict);
    let services = Arc::new(exchange::testing::services());
    let mut compiler =
        SnapshotCompiler::new(KINDS, router::Mode::default(), AttemptTimeouts::default(), services.clone());
    let (runtime, faults) = compiler.apply(&applied);
    assert_eq!(faults, Vec::new());
    let (mut options, _) = testing::without_routes();
    Arc::get_mut(&mut options).unwrap().limits.worker_stall_timeout_ms = stall_timeout_ms;
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
    let proxy = WantedListener { address: ([127, 0, 0, 1], 0).into(), protocols: Protocols::HTTP1 };
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
    let (engine, address) = engine(0);
    wait_until("the worker runs", || engine.ready().is_ok());
    assert!(metrics(&engine).contains("weir_worker_stalled{worker=\"0\"} 0\n"));
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"GET /stand HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();

    let reason = wait_for("a complaint", || engine.ready().err());
    assert!(reason.starts_with("worker 0 has not turned its event loop for "), "{reason}");
    assert!(reason.ends_with(" ms; it works on a request of route slow-one"), "{reason}");
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

#[test]
fn worker_that_stands_too_long_is_replaced() {
    let (engine, address) = engine(1_200);
    wait_until("the worker runs", || engine.ready().is_ok());
    let ask = |path: &str| {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).unwrap();
        client
    };
    let answer = |client: &mut TcpStream| {
        let mut line = [0; 13];
        client.read_exact(&mut line).map(|()| String::from_utf8_lossy(&line).into_owned())
    };
    let mut kept = ask("/none");
    assert_eq!(answer(&mut kept).unwrap(), "HTTP/1.1 404 ");
    for number in 1..=2 {
        let mut standing = ask("/stand-on");
        wait_until("the stall is seen", || {
            let text = metrics(&engine);
            let seen = |line: &&str| line.starts_with("weir_worker_stalls_total{") && line.ends_with(" 1");
            text.lines().filter(seen).count() == number
        });
        // Perhaps queued by the kernel for the worker that stands.
        let mut waiting = ask("/none");
        assert!(answer(&mut standing).is_err(), "its connection is ended, and not in order");
        assert_eq!(answer(&mut waiting).unwrap(), "HTTP/1.1 404 ");
        wait_until("the other worker is ready", || engine.ready().is_ok());
        let text = metrics(&engine);
        let total = |line: &str| line.starts_with("weir_worker_replaced_total") && line.ends_with(" 1");
        assert_eq!(text.lines().filter(|line| total(line)).count(), number, "{text}");
        assert_eq!(engine.revisions().len(), 1);
    }
    assert!(kept.read_to_end(&mut Vec::new()).is_err(), "an idle connection of it is ended too");
    // It does not wait for threads that were given up.
    engine.stop();
    OTHER_GATE.0.send(()).unwrap();
    OTHER_GATE.0.send(()).unwrap();
}
