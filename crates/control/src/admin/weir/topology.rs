//! `weir/topology?focus=KIND/ID`: the routes, services, upstreams and endpoints around one object, with their
//! state and traffic. The rest beyond the limit is counted.

mod graph;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use model::report::NodeReport;
use model::{ObjectKey, ObjectKind};
use serde_json::Value;

use crate::admin::call::{AdminParts, Call};
use crate::references;
use crate::route_target::{self, RouteTarget};
use crate::serve::RefusalResponse;
use crate::serve::list_query::{limit, parse_object_key};
use crate::serve::query::segments;
use crate::serve::respond::{self, refuse_request};
use crate::summary::{EndpointRates, ListState, Rates, Summary};
use crate::view::View;

use graph::{Graph, GraphColumn};

/// Answers `weir/topology?focus=KIND/ID&limit=`.
pub(super) async fn answer_topology(parts: &Arc<AdminParts>, call: &Call) -> Response<Bytes> {
    let found = async {
        let focus = focus(call.query.get("focus").unwrap_or_default())?;
        let limit = limit(&call.query, LIMIT_DEFAULT, LIMIT_MAX)?;
        let parts = Arc::clone(parts);
        respond::blocking(move || draw(&parts, &focus, limit)).await
    };
    let found: Result<Option<Value>, RefusalResponse> = found.await;
    match found {
        Ok(Some(body)) => respond::json(StatusCode::OK, &body),
        Ok(None) => respond::key_not_found(),
        Err(refusal) => *refusal,
    }
}

fn focus(text: &str) -> Result<ObjectKey, RefusalResponse> {
    let key = parse_object_key(&segments(text)).ok();
    key.filter(|key| matches!(key.kind, ObjectKind::Route | ObjectKind::Service | ObjectKind::Upstream))
        .ok_or_else(|| refuse_request("the argument focus must be routes/ID, services/ID or upstreams/ID"))
}

/// The view with what a drawing asks it for.
struct Surroundings<'p> {
    parts: &'p AdminParts,
    view: Arc<View>,
    routes: Rates,
    endpoints: EndpointRates,
    summaries: HashMap<ObjectKind, Arc<[Summary]>>,
}

/// None: there is no such object.
fn draw(parts: &AdminParts, focus: &ObjectKey, limit: usize) -> Option<Value> {
    let view = parts.view.load();
    view.written(focus)?;
    let traffic = parts.reports.traffic.as_deref();
    let around = Surroundings {
        parts,
        routes: Rates::of(traffic, &view, ObjectKind::Route),
        endpoints: EndpointRates::of(traffic),
        summaries: COLUMN_KINDS
            .into_iter()
            .map(|kind| (kind, parts.summaries.of_view(&view, kind)))
            .collect(),
        view,
    };
    let (routes, services, upstreams) = around.members(focus);
    let mut graph = Graph::new(limit);
    for upstream in &upstreams {
        around.put_upstream(&mut graph, upstream);
    }
    for service in &services {
        around.put(&mut graph, GraphColumn::Services, service);
    }
    for route in &routes {
        around.put(&mut graph, GraphColumn::Routes, route);
    }
    around.connect(&mut graph, &routes, &services);
    Some(graph.finish(focus))
}

impl Surroundings<'_> {
    /// The routes, services and upstreams that belong to the focus.
    fn members(&self, focus: &ObjectKey) -> (BTreeSet<ObjectKey>, BTreeSet<ObjectKey>, Vec<RouteTarget>) {
        let snapshot = &self.view.snapshot;
        let users = |key: &ObjectKey, kind: ObjectKind| {
            let users = snapshot.users_of(key).chain(snapshot.mentioned_by(key));
            users.filter(move |user| user.kind == kind).cloned().collect::<BTreeSet<ObjectKey>>()
        };
        let (mut routes, mut services) = (BTreeSet::new(), BTreeSet::new());
        match focus.kind {
            ObjectKind::Upstream => {
                services = users(focus, ObjectKind::Service);
                routes = users(focus, ObjectKind::Route);
                for service in &services {
                    routes.extend(users(service, ObjectKind::Route).into_iter().filter(|route| {
                        // A route with an upstream of its own does not use that of its service.
                        self.targets(route)
                            .iter()
                            .any(|target| *target == RouteTarget::Upstream(focus.clone()))
                    }));
                }
                return (routes, services, vec![RouteTarget::Upstream(focus.clone())]);
            }
            ObjectKind::Service => {
                services.insert(focus.clone());
                routes = users(focus, ObjectKind::Route);
            }
            _ => {
                routes.insert(focus.clone());
                services.extend(snapshot.get(focus).and_then(|route| route_target::service_of(route)));
            }
        }
        let mut upstreams = Vec::new();
        for key in routes.iter().chain(&services).take(MEMBERS_MAX) {
            for target in self.targets(key) {
                if !upstreams.contains(&target) && upstreams.len() < UPSTREAMS_MAX {
                    upstreams.push(target);
                }
            }
        }
        (routes, services, upstreams)
    }

    /// The upstream of an object, and those that its plugins name.
    fn targets(&self, key: &ObjectKey) -> Vec<RouteTarget> {
        let Some(object) = self.view.snapshot.get(key) else { return Vec::new() };
        let mut targets: Vec<RouteTarget> =
            route_target::find_route_target(&self.view.snapshot, object).into_iter().collect();
        for upstream in references::upstreams_in_plugins(object) {
            let target = RouteTarget::Upstream(upstream);
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
        targets
    }

    fn put(&self, graph: &mut Graph, column: GraphColumn, key: &ObjectKey) {
        let summary = self.summary(key);
        let rps = self.routes.get(&key.id).filter(|_| key.kind == ObjectKind::Route);
        let state = summary.map_or("unknown", |summary| state(summary.state));
        let name = summary.and_then(|summary| summary.facts.name.as_deref());
        graph.put(column, key.id.to_string(), name, state, rps);
    }

    fn put_upstream(&self, graph: &mut Graph, target: &RouteTarget) {
        let (RouteTarget::Upstream(owner) | RouteTarget::Inside(owner)) = target;
        match target {
            RouteTarget::Upstream(key) => self.put(graph, GraphColumn::Upstreams, key),
            // A route or service with its upstream inside stands for it.
            RouteTarget::Inside(_) => {
                graph.put(GraphColumn::Upstreams, upstream_id(target), Some("(here)"), "unknown", None);
            }
        }
        let upstreams = self.parts.reports.upstreams.upstreams(Some(&owner.path()));
        let Some(report) = upstreams.first() else { return };
        let id = upstream_id(target);
        for node in &report.nodes {
            let address = node.address.to_string();
            let figures = self.endpoints.get(&owner.path(), &address).map(|endpoint| endpoint.figures);
            let is_checked = node.health.is_some() || node.protection.is_some();
            let is_serving = figures.is_some_and(|figures| figures.rps > 0.0);
            let state = match node.state() {
                "usable" if is_checked || is_serving => "up",
                "usable" => "unknown",
                _ => "down",
            };
            graph.put(GraphColumn::Endpoints, address.clone(), Some(&node.host), state, None);
            graph.add_traffic(GraphColumn::Endpoints, &address, figures);
            let rps = figures.map(|figures| figures.rps);
            graph.connect((GraphColumn::Upstreams, &id, GraphColumn::Endpoints, &address), rps);
            graph.add_traffic(GraphColumn::Upstreams, &id, figures);
        }
        let mut states = report.nodes.iter().map(NodeReport::state);
        if !report.nodes.is_empty() && states.all(|state| state != "usable") {
            graph.set_state(GraphColumn::Upstreams, &id, "down");
        } else if matches!(target, RouteTarget::Inside(_)) {
            graph.set_state(GraphColumn::Upstreams, &id, "up");
        }
    }

    /// Connects routes with their services and upstreams, and services with their upstreams.
    fn connect(&self, graph: &mut Graph, routes: &BTreeSet<ObjectKey>, services: &BTreeSet<ObjectKey>) {
        let of_services: HashMap<&ObjectKey, Vec<RouteTarget>> =
            services.iter().map(|service| (service, self.targets(service))).collect();
        for (service, targets) in &of_services {
            for target in targets {
                let ends =
                    (GraphColumn::Services, &*service.id, GraphColumn::Upstreams, &*upstream_id(target));
                graph.connect(ends, None);
            }
        }
        for route in routes {
            let Some(object) = self.view.snapshot.get(route) else { continue };
            let figures = self.routes.get(&route.id);
            let service = route_target::service_of(object);
            let of_service = service.as_ref().and_then(|service| of_services.get(service));
            let targets = self.targets(route);
            // The parts of a route that divides its traffic are not known.
            let rps = figures.map(|figures| figures.rps).filter(|_| targets.len() == 1);
            if let Some(service) = &service {
                let ends = (GraphColumn::Routes, &*route.id, GraphColumn::Services, &*service.id);
                graph.connect(ends, figures.map(|figures| figures.rps));
                graph.add_traffic(GraphColumn::Services, &service.id, figures);
            }
            for target in &targets {
                let upstream = upstream_id(target);
                let (column, id) = match &service {
                    Some(service) if of_service.is_some_and(|of_service| of_service.contains(target)) => {
                        (GraphColumn::Services, &*service.id)
                    }
                    _ => (GraphColumn::Routes, &*route.id),
                };
                graph.connect((column, id, GraphColumn::Upstreams, &upstream), rps);
            }
        }
    }

    fn summary(&self, key: &ObjectKey) -> Option<&Summary> {
        let list = self.summaries.get(&key.kind)?;
        let place = list.binary_search_by(|summary| summary.key.id.cmp(&key.id)).ok()?;
        list.get(place)
    }
}

/// The id of an upstream in the graph: the id of the object, or the key of the object that it is inside.
fn upstream_id(target: &RouteTarget) -> String {
    match target {
        RouteTarget::Upstream(key) => key.id.to_string(),
        RouteTarget::Inside(key) => key.to_string(),
    }
}

fn state(state: ListState) -> &'static str {
    match state {
        ListState::InForce => "up",
        ListState::LastGood => "last_good",
        ListState::Out => "out",
        ListState::Off => "off",
    }
}

/// The kinds that have a column.
const COLUMN_KINDS: [ObjectKind; 3] = [ObjectKind::Route, ObjectKind::Service, ObjectKind::Upstream];
/// Default number of nodes: what a screen shows without scrolling.
const LIMIT_DEFAULT: usize = 40;
/// Largest number of nodes.
const LIMIT_MAX: usize = 400;
/// Upstreams in one drawing; a service with more of them names them in plugins.
const UPSTREAMS_MAX: usize = 16;
/// Routes and services of a focus that are asked for their upstreams: their texts are read for that.
const MEMBERS_MAX: usize = 1_000;
