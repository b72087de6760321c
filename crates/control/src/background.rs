//! A thread with an event loop of its own, on which one task runs until it is stopped. It knows no task.

use std::future::Future;
use std::io;
use std::thread::JoinHandle;

use tokio::sync::watch;

/// The running thread.
pub(crate) struct BackgroundThread {
    name: &'static str,
    handle: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

impl BackgroundThread {
    /// Starts a thread called `name` for the task that `make` returns. Its receiver is true once the task has to end. At most
    /// `lookups_max` name lookups run at the same time, because the system's resolver blocks a thread for each.
    ///
    /// # Errors
    /// The system cannot start a thread, or has no descriptor for its event loop.
    pub(crate) fn start<F: Future<Output = ()>>(
        name: &'static str,
        lookups_max: usize,
        make: impl FnOnce(watch::Receiver<bool>) -> F + Send + 'static,
    ) -> io::Result<BackgroundThread> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(lookups_max)
            .build()?;
        let (stop, stopping) = watch::channel(false);
        let handle = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            runtime.block_on(make(stopping));
            // `shutdown_background`, because a name lookup that still runs would block the end of the thread.
            runtime.shutdown_background();
        })?;
        Ok(BackgroundThread { name, handle, stop })
    }

    /// Stops the task and waits for the end of the thread.
    pub(crate) fn stop(self) {
        self.stop.send_replace(true);
        if self.handle.join().is_err() {
            tracing::error!(thread = self.name, "a background thread had panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn stop_ends_the_task_and_its_thread() {
        let is_over = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&is_over);
        let thread = BackgroundThread::start("test", 1, |mut stopping| async move {
            let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
            theirs.store(true, Ordering::SeqCst);
        });
        thread.unwrap().stop();
        assert!(is_over.load(Ordering::SeqCst));
    }

    #[test]
    fn panic_of_the_task_does_not_spread() {
        let thread = BackgroundThread::start("test", 1, |_| async { panic!("the test wants it") });
        thread.unwrap().stop();
    }
}
