//! Prometheus as a peer of a test: it scrapes one listener each second and keeps exemplars. `lab/install.sh test` installs it.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::client::Client;
use crate::foreign::{ATTEMPTS, free_address, listens};
use crate::process::Process;

/// A running server; killed when dropped.
#[derive(Debug)]
pub struct Prometheus {
    address: SocketAddr,
    _folder: TempDir,
    _process: Process,
}

impl Prometheus {
    /// Starts a server that scrapes `/metrics` at `target`.
    pub fn scraping(target: SocketAddr) -> Prometheus {
        for _ in 0..ATTEMPTS {
            let folder = tempfile::tempdir().expect("a temporary directory");
            let address = free_address();
            let file = folder.path().join("prometheus.yml");
            let config = format!(
                "global: {{scrape_interval: 1s}}\nscrape_configs:\n- {{job_name: weir, static_configs: [{{targets: ['{target}']}}]}}\n"
            );
            fs::write(&file, config).expect("a writable temporary directory");
            let mut command = Command::new("prometheus");
            command.arg(format!("--config.file={}", file.display()));
            command.arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()));
            command.arg(format!("--web.listen-address={address}"));
            command.arg("--enable-feature=exemplar-storage");
            let mut process = Process::spawn(&mut command).expect("prometheus can be started");
            if listens(address, &mut process) {
                return Prometheus { address, _folder: folder, _process: process };
            }
            let errors = process.stderr.text();
            assert!(errors.contains("address already in use"), "prometheus did not start: {errors}");
        }
        panic!("prometheus found no free port in {ATTEMPTS} attempts");
    }

    /// The field `data` of the answer of its API to a GET of `path`; null while it is not ready.
    pub fn api(&self, path: &str) -> Value {
        let answer = Client::try_connect(self.address)
            .ok()
            .and_then(|mut client| client.try_request("GET", &format!("/api/v1/{path}"), &[], b"").ok());
        answer
            .filter(|answer| answer.status == 200)
            .map(|answer| answer.json()["data"].take())
            .unwrap_or_default()
    }
}
