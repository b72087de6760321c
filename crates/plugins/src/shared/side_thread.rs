//! A thread for work that would hold up a worker: one for the process, started with the first work. It knows no plugin.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, LazyLock};
use std::task::{Poll, Waker};

use parking_lot::Mutex;

/// Jobs that wait for the thread. Each holds a request of a client; one more is refused, because the thread is behind.
const JOBS_MAX: usize = 1_024;

type Job = Box<dyn FnOnce() + Send>;

/// None where the thread cannot be started.
static THREAD: LazyLock<Option<SyncSender<Job>>> = LazyLock::new(|| {
    let (jobs, handed_in) = sync_channel(JOBS_MAX);
    std::thread::Builder::new().name("plugins".to_owned()).spawn(move || work(&handed_in)).ok()?;
    Some(jobs)
});

fn work(jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        // A job that panics ends with its result missing; the thread serves others.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

/// The result on its way back to the worker.
struct Answer<T> {
    result: Option<T>,
    waker: Option<Waker>,
    is_over: bool,
}

/// Tells the worker that the job is over, with or without a result.
struct Sender<T>(Arc<Mutex<Answer<T>>>);

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut answer = self.0.lock();
        answer.is_over = true;
        if let Some(waker) = answer.waker.take() {
            waker.wake();
        }
    }
}

/// Runs `job` on the thread and waits for its result without blocking the worker. If the request ends while its job
/// waits for the thread, the job does not run.
///
/// # Errors
/// The thread is behind or could not be started, or the job panicked.
pub(crate) async fn run<T: Send + 'static>(
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, &'static str> {
    let answer = Arc::new(Mutex::new(Answer { result: None, waker: None, is_over: false }));
    let sender = Sender(answer.clone());
    let thread = THREAD.as_ref().ok_or("the side thread could not be started")?;
    let job = Box::new(move || {
        // The other holder is the future that waits.
        if Arc::strong_count(&sender.0) == 1 {
            return;
        }
        let result = job();
        sender.0.lock().result = Some(result);
    });
    thread.try_send(job).map_err(|_| "the side thread is behind with its work")?;
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

    use super::*;

    #[test]
    fn job_on_side_thread_gives_its_result() {
        let here = std::thread::current().id();
        let job = run(move || (std::thread::current().id() != here, 7));
        assert_eq!(env::block_on(job).unwrap(), Ok((true, 7)));
    }

    #[test]
    fn job_of_an_ended_request_does_not_run() {
        let (open, gate) = sync_channel::<()>(0);
        let mut first = Box::pin(run(move || gate.recv().is_ok()));
        let ran = Arc::new(Mutex::new(false));
        let flag = ran.clone();
        let mut second = Box::pin(run(move || *flag.lock() = true));
        let mut context = std::task::Context::from_waker(Waker::noop());
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        drop(second);
        open.send(()).unwrap();
        assert_eq!(env::block_on(first).unwrap(), Ok(true));
        assert_eq!(env::block_on(run(|| 1)).unwrap(), Ok(1), "it comes after the second");
        assert!(!*ran.lock());
    }

    #[test]
    fn panic_on_side_thread_is_an_error() {
        let job = run(|| -> u8 { panic!("a job of a test") });
        assert_eq!(env::block_on(job).unwrap(), Err("the work panicked"));
        assert_eq!(env::block_on(run(|| 1)).unwrap(), Ok(1), "the thread goes on");
    }
}
