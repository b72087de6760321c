//! The thread on which batches are delivered: one event loop for all queues, with a client of its own, beside
//! the workers and never in their way. It runs what it is handed and knows no queue.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::outbound::HttpClient;
use net::env;

/// Idle connections are looked through this often.
const SWEEP_MS: u64 = 1_000;

/// Starts tasks on the thread; it may call [`env::spawn`].
type ServiceJob = Box<dyn FnOnce(Rc<HttpClient>) + Send>;

/// A running service thread; dropping it ends the thread and what runs on it.
pub(super) struct ServiceThread {
    jobs: UnboundedSender<ServiceJob>,
}

impl ServiceThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the thread or its event loop cannot be made.
    pub(super) fn start() -> io::Result<ServiceThread> {
        let (jobs, handed_in) = unbounded_channel();
        let handed_in = Arc::new(Mutex::new(handed_in));
        env::service("services", move || run(handed_in.clone()))?;
        Ok(ServiceThread { jobs })
    }

    /// Runs `job` on the thread. There are as many jobs as queues, so that this channel needs no bound of its
    /// own.
    pub(super) fn run(&self, job: impl FnOnce(Rc<HttpClient>) + Send + 'static) {
        // The thread ends only with this value.
        let _ = self.jobs.send(Box::new(job));
    }
}

async fn run(jobs: Arc<Mutex<UnboundedReceiver<ServiceJob>>>) {
    // One run at a time has them; a run that has panicked has let go of them.
    let mut jobs = jobs.lock().await;
    let client = Rc::new(HttpClient::default());
    loop {
        tokio::select! {
            job = jobs.recv() => match job {
                Some(job) => job(client.clone()),
                None => return,
            },
            () = env::sleep_ms(SWEEP_MS) => client.sweep(),
        }
    }
}
