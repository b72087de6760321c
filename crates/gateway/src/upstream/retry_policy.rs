//! A compiled retry policy: which failures and responses of an attempt are retried, for which requests, and
//! after which wait. Pure, except for the counters of its budget.

use std::sync::Arc;

use exchange::Exchange;
use exchange::overload::latency_percentile::LatencyPercentile;
use exchange::overload::retry_budget::RetryBudget;
use exchange::overload::retry_reason::RetryReason;
use message::{Headers, Method};

/// See the module.
#[derive(Debug)]
pub struct RetryPolicy {
    /// Most attempts of a request, the first included.
    pub attempts: u32,
    /// Failures that are retried, as bits of [`RetryReason`].
    pub conditions: u8,
    /// Statuses that are retried.
    pub statuses: Box<[u16]>,
    /// Statuses of gRPC that are retried, as bits.
    pub grpc_statuses: u32,
    /// The field of a response that asks for a retry: its name, and its value unless any will do.
    pub response_header: Option<(Box<str>, Option<Box<str>>)>,
    /// Methods that are retried, as bits of [`Method`].
    pub methods: u16,
    /// A request with this field is retried whatever its method.
    pub idempotency_key_header: Option<Box<str>>,
    /// Bytes of a request body that are kept for a repetition.
    pub max_body_bytes: usize,
    /// How long an attempt may take until its response head; 0 is without limit.
    pub attempt_timeout_ms: u64,
    /// When a safe request without a body gets a second attempt beside a slow one; none is never.
    pub hedge: Option<HedgePolicy>,
    /// The wait before a retry.
    pub backoff: Option<RetryBackoff>,
    /// Whether `Retry-After` lengthens the wait.
    pub honors_retry_after: bool,
    /// The share of retries, over all workers.
    pub budget: Arc<RetryBudget>,
}

/// When an attempt is slow enough for a second one beside it.
#[derive(Debug)]
pub struct HedgePolicy {
    /// Milliseconds without a response head before which no attempt is slow.
    pub least_ms: u64,
    /// The recent times to the response head, over all workers, of which the percentile counts as well; none:
    /// only `least_ms` counts, and nothing is measured.
    pub latency: Option<Arc<LatencyPercentile>>,
}

impl HedgePolicy {
    /// Milliseconds without a response head after which an attempt is slow; none while too few responses were
    /// measured.
    pub fn after_ms(&self, now_ms: u64) -> Option<u64> {
        match &self.latency {
            Some(latency) => latency.threshold_ms(now_ms).map(|threshold_ms| threshold_ms.max(self.least_ms)),
            None => Some(self.least_ms),
        }
    }
}

/// The wait before a retry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryBackoff {
    /// The longest first wait in milliseconds.
    pub base_ms: u64,
    /// The longest wait in milliseconds.
    pub max_ms: u64,
    /// The growth from wait to wait.
    pub factor: f64,
}

impl RetryBackoff {
    /// Milliseconds to wait before retry number `retry` (from 1): `random` in all of the range from zero to
    /// the bound of that retry, because requests that failed together must not come back together.
    pub fn wait_ms(&self, retry: u32, random: u64) -> u64 {
        let exponent = i32::try_from(retry.saturating_sub(1)).unwrap_or(i32::MAX);
        // `as` saturates.
        let bound_ms = (self.base_ms as f64 * self.factor.powi(exponent)) as u64;
        random % (bound_ms.min(self.max_ms) + 1)
    }
}

/// The bit of `reason` among conditions.
pub fn condition_bit(reason: RetryReason) -> u8 {
    1 << reason as u8
}

impl RetryPolicy {
    /// Whether a request may be sent again although an endpoint may have done its work.
    pub fn allows_repetition(&self, method: Method, headers: &Headers) -> bool {
        self.methods & method.bit() != 0
            || self
                .idempotency_key_header
                .as_ref()
                .is_some_and(|name| headers.get(name).is_some_and(|key| !key.is_empty()))
    }

    /// Whether this failure is one of the conditions.
    pub fn wants_after(&self, reason: RetryReason) -> bool {
        self.conditions & condition_bit(reason) != 0
    }

    /// The reason to discard the response in `exchange`, if there is one.
    #[inline]
    pub fn wants_instead_of(&self, exchange: &Exchange) -> Option<RetryReason> {
        let response = &exchange.response;
        if self.statuses.contains(&response.status) {
            return Some(RetryReason::Status);
        }
        if self.grpc_statuses != 0
            && exchange.grpc.is_some()
            && let Some(status) = response.headers.get("grpc-status").and_then(message::syntax::decimal)
            && status < 32
            && self.grpc_statuses & 1 << status != 0
        {
            return Some(RetryReason::GrpcStatus);
        }
        let (name, wanted) = self.response_header.as_ref()?;
        let value = response.headers.get(name)?;
        let is_wanted = wanted.as_ref().is_none_or(|wanted| wanted.as_bytes() == value);
        is_wanted.then_some(RetryReason::ResponseHeader)
    }

    /// Milliseconds to wait before retry number `retry` (from 1); none if the response asks for more than may
    /// be waited.
    pub fn wait_ms(&self, retry: u32, random: u64, response: Option<&Headers>) -> Option<u64> {
        let Some(backoff) = &self.backoff else { return Some(0) };
        let wait_ms = backoff.wait_ms(retry, random);
        if !self.honors_retry_after {
            return Some(wait_ms);
        }
        let Some(asked) = response.and_then(|headers| headers.get("retry-after")) else {
            return Some(wait_ms);
        };
        // A date, or anything else, is not compared with the limit and counts as too long.
        let asked_ms = message::syntax::decimal(asked)?.saturating_mul(1_000);
        (asked_ms <= backoff.max_ms).then_some(asked_ms.max(wait_ms))
    }
}

#[cfg(test)]
mod tests {
    use exchange::overload::retry_budget::BudgetLimits;

    use super::*;

    /// A policy for GET with the four conditions that are the default.
    fn policy() -> RetryPolicy {
        let limits = BudgetLimits { percent: 100.0, min_per_second: 1, window_ms: 1_000 };
        RetryPolicy {
            attempts: 3,
            conditions: 0b1111,
            statuses: [502, 503].into(),
            grpc_statuses: 1 << 14,
            response_header: Some(("x-retry".into(), None)),
            methods: Method::Get.bit(),
            idempotency_key_header: Some("idempotency-key".into()),
            max_body_bytes: 0,
            attempt_timeout_ms: 0,
            hedge: None,
            backoff: Some(RetryBackoff { base_ms: 100, max_ms: 2_000, factor: 2.0 }),
            honors_retry_after: true,
            budget: Arc::new(RetryBudget::new(limits)),
        }
    }

    #[test]
    fn repetition_needs_a_listed_method_or_a_key() {
        let policy = policy();
        let mut headers = Headers::new();
        assert!(policy.allows_repetition(Method::Get, &headers));
        assert!(!policy.allows_repetition(Method::Put, &headers), "only listed methods");
        assert!(!policy.allows_repetition(Method::Post, &headers));
        headers.set("Idempotency-Key", b"").unwrap();
        assert!(!policy.allows_repetition(Method::Post, &headers), "an empty key is none");
        headers.set("Idempotency-Key", b"k1").unwrap();
        assert!(policy.allows_repetition(Method::Post, &headers));
    }

    #[test]
    fn hedge_begins_after_the_longer_time() {
        let after_ms = |least_ms, times: u32| {
            let latency = LatencyPercentile::new(95.0);
            (0..times).for_each(|_| latency.record(0, 20_000));
            HedgePolicy { least_ms, latency: Some(Arc::new(latency)) }.after_ms(0)
        };
        assert_eq!(after_ms(0, 100), Some(21));
        assert_eq!(after_ms(10, 100), Some(21));
        assert_eq!(after_ms(50, 100), Some(50));
        assert_eq!(after_ms(50, 99), None, "too few times, whatever the least time");
        assert_eq!(HedgePolicy { least_ms: 50, latency: None }.after_ms(0), Some(50));
    }

    #[test]
    fn waits_grow_to_their_limit() {
        let backoff = RetryBackoff { base_ms: 100, max_ms: 1_000, factor: 2.0 };
        let longest: Vec<u64> = (1..=6)
            .map(|retry| (0..=1_000).map(|random| backoff.wait_ms(retry, random)).max().unwrap())
            .collect();
        assert_eq!(longest, [100, 200, 400, 800, 1_000, 1_000]);
        assert_eq!(backoff.wait_ms(1, 101), 0, "the jitter reaches down to zero");
        assert!(backoff.wait_ms(u32::MAX, u64::MAX) <= 1_000);
    }

    #[test]
    fn retry_after_is_waited_up_to_the_limit() {
        let policy = policy();
        let wait = |value: &str| {
            let mut headers = Headers::new();
            headers.set("Retry-After", value.as_bytes()).unwrap();
            policy.wait_ms(1, 0, Some(&headers))
        };
        assert_eq!(policy.wait_ms(1, 0, None), Some(0));
        assert_eq!(wait("0"), Some(0));
        assert_eq!(wait("2"), Some(2_000));
        assert_eq!(wait("3"), None);
        assert_eq!(wait("99999999999999999999"), None);
        assert_eq!(wait("Wed, 21 Oct 2026 07:28:00 GMT"), None);
        let deaf = RetryPolicy { honors_retry_after: false, ..policy };
        let mut headers = Headers::new();
        headers.set("Retry-After", b"3").unwrap();
        assert_eq!(deaf.wait_ms(1, 0, Some(&headers)), Some(0));
    }
}
