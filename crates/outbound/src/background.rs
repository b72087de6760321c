//! A thread with an event loop of its own, on which one task runs until it is stopped, and begins anew after
//! a panic. It knows no task.

use std::future::Future;
use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use stdx::threads::{ThreadLife, keep_running};
use tokio::sync::watch;

/// The running thread.
pub struct BackgroundThread {
    name: &'static str,
    handle: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

impl BackgroundThread {
    /// Starts a thread called `name` for the task that `make` returns. Its receiver is true once the task has
    /// to end. If the task panics, another one is made after a pause, and readiness and metrics tell. At most
    /// `lookups_max` name lookups run at the same time, because the system's resolver blocks a thread for
    /// each.
    ///
    /// # Errors
    /// The system cannot start a thread, or has no descriptor for its event loop.
    pub fn start<F: Future<Output = ()>>(
        name: &'static str,
        lookups_max: usize,
        make: impl Fn(watch::Receiver<bool>) -> F + Send + 'static,
    ) -> io::Result<BackgroundThread> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(lookups_max)
            .build()?;
        let (stop, stopping) = watch::channel(false);
        let life = ThreadLife::begin(name);
        let handle = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let mut stopped = stopping.clone();
            let running = keep_running(
                &life,
                || make(stopping.clone()),
                tell_panic,
                |pause_ms| tokio::time::sleep(Duration::from_millis(pause_ms)),
            );
            runtime.block_on(async {
                tokio::select! {
                    () = running => {}
                    // A task that has panicked cannot see that it has to end.
                    () = ended_while_down(&life, &mut stopped) => {}
                }
            });
            // `shutdown_background`, because a name lookup that still runs would block the end of the thread.
            runtime.shutdown_background();
        })?;
        Ok(BackgroundThread { name, handle, stop })
    }

    /// Stops the task and waits for the end of the thread.
    pub fn stop(self) {
        self.stop.send_replace(true);
        if self.handle.join().is_err() {
            tracing::error!(thread = self.name, "a background thread had panicked");
        }
    }
}

/// Returns once the thread has to end while its task is not there.
async fn ended_while_down(life: &ThreadLife, stopped: &mut watch::Receiver<bool>) {
    // An error means that the owner of the thread is gone.
    let _ = stopped.wait_for(|is_stopping| *is_stopping).await;
    while !life.is_down() {
        tokio::time::sleep(DOWN_POLL).await;
    }
}

fn tell_panic(life: &ThreadLife, pause_ms: u64) {
    tracing::error!(
        thread = life.name(),
        "the thread {} panicked, which is a fault of the gateway; it is started again in {pause_ms} ms",
        life.name()
    );
}

/// How often a thread that has to end looks whether its task is there.
const DOWN_POLL: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn stop_ends_the_task_and_its_thread() {
        let is_over = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&is_over);
        let thread = BackgroundThread::start("test", 1, move |mut stopping| {
            let theirs = Arc::clone(&theirs);
            async move {
                let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
                theirs.store(true, Ordering::SeqCst);
            }
        });
        thread.unwrap().stop();
        assert!(is_over.load(Ordering::SeqCst));
    }

    fn life_of(name: &str) -> Arc<ThreadLife> {
        stdx::threads::lives().into_iter().find(|life| life.name() == name).unwrap()
    }

    #[test]
    fn task_that_always_panics_can_be_stopped() {
        let thread = BackgroundThread::start("test of panics", 1, |_| async { panic!("the test wants it") });
        let life = life_of("test of panics");
        testkit::wait_until("it has panicked twice", || life.panics() > 1);
        thread.unwrap().stop();
    }

    #[test]
    fn task_is_made_again_after_a_panic() {
        let runs = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let theirs = Arc::clone(&runs);
        let thread = BackgroundThread::start("test of a panic", 1, move |mut stopping| {
            let run = theirs.fetch_add(1, Ordering::SeqCst);
            async move {
                assert!(run > 0, "the test wants it");
                let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
            }
        });
        testkit::wait_until("it runs again", || runs.load(Ordering::SeqCst) == 2);
        assert_eq!(life_of("test of a panic").panics(), 1);
        thread.unwrap().stop();
    }
}
