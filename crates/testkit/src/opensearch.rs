//! A real OpenSearch, started once for all tests of a process because it takes seconds.
//! `lab/install.sh peers` installs it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::client::Client;
use crate::foreign::free_address;
use crate::wait::wait_for;

/// A running node of OpenSearch.
#[derive(Debug)]
pub struct OpenSearch {
    address: SocketAddr,
    /// It ends when its standard input is closed, and that happens when this process ends.
    node: Child,
    _directory: TempDir,
}

/// The longest start: five seconds on an idle machine with two cores, and minutes on one that compiles at the
/// same time.
const START_MAX: Duration = Duration::from_secs(240);
/// Between two looks whether it is ready.
const START_POLL: Duration = Duration::from_millis(100);

impl OpenSearch {
    /// The one of this process, started at the first call.
    pub fn shared() -> &'static OpenSearch {
        static SHARED: OnceLock<OpenSearch> = OnceLock::new();
        SHARED.get_or_init(OpenSearch::start)
    }

    fn start() -> OpenSearch {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (address, transport) = (free_address(), free_address());
        fs::create_dir_all(directory.path().join("config")).expect("a folder in a temporary directory");
        let place = installed();
        let class_path = format!("{0}:{0}/lib/*", place.display());
        let mut command = Command::new("java");
        // Little memory and one compiler: the tests send a handful of documents.
        command.args([
            "-Xms128m",
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-cp",
            &class_path,
        ]);
        command.args(["TestNode", &address.port().to_string(), &transport.port().to_string()]);
        command.arg(directory.path());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut node = command.spawn().expect("java can be started");
        let deadline = Instant::now() + START_MAX;
        loop {
            if get(address, "/_cluster/health").is_some_and(|health| health["status"] == "green") {
                return OpenSearch { address, node, _directory: directory };
            }
            assert!(node.try_wait().expect("a child").is_none(), "OpenSearch has ended at its start");
            assert!(Instant::now() < deadline, "OpenSearch ({}) is not ready after {START_MAX:?}", node.id());
            thread::sleep(START_POLL);
        }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until an index has at least `count` documents, and returns them.
    pub fn wait_for_documents(&self, index: &str, count: usize) -> Vec<Value> {
        wait_for(&format!("{index} of OpenSearch ({}) has {count} documents", self.node.id()), || {
            get(self.address, &format!("/{index}/_refresh"))?;
            let found = get(self.address, &format!("/{index}/_search?size=100"))?;
            let hits = found["hits"]["hits"].as_array()?;
            let documents: Vec<Value> = hits.iter().map(|hit| hit["_source"].clone()).collect();
            (documents.len() >= count).then_some(documents)
        })
    }
}

fn get(address: SocketAddr, path: &str) -> Option<Value> {
    let mut client = Client::try_connect(address).ok()?;
    let answer = client.try_request("GET", path, &[], b"").ok()?;
    if answer.status == 200 { serde_json::from_slice(answer.text().as_bytes()).ok() } else { None }
}

fn installed() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-java/opensearch");
    assert!(folder.exists(), "{} is not there; run lab/install.sh peers", folder.display());
    folder
}
