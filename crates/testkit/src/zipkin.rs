//! Zipkin as a peer of a test; it keeps spans in memory. `lab/install.sh peers` fetches it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::Client;
use crate::foreign::free_address;
use crate::process::Process;

/// The longest start: ten seconds on an idle machine with two cores.
const START_MAX: Duration = Duration::from_secs(180);
/// Between two looks whether it is ready.
const START_POLL: Duration = Duration::from_millis(100);

/// A running server; killed when dropped.
#[derive(Debug)]
pub struct Zipkin {
    address: SocketAddr,
    _process: Process,
}

impl Zipkin {
    /// Starts a server.
    pub fn start() -> Zipkin {
        let jar = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-java/zipkin.jar");
        assert!(jar.exists(), "{} is not there; run lab/install.sh peers", jar.display());
        let address = free_address();
        let mut command = Command::new("java");
        command
            .args(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-jar"])
            .arg(jar)
            .arg("--server.address=127.0.0.1");
        command.env("QUERY_PORT", address.port().to_string());
        let mut process = Process::spawn(&mut command).expect("java can be started");
        let deadline = Instant::now() + START_MAX;
        loop {
            let asked = Client::try_connect(address).ok();
            let answer = asked.and_then(|mut client| client.try_request("GET", "/health", &[], b"").ok());
            if answer.is_some_and(|answer| answer.status == 200) {
                return Zipkin { address, _process: process };
            }
            assert!(process.ended().is_none(), "Zipkin did not start: {}", process.stdout.text());
            assert!(Instant::now() < deadline, "Zipkin is not ready after {START_MAX:?}");
            thread::sleep(START_POLL);
        }
    }

    /// The address of its API.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The spans of a trace; none before they have come.
    pub fn trace(&self, id: &str) -> Option<Vec<Value>> {
        let answer = Client::connect(self.address).get(&format!("/api/v2/trace/{id}"));
        if answer.status == 200 { answer.json().as_array().cloned() } else { None }
    }
}
