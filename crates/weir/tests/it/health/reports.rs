//! Where the health of nodes is seen: the control API, the metrics and the command line.

use serde_json::json;
use testkit::{Client, Origin, Reply, Signal, wait_until};

use super::{Checked, control, gateway, quick, upstream, wait_for_states};
use crate::command;

#[test]
fn control_api_and_metrics_show_the_verdicts() {
    let (a, dead) = (Checked::start("a"), Origin::nowhere());
    let weir = gateway(&[]);
    weir.put("upstreams/1", upstream(&[a.address(), dead], quick(json!({"host": "checks.test"}))));
    weir.put("upstreams/2", json!({"nodes": {"127.0.0.1:1": 1}}));
    wait_for_states(&weir, "1", &["usable", "unhealthy"]);
    let node = |port: u16, status: &str, tcp_failure: u32| {
        json!({
            "ip": "127.0.0.1", "port": port, "hostname": "checks.test", "status": status,
            "counter": {"success": 0, "http_failure": 0, "tcp_failure": tcp_failure, "timeout_failure": 0},
        })
    };
    let expected = json!({
        "name": "/apisix/upstreams/1", "type": "http",
        "nodes": [node(a.address().port(), "healthy", 0), node(dead.port(), "unhealthy", 1)],
    });
    assert_eq!(control(&weir, "/v1/healthcheck", &[]).json(), json!([expected]));
    assert_eq!(control(&weir, "/v1/healthcheck/upstreams/1", &[]).json(), expected);
    let none = control(&weir, "/v1/healthcheck/upstreams/2", &[]);
    assert_eq!((none.status, none.json()), (404, json!({"error_msg": "no checker for upstreams[2]"})));
    let page = control(&weir, "/v1/healthcheck", &[("Accept", "text/html")]).text();
    assert!(page.contains(&format!("<td>127.0.0.1:{}<td>unhealthy", dead.port())), "{page}");
    let mut metrics = Client::connect(weir.address("metrics"));
    let text = metrics.get("/apisix/prometheus/metrics").text();
    for line in [
        format!(
            "apisix_upstream_status{{name=\"/apisix/upstreams/1\",ip=\"127.0.0.1\",port=\"{}\"}} 1",
            a.address().port()
        ),
        format!(
            "apisix_upstream_status{{name=\"/apisix/upstreams/1\",ip=\"127.0.0.1\",port=\"{}\"}} 0",
            dead.port()
        ),
        "weir_health_transitions_total{check=\"active\",to=\"unhealthy\"} 1".to_owned(),
    ] {
        assert!(text.lines().any(|one| one == line), "{line} is not in {text}");
    }
    let count =
        text.lines().find_map(|line| line.strip_prefix("weir_health_checks_total{result=\"tcp_failure\"} "));
    assert!(count.is_some_and(|count| count.parse::<u64>().unwrap() > 0), "{text}");
}

#[test]
fn command_lists_upstreams_and_their_nodes() {
    let (a, dead) = (Checked::start("a"), Origin::nowhere());
    let weir = gateway(&[]);
    weir.put("upstreams/orders", upstream(&[a.address(), dead], quick(json!({"type": "tcp"}))));
    weir.put("routes/r", json!({"uri": "/r", "upstream": {"nodes": {"127.0.0.1:1": 3}, "type": "random"}}));
    wait_for_states(&weir, "orders", &["usable", "unhealthy"]);
    let address = weir.address("control").to_string();
    let run = |arguments: &[&str]| {
        let arguments = [&["upstreams", "--control", &address][..], arguments].concat();
        command::weir(weir.directory(), &arguments, &[])
    };
    let all = run(&[]);
    assert_eq!((all.code, all.stderr.as_str()), (0, ""), "{all:?}");
    let lines: Vec<Vec<&str>> =
        all.stdout.lines().map(|line| line.split_whitespace().take(8).collect()).collect();
    assert_eq!(lines[0], ["NODE", "HOST", "WEIGHT", "PRIORITY", "IN", "FLIGHT", "EWMA", "MS"]);
    assert_eq!(lines[1], ["/routes/r", "random,", "http"]);
    assert_eq!(lines[2], ["127.0.0.1:1", "127.0.0.1", "3", "0", "0", "-", "usable", "-"]);
    assert_eq!(lines[3], ["/upstreams/orders", "roundrobin,", "http,", "tcp", "checks"]);
    let (up, down) = (a.address().to_string(), dead.to_string());
    assert_eq!(lines[4][..7], [&up, "127.0.0.1", "1", "0", "0", "-", "usable"]);
    assert_eq!(lines[5][..7], [&down, "127.0.0.1", "1", "0", "0", "-", "unhealthy"]);
    assert!(all.stdout.contains("active checks: 1 TCP failure"), "{}", all.stdout);
    let one = run(&["orders", "--json"]);
    let printed: serde_json::Value = serde_json::from_str(&one.stdout).unwrap();
    assert_eq!(printed, control(&weir, "/v1/weir/upstreams/orders", &[]).json());
    let none = run(&["routes/none"]);
    assert_eq!(none.code, 1);
    assert!(none.stderr.contains("no upstream is in force at /routes/none"), "{none:?}");
}

#[test]
fn report_has_requests_in_flight_and_latency() {
    let go = Signal::new();
    let slow = Origin::start({
        let go = go.clone();
        move |request| match request.path() {
            "/wait" => Reply::new().wait(&go).send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
            _ => Reply::ok("quick"),
        }
    });
    let weir = gateway(&[]);
    weir.put("upstreams/1", json!({"type": "ewma", "nodes": {slow.address().to_string(): 1}}));
    weir.put("routes/1", json!({"uri": "/*", "upstream_id": "1"}));
    let load = || {
        let node = control(&weir, "/v1/weir/upstreams/1", &[]).json()["nodes"][0].clone();
        (node["in_flight"].as_u64().unwrap(), node["ewma_ms"].as_f64())
    };
    assert_eq!(load(), (0, None), "no request yet");
    assert_eq!(weir.client().get("/").status, 200);
    let mut waiting: Vec<_> = (0..3).map(|_| weir.client()).collect();
    waiting.iter_mut().for_each(|client| client.send(b"GET /wait HTTP/1.1\r\nHost: h\r\n\r\n"));
    slow.wait_for_requests(4);
    let (in_flight, ewma_ms) = load();
    assert!(in_flight == 3 && ewma_ms.is_some_and(|ewma_ms| ewma_ms > 0.0), "{in_flight} {ewma_ms:?}");
    let (_, admin) = weir.admin("GET", "weir/upstreams/1", json!(null));
    assert_eq!(admin["nodes"][0]["in_flight"], 3);
    go.set();
    waiting.iter_mut().for_each(|client| assert_eq!(client.read_response(false).unwrap().status, 200));
    wait_until("no request is in flight", || load().0 == 0);
}
