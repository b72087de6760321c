//! Opens a connection to an endpoint for one attempt. The client is watched meanwhile, because a client that has gone
//! away must not hold a descriptor until the connect timeout.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;

use stdx::pooled::PooledBox;

use super::run::Run;
use super::wait::{HALF_CLOSE_GRACE_MS, gone};
use crate::body::DownstreamStream;
use crate::upstream::connect_failure::late;
use crate::upstream::opening::Opening;
use crate::upstream::stream::PooledStream;
use exchange::failure::Failure;

/// How often the kernel is asked whether a client has closed behind bytes that are not read yet, such as a request
/// body, because the event loop does not report that.
const LOOK_MS: u64 = 1_000;

/// Opens a connection, with its TLS handshake, within `timeout_ms`. A client that closes its sending side is waited for as
/// long as it would be for the head of a response (docs/decisions/0007-half-closed-clients.md).
pub(super) async fn connect<S: DownstreamStream>(
    run: &Run<'_>,
    opening: Opening,
    timeout_ms: u64,
    server: &mut S,
) -> Result<PooledStream, Failure> {
    let (local, deadline) = (run.local(), run.deadline);
    let in_handshake = Cell::new(false);
    // Boxed, because the future is large and would enlarge every exchange's state.
    let mut connecting = PooledBox::pin(run.context.upstreams.connect(opening, timeout_ms, &in_handshake));
    let ends_ms = local.now_ms().saturating_add(timeout_ms);
    let mut armed = false;
    // The client has closed behind bytes that have not been read; reading them finds the end again.
    let mut has_closed_after_request = false;
    poll_fn(|cx| {
        if let Poll::Ready(connected) = connecting.as_mut().poll(cx) {
            return Poll::Ready(connected);
        }
        if server.is_gone() {
            return Poll::Ready(Err(gone()));
        }
        let left_ms = ends_ms.saturating_sub(local.now_ms());
        if armed && deadline.expired() {
            if deadline.is_overdue() || left_ms == 0 {
                return Poll::Ready(Err(late(in_handshake.get())));
            }
            if run.is_client_leaving.get() || has_closed_after_request {
                return Poll::Ready(Err(gone()));
            }
            armed = false;
            has_closed_after_request = server.has_closed_after_request();
        }
        if !run.is_client_leaving.get() && server.poll_closed(cx).is_ready() {
            run.is_client_leaving.set(true);
            armed = false;
        }
        if !armed {
            armed = true;
            let is_leaving = run.is_client_leaving.get() || has_closed_after_request;
            // 0 would mean without a deadline.
            deadline.set(cx, if is_leaving { HALF_CLOSE_GRACE_MS } else { LOOK_MS }.min(left_ms).max(1));
        }
        Poll::Pending
    })
    .await
}
