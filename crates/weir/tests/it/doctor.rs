//! `weir doctor`: its exit code and its findings, with and without a running instance.

use std::net::TcpListener;

use serde_json::Value;
use testkit::{ADMIN_KEY, Weir};

use crate::command::{FREE_PORTS, weir, weir_with};
use crate::support::BINARY;

/// Settings in which each listener takes any free port.
fn settings() -> String {
    let lines = FREE_PORTS.chunks(2).map(|pair| format!("{}: {}\n", pair[0][2..].replace('-', "_"), pair[1]));
    lines.collect::<String>() + "data: data\n"
}

#[test]
fn healthy_machine_ends_with_0() {
    let outcome =
        weir_with(&[("weir.yaml", &settings())], &["doctor", "--json", "--config", "weir.yaml"], &[]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let answer: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let names: Vec<&str> =
        answer["checks"].as_array().unwrap().iter().map(|check| check["name"].as_str().unwrap()).collect();
    for name in
        ["settings", "descriptors", "memory", "data folder", "proxy", "admin", "DNS", "clock", "instance"]
    {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert_eq!(answer["ok"], true);
}

#[test]
fn port_in_use_ends_with_1_and_says_what_to_do() {
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = held.local_addr().unwrap();
    let text = settings().replace("admin: 127.0.0.1:0", &format!("admin: {address}"));
    let outcome = weir_with(&[("weir.yaml", &text)], &["doctor", "--config", "weir.yaml"], &[]);
    assert_eq!(outcome.code, 1, "{outcome:?}");
    let line = outcome.stdout.lines().find(|line| line.starts_with("failed")).unwrap();
    assert!(line.contains("admin") && line.contains(&address.to_string()), "{line}");
    assert!(outcome.stdout.contains("ss -ltnp"), "{}", outcome.stdout);
}

#[test]
fn faulty_settings_end_with_1() {
    let outcome = weir_with(&[("weir.yaml", "worker: 2\n")], &["doctor", "--config", "weir.yaml"], &[]);
    assert!(outcome.code == 1 && outcome.stdout.contains("failed     settings"), "{outcome:?}");
}

#[test]
fn running_instance_is_examined() {
    let instance = Weir::start(BINARY);
    let data = instance.data();
    let arguments = ["doctor", "--data", data.to_str().unwrap()];
    let outcome = weir(instance.directory(), &arguments, &[("WEIR_ADMIN_KEY", ADMIN_KEY)]);
    for part in ["workers", "configuration", "runs on this data folder"] {
        assert!(outcome.stdout.contains(part), "{part}: {outcome:?}");
    }
}
