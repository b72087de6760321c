//! Threads that the process cannot do without: each goes on after a panic, and a list of them tells readiness
//! and metrics. It knows no thread and writes no log; the hook of panics has told the place by then.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;

use parking_lot::Mutex;

use crate::clock::monotonic_ns;

/// Pause before the first start after a panic, in milliseconds; it doubles with each panic that follows soon.
pub const PAUSE_MS: u64 = 100;
/// Longest pause before a start.
pub const PAUSE_MAX_MS: u64 = 5_000;
/// A thread counts as recovered when it has run for this long after a panic.
const RECOVERED_AFTER_MS: u64 = 2_000;

/// The life of one thread.
#[derive(Debug)]
pub struct ThreadLife {
    name: &'static str,
    panics: AtomicU64,
    /// Milliseconds of the monotonic clock at the last panic; 0 is never.
    panicked_ms: AtomicU64,
    is_down: AtomicBool,
    pause_ms: AtomicU64,
}

/// The lives of the process. There are a dozen of them, and those of threads that have ended are left out.
static LIVES: Mutex<Vec<Weak<ThreadLife>>> = Mutex::new(Vec::new());

impl ThreadLife {
    /// The life of a thread called `name`, which is listed from now on until it is dropped.
    pub fn begin(name: &'static str) -> Arc<ThreadLife> {
        let life = Arc::new(ThreadLife {
            name,
            panics: AtomicU64::new(0),
            panicked_ms: AtomicU64::new(0),
            is_down: AtomicBool::new(false),
            pause_ms: AtomicU64::new(PAUSE_MS),
        });
        let mut lives = LIVES.lock();
        lives.retain(|other| other.strong_count() > 0);
        lives.push(Arc::downgrade(&life));
        life
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How often it has panicked.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Notes a panic. The thread is down until [`ThreadLife::restarted`]; returns how many milliseconds it
    /// has to wait before.
    pub fn panicked(&self) -> u64 {
        let now_ms = now_ms();
        let before_ms = self.panicked_ms.swap(now_ms, Ordering::Relaxed);
        let pause_ms = match self.pause_ms.load(Ordering::Relaxed) {
            pause_ms if before_ms != 0 && now_ms.saturating_sub(before_ms) < 2 * PAUSE_MAX_MS => pause_ms,
            _ => PAUSE_MS,
        };
        self.pause_ms.store((2 * pause_ms).min(PAUSE_MAX_MS), Ordering::Relaxed);
        self.is_down.store(true, Ordering::Relaxed);
        self.panics.fetch_add(1, Ordering::Relaxed);
        pause_ms
    }

    /// Whether it waits for its next start.
    pub fn is_down(&self) -> bool {
        self.is_down.load(Ordering::Relaxed)
    }

    /// Notes that it runs again.
    pub fn restarted(&self) {
        self.is_down.store(false, Ordering::Relaxed);
    }

    /// Why the process is not ready; none if the thread has not panicked, or has recovered.
    fn complaint(&self, now_ms: u64) -> Option<String> {
        if self.is_down.load(Ordering::Relaxed) {
            return Some(format!("the thread {} has panicked and is being started again", self.name));
        }
        let panicked_ms = self.panicked_ms.load(Ordering::Relaxed);
        let is_recent = panicked_ms != 0 && now_ms.saturating_sub(panicked_ms) < RECOVERED_AFTER_MS;
        is_recent.then(|| format!("the thread {} has panicked and was started again just now", self.name))
    }
}

/// Runs the future that `make` makes, and another one after each panic, until one ends. `on_panic` is told of
/// each panic and how long the pause is; `sleep` waits for so many milliseconds.
pub async fn keep_running<F: Future, S: Future>(
    life: &ThreadLife,
    mut make: impl FnMut() -> F,
    on_panic: impl Fn(&ThreadLife, u64),
    sleep: impl Fn(u64) -> S,
) -> F::Output {
    loop {
        if let Some(output) = until_panic(&mut make).await {
            return output;
        }
        let pause_ms = life.panicked();
        on_panic(life, pause_ms);
        sleep(pause_ms).await;
        life.restarted();
    }
}

/// The output of the future; none if it, or `make`, panicked.
async fn until_panic<F: Future>(make: &mut impl FnMut() -> F) -> Option<F::Output> {
    let future = catch_unwind(AssertUnwindSafe(make)).ok()?;
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Some),
        Err(_) => Poll::Ready(None),
    })
    .await
}

/// Why the process is not ready: the first thread that has panicked and not recovered, as a sentence.
pub fn complaint() -> Option<String> {
    let now_ms = now_ms();
    lives().iter().find_map(|life| life.complaint(now_ms))
}

/// All threads, in the order of their first start.
pub fn lives() -> Vec<Arc<ThreadLife>> {
    LIVES.lock().iter().filter_map(Weak::upgrade).collect()
}

fn now_ms() -> u64 {
    (monotonic_ns() / 1_000_000).max(1)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::task::{Context, Waker};

    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return output;
            }
        }
    }

    #[test]
    fn panic_is_reported_and_the_task_made_again() {
        let life = ThreadLife::begin("a test of panics");
        let (runs, pauses) = (Cell::new(0), RefCell::new(Vec::new()));
        let make = || {
            runs.set(runs.get() + 1);
            let run = runs.get();
            assert!(run != 2, "the test wants it: while it is made");
            async move {
                assert!(run > 4, "the test wants it: while it runs");
                run
            }
        };
        let sleep = |pause_ms| {
            assert!(complaint().is_some_and(|reason| reason.contains("is being started again")));
            pauses.borrow_mut().push(pause_ms);
            std::future::ready(())
        };
        let output = block_on(keep_running(&life, make, |life, _| assert!(life.panics() > 0), sleep));
        assert_eq!((output, life.panics()), (5, 4));
        assert_eq!(*pauses.borrow(), [100, 200, 400, 800]);
        assert!(lives().iter().any(|other| Arc::ptr_eq(&life, other)));
    }

    #[test]
    fn thread_is_recovered_a_while_after_its_panic() {
        let life = ThreadLife::begin("a test of recovery");
        let at = |after_ms| life.complaint(life.panicked_ms.load(Ordering::Relaxed) + after_ms);
        assert_eq!(at(0), None);
        life.panicked();
        assert!(at(60_000).unwrap().ends_with("is being started again"));
        life.restarted();
        assert!(at(RECOVERED_AFTER_MS - 1).unwrap().ends_with("was started again just now"));
        assert_eq!(at(RECOVERED_AFTER_MS), None);
    }
}
