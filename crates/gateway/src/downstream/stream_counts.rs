//! A connection and its streams in the status of the worker, for HTTP/2 and HTTP/3.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::observe::status::Status;

/// The numbers of connections and of streams that a protocol counts in.
type Counters = fn(&Status) -> (&AtomicUsize, &AtomicUsize);

/// Counts one connection and its streams for as long as it lives.
pub(super) struct StreamCounts {
    status: Arc<Status>,
    counters: Counters,
    streams: usize,
}

impl StreamCounts {
    /// Counts another connection, without streams.
    pub(super) fn begin(status: &Arc<Status>, counters: Counters) -> StreamCounts {
        counters(status).0.fetch_add(1, Ordering::Relaxed);
        StreamCounts { status: status.clone(), counters, streams: 0 }
    }

    /// Counts the streams that the connection has now.
    pub(super) fn set_streams(&mut self, streams: usize) {
        let before = std::mem::replace(&mut self.streams, streams);
        if before != streams {
            (self.counters)(&self.status).1.fetch_add(streams.wrapping_sub(before), Ordering::Relaxed);
        }
    }
}

impl Drop for StreamCounts {
    fn drop(&mut self) {
        self.set_streams(0);
        (self.counters)(&self.status).0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_end_with_their_connection() {
        let status = Arc::new(Status::default());
        let read = || {
            let of = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
            (of(&status.http2_connections), of(&status.http2_streams))
        };
        let begin =
            || StreamCounts::begin(&status, |status| (&status.http2_connections, &status.http2_streams));
        let (mut first, second) = (begin(), begin());
        first.set_streams(3);
        first.set_streams(1);
        assert_eq!(read(), (2, 1));
        drop(first);
        assert_eq!(read(), (1, 0));
        drop(second);
        assert_eq!(read(), (0, 0));
    }
}
