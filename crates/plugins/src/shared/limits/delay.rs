//! The wait of a request that a limit delays. It decides nothing.

use exchange::local::WorkerLocal;
use exchange::plugin::{Flow, PHASE_WAIT_MS, PhaseDecision};
use net::env;

/// The longest wait of one request: a phase in which a plugin waits longer than [`PHASE_WAIT_MS`] fails.
pub(crate) const DELAY_MAX_MS: u64 = PHASE_WAIT_MS - 1_000;

/// Continues after `delay_ms`, at most [`DELAY_MAX_MS`].
pub(crate) fn continue_after<'a>(delay_ms: u64) -> Flow<'a> {
    if delay_ms == 0 {
        return Flow::Continue;
    }
    Flow::Wait(Box::pin(async move {
        wait(delay_ms).await;
        PhaseDecision::Continue
    }))
}

/// Waits `delay_ms` in a phase in which the plugin has waited since `began_ms`, for at most [`DELAY_MAX_MS`]
/// together.
pub(crate) async fn wait_in_phase(worker: &WorkerLocal, began_ms: u64, delay_ms: u64) {
    if delay_ms > 0 {
        let waited_ms = (worker.clock_ns() / 1_000_000).saturating_sub(began_ms);
        wait(delay_ms.min(DELAY_MAX_MS.saturating_sub(waited_ms))).await;
    }
}

/// Waits `delay_ms`, at most [`DELAY_MAX_MS`].
pub(crate) async fn wait(delay_ms: u64) {
    if delay_ms > 0 {
        env::sleep_ms(delay_ms.min(DELAY_MAX_MS)).await;
    }
}
