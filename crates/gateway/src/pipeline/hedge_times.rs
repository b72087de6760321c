//! Measures the times to the response head of attempts that could be hedged, for a hedge after a percentile of them. Other
//! requests, such as uploads, take other times and would move the percentile. Nothing is measured without a percentile.

use super::target::Forward;
use crate::upstream::retry_policy::RetryPolicy;
use exchange::Exchange;
use exchange::overload::latency_percentile::LatencyPercentile;

/// The measured times of the upstream; none without a percentile.
fn times_of<'f>(forward: &Forward<'f, '_>) -> Option<&'f LatencyPercentile> {
    forward.upstream.retry.as_ref()?.hedge.as_ref()?.latency.as_deref()
}

/// Counts the time from the request to the response head in `exchange`. The head of a failure is not counted, because it may
/// come sooner than the work is done.
pub(super) fn record_head(
    forward: &Forward<'_, '_>,
    policy: &RetryPolicy,
    exchange: &Exchange,
    waited_us: u64,
) {
    if let Some(times) = times_of(forward)
        && exchange.response.status < 500
        && policy.wants_instead_of(exchange).is_none()
    {
        times.record(forward.run.local().now_ms(), waited_us);
    }
}

/// Counts the time that a slow attempt was waited for until it was cancelled, as the least time to its head. Without the slow
/// attempts the percentile would be one of the others, and the share of hedged requests would grow.
pub(super) fn record_cancelled(forward: &Forward<'_, '_>, waited_us: u64) {
    if let Some(times) = times_of(forward) {
        times.record(forward.run.local().now_ms(), waited_us);
    }
}
