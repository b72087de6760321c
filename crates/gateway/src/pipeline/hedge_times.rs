//! Measures the times to the response head of attempts that could be hedged, for a hedge after a percentile
//! of them. Other requests, such as uploads, take other times and would move the percentile. Nothing is
//! measured without a percentile.

use super::attempt_policy::{AfterHead, AttemptPolicy, Attempting};
use crate::body::DownstreamStream;
use crate::upstream::Upstream;
use crate::upstream::retry_policy::RetryPolicy;
use exchange::Exchange;
use exchange::failure::ExchangeFailure;
use exchange::overload::latency_percentile::LatencyPercentile;

/// Counts the time to the head of an attempt that could be hedged.
pub(super) struct HedgeTimes;

impl AttemptPolicy for HedgeTimes {
    fn after_head<S: DownstreamStream>(
        attempting: &mut Attempting<'_, '_, S>,
    ) -> Result<AfterHead, ExchangeFailure> {
        let Attempting { journey, forwarding, attempt } = attempting;
        if let Some(policy) = attempt.hedged_by
            && let Some(record) = journey.exchange.attempts.last()
        {
            let waited_us = record.head_us.saturating_sub(record.connect_us);
            record_head(forwarding.upstream, policy, journey.exchange, waited_us);
        }
        Ok(AfterHead::PassOn)
    }
}

/// The measured times of the upstream; none without a percentile.
fn times_of(upstream: &Upstream) -> Option<&LatencyPercentile> {
    upstream.retry.as_ref()?.hedge.as_ref()?.latency.as_deref()
}

/// Counts the time from the request to the response head in `exchange`. The head of a failure is not counted,
/// because it may come sooner than the work is done.
fn record_head(upstream: &Upstream, policy: &RetryPolicy, exchange: &Exchange, waited_us: u64) {
    if let Some(times) = times_of(upstream)
        && exchange.response.status < 500
        && policy.wants_instead_of(exchange).is_none()
    {
        times.record(exchange.local().now_ms(), waited_us);
    }
}

/// Counts the time that a slow attempt was waited for until it was cancelled, as the least time to its head.
/// Without the slow attempts the percentile would be one of the others, and the share of hedged requests
/// would grow.
pub(super) fn record_cancelled(upstream: &Upstream, now_ms: u64, waited_us: u64) {
    if let Some(times) = times_of(upstream) {
        times.record(now_ms, waited_us);
    }
}
