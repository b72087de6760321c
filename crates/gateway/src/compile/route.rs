//! A route: what it matches, its merged chain, the slot of its upstream.

use std::any::Any;
use std::sync::Arc;

use model::merge::{Provenance, route_plugins};
use model::resource::{PRIORITY_LABEL, Plugins, Resource, Route as WrittenRoute, Service, Timeout};
use model::snapshot::{Snapshot, SnapshotObject};
use model::{ObjectKey, ObjectKind};
use router::vars::Expression;
use router::{CidrSet, MethodSet, Rule, RuleInput};

use super::consumer::in_force_or_closed;
use super::{SnapshotCompiler, required};
use crate::runtime::CompiledRoute;
use exchange::exchange::{RouteInfo, ServiceName};
use exchange::failure::Cause;
use exchange::failure::Unavailable;
use exchange::options::AttemptTimeouts;
use exchange::overload::Priority;
use exchange::plugin::chain::Chain;
use exchange::plugin::scripts::HeldCondition;

/// The object that a route is made of, if a user did not write it.
#[derive(Clone, Copy)]
pub(super) struct RouteParent<'o> {
    /// Plugins that the routes of the object share.
    pub(super) plugins: &'o Plugins,
    /// The object.
    pub(super) key: &'o ObjectKey,
    /// Whether it has an upstream of its own.
    pub(super) has_upstream: bool,
}

/// Routes of one contract are told apart by so many bits of the order; it has fewer.
const CONTRACT_ORDER_BITS: u32 = 20;

impl SnapshotCompiler {
    /// Compiles the route under `key` as it is now, or takes it out if it is gone or switched off.
    pub(super) fn compile_route(&mut self, snapshot: &Snapshot, key: &ObjectKey) {
        self.remove_route(&key.id);
        let (object, closed) = match (snapshot.get(key), snapshot.closed(key)) {
            (Some(object), _) => (object, None),
            (None, Some((object, refusal))) => (object, Some(refusal)),
            (None, None) => return,
        };
        let Resource::Route(written) = &object.resource else { return };
        if written.rare().is_disabled {
            return;
        }
        let closed = closed.map(|refusal| refusal.to_string());
        self.compile_route_of(snapshot, object, written, closed.as_deref(), None);
    }

    /// Places the route that `object` is; `closed` has the reason why it answers 503.
    pub(super) fn compile_route_of(
        &mut self,
        snapshot: &Snapshot,
        object: &SnapshotObject,
        written: &WrittenRoute,
        closed: Option<&str>,
        parent: Option<RouteParent<'_>>,
    ) {
        let key = object.key();
        let built = match closed {
            None => self.build_route(snapshot, object, written, parent),
            Some(reason) => {
                let (_, service) = service_of(snapshot, written);
                self.rule(object, written, service)
                    .map(|rule| self.closed_route(snapshot, object, written, rule, reason.to_owned()))
            }
        };
        match built {
            Ok(route) => self.place_route(key, route),
            Err(reason) => {
                // The hosts of its service make the match too large, or its function does not compile. A
                // closed rule for every host and request replaces it, because a missing route could let
                // another one match.
                let (_, service) = service_of(snapshot, written);
                let without_function = rule(object, written, service, None);
                if let Ok(rule) = without_function.or_else(|_| rule(object, written, None, None)) {
                    let route = self.closed_route(snapshot, object, written, rule, reason.clone());
                    self.place_route(key, route);
                }
                self.fault(parent.map_or(key, |parent| parent.key), reason);
            }
        }
    }

    fn place_route(&mut self, key: &ObjectKey, route: CompiledRoute) {
        let rule = route.info.rule.clone();
        let slot = self.current.routes.allocate(Arc::new(route));
        self.current.route_slots.insert(key.id.clone(), slot);
        self.current.router.insert(slot, rule);
    }

    pub(super) fn remove_route(&mut self, id: &Arc<str>) {
        if let Some(slot) = self.current.route_slots.remove(id)
            && let Some(route) = self.current.routes.take(slot)
        {
            self.current.router.remove(slot, &route.info.rule);
        }
    }

    /// A route that keeps its place and answers 503.
    fn closed_route(
        &self,
        snapshot: &Snapshot,
        object: &SnapshotObject,
        written: &WrittenRoute,
        rule: Rule,
        reason: String,
    ) -> CompiledRoute {
        let (service_key, service) = service_of(snapshot, written);
        let id = object.key().id.clone();
        let detail = format!("route {id} is faulty: {reason}");
        CompiledRoute {
            info: RouteInfo {
                id,
                name: written.rare().name.as_deref().map(Arc::from),
                service: service_name(snapshot, service_key, service),
                rule: Arc::new(rule),
                written: object.written.text.clone(),
            },
            plugins: self.empty_chain.clone(),
            upstream: None,
            timeouts: None,
            enable_websocket: false,
            bulkhead: None,
            priority: priority(written, service),
            missing: Some(Unavailable::new(Cause::FaultyConfiguration, detail)),
        }
    }

    fn build_route(
        &mut self,
        snapshot: &Snapshot,
        object: &SnapshotObject,
        written: &WrittenRoute,
        parent: Option<RouteParent<'_>>,
    ) -> Result<CompiledRoute, String> {
        let rare = written.rare();
        let (service_key, service) = service_of(snapshot, written);
        let rule = Arc::new(self.rule(object, written, service)?);
        let script = rare.script.as_ref().or_else(|| service?.script.as_ref());
        let (plugins, missing) = match script {
            Some(script) => self.script_chain(snapshot, object, script),
            None => {
                let of_service = service.map(|service| &service.plugins);
                self.route_chain(snapshot, object, written, of_service, service_key, parent)
            }
        };
        let missing = match &written.service_id {
            Some(id) if !service_key.is_some_and(|key| snapshot.contains(key)) => Some(Unavailable::new(
                Cause::MissingService,
                format!("service {} does not exist or is faulty", id.as_str()),
            )),
            _ => missing,
        };
        let info = RouteInfo {
            id: object.key().id.clone(),
            name: rare.name.as_deref().map(Arc::from),
            service: service_name(snapshot, service_key, service),
            rule,
            written: object.written.text.clone(),
        };
        Ok(CompiledRoute {
            info,
            plugins,
            upstream: self.upstream_slot(object, written, service_key, service, parent),
            timeouts: rare.timeout.as_ref().map(timeouts),
            enable_websocket: rare
                .enable_websocket
                .or_else(|| service.and_then(|service| service.enable_websocket))
                .unwrap_or(false),
            bulkhead: self.bulkhead(object.key(), rare.limits.as_ref()),
            priority: priority(written, service),
            missing,
        })
    }

    /// The conditions of the route, with that of its code.
    fn rule(
        &self,
        object: &SnapshotObject,
        written: &WrittenRoute,
        service: Option<&Service>,
    ) -> Result<Rule, String> {
        let condition = written.rare().condition.as_ref().map(|source| {
            let scripts = required(self.scripts.as_ref())?;
            let condition = scripts.condition(&self.services, &object.key().path(), source);
            let condition = condition.map_err(|reason| format!("failed to load filter_func: {reason}"))?;
            Ok::<Arc<dyn Any + Send + Sync>, String>(Arc::new(HeldCondition(condition)))
        });
        rule(object, written, service, condition.transpose()?)
    }

    /// The chain of a route with a script, which takes the place of plugins.
    fn script_chain(
        &mut self,
        snapshot: &Snapshot,
        object: &SnapshotObject,
        script: &str,
    ) -> (Arc<Chain>, Option<Unavailable>) {
        match self.script_instance(snapshot, object.key(), script) {
            Ok(instance) => (self.sharing.chain(vec![instance]), None),
            Err(reason) => {
                self.fault(object.key(), reason.clone());
                let missing = Unavailable::new(Cause::FaultyConfiguration, reason);
                (self.empty_chain.clone(), Some(missing))
            }
        }
    }

    /// The merged chain of the route, its plugin config and its service; and the reason why it must not be
    /// used, if there is one.
    fn route_chain(
        &mut self,
        snapshot: &Snapshot,
        object: &SnapshotObject,
        written: &WrittenRoute,
        service: Option<&Plugins>,
        service_key: Option<&ObjectKey>,
        parent: Option<RouteParent<'_>>,
    ) -> (Arc<Chain>, Option<Unavailable>) {
        let shared = written
            .plugin_config_id
            .as_ref()
            .map(|id| snapshot.get(&ObjectKey::of(ObjectKind::PluginConfig, id)));
        if let (Some(None), Some(id)) = (&shared, &written.plugin_config_id) {
            let detail = format!("plugin_config {} does not exist or is faulty", id.as_str());
            return (self.empty_chain.clone(), Some(Unavailable::new(Cause::MissingReference, detail)));
        }
        let shared = shared.flatten();
        let shared_key = parent.map(|parent| parent.key).or(shared.map(|shared| shared.key()));
        let shared = parent.map(|parent| parent.plugins).or(shared.map(|shared| shared.resource.plugins()));
        let mut instances = Vec::new();
        let mut missing = None;
        for effective in route_plugins(&written.rare().plugins, shared, service) {
            // State that outlives changes belongs to the object the plugin is written in: the limit of a
            // service is one limit for all its routes.
            let owner = match effective.provenance {
                Provenance::Service => service_key,
                Provenance::PluginConfig => shared_key,
                _ => None,
            };
            match self.instance(snapshot, owner.unwrap_or(object.key()), effective.name, effective.config) {
                Ok(instance) => instances.extend(instance),
                // A route must not run without a plugin that cannot be built, because the plugin may protect
                // it.
                Err(reason) => {
                    self.fault(parent.map_or(object.key(), |parent| parent.key), reason.clone());
                    missing = Some(Unavailable::new(Cause::FaultyConfiguration, reason));
                }
            }
        }
        let chain =
            if instances.is_empty() { self.empty_chain.clone() } else { self.sharing.chain(instances) };
        (chain, missing)
    }

    /// The upstream that the route names, else its own, else its service's in the same order: as in APISIX,
    /// `upstream_id` wins over `upstream`.
    fn upstream_slot(
        &self,
        object: &SnapshotObject,
        written: &WrittenRoute,
        service_key: Option<&ObjectKey>,
        service: Option<&Service>,
        parent: Option<RouteParent<'_>>,
    ) -> Option<u32> {
        let of = |key: &ObjectKey| self.current.upstream_slots.get(&*key.path()).copied();
        if let Some(id) = &written.upstream_id {
            return of(&ObjectKey::of(ObjectKind::Upstream, id));
        }
        if written.rare().upstream.is_some() {
            return of(object.key());
        }
        if let Some(parent) = parent.filter(|parent| parent.has_upstream) {
            return of(parent.key);
        }
        let service = service?;
        match (&service.upstream_id, &service.upstream) {
            (Some(id), _) => of(&ObjectKey::of(ObjectKind::Upstream, id)),
            (None, Some(_)) => of(service_key?),
            (None, None) => None,
        }
    }
}

/// The service that a route names: in force, or closed, for its hosts.
fn service_of<'s>(
    snapshot: &'s Snapshot,
    written: &WrittenRoute,
) -> (Option<&'s ObjectKey>, Option<&'s Service>) {
    let object = written
        .service_id
        .as_ref()
        .and_then(|id| in_force_or_closed(snapshot, &ObjectKey::of(ObjectKind::Service, id)));
    let service = object.and_then(|object| match &object.resource {
        Resource::Service(service) => Some(&**service),
        _ => None,
    });
    (object.map(|object| object.key()), service)
}

fn service_name(
    snapshot: &Snapshot,
    key: Option<&ObjectKey>,
    service: Option<&Service>,
) -> Option<Arc<ServiceName>> {
    let object = in_force_or_closed(snapshot, key?)?;
    Some(Arc::new(ServiceName {
        id: object.key().id.clone(),
        name: service.and_then(|service| service.name.as_deref()).map(Arc::from),
        written: object.written.text.clone(),
    }))
}

fn rule(
    object: &SnapshotObject,
    written: &WrittenRoute,
    service: Option<&Service>,
    condition: Option<Arc<dyn Any + Send + Sync>>,
) -> Result<Rule, String> {
    let rare = written.rare();
    let hosts = match (&rare.hosts[..], service) {
        ([], Some(service)) => &service.hosts[..],
        (hosts, _) => hosts,
    };
    let vars = rare.vars.as_ref().map(Expression::compile).transpose();
    let remote_addrs: Vec<String> = rare.remote_addrs.iter().map(ToString::to_string).collect();
    let remote_addrs = if remote_addrs.is_empty() { None } else { Some(CidrSet::parse(&remote_addrs)) };
    let methods: Vec<&str> = rare.methods.iter().map(|method| method.as_str()).collect();
    let methods = if methods.is_empty() { Ok(MethodSet::ANY) } else { MethodSet::from_names(&methods) };
    Rule::new(RuleInput {
        paths: written.uris.iter().map(|uri| uri.to_string()).collect(),
        are_templates: rare.template_order.is_some(),
        hosts: hosts.iter().map(|host| host.to_string()).collect(),
        methods: methods.map_err(|error| error.to_string())?,
        remote_addrs: remote_addrs.transpose().map_err(|error| error.to_string())?,
        vars: vars.map_err(|error| error.to_string())?.map(Arc::new),
        condition,
        priority: rare.priority,
        order: (object.written.created_index << CONTRACT_ORDER_BITS)
            | u64::from(rare.template_order.unwrap_or(0)),
    })
    .map_err(|error| error.to_string())
}

/// The priority in the route's label, else in its service's.
fn priority(written: &WrittenRoute, service: Option<&Service>) -> Priority {
    let own = written.rare().labels.get(PRIORITY_LABEL);
    let label = own.or_else(|| service?.labels.get(PRIORITY_LABEL));
    Priority::from_label(label.map(|value| &**value))
}

/// The contract's seconds as milliseconds. Less than one millisecond counts as one, because 0 means without
/// limit.
pub(super) fn timeouts(timeout: &Timeout) -> AttemptTimeouts {
    let ms = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(1);
    AttemptTimeouts {
        connect_ms: ms(timeout.connect),
        send_ms: ms(timeout.send),
        read_ms: ms(timeout.read),
        // APISIX applies its read timeout to a tunnel as to any response.
        tunnel_idle_ms: ms(timeout.read),
    }
}
