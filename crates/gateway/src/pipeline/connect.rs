//! Opening a connection to a node for one attempt. The client is watched meanwhile: one that has gone away must not hold a
//! descriptor for as long as a node may take to accept.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use stdx::pooled::PooledBox;

use super::Run;
use super::attempt::{HALF_CLOSE_GRACE_MS, gone};
use crate::body::ServerStream;
use crate::failure::{Cause, Failure};
use crate::upstream::Endpoint;
use crate::upstream::stream::NodeStream;

/// How often the kernel is asked whether a client has closed behind bytes that are not read yet, such as a request body:
/// the event loop cannot tell of that.
const LOOK_MS: u64 = 1_000;

/// Opens a connection to `endpoint` within `timeout_ms`. A client that closes its sending side is waited for as long as it
/// would be for the head of a response (docs/decisions/0007-half-closed-clients.md).
pub(super) async fn connect<S: ServerStream>(
    run: &Run<'_>,
    endpoint: &Arc<Endpoint>,
    timeout_ms: u64,
    server: &mut S,
) -> Result<NodeStream, Failure> {
    let (worker, alarm) = (run.worker, run.alarm);
    // Boxed: it is large, and would make every exchange's state as large whether it connects or not.
    let mut connecting = PooledBox::pin(worker.connect(endpoint));
    let ends_ms = worker.now_ms().saturating_add(timeout_ms);
    let mut armed = false;
    // The client has closed behind bytes that have not been read; reading them comes upon it again.
    let mut has_closed_behind = false;
    poll_fn(|cx| {
        if let Poll::Ready(connected) = connecting.as_mut().poll(cx) {
            return Poll::Ready(connected);
        }
        let left_ms = ends_ms.saturating_sub(worker.now_ms());
        if armed && alarm.rang() {
            if alarm.is_overdue() || left_ms == 0 {
                let detail = "it did not accept the connection in time";
                return Poll::Ready(Err(Failure::new(Cause::ConnectTimeout, detail)));
            }
            if run.is_client_leaving.get() || has_closed_behind {
                return Poll::Ready(Err(gone()));
            }
            armed = false;
            has_closed_behind = server.has_closed_behind();
        }
        if !run.is_client_leaving.get() && server.poll_gone(cx).is_ready() {
            run.is_client_leaving.set(true);
            armed = false;
        }
        if !armed {
            armed = true;
            let is_leaving = run.is_client_leaving.get() || has_closed_behind;
            // 0 would mean never.
            alarm.set(cx, if is_leaving { HALF_CLOSE_GRACE_MS } else { LOOK_MS }.min(left_ms).max(1));
        }
        Poll::Pending
    })
    .await
}
