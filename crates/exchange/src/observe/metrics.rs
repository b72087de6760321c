//! Counters of requests by route, consumer and node. Each worker writes its own with plain loads and stores;
//! a scrape sums them up on another thread. Series are found by number on the hot path and by label when
//! first used; their count is bounded, and those of routes that are gone are given up.

use parking_lot::Mutex;
use std::cell::RefCell;
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stdx::hash::FastMap;

use super::exemplars::Exemplars;
use super::extra_labels::ExtraLabels;
use super::histogram::{Histogram, bump};
use super::labels::{LabelBy, LabelPolicy, RequestLabels, ResponseSource};
use crate::exchange::Exchange;

/// Series a worker keeps; beyond it requests count in one series labelled `other`, so that invented consumers
/// or nodes make neither memory nor a scrape grow.
const SERIES_MAX: usize = 20_000;
/// Series a worker keeps with values of added labels; beyond it these values are left out, so that clients
/// that invent values do not take the series of routes and consumers.
const EXTRA_SERIES_MAX: usize = SERIES_MAX / 2;
/// Distinct statuses, by source of the response, a series keeps apart; the rest counts as the last of them,
/// which standard codes never reach.
const STATUSES_MAX: usize = 24;

/// The counters of one series in one worker.
#[derive(Debug, Default)]
pub struct RequestSeries {
    /// Its labels.
    pub labels: RequestLabels,
    /// The id of the route, whatever its label says; with the route's end the series ends.
    route_id: Box<str>,
    statuses: [(AtomicU64, AtomicU64); STATUSES_MAX],
    /// From the first byte of the request to the last of the response.
    pub request: Histogram,
    /// Traces of requests in [`RequestSeries::request`].
    pub exemplars: Exemplars,
    /// The part spent waiting for nodes.
    pub upstream: Histogram,
    /// The rest, spent here; without what the client was waited for.
    pub gateway: Histogram,
    /// Bytes received from clients.
    pub ingress_bytes: AtomicU64,
    /// Bytes sent to clients.
    pub egress_bytes: AtomicU64,
}

impl RequestSeries {
    fn record(&self, exchange: &Exchange) {
        let status = packed(exchange.status(), source(exchange));
        let slot = self.statuses.iter().position(
            |(code, _)| matches!(code.load(Ordering::Relaxed), code if code == status || code == 0),
        );
        let (code, count) = &self.statuses[slot.unwrap_or(STATUSES_MAX - 1)];
        if code.load(Ordering::Relaxed) == 0 {
            code.store(status, Ordering::Relaxed);
        }
        bump(count, 1);
        let times = &exchange.times;
        let request_us = times.total_ns() / 1_000;
        self.request.record(request_us);
        self.exemplars.note(exchange, request_us);
        if times.upstream_started_ns != 0 {
            self.upstream.record(times.upstream_ns() / 1_000);
        }
        self.gateway.record(times.gateway_ns() / 1_000);
        bump(&self.ingress_bytes, exchange.stats.request_bytes);
        bump(&self.egress_bytes, exchange.stats.response_bytes);
    }

    /// The statuses counted by the source of the response, with their counts.
    pub fn statuses(&self) -> impl Iterator<Item = (u16, ResponseSource, u64)> + '_ {
        let load = |(code, count): &(AtomicU64, AtomicU64)| {
            (code.load(Ordering::Relaxed), count.load(Ordering::Relaxed))
        };
        let slots = self.statuses.iter().map(load).take_while(|(code, _)| *code != 0);
        slots.map(|(code, count)| (code as u16, SOURCES[(code >> SOURCE_SHIFT) as usize - 1], count))
    }
}

/// A status and the source of its response in one number, which is never 0.
fn packed(status: u16, source: ResponseSource) -> u64 {
    (source as u64 + 1) << SOURCE_SHIFT | u64::from(status)
}

/// The side that made the response.
pub fn source(exchange: &Exchange) -> ResponseSource {
    match (exchange.stats.answered_locally, exchange.attempts.is_empty()) {
        (false, false) => ResponseSource::Upstream,
        (true, false) if exchange.failure.is_some() => ResponseSource::Proxy,
        (true, false) => ResponseSource::Upstream,
        (_, true) => ResponseSource::Gateway,
    }
}

const SOURCE_SHIFT: u32 = 16;
/// In the order of their numbers.
const SOURCES: [ResponseSource; 3] =
    [ResponseSource::Gateway, ResponseSource::Proxy, ResponseSource::Upstream];

/// The series of one worker, as a scrape sees them.
pub type SharedSeries = Arc<Mutex<Vec<Arc<RequestSeries>>>>;

/// The series of one worker, as the worker sees them.
#[derive(Default)]
pub struct WorkerMetrics {
    shared: SharedSeries,
    local: RefCell<Local>,
}

#[derive(Default)]
struct Local {
    /// By numbers that are valid within one generation.
    by_key: FastMap<SeriesKey, Arc<RequestSeries>>,
    by_labels: FastMap<RequestLabels, Arc<RequestSeries>>,
    /// How many of them have values of added labels.
    extra_series: usize,
    /// For values of added labels.
    buffer: Vec<u8>,
}

impl Local {
    /// A number for the values of added labels. Its seed is secret, so that a client cannot choose values
    /// that collide.
    fn key_of(&mut self, extra: &ExtraLabels, exchange: &Exchange) -> u64 {
        extra.render(exchange, &mut self.buffer);
        self.by_key.hasher().hash_one(&*self.buffer)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct SeriesKey {
    policy: LabelPolicy,
    route: u32,
    consumer: usize,
    endpoint: u64,
    /// The number of the values of added labels; 0 without any.
    extra: u64,
}

impl WorkerMetrics {
    /// The end that a scrape reads.
    pub fn shared(&self) -> SharedSeries {
        self.shared.clone()
    }

    /// Counts an ended exchange; `extra` are labels that a user added.
    pub fn record(&self, exchange: &Exchange, policy: LabelPolicy, extra: Option<&ExtraLabels>) {
        let mut local = self.local.borrow_mut();
        let last = exchange.attempts.last();
        let key = SeriesKey {
            policy,
            route: exchange.decision.route.unwrap_or(u32::MAX),
            consumer: exchange.consumer().map_or(0, |consumer| Arc::as_ptr(consumer) as usize),
            endpoint: last.map_or(u64::MAX, |attempt| attempt.endpoint_id),
            extra: extra.map_or(0, |extra| local.key_of(extra, exchange)),
        };
        if let Some(series) = local.by_key.get(&key) {
            return series.record(exchange);
        }
        let mut labels = labels_of(exchange, policy, last.map(|attempt| attempt.address));
        if let Some(extra) = extra {
            labels.extra = extra.values(exchange);
        }
        let series = self.series(&mut local, labels, exchange.route().map_or("", |route| &route.id));
        series.record(exchange);
        // Values that were left out may be invented, and must not take all numbers either.
        let is_left_out = key.extra != 0 && series.labels.extra.is_blank();
        if local.by_key.len() < if is_left_out { EXTRA_SERIES_MAX } else { SERIES_MAX } {
            local.by_key.insert(key, series);
        }
    }

    fn series(&self, local: &mut Local, mut labels: RequestLabels, route_id: &str) -> Arc<RequestSeries> {
        if let Some(series) = local.by_labels.get(&labels) {
            return series.clone();
        }
        if local.extra_series >= EXTRA_SERIES_MAX && !labels.extra.is_blank() {
            labels.extra.blank();
            return self.series(local, labels, route_id);
        }
        let full = local.by_labels.len() >= SERIES_MAX;
        let (labels, route_id) = if full {
            (
                RequestLabels {
                    route: "other".into(),
                    disabled: labels.disabled,
                    ..RequestLabels::default()
                },
                "",
            )
        } else {
            (labels, route_id)
        };
        let shared = &self.shared;
        let extra_series = &mut local.extra_series;
        let make = || {
            *extra_series += usize::from(!labels.extra.is_blank());
            let series = Arc::new(RequestSeries {
                labels: labels.clone(),
                route_id: route_id.into(),
                ..RequestSeries::default()
            });
            shared.lock().push(series.clone());
            series
        };
        local.by_labels.entry(labels.clone()).or_insert_with(make).clone()
    }

    /// Numbers may mean something else from now on.
    pub fn generation_changed(&self) {
        self.local.borrow_mut().by_key.clear();
    }

    /// Gives up the series of routes that no longer exist.
    pub fn retain_routes(&self, exists: impl Fn(&str) -> bool) {
        let mut local = self.local.borrow_mut();
        let gone = |series: &RequestSeries| !series.route_id.is_empty() && !exists(&series.route_id);
        let before = local.by_labels.len();
        local.by_labels.retain(|_, series| !gone(series));
        if local.by_labels.len() != before {
            local.extra_series = local.by_labels.keys().filter(|labels| !labels.extra.is_blank()).count();
            local.by_key.clear();
            self.shared.lock().retain(|series| !gone(series));
        }
    }
}

fn labels_of(exchange: &Exchange, policy: LabelPolicy, node: Option<SocketAddr>) -> RequestLabels {
    let mut labels = RequestLabels { disabled: policy.disabled, ..RequestLabels::default() };
    let choose = |id: &Arc<str>, name: &Option<Arc<str>>| -> Box<str> {
        let name = name.as_ref().filter(|_| policy.by == LabelBy::Name);
        (&**name.unwrap_or(id)).into()
    };
    if let Some(route) = exchange.route() {
        labels.route = choose(&route.id, &route.name);
        labels.matched_uri = exchange.matched_uri().unwrap_or_default().into();
        labels.matched_host = route.rule.hosts().next().unwrap_or_default().into();
        labels.service =
            route.service.as_ref().map(|service| choose(&service.id, &service.name)).unwrap_or_default();
    }
    labels.consumer = exchange.consumer().map_or("", |consumer| &consumer.username).into();
    labels.node = node.map(|node| node.ip().to_string()).unwrap_or_default().into();
    labels.without(policy.disabled.everywhere())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invented_label_values_keep_routes_apart() {
        let metrics = WorkerMetrics::default();
        let mut local = Local::default();
        let mut series = |route: &str, value: usize| {
            let mut labels = RequestLabels { route: route.into(), ..RequestLabels::default() };
            labels.extra.http_status = [("tenant".into(), value.to_string().into())].into();
            metrics.series(&mut local, labels, route)
        };
        for value in 0..EXTRA_SERIES_MAX {
            assert_eq!(*series("a", value).labels.extra.http_status[0].1, *value.to_string());
        }
        for route in ["a", "b"] {
            let found = series(route, EXTRA_SERIES_MAX);
            assert_eq!((&*found.labels.route, &*found.labels.extra.http_status[0].1), (route, ""));
        }
        assert_eq!(metrics.shared().lock().len(), EXTRA_SERIES_MAX + 2);
        metrics.local.replace(local);
        metrics.retain_routes(|route| route == "b");
        let mut local = metrics.local.borrow_mut();
        assert_eq!(local.extra_series, 0);
        let labels = local.by_labels.keys().next().unwrap().clone();
        assert_eq!(&*metrics.series(&mut local, labels, "b").labels.route, "b");
    }
}
