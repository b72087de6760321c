//! Silent clients that hold scarce descriptors or seats: their connections are evicted, those with a request
//! in flight never.

use testkit::{Client, Origin, Reply, Signal, Weir, wait_for, wait_until};

use super::{descriptors, let_open, let_open_nothing, metric, metrics};
use crate::support::{builder, everything_to, in_front_of_with};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
/// Two workers, so that one has to ask the other for a connection to evict.
const WORKERS: [&str; 2] = ["--workers", "2"];

fn evicted(metrics: &mut Client, limit: &str, state: &str) -> u64 {
    let series = format!("weir_connections_evicted_total{{limit=\"{limit}\",state=\"{state}\"}}");
    metric(metrics, &series)
}

fn connections(metrics: &mut Client, state: &str) -> u64 {
    metric(metrics, &format!("apisix_nginx_http_current_connections{{state=\"{state}\"}}"))
}

/// The response to a new client. Retried, because the client is refused while no connection has been silent
/// long enough.
fn new_client(weir: &Weir) -> Client {
    wait_for("a new client is served", || {
        let mut client = Client::try_connect(weir.proxy()).ok()?;
        let response = client.try_request("GET", "/", &[], b"").ok()?;
        (response.status == 200).then_some(client)
    })
}

#[test]
fn silent_clients_give_way_when_descriptors_run_out() {
    let origin = Origin::answering("hello");
    let weir = in_front_of_with(&origin, &WORKERS);
    let mut metrics = metrics(&weir);
    let mut kept = weir.client();
    assert_eq!(kept.get("/").status, 200);
    let open = descriptors(&weir).len() as u64;
    let_open(&weir, open + 40);
    // The kernel completes all handshakes, twice as many as there are descriptors.
    let silent: Vec<Client> = (0..80).map(|_| weir.client()).collect();
    for _ in 0..20 {
        // One connection each, so that every response shows an accepted client. A silent one may take the
        // descriptor that was freed for the connection to the node; such a request is a 503, and is sent
        // again.
        new_client(&weir);
        assert_eq!(kept.get("/").text(), "hello", "a client that asks now and then stays");
    }
    wait_until("it is counted", || evicted(&mut metrics, "open_files", "unspoken") >= 40);
    assert_eq!(evicted(&mut metrics, "open_files", "idle"), 0, "none was silent for longer");
    let warnings = weir.stderr().iter().filter(|line| line.contains("silent longest")).count();
    assert!(warnings >= 1, "{:?}", weir.stderr());
    assert!(descriptors(&weir).len() as u64 <= open + 40, "some are left for others");
    drop(silent);
}

#[test]
fn silent_client_gives_way_to_a_connection_to_a_node() {
    let origin = Origin::answering("hello");
    let weir = in_front_of_with(&origin, &[]);
    let mut metrics = metrics(&weir);
    let mut client = weir.client();
    let mut silent: Vec<Client> = (0..5).map(|_| weir.client()).collect();
    wait_until("all are accepted", || connections(&mut metrics, "waiting") == 6);
    let_open_nothing(&weir);
    // 503 until a connection has been silent long enough; the client's own connection has a request in
    // flight.
    wait_until("it is served", || client.get("/").status == 200);
    assert!(evicted(&mut metrics, "open_files", "unspoken") >= 1);
    let_open(&weir, 1_000);
    silent.retain_mut(|one| one.try_request("GET", "/", &[], b"").is_ok());
    assert!(silent.len() < 5, "none was closed");
}

#[test]
fn idle_connections_to_nodes_give_way_to_clients() {
    let go = Signal::new();
    let origin = Origin::start({
        let go = go.clone();
        move |_| Reply::new().wait(&go).send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    });
    let weir = in_front_of_with(&origin, &[]);
    let mut metrics = metrics(&weir);
    let mut clients: Vec<Client> = (0..5).map(|_| weir.client()).collect();
    clients.iter_mut().for_each(|client| client.send(GET));
    origin.wait_for_requests(5);
    go.set();
    clients.iter_mut().for_each(|client| assert_eq!(client.read_response(false).unwrap().text(), "ok"));
    drop(clients);
    wait_until("no client is left", || connections(&mut metrics, "active") == 0);
    // The next clients take the lowest free descriptors; their requests are in flight and do not wait for a
    // node yet.
    let mut uploads: Vec<Client> = (0..5).map(|_| weir.client()).collect();
    let head = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n";
    uploads.iter_mut().for_each(|client| client.send(head));
    wait_until("their heads were read", || connections(&mut metrics, "writing") == 5);
    assert_eq!(origin.closed_connections(), 0);
    let_open_nothing(&weir);
    let mut fresh = weir.client();
    assert_eq!(fresh.get("/").text(), "ok");
    origin.wait_for_closed(5);
}

#[test]
fn idle_clients_give_way_when_seats_run_out() {
    let origin = Origin::answering("hello");
    let weir = in_front_of_with(&origin, &[&WORKERS[..], &["--max-connections", "10"]].concat());
    let mut metrics = metrics(&weir);
    let mut idle: Vec<Client> = (0..10).map(|_| weir.client()).collect();
    idle.iter_mut().for_each(|client| assert_eq!(client.get("/").status, 200));
    let mut fresh: Vec<Client> = (0..5).map(|_| new_client(&weir)).collect();
    assert_eq!(evicted(&mut metrics, "max_connections", "idle"), 5);
    idle.retain_mut(|client| client.try_request("GET", "/", &[], b"").is_ok());
    assert_eq!(idle.len(), 5, "one gives way for each");
    assert!(fresh.iter_mut().all(|client| client.get("/").status == 200), "not those that came last");
    wait_until("all seats are taken", || connections(&mut metrics, "active") == 10);
}

#[test]
fn silent_client_gives_way_before_an_idle_one() {
    let origin = Origin::answering("hello");
    let weir = in_front_of_with(&origin, &[&WORKERS[..], &["--max-connections", "4"]].concat());
    let mut metrics = metrics(&weir);
    let mut silent: Vec<Client> = (0..2).map(|_| weir.client()).collect();
    wait_until("they are accepted", || connections(&mut metrics, "waiting") == 2);
    let mut idle: Vec<Client> = (0..2).map(|_| weir.client()).collect();
    idle.iter_mut().for_each(|client| assert_eq!(client.get("/").status, 200));
    wait_until("all seats are taken", || connections(&mut metrics, "waiting") == 4);
    let mut fresh: Vec<Client> = (0..2).map(|_| new_client(&weir)).collect();
    assert!(silent.iter_mut().all(|client| client.try_request("GET", "/", &[], b"").is_err()));
    assert!(idle.iter_mut().chain(&mut fresh).all(|client| client.get("/").status == 200));
    let states = ["unspoken", "idle"].map(|state| evicted(&mut metrics, "max_connections", state));
    assert_eq!(states, [2, 0]);
}

#[test]
fn request_in_flight_never_gives_way() {
    let go = Signal::new();
    let origin = Origin::start({
        let go = go.clone();
        move |_| Reply::new().wait(&go).send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    });
    let weir = in_front_of_with(&origin, &[&WORKERS[..], &["--max-connections", "3"]].concat());
    let mut metrics = metrics(&weir);
    let mut busy: Vec<Client> = (0..3).map(|_| weir.client()).collect();
    busy.iter_mut().for_each(|client| client.send(GET));
    origin.wait_for_requests(3);
    for _ in 0..5 {
        // The reset may arrive before `connect` returns.
        if let Ok(mut client) = Client::try_connect(weir.proxy()) {
            assert!(client.try_request("GET", "/", &[], b"").is_err(), "there is no seat");
        }
    }
    assert_eq!(metric(&mut metrics, "weir_connections_refused_total{limit=\"max_connections\"}"), 5);
    go.set();
    for client in &mut busy {
        assert_eq!(client.read_response(false).unwrap().text(), "ok");
    }
    new_client(&weir);
}

#[test]
fn unfinished_head_gives_way_when_nothing_else_can() {
    let origin = Origin::answering("hello");
    let weir = builder(&everything_to(origin.address(), ""))
        .arguments(&["--max-connections", "2", "--head-timeout-ms", "60000"])
        .start();
    let mut metrics = metrics(&weir);
    let mut heads: Vec<Client> = Vec::new();
    for number in 1..=2 {
        let mut client = weir.client();
        client.send(&GET[..10]);
        heads.push(client);
        wait_until("a part of a head has come", || connections(&mut metrics, "reading") == number);
    }
    let mut fresh = new_client(&weir);
    assert_eq!(evicted(&mut metrics, "max_connections", "head"), 1);
    assert!(heads.remove(0).closes_cleanly(), "the oldest");
    heads[0].send(&GET[10..]);
    assert_eq!(heads[0].read_response(false).unwrap().text(), "hello");
    assert_eq!(fresh.get("/").status, 200);
}
