//! Watches the client while the request waits for something else than a peer's bytes: a connection, or its
//! turn in a queue.

use std::task::{Context, Poll};

use super::run::PipelineRun;
use super::wait::HALF_CLOSE_GRACE_MS;
use crate::body::DownstreamStream;

/// How often the kernel is asked whether a client has closed behind bytes that are not read yet, such as a
/// request body, because the event loop does not report that.
const LOOK_MS: u64 = 1_000;

/// Why a wait ends without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GivenUp {
    /// Its time is over.
    Late,
    /// The client has gone away.
    ClientGone,
}

/// A wait with a bound, in which the client may go away. A client that closes its sending side is waited for
/// as long as it would be for the head of a response (docs/decisions/0007-half-closed-clients.md).
pub(super) struct ClientWatch {
    ends_ms: u64,
    is_armed: bool,
    /// The client has closed behind bytes that have not been read; reading them finds the end again.
    has_closed_after_request: bool,
}

impl ClientWatch {
    /// A wait of `timeout_ms` at most.
    pub(super) fn new(run: &PipelineRun<'_>, timeout_ms: u64) -> ClientWatch {
        let ends_ms = run.local().now_ms().saturating_add(timeout_ms);
        ClientWatch { ends_ms, is_armed: false, has_closed_after_request: false }
    }

    /// Ready when the wait has to end. Otherwise the task is woken when it may have to.
    pub(super) fn poll<S: DownstreamStream>(
        &mut self,
        run: &PipelineRun<'_>,
        cx: &mut Context<'_>,
        downstream: &mut S,
    ) -> Poll<GivenUp> {
        if downstream.is_gone() {
            return Poll::Ready(GivenUp::ClientGone);
        }
        let deadline = run.deadline;
        let left_ms = self.ends_ms.saturating_sub(run.local().now_ms());
        if self.is_armed && deadline.expired() {
            if deadline.is_overdue() || left_ms == 0 {
                return Poll::Ready(GivenUp::Late);
            }
            if run.is_client_leaving.get() || self.has_closed_after_request {
                return Poll::Ready(GivenUp::ClientGone);
            }
            self.is_armed = false;
            self.has_closed_after_request = downstream.has_closed_after_request();
        }
        if !run.is_client_leaving.get() && downstream.poll_closed(cx).is_ready() {
            run.is_client_leaving.set(true);
            self.is_armed = false;
        }
        if !self.is_armed {
            self.is_armed = true;
            let is_leaving = run.is_client_leaving.get() || self.has_closed_after_request;
            // 0 would mean without a deadline.
            let wait_ms = if is_leaving { HALF_CLOSE_GRACE_MS } else { LOOK_MS };
            deadline.set(cx, wait_ms.min(left_ms).max(1));
        }
        Poll::Pending
    }
}
