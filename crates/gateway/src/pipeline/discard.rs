//! Discards a response that a retry replaces. It never waits: a body that has arrived leaves a connection
//! that can be used again, otherwise the connection is closed or its stream reset.

use std::task::{Context, Poll, Waker};

use crate::body::{BodyEvent, BodyLength, Capacity, UpstreamStream};

/// Most bytes of a body that are read only to keep its connection; a new connection costs less than reading
/// more.
const DRAIN_MAX_BYTES: usize = 64 * 1024;

/// Reads what has arrived of the body. Returns whether that was all of it, so that the connection can be used
/// again.
pub(super) fn drain<O: UpstreamStream>(upstream_stream: &mut O) -> bool {
    if matches!(upstream_stream.body_length(), BodyLength::Known(bytes) if bytes > DRAIN_MAX_BYTES as u64) {
        return false;
    }
    // Nothing waits for the rest, so that no task has to be woken.
    let mut cx = Context::from_waker(Waker::noop());
    let mut drained_bytes = 0;
    while drained_bytes < DRAIN_MAX_BYTES {
        let capacity = Capacity::Firm(DRAIN_MAX_BYTES - drained_bytes);
        let count = match upstream_stream.poll_body(&mut cx, &mut |_| Poll::Ready(Ok(capacity))) {
            Poll::Ready(BodyEvent::Data(data)) => data.len(),
            Poll::Ready(BodyEvent::End(_)) => return true,
            Poll::Ready(BodyEvent::Reset(_)) | Poll::Pending => return false,
        };
        upstream_stream.consume(count);
        drained_bytes += count;
    }
    false
}
