//! Waits for the side that holds up a response, within the time that the side may take.

use std::task::{Context, Poll};

use super::min_rate::MinRateGuard;
use super::respond;
use super::run::PipelineRun;
use super::wait::{HALF_CLOSE_GRACE_MS, Wait, WaitsFor};
use crate::body::DownstreamStream;
use exchange::deadline::Expired;
use exchange::failure::{Cause, ExchangeFailure};
use exchange::options::AttemptTimeouts;

/// The waits while a response is forwarded, with their time limits.
pub(super) struct DownloadWait<'j> {
    timeouts: AttemptTimeouts,
    wait: Wait<'j, 'j>,
}

impl<'j> DownloadWait<'j> {
    pub(super) fn new(run: &'j PipelineRun<'j>, timeouts: AttemptTimeouts) -> DownloadWait<'j> {
        let guard = MinRateGuard::for_response(&run.local().options.limits);
        DownloadWait { timeouts, wait: Wait::new(run, guard) }
    }

    /// Waits because neither side can continue; fails when the side that `waits_for` names is late.
    pub(super) fn wait<S: DownstreamStream>(
        &mut self,
        cx: &Context<'_>,
        waits_for: WaitsFor,
        moved: bool,
        downstream: &S,
    ) -> Poll<Result<(), ExchangeFailure>> {
        let timeout_ms = match waits_for {
            WaitsFor::Client => {
                let waited = self.wait.for_client(cx, moved, || downstream.delivered_bytes());
                return waited.map_or_else(|lost| Poll::Ready(Err(respond::slow(lost))), |()| Poll::Pending);
            }
            WaitsFor::AnswerHalfClosed => HALF_CLOSE_GRACE_MS,
            WaitsFor::Answer | WaitsFor::Send => self.timeouts.read_ms,
        };
        match self.wait.for_endpoint(cx, waits_for, timeout_ms, moved) {
            Ok(()) => Poll::Pending,
            Err(expired) => Poll::Ready(Err(late(expired, waits_for))),
        }
    }
}

/// The failure of a response that stalls.
#[cold]
fn late(expired: Expired, waits_for: WaitsFor) -> ExchangeFailure {
    match (expired, waits_for) {
        (Expired::Cap, _) => overdue_response(),
        (Expired::Step, WaitsFor::AnswerHalfClosed) => {
            ExchangeFailure::new(Cause::ClientGone, "it closed inside the response")
        }
        (Expired::Step, _) => ExchangeFailure::new(Cause::BodyStalled, "the response body stopped arriving"),
    }
}

/// The failure of a request that exceeds its total time while its response arrives.
#[cold]
pub(super) fn overdue_response() -> ExchangeFailure {
    ExchangeFailure::new(Cause::RequestTimeout, "the response body was still arriving")
}

pub(super) fn client_gone(error: &std::io::Error) -> ExchangeFailure {
    ExchangeFailure::new(Cause::ClientGone, error.to_string())
}
