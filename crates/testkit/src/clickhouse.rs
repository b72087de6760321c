//! A real ClickHouse as a peer of a test. `lab/install.sh` installs it.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use tempfile::TempDir;

use crate::client::Client;
use crate::foreign::{ATTEMPTS, free_address, listens};
use crate::process::Process;
use crate::wait::wait_for;

/// A running ClickHouse server with the user `gateway` (password `secret`); killed when dropped.
#[derive(Debug)]
pub struct ClickHouse {
    address: SocketAddr,
    _process: Process,
    _directory: TempDir,
}

impl ClickHouse {
    /// Starts a server.
    pub fn start() -> ClickHouse {
        for _ in 0..ATTEMPTS {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let (http, tcp) = (free_address(), free_address());
            let folder = directory.path().display();
            let settings = format!(
                "<yandex><logger><level>warning</level><console>true</console></logger><http_port>{}</http_port><tcp_port>{}</tcp_port><listen_host>127.0.0.1</listen_host>\
                 <path>{folder}/data/</path><tmp_path>{folder}/tmp/</tmp_path><mark_cache_size>5242880</mark_cache_size>\
                 <users_config>{folder}/users.xml</users_config><default_profile>default</default_profile>\
                 <default_database>default</default_database></yandex>",
                http.port(),
                tcp.port()
            );
            let users = "<yandex><profiles><default/></profiles><quotas><default/></quotas><users><gateway>\
                         <password>secret</password><networks><ip>127.0.0.1</ip></networks>\
                         <profile>default</profile><quota>default</quota></gateway></users></yandex>";
            let file = directory.path().join("config.xml");
            fs::write(&file, settings).expect("a file in a temporary directory");
            fs::write(directory.path().join("users.xml"), users).expect("a file in a temporary directory");
            let mut command = Command::new("clickhouse-server");
            command.arg(format!("--config-file={}", file.display())).current_dir(directory.path());
            let mut process =
                Process::spawn(&mut command).expect("clickhouse-server; run lab/install.sh test");
            if listens(http, &mut process) {
                return ClickHouse { address: http, _process: process, _directory: directory };
            }
        }
        panic!("clickhouse-server found no free port in {ATTEMPTS} attempts");
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Runs a statement, which must be right, and returns the result.
    pub fn run(&self, statement: &str) -> String {
        let fields = [("X-ClickHouse-User", "gateway"), ("X-ClickHouse-Key", "secret")];
        let answer = Client::connect(self.address).request("POST", "/", &fields, statement.as_bytes());
        assert_eq!(answer.status, 200, "{statement}: {}", answer.text());
        answer.text()
    }

    /// Waits until `statement` has the result `expected`.
    pub fn wait_for_result(&self, statement: &str, expected: &str) {
        let mut last = String::new();
        wait_for(&format!("the result of {statement} is {expected}"), || {
            last = self.run(statement);
            (last.trim() == expected).then_some(())
        });
    }
}
