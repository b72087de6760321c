//! `examples/try.sh`, which `make run` starts, and the five-minute tour of the README with the addresses that the
//! script shows.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use testkit::{Client, wait_until};

use crate::command::FREE_PORTS;
use crate::hardening::pages::{read, repository};

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

/// A command of a page, and its output on the page.
#[derive(Debug)]
struct Step {
    command: String,
    output: String,
}

/// The commands in the `console` blocks of a section, in order.
fn steps(section: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let blocks = section.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    for line in blocks.flat_map(str::lines) {
        let is_open = steps.last().is_some_and(|step| {
            step.output.is_empty()
                && (step.command.ends_with("\\\n") || step.command.matches('\'').count() % 2 == 1)
        });
        match line.strip_prefix("$ ") {
            Some(command) if !is_open => {
                steps.push(Step { command: format!("{command}\n"), output: String::new() });
            }
            _ if is_open => steps.last_mut().unwrap().command += &format!("{line}\n"),
            _ => steps.last_mut().unwrap().output += &format!("{line}\n"),
        }
    }
    steps
}

/// The text with parts that differ between runs replaced: times, ports, the version of curl.
fn settled(text: &str, ports: &[(String, &str)]) -> String {
    let mut text = text.to_owned();
    for (found, usual) in ports {
        text = text.replace(found.as_str(), usual);
    }
    for name in ["\"create_time\":", "\"update_time\":", "curl/"] {
        let mut parts = text.split(name);
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let rest = part.trim_start_matches(|sign: char| sign.is_ascii_digit() || sign == '.');
            out += &format!("{name}N{rest}");
        }
        text = out;
    }
    text
}

#[test]
fn five_minutes_of_the_readme_are_true() {
    let tried = Tried::start(&FREE_PORTS, &[]);
    let readme = read("README.md");
    let section = readme.split("\n## ").find(|section| section.starts_with("Five minutes")).unwrap();
    let steps = steps(section);
    assert!(steps.len() > 8, "{steps:?}");
    let ports: Vec<(String, &str)> = [("proxy", ":9080"), ("echo origin", ":1980")]
        .map(|(name, usual)| {
            let port = tried.address(name).port();
            (format!(":{port}"), usual)
        })
        .into();
    let proxy_port = (format!("\"{}\"", tried.address("proxy").port()), "\"9080\"");
    let ports = [ports, vec![proxy_port]].concat();
    // One shell for all commands, as for a reader, so that variables of one command are there for the next.
    let mut script = tried.assignments();
    // Set, because commands look for the instance at its usual ports, and it has others here.
    script += &format!("export WEIR_CONTROL={}\n", tried.address("control"));
    for (index, step) in steps.iter().enumerate() {
        script += &format!("{} >out.{index} 2>err.{index}\n", grouped(&step.command));
    }
    let script = script
        .replace("target/quick/weir", BINARY)
        .replace("examples/", &format!("{}/", example_folder().display()))
        .replace("127.0.0.1:1980", &tried.address("echo origin").to_string());
    let status =
        Command::new("bash").arg("-c").arg(&script).current_dir(tried.folder.path()).status().unwrap();
    assert!(status.success(), "{script}");
    for (index, step) in steps.iter().enumerate() {
        let file =
            |name: &str| fs::read_to_string(tried.folder.path().join(format!("{name}.{index}"))).unwrap();
        let printed =
            settled(&file("out"), &ports).replace(&format!("{}/", example_folder().display()), "examples/");
        assert_eq!(
            printed.trim_end(),
            settled(&step.output, &ports).trim_end(),
            "{}{}",
            step.command,
            file("err")
        );
    }
}

/// A command in braces, so that all of it is redirected and its variables stay.
fn grouped(command: &str) -> String {
    format!("{{ {} ; }}", command.trim_end())
}

fn example_folder() -> PathBuf {
    Path::new(&repository()).join("examples").canonicalize().unwrap()
}
