//! Clients that send requests without a pause, on kept and on fresh connections, and count: a response other
//! than 200 fails the test. Knows nothing of the changes to the gateway meanwhile.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use testkit::{Client, wait_until};

/// The running clients of one address.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    served: Arc<AtomicU64>,
    callers: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts clients that request `path`.
    pub(crate) fn start(address: SocketAddr, path: &'static str) -> Load {
        let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let callers = (0..CLIENTS)
            .map(|number| {
                let (stop, served) = (Arc::clone(&stop), Arc::clone(&served));
                std::thread::spawn(move || call(address, path, number % 3 == 0, &stop, &served))
            })
            .collect();
        let load = Load { stop, served, callers };
        load.goes_on();
        load
    }

    /// Waits until every client has had time for another response.
    pub(crate) fn goes_on(&self) {
        let before = self.served.load(Ordering::SeqCst);
        wait_until("traffic went on", || {
            self.served.load(Ordering::SeqCst) > before + 2 * CLIENTS
                || self.callers.iter().any(JoinHandle::is_finished)
        });
        assert!(!self.callers.iter().any(JoinHandle::is_finished), "a request failed; see above");
    }

    /// Ends the clients, and returns the number of responses.
    pub(crate) fn stop(self) -> u64 {
        self.goes_on();
        self.stop.store(true, Ordering::SeqCst);
        for caller in self.callers {
            caller.join().unwrap();
        }
        self.served.load(Ordering::SeqCst)
    }
}

fn call(address: SocketAddr, path: &str, fresh: bool, stop: &AtomicBool, served: &AtomicU64) {
    let mut client = Client::connect(address);
    while !stop.load(Ordering::SeqCst) {
        let response = client.get(path);
        assert_eq!(response.status, 200, "{}", response.text());
        served.fetch_add(1, Ordering::SeqCst);
        if fresh || response.header("connection") == Some("close") {
            client = Client::connect(address);
        }
    }
}

/// Several clients for each worker.
const CLIENTS: u64 = 12;
