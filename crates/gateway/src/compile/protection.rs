//! The protection of an upstream, and the bulkheads of routes and consumers, from what users write. State of
//! an earlier form goes on.

use std::sync::Arc;
use std::time::Duration;

use model::ObjectKey;
use model::resource::{
    CircuitBreaker, FailureRate, OutlierEjection, RequestLimits, UpstreamConfig as Written,
};

use super::SnapshotCompiler;
use crate::upstream::Upstream;
use crate::upstream::protection::{
    Breaker, Ejection, FailureStatuses, LatencyRule, Protection, QueueRule, SharedProtection, UNLIMITED,
    ejection as transitions,
};
use exchange::failure::FailureResponse;
use exchange::overload::bulkhead::Bulkhead;
use exchange::overload::circuit::{self, CircuitRules};

/// The protection that `written` asks for, in place of that of the form `before`.
pub(super) fn compile(
    identity: &str,
    written: &Written,
    before: Option<&Upstream>,
) -> Option<Arc<Protection>> {
    let earlier = before.and_then(|before| before.protection.as_ref());
    if let (Some(before), Some(Protection { ejection: Some(_), shared, .. })) =
        (before, earlier.map(|earlier| &**earlier))
        && written.outlier_ejection.is_none()
    {
        let set = before.nodes.load();
        transitions::forget(shared, set.nodes.iter().map(|node| &node.state));
    }
    if written.outlier_ejection.is_none() && written.circuit_breaker.is_none() && written.limits.is_none() {
        return None;
    }
    let limits = written.limits.as_deref().copied().unwrap_or_default();
    let shared = earlier.map_or_else(Arc::<SharedProtection>::default, |earlier| earlier.shared.clone());
    if written.outlier_ejection.is_some() {
        *shared.ejects.lock() = true;
    }
    if written.circuit_breaker.is_none() {
        shared.breaker.reset();
    }
    Some(Arc::new(Protection {
        identity: identity.into(),
        ejection: written.outlier_ejection.as_deref().map(ejection),
        breaker: written.circuit_breaker.as_deref().map(breaker),
        max_requests: limits.max_requests.unwrap_or(UNLIMITED),
        max_requests_per_node: limits.max_requests_per_node.unwrap_or(UNLIMITED),
        limits_connections: limits.max_connections_per_node.is_some(),
        queue: limits
            .queue
            .map(|queue| QueueRule { length: queue.length, timeout_ms: milliseconds(queue.timeout) }),
        shared,
    }))
}

impl SnapshotCompiler {
    /// The bulkhead of the route or consumer under `key`.
    pub(super) fn bulkhead(&mut self, key: &ObjectKey, limits: Option<&RequestLimits>) -> Option<Bulkhead> {
        limits.map(|limits| self.bulkheads.of(&key.path(), limits.max_requests))
    }
}

fn ejection(written: &OutlierEjection) -> Ejection {
    Ejection {
        circuit: CircuitRules {
            consecutive_failures: written.consecutive_failures,
            failure_rate: written.failure_rate.as_ref().map(failure_rate),
            half_open_requests: written.half_open_requests,
            base_open_ms: milliseconds(written.base_ejection_time),
            max_open_ms: milliseconds(written.max_ejection_time),
        },
        failures: statuses(&written.failure_statuses, &written.grpc_failure_statuses),
        latency: written.latency.as_ref().map(|latency| LatencyRule {
            factor: latency.factor,
            min_requests: latency.min_requests,
            window_ms: milliseconds(latency.window),
        }),
        max_ejected_percent: written.max_ejected_percent,
    }
}

fn breaker(written: &CircuitBreaker) -> Breaker {
    let field = |field: &model::resource::ResponseField| (field.key.clone(), field.value.clone());
    Breaker {
        circuit: CircuitRules {
            consecutive_failures: written.consecutive_failures,
            failure_rate: written.failure_rate.as_ref().map(failure_rate),
            half_open_requests: written.half_open_requests,
            base_open_ms: milliseconds(written.base_break_time),
            max_open_ms: milliseconds(written.max_break_time),
        },
        failures: statuses(&written.failure_statuses, &written.grpc_failure_statuses),
        answer: Arc::new(FailureResponse {
            status: written.break_response_code,
            headers: written.break_response_headers.iter().map(field).collect(),
            body: written.break_response_body.clone(),
        }),
    }
}

fn failure_rate(written: &FailureRate) -> circuit::FailureRate {
    circuit::FailureRate {
        percent: written.percent,
        min_requests: written.min_requests,
        window_ms: milliseconds(written.window),
    }
}

fn statuses(http: &[u16], grpc: &[u32]) -> FailureStatuses {
    FailureStatuses { http: http.into(), grpc: grpc.into() }
}

/// At least one, because 0 would be without a limit.
fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(1)
}
