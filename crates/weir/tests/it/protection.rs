//! Protection of a route that is removed while the route stays: requests are refused, never admitted with the
//! remaining plugins.

use serde_json::json;
use testkit::{Origin, Response, Weir};

const BINARY: &str = env!("CARGO_BIN_EXE_weir");

fn get(weir: &Weir, key: Option<&str>) -> Response {
    let headers: Vec<(&str, &str)> = key.map(|key| ("apikey", key)).into_iter().collect();
    weir.client().request("GET", "/", &headers, b"")
}

fn consumer(weir: &Weir) {
    weir.put(
        "consumers",
        json!({"username": "jack", "group_id": "g", "plugins": {"key-auth": {"key": "jack-key"}}}),
    );
}

#[test]
fn route_without_its_service_is_closed() {
    let origin = Origin::answering("secret");
    let weir = Weir::start(BINARY);
    weir.put("services/s", json!({"plugins": {"key-auth": {}}}));
    let nodes = json!({origin.address().to_string(): 1});
    weir.put("routes/1", json!({"uri": "/", "service_id": "s", "upstream": {"nodes": nodes}}));
    assert_eq!(get(&weir, None).status, 401);

    weir.delete("services/s?force=true");
    assert_eq!(get(&weir, None).status, 503, "the route stays closed while its service is missing");
    assert_eq!(origin.requests().len(), 0, "the origin was never asked");

    weir.put("services/s", json!({"plugins": {"key-auth": {}}}));
    assert_eq!(get(&weir, None).status, 401, "back as it was");
}

#[test]
fn route_without_its_plugin_config_is_closed() {
    let origin = Origin::answering("secret");
    let weir = Weir::start(BINARY);
    weir.put("plugin_configs/p", json!({"plugins": {"key-auth": {}}}));
    let nodes = json!({origin.address().to_string(): 1});
    // The route's own plugin must not answer either, because the rest of the protection is missing.
    let own = json!({"mocking": {"response_example": "mocked"}});
    weir.put(
        "routes/1",
        json!({"uri": "/", "plugin_config_id": "p", "upstream": {"nodes": nodes}, "plugins": own}),
    );
    assert_eq!(get(&weir, None).status, 401);

    weir.delete("plugin_configs/p?force=true");
    assert_eq!(get(&weir, None).status, 503);
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn consumer_without_its_group_is_refused() {
    let origin = Origin::answering("secret");
    let weir = Weir::start(BINARY);
    let limit = json!({"limit-count": {"count": 1, "time_window": 60, "rejected_code": 429}});
    weir.put("consumer_groups/g", json!({"plugins": limit}));
    consumer(&weir);
    let nodes = json!({origin.address().to_string(): 1});
    weir.put("routes/1", json!({"uri": "/", "upstream": {"nodes": nodes}, "plugins": {"key-auth": {}}}));
    assert_eq!(get(&weir, Some("jack-key")).status, 200);
    assert_eq!(get(&weir, Some("jack-key")).status, 429, "the group's limit");

    weir.delete("consumer_groups/g?force=true");
    assert_eq!(get(&weir, Some("jack-key")).status, 503);
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn request_that_goes_round_ends_with_508() {
    let weir = Weir::start(BINARY);
    let itself = json!({weir.proxy().to_string(): 1});
    weir.put("routes/1", json!({"uri": "/*", "upstream": {"nodes": itself}}));
    assert_eq!(weir.get("/").status, 508);

    // A chain of gateways, or of routes of one gateway, is no loop.
    let origin = Origin::answering("end");
    weir.put("routes/2", json!({"uri": "/end", "upstream": {"nodes": {origin.address().to_string(): 1}}}));
    let rewrite = json!({"proxy-rewrite": {"uri": "/end"}});
    weir.put("routes/1", json!({"uri": "/begin", "plugins": rewrite, "upstream": {"nodes": itself}}));
    assert_eq!(weir.get("/begin").text(), "end");
    let received = origin.last_request();
    assert_eq!(received.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("via")).count(), 2);
}
