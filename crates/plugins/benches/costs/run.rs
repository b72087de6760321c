//! Runs the phases of one plugin over requests that were made before, and counts what that takes.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use exchange::Exchange;
use exchange::plugin::chain::{ErrorResponse, PluginInstance};
use exchange::plugin::services::Services;
use exchange::plugin::state::StateRegistry;
use exchange::plugin::{
    Assembly, BodyNeed, Build, Flow, PhaseDecision, Plugin, PluginKind, PluginPhase, Portion, ResponseStep,
};
use exchange::testing::{self, Scene, consumer, respond, route};
use model::resource::PluginMeta;
use serde_json::Value;

use crate::page::Measured;
use crate::rows::{self, Row};

/// Requests that are measured together.
pub(crate) const REQUESTS: usize = 256;
/// How often they are measured; the fastest time counts, because everything else only adds to it.
const ROUNDS: usize = 40;
/// The name of the function that is counted under valgrind.
pub(crate) const WINDOW: &str = "measured_window";
/// The body of the response, for plugins that see it.
const RESPONSE_BODY: &[u8] = &[b'x'; 1_024];

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Counts the allocations of this thread.
pub(crate) fn note_allocation(allocations: usize, _taken_bytes: usize, _given_bytes: usize) {
    // The value is gone while the thread ends.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + allocations as u64));
}

/// The end of the request phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Continues,
    Replies(u16),
    Waits,
}

/// A plugin with a row, ready to run.
struct Bench {
    kind: &'static PluginKind,
    plugin: Arc<dyn Plugin>,
    scene: Scene,
    row: Row,
    // Held, because states and queues end with it.
    _held: (Arc<StateRegistry>, Services),
}

impl Bench {
    fn new(name: &str) -> Bench {
        let kind = *plugins::ALL.iter().find(|kind| kind.name == name).expect("a plugin of the list");
        let row = rows::of(kind);
        let (states, services) = (Arc::<StateRegistry>::default(), testing::services());
        (kind.check)(&row.config).unwrap();
        let parts = Parts { states: &states, services: &services };
        let plugin = parts.build("/routes/1", kind, &row.config, row.metadata.as_ref(), 0).unwrap();
        let mut scene = Scene::new().with_route(route("1"));
        if let Some((key, auth_conf)) = row.consumer.clone() {
            let compiled = kind.compile_credential.map(|compile| compile(&auth_conf).unwrap());
            let known = exchange::exchange::Consumer { auth_conf, compiled, ..consumer("jack") };
            scene = scene.with_consumer(kind.name, &key, known);
        }
        Bench { kind, plugin, scene, row, _held: (states, services) }
    }

    fn exchanges(&mut self) -> Vec<Exchange> {
        let mut exchanges: Vec<Exchange> =
            (0..REQUESTS).map(|_| *self.scene.exchange(self.row.request.as_bytes())).collect();
        for exchange in &mut exchanges {
            respond(exchange, 200, &[("Content-Type", "text/html"), ("Content-Length", "1024")]);
            exchange.instance.set(1);
            if self.row.is_authenticated {
                let labels = vec![("team".into(), "cloud".into()), ("department".into(), "sales".into())];
                exchange.authenticate(Arc::new(exchange::exchange::Consumer { labels, ..consumer("jack") }));
            }
        }
        exchanges
    }
}

/// Other plugins inside a plugin.
struct Parts<'p> {
    states: &'p StateRegistry,
    services: &'p Services,
}

impl Parts<'_> {
    fn build(
        &self,
        owner: &str,
        kind: &PluginKind,
        config: &Value,
        metadata: Option<&Value>,
        depth: u8,
    ) -> Result<Arc<dyn Plugin>, String> {
        let (states, services) = (self.states, self.services);
        (kind.build)(&Build { owner, metadata, states, services, assembly: self, depth }, config)
    }
}

impl Assembly for Parts<'_> {
    fn plugin(
        &self,
        owner: &str,
        depth: u8,
        name: &str,
        config: &Value,
    ) -> Result<Option<Arc<PluginInstance>>, String> {
        let kind = *plugins::ALL.iter().find(|kind| kind.name == name).ok_or("no such plugin")?;
        (kind.check)(config)?;
        let plugin = self.build(owner, kind, config, None, depth)?;
        let error_response = PluginMeta::of(config).error_response.map(ErrorResponse::new);
        Ok(Some(Arc::new(PluginInstance {
            name: kind.name,
            priority: i64::from(kind.priority),
            phases: kind.phases,
            prefer_route: kind.prefer_route,
            number: 2,
            filter: None,
            reads_body: false,
            error_response,
            plugin,
        })))
    }

    fn knows(&self, name: &str) -> bool {
        plugins::ALL.iter().any(|kind| kind.name == name)
    }

    fn proto(&self, _: &str) -> Option<&str> {
        Some(exchange::testing::PROTO)
    }

    fn upstream(&self, _: &Arc<str>, _: &Value) -> Result<(), String> {
        Ok(())
    }
}

/// Time, allocations and the end of the plugin `name`.
pub(crate) fn measure(name: &str) -> Measured {
    in_event_loop(async {
        let mut bench = Bench::new(name);
        let (mut best_ns, mut allocations, mut end) = (f64::MAX, u64::MAX, End::Continues);
        for _ in 0..ROUNDS {
            let mut exchanges = bench.exchanges();
            let before = ALLOCATIONS.get();
            let started = Instant::now();
            end = measured_window(&bench, &mut exchanges);
            best_ns = best_ns.min(started.elapsed().as_nanos() as f64 / REQUESTS as f64);
            allocations = allocations.min(ALLOCATIONS.get() - before);
        }
        let allocations = allocations as f64 / REQUESTS as f64;
        Measured { ns: best_ns, allocations, instructions: None, end }
    })
}

/// Runs the requests twice; valgrind counts the second time, because the first fills tables.
pub(crate) fn window(name: &str) {
    in_event_loop(async {
        let mut bench = Bench::new(name);
        let mut exchanges = bench.exchanges();
        for exchange in &mut exchanges {
            once(&bench, exchange);
        }
        let mut exchanges = bench.exchanges();
        measured_window(&bench, &mut exchanges);
    });
}

fn in_event_loop<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, work)
}

#[inline(never)]
fn measured_window(bench: &Bench, exchanges: &mut [Exchange]) -> End {
    let mut end = End::Continues;
    for exchange in exchanges {
        end = once(bench, exchange);
    }
    end
}

/// Runs the phases that the plugin takes part in, in their order.
fn once(bench: &Bench, exchange: &mut Exchange) -> End {
    let (plugin, phases) = (&bench.plugin, bench.kind.phases);
    let has = |phase: PluginPhase| phases.contains(&phase);
    for phase in [PluginPhase::Rewrite, PluginPhase::Access, PluginPhase::BeforeProxy] {
        if !has(phase) {
            continue;
        }
        let flow = match phase {
            PluginPhase::Rewrite => plugin.rewrite(exchange),
            PluginPhase::Access => plugin.access(exchange),
            _ => plugin.before_proxy(exchange),
        };
        let decision = match flow {
            Flow::Continue => continue,
            Flow::Reply(reply) => return End::Replies(reply.status),
            Flow::Wait(future) => pin!(future).poll(&mut Context::from_waker(Waker::noop())),
            // Replies with a body that comes from elsewhere.
            _ => return End::Replies(200),
        };
        match decision {
            Poll::Ready(PhaseDecision::Continue) => {}
            Poll::Ready(PhaseDecision::Reply(reply)) => return End::Replies(reply.status),
            Poll::Ready(_) => return End::Replies(200),
            Poll::Pending => return End::Waits,
        }
    }
    if has(PluginPhase::ResponseHead) && !is_done(plugin.response_head(exchange)) {
        return End::Waits;
    }
    let sees_body =
        || !matches!(plugin.wants_response_body(exchange), BodyNeed::None | BodyNeed::Copy { .. });
    if has(PluginPhase::ResponseBody) && sees_body() {
        let mut body = RESPONSE_BODY.to_vec();
        if !is_done(plugin.response_body(exchange, &mut body, Portion::Last)) {
            return End::Waits;
        }
    }
    if has(PluginPhase::Encode)
        && plugin.coding_weight(exchange) > 0
        && let Some(mut encoder) = plugin.encoder(exchange)
    {
        let mut coded = Vec::new();
        let is_coded =
            encoder.piece(RESPONSE_BODY, &mut coded).and_then(|()| encoder.end(&mut coded)).is_ok();
        assert!(is_coded, "the body of the measurement can be coded");
    }
    if has(PluginPhase::BeforeLog) {
        plugin.request_ended(exchange);
        plugin.before_log(exchange);
    }
    if has(PluginPhase::Log) {
        plugin.log(exchange);
    }
    End::Continues
}

fn is_done(step: ResponseStep<'_>) -> bool {
    match step {
        ResponseStep::Done => true,
        ResponseStep::Failed(_) | ResponseStep::FailedBecause(..) => false,
        ResponseStep::Wait(future) => pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready(),
    }
}
