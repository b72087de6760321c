//! Routes that are made of the services of registries (`auto_routes` of a block of `discovery`): one route
//! for each service that a registry lists. They are written objects that the reconciler lays over the
//! configuration of its source, so that they pass the same checks. It asks no registry; registries tell it
//! their lists through `Services`.

mod template;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use model::ObjectKey;
use model::discovery::ServiceKey;
use parking_lot::{Condvar, Mutex};
use serde_json::{Map, Value, json};
use stdx::prometheus_text::{header, sample};

use super::limits::{REASON_MAX_CHARS, shortened_to};
pub(super) use template::{RouteTemplate, build_auto_routes_schema};

/// The services that a registry lists, by name.
pub(super) type Names = BTreeSet<Box<str>>;

/// The automatic routes of all registries.
pub struct AutoRoutes {
    templates: BTreeMap<&'static str, RouteTemplate>,
    listings: Mutex<BTreeMap<&'static str, RegistryListing>>,
    /// Notified when a registry was heard for the first time.
    heard: Condvar,
    /// Grows with each change of a list.
    version: AtomicU64,
    /// The outcome of the last making, for views.
    made: Mutex<Made>,
}

/// The list of one registry.
#[derive(Default)]
struct RegistryListing {
    names: Arc<Names>,
    /// Whether there was an answer or a failure, or a list of an earlier run.
    is_heard: bool,
    failure: Option<String>,
}

/// Routes, and services without one.
#[derive(Default)]
struct Made {
    routes: Vec<MadeRoute>,
    /// Registry, service and reason.
    left_out: Vec<(&'static str, Box<str>, String)>,
    /// Faults that the checks found, as sentences.
    faults: Vec<String>,
}

/// One route.
struct MadeRoute {
    registry: &'static str,
    service: Box<str>,
    key: ObjectKey,
    uri: String,
}

impl AutoRoutes {
    /// The routes of the blocks that ask for some; none if no block does.
    ///
    /// # Errors
    /// A block is faulty.
    pub(super) fn new(
        blocks: impl Iterator<Item = (&'static str, Value)>,
    ) -> Result<Option<Arc<AutoRoutes>>, String> {
        let mut templates = BTreeMap::new();
        for (registry, block) in blocks {
            if let Some(block) = block.get(FIELD) {
                templates.insert(registry, RouteTemplate::read(registry, block)?);
            }
        }
        let listings = templates.keys().map(|registry| (*registry, RegistryListing::default())).collect();
        let is_some = !templates.is_empty();
        let routes = AutoRoutes {
            templates,
            listings: Mutex::new(listings),
            heard: Condvar::new(),
            version: AtomicU64::new(0),
            made: Mutex::default(),
        };
        Ok(is_some.then(|| Arc::new(routes)))
    }

    /// Namespace, group and arguments of the services to list, as a key without a service; none where the
    /// registry makes no routes.
    pub(super) fn list_of(&self, registry: &str) -> Option<ServiceKey> {
        self.templates.get(registry).map(RouteTemplate::list_of)
    }

    /// The services that a registry lists now. True if the list has changed.
    pub(super) fn listed(&self, registry: &'static str, names: Names) -> bool {
        let mut listings = self.listings.lock();
        let Some(listing) = listings.get_mut(registry) else { return false };
        if listing.failure.take().is_some() {
            tracing::info!(registry, "the services of the registry can be listed again");
        }
        let is_new = *listing.names != names;
        if is_new {
            listing.names = Arc::new(names);
            self.version.fetch_add(1, Ordering::Release);
        }
        listing.is_heard = true;
        self.heard.notify_all();
        is_new
    }

    /// A registry cannot list its services. The last list stays in force.
    pub(super) fn failed(&self, registry: &'static str, reason: &str) {
        let mut listings = self.listings.lock();
        let Some(listing) = listings.get_mut(registry) else { return };
        let reason = shortened_to(reason, REASON_MAX_CHARS);
        if listing.failure.is_none() {
            tracing::warn!(registry, %reason, "the services of a registry cannot be listed; its last list stays in force");
        }
        listing.failure = Some(reason);
        listing.is_heard = true;
        self.heard.notify_all();
    }

    /// The last list of a registry.
    pub(super) fn names(&self, registry: &str) -> Option<Arc<Names>> {
        self.listings.lock().get(registry).map(|listing| Arc::clone(&listing.names))
    }

    /// A number that differs after each change of a list.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Waits until each registry was heard, at most for `limit`, so that a start does not answer 404 for as
    /// long as registries take.
    pub fn settle(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let mut listings = self.listings.lock();
        while listings.values().any(|listing| !listing.is_heard) {
            if self.heard.wait_until(&mut listings, deadline).timed_out() {
                tracing::warn!("not every registry has listed its services yet; its routes come later");
                return;
            }
        }
    }

    /// The routes of the services that are listed now, each with its text. Of services with the same path the
    /// first has it.
    pub fn make(&self) -> Vec<(ObjectKey, Arc<str>)> {
        let listings = self.listings.lock();
        let mut made = Made::default();
        let mut texts = Vec::new();
        let mut taken: BTreeMap<(String, String), Box<str>> = BTreeMap::new();
        for (registry, template) in &self.templates {
            let names = listings.get(registry).map(|listing| Arc::clone(&listing.names)).unwrap_or_default();
            let mut count = 0;
            let included = names.iter().filter(|service| template.includes(service));
            let all = included
                .flat_map(|service| template.routes(service).into_iter().map(move |route| (service, route)));
            for (service, route) in all {
                let route = match route {
                    _ if count == ROUTES_MAX => Err(format!("there are more than {ROUTES_MAX} routes")),
                    Ok(route) => match taken.get(&(template.hosts(), route.uri.clone())) {
                        Some(other) => Err(format!("the service {other} has the path {}", route.uri)),
                        None => Ok(route),
                    },
                    Err(reason) => Err(reason),
                };
                match route {
                    Ok(template::AutoRoute { key, uri, text }) => {
                        count += 1;
                        taken.insert((template.hosts(), uri.clone()), service.clone());
                        texts.push((key.clone(), text));
                        made.routes.push(MadeRoute { registry, service: service.clone(), key, uri });
                    }
                    Err(reason) => made.left_out.push((registry, service.clone(), reason)),
                }
            }
        }
        drop(listings);
        let before = std::mem::replace(&mut *self.made.lock(), made);
        self.log(&before);
        texts
    }

    /// Logs the services that have no route from now on, and how many routes there are.
    fn log(&self, before: &Made) {
        let made = self.made.lock();
        if let Some((registry, service, reason)) = made.left_out.first()
            && made.left_out.len() != before.left_out.len()
        {
            let count = made.left_out.len();
            tracing::warn!(registry, service = &**service, reason, count, "services have no automatic route");
        }
        if made.routes.len() != before.routes.len() {
            tracing::info!(routes = made.routes.len(), "the automatic routes have changed");
        }
    }

    /// The faults that the checks found in the routes, for views.
    pub fn set_faults(&self, faults: Vec<String>) {
        let mut made = self.made.lock();
        for fault in faults.iter().filter(|fault| !made.faults.contains(fault)).take(FAULTS_MAX) {
            tracing::error!(%fault, "an automatic route is faulty");
        }
        made.faults = faults;
        made.faults.truncate(FAULTS_MAX);
    }

    /// The body of `GET /v1/weir/auto_routes`.
    pub fn shown(&self) -> Value {
        let (listings, made) = (self.listings.lock(), self.made.lock());
        let registry = |registry: &&'static str| {
            let listing = listings.get(registry);
            let routes = made.routes.iter().filter(|route| route.registry == *registry);
            let routes: Vec<Value> = routes
                .map(|route| json!({"id": route.key.own_id(), "service": route.service, "uri": route.uri}))
                .collect();
            let left_out = made.left_out.iter().filter(|(of, ..)| of == registry).take(LEFT_OUT_SHOWN_MAX);
            let left_out: Map<String, Value> = left_out
                .map(|(_, service, reason)| (service.to_string(), Value::from(reason.as_str())))
                .collect();
            let shown = json!({
                "services": listing.map_or(0, |listing| listing.names.len()),
                "failure": listing.and_then(|listing| listing.failure.clone()),
                "routes": routes,
                "left_out": left_out,
            });
            ((*registry).to_owned(), shown)
        };
        let registries: Map<String, Value> = self.templates.keys().map(registry).collect();
        json!({"registries": registries, "faults": made.faults})
    }

    /// Appends the metrics.
    pub(super) fn write_metrics(&self, text: &mut String) {
        let made = self.made.lock();
        let name = "weir_auto_routes";
        header(text, name, "gauge", "Routes that are made of the services of a registry.");
        for registry in self.templates.keys() {
            let count = made.routes.iter().filter(|route| route.registry == *registry).count();
            sample(text, name, &[("registry", registry)], count as u64);
        }
    }
}

impl std::fmt::Debug for AutoRoutes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("AutoRoutes")
    }
}

/// The field of a registry's block.
pub(super) const FIELD: &str = "auto_routes";
/// Routes for the services of one registry; services beyond, by their names, have none. Each costs some
/// kilobytes in every generation, and a registry with more services rather needs `include`.
const ROUTES_MAX: usize = 2000;
/// Services without a route that a view names for one registry.
const LEFT_OUT_SHOWN_MAX: usize = 100;
/// Faults of routes that are kept for views; the first ones usually show the cause.
const FAULTS_MAX: usize = 100;

#[cfg(test)]
mod tests;
