//! Compiles the retry policy and the deadline of an upstream. The counters of the budget and the times for
//! hedging outlive changes of other fields.

use std::sync::Arc;
use std::time::Duration;

use exchange::overload::latency_percentile::LatencyPercentile;
use exchange::overload::retry_budget::{BudgetLimits, RetryBudget};
use exchange::overload::retry_reason::RetryReason;
use message::Method;
use model::resource::{
    BackoffConfig as WrittenBackoff, DeadlinePolicy as WrittenDeadline, DeadlineUnit, GrpcStatus, Hedge,
    RetryCondition, RetryPolicy as Written,
};

use crate::upstream::Upstream;
use crate::upstream::deadline_policy::DeadlinePolicy;
use crate::upstream::retry_policy::{HedgePolicy, RetryBackoff, RetryPolicy, condition_bit};

/// The policy as written; `before` is the upstream that it replaces.
pub(super) fn policy(written: &Written, before: Option<&Upstream>) -> Box<RetryPolicy> {
    let limits = BudgetLimits {
        percent: written.budget.percent,
        min_per_second: written.budget.min_per_second,
        window_ms: milliseconds(written.budget.window),
    };
    let before = before.and_then(|before| before.retry.as_deref());
    let kept = before.map(|before| &before.budget).filter(|budget| budget.limits() == limits).cloned();
    Box::new(RetryPolicy {
        attempts: written.attempts,
        conditions: written
            .conditions
            .iter()
            .fold(0, |bits, written| bits | condition_bit(condition(*written))),
        statuses: written.statuses.as_slice().into(),
        grpc_statuses: written.grpc_statuses.iter().fold(0, |bits, GrpcStatus(status)| bits | 1 << status),
        response_header: written
            .response_header
            .as_ref()
            .map(|field| (field.name.clone(), field.value.clone())),
        methods: methods(written),
        idempotency_key_header: written.idempotency_key_header.clone(),
        max_body_bytes: written.max_body as usize,
        attempt_timeout_ms: written.attempt_timeout.map_or(0, |timeout| milliseconds(timeout).max(1)),
        hedge: written.hedge.as_ref().map(|written| hedge(written, before)),
        backoff: written.backoff.as_ref().map(backoff),
        honors_retry_after: written.honor_retry_after,
        budget: kept.unwrap_or_else(|| Arc::new(RetryBudget::new(limits))),
    })
}

/// The policy for hedging as written. The times that `before` has measured are kept unless the percentile is
/// another one.
fn hedge(written: &Hedge, before: Option<&RetryPolicy>) -> HedgePolicy {
    let measured = before.and_then(|before| before.hedge.as_ref()).and_then(|hedge| hedge.latency.as_ref());
    let latency = written.percentile.map(|percentile| {
        let kept = measured.filter(|latency| latency.percentile() == percentile).cloned();
        kept.unwrap_or_else(|| Arc::new(LatencyPercentile::new(percentile)))
    });
    // The timers have whole milliseconds.
    HedgePolicy { least_ms: written.after.map_or(0, |after| milliseconds(after).max(1)), latency }
}

/// The deadline as written.
pub(super) fn deadline(written: &WrittenDeadline) -> Box<DeadlinePolicy> {
    Box::new(DeadlinePolicy {
        total_ms: written.total.map_or(0, |total| milliseconds(total).max(1)),
        header: written.header.clone(),
        unit_ms: match written.unit {
            DeadlineUnit::Milliseconds => 1,
            DeadlineUnit::Seconds => 1_000,
        },
        sets_grpc_timeout: written.grpc_timeout,
    })
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn condition(written: RetryCondition) -> RetryReason {
    match written {
        RetryCondition::ConnectFailure => RetryReason::ConnectFailure,
        RetryCondition::RefusedStream => RetryReason::RefusedStream,
        RetryCondition::Reset => RetryReason::Reset,
        RetryCondition::Timeout => RetryReason::Timeout,
        RetryCondition::InvalidResponse => RetryReason::InvalidResponse,
    }
}

/// The methods as bits; the idempotent ones unless others are written. The check of the configuration has
/// refused unsafe ones without `unsafe_methods`.
fn methods(written: &Written) -> u16 {
    match &written.methods {
        Some(methods) => {
            methods.iter().fold(0, |bits, method| bits | Method::of(method.as_str().as_bytes()).bit())
        }
        None => {
            let idempotent = Method::NAMED.into_iter().filter(|method| method.is_idempotent());
            idempotent.fold(0, |bits, method| bits | method.bit())
        }
    }
}

/// The longest wait in terms of the first, if it is not written.
const MAX_BASES: u64 = 10;

fn backoff(written: &WrittenBackoff) -> RetryBackoff {
    let base_ms = milliseconds(written.base).max(1);
    let max_ms = written.max.map_or_else(|| base_ms.saturating_mul(MAX_BASES), milliseconds);
    RetryBackoff { base_ms, max_ms, factor: written.factor }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(text: &str) -> Box<RetryPolicy> {
        policy(&serde_json::from_str(text).unwrap(), None)
    }

    #[test]
    fn default_policy_is_for_idempotent_methods() {
        let policy = compiled("{}");
        for method in Method::NAMED {
            assert_eq!(policy.methods & method.bit() != 0, method.is_idempotent(), "{method:?}");
        }
        assert_eq!(policy.methods & Method::Other.bit(), 0);
        assert_eq!((policy.attempts, policy.conditions, policy.max_body_bytes), (2, 0b1111, 65_536));
        assert_eq!(policy.backoff, None);
    }

    #[test]
    fn times_for_hedging_outlive_other_changes() {
        let written = |text: &str| serde_json::from_str::<Hedge>(text).unwrap();
        let mut before = compiled("{}");
        before.hedge = Some(hedge(&written(r#"{"percentile": 95}"#), None));
        let is_kept = |text: &str| {
            let after = hedge(&written(text), Some(&before)).latency;
            after.is_some_and(|after| {
                Arc::ptr_eq(&after, before.hedge.as_ref().unwrap().latency.as_ref().unwrap())
            })
        };
        assert!(is_kept(r#"{"percentile": 95}"#) && is_kept(r#"{"percentile": 95, "after": 0.1}"#));
        assert!(!is_kept(r#"{"percentile": 96}"#) && !is_kept(r#"{"after": 0.1}"#));
        let fixed = hedge(&written(r#"{"after": 0.0001}"#), None);
        assert!(fixed.latency.is_none() && fixed.least_ms == 1);
    }

    #[test]
    fn written_policy_is_compiled_as_written() {
        let policy = compiled(
            r#"{"attempts": 4, "conditions": ["timeout", "invalid_response"], "grpc_statuses": ["unavailable", 1],
                "methods": ["GET", "POST"], "unsafe_methods": true, "backoff": {"base": 0.05}}"#,
        );
        assert_eq!((policy.attempts, policy.conditions), (4, 0b11000));
        assert_eq!(policy.grpc_statuses, 1 << 14 | 1 << 1);
        assert_eq!(policy.methods, Method::Get.bit() | Method::Post.bit());
        assert_eq!(policy.backoff, Some(RetryBackoff { base_ms: 50, max_ms: 500, factor: 2.0 }));
    }
}
