//! The wait before a retry. The client is watched meanwhile, and the deadline of the exchange ends the wait.

use std::future::poll_fn;
use std::task::Poll;

use super::run::PipelineRun;
use super::wait::{HALF_CLOSE_GRACE_MS, client_gone_failure};
use crate::body::DownstreamStream;
use exchange::failure::{Cause, ExchangeFailure};

/// Waits `wait_ms`.
///
/// # Errors
/// When the client has gone away, or the exchange has had its time.
pub(super) async fn wait_before_retry<S: DownstreamStream>(
    run: &PipelineRun<'_>,
    downstream: &mut S,
    wait_ms: u64,
) -> Result<(), ExchangeFailure> {
    let (local, deadline) = (run.local(), run.deadline);
    let ends_ms = local.now_ms().saturating_add(wait_ms);
    let mut armed = false;
    let waited = poll_fn(|cx| {
        let left_ms = ends_ms.saturating_sub(local.now_ms());
        if left_ms == 0 {
            return Poll::Ready(Ok(()));
        }
        if deadline.is_overdue() {
            let detail = "a retry was waited for";
            return Poll::Ready(Err(ExchangeFailure::new(Cause::RequestTimeout, detail)));
        }
        if downstream.is_gone() || (armed && deadline.expired() && run.is_client_leaving.get()) {
            return Poll::Ready(Err(client_gone_failure()));
        }
        if !run.is_client_leaving.get() && downstream.poll_closed(cx).is_ready() {
            run.is_client_leaving.set(true);
            armed = false;
        }
        if !armed || deadline.expired() {
            armed = true;
            let grace_ms = if run.is_client_leaving.get() { HALF_CLOSE_GRACE_MS } else { left_ms };
            deadline.set(cx, grace_ms.min(left_ms));
        }
        Poll::Pending
    })
    .await;
    // The next attempt takes the last reading of the clock for the present time.
    local.clock_ns();
    waited
}
