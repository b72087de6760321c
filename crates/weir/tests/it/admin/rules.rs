//! Rules of APISIX about objects that show only from outside: which upstream wins, which fields belong to the
//! gateway, how stream routes are treated.

use serde_json::{Value, json};
use testkit::{Origin, Weir};

use super::{BINARY, check, error, nodes};

#[test]
fn upstream_id_wins_over_upstream() {
    let (named, own) = (Origin::answering("named"), Origin::answering("own"));
    let weir = Weir::start(BINARY);
    let nodes = |origin: &Origin| json!({"nodes": {origin.address().to_string(): 1}});
    weir.put("upstreams/u", nodes(&named));
    weir.put("services/s", json!({"upstream_id": "u", "upstream": nodes(&own)}));
    weir.put("routes/a", json!({"uri": "/a", "upstream_id": "u", "upstream": nodes(&own)}));
    weir.put("routes/b", json!({"uri": "/b", "service_id": "s"}));
    weir.put("routes/c", json!({"uri": "/c", "service_id": "s", "upstream": nodes(&own)}));
    for (path, expected) in [("/a", "named"), ("/b", "named"), ("/c", "own")] {
        assert_eq!(weir.get(path).text(), expected, "{path}");
    }
}

#[test]
fn times_of_the_gateway_are_forbidden() {
    let weir = Weir::start(BINARY);
    let upstream = json!({"nodes": nodes(), "create_time": 1});
    let forbidden = |name: &str| error(&format!("the property is forbidden:  {name}"));
    check(&weir, ("PUT", "services/1"), json!({"create_time": 1}), 400, forbidden("create_time"));
    check(&weir, ("PUT", "services/1"), json!({"update_time": 1}), 400, forbidden("update_time"));
    check(
        &weir,
        ("PUT", "services/1"),
        json!({"upstream": upstream}),
        400,
        forbidden("upstream.create_time"),
    );
    check(&weir, ("POST", "services"), json!({"upstream": upstream}), 400, forbidden("upstream.create_time"));
}

#[test]
fn stream_routes_are_accepted_if_so_set() {
    let weir = Weir::start(BINARY);
    let route = json!({"server_port": 9100, "upstream": {"nodes": nodes()}});
    let off = error("stream mode is disabled, can not add stream routes");
    for (method, target) in [("PUT", "stream_routes/1"), ("POST", "stream_routes"), ("GET", "stream_routes")]
    {
        check(&weir, (method, target), route.clone(), 400, off.clone());
    }
    let set = json!({"stream_routes": [{"id": "1", "server_port": 9100, "upstream": {"nodes": nodes()}}]});
    let (status, refused) = weir.admin("POST", "weir/apply", set.clone());
    let reason = refused["faults"][0]["reason"].as_str().unwrap_or_default();
    assert!(status == 400 && reason.contains("no listener of layer 4"), "{refused}");
    let weir = Weir::builder(BINARY).arguments(&["--admin-stream-routes", "true"]).start();
    assert_eq!(weir.admin("PUT", "stream_routes/1", route).0, 201);
    assert_eq!(weir.admin("POST", "weir/apply", set).0, 200);
}

#[test]
fn stream_route_of_a_file_is_reported() {
    let file = "routes:\n- {id: a, uri: /a, plugins: {mocking: {response_example: x}}}\nstream_routes:\n\
                - {id: s, server_port: 9100, upstream: {nodes: {\"127.0.0.1:1\": 1}}}\n";
    let weir = Weir::builder(BINARY).resources(file).start();
    assert_eq!(weir.get("/a").status, 200, "the rest applies");
    let (status, verdict) = weir.admin("GET", "weir/verdicts/stream_routes/s", Value::Null);
    assert_eq!((status, &verdict["state"]), (200, &json!("out")), "{verdict}");
    assert!(verdict.to_string().contains("the settings name no listener of layer 4"), "{verdict}");
}
