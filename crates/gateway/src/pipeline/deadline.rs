//! The deadline of an exchange by its upstream and its client: ends all attempts, waits and the response, and
//! tells each endpoint how much time is left.

use super::attempt_policy::{AttemptPolicy, Attempting};
use super::journey::Journey;
use super::run::PipelineRun;
use crate::body::DownstreamStream;
use crate::upstream::deadline_policy::DeadlinePolicy;
use exchange::Exchange;
use exchange::failure::{Cause, ExchangeFailure};

/// Tells each endpoint how much time is left, and judges timeouts by the deadline.
pub(super) struct UpstreamDeadline;

impl AttemptPolicy for UpstreamDeadline {
    fn before_send<S: DownstreamStream>(
        attempting: &mut Attempting<'_, '_, S>,
    ) -> Result<(), ExchangeFailure> {
        let Attempting { journey, forwarding, .. } = attempting;
        if let Some(policy) = &forwarding.upstream.deadline {
            pass_on_deadline(journey.run, journey.exchange, policy);
        }
        Ok(())
    }

    fn at_failure<S>(journey: &Journey<'_, S>, failure: ExchangeFailure) -> ExchangeFailure {
        attribute_timeout(journey.run, journey.exchange, failure)
    }
}

/// Ends the exchange at its deadline, counted from the arrival of its head.
///
/// # Errors
/// When the client's time is malformed, or already over.
pub(super) fn start_deadline(
    run: &PipelineRun<'_>,
    exchange: &mut Exchange,
    policy: &DeadlinePolicy,
) -> Result<(), ExchangeFailure> {
    let limit_ms = policy.limit_ms(&exchange.request.headers).map_err(|name| {
        ExchangeFailure::new(
            Cause::BadRequest,
            format!("{name} has to be one whole number, the time for the request"),
        )
    })?;
    let Some(limit_ms) = limit_ms else { return Ok(()) };
    let ends_ns = exchange.times.started_ns.saturating_add(limit_ms.saturating_mul(1_000_000)).max(1);
    run.ends_ns.set(ends_ns);
    if policy.sets_grpc_timeout
        && let Some(call) = &mut exchange.grpc
        && (call.deadline_ns == 0 || call.deadline_ns > ends_ns)
    {
        call.deadline_ns = ends_ns;
    }
    run.deadline.tighten_cap(ends_ms(ends_ns));
    if run.deadline.is_overdue() {
        return Err(ExchangeFailure::new(Cause::RequestTimeout, "no time was left for an attempt"));
    }
    Ok(())
}

/// Tells the endpoint how much time is left.
pub(super) fn pass_on_deadline(run: &PipelineRun<'_>, exchange: &mut Exchange, policy: &DeadlinePolicy) {
    let (Some(name), ends_ns) = (&policy.header, run.ends_ns.get()) else { return };
    if ends_ns == 0 {
        return;
    }
    let left = policy.value_of(ends_ns.saturating_sub(run.local().recent_ns()));
    // A head without space for it is sent with the time that the client wrote.
    let _ = exchange.request.headers.set(name, itoa::Buffer::new().format(left).as_bytes());
}

/// The failure to record for `failure`: a timeout after the deadline of the upstream or of the call says
/// nothing about the endpoint, because the client may have asked for less time than any endpoint needs.
#[cold]
pub(super) fn attribute_timeout(
    run: &PipelineRun<'_>,
    exchange: &Exchange,
    failure: ExchangeFailure,
) -> ExchangeFailure {
    if !failure.cause.is_timeout() {
        return failure;
    }
    if is_exceeded(run) {
        return failure.because(Cause::DeadlineExceeded);
    }
    if is_call_over(run, exchange) {
        return failure.because(Cause::RequestTimeout);
    }
    failure
}

/// Whether the `grpc-timeout` of the client has passed.
pub(super) fn is_call_over(run: &PipelineRun<'_>, exchange: &Exchange) -> bool {
    let ends_ns = exchange.grpc.map_or(0, |call| call.deadline_ns);
    ends_ns != 0 && run.local().now_ms() >= ends_ms(ends_ns)
}

/// Whether the exchange has reached its deadline.
pub(super) fn is_exceeded(run: &PipelineRun<'_>) -> bool {
    let ends_ns = run.ends_ns.get();
    ends_ns != 0 && run.local().now_ms() >= ends_ms(ends_ns)
}

fn ends_ms(ends_ns: u64) -> u64 {
    ends_ns.div_ceil(1_000_000)
}
