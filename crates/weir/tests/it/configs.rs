//! `/apisix/admin/configs` through the real binary, with the requests of ADC and the ingress controller: a
//! whole set by digest, versions and indices, and the traffic after it.

use serde_json::{Value, json};
use testkit::{ADMIN_KEY, Response, Weir};

const BINARY: &str = env!("CARGO_BIN_EXE_weir");

fn put(weir: &Weir, digest: &str, set: &Value) -> (u16, String) {
    let headers = [("X-API-KEY", ADMIN_KEY), ("X-Digest", digest)];
    let response = weir.admin_raw("PUT", "configs", &headers, set.to_string().as_bytes());
    (response.status, response.text())
}

fn read(weir: &Weir, method: &str, headers: &[(&str, &str)]) -> Response {
    let headers: Vec<(&str, &str)> = headers.iter().copied().chain([("X-API-KEY", ADMIN_KEY)]).collect();
    weir.admin_raw(method, "configs", &headers, b"")
}

/// A route that answers `text`.
fn route(id: &str, uri: &str, text: &str) -> Value {
    json!({"id": id, "uri": uri, "plugins": {"mocking": {"response_example": text, "content_type": "text/plain"}}})
}

#[test]
fn a_whole_set_comes_goes_and_survives() {
    let weir = Weir::start(BINARY);
    assert_eq!(put(&weir, "one", &json!({"routes": [route("r1", "/1", "first")]})), (202, String::new()));
    assert_eq!(weir.get("/1").text(), "first");
    assert_eq!(put(&weir, "one", &json!({})), (204, String::new()));
    assert_eq!(weir.get("/1").text(), "first", "the same digest is the same set");
    let answer = read(&weir, "GET", &[]);
    assert_eq!(
        (answer.header("X-Digest"), answer.header("Content-Type")),
        (Some("one"), Some("application/json"))
    );
    assert!(answer.header("X-Last-Modified").unwrap().parse::<u64>().unwrap() > 1_700_000_000);
    assert_eq!(answer.json()["routes"], json!([route("r1", "/1", "first")]));
    let weir = weir.restart();
    let head = read(&weir, "HEAD", &[]);
    assert_eq!((head.status, head.header("X-Digest"), head.body.len()), (200, Some("one"), 0));
    assert_eq!(weir.get("/1").text(), "first");
    let yaml = "routes:\n- id: r2\n  uri: /2\n  plugins:\n    mocking: {response_example: second, content_type: text/plain}\n";
    let headers = [("X-API-KEY", ADMIN_KEY), ("X-Digest", "two"), ("Content-Type", "application/yaml")];
    assert_eq!(weir.admin_raw("PUT", "configs", &headers, yaml.as_bytes()).status, 202);
    assert_eq!((weir.get("/1").status, weir.get("/2").text()), (404, "second".to_owned()));
    let answer = read(&weir, "GET", &[("Accept", "application/yaml")]);
    assert_eq!(answer.header("Content-Type"), Some("application/yaml"));
    assert!(answer.text().contains("\nroutes_conf_version: 2\n"), "{}", answer.text());
    assert_eq!(put(&weir, "three", &json!({})).0, 202);
    assert_eq!(weir.get("/2").status, 404);
}

#[test]
fn equal_versions_leave_objects_alone() {
    let weir = Weir::start(BINARY);
    let indexed = |uri: &str, index: u64| {
        let mut route = route("r1", uri, "text");
        route["modifiedIndex"] = index.into();
        json!({"routes": [route]})
    };
    assert_eq!(put(&weir, "a", &indexed("/1", 1)).0, 202);
    assert_eq!(put(&weir, "b", &indexed("/2", 1)).0, 202);
    assert_eq!((weir.get("/1").status, weir.get("/2").status), (200, 404));
    assert_eq!(put(&weir, "c", &indexed("/2", 2)).0, 202);
    assert_eq!((weir.get("/1").status, weir.get("/2").status), (404, 200));
    assert_eq!(put(&weir, "d", &json!({"routes_conf_version": 3})).0, 202);
    assert_eq!(weir.get("/2").status, 200, "the version is that of now");
    let refusal = "{\"error_msg\":\"routes_conf_version must be greater than or equal to (3)\"}\n";
    assert_eq!(put(&weir, "e", &json!({"routes_conf_version": 2})), (400, refusal.to_owned()));
    assert_eq!(put(&weir, "f", &json!({"routes_conf_version": 4})).0, 202);
    assert_eq!(weir.get("/2").status, 404);
}

#[test]
fn consumers_come_with_their_credentials() {
    let weir = Weir::start(BINARY);
    let mut guarded = route("r1", "/1", "in");
    guarded["plugins"]["key-auth"] = json!({});
    let set = json!({"routes": [guarded], "consumers": [
        {"username": "john"},
        {"id": "john/credentials/john-a", "plugins": {"key-auth": {"key": "key-a"}}},
        {"id": "john/credentials/john-b", "plugins": {"key-auth": {"key": "key-b"}}},
    ]});
    assert_eq!(put(&weir, "a", &set).0, 202);
    let status = |key: &str| weir.client().request("GET", "/1", &[("apikey", key)], b"").status;
    assert_eq!((status("key-a"), status("key-b"), status("key-c")), (200, 200, 401));
    assert_eq!(read(&weir, "GET", &[]).json()["consumers"], set["consumers"]);
    let (code, listed) = weir.admin("GET", "consumers/john/credentials/john-a", Value::Null);
    assert_eq!((code, &listed["value"]["plugins"]["key-auth"]["key"]), (200, &json!("key-a")));
}

#[test]
fn refused_set_changes_nothing() {
    let weir = Weir::start(BINARY);
    assert_eq!(put(&weir, "a", &json!({"routes": [route("r1", "/1", "text")]})).0, 202);
    let before = read(&weir, "GET", &[]).text();
    let nameless = weir.admin_raw("PUT", "configs", &[("X-API-KEY", ADMIN_KEY)], b"{}");
    assert_eq!(
        (nameless.status, nameless.text().as_str()),
        (400, "{\"error_msg\":\"missing digest header\"}\n")
    );
    let check = |set: Value, expected: &str| {
        let (status, text) = put(&weir, "b", &set);
        assert!(status == 400 && text.contains(expected), "{set}: {status} {text}");
    };
    check(
        json!({"routes": [route("r1", "/1", "x"), {"id": "r2", "uri": 1}]}),
        "invalid routes at index 1, err: ",
    );
    check(
        json!({"routes": [route("r1", "/1", "x"), route("r1", "/2", "x")]}),
        "found duplicate id r1 in routes",
    );
    check(json!({"routes_conf_version": "x"}), "routes_conf_version must be a number");
    assert_eq!(weir.admin_raw("PUT", "configs", &[("X-Digest", "x")], b"{}").status, 401);
    assert_eq!(read(&weir, "GET", &[]).text(), before);
    // A set may be larger than the limit of one object.
    let many: Vec<Value> =
        (0..1_000).map(|n| route(&n.to_string(), &format!("/{n}"), &"x".repeat(2_000))).collect();
    assert_eq!(put(&weir, "large", &json!({"routes": many})).0, 202);
    assert_eq!(weir.get("/999").status, 200);
}

#[test]
fn configs_are_read_only_with_a_file_source() {
    let weir = Weir::builder(BINARY).resources("routes: [{id: r, uri: /, plugins: {cors: {}}}]\n").start();
    assert_eq!(read(&weir, "GET", &[]).json()["routes"][0]["id"], "r");
    let (status, text) = put(&weir, "a", &json!({}));
    assert!(status == 405 && text.contains("the configuration comes from the file"), "{status} {text}");
}
