//! The instance in service registries, in the real binary: a stand-in for a Consul agent that keeps services
//! and checks their address at each call.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use testkit::{Client, Origin, Reply, Request, Weir, wait_until};

use crate::support::BINARY;

/// The state of the agent.
#[derive(Default)]
struct Known {
    services: BTreeSet<String>,
    /// Each call by its kind, with the status of a request that the agent sent to the registered address at
    /// that moment; none: the connection was refused.
    calls: Vec<(&'static str, Option<u16>)>,
    address: Option<SocketAddr>,
}

/// A stand-in for a Consul agent.
struct Consul {
    origin: Origin,
    known: Arc<Mutex<Known>>,
}

impl Consul {
    fn start() -> Consul {
        let known = Arc::new(Mutex::new(Known::default()));
        let script = Arc::clone(&known);
        let origin = Origin::start(move |request| script.lock().unwrap().answer(request));
        Consul { origin, known }
    }

    /// A settings file with a registration here and these further lines.
    fn settings(&self, block: &str, more: &str) -> String {
        let server = self.origin.address();
        format!("registration: {{consul: {{servers: ['http://{server}'], {block}}}}}\n{more}")
    }

    fn calls(&self, kind: &str) -> Vec<Option<u16>> {
        let known = self.known.lock().unwrap();
        known.calls.iter().filter(|(call, _)| *call == kind).map(|(_, probe)| *probe).collect()
    }

    fn has(&self, count: usize) -> bool {
        self.known.lock().unwrap().services.len() == count
    }

    fn lose_all(&self) {
        self.known.lock().unwrap().services.clear();
    }
}

impl Known {
    fn answer(&mut self, request: &Request) -> Reply {
        let path = request.path().replace("%3A", ":");
        let (kind, id) = match path.strip_prefix("/v1/agent/").and_then(|rest| rest.split_once('/')) {
            Some(("service", "register")) => {
                let service: Value = serde_json::from_slice(&request.body).unwrap();
                let address = format!("{}:{}", service["Address"].as_str().unwrap(), service["Port"]);
                self.address = Some(address.parse().unwrap());
                let id = service["ID"].as_str().unwrap().to_owned();
                self.services.insert(id.clone());
                ("register", id)
            }
            Some(("service", rest)) => ("deregister", rest.trim_start_matches("deregister/").to_owned()),
            Some((_, rest)) => ("pass", rest.trim_start_matches("pass/service:").to_owned()),
            None => return Reply::status(404, "no such endpoint"),
        };
        let probe = self.address.and_then(|address| Client::try_connect(address).ok());
        self.calls.push((kind, probe.map(|mut client| client.get("/").status)));
        match kind {
            "deregister" if self.services.remove(&id) => Reply::ok(""),
            _ if self.services.contains(&id) => Reply::ok(""),
            _ => Reply::status(404, "Unknown check ID"),
        }
    }
}

fn shown(weir: &Weir) -> Value {
    Client::connect(weir.address("control")).get("/v1/registration").json()["consul"].clone()
}

fn ready(weir: &Weir) -> u16 {
    Client::connect(weir.address("status")).get("/status/ready").status
}

#[test]
fn instance_is_registered_once_it_accepts() {
    let consul = Consul::start();
    let weir = Weir::builder(BINARY).settings(&consul.settings("service: gateway, ttl: 1", "")).start();
    wait_until("it is registered and renewed", || consul.calls("pass").len() >= 2);
    assert_eq!(consul.calls("register"), [Some(404)], "it answered when it was registered");
    let shown = shown(&weir);
    assert_eq!(
        (&shown["state"], &shown["port"]),
        (&Value::from("registered"), &Value::from(weir.proxy().port()))
    );
    let metrics = Client::connect(weir.address("metrics")).get("/metrics").text();
    assert!(metrics.contains("weir_registration_registered{registry=\"consul\"} 1\n"), "{metrics}");
    consul.lose_all();
    wait_until("it is registered again", || consul.has(1));
}

#[test]
fn instance_leaves_before_its_listener_closes() {
    let consul = Consul::start();
    let settings = consul.settings("service: gateway, ttl: 1", "drain_delay: 3600\n");
    let mut weir = Weir::builder(BINARY).settings(&settings).start();
    wait_until("it is registered", || consul.has(1));
    weir.terminate();
    wait_until("it is taken out", || consul.has(0));
    assert_eq!(consul.calls("deregister"), [Some(404)], "it still answered when it was taken out");
    wait_until("it is not ready", || ready(&weir) == 503);
    assert_eq!(weir.get("/").status, 404, "it serves for the time of drain_delay");
    weir.terminate();
    assert!(weir.wait_for_exit().success());
    assert!(Client::try_connect(weir.proxy()).is_err());
}

#[test]
fn drain_delay_ends_by_itself() {
    let consul = Consul::start();
    let settings = consul.settings("service: gateway", "drain_delay: 1\n");
    let mut weir = Weir::builder(BINARY).settings(&settings).start();
    wait_until("it is registered", || consul.has(1));
    weir.terminate();
    assert!(weir.wait_for_exit().success());
    assert!(consul.has(0));
}

#[test]
fn upgrade_keeps_the_registration() {
    let consul = Consul::start();
    let settings = consul.settings("service: gateway, ttl: 1", "");
    let arguments = ["--upgrade-grace", "1"];
    let mut weir = Weir::builder(BINARY).settings(&settings).arguments(&arguments).start();
    wait_until("it is registered", || consul.has(1));
    weir.upgrade();
    let heir = weir.wait_for_successor(weir.pid());
    assert!(weir.wait_until_gone().success());
    let renewals = consul.calls("pass").len();
    wait_until("the successor renews", || consul.calls("pass").len() > renewals);
    assert!(consul.calls("deregister").is_empty() && consul.has(1));
    heir.terminate();
    heir.wait_until_gone();
    assert!(consul.has(0), "the successor takes the same identity out");
}

#[test]
fn registry_that_is_down_delays_nothing() {
    let nowhere = Origin::nowhere();
    let settings = format!("registration: {{consul: {{servers: ['http://{nowhere}'], service: gateway}}}}\n");
    let mut weir = Weir::builder(BINARY).settings(&settings).start();
    assert_eq!(weir.get("/").status, 404);
    wait_until("the failure is shown", || shown(&weir)["failure"].is_string());
    let failure = shown(&weir)["failure"].to_string();
    assert!(failure.contains(&nowhere.to_string()), "{failure}");
    weir.terminate();
    assert!(weir.wait_for_exit().success());
}

#[test]
fn wildcard_address_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weir.yaml");
    let text = "registration:\n  consul:\n    servers: ['http://127.0.0.1:1']\n    service: gateway\n";
    std::fs::write(&path, text).unwrap();
    let outcome = crate::command::weir(folder.path(), &["check", "weir.yaml"], &[]);
    let said = outcome.stdout + &outcome.stderr;
    assert_ne!(outcome.code, 0, "{said}");
    assert!(said.contains("the proxy listens on 0.0.0.0:9080"), "{said}");
    assert!(said.contains("write `address: HOST`"), "{said}");
}

#[test]
fn changed_blocks_wait_for_a_restart() {
    let consul = Consul::start();
    let weir = Weir::builder(BINARY).settings(&consul.settings("service: gateway", "")).start();
    wait_until("it is registered", || consul.has(1));
    let file = "discovery: {file: {files: [/tmp]}}\n";
    weir.rewrite_settings(&consul.settings("service: other", file));
    weir.reload();
    wait_until("the log names both settings", || {
        let waiting = "wait for a restart or an upgrade";
        weir.stderr()
            .iter()
            .any(|line| line.contains(waiting) && line.contains("discovery") && line.contains("registration"))
    });
    assert_eq!(shown(&weir)["service"], "gateway");
}
