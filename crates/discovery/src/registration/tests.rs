//! Registration against scripted registries: the calls in their order, losses, refusals and the withdrawal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};
use testkit::{Origin, Reply, wait_until};

use super::*;

fn addresses() -> ProxyAddresses {
    ProxyAddresses { plain: Some("10.0.0.1:9080".parse().unwrap()), tls: None }
}

/// A registration in one registry; its `discovery` block names the server.
fn registration(name: &str, server: &Origin, block: Value) -> Registration {
    let field = if name == "consul" { "servers" } else { "host" };
    let discovery = json!({name: {field: [format!("http://{}", server.address())]}});
    let config = RegistrationConfig {
        blocks: Map::from_iter([(name.to_owned(), block)]),
        discovery: discovery.as_object().unwrap().clone(),
        addresses: addresses(),
        policy: OutboundPolicy::default(),
    };
    Registration::new(config).unwrap()
}

/// Method and path of each call so far.
fn calls(server: &Origin) -> Vec<String> {
    server.requests().iter().map(|request| format!("{} {}", request.method, request.path())).collect()
}

fn stage(registration: &Registration, name: &str) -> String {
    registration.shown()[name]["state"].as_str().unwrap().to_owned()
}

#[test]
fn consul_gets_the_instance_again_after_a_loss() {
    let passes = AtomicUsize::new(0);
    let server = Origin::start(move |request| match request.path() {
        path if path.starts_with("/v1/agent/check/pass/") && passes.fetch_add(1, Ordering::SeqCst) == 1 => {
            Reply::status(404, "Unknown check ID")
        }
        _ => Reply::ok(""),
    });
    let block = json!({"service": "gateway", "ttl": 1, "tags": ["edge"], "metadata": {"zone": "a"}});
    let registration = registration("consul", &server, block);
    registration.start(|| true).unwrap();
    server.wait_for_requests(5);
    assert!(registration.withdraw(&|| false));
    assert_eq!(stage(&registration, "consul"), "withdrawn");
    let calls = calls(&server);
    let (register, pass) =
        ("PUT /v1/agent/service/register", "PUT /v1/agent/check/pass/service%3A10.0.0.1%3Agateway%3A9080");
    assert_eq!(calls[..5], [register, pass, pass, register, pass]);
    let last = calls.last().unwrap();
    assert_eq!(last, "PUT /v1/agent/service/deregister/10.0.0.1%3Agateway%3A9080");
    let sent: Value = serde_json::from_slice(&server.requests()[0].body).unwrap();
    assert_eq!(
        (&sent["Name"], &sent["Port"], &sent["Tags"][0]),
        (&json!("gateway"), &json!(9080), &json!("edge"))
    );
    assert_eq!((&sent["Meta"]["zone"], &sent["Check"]["TTL"]), (&json!("a"), &json!("1s")));
}

#[test]
fn instance_with_http_check_asks_whether_it_is_there() {
    let asked = AtomicUsize::new(0);
    let server = Origin::start(move |request| match request.method.as_str() {
        "GET" if asked.fetch_add(1, Ordering::SeqCst) == 0 => Reply::status(404, "unknown service ID"),
        _ => Reply::ok("{}"),
    });
    let url = "http://10.0.0.1:9091/status/ready";
    let block = json!({"service": "gateway", "ttl": 1, "http_check": url, "check_interval": 3});
    let registration = registration("consul", &server, block);
    registration.start(|| true).unwrap();
    server.wait_for_requests(4);
    let (register, get) =
        ("PUT /v1/agent/service/register", "GET /v1/agent/service/10.0.0.1%3Agateway%3A9080");
    assert_eq!(calls(&server)[..4], [register, get, register, get]);
    let sent: Value = serde_json::from_slice(&server.requests()[0].body).unwrap();
    let check = &sent["Check"];
    assert_eq!((&check["HTTP"], &check["Interval"]), (&json!(url), &json!("3s")));
    assert!(check["TTL"].is_null());
}

#[test]
fn eureka_gets_a_lease_and_its_renewals() {
    let server = Origin::start(|request| match request.method.as_str() {
        "POST" => Reply::status(204, ""),
        _ => Reply::ok(""),
    });
    let block = json!({"service": "gateway", "renew_interval": 1, "tls_port": 9443});
    let registration = registration("eureka", &server, block);
    registration.start(|| true).unwrap();
    server.wait_for_requests(2);
    assert!(registration.withdraw(&|| false));
    let calls = calls(&server);
    let instance = "/apps/GATEWAY/10.0.0.1%3Agateway%3A9080";
    assert_eq!(calls[..2], ["POST /apps/GATEWAY".to_owned(), format!("PUT {instance}")]);
    assert_eq!(*calls.last().unwrap(), format!("DELETE {instance}"));
    let sent: Value = serde_json::from_slice(&server.requests()[0].body).unwrap();
    let sent = &sent["instance"];
    assert_eq!((&sent["status"], &sent["port"]["$"]), (&json!("UP"), &json!(9080)));
    assert_eq!(sent["securePort"], json!({"$": 9443, "@enabled": "true"}));
    assert_eq!(sent["leaseInfo"], json!({"renewalIntervalInSecs": 1, "durationInSecs": 90}));
}

#[test]
fn nacos_without_first_api_is_called_by_the_third() {
    let server = Origin::start(|request| match request.path() {
        "/nacos/v3/client/ns/instance" => Reply::ok(r#"{"code":0,"message":"success","data":"ok"}"#),
        _ => Reply::status(410, "gone"),
    });
    let block =
        json!({"service": "gateway", "renew_interval": 1, "group_name": "edge", "metadata": {"a": "b"}});
    let registration = registration("nacos", &server, block);
    registration.start(|| true).unwrap();
    wait_until("a heartbeat is sent", || {
        server.requests().iter().any(|request| request.target.contains("heartBeat=true"))
    });
    assert!(registration.withdraw(&|| false));
    let calls = calls(&server);
    let third = "/nacos/v3/client/ns/instance";
    assert_eq!(calls[..2], ["POST /nacos/v1/ns/instance".to_owned(), format!("POST {third}")]);
    assert_eq!(*calls.last().unwrap(), format!("DELETE {third}"));
    let sent = server.requests()[1].target.clone();
    for part in
        ["serviceName=gateway", "groupName=edge", "ip=10.0.0.1&port=9080", "ephemeral=true", "%22a%22"]
    {
        assert!(sent.contains(part), "{sent} lacks {part}");
    }
}

#[test]
fn nacos_of_version_1_is_sent_beats() {
    let beats = AtomicUsize::new(0);
    let server = Origin::start(move |request| match request.path() {
        "/nacos/v1/ns/instance/beat" if beats.fetch_add(1, Ordering::SeqCst) == 0 => {
            Reply::ok(r#"{"code":20404}"#)
        }
        "/nacos/v1/ns/instance/beat" => Reply::ok(r#"{"clientBeatInterval":5000,"code":10200}"#),
        _ => Reply::ok("ok"),
    });
    let registration = registration("nacos", &server, json!({"service": "gateway", "renew_interval": 1}));
    registration.start(|| true).unwrap();
    server.wait_for_requests(4);
    let (register, beat) = ("POST /nacos/v1/ns/instance", "PUT /nacos/v1/ns/instance/beat");
    assert_eq!(calls(&server)[..4], [register, beat, register, beat]);
    assert_eq!(registration.shown()["nacos"]["losses"], 1);
}

#[test]
fn refusal_is_shown_and_tried_again() {
    let is_allowed = Arc::new(AtomicBool::new(false));
    let allowed = Arc::clone(&is_allowed);
    let server = Origin::start(move |_| match allowed.load(Ordering::SeqCst) {
        true => Reply::ok(""),
        false => Reply::status(403, "Permission denied: token lacks service:write"),
    });
    let registration = registration("consul", &server, json!({"service": "gateway"}));
    registration.start(|| true).unwrap();
    wait_until("the refusal is shown", || registration.shown()["consul"]["failure"].is_string());
    let failure = registration.shown()["consul"]["failure"].to_string();
    assert!(failure.contains("status 403") && failure.contains("lacks service:write"), "{failure}");
    let mut metrics = String::new();
    registration.write_metrics(&mut metrics);
    assert!(metrics.contains("weir_registration_registered{registry=\"consul\"} 0\n"), "{metrics}");
    is_allowed.store(true, Ordering::SeqCst);
    wait_until("it is registered", || stage(&registration, "consul") == "registered");
    assert_eq!(registration.shown()["consul"]["failure"], Value::Null);
}

#[test]
fn nothing_is_sent_before_the_instance_is_ready() {
    let server = Origin::answering("");
    let is_ready = Arc::new(AtomicBool::new(false));
    let asked = Arc::new(AtomicUsize::new(0));
    let registration = registration("consul", &server, json!({"service": "gateway"}));
    let (ready, count) = (Arc::clone(&is_ready), Arc::clone(&asked));
    let is_asked = move || {
        count.fetch_add(1, Ordering::SeqCst);
        ready.load(Ordering::SeqCst)
    };
    registration.start(is_asked).unwrap();
    wait_until("readiness was asked for twice", || asked.load(Ordering::SeqCst) >= 2);
    assert!(server.requests().is_empty());
    is_ready.store(true, Ordering::SeqCst);
    server.wait_for_requests(1);
}

#[test]
fn dropped_registration_stays_in_the_registry() {
    let server = Origin::answering("");
    let registration = registration("consul", &server, json!({"service": "gateway"}));
    registration.start(|| true).unwrap();
    server.wait_for_requests(1);
    drop(registration);
    assert_eq!(calls(&server), ["PUT /v1/agent/service/register"]);
}

#[test]
fn silent_registry_holds_the_withdrawal_for_a_while() {
    let server = Origin::start(|request| match request.path() {
        "/v1/agent/service/register" => Reply::ok(""),
        _ => Reply::status(500, "no leader"),
    });
    let registration = registration("consul", &server, json!({"service": "gateway"}));
    registration.start(|| true).unwrap();
    wait_until("it is registered", || stage(&registration, "consul") == "registered");
    assert!(!registration.withdraw(&|| false));
    assert_eq!(calls(&server).len(), 1 + 4, "one registration and the attempts to withdraw");
    assert!(registration.shown()["consul"]["failure"].to_string().contains("no leader"));
}
