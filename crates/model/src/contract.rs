//! The routes of a contract: each operation of its document is one, with a route beside each path for other
//! methods and one for paths that the document does not have. It reads no request.

mod paths;
mod route_plugins;
mod security;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contract::{ContractDocument, ContractOperation, DocumentFault};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::catalog::PluginCatalog;
use crate::check::plugins_of;
use crate::resource::{
    Contract, ContractChecks, ContractMocks, Method, OneOrMany, OperationRules, PassedHeaders, Plugin,
    Plugins, Route, RouteRare, Timeout, UnknownOperations,
};
use crate::{Id, ObjectKey, ObjectKind, ObjectRefusal};

/// The plugin of the routes of contracts: it checks a request by its operation, answers other methods, and
/// shows the document.
pub const CONTRACT_PLUGIN: &str = "contract";
/// The field by which its configuration names the contract.
pub const CONTRACT_ID_FIELD: &str = "contract_id";

/// The routes of a contract.
#[derive(Debug, Default)]
pub struct ContractRoutes {
    /// The document; none while the contract is closed because it is faulty.
    pub document: Option<Arc<ContractDocument>>,
    /// The routes, in the order in which equal paths are tried.
    pub routes: Box<[ContractRoute]>,
    /// The plugins that all routes share: those of the contract, and what its paths need.
    pub shared: Plugins,
    /// All plugins that stand in the contract or are made of it, those of single operations included.
    pub all_plugins: Plugins,
}

/// One route of a contract.
#[derive(Debug)]
pub struct ContractRoute {
    /// Its key: `contract/pets/getPet`. No route that a user writes has a slash in its id.
    pub key: ObjectKey,
    /// The route.
    pub route: Route,
}

/// Makes the routes of the contract under `key`.
///
/// # Errors
/// The first fault of the document with its line, or all faults of plugins in it.
pub(crate) fn expand(
    catalog: &PluginCatalog,
    key: &ObjectKey,
    contract: &Contract,
) -> Result<ContractRoutes, ObjectRefusal> {
    let document = ContractDocument::read(&contract.content).map_err(|fault| in_content(&fault))?;
    let document = Arc::new(document);
    if let Some(Err(fault)) = catalog.check_contract(&document) {
        return Err(in_content(&fault));
    }
    Expansion::new(catalog, key, contract, &document)?.finish()
}

/// The closed form of a contract: one route for all paths below its base path.
pub(crate) fn closed_routes(key: &ObjectKey, contract: &Contract) -> Option<ContractRoutes> {
    let base = contract.base_path.as_deref().unwrap_or_default();
    if base.is_empty() && contract.hosts.is_empty() {
        return None;
    }
    let rare = RouteRare {
        hosts: lower(&contract.hosts),
        priority: contract.priority,
        is_disabled: !contract.status,
        ..RouteRare::default()
    };
    let uris = OneOrMany::Many(below(base));
    let service_id = contract.service_id.clone();
    let route = ContractRoute {
        key: route_key(key, "closed"),
        route: Route::of_contract(uris, None, service_id, rare),
    };
    Some(ContractRoutes { routes: [route].into(), ..ContractRoutes::default() })
}

/// The base path and all paths below it.
fn below(base: &str) -> Box<[Box<str>]> {
    let all: Box<str> = format!("{base}/*").into();
    if base.is_empty() { [all].into() } else { [base.into(), all].into() }
}

fn lower(hosts: &[Box<str>]) -> Box<[Box<str>]> {
    hosts.iter().map(|host| host.to_ascii_lowercase().into()).collect()
}

/// A fault of the document as one of the field that holds it.
fn in_content(fault: &DocumentFault) -> ObjectRefusal {
    ObjectRefusal::single(None, "/content", format!("the document is faulty: {fault}"))
}

/// The key of a route of the contract.
fn route_key(contract: &ObjectKey, name: &str) -> ObjectKey {
    let id = format!("{CONTRACT_PLUGIN}/{}/{name}", contract.id);
    ObjectKey { kind: ObjectKind::Route, id: id.into() }
}

/// The work on one contract.
struct Expansion<'c> {
    catalog: &'c PluginCatalog,
    key: &'c ObjectKey,
    contract: &'c Contract,
    document: &'c Arc<ContractDocument>,
    operations: Vec<ContractOperation<'c>>,
    /// In front of the paths of the document.
    base: &'c str,
    shared: Plugins,
    all_plugins: Vec<Plugin>,
    /// The plugins that authenticate callers of operations, each with one of these.
    authentication: BTreeMap<Box<str>, Box<str>>,
    routes: Vec<ContractRoute>,
}

impl<'c> Expansion<'c> {
    fn new(
        catalog: &'c PluginCatalog,
        key: &'c ObjectKey,
        contract: &'c Contract,
        document: &'c Arc<ContractDocument>,
    ) -> Result<Expansion<'c>, ObjectRefusal> {
        let operations = document.operations().map_err(|fault| in_content(&fault))?;
        let base = contract.base_path.as_deref().unwrap_or(document.server_path());
        let upstream_base = contract.upstream_base_path.as_deref().unwrap_or(document.server_path());
        let shared = route_plugins::shared_plugins(contract, base, upstream_base);
        if contract.hosts.len() * operations.len() > PAIRS_MAX {
            let reason = format!(
                "{} hosts with {} operations are more than {PAIRS_MAX} pairs; write several contracts",
                contract.hosts.len(),
                operations.len()
            );
            return Err(ObjectRefusal::single(None, "/hosts", reason));
        }
        let known: BTreeSet<&str> = operations.iter().map(|operation| &*operation.id).collect();
        for name in contract.operations.keys() {
            if !known.contains(&**name) {
                let reason = unknown_operation(name, &known);
                return Err(ObjectRefusal::single(None, "/operations", reason));
            }
        }
        let all_plugins = shared.iter().cloned().collect();
        Ok(Expansion {
            catalog,
            key,
            contract,
            document,
            operations,
            base,
            shared,
            all_plugins,
            authentication: BTreeMap::new(),
            routes: Vec::new(),
        })
    }

    fn finish(mut self) -> Result<ContractRoutes, ObjectRefusal> {
        let operations = std::mem::take(&mut self.operations);
        let by_path = paths::in_order_of_matching(&operations);
        for (path, of_path) in &by_path {
            for operation in of_path {
                self.add_operation(operation, of_path)?;
            }
            self.add_other_methods(path, of_path);
        }
        self.add_docs();
        self.add_unknown()?;
        let Expansion { document, routes, shared, all_plugins, .. } = self;
        Ok(ContractRoutes {
            document: Some(document.clone()),
            routes: routes.into(),
            shared,
            all_plugins: Plugins::new(all_plugins),
        })
    }

    /// The route of an operation. That of GET serves HEAD, too, where the document does not (RFC 9110
    /// section 9.3.2).
    fn add_operation(
        &mut self,
        operation: &ContractOperation<'_>,
        of_path: &[&ContractOperation<'_>],
    ) -> Result<(), ObjectRefusal> {
        let none = OperationRules::default();
        let rules = self.contract.operations.get(&operation.id).unwrap_or(&none);
        let in_document = |fault: DocumentFault| in_content(&fault);
        let mut plugins = match self.auth_in_rules(operation, rules).map_err(in_document)? {
            Some(auth) => auth,
            None => security::security_plugins(self.document, operation, &self.contract.security)
                .map_err(in_document)?,
        };
        for plugin in &plugins {
            self.authentication.entry(plugin.name.clone()).or_insert_with(|| operation.id.clone());
        }
        for written in [self.written_plugins(operation)?, rules.plugins.clone()] {
            plugins.retain(|plugin| written.get(&plugin.name).is_none());
            plugins.extend(written.iter().cloned());
        }
        self.all_plugins.extend(plugins.iter().cloned());
        plugins.push(self.check_plugin(operation, rules));
        let mut methods = vec![method(operation.method)];
        if operation.method == "GET" && of_path.iter().all(|other| other.method != "HEAD") {
            methods.push(Method::Head);
        }
        let timeout = match rules.timeout {
            Some(timeout) => Some(timeout),
            None => self.written_timeout(operation)?.or(self.contract.timeout),
        };
        let summary = operation.written.get("summary").and_then(Value::as_str);
        let rare = RouteRare {
            methods: methods.into(),
            timeout,
            name: summary.map(|summary| summary.chars().take(NAME_CHARACTERS_MAX).collect::<String>().into()),
            plugins: Plugins::new(plugins),
            ..self.rare()
        };
        let upstream_id = match &rules.upstream_id {
            Some(id) => Some(id.clone()),
            None => self.written_upstream(operation)?.or_else(|| self.contract.upstream_id.clone()),
        };
        self.add(&operation.id, self.full_path(operation.path), upstream_id, rare);
        Ok(())
    }

    /// The route of a path for methods that it does not have: OPTIONS tells the others, which are answered
    /// 405.
    fn add_other_methods(&mut self, path: &str, of_path: &[&ContractOperation<'_>]) {
        let mut allow: BTreeSet<&str> = of_path.iter().map(|operation| operation.method).collect();
        if allow.contains("GET") {
            allow.insert("HEAD");
        }
        allow.insert("OPTIONS");
        let config = json!({ CONTRACT_ID_FIELD: &*self.key.id, "allow": allow });
        let plugin = Plugin { name: CONTRACT_PLUGIN.into(), config };
        let rare = RouteRare { plugins: Plugins::new(vec![plugin]), ..self.rare() };
        self.add(&format!("other-methods{path}"), self.full_path(path), None, rare);
    }

    fn add_docs(&mut self) {
        let Some(docs) = &self.contract.docs else { return };
        let config = json!({ CONTRACT_ID_FIELD: &*self.key.id, "docs": docs.path, "base_path": self.base });
        let plugin = Plugin { name: CONTRACT_PLUGIN.into(), config };
        let rare = RouteRare { plugins: Plugins::new(vec![plugin]), ..self.rare() };
        for (name, path) in
            [("docs", docs.path.to_string()), ("docs-document", format!("{}/openapi.json", docs.path))]
        {
            self.add(name, path, None, rare.clone());
        }
    }

    /// The route of paths that the document does not have. Where nothing tells the contract's paths from
    /// those of others, the gateway's own 404 is the answer.
    ///
    /// # Errors
    /// Requests would pass to nodes by another spelling of a path without the authentication of its
    /// operation.
    fn add_unknown(&mut self) -> Result<(), ObjectRefusal> {
        let passes = self.contract.unknown == UnknownOperations::Pass;
        if self.base.is_empty() && self.contract.hosts.is_empty() && !passes {
            return Ok(());
        }
        let is_for_all = |name: &str| self.contract.plugins.get(name).is_some();
        if passes
            && let Some((plugin, operation)) = self.authentication.iter().find(|(name, _)| !is_for_all(name))
        {
            let reason = format!(
                "operation {operation:?} is behind plugin {plugin}, and other paths would pass without it; write \
                 `unknown: reject`, or the plugin in `plugins` of the contract"
            );
            return Err(ObjectRefusal::single(None, "/unknown", reason));
        }
        let mut plugins = Vec::new();
        if !passes {
            let config = json!({ CONTRACT_ID_FIELD: &*self.key.id, "unknown": true });
            plugins.push(Plugin { name: CONTRACT_PLUGIN.into(), config });
        }
        let rare = RouteRare {
            plugins: Plugins::new(plugins),
            template_order: None,
            timeout: self.contract.timeout,
            ..self.rare()
        };
        let route = Route::of_contract(
            OneOrMany::Many(below(self.base)),
            self.contract.upstream_id.clone(),
            self.contract.service_id.clone(),
            rare,
        );
        self.routes.push(ContractRoute { key: route_key(self.key, "unknown"), route });
        Ok(())
    }

    /// The fields that all routes have; their order is the one in which they are added.
    fn rare(&self) -> RouteRare {
        RouteRare {
            hosts: lower(&self.contract.hosts),
            priority: self.contract.priority,
            is_disabled: !self.contract.status,
            template_order: u32::try_from(self.routes.len()).ok(),
            ..RouteRare::default()
        }
    }

    fn add(&mut self, name: &str, path: String, upstream_id: Option<Id>, rare: RouteRare) {
        let uris = OneOrMany::One(path.into());
        let route = Route::of_contract(uris, upstream_id, self.contract.service_id.clone(), rare);
        self.routes.push(ContractRoute { key: route_key(self.key, name), route });
    }

    fn full_path(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// The plugin that checks requests of an operation.
    fn check_plugin(&self, operation: &ContractOperation<'_>, rules: &OperationRules) -> Plugin {
        let mut config = json!({ CONTRACT_ID_FIELD: &*self.key.id, "operation": operation.id });
        if !self.base.is_empty() {
            config["base_path"] = self.base.into();
        }
        let request = rules.request.unwrap_or(self.contract.request);
        if request != ContractChecks::Enforce {
            config["request"] = request.as_str().into();
        }
        let response = rules.response.unwrap_or(self.contract.response);
        if response != ContractChecks::Off {
            config["response"] = response.as_str().into();
        }
        if self.contract.headers == PassedHeaders::Declared {
            config["headers"] = "declared".into();
        }
        if rules.mock.unwrap_or(self.contract.mock) == ContractMocks::Always {
            config["mock"] = true.into();
        }
        Plugin { name: CONTRACT_PLUGIN.into(), config }
    }

    /// The authentication that the contract object or `x-weir-auth` writes in place of that of the document.
    fn auth_in_rules(
        &self,
        operation: &ContractOperation<'_>,
        rules: &OperationRules,
    ) -> Result<Option<Vec<Plugin>>, DocumentFault> {
        if let Some(auth) = &rules.auth {
            return Ok(Some(auth.iter().cloned().collect()));
        }
        let Some(written) = operation.extension(self.document, "x-weir-auth") else { return Ok(None) };
        let plugins = Plugins::deserialize(written).map_err(|_| {
            self.document
                .fault(&operation.place, "x-weir-auth is an object of plugins by name, `{}` for none")
        })?;
        self.check_written(&operation.place, written)?;
        Ok(Some(plugins.iter().cloned().collect()))
    }

    /// The plugins of `x-weir-plugins`.
    fn written_plugins(&self, operation: &ContractOperation<'_>) -> Result<Plugins, ObjectRefusal> {
        let Some(written) = operation.extension(self.document, "x-weir-plugins") else {
            return Ok(Plugins::default());
        };
        let fault =
            || self.document.fault(&operation.place, "x-weir-plugins is an object of plugins by name");
        let plugins = Plugins::deserialize(written).map_err(|_| in_content(&fault()))?;
        self.check_written(&operation.place, written).map_err(|fault| in_content(&fault))?;
        Ok(plugins)
    }

    fn check_written(&self, place: &str, plugins: &Value) -> Result<(), DocumentFault> {
        plugins_of(self.catalog, plugins).map_err(|reason| self.document.fault(place, reason))
    }

    fn written_timeout(&self, operation: &ContractOperation<'_>) -> Result<Option<Timeout>, ObjectRefusal> {
        let Some(written) = operation.extension(self.document, "x-weir-timeout") else { return Ok(None) };
        // One number is the limit of each step.
        let each = written.as_f64().map(|s| json!({ "connect": s, "send": s, "read": s }));
        let timeout = Timeout::deserialize(each.as_ref().unwrap_or(written)).ok();
        let is_good = |timeout: &Timeout| {
            !(timeout.connect.is_zero() || timeout.send.is_zero() || timeout.read.is_zero())
        };
        timeout.filter(is_good).map(Some).ok_or_else(|| {
            let reason =
                "x-weir-timeout is a number of seconds above 0, or an object with connect, send and read";
            in_content(&self.document.fault(&operation.place, reason))
        })
    }

    fn written_upstream(&self, operation: &ContractOperation<'_>) -> Result<Option<Id>, ObjectRefusal> {
        let Some(written) = operation.extension(self.document, "x-weir-upstream") else { return Ok(None) };
        Id::deserialize(written).map(Some).map_err(|_| {
            in_content(&self.document.fault(&operation.place, "x-weir-upstream is the id of an upstream"))
        })
    }
}

impl ContractRoutes {
    /// The upstreams that routes name.
    pub(crate) fn upstream_ids(&self) -> BTreeSet<&Id> {
        self.routes.iter().filter_map(|route| route.route.upstream_id.as_ref()).collect()
    }

    /// The routes by their ids.
    #[must_use]
    pub fn by_id(&self) -> BTreeMap<&str, &Route> {
        self.routes.iter().map(|route| (&*route.key.id, &route.route)).collect()
    }
}

fn method(name: &str) -> Method {
    Method::deserialize(Value::from(name)).unwrap_or(Method::Get)
}

fn unknown_operation(name: &str, known: &BTreeSet<&str>) -> String {
    let near = known.iter().find(|other| other.eq_ignore_ascii_case(name));
    match near {
        Some(near) => format!("the document has no operation {name:?}; did you mean {near:?}?"),
        None => {
            let some: Vec<&str> = known.iter().take(NAMES_LISTED).copied().collect();
            format!("the document has no operation {name:?}; it has {}, ...", some.join(", "))
        }
    }
}

/// Pairs of a host and an operation: each operation is up to three routes, and each of them has all hosts.
const PAIRS_MAX: usize = 100_000;
/// Operations that a message lists.
const NAMES_LISTED: usize = 5;
/// Characters of the name of a route, as its schema allows.
const NAME_CHARACTERS_MAX: usize = 100;

#[cfg(test)]
mod tests;
