//! The protection of an upstream as written: outlier ejection, circuit breaker, limits. Extensions of Weir.
//! Knows fields and defaults; judging is the gateway's.

use std::time::Duration;

use serde::Deserialize;

use crate::number;

/// Ejection of nodes that fail or are slow.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OutlierEjection {
    /// So many failures in a row eject a node; 0: their number does not matter.
    #[serde(deserialize_with = "number::deserialize_integer")]
    pub consecutive_failures: u32,
    /// A share of failures that ejects a node.
    pub failure_rate: Option<FailureRate>,
    /// A latency that ejects a node.
    pub latency: Option<LatencyOutlier>,
    /// How long the first ejection lasts.
    #[serde(deserialize_with = "number::seconds")]
    pub base_ejection_time: Duration,
    /// The longest ejection.
    #[serde(deserialize_with = "number::seconds")]
    pub max_ejection_time: Duration,
    /// The most nodes that are ejected at once, in percent.
    #[serde(deserialize_with = "number::deserialize_integer")]
    pub max_ejected_percent: u32,
    /// How many probes a node gets after its ejection; all have to succeed.
    #[serde(deserialize_with = "number::deserialize_integer")]
    pub half_open_requests: u32,
    /// The statuses that count as failures.
    #[serde(deserialize_with = "statuses")]
    pub failure_statuses: Box<[u16]>,
    /// The statuses of gRPC that count as failures.
    #[serde(deserialize_with = "grpc_statuses")]
    pub grpc_failure_statuses: Box<[u32]>,
}

impl Default for OutlierEjection {
    fn default() -> OutlierEjection {
        OutlierEjection {
            consecutive_failures: CONSECUTIVE_FAILURES,
            failure_rate: None,
            latency: None,
            base_ejection_time: Duration::from_secs(30),
            max_ejection_time: Duration::from_secs(300),
            max_ejected_percent: 50,
            half_open_requests: 1,
            failure_statuses: FAILURE_STATUSES.into(),
            grpc_failure_statuses: GRPC_FAILURE_STATUSES.into(),
        }
    }
}

/// A circuit breaker over all nodes of an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CircuitBreaker {
    /// So many failures in a row open it; 0: their number does not matter.
    #[serde(deserialize_with = "number::deserialize_integer")]
    pub consecutive_failures: u32,
    /// A share of failures that opens it.
    pub failure_rate: Option<FailureRate>,
    /// How long it is open first.
    #[serde(deserialize_with = "number::seconds")]
    pub base_break_time: Duration,
    /// How long it is open at most.
    #[serde(deserialize_with = "number::seconds")]
    pub max_break_time: Duration,
    /// How many probes it lets through then; all have to succeed.
    #[serde(deserialize_with = "number::deserialize_integer")]
    pub half_open_requests: u32,
    /// The statuses that count as failures.
    #[serde(deserialize_with = "statuses")]
    pub failure_statuses: Box<[u16]>,
    /// The statuses of gRPC that count as failures.
    #[serde(deserialize_with = "grpc_statuses")]
    pub grpc_failure_statuses: Box<[u32]>,
    /// The status of refused requests.
    #[serde(deserialize_with = "number::deserialize_integer")]
    pub break_response_code: u16,
    /// The body of refused requests; none: that of a failure.
    pub break_response_body: Option<Box<str>>,
    /// The fields of refused requests.
    pub break_response_headers: Box<[ResponseField]>,
}

impl Default for CircuitBreaker {
    fn default() -> CircuitBreaker {
        CircuitBreaker {
            consecutive_failures: CONSECUTIVE_FAILURES,
            failure_rate: None,
            base_break_time: Duration::from_secs(2),
            max_break_time: Duration::from_secs(300),
            half_open_requests: 1,
            failure_statuses: FAILURE_STATUSES.into(),
            grpc_failure_statuses: GRPC_FAILURE_STATUSES.into(),
            break_response_code: 503,
            break_response_body: None,
            break_response_headers: Box::default(),
        }
    }
}

/// A field of a response.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResponseField {
    /// Its name.
    pub key: Box<str>,
    /// Its value.
    pub value: Box<str>,
}

/// A share of failures in a window of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailureRate {
    /// Failures in a hundred requests.
    #[serde(deserialize_with = "number::deserialize_integer")]
    pub percent: u32,
    /// Fewer requests in the window are not judged.
    #[serde(default = "min_requests", deserialize_with = "number::deserialize_integer")]
    pub min_requests: u32,
    /// The window.
    #[serde(default = "window", deserialize_with = "number::seconds")]
    pub window: Duration,
}

/// A latency far above that of the other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyOutlier {
    /// How many times the median of the other nodes.
    pub factor: f64,
    /// Nodes with fewer requests in the window are not judged.
    #[serde(default = "min_requests", deserialize_with = "number::deserialize_integer")]
    pub min_requests: u32,
    /// The window.
    #[serde(default = "window", deserialize_with = "number::seconds")]
    pub window: Duration,
}

/// Limits of an upstream, over all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UpstreamLimits {
    /// Requests in flight.
    #[serde(deserialize_with = "number::optional_integer")]
    pub max_requests: Option<u32>,
    /// Requests in flight at each node.
    #[serde(deserialize_with = "number::optional_integer")]
    pub max_requests_per_node: Option<u32>,
    /// Open connections to each node.
    #[serde(deserialize_with = "number::optional_integer")]
    pub max_connections_per_node: Option<u32>,
    /// Requests over a limit wait here; none: they are refused.
    pub queue: Option<QueueConfig>,
}

/// A queue of requests over a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueConfig {
    /// How many requests may wait.
    #[serde(deserialize_with = "number::deserialize_integer")]
    pub length: u32,
    /// How long one may wait.
    #[serde(default = "queue_timeout", deserialize_with = "number::seconds")]
    pub timeout: Duration,
}

/// Limits of a route or of a consumer, over all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestLimits {
    /// Requests in flight at upstreams.
    #[serde(deserialize_with = "number::deserialize_integer")]
    pub max_requests: u32,
}

const CONSECUTIVE_FAILURES: u32 = 5;
/// The statuses of a gateway or an overloaded server; 500 most often says something of one request only.
const FAILURE_STATUSES: [u16; 3] = [502, 503, 504];
/// UNAVAILABLE.
const GRPC_FAILURE_STATUSES: [u32; 1] = [14];

fn min_requests() -> u32 {
    20
}

fn window() -> Duration {
    Duration::from_secs(10)
}

fn queue_timeout() -> Duration {
    Duration::from_secs(1)
}

fn statuses<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Box<[u16]>, D::Error> {
    number::integers(deserializer).map(Vec::into)
}

fn grpc_statuses<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Box<[u32]>, D::Error> {
    number::integers(deserializer).map(Vec::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_schema() {
        let ejection: OutlierEjection = serde_json::from_str("{}").unwrap();
        assert_eq!((ejection.consecutive_failures, ejection.max_ejected_percent), (5, 50));
        let breaker: CircuitBreaker = serde_json::from_str(r#"{"failure_rate": {"percent": 50}}"#).unwrap();
        let rate = breaker.failure_rate.unwrap();
        assert_eq!((rate.min_requests, rate.window.as_secs()), (20, 10));
        let schema = crate::schema::find_object_schema(crate::ObjectKind::Upstream);
        let default = |path: &str| schema.pointer(&format!("/properties/{path}/default")).cloned().unwrap();
        assert_eq!(
            default("outlier_ejection/properties/failure_statuses"),
            serde_json::json!(FAILURE_STATUSES)
        );
        assert_eq!(
            default("outlier_ejection/properties/base_ejection_time"),
            ejection.base_ejection_time.as_secs()
        );
        assert_eq!(
            default("outlier_ejection/properties/max_ejection_time"),
            ejection.max_ejection_time.as_secs()
        );
        assert_eq!(default("circuit_breaker/properties/base_break_time"), breaker.base_break_time.as_secs());
        assert_eq!(default("circuit_breaker/properties/max_break_time"), breaker.max_break_time.as_secs());
        assert_eq!(default("circuit_breaker/properties/break_response_code"), breaker.break_response_code);
        let queue: QueueConfig = serde_json::from_str(r#"{"length": 1}"#).unwrap();
        assert_eq!(default("limits/properties/queue/properties/timeout"), queue.timeout.as_secs());
    }
}
