//! From an order to HTTPS: certificates that were proven over HTTP, over TLS and on demand serve clients on a
//! TLS listener.

use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use testkit::{Origin, Pebble, PebbleSettings, Weir, wait_until};

use super::{ordering, state_of, wait_for_state};
use crate::support::everything_to;

/// A free port for TLS, a Pebble that asks for answers there, and a gateway to `origin` with these settings
/// more.
fn with_tls(origin: &Origin, domains: &str, more: &[&str]) -> (Pebble, Weir) {
    let [http_port, tls_port] = [Pebble::free_port(), Pebble::free_port()];
    let pebble = Pebble::start(PebbleSettings { http_port, tls_port, ..PebbleSettings::default() });
    let listener = format!("127.0.0.1:{tls_port}");
    let weir = ordering(&pebble, http_port, domains)
        .resources(&everything_to(origin.address(), ""))
        .arguments(&["--proxy-tls", &listener])
        .arguments(more)
        .start();
    (pebble, weir)
}

/// The output of curl for `https://NAME/` at `address`, with the authority's root as the only one that is
/// trusted.
fn https(pebble: &Pebble, address: SocketAddr, name: &str) -> Output {
    let port = address.port();
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "20", "--cacert"]).arg(pebble.root());
    command.arg("--resolve").arg(format!("{name}:{port}:127.0.0.1")).arg(format!("https://{name}:{port}/"));
    command.output().expect("curl: `make test` installs it")
}

fn serves(pebble: &Pebble, weir: &Weir, name: &str) {
    wait_until(&format!("https://{name}/ is served"), || {
        let output = https(pebble, weir.address("proxy-tls"), name);
        output.status.success() && output.stdout == b"served"
    });
}

#[test]
fn site_is_served_after_an_http_challenge() {
    let origin = Origin::answering("served");
    let (pebble, weir) = with_tls(&origin, "shop.example", &[]);
    wait_for_state(&weir, "acme-shop.example", "valid");
    serves(&pebble, &weir, "shop.example");
    assert!(!https(&pebble, weir.address("proxy-tls"), "other.example").status.success());
}

#[test]
fn site_is_served_after_a_tls_challenge() {
    let origin = Origin::answering("served");
    let more = ["--acme-challenges", "tls-alpn-01"];
    let (pebble, weir) = with_tls(&origin, "shop.example www.shop.example", &more);
    let state = wait_for_state(&weir, "acme-shop.example", "valid");
    assert_eq!(state["issued"], 1, "{state}");
    serves(&pebble, &weir, "shop.example");
    serves(&pebble, &weir, "www.shop.example");
}

#[test]
fn challenge_protocol_gets_no_certificate_of_a_site() {
    let origin = Origin::answering("served");
    let (pebble, weir) = with_tls(&origin, "shop.example", &[]);
    wait_for_state(&weir, "acme-shop.example", "valid");
    serves(&pebble, &weir, "shop.example");
    let mut client = Command::new("openssl");
    client.args([
        "s_client",
        "-connect",
        &weir.address("proxy-tls").to_string(),
        "-servername",
        "shop.example",
    ]);
    let output = client.args(["-alpn", "acme-tls/1"]).stdin(Stdio::null()).output();
    let output = output.expect("openssl: `make test` installs it");
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(!said.contains("BEGIN CERTIFICATE") && said.contains("alert"), "{said}");
    assert!(!output.status.success());
}

#[test]
fn first_handshake_orders_a_certificate_on_demand() {
    let origin = Origin::answering("served");
    let more = ["--acme-challenges", "tls-alpn-01", "--acme-on-demand", "*.shop.example"];
    let (pebble, weir) = with_tls(&origin, "", &more);
    let tls = weir.address("proxy-tls");
    for refused in ["a.other.example", "shop.example", "a.b.shop.example"] {
        assert!(!https(&pebble, tls, refused).status.success(), "{refused}");
    }
    assert!(!https(&pebble, tls, "a.shop.example").status.success(), "there is no certificate yet");
    let state = wait_for_state(&weir, "acme-a.shop.example", "valid");
    assert_eq!((&state["on_demand"], &state["names"]), (&json!(true), &json!(["a.shop.example"])));
    serves(&pebble, &weir, "a.shop.example");
    let (_, all) = weir.admin("GET", "weir/certificates?q=kind:acme", Value::Null);
    assert_eq!(all["total"], 1, "other names were not noted: {all}");
    let weir = weir.restart();
    assert_eq!(state_of(&weir, "acme-a.shop.example")["serial"], state["serial"]);
}
