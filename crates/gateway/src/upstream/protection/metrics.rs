//! Writes the state of protections in the Prometheus text format. It runs on the scraper's thread and takes
//! no lock of the request path.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};

use stdx::prometheus_text::{header, sample};

use super::{NodeGuard, Protection};
use crate::upstream::Upstream;
use exchange::overload::circuit::CircuitPhase;
use net::node_state::Unusable;

/// The most upstreams in the metrics; a scrape of more would be megabytes.
const UPSTREAMS_MAX: usize = 10_000;
/// The most nodes of an upstream in the metrics.
const NODES_MAX: usize = 1_000;

/// Appends the metrics of all protected upstreams; nothing if there is none.
pub(crate) fn write_protection_metrics<'a>(upstreams: impl Iterator<Item = &'a Upstream>, text: &mut String) {
    let protected = |upstream: &'a Upstream| Some((upstream, upstream.protection.as_deref()?));
    let mut all: Vec<(&Upstream, &Protection)> =
        upstreams.filter_map(protected).take(UPSTREAMS_MAX).collect();
    if all.is_empty() {
        return;
    }
    all.sort_by(|(left, _), (right, _)| left.identity.cmp(&right.identity));
    write_nodes(&all, text);
    write_breakers(&all, text);
    write_limits(&all, text);
    write_queues(&all, text);
}

/// The identity without its slash, as in the log.
fn name(upstream: &Upstream) -> &str {
    upstream.identity.trim_start_matches('/')
}

fn write_nodes(all: &[(&Upstream, &Protection)], text: &mut String) {
    let ejecting = || all.iter().filter(|(_, protection)| protection.ejection.is_some());
    let total = "weir_upstream_ejections_total";
    header(text, total, "counter", "Nodes ejected as outliers.");
    for (upstream, protection) in ejecting() {
        let count = read(&protection.shared.counts.ejections);
        sample(text, total, &[("upstream", &name(upstream))], count);
    }
    let prevented = "weir_upstream_ejections_prevented_total";
    header(text, prevented, "counter", "Ejections that would have exceeded max_ejected_percent.");
    for (upstream, protection) in ejecting() {
        let count = read(&protection.shared.counts.ejections_prevented);
        sample(text, prevented, &[("upstream", &name(upstream))], count);
    }
    let ejected = "weir_upstream_node_ejected";
    header(text, ejected, "gauge", "1 while a node is ejected as an outlier.");
    for (upstream, _) in ejecting() {
        for node in upstream.nodes.load().nodes.iter().take(NODES_MAX) {
            let labels: [(&str, &dyn Display); 2] =
                [("upstream", &name(upstream)), ("node", &node.endpoint.address)];
            sample(text, ejected, &labels, u8::from(node.state.is(Unusable::Ejected)));
        }
    }
    let active = "weir_upstream_node_requests";
    header(text, active, "gauge", "Requests in flight at a node of a protected upstream.");
    for (upstream, _) in all {
        for node in upstream.nodes.load().nodes.iter().take(NODES_MAX) {
            let labels: [(&str, &dyn Display); 2] =
                [("upstream", &name(upstream)), ("node", &node.endpoint.address)];
            sample(text, active, &labels, NodeGuard::of(&node.state).requests.active());
        }
    }
}

fn write_breakers(all: &[(&Upstream, &Protection)], text: &mut String) {
    let breakers = || all.iter().filter(|(_, protection)| protection.breaker.is_some());
    let state = "weir_upstream_breaker_state";
    header(text, state, "gauge", "1 for the state that the circuit breaker of an upstream is in.");
    for (upstream, protection) in breakers() {
        let phase = protection.shared.breaker.phase();
        for one in [CircuitPhase::Closed, CircuitPhase::Open, CircuitPhase::HalfOpen] {
            let labels: [(&str, &dyn Display); 2] = [("upstream", &name(upstream)), ("state", &one.as_str())];
            sample(text, state, &labels, u8::from(one == phase));
        }
    }
    let openings = "weir_upstream_breaker_openings_total";
    header(text, openings, "counter", "How often the circuit breaker of an upstream opened.");
    for (upstream, protection) in breakers() {
        sample(text, openings, &[("upstream", &name(upstream))], protection.shared.breaker.openings());
    }
}

fn write_limits(all: &[(&Upstream, &Protection)], text: &mut String) {
    let active = "weir_upstream_requests";
    header(text, active, "gauge", "Requests in flight at a protected upstream.");
    for (upstream, protection) in all {
        sample(text, active, &[("upstream", &name(upstream))], protection.shared.requests.active());
    }
    let refused = "weir_upstream_refused_total";
    header(text, refused, "counter", "Requests that the protection of an upstream refused, by the reason.");
    for (upstream, protection) in all {
        let counts = &protection.shared.counts;
        let reasons = [
            ("circuit_open", &counts.refused_by_breaker),
            ("max_requests", &counts.refused_by_requests),
            ("max_requests_per_node", &counts.refused_by_node_requests),
            ("max_connections_per_node", &counts.refused_by_node_connections),
            ("queue_full", &counts.refused_by_queue),
            ("queue_timeout", &counts.queue_timeouts),
        ];
        for (reason, count) in reasons {
            let labels: [(&str, &dyn Display); 2] = [("upstream", &name(upstream)), ("reason", &reason)];
            sample(text, refused, &labels, read(count));
        }
    }
}

fn write_queues(all: &[(&Upstream, &Protection)], text: &mut String) {
    let queued = || all.iter().filter(|(_, protection)| protection.queue.is_some());
    let length = "weir_upstream_queue_length";
    header(text, length, "gauge", "Requests that wait for a place at an upstream.");
    for (upstream, protection) in queued() {
        sample(text, length, &[("upstream", &name(upstream))], protection.shared.queue.length());
    }
    let count = "weir_upstream_queue_waits_total";
    header(text, count, "counter", "Requests that got a place at an upstream after a wait.");
    for (upstream, protection) in queued() {
        sample(text, count, &[("upstream", &name(upstream))], protection.shared.queue.waits().0);
    }
    let seconds = "weir_upstream_queue_wait_seconds_total";
    header(text, seconds, "counter", "Seconds that these requests waited.");
    for (upstream, protection) in queued() {
        let waited_us = protection.shared.queue.waits().1;
        sample(text, seconds, &[("upstream", &name(upstream))], waited_us as f64 / 1e6);
    }
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
