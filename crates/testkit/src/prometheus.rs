//! Prometheus as a peer of a test: it scrapes one listener each second and keeps exemplars.
//! `lab/install.sh test` installs it.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
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
        Prometheus::with_rules(target, &[])
    }

    /// As [`Prometheus::scraping`], with files of rules, which it evaluates each second.
    pub fn with_rules(target: SocketAddr, rules: &[&Path]) -> Prometheus {
        let rules: Vec<String> = rules.iter().map(|file| format!("'{}'", file.display())).collect();
        for _ in 0..ATTEMPTS {
            let folder = tempfile::tempdir().expect("a temporary directory");
            let address = free_address();
            let file = folder.path().join("prometheus.yml");
            let config = format!(
                "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{}]\nscrape_configs:\n\
                 - {{job_name: weir, static_configs: [{{targets: ['{target}']}}]}}\n",
                rules.join(", ")
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

    /// The result of an expression at this moment; the error if it cannot be evaluated.
    pub fn ask(&self, expression: &str) -> Result<Vec<Value>, String> {
        let mut query = String::new();
        for byte in expression.bytes() {
            query.push_str(&format!("%{byte:02X}"));
        }
        let answer = Client::connect(self.address).get(&format!("/api/v1/query?query={query}"));
        if answer.status == 503 {
            return Err("the server is not ready".to_owned());
        }
        let answer = answer.json();
        match answer["data"]["result"].as_array() {
            Some(result) => Ok(result.clone()),
            None => Err(answer["error"].as_str().unwrap_or("no result").to_owned()),
        }
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
