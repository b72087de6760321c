//! Windows that are counted in this process and synchronised with Redis in the background, so that no request
//! waits for it.
//!
//! A key that is not known yet, or has begun a new window, is synchronised at once; after that every
//! interval, as long as requests of it come. Between two synchronisations each gateway may let through what
//! was left at the last one. While Redis fails, this process counts alone.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use exchange::local::WorkerLocal;
use exchange::plugin::unfinished::UnfinishedWork;
use net::env;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::shared_windows::{SharedWindows, WindowCount};
use super::window::{Quota, Taken};
use crate::shared::limits::failures::Failures;
use crate::shared::limits::table::{KeyStanding, KeyState, KeyTable};

/// Keys in all: a state holds the text of its key, so that a full table takes some 30 MB, and 100 MB with the
/// longest keys.
const KEYS_MAX: usize = 128 * 1024;
/// The longest text of a key; in place of a longer one its digest is counted, so that memory does not depend
/// on what clients send.
const KEY_BYTES_MAX: usize = 512;
/// Milliseconds between two looks whether the process ends, so that nothing is lost that was let through.
const ENDING_LOOK_MS: u64 = 200;
/// Keys that wait for their synchronisation, in each list, while Redis is slower than new keys come. A
/// further one is remembered with a later request of it.
const PENDING_MAX: usize = 16 * 1024;
/// Keys that are synchronised at the same time.
const SYNC_TOGETHER: usize = 256;

/// See the module.
pub(super) struct Delayed {
    windows: SharedWindows,
    interval_ms: u64,
    failures: Arc<Failures>,
    unfinished: UnfinishedWork,
    table: KeyTable<DelayedWindow>,
    pending: Mutex<PendingSyncs>,
    wake: Notify,
}

/// A key to synchronise, and whether at once.
type DueKey = (Arc<[u8]>, bool);

/// The keys to synchronise.
#[derive(Default)]
struct PendingSyncs {
    at_once: Vec<Arc<[u8]>>,
    later: Vec<Arc<[u8]>>,
    /// Whether the task that synchronises runs, on some worker.
    is_running: bool,
}

/// The window of one key.
struct DelayedWindow {
    key: Arc<[u8]>,
    quota: Quota,
    /// Requests that all gateways have used, as of the last synchronisation.
    used: u64,
    /// Requests that this one has let through since.
    since: u64,
    /// When the window ends, by the monotonic clock.
    ends_ms: u64,
    /// Counts the windows of the key, so that a reply is not taken for one of a later window.
    number: u32,
    standing: KeyStanding,
    is_pending: bool,
}

/// Marks that the task runs. A worker may end before it: then the next request on another one starts it
/// again.
struct SyncTaskGuard {
    of: Arc<Delayed>,
    is_marked: bool,
}

impl Drop for SyncTaskGuard {
    fn drop(&mut self) {
        if self.is_marked {
            self.of.pending.lock().is_running = false;
        }
    }
}

impl DelayedWindow {
    fn starting(key: Arc<[u8]>, quota: Quota) -> DelayedWindow {
        DelayedWindow {
            key,
            quota,
            used: 0,
            since: 0,
            ends_ms: 0,
            number: 0,
            standing: KeyStanding::Open,
            is_pending: false,
        }
    }

    fn take(&mut self, quota: Quota, now_ms: u64) -> Taken {
        self.quota = quota;
        let used = self.used.saturating_add(self.since);
        let wanted = used.saturating_add(quota.cost);
        let charged = used.max(wanted.min(quota.limit));
        self.since += charged - used;
        let allowed = wanted <= quota.limit;
        let remaining = quota.limit.saturating_sub(charged);
        self.standing = self.standing.after(allowed, remaining == 0);
        Taken { allowed, remaining, reset_ms: self.ends_ms.saturating_sub(now_ms) }
    }
}

impl KeyState for DelayedWindow {
    fn is_over(&self, now_ms: u64) -> bool {
        self.ends_ms <= now_ms
    }

    fn importance(&self) -> (KeyStanding, u64) {
        (self.standing, self.ends_ms)
    }
}

impl Delayed {
    pub(super) fn new(
        windows: SharedWindows,
        interval_ms: u64,
        failures: Arc<Failures>,
        unfinished: UnfinishedWork,
    ) -> Delayed {
        Delayed {
            windows,
            interval_ms,
            failures,
            unfinished,
            table: KeyTable::holding(KEYS_MAX),
            pending: Mutex::default(),
            wake: Notify::new(),
        }
    }

    /// The windows in Redis.
    pub(super) fn windows(&self) -> &SharedWindows {
        &self.windows
    }

    /// Whether windows of this length can be counted here: those that are longer than the interval.
    pub(super) fn takes(&self, window_ms: u64) -> bool {
        window_ms > self.interval_ms
    }

    /// Counts one request under `key`, which begins with [`SharedWindows::begin_key`].
    pub(super) fn take(self: &Arc<Self>, worker: &Rc<WorkerLocal>, key: &[u8], quota: Quota) -> Taken {
        let now_ms = worker.now_ms();
        let (taken, pending) = match key.len() {
            ..=KEY_BYTES_MAX => self.count(key, quota, now_ms),
            _ => self.count(&self.windows.shortened(key), quota, now_ms),
        };
        if let Some((key, is_new)) = pending {
            self.remember(worker, key, is_new);
        }
        taken
    }

    /// Counts a request; gives the key as well if it has to be synchronised, and whether at once.
    fn count(&self, key: &[u8], quota: Quota, now_ms: u64) -> (Taken, Option<DueKey>) {
        self.table.with(
            key,
            now_ms,
            || DelayedWindow::starting(key.into(), quota),
            |window| {
                let is_new = window.is_over(now_ms);
                if is_new {
                    window.used = 0;
                    window.since = 0;
                    window.ends_ms = now_ms.saturating_add(quota.window_ms);
                    window.number = window.number.wrapping_add(1);
                    // A task that ended with its worker may have left the mark behind.
                    window.is_pending = false;
                }
                let taken = window.take(quota, now_ms);
                let waits = std::mem::replace(&mut window.is_pending, true);
                (taken, (!waits).then(|| (window.key.clone(), is_new)))
            },
        )
    }

    fn remember(self: &Arc<Self>, worker: &Rc<WorkerLocal>, key: Arc<[u8]>, is_new: bool) {
        let mut pending = self.pending.lock();
        let list = if is_new { &mut pending.at_once } else { &mut pending.later };
        if list.len() >= PENDING_MAX {
            drop(pending);
            self.table.with_known(&key, |window| window.is_pending = false);
            return;
        }
        list.push(key);
        let was_running = std::mem::replace(&mut pending.is_running, true);
        drop(pending);
        if !was_running {
            env::spawn(self.clone().synchronise(worker.clone()));
        } else if is_new {
            self.wake.notify_one();
        }
    }

    /// Synchronises until nothing is left to do.
    async fn synchronise(self: Arc<Self>, worker: Rc<WorkerLocal>) {
        let _piece = self.unfinished.begin();
        let mut running = SyncTaskGuard { of: self, is_marked: true };
        let this = running.of.clone();
        let mut due_ms = now_ms() + this.interval_ms;
        loop {
            let at_once = std::mem::take(&mut this.pending.lock().at_once);
            this.send_all(&worker, at_once).await;
            let left_ms = due_ms.saturating_sub(now_ms());
            if left_ms > 0 && !this.unfinished.is_ending() {
                tokio::select! {
                    biased;
                    () = this.wake.notified() => {}
                    () = env::sleep_ms(left_ms.min(ENDING_LOOK_MS)) => {}
                }
                continue;
            }
            due_ms = now_ms() + this.interval_ms;
            let later = std::mem::take(&mut this.pending.lock().later);
            let was_idle = later.is_empty() || this.unfinished.is_ending();
            this.send_all(&worker, later).await;
            if was_idle {
                let mut pending = this.pending.lock();
                if pending.at_once.is_empty() && pending.later.is_empty() {
                    // Under the lock, so that a key that comes now starts the task again.
                    pending.is_running = false;
                    running.is_marked = false;
                    return;
                }
            }
        }
    }

    async fn send_all(&self, worker: &Rc<WorkerLocal>, mut keys: Vec<Arc<[u8]>>) {
        while !keys.is_empty() {
            let rest = keys.split_off(keys.len().min(SYNC_TOGETHER));
            all(keys.iter().map(|key| self.send(worker, key)).collect()).await;
            keys = rest;
        }
    }

    /// Adds what was let through since the last time to the count in Redis, and takes over what all have
    /// used.
    async fn send(&self, worker: &Rc<WorkerLocal>, key: &[u8]) {
        let state = self.table.with_known(key, |window| {
            window.is_pending = false;
            (window.since, window.number, window.quota)
        });
        let Some((since, number, quota)) = state else { return };
        match self.windows.add(worker, key, since, quota).await {
            Ok(counted) => {
                self.table.with_known(key, |window| window.take_over(counted, since, number, now_ms()));
            }
            // The count stays, and is sent with the next request of the key.
            Err(error) => self.failures.note(&error, now_ms()),
        }
    }
}

impl DelayedWindow {
    fn take_over(&mut self, counted: WindowCount, sent: u64, number: u32, now_ms: u64) {
        if self.number == number {
            self.used = counted.used;
            self.since = self.since.saturating_sub(sent);
            self.ends_ms = now_ms.saturating_add(counted.reset_ms);
        }
    }
}

/// The monotonic clock, in milliseconds.
fn now_ms() -> u64 {
    env::monotonic_ns() / 1_000_000
}

/// Runs futures at the same time until all have ended. They wait for the same few connections, so that one
/// wake-up commonly ends many of them.
async fn all<'a>(futures: Vec<impl Future<Output = ()> + 'a>) {
    let mut running: Vec<Pin<Box<dyn Future<Output = ()> + 'a>>> =
        futures.into_iter().map(|future| Box::pin(future) as Pin<Box<_>>).collect();
    poll_fn(|cx| {
        running.retain_mut(|future| future.as_mut().poll(cx).is_pending());
        if running.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit_count::window::WindowType;
    use crate::shared::redis::RedisClient;
    use crate::shared::redis::settings::{RedisSettings, RedisTopology};
    use exchange::plugin::BufferedReply;
    use exchange::plugin::state::StateRegistry;

    fn delayed() -> Delayed {
        let (states, services) = (StateRegistry::default(), exchange::testing::services());
        let build = exchange::testing::build("/routes/1", None, &states, &services);
        let settings = RedisSettings {
            topology: RedisTopology::Single("127.0.0.1:1".to_owned()),
            username: None,
            password: None,
            database: 0,
            tls_verifies: None,
            connect_timeout_ms: 1,
            reply_timeout_ms: 1,
            idle_timeout_ms: 1_000,
            pool: 1,
        };
        let redis = RedisClient::new(&build, &settings).unwrap();
        let windows = SharedWindows::new(redis, "limit-count", "g:".to_owned(), WindowType::Fixed);
        let failures = Arc::new(Failures::new(&build, "limit-count", false, BufferedReply::status(500)));
        Delayed::new(windows, 1_000, failures, UnfinishedWork::default())
    }

    const QUOTA: Quota = Quota { limit: 5, window_ms: 10_000, window_type: WindowType::Fixed, cost: 1 };

    fn taken(allowed: bool, remaining: u64, reset_ms: u64) -> Taken {
        Taken { allowed, remaining, reset_ms }
    }

    #[test]
    fn requests_count_at_once_and_synchronise_once() {
        let delayed = delayed();
        let (first, pending) = delayed.count(b"k", QUOTA, 0);
        assert_eq!(first, taken(true, 4, 10_000));
        assert!(matches!(pending, Some((key, true)) if &*key == b"k"), "a new key is sent at once");
        let (second, pending) = delayed.count(b"k", QUOTA, 100);
        assert_eq!((second, pending.is_none()), (taken(true, 3, 9_900), true));
        // The others have used two more; the request that comes meanwhile is not lost.
        let state = |window: &mut DelayedWindow| {
            window.is_pending = false;
            (window.since, window.number)
        };
        let (sent, number) = delayed.table.with_known(b"k", state).unwrap();
        let (third, pending) = delayed.count(b"k", QUOTA, 200);
        assert_eq!((sent, third), (2, taken(true, 2, 9_800)));
        assert!(matches!(pending, Some((_, false))), "a known key is sent later");
        let counted = WindowCount { used: 4, reset_ms: 5_000 };
        delayed.table.with_known(b"k", |window| window.take_over(counted, sent, number, 300));
        assert_eq!(delayed.count(b"k", QUOTA, 300).0, taken(false, 0, 5_000));
        assert_eq!(delayed.count(b"k", Quota { limit: 7, ..QUOTA }, 300).0, taken(true, 1, 5_000));
    }

    #[test]
    fn new_window_begins_empty_and_ignores_late_replies() {
        let delayed = delayed();
        for _ in 0..5 {
            assert!(delayed.count(b"k", QUOTA, 0).0.allowed);
        }
        assert!(!delayed.count(b"k", QUOTA, 9_999).0.allowed);
        let (first, pending) = delayed.count(b"k", QUOTA, 10_000);
        assert_eq!(first, taken(true, 4, 10_000));
        assert!(matches!(pending, Some((_, true))));
        let late = WindowCount { used: 5, reset_ms: 1 };
        delayed.table.with_known(b"k", |window| window.take_over(late, 5, 1, 10_000));
        assert_eq!(delayed.count(b"k", QUOTA, 10_001).0, taken(true, 3, 9_999));
    }

    #[test]
    fn keys_that_wait_are_limited() {
        let delayed = Arc::new(delayed());
        let worker =
            exchange::testing::Scene::new().exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").local().clone();
        let flood = async {
            for number in 0..2 * PENDING_MAX as u64 {
                delayed.take(&worker, &number.to_be_bytes(), QUOTA);
            }
        };
        env::block_on(flood).unwrap();
        assert_eq!(delayed.pending.lock().at_once.len(), PENDING_MAX);
        let last = (2 * PENDING_MAX as u64 - 1).to_be_bytes();
        assert_eq!(delayed.table.with_known(&last, |window| window.is_pending), Some(false));
    }

    #[test]
    fn keys_are_limited() {
        let delayed = delayed();
        for number in 0..2 * KEYS_MAX as u64 {
            delayed.count(&number.to_be_bytes(), QUOTA, 1);
        }
        assert!(delayed.table.keys() <= KEYS_MAX, "{}", delayed.table.keys());
    }
}
