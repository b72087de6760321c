//! The traffic of objects, from the rates that the gateway measures for routes, consumers and endpoints.

use std::collections::HashMap;
use std::sync::Arc;

use model::report::{Breakdown, Traffic, TrafficRate};
use model::{ObjectKey, ObjectKind};
use serde_json::{Value, json};

use crate::route_target::{self, RouteTarget};
use crate::view::View;

/// The traffic of one object in the last minute.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Figures {
    /// Requests a second.
    pub(crate) rps: f64,
    /// The share of statuses of 500 to 599, in percent; none without requests.
    pub(crate) p5xx: Option<f64>,
    /// The 99th percentile, in microseconds; none where it is not measured.
    pub(crate) p99_us: Option<u64>,
}

/// The traffic of the objects of one kind, by id.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    /// None: nothing is measured for this kind.
    by_id: Option<HashMap<Arc<str>, Figures>>,
}

/// The traffic of endpoints. One that several upstreams have is told apart, because each is shown with its
/// own part.
#[derive(Debug, Default)]
pub(crate) struct EndpointRates {
    /// By upstream and address; none: nothing is measured.
    by_upstream: Option<HashMap<Arc<str>, UpstreamEndpoints>>,
}

/// The endpoints of one upstream, by address.
type UpstreamEndpoints = HashMap<Arc<str>, EndpointTraffic>;

/// The traffic of one endpoint of one upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct EndpointTraffic {
    pub(crate) figures: Figures,
    /// The cause of the last failed attempt, and its time in milliseconds since 1970.
    pub(crate) last_failure: Option<(&'static str, u64)>,
}

impl EndpointRates {
    /// The traffic of the last minute.
    pub(crate) fn of(traffic: Option<&dyn Traffic>) -> EndpointRates {
        let Some(traffic) = traffic else { return EndpointRates::default() };
        let mut by_upstream: HashMap<Arc<str>, UpstreamEndpoints> = HashMap::new();
        for row in traffic.top(Breakdown::Endpoints, WINDOW_S, usize::MAX).rows {
            let Some(upstream) = row.upstream else { continue };
            let p5xx = (row.requests > 0.0).then_some(row.server_errors);
            let figures = Figures { rps: row.requests, p5xx, p99_us: row.p99_us };
            let endpoint = EndpointTraffic { figures, last_failure: row.last_failure };
            by_upstream.entry(upstream).or_default().insert(row.id, endpoint);
        }
        EndpointRates { by_upstream: Some(by_upstream) }
    }

    /// The traffic of the endpoint at `address` of an upstream, such as `/upstreams/1`: zero where none was
    /// seen, none where nothing is measured.
    pub(crate) fn get(&self, upstream: &str, address: &str) -> Option<EndpointTraffic> {
        let of_upstream = self.by_upstream.as_ref()?.get(upstream);
        Some(of_upstream.and_then(|endpoints| endpoints.get(address)).copied().unwrap_or_default())
    }
}

impl From<&TrafficRate> for Figures {
    fn from(rate: &TrafficRate) -> Figures {
        let p5xx = (rate.requests > 0.0).then_some(rate.server_errors);
        Figures { rps: rate.requests, p5xx, p99_us: rate.p99_us }
    }
}

impl Rates {
    /// The traffic of the objects of `kind`; of services and upstreams it is the sum over their routes.
    pub(crate) fn of(traffic: Option<&dyn Traffic>, view: &View, kind: ObjectKind) -> Rates {
        let Some(traffic) = traffic else { return Rates::default() };
        let by_id = match kind {
            ObjectKind::Route => direct(&traffic.rates(Breakdown::Routes)),
            ObjectKind::Consumer => direct(&traffic.rates(Breakdown::Consumers)),
            ObjectKind::Service | ObjectKind::Upstream => sums(&traffic.rates(Breakdown::Routes), view, kind),
            _ => return Rates::default(),
        };
        Rates { by_id: Some(by_id) }
    }

    /// The traffic of one object: zero where none was seen, none where nothing is measured.
    pub(crate) fn get(&self, id: &str) -> Option<Figures> {
        Some(self.by_id.as_ref()?.get(id).copied().unwrap_or_default())
    }
}

fn direct(rates: &[TrafficRate]) -> HashMap<Arc<str>, Figures> {
    rates.iter().map(|rate| (Arc::clone(&rate.id), rate.into())).collect()
}

fn sums(rates: &[TrafficRate], view: &View, kind: ObjectKind) -> HashMap<Arc<str>, Figures> {
    let mut sums: HashMap<Arc<str>, (f64, f64)> = HashMap::new();
    for rate in rates {
        let key = ObjectKey { kind: ObjectKind::Route, id: Arc::clone(&rate.id) };
        let Some(route) = view.snapshot.get(&key) else { continue };
        let id = match kind {
            ObjectKind::Service => route_target::service_of(route).map(|key| key.id),
            _ => match route_target::find_route_target(&view.snapshot, route) {
                Some(RouteTarget::Upstream(key)) => Some(key.id),
                _ => None,
            },
        };
        if let Some(id) = id {
            let sum = sums.entry(id).or_default();
            sum.0 += rate.requests;
            sum.1 += rate.requests * rate.server_errors;
        }
    }
    let figures =
        |(rps, errors): (f64, f64)| Figures { rps, p5xx: (rps > 0.0).then(|| errors / rps), p99_us: None };
    sums.into_iter().map(|(id, sum)| (id, figures(sum))).collect()
}

/// The time that rates are over, in seconds; as long as the gateway keeps them.
const WINDOW_S: u64 = 60;

/// A figure with three decimals, because more of them say nothing and make answers long.
pub(crate) fn round_figure(figure: Option<f64>) -> Value {
    match figure {
        Some(figure) if figure.is_finite() => json!((figure * 1_000.0).round() / 1_000.0),
        _ => Value::Null,
    }
}

/// Adds `rps`, `p5xx` and `p99_us`; each is null where it is not known.
pub(crate) fn add_figures(described: &mut Value, figures: Option<Figures>) {
    described["rps"] = round_figure(figures.map(|figures| figures.rps));
    described["p5xx"] = round_figure(figures.and_then(|figures| figures.p5xx));
    described["p99_us"] = figures.and_then(|figures| figures.p99_us).map_or(Value::Null, Value::from);
}
