//! A thread for work of plugins that would keep a worker for more than a millisecond, such as checking a large body. It is
//! started with the first piece of work and does one at a time. It knows no plugin.

use std::sync::mpsc::{Sender, channel};

use parking_lot::Mutex;
use tokio::sync::oneshot;

type Work = Box<dyn FnOnce() + Send>;

/// See the module. Its thread ends with this value.
#[derive(Default)]
pub struct SideThread {
    work: Mutex<Option<Sender<Work>>>,
}

impl SideThread {
    /// Runs `work` there and gives its result; none if the thread cannot be started or `work` panics. There is at most one
    /// piece of work for each request in flight, so that the queue needs no bound of its own.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (sender, result) = oneshot::channel();
        let work = move || {
            // The request may have ended meanwhile.
            let _ = sender.send(work());
        };
        self.queue(Box::new(work))?;
        result.await.ok()
    }

    fn queue(&self, work: Work) -> Option<()> {
        let mut queue = self.work.lock();
        if let Some(running) = &*queue {
            return running.send(work).ok();
        }
        let (sender, received) = channel::<Work>();
        let serve = move || {
            for work in received {
                // A panic costs its own request only.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            }
        };
        std::thread::Builder::new().name("side".to_owned()).spawn(serve).ok()?;
        queue.insert(sender).send(work).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn side_thread_survives_panic_of_its_work() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let side = SideThread::default();
        runtime.block_on(async {
            let here = std::thread::current().id();
            let there = side.run(|| std::thread::current().id()).await.unwrap();
            assert_ne!(here, there);
            assert_eq!(side.run(|| -> u8 { panic!("as the test wants") }).await, None);
            assert_eq!(side.run(|| std::thread::current().id()).await, Some(there));
        });
    }
}
