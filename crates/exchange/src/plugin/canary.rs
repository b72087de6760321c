//! Two versions of an extension behind one instance: each request is served by one of them from its beginning
//! to its end. It knows no language.

use std::sync::Arc;

use message::{Headers, ResponseHead};
use router::vars::{Expression, VariableSource};

use super::encode::BodyEncoder;
use super::explained::Explained;
use super::phase::{BodyNeed, Flow, LogTask, NextAttempt, Plugin, Portion, ResponseStep};
use super::phase_name::PluginPhase;
use super::reply::BufferedReply;
use super::stored::StoredReply;
use crate::exchange::Exchange;
use crate::failure::ExchangeFailure;

/// The requests that the version on trial serves.
#[derive(Clone)]
pub struct CanaryShare {
    /// The share in percent, drawn at random for each request.
    pub percent: f64,
    /// Only requests for which this holds.
    pub vars: Option<Expression>,
    /// The number under which the request keeps the choice, the same for all instances of the extension.
    pub choice: u32,
}

/// One of two versions: its instance, and the phases that it takes part in.
pub struct CanaryVersion<P: ?Sized, F: 'static> {
    /// Its instance.
    pub plugin: Arc<P>,
    /// Its phases.
    pub phases: &'static [F],
}

/// An instance of each of two versions.
pub struct Canary<P: ?Sized, F: 'static> {
    active: CanaryVersion<P, F>,
    canary: CanaryVersion<P, F>,
    pub(super) share: CanaryShare,
}

/// Two versions of a plugin of HTTP.
pub type CanaryPlugin = Canary<dyn Plugin, PluginPhase>;

impl<P: ?Sized, F: PartialEq> Canary<P, F> {
    /// `canary` serves its share, `active` all others.
    pub fn new(active: CanaryVersion<P, F>, canary: CanaryVersion<P, F>, share: CanaryShare) -> Canary<P, F> {
        Canary { active, canary, share }
    }

    /// The version, if it takes part in one of the phases.
    pub(super) fn version(&self, is_canary: bool, phases: &[F]) -> Option<&P> {
        let version = if is_canary { &self.canary } else { &self.active };
        let takes_part = phases.iter().any(|phase| version.phases.contains(phase));
        takes_part.then_some(&*version.plugin)
    }

    /// Both instances.
    pub(super) fn both(&self) -> [&P; 2] {
        [&self.active.plugin, &self.canary.plugin]
    }
}

impl CanaryPlugin {
    /// The version that serves this request, if it takes part in one of the phases.
    fn at(&self, exchange: &Exchange, phases: &[PluginPhase]) -> Option<&dyn Plugin> {
        self.version(self.is_canary(exchange), phases)
    }

    fn is_canary(&self, exchange: &Exchange) -> bool {
        let kept = exchange.states.verdict(self.share.choice);
        kept.unwrap_or_else(|| {
            let drawn = self.share.draws(exchange);
            exchange.states.keep_verdict(self.share.choice, drawn);
            drawn
        })
    }
}

impl CanaryShare {
    /// Whether the request or session is served by the version on trial. An expression that cannot be decided
    /// leaves it with the other.
    pub(super) fn draws(&self, source: &impl VariableSource) -> bool {
        let holds = self.vars.as_ref().is_none_or(|vars| vars.verdict(source).unwrap_or(false));
        holds && fastrand::f64() * 100.0 < self.percent
    }
}

impl Plugin for CanaryPlugin {
    fn preflight<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        match self.at(exchange, &[PluginPhase::Preflight]) {
            Some(plugin) => plugin.preflight(exchange),
            None => Flow::Continue,
        }
    }

    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        match self.at(exchange, &[PluginPhase::Rewrite]) {
            Some(plugin) => plugin.rewrite(exchange),
            None => Flow::Continue,
        }
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        match self.at(exchange, &[PluginPhase::Access]) {
            Some(plugin) => plugin.access(exchange),
            None => Flow::Continue,
        }
    }

    fn before_proxy<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        match self.at(exchange, &[PluginPhase::BeforeProxy]) {
            Some(plugin) => plugin.before_proxy(exchange),
            None => Flow::Continue,
        }
    }

    fn before_attempt(&self, exchange: &mut Exchange, attempt: NextAttempt) {
        if let Some(plugin) = self.at(exchange, &[PluginPhase::Attempt]) {
            plugin.before_attempt(exchange, attempt);
        }
    }

    fn upstream_response(
        &self,
        exchange: &mut Exchange,
        failure: Option<&ExchangeFailure>,
    ) -> Option<Box<StoredReply>> {
        self.at(exchange, &[PluginPhase::UpstreamResponse])?.upstream_response(exchange, failure)
    }

    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        match self.at(exchange, &[PluginPhase::ResponseHead]) {
            Some(plugin) => plugin.response_head(exchange),
            None => ResponseStep::Done,
        }
    }

    fn response_body<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        body: &'a mut Vec<u8>,
        portion: Portion,
    ) -> ResponseStep<'a> {
        match self.at(exchange, &[PluginPhase::ResponseBody]) {
            Some(plugin) => plugin.response_body(exchange, body, portion),
            None => ResponseStep::Done,
        }
    }

    fn response_trailers(&self, exchange: &mut Exchange, trailers: &mut Headers) {
        if let Some(plugin) = self.at(exchange, &[PluginPhase::ResponseBody]) {
            plugin.response_trailers(exchange, trailers);
        }
    }

    fn coding_weight(&self, exchange: &mut Exchange) -> u16 {
        self.at(exchange, &[PluginPhase::Encode]).map_or(0, |plugin| plugin.coding_weight(exchange))
    }

    fn encoder(&self, exchange: &mut Exchange) -> Option<Box<dyn BodyEncoder>> {
        self.at(exchange, &[PluginPhase::Encode])?.encoder(exchange)
    }

    fn informational(&self, exchange: &mut Exchange, head: &mut ResponseHead) {
        if let Some(plugin) = self.at(exchange, &[PluginPhase::Informational]) {
            plugin.informational(exchange, head);
        }
    }

    fn request_ended(&self, exchange: &Exchange) {
        if let Some(plugin) = self.at(exchange, &[PluginPhase::BeforeLog]) {
            plugin.request_ended(exchange);
        }
    }

    fn before_log(&self, exchange: &mut Exchange) {
        if let Some(plugin) = self.at(exchange, &[PluginPhase::BeforeLog]) {
            plugin.before_log(exchange);
        }
    }

    fn log(&self, exchange: &Exchange) {
        if let Some(plugin) = self.at(exchange, &[PluginPhase::Log]) {
            plugin.log(exchange);
        }
    }

    fn log_task(&self, exchange: &Exchange) -> Option<LogTask> {
        self.at(exchange, &[PluginPhase::Log])?.log_task(exchange)
    }

    fn wants_request_body(&self, exchange: &Exchange) -> BodyNeed {
        let plugin = self.at(exchange, &[PluginPhase::RequestBody]);
        plugin.map_or(BodyNeed::None, |plugin| plugin.wants_request_body(exchange))
    }

    fn refuse_long_body(&self, exchange: &Exchange) -> Option<BufferedReply> {
        self.at(exchange, &[PluginPhase::RequestBody])?.refuse_long_body(exchange)
    }

    fn request_body(&self, exchange: &mut Exchange, body: &mut Vec<u8>, portion: Portion) {
        if let Some(plugin) = self.at(exchange, &[PluginPhase::RequestBody]) {
            plugin.request_body(exchange, body, portion);
        }
    }

    fn wants_response_body(&self, exchange: &Exchange) -> BodyNeed {
        let plugin = self.at(exchange, &[PluginPhase::ResponseHead, PluginPhase::ResponseBody]);
        plugin.map_or(BodyNeed::None, |plugin| plugin.wants_response_body(exchange))
    }

    fn api<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        self.active.plugin.api(exchange)
    }

    fn explain(&self, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
        self.active.plugin.explain(exchange, phase)
    }

    fn start(&self) {
        self.both().into_iter().for_each(|plugin| plugin.start());
    }

    fn stop(&self) {
        self.both().into_iter().for_each(|plugin| plugin.stop());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Scene, decide};

    struct Answers(u16);

    impl Plugin for Answers {
        fn access<'a>(&'a self, _: &'a mut Exchange) -> Flow<'a> {
            Flow::reply(BufferedReply::status(self.0))
        }

        fn rewrite<'a>(&'a self, _: &'a mut Exchange) -> Flow<'a> {
            Flow::reply(BufferedReply::status(self.0 + 1))
        }
    }

    fn canary(percent: f64, vars: Option<serde_json::Value>) -> CanaryPlugin {
        let version =
            |status, phases| CanaryVersion { plugin: Arc::new(Answers(status)) as Arc<dyn Plugin>, phases };
        let vars = vars.map(|vars| Expression::compile(&vars).unwrap());
        CanaryPlugin::new(
            version(401, &[PluginPhase::Access]),
            version(501, &[PluginPhase::Access, PluginPhase::Rewrite]),
            CanaryShare { percent, vars, choice: u32::MAX },
        )
    }

    fn status(plugin: &CanaryPlugin, exchange: &mut Exchange) -> u16 {
        decide(plugin.access(exchange)).map_or(0, |reply| reply.status)
    }

    #[test]
    fn share_of_requests_is_served_by_the_canary() {
        fastrand::seed(7);
        let (mut scene, plugin) = (Scene::new(), canary(20.0, None));
        let mut drawn = 0;
        for _ in 0..2_000 {
            let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            let first = status(&plugin, &mut exchange);
            assert_eq!(status(&plugin, &mut exchange), first, "one version for the whole request");
            drawn += usize::from(first == 501);
        }
        assert!((300..500).contains(&drawn), "{drawn}");
    }

    #[test]
    fn expression_selects_the_canary_and_its_phases() {
        let mut scene = Scene::new();
        let plugin = canary(100.0, Some(json!([["http_x_trial", "==", "1"]])));
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\nX-Trial: 1\r\n\r\n");
        assert_eq!(status(&plugin, &mut exchange), 501);
        assert_eq!(decide(plugin.rewrite(&mut exchange)).map(|reply| reply.status), Some(502));
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(status(&plugin, &mut exchange), 401);
        assert!(decide(plugin.rewrite(&mut exchange)).is_none());
    }
}
