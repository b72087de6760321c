//! Lines in the error log about callers that were refused. Such lines need no key, so that there is at most one per
//! reason, address and interval. It decides no refusal itself.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use stdx::throttle::{Line, Throttle};
use tokio::time::Instant;

/// Milliseconds between two lines about one address: often enough to see an attack begin and last.
const INTERVAL_MS: u64 = 10_000;
/// Reasons times addresses that have a line of their own in an interval; the others share one line. Each takes about
/// 100 bytes; callers of an Admin API are few, unless they attack it.
const ADDRESSES_MAX: usize = 256;
/// How often it is looked whether events that were held back are due.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// See the module. Clones act on the same table.
#[derive(Clone)]
pub(super) struct Refusals(Arc<Mutex<Table>>);

struct Table {
    /// Times are counted from it.
    start: Instant,
    throttle: Throttle<(&'static str, IpAddr), Refusal>,
    /// A task looks for what is due.
    is_watched: bool,
}

/// One refusal, as a line tells of it.
struct Refusal {
    peer: SocketAddr,
    message: &'static str,
    description: Option<&'static str>,
}

impl Default for Refusals {
    fn default() -> Refusals {
        let throttle = Throttle::new(INTERVAL_MS, ADDRESSES_MAX);
        Refusals(Arc::new(Mutex::new(Table { start: Instant::now(), throttle, is_watched: false })))
    }
}

impl Refusals {
    /// Notes that `peer` was refused, and logs `message` with the answer's `description` if it is time.
    pub(super) fn note(&self, peer: SocketAddr, message: &'static str, description: Option<&'static str>) {
        let mut table = self.0.lock();
        let key = (description.unwrap_or(message), peer.ip().to_canonical());
        let now_ms = table.now_ms();
        let line = table.throttle.note(&key, now_ms, || Refusal { peer, message, description });
        let needs_watch = !std::mem::replace(&mut table.is_watched, true);
        drop(table);
        if let Some(line) = line {
            warn(&line);
        }
        if needs_watch {
            self.watch();
        }
    }

    /// Starts the task that logs what was held back, until there is nothing more.
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

impl Table {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

fn warn(line: &Line<Refusal>) {
    let (Refusal { peer, message, description }, count) = (&line.about, line.count);
    match (line.is_of_several, description) {
        (true, _) => tracing::warn!(%peer, count, "{message}; the count is of several addresses"),
        (false, Some(description)) => tracing::warn!(%peer, description, count, "{message}"),
        (false, None) => tracing::warn!(%peer, count, "{message}"),
    }
}
