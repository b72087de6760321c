//! Binary upgrades and changed listeners under HTTP/2 traffic: every request is answered with 200, on the
//! connection that it was sent on or, where the gateway says that it was not taken, on the next one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use h2::Reason;
use serde_json::json;
use testkit::{Origin, Weir, wait_until};

use super::client::{Client, request, whole};
use crate::support::BINARY;

const CLIENTS: usize = 4;
/// Requests of one client at the same time.
const STREAMS: usize = 8;

/// Clients that ask without a pause.
struct Load {
    stop: Arc<AtomicBool>,
    served: Arc<AtomicU64>,
    callers: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(address: SocketAddr) -> Load {
        let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let call = |_| {
            let (stop, served) = (Arc::clone(&stop), Arc::clone(&served));
            std::thread::spawn(move || call(address, &stop, &served))
        };
        let callers = (0..CLIENTS).map(call).collect();
        let load = Load { stop, served, callers };
        load.goes_on();
        load
    }

    fn goes_on(&self) {
        let before = self.served.load(Ordering::SeqCst);
        wait_until("traffic went on", || {
            self.served.load(Ordering::SeqCst) > before + (2 * CLIENTS * STREAMS) as u64
                || self.callers.iter().any(JoinHandle::is_finished)
        });
        assert!(!self.callers.iter().any(JoinHandle::is_finished), "a request failed; see above");
    }

    fn stop(self) {
        self.goes_on();
        self.stop.store(true, Ordering::SeqCst);
        self.callers.into_iter().for_each(|caller| caller.join().unwrap());
    }
}

/// Whether the gateway says that it has not taken the request.
fn is_untaken(error: &h2::Error) -> bool {
    (error.is_go_away() && error.reason() == Some(Reason::NO_ERROR))
        || error.reason() == Some(Reason::REFUSED_STREAM)
}

fn call(address: SocketAddr, stop: &AtomicBool, served: &AtomicU64) {
    let mut client = Client::connect(address);
    while !stop.load(Ordering::SeqCst) {
        let mut is_over = false;
        let mut responses = Vec::new();
        for _ in 0..STREAMS {
            match client.try_start(request("GET", "/")) {
                Ok(response) => responses.push(response),
                Err(error) => {
                    assert!(!error.is_reset(), "{error}");
                    is_over = true;
                }
            }
        }
        for response in responses {
            match client.run(whole(response)) {
                Ok(answer) => {
                    assert_eq!((answer.status, answer.text().as_str()), (200, "served"));
                    served.fetch_add(1, Ordering::SeqCst);
                }
                Err(error) => {
                    assert!(is_untaken(&error), "a request was lost: {error:?}");
                    is_over = true;
                }
            }
        }
        if is_over {
            client = Client::connect(address);
        }
    }
}

#[test]
fn upgrades_lose_no_request() {
    let origin = Origin::answering("served");
    let weir = Weir::builder(BINARY).settings("workers: 2\n").arguments(&["--upgrade-grace", "20"]).start();
    let upstream = json!({"nodes": {origin.address().to_string(): 1}});
    weir.put("routes/1", json!({"uri": "/*", "upstream": upstream}));
    let load = Load::start(weir.proxy());
    weir.upgrade();
    let first = weir.wait_for_successor(weir.pid());
    load.goes_on();
    first.upgrade();
    let second = weir.wait_for_successor(first.pid());
    load.goes_on();
    first.wait_until_gone();
    load.stop();
    second.terminate();
    second.wait_until_gone();
}

#[test]
fn changed_listeners_lose_no_request() {
    let origin = Origin::answering("served");
    let weir = Weir::builder(BINARY)
        .resources(&crate::support::everything_to(origin.address(), ""))
        .settings("proxy: [127.0.0.1:0]\n")
        .start();
    let port = weir.proxy().port();
    let load = Load::start(weir.proxy());
    for more in ["127.0.0.2:0", "127.0.0.3:0", "127.0.0.2:0"] {
        weir.rewrite_settings(&format!("proxy: [127.0.0.1:{port}, {more}]\n"));
        weir.reload();
        load.goes_on();
    }
    load.stop();
}
