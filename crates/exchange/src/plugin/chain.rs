//! A compiled chain: plugin instances sorted once and split by phase, so that an unused phase is an empty
//! slice. It knows the order of plugins and nothing of where they were written.

use std::sync::Arc;

use router::vars::{Expression, VariableSource};
use serde_json::Value;

use super::ordered::{ByPhase, Ordered};
use super::phase::{Flow, PhaseDecision, Plugin, ResponseStep};
use super::phase_name::PluginPhase;
use super::reply::BufferedReply;
use crate::exchange::Exchange;

/// A plugin instance with what `_meta` says of it (contract section 2.3).
pub struct PluginInstance {
    /// The kind's name.
    pub name: &'static str,
    /// The order: the kind's, or `_meta.priority`.
    pub priority: i64,
    /// The phases of its kind.
    pub phases: &'static [PluginPhase],
    /// Whether its kind prefers the route's copy over a global one.
    pub prefer_route: bool,
    /// A number no other instance of this process has; it keys the per-request state.
    pub number: u32,
    /// `_meta.filter`: it runs only where this holds.
    pub filter: Option<Expression>,
    /// `_meta.error_response`: replaces the body of its refusals.
    pub error_response: Option<ErrorResponse>,
    /// Whether its configuration names a variable that lies in the request's body.
    pub reads_body: bool,
    /// The compiled plugin.
    pub plugin: Arc<dyn Plugin>,
}

impl PluginInstance {
    /// Whether the instance runs for this exchange: as [`PluginInstance::decides`] has said, or as its filter
    /// says now.
    #[inline]
    pub fn applies(&self, exchange: &Exchange) -> bool {
        let Some(filter) = &self.filter else { return true };
        exchange.states.verdict(self.number).unwrap_or_else(|| PluginInstance::verdict(filter, exchange))
    }

    /// Whether the instance runs in a phase that may end the request. The verdict holds for the rest of the
    /// request, because the instance itself may change what its filter reads, such as a credential that it
    /// hides.
    #[inline]
    pub fn decides(&self, exchange: &Exchange) -> bool {
        let Some(filter) = &self.filter else { return true };
        exchange.states.verdict(self.number).unwrap_or_else(|| {
            let verdict = PluginInstance::verdict(filter, exchange);
            exchange.states.keep_verdict(self.number, verdict);
            verdict
        })
    }

    fn verdict(filter: &Expression, exchange: &Exchange) -> bool {
        filter.verdict(exchange).unwrap_or_else(|reason| {
            // A plugin may be a protection: it is left out only if its filter is certainly false.
            exchange.search_gave_up(reason);
            true
        })
    }

    /// Runs a phase of the request on behalf of a plugin that was built with this one: its filter and its own
    /// state hold. Phases without a decision always continue.
    pub async fn run(&self, phase: PluginPhase, exchange: &mut Exchange) -> PhaseDecision {
        if !self.phases.contains(&phase) || !self.decides(exchange) {
            return PhaseDecision::Continue;
        }
        let outer = exchange.instance.replace(self.number);
        let decision = {
            let flow = match phase {
                PluginPhase::Preflight => self.plugin.preflight(exchange),
                PluginPhase::Rewrite => self.plugin.rewrite(exchange),
                PluginPhase::Access => self.plugin.access(exchange),
                PluginPhase::BeforeProxy => self.plugin.before_proxy(exchange),
                _ => Flow::Continue,
            };
            match flow {
                Flow::Continue => PhaseDecision::Continue,
                Flow::Reply(reply) => PhaseDecision::Reply(reply),
                Flow::Stream(reply) => PhaseDecision::Stream(reply),
                Flow::Stored(reply) => PhaseDecision::Stored(reply),
                Flow::Wait(future) => future.await,
            }
        };
        exchange.instance.set(outer);
        match decision {
            PhaseDecision::Reply(reply) => PhaseDecision::Reply(self.dress(reply)),
            other => other,
        }
    }

    /// Runs the phase of the response head on behalf of a plugin that was built with this one. A failure is
    /// only in the log.
    pub async fn run_response_head(&self, exchange: &mut Exchange) {
        if !self.phases.contains(&PluginPhase::ResponseHead) || !self.applies(exchange) {
            return;
        }
        let outer = exchange.instance.replace(self.number);
        match self.plugin.response_head(exchange) {
            ResponseStep::Done => {}
            ResponseStep::Wait(future) => future.await,
            ResponseStep::Failed(reason) | ResponseStep::FailedBecause(_, reason) => {
                tracing::error!(plugin = self.name, "the response head was not changed: {reason}")
            }
        }
        exchange.instance.set(outer);
    }

    /// Runs the log phase on behalf of a plugin that was built with this one. Tasks for afterwards are not
    /// started.
    pub fn run_log(&self, exchange: &Exchange) {
        if self.phases.contains(&PluginPhase::Log) && self.applies(exchange) {
            let outer = exchange.instance.replace(self.number);
            self.plugin.log(exchange);
            exchange.instance.set(outer);
        }
    }

    /// Applies `_meta.error_response` to a refusal.
    pub fn dress(&self, mut reply: Box<BufferedReply>) -> Box<BufferedReply> {
        if let (400.., Some(replacement)) = (reply.status, &self.error_response) {
            reply.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
            reply.headers.push(("Content-Type".into(), replacement.content_type.to_owned()));
            reply.body = replacement.body.clone().into();
        }
        reply
    }
}

impl Drop for PluginInstance {
    fn drop(&mut self) {
        self.plugin.stop();
    }
}

/// The body that `_meta.error_response` gives: a text as it is, an object as JSON.
pub struct ErrorResponse {
    content_type: &'static str,
    body: Vec<u8>,
}

impl ErrorResponse {
    /// From the value under `_meta.error_response`.
    pub fn new(value: &Value) -> ErrorResponse {
        match value {
            Value::String(text) => {
                ErrorResponse { content_type: "text/plain; charset=utf-8", body: text.clone().into_bytes() }
            }
            other => {
                ErrorResponse { content_type: "application/json", body: format!("{other}\n").into_bytes() }
            }
        }
    }
}

/// The instances of one object, in running order and by phase.
#[derive(Default)]
pub struct Chain {
    instances: ByPhase<Arc<PluginInstance>, { PluginPhase::COUNT }>,
    concerns_request: bool,
    reads_body: bool,
    reads_body_in_rewrite: bool,
}

impl Ordered for Arc<PluginInstance> {
    fn priority(&self) -> i64 {
        self.priority
    }

    fn name(&self) -> &str {
        self.name
    }

    fn takes_part(&self, phase: usize) -> bool {
        self.phases.iter().any(|own| *own as usize == phase)
    }
}

impl Chain {
    /// Sorts `instances` and splits them by phase.
    pub fn new(instances: Vec<Arc<PluginInstance>>) -> Chain {
        const ON_REQUEST: [PluginPhase; 5] = [
            PluginPhase::Preflight,
            PluginPhase::Rewrite,
            PluginPhase::RequestBody,
            PluginPhase::Access,
            PluginPhase::BeforeProxy,
        ];
        let concerns_request = |one: &Arc<PluginInstance>| {
            one.reads_body || ON_REQUEST.iter().any(|phase| one.phases.contains(phase))
        };
        let reads_in_rewrite =
            |one: &Arc<PluginInstance>| one.reads_body && one.phases.contains(&PluginPhase::Rewrite);
        Chain {
            concerns_request: instances.iter().any(concerns_request),
            reads_body: instances.iter().any(|one| one.reads_body),
            reads_body_in_rewrite: instances.iter().any(reads_in_rewrite),
            instances: ByPhase::new(instances),
        }
    }

    /// All instances in running order.
    pub fn instances(&self) -> &[Arc<PluginInstance>] {
        self.instances.all()
    }

    /// The instances of `phase` in running order.
    pub fn of(
        &self,
        phase: PluginPhase,
    ) -> impl DoubleEndedIterator<Item = &Arc<PluginInstance>> + ExactSizeIterator {
        self.instances.of(phase as usize)
    }

    /// Whether any instance takes part in `phase`.
    pub fn has(&self, phase: PluginPhase) -> bool {
        self.instances.has(phase as usize)
    }

    /// Whether any instance runs on a request before an endpoint is selected.
    pub fn concerns_request(&self) -> bool {
        self.concerns_request
    }

    /// Whether any instance has a variable in its configuration that lies in the request's body.
    pub fn reads_body(&self) -> bool {
        self.reads_body
    }

    /// Whether such an instance takes part in the rewrite phase.
    pub fn reads_body_in_rewrite(&self) -> bool {
        self.reads_body_in_rewrite
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugin::Flow;
    use crate::testing::{Scene, decide};

    struct Refuses;

    impl Plugin for Refuses {
        fn access<'a>(&'a self, _: &'a mut Exchange) -> Flow<'a> {
            Flow::reply(BufferedReply::status(403))
        }
    }

    #[test]
    fn verdict_of_a_filter_holds_for_the_request() {
        let instance = PluginInstance {
            name: "refuses",
            priority: 1,
            phases: &[PluginPhase::Rewrite, PluginPhase::Access, PluginPhase::Log],
            prefer_route: false,
            number: 7,
            filter: Some(Expression::compile(&json!([["http_a", "==", "1"]])).unwrap()),
            error_response: None,
            reads_body: false,
            plugin: Arc::new(Refuses),
        };
        let mut scene = Scene::new();
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\n\r\n");
        let run = |exchange: &mut Exchange, phase| {
            let flow = Flow::Wait(Box::pin(instance.run(phase, exchange)));
            decide(flow).map(|reply| reply.status)
        };
        assert_eq!(run(&mut exchange, PluginPhase::Rewrite), None);
        exchange.request.headers.remove("a");
        assert_eq!(run(&mut exchange, PluginPhase::Access), Some(403));
        assert!(instance.applies(&exchange));
        exchange.states.clear();
        assert_eq!(run(&mut exchange, PluginPhase::Access), None);
        exchange.request.headers.set("a", b"1").unwrap();
        assert!(!instance.applies(&exchange));
    }
}
