//! A connection and its streams in the status of the worker, for HTTP/2 and HTTP/3.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::observe::status::WorkerStatus;

/// A protocol that counts. Its values have no size, because an idle connection holds one.
pub(super) trait Counting {
    /// The numbers of connections and of streams.
    fn counters<'s>(&self, status: &'s WorkerStatus) -> (&'s AtomicUsize, &'s AtomicUsize);
}

/// Counts in the numbers of HTTP/2.
pub(super) struct Http2;
/// Counts in the numbers of HTTP/3.
pub(super) struct Http3;

impl Counting for Http2 {
    fn counters<'s>(&self, status: &'s WorkerStatus) -> (&'s AtomicUsize, &'s AtomicUsize) {
        (&status.http2_connections, &status.http2_streams)
    }
}

impl Counting for Http3 {
    fn counters<'s>(&self, status: &'s WorkerStatus) -> (&'s AtomicUsize, &'s AtomicUsize) {
        (&status.http3_connections, &status.http3_streams)
    }
}

/// Counts one connection and its streams for as long as it lives.
pub(super) struct StreamCounts<P: Counting> {
    status: Arc<WorkerStatus>,
    streams: usize,
    protocol: P,
}

impl<P: Counting> StreamCounts<P> {
    /// Counts another connection, without streams.
    pub(super) fn begin(status: &Arc<WorkerStatus>, protocol: P) -> StreamCounts<P> {
        protocol.counters(status).0.fetch_add(1, Ordering::Relaxed);
        StreamCounts { status: status.clone(), streams: 0, protocol }
    }

    /// Counts the streams that the connection has now.
    pub(super) fn set_streams(&mut self, streams: usize) {
        let before = std::mem::replace(&mut self.streams, streams);
        if before != streams {
            self.protocol.counters(&self.status).1.fetch_add(streams.wrapping_sub(before), Ordering::Relaxed);
        }
    }
}

impl<P: Counting> Drop for StreamCounts<P> {
    fn drop(&mut self) {
        self.set_streams(0);
        self.protocol.counters(&self.status).0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_end_with_their_connection() {
        let status = Arc::new(WorkerStatus::default());
        let read = || {
            let of = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
            (of(&status.http2_connections), of(&status.http2_streams))
        };
        let begin = || StreamCounts::begin(&status, Http2);
        let (mut first, second) = (begin(), begin());
        first.set_streams(3);
        first.set_streams(1);
        assert_eq!(read(), (2, 1));
        drop(first);
        assert_eq!(read(), (1, 0));
        drop(second);
        assert_eq!(read(), (0, 0));
        assert_eq!(size_of::<StreamCounts<Http2>>(), 2 * size_of::<usize>());
    }
}
