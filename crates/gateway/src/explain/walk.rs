//! The plugins that a request would meet, in the order of the pipeline, each with its own answer to what it
//! would do. No phase of a plugin runs here.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::runtime::merged::MergedChains;
use crate::runtime::{CompiledRoute, ConsumerPlugins, Generation};
use exchange::Exchange;
use exchange::plugin::chain::{Chain, PluginInstance};
use exchange::plugin::preflight::{PREFLIGHT_PRIORITY, is_preflight};
use exchange::plugin::{EffectKind, Explained, PluginPhase, UpstreamChoice};

/// The plugins, and whether one of them answers the request.
pub(super) struct PluginWalk {
    /// Each plugin in each phase as JSON.
    pub(super) plugins: Vec<Value>,
    /// The plugin that answers the request.
    pub(super) ended_by: Option<&'static str>,
    /// The upstreams that the last plugin to choose one divides such requests among; empty if there is one
    /// for all.
    pub(super) choices: Vec<UpstreamChoice>,
}

/// The phases before an endpoint is selected, in which a plugin may answer.
const DECIDING: [PluginPhase; 4] =
    [PluginPhase::Preflight, PluginPhase::Rewrite, PluginPhase::Access, PluginPhase::BeforeProxy];

/// Asks the plugins of a request that `route` was found for. `exchange` is changed as the plugins say.
pub(super) fn walk(
    generation: &Generation,
    route: Option<&Arc<CompiledRoute>>,
    exchange: &mut Exchange,
) -> PluginWalk {
    let mut walk = PluginWalk { plugins: Vec::new(), ended_by: None, choices: Vec::new() };
    let own = route.map(|route| &route.plugins);
    let origins = Origins::of(route);
    let global = ChainQuery { chain: &generation.global, local: own, origin: &|_| "global_rule" };
    let of_plugin = |name: &str| origins.of_plugin(name);
    let local = own.map(|chain| ChainQuery { chain, local: None, origin: &of_plugin });
    let both = [Some(&global), local.as_ref()];
    let answers_preflight = is_preflight(exchange);
    if answers_preflight {
        for phase in [PluginPhase::Rewrite, PluginPhase::Preflight] {
            for asked in both.into_iter().flatten() {
                walk.phase(asked, phase, exchange, |instance| {
                    phase == PluginPhase::Preflight || instance.priority > PREFLIGHT_PRIORITY
                });
            }
        }
    }
    for asked in both.into_iter().flatten() {
        walk.phase(asked, PluginPhase::Rewrite, exchange, |instance| {
            !answers_preflight || instance.priority <= PREFLIGHT_PRIORITY
        });
    }
    let merged = merged(own, exchange);
    let is_own = |instance: &PluginInstance| {
        own.is_some_and(|chain| chain.instances().iter().any(|other| other.number == instance.number))
    };
    let has_name = |name: &str| own.is_some_and(|own| own.instances().iter().any(|one| one.name == name));
    let of_consumer = |instance: &PluginInstance| if is_own(instance) { None } else { Some("consumer") };
    let merged = merged.as_ref().or(own);
    let origin = |name: &str| {
        let found = merged.and_then(|chain| chain.instances().iter().find(|instance| instance.name == name));
        found.and_then(|instance| of_consumer(instance)).unwrap_or_else(|| origins.of_plugin(name))
    };
    let global = ChainQuery { local: merged, ..global };
    let local = merged.map(|chain| ChainQuery { chain, local: None, origin: &origin });
    if let Some(local) = &local {
        walk.phase(local, PluginPhase::Rewrite, exchange, |instance| {
            !is_own(instance) && !has_name(instance.name)
        });
    }
    for phase in [PluginPhase::Access, PluginPhase::BeforeProxy] {
        walk.phase(&global, phase, exchange, |_| true);
        if let Some(local) = &local {
            walk.phase(local, phase, exchange, |_| true);
        }
    }
    for asked in [Some(&global), local.as_ref()].into_iter().flatten() {
        walk.later(asked, exchange);
    }
    walk
}

/// A chain, and what is needed to ask its plugins.
struct ChainQuery<'a> {
    chain: &'a Arc<Chain>,
    /// For the global chain, the chain that some of its plugins give way to.
    local: Option<&'a Arc<Chain>>,
    /// The kind of object that a plugin is written in.
    origin: &'a dyn Fn(&str) -> &'static str,
}

impl PluginWalk {
    fn phase(
        &mut self,
        asked: &ChainQuery<'_>,
        phase: PluginPhase,
        exchange: &mut Exchange,
        concerns: impl Fn(&PluginInstance) -> bool,
    ) {
        for instance in asked.chain.of(phase).filter(|instance| concerns(instance)) {
            let explained = match self.skipped(asked, instance, exchange) {
                Some(why) => Explained::skipped(why),
                None => {
                    exchange.instance.set(instance.number);
                    instance.plugin.explain(exchange, phase)
                }
            };
            if explained.would.as_ref().is_some_and(|would| would.action == EffectKind::Choose) {
                self.choices =
                    if explained.choices.len() > 1 { explained.choices.clone() } else { Vec::new() };
            }
            if explained.ends() {
                self.ended_by = Some(instance.name);
            }
            self.plugins.push(written(instance.name, phase, (asked.origin)(instance.name), &explained));
        }
    }

    /// Plugins that take part only after an endpoint was selected, each with its first phase.
    fn later(&mut self, asked: &ChainQuery<'_>, exchange: &Exchange) {
        let instances = asked.chain.instances().iter();
        for instance in instances.filter(|one| !DECIDING.iter().any(|phase| one.phases.contains(phase))) {
            let Some(phase) = instance.phases.first() else { continue };
            let gives_way = gives_way(asked, instance);
            let explained = match &instance.filter {
                _ if gives_way => Explained::skipped(GIVES_WAY),
                Some(_) => Explained::unknown("its _meta.filter is read when the phase begins"),
                None if exchange.skips(instance.name) => Explained::skipped(SWITCHED_OFF),
                None => Explained::passes(),
            };
            self.plugins.push(written(instance.name, *phase, (asked.origin)(instance.name), &explained));
        }
    }

    /// Why the instance does not run.
    fn skipped(
        &self,
        asked: &ChainQuery<'_>,
        instance: &PluginInstance,
        exchange: &Exchange,
    ) -> Option<String> {
        if gives_way(asked, instance) {
            return Some(GIVES_WAY.to_owned());
        }
        if let Some(plugin) = self.ended_by {
            return Some(format!("{plugin} has answered"));
        }
        if exchange.skips(instance.name) {
            return Some(SWITCHED_OFF.to_owned());
        }
        (!instance.decides(exchange)).then(|| "its _meta.filter does not hold".to_owned())
    }
}

const GIVES_WAY: &str = "the route has its own";
const SWITCHED_OFF: &str = "another plugin has switched it off";

fn gives_way(asked: &ChainQuery<'_>, instance: &PluginInstance) -> bool {
    let has_own = |local: &&Arc<Chain>| local.instances().iter().any(|other| other.name == instance.name);
    instance.prefer_route && asked.local.as_ref().is_some_and(has_own)
}

/// The route's chain with the plugins of the consumer that was found; none without one.
fn merged(own: Option<&Arc<Chain>>, exchange: &Exchange) -> Option<Arc<Chain>> {
    let consumer = exchange.decision.consumer.as_ref()?;
    let added = ConsumerPlugins::of(consumer)?;
    Some(MergedChains::default().of(own, consumer, added))
}

fn written(plugin: &str, phase: PluginPhase, from: &str, explained: &Explained) -> Value {
    let would = explained
        .would
        .as_ref()
        .map(|would| json!({ "action": would.action.as_str(), "status": would.status, "text": would.text }));
    json!({
        "plugin": plugin,
        "phase": phase.name(),
        "from": from,
        "runs": explained.runs,
        "why": explained.why,
        "would": would,
    })
}

/// The objects that the plugins of a route are written in.
struct Origins {
    route: Map<String, Value>,
    service: Map<String, Value>,
    has_plugin_config: bool,
}

impl Origins {
    fn of(route: Option<&Arc<CompiledRoute>>) -> Origins {
        let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        let plugins = |object: &Value| object["plugins"].as_object().cloned().unwrap_or_default();
        let own = route.map(|route| parse(&route.info.written)).unwrap_or_default();
        let service = route.and_then(|route| route.info.service.as_ref());
        Origins {
            has_plugin_config: !own["plugin_config_id"].is_null(),
            service: service.map(|service| plugins(&parse(&service.written))).unwrap_or_default(),
            route: plugins(&own),
        }
    }

    /// The route's own plugin counts most. A service's plugin that the plugin config has too is told as the
    /// service's, because the compiled route does not know the plugin config any more.
    fn of_plugin(&self, name: &str) -> &'static str {
        if self.route.contains_key(name) {
            "route"
        } else if self.service.contains_key(name) {
            "service"
        } else if self.has_plugin_config {
            "plugin_config"
        } else {
            "route"
        }
    }
}
