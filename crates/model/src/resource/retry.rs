//! The retry policy and the deadline of an upstream, extensions of Weir, as written. Knows fields and
//! defaults; deciding is the gateway's.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::Method;
use crate::number;

/// When and how often a failed attempt is retried.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryPolicy {
    /// Attempts in all, the first included.
    #[serde(deserialize_with = "number::deserialize_integer")]
    pub attempts: u32,
    /// Failures before the response head that are retried.
    pub conditions: Box<[RetryCondition]>,
    /// Statuses of responses that are discarded and retried.
    #[serde(deserialize_with = "number::integers")]
    pub statuses: Vec<u16>,
    /// Statuses of gRPC, in a response head without a message, that are retried.
    pub grpc_statuses: Box<[GrpcStatus]>,
    /// A field of the response head that asks for a retry.
    pub response_header: Option<HeaderCondition>,
    /// The methods that are retried after something was sent; none: the idempotent ones (RFC 9110 section
    /// 9.2.2).
    pub methods: Option<Box<[Method]>>,
    /// Whether `methods` may hold methods that are not idempotent.
    pub unsafe_methods: bool,
    /// A request with this field is retried whatever its method.
    pub idempotency_key_header: Option<Box<str>>,
    /// How many bytes of a request body are kept for a repetition.
    #[serde(deserialize_with = "number::deserialize_integer")]
    pub max_body: u32,
    /// How long an attempt may take until the response head; none: only the timeouts of its steps count.
    #[serde(deserialize_with = "number::optional_seconds")]
    pub attempt_timeout: Option<Duration>,
    /// The wait before a retry; none: there is none.
    pub backoff: Option<BackoffConfig>,
    /// Whether a `Retry-After` of the discarded response lengthens the wait.
    pub honor_retry_after: bool,
    /// When a second attempt is made beside a slow one; none: never.
    pub hedge: Option<Hedge>,
    /// The share of retries among the requests.
    pub budget: RetryBudget,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        use RetryCondition::{ConnectFailure, RefusedStream, Reset, Timeout};
        RetryPolicy {
            attempts: 2,
            conditions: [ConnectFailure, RefusedStream, Reset, Timeout].into(),
            statuses: Vec::new(),
            grpc_statuses: Box::default(),
            response_header: None,
            methods: None,
            unsafe_methods: false,
            idempotency_key_header: None,
            max_body: 65_536,
            attempt_timeout: None,
            backoff: None,
            honor_retry_after: false,
            hedge: None,
            budget: RetryBudget::default(),
        }
    }
}

/// A failure before the head of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryCondition {
    /// No connection, or nothing was sent over it.
    ConnectFailure,
    /// The node said that it did not process the request (HTTP/2: GOAWAY, REFUSED_STREAM).
    RefusedStream,
    /// The connection or stream ended before a byte of the response.
    Reset,
    /// No byte of the response in time.
    Timeout,
    /// The response head is malformed.
    InvalidResponse,
}

/// A field of a response head.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderCondition {
    /// Its name.
    pub name: Box<str>,
    /// Its value; none: any.
    pub value: Option<Box<str>>,
}

/// The wait before a retry: random between zero and `base` × `factor`^(retries so far), at most `max`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackoffConfig {
    /// The longest first wait.
    #[serde(deserialize_with = "number::seconds")]
    pub base: Duration,
    /// The longest wait; none: ten times `base`.
    #[serde(default, deserialize_with = "number::optional_seconds")]
    pub max: Option<Duration>,
    /// The growth from wait to wait.
    #[serde(default = "BackoffConfig::default_factor")]
    pub factor: f64,
}

impl BackoffConfig {
    fn default_factor() -> f64 {
        2.0
    }
}

/// A second attempt beside a slow one, of safe requests without a body. One of the fields is written, or
/// both.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hedge {
    /// How long the first one may take until its response head; the least time beside `percentile`.
    #[serde(default, deserialize_with = "number::optional_seconds")]
    pub after: Option<Duration>,
    /// The percentile of the recent times to the response head after which the first one is slow; none: only
    /// `after` counts.
    pub percentile: Option<f64>,
}

/// How many retries an upstream gets: a share of its requests, and a few per second.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryBudget {
    /// Retries per hundred requests of the window.
    pub percent: f64,
    /// Retries per second besides.
    #[serde(deserialize_with = "number::deserialize_integer")]
    pub min_per_second: u32,
    /// The window.
    #[serde(deserialize_with = "number::seconds")]
    pub window: Duration,
}

impl Default for RetryBudget {
    fn default() -> RetryBudget {
        RetryBudget { percent: 20.0, min_per_second: 10, window: Duration::from_secs(10) }
    }
}

/// A status of gRPC, written as its number or its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrpcStatus(pub u32);

impl GrpcStatus {
    /// The names of the statuses 1 to 16, in order.
    pub const NAMES: [&'static str; 16] = [
        "cancelled",
        "unknown",
        "invalid_argument",
        "deadline_exceeded",
        "not_found",
        "already_exists",
        "permission_denied",
        "resource_exhausted",
        "failed_precondition",
        "aborted",
        "out_of_range",
        "unimplemented",
        "internal",
        "unavailable",
        "data_loss",
        "unauthenticated",
    ];
}

impl<'de> Deserialize<'de> for GrpcStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GrpcStatus, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum WrittenStatus {
            Name(Box<str>),
            Number(#[serde(deserialize_with = "number::deserialize_integer")] u32),
        }
        let number = match WrittenStatus::deserialize(deserializer)? {
            WrittenStatus::Number(number) => Some(number),
            WrittenStatus::Name(name) => {
                let place = GrpcStatus::NAMES.iter().position(|known| *known == &*name);
                place.and_then(|place| u32::try_from(place + 1).ok())
            }
        };
        number
            .filter(|number| (1..=16).contains(number))
            .map(GrpcStatus)
            .ok_or_else(|| serde::de::Error::custom("a status of gRPC is a name or a number from 1 to 16"))
    }
}

/// One time limit for all attempts of a request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeadlinePolicy {
    /// The longest time; none: only what the request says.
    #[serde(deserialize_with = "number::optional_seconds")]
    pub total: Option<Duration>,
    /// The request field in which the client says its time, and the node is told the rest.
    pub header: Option<Box<str>>,
    /// The unit of that field.
    pub unit: DeadlineUnit,
    /// Whether the time is passed on to nodes in `grpc-timeout` of gRPC calls too.
    pub grpc_timeout: bool,
}

impl Default for DeadlinePolicy {
    fn default() -> DeadlinePolicy {
        DeadlinePolicy { total: None, header: None, unit: DeadlineUnit::Milliseconds, grpc_timeout: true }
    }
}

/// The unit of a time in a request field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum DeadlineUnit {
    /// Whole milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Whole seconds.
    #[serde(rename = "s")]
    Seconds,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_policy_has_the_documented_defaults() {
        let policy: RetryPolicy = serde_json::from_str("{}").unwrap();
        assert_eq!((policy.attempts, policy.max_body, policy.conditions.len()), (2, 65_536, 4));
        let budget = policy.budget;
        assert_eq!((budget.percent, budget.min_per_second, budget.window.as_secs()), (20.0, 10, 10));
        let deadline: DeadlinePolicy = serde_json::from_str("{}").unwrap();
        assert!(deadline.grpc_timeout && deadline.unit == DeadlineUnit::Milliseconds);
    }

    #[test]
    fn grpc_statuses_are_names_or_numbers() {
        let read = |text: &str| serde_json::from_str::<GrpcStatus>(text).ok().map(|status| status.0);
        assert_eq!(read(r#""unavailable""#), Some(14));
        assert_eq!(read("14"), Some(14));
        assert_eq!(read("8.0"), Some(8));
        for bad in ["0", "17", r#""ok""#, r#""UNAVAILABLE""#, "-1", "1.5"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
