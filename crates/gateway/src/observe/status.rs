//! The state of a worker as other threads see it: counters and marks, each written by that worker alone
//! unless it says otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::current_work::CurrentWorkCell;
use super::datagram_counts::DatagramCounts;
use super::failures::FailureCounts;
use super::grpc_counts::GrpcCounts;
use super::retry_counts::RetryCounts;
use super::server_errors::ServerErrors;
use super::session_counts::SessionCounts;
use super::tap::WorkerTap;
use super::traffic::counts::TrafficCounts;
use crate::observe::idle_counts::IdleCounts;
use exchange::exchange::reuse::InUse;
use exchange::observe::upstream_tls::UpstreamTlsCounts;
use exchange::overload::capacity::Shortage;
use net::env::LoopPlace;
use net::quic::QuicCounts;

/// The state of a worker: counters and marks that other workers and the control side read.
#[derive(Debug, Default)]
pub struct WorkerStatus {
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
    /// TLS handshakes with nodes.
    pub upstream_tls: Arc<UpstreamTlsCounts>,
    /// Open client connections that speak HTTP/2.
    pub http2_connections: AtomicUsize,
    /// Requests in flight on them.
    pub http2_streams: AtomicUsize,
    /// Open client connections that speak HTTP/3.
    pub http3_connections: AtomicUsize,
    /// Requests in flight on them, those included that the client has not acknowledged.
    pub http3_streams: AtomicUsize,
    /// QUIC handshakes in progress.
    pub http3_handshakes: AtomicUsize,
    /// Clients of QUIC that were told to prove their address first.
    pub http3_retries: AtomicU64,
    /// Endpoints of QUIC that were made anew after a panic.
    pub http3_restarts: AtomicU64,
    /// Counters of its QUIC sockets.
    pub quic: Arc<QuicCounts>,
    /// Requests served so far.
    pub requests: AtomicU64,
    /// Requests in flight, from the first byte of the head to the log line. Tunnels are among them.
    pub in_flight: Arc<InUse>,
    /// Counts of requests by status, time, route, consumer and endpoint.
    pub(crate) traffic: TrafficCounts,
    /// Sessions of layer 4.
    pub sessions: SessionCounts,
    /// Datagrams of layer 4.
    pub datagrams: DatagramCounts,
    /// Idle connections to nodes.
    pub idle_upstream: AtomicUsize,
    /// Whether it has a configuration; `revision` names it.
    pub configured: AtomicBool,
    /// The revision it runs.
    pub revision: AtomicU64,
    /// Milliseconds of the monotonic clock at the last turn of its event loop.
    pub beat_ms: AtomicU64,
    /// The request that it works on.
    pub(crate) current_work: CurrentWorkCell,
    /// Whether its event loop was seen stalled; written by the engine's watch, as is `stalls`.
    pub is_stalled: AtomicBool,
    /// How often its event loop was seen stalled.
    pub stalls: AtomicU64,
    /// Its place is free: no worker runs here.
    pub(crate) is_spare: AtomicBool,
    /// It stood for too long, and another worker has its seat. Its connections were ended and count no
    /// longer.
    pub(crate) is_given_up: AtomicBool,
    /// How often a worker here was given up.
    pub replaced: AtomicU64,
    /// Its event loop, for the thread that ends its connections.
    pub(crate) event_loop: LoopPlace,
    /// How often it was started again after a panic or a failed start.
    pub restarts: AtomicU64,
    /// Failures, refusals, and connections that were closed to make room.
    pub failures: FailureCounts,
    /// Errors of the server by cause and endpoint.
    pub server_errors: ServerErrors,
    /// gRPC calls by their status.
    pub grpc: GrpcCounts,
    /// Retries by their reason.
    pub retries: RetryCounts,
    /// The records of single requests.
    pub tap: WorkerTap,
    /// Client connections without a request in flight.
    pub idle: IdleCounts,
    /// How many of them other workers have asked it to close, by the resource that is short.
    pub(crate) asked: [AtomicU32; Shortage::ALL.len()],
    /// Its connections that were told to close, or that it was asked to close, and that have not ended.
    pub(crate) leaving: AtomicUsize,
}

impl WorkerStatus {
    /// Whether a worker runs here that serves connections.
    pub fn takes_part(&self) -> bool {
        !self.is_spare.load(Ordering::Acquire) && !self.is_given_up.load(Ordering::Acquire)
    }

    /// Takes back the requests of other workers, for a worker that cannot fulfil them.
    pub(crate) fn ignore_asked(&self) {
        let asked: u32 = self.asked.iter().map(|asked| asked.swap(0, Ordering::Relaxed)).sum();
        self.settled(asked as usize);
    }

    /// Records that `count` of the connections that were told to close have ended, or are not going to end.
    pub(crate) fn settled(&self, count: usize) {
        self.leaving.fetch_sub(count, Ordering::Relaxed);
    }
}
