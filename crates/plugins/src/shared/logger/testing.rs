//! For tests of log plugins: the entry that an instance makes, without a queue.

use exchange::Exchange;
use exchange::plugin::state::StateRegistry;
use exchange::testing::{Scene, respond, route, services};
use serde_json::Value;

use super::{Contents, LogPlugin, read};

/// The parts of an instance that make entries.
pub(crate) struct Maker<P> {
    pub(crate) plugin: P,
    pub(crate) contents: Contents,
}

impl<P: LogPlugin> Maker<P> {
    /// Compiles a configuration, which must be good.
    pub(crate) fn new(config: &Value, metadata: Option<&Value>) -> Maker<P> {
        let written = read::<P>(config).unwrap();
        let plugin = P::compile(&written.own, metadata).unwrap();
        let contents = super::contents(&plugin, &written, metadata).unwrap();
        Maker { plugin, contents }
    }

    /// The entry of `exchange`.
    pub(crate) fn entry(&self, exchange: &Exchange) -> Option<Vec<u8>> {
        self.plugin.entry(exchange, &self.contents)
    }
}

/// The entry of a request to `/a?n=1` on the route `r1` that was answered 200.
pub(crate) fn entry<P: LogPlugin>(config: &Value, metadata: Option<&Value>) -> Vec<u8> {
    let mut scene = Scene::new().with_route(route("r1"));
    let mut exchange = scene.exchange(b"GET /a?n=1 HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: ua\r\n\r\n");
    respond(&mut exchange, 200, &[]);
    exchange.times.ended_ns = exchange.times.started_ns + 2_500_000;
    Maker::<P>::new(config, metadata).entry(&exchange).unwrap()
}

/// The sink of a configuration, with metadata.
pub(crate) fn sink<P: LogPlugin>(config: &Value, metadata: Option<&Value>) -> Result<P::Sink, String> {
    let (services, states) = (services(), StateRegistry::default());
    let written = read::<P>(config).unwrap();
    let settings = written.batch.settings(P::QUEUE_NAME, "/routes/1", metadata);
    let build = exchange::testing::build("/routes/1", metadata, &states, &services);
    P::compile(&written.own, metadata)?.sink(&build, &written.own, &settings)
}
