//! Discards a response that a retry replaces. It never waits: a body that has arrived leaves a connection that can be used
//! again, otherwise the connection is closed or its stream reset.

use std::future::poll_fn;
use std::task::Poll;

use crate::body::{BodyEvent, BodyLength, Capacity, UpstreamStream};

/// Most bytes of a body that are read only to keep its connection; a new connection costs less than reading more.
const DRAIN_MAX_BYTES: usize = 64 * 1024;

/// Reads what has arrived of the body. Returns whether that was all of it, so that the connection can be used again.
pub(super) async fn drain<O: UpstreamStream>(origin: &mut O) -> bool {
    if matches!(origin.body_length(), BodyLength::Known(bytes) if bytes > DRAIN_MAX_BYTES as u64) {
        return false;
    }
    let mut drained_bytes = 0;
    poll_fn(|cx| {
        loop {
            let capacity = Capacity::Firm(DRAIN_MAX_BYTES - drained_bytes);
            let count = match origin.poll_body(cx, &mut |_| Poll::Ready(Ok(capacity))) {
                Poll::Ready(BodyEvent::Data(data)) => data.len(),
                Poll::Ready(BodyEvent::End(_)) => return Poll::Ready(true),
                Poll::Ready(BodyEvent::Reset(_)) | Poll::Pending => return Poll::Ready(false),
            };
            origin.consume(count);
            drained_bytes += count;
            if drained_bytes >= DRAIN_MAX_BYTES {
                return Poll::Ready(false);
            }
        }
    })
    .await
}
