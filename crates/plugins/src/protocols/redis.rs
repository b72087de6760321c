//! The protocol `redis` of stream routes: commands and replies are read as they pass (RESP 2 and 3). Commands
//! can be delayed by rules, counted with their latency, and logged one by one.

mod commands;
mod faults;
mod metrics;
mod replies;
mod requests;
mod session;

use std::sync::Arc;

use exchange::plugin::Build;
use exchange::plugin::stream::StreamSession;
use exchange::plugin::stream::protocol::{ProtocolKind, ProtocolSession, ProtocolSettings, StreamProtocol};
use serde_json::Value;

use faults::Faults;
use metrics::CommandMetrics;
use session::RedisSession;

/// The declaration of the protocol.
pub(super) const KIND: ProtocolKind = ProtocolKind { name: "redis", check, build };

/// The compiled protocol.
struct Redis {
    faults: Arc<Faults>,
    metrics: Option<Arc<CommandMetrics>>,
}

fn check(conf: Option<&Value>) -> Result<(), String> {
    Faults::compile(conf).map(drop)
}

fn build(build: &Build<'_>, settings: &ProtocolSettings<'_>) -> Result<Arc<dyn StreamProtocol>, String> {
    let faults =
        Arc::new(Faults::compile(settings.conf).map_err(|reason| format!("protocol.conf: {reason}"))?);
    let metrics = settings.has_metrics.then(|| {
        // The services keep the table, so that the counters outlive the last route.
        let metrics = build.states.keep("protocols/redis", CommandMetrics::default);
        build.services.add_metrics(metrics.clone());
        metrics
    });
    Ok(Arc::new(Redis { faults, metrics }))
}

impl StreamProtocol for Redis {
    fn open(&self, session: &StreamSession, is_logged: bool) -> Box<dyn ProtocolSession> {
        let route = session.route_id.clone().unwrap_or_default();
        let counts = self.metrics.as_ref().map(|metrics| metrics.of_route(route));
        Box::new(RedisSession::new(self.faults.clone(), counts, is_logged))
    }
}

#[cfg(test)]
mod tests;
