//! A thread for work that would hold up a worker: one for the process, started with the first work. It knows
//! no plugin.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock};
use std::task::{Poll, Waker};

use parking_lot::Mutex;

/// Jobs that wait for the thread. Each holds a request of a client; one more is refused, because the thread
/// is behind. Jobs for responses count and are not refused.
const JOBS_MAX: usize = 1_024;
/// Copies of bodies that jobs hold, all together, in bytes: two of the longest that a plugin checks by
/// default.
const BYTES_MAX: usize = 128 * 1024 * 1024;

type SideThreadJob = Box<dyn FnOnce() + Send>;

/// A thread with the jobs that wait for it.
struct SideThread {
    jobs: Sender<SideThreadJob>,
    waiting: Arc<AtomicUsize>,
}

/// None where the thread cannot be started.
static THREAD: LazyLock<Option<SideThread>> = LazyLock::new(SideThread::start);

impl SideThread {
    fn start() -> Option<SideThread> {
        let (jobs, handed_in) = channel();
        let waiting: Arc<AtomicUsize> = Arc::default();
        let side = SideThread { jobs, waiting: waiting.clone() };
        let work = move || work(&handed_in, &waiting);
        std::thread::Builder::new().name("plugins".to_owned()).spawn(work).ok()?;
        Some(side)
    }

    /// Hands a job in, if fewer than `jobs_max` wait.
    fn hand_in(&self, job: SideThreadJob, jobs_max: usize) -> Result<(), &'static str> {
        let more = |waiting: usize| (waiting < jobs_max).then_some(waiting + 1);
        self.waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .map_err(|_| "the side thread is behind with its work")?;
        self.jobs.send(job).map_err(|_| "the side thread has ended")
    }
}

fn work(jobs: &Receiver<SideThreadJob>, waiting: &AtomicUsize) {
    while let Ok(job) = jobs.recv() {
        waiting.fetch_sub(1, Ordering::Relaxed);
        // A job that panics ends with its result missing; the thread serves others.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

/// The bytes that jobs hold.
#[derive(Default)]
struct Bytes(AtomicUsize);

static BYTES: Bytes = Bytes(AtomicUsize::new(0));

/// Bytes of a job, counted until the job is over.
pub(crate) struct HeldBytes {
    count: usize,
    all: &'static Bytes,
}

impl Bytes {
    fn hold(&'static self, count: usize) -> Option<HeldBytes> {
        // A single job may be longer, because nothing else would be held with it.
        let more = |held: usize| (held == 0 || held + count <= BYTES_MAX).then_some(held + count);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(HeldBytes { count, all: self })
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.count, Ordering::Relaxed);
    }
}

/// Counts `count` bytes for a job that is yet to be made; none if the jobs hold too many.
pub(crate) fn hold_job_bytes(count: usize) -> Option<HeldBytes> {
    BYTES.hold(count)
}

/// The result on its way back to the worker.
struct SideThreadResult<T> {
    result: Option<T>,
    waker: Option<Waker>,
    is_over: bool,
}

/// Tells the worker that the job is over, with or without a result.
struct Reporter<T>(Arc<Mutex<SideThreadResult<T>>>);

impl<T> Drop for Reporter<T> {
    fn drop(&mut self) {
        let mut answer = self.0.lock();
        answer.is_over = true;
        if let Some(waker) = answer.waker.take() {
            waker.wake();
        }
    }
}

/// Runs `job` on the thread and waits for its result without blocking the worker. A job of a request that has
/// ended is dropped when it is its turn.
///
/// # Errors
/// The thread is behind or could not be started, or the job panicked.
pub(crate) async fn run_on_side_thread<T: Send + 'static>(
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, &'static str> {
    run_on(THREAD.as_ref(), JOBS_MAX, job).await
}

/// As [`run_on_side_thread`], for a job of a response, which waits however far the thread is behind: its
/// request was executed, and a client that is told otherwise repeats it. The exchange's own limits bound the
/// bytes that it holds and the time that it waits.
///
/// # Errors
/// The thread could not be started, or the job panicked.
pub(crate) async fn run_for_response<T: Send + 'static>(
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, &'static str> {
    run_on(THREAD.as_ref(), usize::MAX, job).await
}

async fn run_on<T: Send + 'static>(
    thread: Option<&SideThread>,
    jobs_max: usize,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, &'static str> {
    let answer = Arc::new(Mutex::new(SideThreadResult { result: None, waker: None, is_over: false }));
    let sender = Reporter(answer.clone());
    let thread = thread.ok_or("the side thread could not be started")?;
    let job = Box::new(move || {
        // The future that waits has the other reference; without it the request has ended.
        if Arc::strong_count(&sender.0) == 1 {
            return;
        }
        let result = job();
        sender.0.lock().result = Some(result);
    });
    thread.hand_in(job, jobs_max)?;
    poll_fn(|cx| {
        let mut answer = answer.lock();
        match answer.result.take() {
            Some(result) => Poll::Ready(Ok(result)),
            None if answer.is_over => Poll::Ready(Err("the work panicked")),
            None => {
                answer.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use net::env;
    use testkit::wait_until;

    use super::*;

    #[test]
    fn job_on_side_thread_gives_its_result() {
        let here = std::thread::current().id();
        let job = run_on_side_thread(move || (std::thread::current().id() != here, 7));
        assert_eq!(env::block_on(job).unwrap(), Ok((true, 7)));
    }

    #[test]
    fn job_of_an_ended_request_does_not_run() {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let (report, ran) = std::sync::mpsc::channel();
        let last = async {
            let mut first = Box::pin(run_on_side_thread(move || wait.recv()));
            let mut ended = Box::pin(run_on_side_thread(move || report.send(())));
            poll_fn(|cx| {
                assert!(first.as_mut().poll(cx).is_pending() && ended.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            drop(ended);
            go.send(()).unwrap();
            run_on_side_thread(|| 1).await
        };
        assert_eq!(env::block_on(last).unwrap(), Ok(1));
        assert!(ran.try_recv().is_err());
    }

    #[test]
    fn response_waits_where_request_is_refused() {
        let thread = SideThread::start();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let jobs = async {
            let mut first = Box::pin(run_on(thread.as_ref(), 1, move || wait.recv()));
            let is_pending = poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx).is_pending())).await;
            assert!(is_pending);
            wait_until("the first job runs", || {
                thread.as_ref().unwrap().waiting.load(Ordering::Relaxed) == 0
            });
            let mut second = Box::pin(run_on(thread.as_ref(), 1, || 2));
            let mut response = Box::pin(run_on(thread.as_ref(), usize::MAX, || 3));
            let is_pending = poll_fn(|cx| Poll::Ready(second.as_mut().poll(cx).is_pending())).await;
            assert!(is_pending);
            let is_pending = poll_fn(|cx| Poll::Ready(response.as_mut().poll(cx).is_pending())).await;
            assert!(is_pending);
            assert_eq!(
                run_on(thread.as_ref(), 1, || 4).await,
                Err("the side thread is behind with its work")
            );
            go.send(()).unwrap();
            (second.await, response.await)
        };
        assert_eq!(env::block_on(jobs).unwrap(), (Ok(2), Ok(3)));
    }

    #[test]
    fn bytes_of_jobs_are_limited() {
        static ALL: Bytes = Bytes(AtomicUsize::new(0));
        let long = ALL.hold(BYTES_MAX + 1).unwrap();
        assert!(ALL.hold(1).is_none());
        drop(long);
        let all: Vec<_> = (0..2).map(|_| ALL.hold(BYTES_MAX / 2).unwrap()).collect();
        assert!(ALL.hold(1).is_none());
        drop(all);
        assert!(ALL.hold(1).is_some());
    }

    #[test]
    fn panic_on_side_thread_is_an_error() {
        let job = run_on_side_thread(|| -> u8 { panic!("a job of a test") });
        assert_eq!(env::block_on(job).unwrap(), Err("the work panicked"));
        assert_eq!(env::block_on(run_on_side_thread(|| 1)).unwrap(), Ok(1), "the thread goes on");
    }
}
