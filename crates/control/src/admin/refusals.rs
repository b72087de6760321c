//! Lines in the error log about refused callers. A caller without a key can cause them, so there is at most
//! one line per reason, address and interval. The decision to refuse is made elsewhere.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use stdx::throttle::{Line, Throttle};
use tokio::time::Instant;

/// Milliseconds between two lines about one address: short enough to see when an attack begins and how long
/// it lasts.
const INTERVAL_MS: u64 = 10_000;
/// Pairs of a reason and an address that have a line of their own in an interval; other pairs share one line.
/// A pair takes about 100 bytes. Few addresses use an Admin API, so more pairs mean an attack.
const ADDRESSES_MAX: usize = 256;
/// Interval of the task that logs delayed lines.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Logs refusals, at a limited rate. Clones share one table.
#[derive(Clone)]
pub(super) struct Refusals(Arc<Mutex<RefusalTable>>);

struct RefusalTable {
    /// Origin of the times in `throttle`.
    start: Instant,
    throttle: Throttle<(&'static str, IpAddr), RefusalLine>,
    /// Whether the task that logs delayed lines runs.
    is_watched: bool,
}

/// The content of a line.
struct RefusalLine {
    peer: SocketAddr,
    message: &'static str,
    description: Option<&'static str>,
}

impl Default for Refusals {
    fn default() -> Refusals {
        let throttle = Throttle::new(INTERVAL_MS, ADDRESSES_MAX);
        Refusals(Arc::new(Mutex::new(RefusalTable { start: Instant::now(), throttle, is_watched: false })))
    }
}

impl Refusals {
    /// Counts a refusal of `peer`, and logs `message` with the answer's `description` unless a line was
    /// logged within the interval.
    pub(super) fn note(&self, peer: SocketAddr, message: &'static str, description: Option<&'static str>) {
        let mut table = self.0.lock();
        let key = (description.unwrap_or(message), peer.ip().to_canonical());
        let now_ms = table.now_ms();
        let line = table.throttle.note(&key, now_ms, || RefusalLine { peer, message, description });
        let needs_watch = !std::mem::replace(&mut table.is_watched, true);
        drop(table);
        if let Some(line) = line {
            warn(&line);
        }
        if needs_watch {
            self.watch();
        }
    }

    /// Starts the task that logs delayed lines; it ends when there are none left.
    fn watch(&self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            self.0.lock().is_watched = false;
            return;
        };
        let refusals = self.clone();
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(CHECK_INTERVAL).await;
                let mut table = refusals.0.lock();
                let now_ms = table.now_ms();
                let due = table.throttle.due(now_ms);
                table.is_watched = !table.throttle.is_empty();
                let is_watched = table.is_watched;
                drop(table);
                due.iter().for_each(warn);
                if !is_watched {
                    return;
                }
            }
        });
    }
}

impl RefusalTable {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

fn warn(line: &Line<RefusalLine>) {
    let (RefusalLine { peer, message, description }, count) = (&line.about, line.count);
    match (line.is_of_several, description) {
        (true, _) => tracing::warn!(%peer, count, "{message}; the count is of several addresses"),
        (false, Some(description)) => tracing::warn!(%peer, description, count, "{message}"),
        (false, None) => tracing::warn!(%peer, count, "{message}"),
    }
}
