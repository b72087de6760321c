//! The thread that interrupts interpreters which have run for longer than a slice. It sleeps while no Lua
//! runs. Beginning and ending a slice is a write to memory. It knows no interpreter.

use std::cell::OnceCell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

use parking_lot::Mutex;

use super::interrupt;

/// Time between two looks at all threads: a slice takes as long at least, enough for each call that does no
/// heavy work.
const TICK: Duration = Duration::from_millis(5);
/// The longest slice, unless the thread itself has to wait for a processor.
pub(crate) const SLICE_MAX: Duration = Duration::from_millis(10);
const _: () = assert!(SLICE_MAX.as_millis() == 2 * TICK.as_millis(), "a slice is seen by two looks");
/// Looks without Lua before the thread sleeps until Lua runs again: a second, because each waking from this
/// sleep costs the worker a system call.
const IDLE_TICKS_MAX: u32 = 200;

/// The slices of one thread that runs interpreters.
pub(super) struct ThreadWatch {
    thread: libc::pid_t,
    /// Counts slices; odd while one runs. Only its thread writes it.
    slices: AtomicU64,
    /// The count at the last look. Only the watchdog uses it.
    seen: AtomicU64,
}

static THREADS: Mutex<Vec<Weak<ThreadWatch>>> = Mutex::new(Vec::new());
static WATCHDOG: OnceLock<Thread> = OnceLock::new();
static IS_ASLEEP: AtomicBool = AtomicBool::new(false);

impl ThreadWatch {
    /// That of this thread; none where the thread cannot be interrupted.
    pub(super) fn of_this_thread() -> Option<Arc<ThreadWatch>> {
        thread_local! {
            static WATCH: OnceCell<Option<Arc<ThreadWatch>>> = const { OnceCell::new() };
        }
        WATCH.with(|watch| watch.get_or_init(ThreadWatch::make).clone())
    }

    fn make() -> Option<Arc<ThreadWatch>> {
        if !interrupt::is_delivered() {
            tracing::warn!("Lua runs without its compiler on this thread: signals do not reach it");
            return None;
        }
        let watch = Arc::new(ThreadWatch {
            thread: interrupt::this_thread(),
            slices: AtomicU64::new(0),
            seen: AtomicU64::new(0),
        });
        let mut threads = THREADS.lock();
        threads.retain(|other| other.strong_count() > 0);
        threads.push(Arc::downgrade(&watch));
        Some(watch)
    }

    /// A slice begins now, also where another one was running.
    pub(super) fn begin_slice(&self) {
        let ended = (self.slices.load(Ordering::Relaxed) + 1) & !1;
        // SeqCst: either this thread sees that the watchdog sleeps, or the watchdog sees the slice.
        self.slices.swap(ended + 1, Ordering::SeqCst);
        if IS_ASLEEP.load(Ordering::SeqCst) {
            wake();
        }
    }

    /// No slice runs any more.
    pub(super) fn end_slice(&self) {
        let ended = (self.slices.load(Ordering::Relaxed) + 1) & !1;
        self.slices.store(ended, Ordering::Release);
    }

    /// Whether the thread has run Lua since the last look. Interrupts a slice that has run since then.
    fn look(&self) -> bool {
        let slices = self.slices.load(Ordering::SeqCst);
        let is_running = slices % 2 == 1;
        let is_same = self.seen.swap(slices, Ordering::Relaxed) == slices;
        if is_running && is_same {
            interrupt::interrupt(self.thread);
        }
        is_running || !is_same
    }
}

#[cold]
fn wake() {
    IS_ASLEEP.store(false, Ordering::SeqCst);
    if let Some(watchdog) = WATCHDOG.get() {
        watchdog.unpark();
    }
}

/// Starts the thread.
///
/// # Errors
/// The system's.
pub(super) fn start() -> io::Result<()> {
    let started = thread::Builder::new().name("lua-watchdog".to_owned()).spawn(watch)?;
    WATCHDOG.get_or_init(|| started.thread().clone());
    Ok(())
}

fn watch() {
    let mut idle_ticks = 0;
    loop {
        thread::sleep(TICK);
        if look_at_all() {
            idle_ticks = 0;
            continue;
        }
        idle_ticks += 1;
        if idle_ticks < IDLE_TICKS_MAX {
            continue;
        }
        IS_ASLEEP.store(true, Ordering::SeqCst);
        // A slice that has begun before the flag was set is seen here, one behind it wakes the thread.
        if !look_at_all() {
            while IS_ASLEEP.load(Ordering::SeqCst) {
                thread::park();
            }
        }
        IS_ASLEEP.store(false, Ordering::SeqCst);
        idle_ticks = 0;
    }
}

/// Looks at each thread; whether one has run Lua.
fn look_at_all() -> bool {
    let mut has_run = false;
    for watch in THREADS.lock().iter().filter_map(Weak::upgrade) {
        has_run |= watch.look();
    }
    has_run
}
