//! Listeners that are added and removed while the instance runs: HUP reads the settings file again and brings
//! its `proxy` list into force, all of it or nothing, without an effect on the listeners that stay.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::{Client, Origin, Signal, Weir, wait_for, wait_until};

use crate::load::Load;
use crate::support::{TUNNEL, builder, everything_to, lasting_origin, route, upstream};

/// A gateway with two workers and with its `proxy` setting in the settings file.
fn gateway_with(proxy: &str, resources: &str) -> Weir {
    builder(resources).settings(&format!("proxy: {proxy}\n")).arguments(&["--workers", "2"]).start()
}

/// Writes another list of addresses into the settings file and sends HUP.
fn set_proxy(weir: &Weir, proxy: &str) {
    weir.rewrite_settings(&format!("proxy: {proxy}\n"));
    weir.reload();
}

/// The announced addresses of the proxy, in order.
fn announced(weir: &Weir) -> Vec<SocketAddr> {
    let lines = weir.stdout();
    let addresses = lines.iter().filter_map(|line| line.strip_prefix("listening proxy "));
    addresses.map(|address| address.parse().unwrap()).collect()
}

fn wait_for_listener(weir: &Weir, number: usize) -> SocketAddr {
    wait_for("another listener is announced", || announced(weir).get(number).copied())
}

fn wait_for_closed(weir: &Weir, address: SocketAddr) {
    let line = format!("closed proxy {address}");
    wait_until("the listener is closed", || weir.stdout().contains(&line));
    wait_until("it refuses connections", || TcpStream::connect(address).is_err());
}

fn wait_for_message(weir: &Weir, parts: &[&str]) {
    let said = || weir.stderr().iter().any(|line| parts.iter().all(|part| line.contains(part)));
    wait_until(&format!("the log says {parts:?}"), said);
}

#[test]
fn listener_changes_fail_no_request() {
    let origin = Origin::answering("served");
    let weir = gateway_with("127.0.0.1:0", &everything_to(origin.address(), ""));
    let first = weir.proxy();
    let load = Load::start(first, "/");
    for round in 0..3 {
        set_proxy(&weir, "[127.0.0.1:0, 127.0.0.1:0]");
        let second = wait_for_listener(&weir, 1 + round);
        let other = Load::start(second, "/");
        load.goes_on();
        assert!(other.stop() > 0);
        set_proxy(&weir, &first.to_string());
        wait_for_closed(&weir, second);
        load.goes_on();
    }
    assert!(load.stop() > 0);
    assert!(
        !weir.stdout().iter().any(|line| line == &format!("closed proxy {first}")),
        "it was never touched"
    );
}

#[test]
fn busy_clients_leave_removed_listener_without_loss() {
    let origin = Origin::answering("served");
    let weir = gateway_with("[127.0.0.1:0, 127.0.0.1:0]", &everything_to(origin.address(), ""));
    let [kept, removed] = announced(&weir)[..] else { panic!("two listeners") };
    let mut clients: Vec<Client> = (0..20).map(|_| Client::connect(removed)).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.get("/").status, 200));
    let began = Instant::now();
    set_proxy(&weir, &kept.to_string());
    wait_until("the listener is closed", || weir.stdout().contains(&format!("closed proxy {removed}")));
    for client in &mut clients {
        match client.try_request("GET", "/", &[], b"") {
            Ok(response) => {
                assert_eq!((response.status, response.header("connection")), (200, Some("close")));
                assert!(client.closes_cleanly());
            }
            // Only after a pause of the machine as long as this may a connection be closed before its
            // request.
            Err(broken) => assert!(began.elapsed() >= FAREWELL, "{broken}"),
        }
    }
    assert_ne!(Client::connect(kept).get("/").header("connection"), Some("close"));
}

#[test]
fn removed_listener_lets_requests_finish() {
    let (asked, go) = (Signal::new(), Signal::new());
    let origin = lasting_origin(&asked, &go);
    let resources = route("uri: /*, enable_websocket: true", &upstream(&[origin.address()], ""));
    let weir = gateway_with("[127.0.0.1:0, 127.0.0.1:0]", &resources);
    let [kept, removed] = announced(&weir)[..] else { panic!("two listeners") };
    let (mut idle, mut tunnel, mut busy) =
        (Client::connect(removed), Client::connect(removed), Client::connect(removed));
    assert_eq!(tunnel.request("GET", "/chat", &TUNNEL, b"").status, 101);
    busy.send(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(asked.wait());
    set_proxy(&weir, &kept.to_string());
    wait_for_closed(&weir, removed);
    assert!(idle.closes_cleanly(), "an idle connection ends");
    go.set();
    let response = busy.read_response(false).unwrap();
    assert_eq!((response.text(), response.header("connection")), ("done".to_owned(), Some("close")));
    assert!(busy.closes_cleanly());
    tunnel.send(b"still here");
    assert_eq!(tunnel.read_bytes(10), b"still here");
}

#[test]
fn listeners_that_cannot_be_bound_change_nothing() {
    let origin = Origin::answering("served");
    let weir = gateway_with("127.0.0.1:0", &everything_to(origin.address(), ""));
    let first = weir.proxy();
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = stranger.local_addr().unwrap();
    set_proxy(&weir, &format!("[127.0.0.1:0, '{taken}']"));
    wait_for_message(&weir, &["ERROR", "stay as they are", &format!("cannot listen on {taken}: Address")]);
    set_proxy(&weir, &format!("0.0.0.0:{}", first.port()));
    wait_for_message(&weir, &["ERROR", &format!("; {first} overlaps with it")]);
    set_proxy(&weir, "nowhere");
    wait_for_message(&weir, &["ERROR", "weir.yaml:1: proxy: `nowhere`"]);
    set_proxy(&weir, "127.0.0.1:0\nworkers: 2\ngrace: 7\nlog_level: warn");
    wait_for_message(&weir, &["WARN", "wait for a restart or an upgrade", "grace, log_level"]);
    assert_eq!(announced(&weir), [first], "nothing came");
    assert_eq!(Client::connect(first).get("/").status, 200, "nothing went");
    // The conflicting listener is removed first, then the address of the whole machine can be bound.
    set_proxy(&weir, "off");
    wait_for_closed(&weir, first);
    set_proxy(&weir, &format!("0.0.0.0:{}", first.port()));
    assert_eq!(wait_for_listener(&weir, 1).port(), first.port());
    assert_eq!(Client::connect(first).get("/").status, 200);
}

#[test]
fn the_control_api_lists_what_listens() {
    let weir = gateway_with("127.0.0.1:0", "routes: []");
    let listed = || Client::connect(weir.address("control")).get("/v1/weir/listeners").json();
    let entry = |name: &str, address: SocketAddr| {
        let protocols: &[&str] = if name == "proxy" { &["http1", "http2"] } else { &["http1"] };
        json!({"name": name, "address": address.to_string(), "protocols": protocols})
    };
    let control: Vec<_> =
        ["admin", "control", "status", "metrics"].map(|name| entry(name, weir.address(name))).into();
    let expected = |proxies: &[SocketAddr]| {
        let proxies = proxies.iter().map(|address| entry("proxy", *address));
        serde_json::Value::from(proxies.chain(control.iter().cloned()).collect::<Vec<_>>())
    };
    assert_eq!(listed(), expected(&[weir.proxy()]));
    set_proxy(&weir, "[127.0.0.1:0, 127.0.0.1:0]");
    let second = wait_for_listener(&weir, 1);
    assert_eq!(listed(), expected(&[weir.proxy(), second]));
    set_proxy(&weir, &second.to_string());
    wait_for_closed(&weir, weir.proxy());
    assert_eq!(listed(), expected(&[second]));
}

/// How long idle connections of a removed listener are kept.
const FAREWELL: Duration = Duration::from_secs(2);
