//! Warnings in the error log about attempts that failed at an endpoint: at most one line per endpoint and
//! interval, shared by the workers. Successful attempts cost nothing here.

use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;

use stdx::throttle::{Line, Throttle};

use crate::upstream::Upstream;
use exchange::failure::{Blame, Cause, ExchangeFailure};

/// Milliseconds between two lines about one endpoint: often enough to see an outage begin and last, and 8,640
/// lines a day at most for an endpoint that is down for good.
const INTERVAL_MS: u64 = 10_000;
/// Endpoints that have a line of their own in an interval; the others share one line. Each takes about 200
/// bytes.
const ENDPOINTS_MAX: usize = 1_024;

/// The failed attempts that wait for their line.
#[derive(Debug)]
pub(crate) struct UpstreamWarnings(Mutex<Throttle<SocketAddr, FailedAttempt>>);

/// One failed attempt, as its line reports it.
#[derive(Debug)]
struct FailedAttempt {
    endpoint: SocketAddr,
    route: Option<Arc<str>>,
    upstream: Arc<str>,
    cause: Cause,
    reason: String,
}

impl Default for UpstreamWarnings {
    fn default() -> UpstreamWarnings {
        UpstreamWarnings(Mutex::new(Throttle::new(INTERVAL_MS, ENDPOINTS_MAX)))
    }
}

impl UpstreamWarnings {
    /// Notes a failed attempt, unless the client is to blame or no endpoint was contacted.
    #[cold]
    pub(crate) fn note(
        &self,
        route: Option<&Arc<str>>,
        upstream: &Upstream,
        failure: &ExchangeFailure,
        now_ms: u64,
    ) {
        let Some(endpoint) = failure.node.filter(|_| failure.cause.blame() != Blame::Client) else { return };
        let about = || FailedAttempt {
            endpoint,
            route: route.cloned(),
            upstream: upstream.identity.clone(),
            cause: failure.cause,
            reason: failure.detail.clone().into_owned(),
        };
        let line = self.table().note(&endpoint, now_ms, about);
        if let Some(line) = line {
            warn(&line);
        }
    }

    /// Writes the lines that are due; each worker calls it once a second.
    pub(crate) fn tell_due(&self, now_ms: u64) {
        let mut table = self.table();
        if !table.is_empty() {
            let due = table.due(now_ms);
            drop(table);
            due.iter().for_each(warn);
        }
    }

    /// Locked for an access to the table, never while a line is written. A panic inside leaves the table
    /// consistent.
    fn table(&self) -> parking_lot::MutexGuard<'_, Throttle<SocketAddr, FailedAttempt>> {
        self.0.lock()
    }
}

fn warn(line: &Line<FailedAttempt>) {
    let FailedAttempt { endpoint, route, upstream, cause, reason } = &line.about;
    let upstream = upstream.trim_start_matches('/');
    let (route, cause) = (route.as_deref().unwrap_or("-"), cause.code());
    let (reason, count) = (reason.as_str(), line.count);
    if line.is_of_several {
        tracing::warn!(%endpoint, %route, %upstream, %cause, reason, count, "upstream attempts failed at this and other endpoints, too many to name each");
    } else {
        tracing::warn!(%endpoint, %route, %upstream, %cause, reason, count, "upstream attempt failed");
    }
}
