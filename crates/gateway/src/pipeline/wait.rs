//! The waits of an exchange for another peer: for the client by its minimum rate, for the endpoint by the
//! timeout of the step. Each wait of the pipeline polls its streams first and calls this module only when
//! neither side can continue.

use std::task::Context;

use super::min_rate::{MinRateGuard, TooSlow};
use super::run::PipelineRun;
use exchange::deadline::{Expired, StepTimer};
use exchange::failure::{Cause, ExchangeFailure};

/// How long a client may have closed its sending side before it counts as gone: some close it right after the
/// request and still want the answer (docs/decisions/0007-half-closed-clients.md).
pub(super) const HALF_CLOSE_GRACE_MS: u64 = 1_000;

/// The peer that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitsFor {
    /// The client, to send or to read.
    Client,
    /// The endpoint, to take the request.
    Send,
    /// The endpoint, to answer.
    Answer,
    /// As [`WaitsFor::Answer`], and the client has closed its sending side: it may no longer read.
    AnswerHalfClosed,
}

/// A wait that continues over many polls of one task.
pub(super) struct Wait<'r, 'w> {
    pub(super) run: &'r PipelineRun<'w>,
    guard: MinRateGuard,
    timer: StepTimer<WaitsFor>,
}

impl<'r, 'w> Wait<'r, 'w> {
    /// A wait in which the client must keep the minimum rate of `guard`.
    pub(super) fn new(run: &'r PipelineRun<'w>, guard: MinRateGuard) -> Wait<'r, 'w> {
        Wait { run, guard, timer: StepTimer::default() }
    }

    /// Waits for the client. `moved` says whether anything was forwarded since the last call, `total_bytes`
    /// how much the client has moved in all.
    ///
    /// # Errors
    /// When the client is too slow.
    pub(super) fn for_client(
        &mut self,
        cx: &Context<'_>,
        moved: bool,
        total_bytes: impl FnOnce() -> u64,
    ) -> Result<(), TooSlow> {
        self.timer.enter(WaitsFor::Client);
        self.guard.wait(self.run.deadline, self.run.local().now_ms(), cx, moved, total_bytes)
    }

    /// Waits for the endpoint, at most `timeout_ms` without progress.
    ///
    /// # Errors
    /// When that time, or the time of the whole exchange, is over.
    pub(super) fn for_endpoint(
        &mut self,
        cx: &Context<'_>,
        waits_for: WaitsFor,
        timeout_ms: u64,
        moved: bool,
    ) -> Result<(), Expired> {
        self.guard.pause();
        self.timer.wait(self.run.deadline, cx, waits_for, timeout_ms, moved)
    }

    /// The guard, for the next wait for the same client.
    pub(super) fn into_guard(self) -> MinRateGuard {
        self.guard.handed_on()
    }
}

/// The failure of a client that has gone away before its response.
pub(super) fn client_gone_failure() -> ExchangeFailure {
    ExchangeFailure::new(Cause::ClientGone, "it went away while waiting for the response")
}
