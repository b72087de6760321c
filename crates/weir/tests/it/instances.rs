//! Commands find the instance that runs on the data folder, at any port.

use std::net::TcpListener;

use serde_json::{Value, json};
use testkit::{ADMIN_KEY, Weir};

use crate::command::{Outcome, weir};
use crate::support::BINARY;

const ROUTES: &str = "routes:\n- {id: a, uri: /a, plugins: {mocking: {response_example: x}}}\n";
const KEY: [(&str, &str); 1] = [("WEIR_ADMIN_KEY", ADMIN_KEY)];

/// An instance on the data folder that commands use by default.
fn started(arguments: &[&str]) -> Weir {
    Weir::builder(BINARY).arguments(&[&["--data", "weir-data"], arguments].concat()).start()
}

fn beside(instance: &Weir, arguments: &[&str]) -> Outcome {
    weir(instance.directory(), arguments, &KEY)
}

#[test]
fn commands_find_the_instance_of_the_folder() {
    let instance = started(&[]);
    std::fs::write(instance.directory().join("routes.yaml"), ROUTES).unwrap();
    let check = |arguments: &[&str], code: i32, part: &str| {
        let outcome = beside(&instance, arguments);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (code, ""), "{arguments:?}: {outcome:?}");
        assert!(outcome.stdout.contains(part), "{arguments:?}: {outcome:?}");
    };
    check(&["plan", "routes.yaml"], 3, "+ routes/a");
    check(&["apply", "routes.yaml"], 0, "applied as version 1");
    assert_eq!(instance.get("/a").text(), "x");
    check(&["explain", "GET", "http://shop.example/a"], 0, "route     a\n");
    check(&["explain", "GET", "/a", "-H", "Host: a", "--data", "weir-data"], 0, "route     a\n");
    check(&["history"], 0, "in force: 1");
    check(&["rollback", "0"], 0, "in force again");
    assert_eq!(instance.get("/a").status, 404);
}

#[test]
fn dead_instance_is_not_asked() {
    let mut instance = started(&[]);
    instance.put("routes/a", json!({"uri": "/a", "plugins": {"mocking": {"response_example": "x"}}}));
    instance.kill();
    let left = std::fs::read_to_string(instance.directory().join("weir-data/instance.json")).unwrap();
    let left: Value = serde_json::from_str(&left).unwrap();
    assert_eq!(left["process"], instance.pid());
    // Both are bound at once, so that the two ports differ.
    let free = ["127.0.0.1:0", "127.0.0.1:0"].map(|address| TcpListener::bind(address).unwrap());
    let [admin, control] = free.each_ref().map(|listener| listener.local_addr().unwrap());
    drop(free);
    let settings = format!("admin: {admin}\ncontrol: {control}\n");
    std::fs::write(instance.directory().join("settings.yaml"), settings).unwrap();
    let outcome = beside(&instance, &["history", "-c", "settings.yaml"]);
    assert_eq!(
        (outcome.code, outcome.stderr.as_str()),
        (0, "no instance runs here; reading its data folder\n")
    );
    let outcome = beside(&instance, &["explain", "GET", "/a", "-H", "Host: a", "-c", "settings.yaml"]);
    assert!(outcome.code == 0 && outcome.stdout.contains("route     a\n"), "{outcome:?}");
}

#[test]
fn folder_in_use_says_which_instance_and_where() {
    let instance = started(&[]);
    let outcome = beside(
        &instance,
        &["run", "--data", "weir-data", "--proxy", "127.0.0.1:0", "--proxy-tls", "off", "--admin", "off"],
    );
    assert_eq!(outcome.code, 1, "{outcome:?}");
    let holder = format!("in use by process {} (admin {}, ", instance.pid(), instance.address("admin"));
    assert!(outcome.stderr.contains(&holder), "{outcome:?}");
    assert!(!outcome.stderr.contains("stop that process"), "{outcome:?}");
}

#[test]
fn listener_that_is_off_is_named() {
    let instance =
        Weir::builder(BINARY).arguments(&["--data", "weir-data"]).without("control").without("admin").start();
    let check = |arguments: &[&str], name: &str| {
        let outcome = beside(&instance, arguments);
        let expected = format!(
            "error: the instance on the data folder ./weir-data, process {}, does not listen there: its setting `{name}` \
             is off\n",
            instance.pid()
        );
        assert_eq!((outcome.code, outcome.stderr.as_str()), (1, expected.as_str()), "{arguments:?}");
    };
    check(&["explain", "GET", "/a", "-H", "Host: a"], "control");
    check(&["history"], "admin");
}

#[test]
fn successor_of_an_upgrade_is_found() {
    let instance = Weir::start(BINARY);
    let data = instance.data();
    let data = data.to_str().unwrap();
    let upgraded = beside(&instance, &["upgrade", "--data", data]);
    assert_eq!(upgraded.code, 0, "{upgraded:?}");
    let successor = instance.wait_for_successor(instance.pid());
    let outcome = beside(&instance, &["history", "--data", data]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{outcome:?}");
    let announced = std::fs::read_to_string(instance.data().join("instance.json")).unwrap();
    let announced: Value = serde_json::from_str(&announced).unwrap();
    assert_eq!(announced["process"], successor.pid());
    let admin = instance.address("admin").to_string();
    let listeners = announced["listeners"].as_array().unwrap();
    assert!(listeners.iter().any(|listener| listener["address"] == admin), "{announced}");
}
