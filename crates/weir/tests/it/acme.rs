//! Certificates by ACME, with Pebble as the authority and the real binary: orders by each challenge, renewal,
//! restarts, and records that tell how orders go. Authorities that fail are in `acme/faults.rs`, clusters in
//! `acme/cluster.rs`.

mod cluster;
mod faults;
mod https;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use testkit::{Origin, Pebble, PebbleSettings, Weir, WeirBuilder, wait_for, wait_until};

use crate::support::{BINARY, everything_to};

/// A Pebble that asks this port of this machine for answers to HTTP-01.
fn pebble_for(http_port: u16) -> Pebble {
    Pebble::start(PebbleSettings { http_port, ..PebbleSettings::default() })
}

/// A gateway that orders these certificates from `pebble`, with its proxy on this port.
fn ordering(pebble: &Pebble, port: u16, domains: &str) -> WeirBuilder {
    let (directory, authority) = (pebble.directory(), pebble.api_authority());
    Weir::builder(BINARY).settings(&format!(
        "proxy: 127.0.0.1:{port}\nacme: {{email: ops@example.com, domains: [{domains}]}}\nacme_authorities: {directory}\n\
         acme_ca: {}\n",
        authority.display()
    ))
}

/// The state of the managed certificate with that id.
fn state_of(weir: &Weir, id: &str) -> Value {
    let (status, answer) = weir.admin("GET", "weir/certificates", Value::Null);
    assert_eq!(status, 200, "{answer}");
    let list = answer["list"].as_array().unwrap_or_else(|| panic!("{answer}"));
    list.iter().find(|certificate| certificate["id"] == id).map_or(Value::Null, |one| one["acme"].clone())
}

/// Waits until the managed certificate is in that state, and returns what is told of it.
fn wait_for_state(weir: &Weir, id: &str, state: &str) -> Value {
    wait_for(&format!("{id} is {state}"), || {
        let found = state_of(weir, id);
        assert!(found["state"] != "failing" || state == "failing", "{found}");
        (found["state"] == state && found["ordering"] == false).then_some(found)
    })
}

/// The `ssls` object of a managed certificate.
fn object_of(weir: &Weir, id: &str) -> Value {
    let (status, answer) = weir.admin("GET", &format!("ssls/{id}"), Value::Null);
    assert_eq!(status, 200, "{answer}");
    answer["value"].clone()
}

#[test]
fn http_challenge_gives_a_certificate_that_is_kept() {
    let port = Pebble::free_port();
    let pebble = pebble_for(port);
    let weir = ordering(&pebble, port, "shop.example www.shop.example").start();
    let state = wait_for_state(&weir, "acme-shop.example", "valid");
    assert_eq!(state["names"], json!(["shop.example", "www.shop.example"]));
    assert_eq!((&state["failures"], &state["issued"], &state["error"]), (&json!(0), &json!(1), &Value::Null));
    assert!(state["next_order"].as_u64() < state["not_after"].as_u64(), "{state}");
    let object = object_of(&weir, "acme-shop.example");
    assert_eq!(object["snis"], json!(["shop.example", "www.shop.example"]));
    assert_eq!(object["labels"]["managed-by"], "acme");
    assert!(object["cert"].as_str().unwrap().matches("BEGIN CERTIFICATE").count() >= 2, "with its chain");
    let (_, status) = weir.admin("GET", "weir/status", Value::Null);
    assert_eq!(status["acme"]["certificates"]["valid"], 1, "{status}");
    assert_eq!(status["acme"]["leader"], true);
    for line in [
        "weir_acme_certificates{state=\"valid\"} 1",
        "weir_acme_attempts_total{result=\"issued\"} 1",
        "weir_ssl_certificate_expiry_seconds{ssl=\"acme-shop.example\",",
    ] {
        // The certificate comes into force in the workers after it is in the store.
        testkit::wait_until(&format!("{line} is in the metrics"), || {
            testkit::Client::connect(weir.address("metrics")).get("/metrics").text().contains(line)
        });
    }

    let weir = weir.restart();
    let again = wait_for_state(&weir, "acme-shop.example", "valid");
    assert_eq!((&again["serial"], &again["issued"]), (&state["serial"], &json!(1)), "no second order");
    let accounts = fs::read_dir(weir.data().join("acme/accounts")).unwrap().map(|file| file.unwrap().path());
    let accounts: Vec<_> = accounts.collect();
    assert_eq!(accounts.len(), 1);
    assert_eq!(fs::metadata(&accounts[0]).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn unknown_token_goes_on_to_the_routes() {
    let origin = Origin::answering("served");
    let port = Pebble::free_port();
    let pebble = pebble_for(port);
    let weir = ordering(&pebble, port, "shop.example").start();
    weir.put("routes/1", json!({"uri": "/*", "upstream": {"nodes": {origin.address().to_string(): 1}}}));
    assert_eq!(weir.get("/.well-known/acme-challenge/unknown").text(), "served");
    wait_for_state(&weir, "acme-shop.example", "valid");
    assert_eq!(weir.get("/.well-known/acme-challenge/unknown").text(), "served");
}

#[test]
fn route_for_every_path_does_not_hide_the_answer() {
    let origin = Origin::answering("served");
    let port = Pebble::free_port();
    let pebble = pebble_for(port);
    let weir =
        ordering(&pebble, port, "shop.example").resources(&everything_to(origin.address(), "")).start();
    let state = wait_for_state(&weir, "acme-shop.example", "valid");
    assert_eq!(
        object_of(&weir, "acme-shop.example")["snis"],
        json!(["shop.example"]),
        "beside a resource file"
    );
    weir.reload();
    let weir = weir.restart();
    assert_eq!(state_of(&weir, "acme-shop.example")["serial"], state["serial"], "in force from the start");
    assert_eq!(weir.get("/any").text(), "served");
}

#[test]
fn record_of_dns_proves_a_wildcard() {
    let port = Pebble::free_port();
    let pebble = pebble_for(port);
    let folder = tempfile::tempdir().unwrap();
    let (hook, log) = (folder.path().join("hook.sh"), folder.path().join("log"));
    let (names, log_text) = (pebble.names_management(), log.display().to_string());
    let script = format!(
        "#!/bin/sh\nset -e\necho \"$1 $2\" >> {log_text}\ncase $1 in\n  present) path=set-txt ;;\n  *) path=clear-txt ;;\nesac\n\
         curl --silent --fail --data \"{{\\\"host\\\":\\\"$2.\\\",\\\"value\\\":\\\"$3\\\"}}\" http://{names}/$path\n"
    );
    fs::write(&hook, script).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let weir = ordering(&pebble, port, "'*.shop.example'")
        .arguments(&["--acme-challenges", "dns-01", "--acme-dns-hook", hook.to_str().unwrap()])
        .arguments(&["--acme-dns-wait", "0"])
        .start();
    let state = wait_for_state(&weir, "acme-wildcard.shop.example", "valid");
    assert_eq!(state["names"], json!(["*.shop.example"]));
    wait_until("the record is removed", || {
        let said = fs::read_to_string(&log).unwrap();
        said == "present _acme-challenge.shop.example\ncleanup _acme-challenge.shop.example\n"
    });
}

#[test]
fn short_certificate_is_renewed_by_a_new_account() {
    let port = Pebble::free_port();
    let settings = PebbleSettings { http_port: port, validity_seconds: 30, ..PebbleSettings::default() };
    let mut pebble = Pebble::start(settings);
    let weir = ordering(&pebble, port, "shop.example").start();
    let first = wait_for_state(&weir, "acme-shop.example", "valid");
    // It forgets its accounts, as an authority may that lost its data.
    pebble.restart();
    wait_until("it is renewed", || {
        let state = state_of(&weir, "acme-shop.example");
        state["serial"] != first["serial"] && state["issued"].as_u64() >= Some(2)
    });
    assert!(weir.stderr().join("\n").contains("has lost the account"), "{:?}", weir.stderr());
}

#[test]
fn external_account_is_bound() {
    let port = Pebble::free_port();
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let external_account = Some(("kid-1".to_owned(), key.to_owned()));
    let pebble =
        Pebble::start(PebbleSettings { http_port: port, external_account, ..PebbleSettings::default() });
    let without = ordering(&pebble, port, "shop.example").start();
    let state = wait_for_state(&without, "acme-shop.example", "failing");
    assert!(state["error"].as_str().unwrap().contains("externalAccountRequired"), "{state}");
    drop(without);
    let weir = ordering(&pebble, port, "shop.example");
    let weir = weir.environment("WEIR_ACME_EXTERNAL_ACCOUNTS", &format!("kid-1:{key}")).start();
    wait_for_state(&weir, "acme-shop.example", "valid");
}
