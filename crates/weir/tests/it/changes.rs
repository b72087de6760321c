//! Changes through the Admin API under traffic: every response is entirely of the old or entirely of the new
//! form; once the Admin API has answered, only of the new one. Objects that a change does not concern keep
//! their state.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use serde_json::{Value, json};
use testkit::{Client, Origin, Reply, Step, Weir, wait_until};

const BINARY: &str = env!("CARGO_BIN_EXE_weir");

fn started_with_workers(workers: &str) -> Weir {
    Weir::builder(BINARY).arguments(&["--workers", workers]).start()
}

/// The route in its `version`, with the same number in the request to the origin and in the response to the
/// client.
fn route(origin: &Origin, version: u64) -> Value {
    json!({
        "uri": "/changed",
        "upstream": {"nodes": {origin.address().to_string(): 1}},
        "plugins": {
            "proxy-rewrite": {"uri": format!("/v/{version}"), "headers": {"set": {"X-Asked": version.to_string()}}},
            "response-rewrite": {"headers": {"set": {"X-Told": version.to_string()}}},
        },
    })
}

/// The version of a response; fails if its parts have different ones.
fn version_of(client: &mut Client) -> u64 {
    let response = client.get("/changed");
    assert_eq!(response.status, 200, "{}", response.text());
    let body = response.text();
    let (target, asked) = body.split_once(' ').unwrap();
    let versions: HashSet<&str> =
        [target.strip_prefix("/v/").unwrap(), asked, response.header("x-told").unwrap()].into();
    assert_eq!(versions.len(), 1, "half a change: {versions:?}");
    asked.parse().unwrap()
}

fn telling_origin() -> Origin {
    Origin::start(|request| {
        Reply::ok(&format!("{} {}", request.target, request.header("x-asked").unwrap_or_default()))
    })
}

#[test]
fn route_change_is_atomic_on_every_worker() {
    let origin = telling_origin();
    let weir = started_with_workers("3");
    weir.put("routes/1", route(&origin, 0));
    let (asked_for, answered) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let callers: Vec<_> = (0..CONNECTIONS)
        .map(|number| {
            let (proxy, asked_for, answered) = (weir.proxy(), Arc::clone(&asked_for), Arc::clone(&answered));
            let (stop, served) = (Arc::clone(&stop), Arc::clone(&served));
            thread::spawn(move || {
                let mut client = Client::connect(proxy);
                while !stop.load(Ordering::SeqCst) {
                    // Some clients use a fresh connection, so that every worker accepts during changes too.
                    if number % 4 == 0 {
                        client = Client::connect(proxy);
                    }
                    let least = answered.load(Ordering::SeqCst);
                    let version = version_of(&mut client);
                    let most = asked_for.load(Ordering::SeqCst);
                    assert!((least..=most).contains(&version), "{version} is not in {least}..={most}");
                    served.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    for version in 1..=CHANGES {
        let before = served.load(Ordering::SeqCst);
        asked_for.store(version, Ordering::SeqCst);
        weir.put("routes/1", route(&origin, version));
        answered.store(version, Ordering::SeqCst);
        wait_until("traffic went on", || {
            served.load(Ordering::SeqCst) > before || callers.iter().any(thread::JoinHandle::is_finished)
        });
    }
    stop.store(true, Ordering::SeqCst);
    for caller in callers {
        caller.join().unwrap();
    }
    let (_, status) = weir.admin("GET", "weir/status", Value::Null);
    let workers = status["workers"].as_array().unwrap();
    assert_eq!(workers.len(), 3);
    wait_until("every worker runs the last revision", || {
        let (_, status) = weir.admin("GET", "weir/status", Value::Null);
        status["workers"].as_array().unwrap().iter().all(|worker| worker["revision"] == status["revision"])
    });
}

#[test]
fn change_of_a_referenced_object_reaches_routes() {
    let (one, other) = (Origin::answering("one"), Origin::answering("other"));
    let weir = started_with_workers("2");
    let upstream = |origin: &Origin| json!({"nodes": {origin.address().to_string(): 1}});
    weir.put("upstreams/u", upstream(&one));
    weir.put("services/s", json!({"upstream_id": "u"}));
    weir.put(
        "plugin_configs/p",
        json!({"plugins": {"response-rewrite": {"headers": {"set": {"X-P": "1"}}}}}),
    );
    weir.put("routes/r", json!({"uri": "/r", "service_id": "s", "plugin_config_id": "p"}));
    let mut clients: Vec<Client> = (0..8).map(|_| weir.client()).collect();
    let mut all_see = |body: &str, mark: Option<&str>, status: u16| {
        for client in &mut clients {
            let response = client.get("/r");
            assert_eq!((response.status, response.header("x-p")), (status, mark), "{}", response.text());
            assert!(response.text().contains(body), "{}", response.text());
        }
    };
    all_see("one", Some("1"), 200);
    weir.put("upstreams/u", upstream(&other));
    all_see("other", Some("1"), 200);
    weir.put(
        "plugin_configs/p",
        json!({"plugins": {"response-rewrite": {"headers": {"set": {"X-P": "2"}}}}}),
    );
    all_see("other", Some("2"), 200);
    weir.put("services/s", json!({"upstream": upstream(&one)}));
    all_see("one", Some("2"), 200);
    weir.admin("PATCH", "routes/r", json!({"status": 0}));
    all_see("404 Route Not Found", None, 404);
    weir.admin("PATCH", "routes/r", json!({"status": 1, "plugin_config_id": null}));
    all_see("one", None, 200);
    weir.delete("routes/r");
    all_see("404 Route Not Found", None, 404);
}

#[test]
fn tunnels_and_kept_connections_outlive_changes() {
    let origin = Origin::on_head(|request| {
        if request.header("upgrade").is_none() {
            return Reply::ok("plain");
        }
        let switching =
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
        Reply::raw(switching).then(Step::Echo)
    });
    let weir = Weir::start(BINARY);
    let route = json!({
        "uri": "/*", "enable_websocket": true, "upstream": {"nodes": {origin.address().to_string(): 1}},
    });
    weir.put("routes/1", route.clone());
    let (mut tunnel, mut kept) = (weir.client(), weir.client());
    let upgrade = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "13")];
    assert_eq!(tunnel.request("GET", "/chat", &upgrade, b"").status, 101);
    assert_eq!(kept.get("/").status, 200);
    let before = origin.connections();
    for number in 0..CHANGES {
        weir.put(&format!("routes/u{}", number % 7), unrelated(number));
        let said = format!("message {number}");
        tunnel.send(said.as_bytes());
        assert_eq!(tunnel.read_bytes(said.len()), said.as_bytes());
        assert_eq!(kept.get("/").text(), "plain");
    }
    assert_eq!(origin.connections(), before, "no connection to the origin was opened anew");
    // A change of the tunnel's own route does not cut the tunnel either.
    let mut changed = route;
    changed["desc"] = json!("changed");
    weir.put("routes/1", changed);
    tunnel.send(b"still here");
    assert_eq!(tunnel.read_bytes(10), b"still here");
    assert_eq!(kept.get("/").text(), "plain");
}

#[test]
fn unrelated_change_keeps_turns_and_pools() {
    let origins: Vec<Origin> = ["a", "b", "c"].map(Origin::answering).into();
    let weir = Weir::start(BINARY);
    let nodes: serde_json::Map<String, Value> =
        origins.iter().map(|origin| (origin.address().to_string(), json!(1))).collect();
    weir.put("upstreams/u", json!({"nodes": nodes, "type": "roundrobin"}));
    weir.put("routes/1", json!({"uri": "/r", "upstream_id": "u"}));
    let mut client = weir.client();
    let mut turns = Vec::new();
    for number in 0..30 {
        weir.put(&format!("routes/u{}", number % 3), unrelated(number));
        turns.push(client.get("/r").text());
    }
    for turn in turns.chunks(3) {
        let distinct: HashSet<&String> = turn.iter().collect();
        assert_eq!(distinct.len(), 3, "each node once in three requests: {turns:?}");
    }
    assert_eq!(origins.iter().map(Origin::connections).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn unrelated_change_resets_no_limit() {
    let origin = Origin::answering("served");
    let weir = started_with_workers("2");
    let limited = json!({
        "uri": "/limited",
        "upstream": {"nodes": {origin.address().to_string(): 1}},
        "plugins": {"limit-count": {"count": 5, "time_window": 3600, "rejected_code": 429}},
    });
    weir.put("routes/1", limited);
    let mut statuses = Vec::new();
    for number in 0..8 {
        weir.put("routes/u", unrelated(number));
        statuses.push(weir.get("/limited").status);
    }
    assert_eq!(
        statuses,
        [200, 200, 200, 200, 200, 429, 429, 429],
        "one count for all workers and generations"
    );
}

#[test]
fn node_changes_fail_no_request() {
    let origins: Arc<Vec<Origin>> = Arc::new(["a", "b", "c"].map(Origin::answering).into());
    let weir = started_with_workers("2");
    let put = |used: &[usize]| {
        let nodes: serde_json::Map<String, Value> =
            used.iter().map(|index| (origins[*index].address().to_string(), json!(1))).collect();
        weir.put("upstreams/u", json!({ "nodes": nodes }));
    };
    put(&[0]);
    weir.put("routes/1", json!({"uri": "/r", "upstream_id": "u"}));
    let stop = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> =
        (0..CONNECTIONS).map(|_| thread::spawn(call_until(weir.proxy(), Arc::clone(&stop)))).collect();
    for round in 0..CHANGES as usize / 3 {
        for used in [&[0, 1][..], &[1, 2], &[2], &[0, 1, 2], &[round % 3]] {
            put(used);
        }
    }
    stop.store(true, Ordering::SeqCst);
    let served: u64 = callers.into_iter().map(|caller| caller.join().unwrap()).sum();
    assert!(served > 0);
}

/// Sends requests until `stop` is set; returns how many were served.
fn call_until(proxy: SocketAddr, stop: Arc<AtomicBool>) -> impl FnOnce() -> u64 + Send {
    move || {
        let mut client = Client::connect(proxy);
        let mut served = 0;
        while served == 0 || !stop.load(Ordering::SeqCst) {
            let response = client.get("/r");
            assert_eq!(response.status, 200, "{}", response.text());
            served += 1;
        }
        served
    }
}

/// A route that no test requests.
fn unrelated(number: u64) -> Value {
    json!({"uri": format!("/unrelated/{number}"), "plugins": {"mocking": {"response_example": "x"}}})
}

/// Connections that send requests without a pause: several for each worker.
const CONNECTIONS: usize = 12;
/// Changes during the requests.
const CHANGES: u64 = 60;
