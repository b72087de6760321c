//! The state of a worker as other threads see it: counters and marks, each written by that worker alone unless it says
//! otherwise.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::current_work::CurrentWorkCell;
use super::failures::FailureCounts;
use crate::observe::idle_counts::IdleCounts;
use exchange::overload::capacity::Shortage;

/// The state of a worker as other workers and the control side see it: a few counters, each written by one worker.
#[derive(Debug, Default)]
pub struct Status {
    /// Open client connections.
    pub connections: AtomicUsize,
    /// Sockets that it accepts on, or still serves the queue of.
    pub accepting: AtomicUsize,
    /// Client connections accepted so far.
    pub accepted: AtomicU64,
    /// TLS handshakes of clients that made a new session.
    pub tls_full: AtomicU64,
    /// Those that resumed one.
    pub tls_resumed: AtomicU64,
    /// Those that failed, or were not complete in time.
    pub tls_failed: AtomicU64,
    /// Requests served so far.
    pub requests: AtomicU64,
    /// Idle connections to nodes.
    pub idle_upstream: AtomicUsize,
    /// Whether it runs, by a configuration; `revision` says which.
    pub configured: AtomicBool,
    /// The revision it runs.
    pub revision: AtomicU64,
    /// Milliseconds of the monotonic clock when it last turned its loop.
    pub beat_ms: AtomicU64,
    /// Its current work.
    pub(crate) current_work: CurrentWorkCell,
    /// Whether its loop was seen to stand; written by the engine's watch, as is the next.
    pub is_stalled: AtomicBool,
    /// How often its loop was seen to stand.
    pub stalls: AtomicU64,
    /// Failures, refusals, and connections that gave way to others.
    pub failures: FailureCounts,
    /// Client connections without a request in flight.
    pub idle: IdleCounts,
    /// How many of them other workers want to give way, by what there is too little of.
    pub(crate) asked: [AtomicU32; Shortage::ALL.len()],
    /// Its connections that were told to give way, or that it was asked for, and that have not ended.
    pub(crate) leaving: AtomicUsize,
}

impl Status {
    /// Takes back what other workers have asked for, where there is no worker that could do it.
    pub(crate) fn ignore_asked(&self) {
        let asked: u32 = self.asked.iter().map(|asked| asked.swap(0, Ordering::Relaxed)).sum();
        self.settled(asked as usize);
    }

    /// So many of those that were told to give way have ended, or do not end after all.
    pub(crate) fn settled(&self, count: usize) {
        self.leaving.fetch_sub(count, Ordering::Relaxed);
    }
}
