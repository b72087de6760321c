//! Clients that send requests through the proxy of a root all the time, on kept and on new connections, and
//! note every request without a whole response of status 200.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use testkit::{Client, wait_until};

use crate::clean_root::CleanRoot;
use crate::installed::PROXY;

/// Half of them keep their connections.
const CLIENTS: u64 = 12;
/// Between two requests of a client: some hundred requests a second in all, which leaves the processor to the
/// upgrade.
const PAUSE: Duration = Duration::from_millis(15);

/// The running clients.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    clients: Vec<JoinHandle<Vec<String>>>,
    began: Instant,
}

/// The result of a load.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) answered: u64,
    pub(crate) per_second: u64,
    /// The reason of each lost request.
    pub(crate) lost: Vec<String>,
}

impl Load {
    /// Starts the clients in the network of a root.
    pub(crate) fn start(root: &CleanRoot) -> Load {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let clients = root.in_network(|| {
            let client = |number: u64| {
                let (stop, answered) = (stop.clone(), answered.clone());
                thread::spawn(move || request(number.is_multiple_of(2), &stop, &answered))
            };
            (0..CLIENTS).map(client).collect()
        });
        let load = Load { stop, answered, clients, began: Instant::now() };
        load.goes_on();
        load
    }

    /// Waits until every client has had time for further responses.
    pub(crate) fn goes_on(&self) {
        let before = self.answered.load(Ordering::SeqCst);
        wait_until("traffic went on", || self.answered.load(Ordering::SeqCst) > before + 10 * CLIENTS);
    }

    /// Ends the clients.
    pub(crate) fn stop(self) -> Loaded {
        self.goes_on();
        self.stop.store(true, Ordering::SeqCst);
        let lost: Vec<String> = self.clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        let answered = self.answered.load(Ordering::SeqCst);
        let seconds = self.began.elapsed().as_secs().max(1);
        Loaded { answered, per_second: answered / seconds, lost }
    }
}

/// Requests until `stop`; returns the reasons of lost requests.
fn request(keeps: bool, stop: &AtomicBool, answered: &AtomicU64) -> Vec<String> {
    let mut lost = Vec::new();
    let mut kept: Option<Client> = None;
    while !stop.load(Ordering::SeqCst) {
        match once(kept.take()) {
            Ok((client, is_open)) => {
                answered.fetch_add(1, Ordering::SeqCst);
                kept = Some(client).filter(|_| keeps && is_open);
            }
            Err(reason) => lost.push(reason),
        }
        thread::sleep(PAUSE);
    }
    lost
}

/// One request, on a connection that was kept or on a new one; the connection, and whether it stays open.
fn once(kept: Option<Client>) -> Result<(Client, bool), String> {
    let kind = if kept.is_some() { "kept" } else { "new" };
    let mut client = match kept {
        Some(client) => client,
        None => Client::try_connect(PROXY).map_err(|error| format!("connect: {error}"))?,
    };
    let response = client.try_request("GET", "/load", &[], b"");
    let response = response.map_err(|broken| format!("on a {kind} connection: {broken}"))?;
    if response.status != 200 {
        return Err(format!("{}: {}", response.status, response.text()));
    }
    let is_open = response.header("connection") != Some("close");
    Ok((client, is_open))
}
