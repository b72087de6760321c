//! `examples/try.sh`, which `make run` starts: its addresses, and its variables for the commands of the
//! README.

use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use testkit::{Client, wait_until};

use crate::command::FREE_PORTS;
use crate::hardening::pages::repository;

const BINARY: &str = env!("CARGO_BIN_EXE_weir");

/// The script with its gateway, in a folder of its own; dropping it ends both.
struct Tried {
    script: Child,
    folder: tempfile::TempDir,
    shown: String,
}

impl Tried {
    fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        let file = fs::File::create(&output).unwrap();
        let mut command = Command::new(repository().join("examples/try.sh"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("WEIR_")) {
            command.env_remove(name);
        }
        command
            .arg(BINARY)
            .args(["--origin", "127.0.0.1:0"])
            .args(arguments)
            .envs(environment.iter().copied());
        command.current_dir(folder.path()).stdin(Stdio::null());
        command.stdout(file.try_clone().unwrap()).stderr(file);
        let mut tried = Self { script: command.spawn().unwrap(), folder, shown: String::new() };
        wait_until("the script has shown everything", || {
            tried.shown = fs::read_to_string(&output).unwrap();
            let ended = tried.script.try_wait().unwrap();
            assert!(ended.is_none(), "the script has ended: {}", tried.shown);
            tried.shown.contains("Ctrl-C stops both.")
        });
        tried
    }

    /// The lines for copying, which set variables.
    fn assignments(&self) -> String {
        let lines = self.shown.lines().map(str::trim_start);
        let is_assignment =
            |line: &&str| ["proxy=", "control=", "key="].iter().any(|name| line.starts_with(name));
        lines.filter(is_assignment).map(|line| format!("{line}\n")).collect()
    }

    /// The address in a line of the list.
    fn address(&self, name: &str) -> SocketAddr {
        let line =
            self.shown.lines().find(|line| line.trim_start().starts_with(name) && line.contains("http://"));
        let line = line.unwrap_or_else(|| panic!("no {name}: {}", self.shown));
        let (_, rest) = line.split_once("http://").unwrap();
        rest.split('/').next().unwrap().parse().unwrap()
    }
}

impl Drop for Tried {
    fn drop(&mut self) {
        // TERM, because the script ends its children before itself.
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.script),
            rustix::process::Signal::TERM,
        );
        let _ = self.script.wait();
    }
}

#[test]
fn every_address_that_is_shown_answers() {
    let tried = Tried::start(&FREE_PORTS, &[]);
    let rows = [
        ("proxy", "/hello", 200),
        ("Admin API", "/apisix/admin/routes", 401),
        ("control", "/v1/routes", 200),
        ("status", "/status/ready", 200),
        ("metrics", "/apisix/prometheus/metrics", 200),
        ("echo origin", "/hello", 200),
    ];
    for (name, path, status) in rows {
        assert_eq!(Client::connect(tried.address(name)).get(path).status, status, "{name}: {}", tried.shown);
    }
}

#[test]
fn a_given_address_is_the_only_one() {
    let mut arguments = FREE_PORTS[2..].to_vec();
    arguments.push("--proxy=127.0.0.1:0");
    for environment in [&[][..], &[("WEIR_PROXY", "127.0.0.1:0")][..]] {
        let given = if environment.is_empty() { &arguments[..] } else { &FREE_PORTS[2..] };
        let tried = Tried::start(given, environment);
        let answer = Client::connect(tried.address("control")).get("/v1/weir/listeners");
        let listeners: Value = serde_json::from_slice(&answer.body).unwrap();
        let proxies: Vec<&Value> =
            listeners.as_array().unwrap().iter().filter(|one| one["name"] == "proxy").collect();
        assert_eq!(proxies.len(), 1, "lists do not add up: {listeners}");
        assert_eq!(proxies[0]["address"], tried.address("proxy").to_string());
    }
}

#[test]
fn shown_variables_are_those_of_the_readme() {
    let tried = Tried::start(&FREE_PORTS, &[]);
    let script = format!(
        "{}\ncurl -s $proxy/hello; curl -s $admin/routes/example -H \"X-API-KEY: $key\"; curl -s $metrics",
        tried.assignments()
    );
    let output =
        Command::new("bash").arg("-c").arg(script).current_dir(tried.folder.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in ["\"path\": \"/hello\"", "\"name\":\"example\"", "apisix_http_requests_total"] {
        assert!(text.contains(part), "no {part}: {text}");
    }
}
