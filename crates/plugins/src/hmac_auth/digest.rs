//! The value of `Digest` for a body (RFC 3230 with SHA-256), computed in chunks so that a long body does not
//! hold up the other requests of a worker.

use std::future::poll_fn;
use std::task::Poll;

use aws_lc_rs::digest::{Context, SHA256};
use data_encoding::BASE64;

/// Bytes that are hashed at once: about 0.3 ms of work.
pub(super) const CHUNK_BYTES: usize = 256 * 1024;

/// The value for a short body.
pub(super) fn of(body: &[u8]) -> String {
    let mut context = Context::new(&SHA256);
    context.update(body);
    value(context)
}

/// The value for a long body; other tasks run between its chunks.
pub(super) async fn in_chunks(body: &[u8]) -> String {
    let mut context = Context::new(&SHA256);
    for chunk in body.chunks(CHUNK_BYTES) {
        context.update(chunk);
        give_way().await;
    }
    value(context)
}

fn value(context: Context) -> String {
    format!("SHA-256={}", BASE64.encode(context.finish().as_ref()))
}

async fn give_way() {
    let mut has_waited = false;
    poll_fn(|cx| {
        if has_waited {
            return Poll::Ready(());
        }
        has_waited = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
