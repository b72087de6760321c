//! `limit-req` and `limit-conn` through the real gateway, with counts of its own process.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Client, Origin, Reply, Response, Signal, Step, Weir, wait_until};

const BINARY: &str = env!("CARGO_BIN_EXE_weir");

/// Puts a route for `uri` to the origin with these plugins.
fn route(weir: &Weir, id: &str, uri: &str, origin: &Origin, plugins: Value) {
    let nodes = json!({origin.address().to_string(): 1});
    weir.put(&format!("routes/{id}"), json!({"uri": uri, "upstream": {"nodes": nodes}, "plugins": plugins}));
}

#[test]
fn limit_req_refuses_and_delays() {
    let origin = Origin::answering("passed");
    let weir = Weir::start(BINARY);
    let limit = json!({"limit-req": {
        "rate": 0.01, "burst": 1, "nodelay": true, "key": "http_x_id", "rejected_code": 429, "rejected_msg": "slow down",
    }});
    route(&weir, "1", "/refused", &origin, limit);
    let get = |id: &str| weir.client().request("GET", "/refused", &[("X-Id", id)], b"");
    let statuses: Vec<u16> = ["a", "a", "a", "b"].iter().map(|id| get(id).status).collect();
    assert_eq!(statuses, [200, 200, 429, 200]);
    assert_eq!(get("a").json(), json!({"error_msg": "slow down"}));

    route(
        &weir,
        "2",
        "/delayed",
        &origin,
        json!({"limit-req": {"rate": 4, "burst": 10, "key": "remote_addr"}}),
    );
    let began = Instant::now();
    let delayed: Vec<Response> = (0..3).map(|_| weir.get("/delayed")).collect();
    assert!(delayed.iter().all(|response| response.status == 200), "{delayed:?}");
    // Each of the second and the third request waits until a quarter of a second after the one before.
    assert!(began.elapsed() >= Duration::from_millis(480), "{:?}", began.elapsed());
}

#[test]
fn limit_req_survives_other_changes() {
    let origin = Origin::answering("passed");
    let weir = Weir::start(BINARY);
    let limit = json!({"limit-req": {"rate": 0.01, "burst": 0, "nodelay": true, "key": "remote_addr"}});
    route(&weir, "1", "/a", &origin, limit.clone());
    assert_eq!(weir.get("/a").status, 200);
    let mut with_another = limit;
    with_another["cors"] = json!({});
    route(&weir, "1", "/a", &origin, with_another);
    wait_until("the change is in force", || weir.get("/a").header("access-control-allow-origin").is_some());
    assert_eq!(weir.get("/a").status, 503);
}

/// Sends a request that the origin holds, and waits until it is there.
fn held(weir: &Weir, origin: &Origin, id: &str) -> Client {
    let before = origin.requests().len();
    let mut client = weir.client();
    client.send(format!("GET /held HTTP/1.1\r\nHost: h\r\nX-Id: {id}\r\n\r\n").as_bytes());
    origin.wait_for_requests(before + 1);
    client
}

#[test]
fn limit_conn_counts_down_however_requests_end() {
    let go = Signal::new();
    let origin = Origin::start({
        let go = go.clone();
        let held = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nheld";
        move |request| match request.path() {
            "/held" => Reply::new().then(Step::Wait(go.clone())).send(held),
            "/reset" => Reply::new().then(Step::Reset),
            _ => Reply::ok("free"),
        }
    });
    let weir = Weir::start(BINARY);
    let limit = json!({"limit-conn": {
        "conn": 1, "burst": 0, "default_conn_delay": 0.1, "key": "http_x_id", "rejected_code": 429,
        "rejected_msg": "busy",
    }});
    route(&weir, "1", "/*", &origin, limit);
    let get = |path: &str, id: &str| weir.client().request("GET", path, &[("X-Id", id)], b"");
    let is_freed =
        |id: &str| wait_until(&format!("the place of {id} is free"), || get("/", id).status == 200);

    let leaving = held(&weir, &origin, "leaving");
    let refused = get("/", "leaving");
    assert_eq!((refused.status, refused.json()), (429, json!({"error_msg": "busy"})));
    drop(leaving);
    is_freed("leaving");

    assert_eq!(get("/reset", "failing").status, 502);
    is_freed("failing");

    let mut complete = held(&weir, &origin, "complete");
    assert_eq!(get("/", "complete").status, 429);
    assert_eq!(get("/", "another").status, 200);
    go.set();
    assert_eq!(complete.read_response(false).unwrap().status, 200);
    is_freed("complete");
}
