//! Whole sets put by an external owner: applied, unchanged and refused sets, and the state after a restart.

use http::HeaderMap;
use serde_json::{Value, json};

use crate::testing::{Rig, ask, block_on};

struct Owner {
    rig: Option<Rig>,
    directory: tempfile::TempDir,
    count: std::cell::Cell<usize>,
}

const CONFIGS: &str = "/apisix/admin/configs";

impl Owner {
    fn new() -> Owner {
        let directory = tempfile::tempdir().unwrap();
        Owner { rig: Some(Rig::store(directory.path())), directory, count: std::cell::Cell::new(0) }
    }

    fn rig(&self) -> &Rig {
        self.rig.as_ref().unwrap()
    }

    fn restart(&mut self) {
        self.rig = None;
        self.rig = Some(Rig::store(self.directory.path()));
    }

    fn send(&self, method: &str, headers: &[(&str, &str)], body: &str) -> (u16, HeaderMap, String) {
        let headers: Vec<(&str, &str)> = headers.iter().copied().chain([("X-API-KEY", "boss")]).collect();
        block_on(ask(&self.rig().admin, method, CONFIGS, &headers, body))
    }

    /// Puts a set under a new digest.
    #[track_caller]
    fn put(&self, set: &Value, expected: (u16, &str)) {
        self.count.set(self.count.get() + 1);
        let digest = format!("d{}", self.count.get());
        let (status, _, body) = self.send("PUT", &[("X-Digest", &digest)], &set.to_string());
        let message = serde_json::from_str::<Value>(&body).unwrap_or_default();
        assert_eq!((status, message["error_msg"].as_str().unwrap_or_default()), expected, "{set}");
    }

    fn get(&self) -> Value {
        serde_json::from_str(&self.send("GET", &[], "").2).unwrap()
    }

    fn uris(&self) -> Vec<String> {
        let view = self.rig().view.load();
        let uri = |written: &&model::WrittenObject| {
            serde_json::from_str::<Value>(&written.text).unwrap()["uri"].as_str().unwrap().to_owned()
        };
        let mut uris: Vec<String> =
            view.snapshot.iter(model::ObjectKind::Route).map(|route| uri(&&route.written)).collect();
        uris.sort();
        uris
    }
}

fn route(id: &str, uri: &str) -> Value {
    json!({"id": id, "uri": uri, "upstream": {"nodes": {"127.0.0.1:1980": 1}, "type": "roundrobin"}})
}

#[test]
fn set_replaces_all_objects() {
    let mut owner = Owner::new();
    let empty = owner.get();
    assert_eq!((&empty["routes_conf_version"], &empty["ssls_conf_version"]), (&json!(0), &json!(0)));
    let set = json!({"routes": [route("r1", "/1")], "consumers": [
        {"username": "jack"}, {"id": "jack/credentials/a", "plugins": {"auth": {"key": "k"}}}]});
    owner.put(&set, (202, ""));
    let found = owner.get();
    assert_eq!((&found["routes"], &found["consumers"]), (&set["routes"], &set["consumers"]));
    assert_eq!((&found["routes_conf_version"], &found["upstreams_conf_version"]), (&json!(1), &json!(1)));
    owner.put(&json!({"routes": [route("r2", "/2")]}), (202, ""));
    assert_eq!(owner.uris(), ["/2"]);
    assert_eq!(owner.rig().published.0.lock().len(), 3, "a set is one revision: {:?}", owner.rig().published);
    let before = owner.get();
    owner.restart();
    assert_eq!(owner.get(), before, "a restart changes nothing");
    owner.put(&json!({}), (202, ""));
    assert!(owner.uris().is_empty() && owner.get().get("routes").is_none());
}

#[test]
fn set_with_the_same_digest_is_not_applied() {
    let mut owner = Owner::new();
    let set = json!({"routes": [route("r1", "/1")]}).to_string();
    let (status, _, body) = owner.send("PUT", &[], &set);
    assert_eq!((status, body.as_str()), (400, "{\"error_msg\":\"missing digest header\"}\n"));
    assert_eq!(owner.send("PUT", &[("X-Digest", "one")], &set).0, 202);
    assert_eq!(owner.send("PUT", &[("X-Digest", "one")], "{}").0, 204);
    assert_eq!(owner.uris(), ["/1"], "the same digest is the same set");
    owner.restart();
    assert_eq!(owner.send("PUT", &[("X-Digest", "one")], "{}").0, 204);
    for method in ["GET", "HEAD"] {
        let (status, headers, body) = owner.send(method, &[], "");
        let field = |name: &str| headers.get(name).unwrap().to_str().unwrap().to_owned();
        assert_eq!(
            (status, field("x-digest"), field("x-last-modified")),
            (200, "one".into(), "1767225600".into())
        );
        assert_eq!(body.is_empty(), method == "HEAD");
    }
    owner.rig().clock.advance(5_000);
    assert_eq!(owner.rig().json("PUT", "/apisix/admin/routes/other", &route("other", "/o")).0, 201);
    let (_, headers, _) = owner.send("HEAD", &[], "");
    assert_eq!(headers.get("x-last-modified").unwrap(), "1767225605");
    assert!(!headers.contains_key("x-digest"), "after another change, the set in force has no digest");
    assert_eq!(owner.send("PUT", &[("X-Digest", "one")], &set).0, 202);
    assert_eq!(owner.uris(), ["/1"]);
}

#[test]
fn collection_of_the_same_version_is_unchanged() {
    let owner = Owner::new();
    owner.put(&json!({"routes": [route("r1", "/1")], "routes_conf_version": 100}), (202, ""));
    owner.put(&json!({"routes": [route("r1", "/other")], "routes_conf_version": 100}), (202, ""));
    assert_eq!(owner.uris(), ["/1"], "the same version is the same collection");
    owner.put(
        &json!({"routes_conf_version": 99}),
        (400, "routes_conf_version must be greater than or equal to (100)"),
    );
    owner.put(
        &json!({"routes_conf_version": -1}),
        (400, "routes_conf_version must be greater than or equal to (100)"),
    );
    owner.put(&json!({"routes_conf_version": "adc"}), (400, "routes_conf_version must be a number"));
    let found = owner.get();
    assert_eq!((&found["routes_conf_version"], &found["services_conf_version"]), (&json!(100), &json!(2)));
    owner.put(&json!({"routes_conf_version": 101}), (202, ""));
    assert!(owner.uris().is_empty());
}

#[test]
fn object_of_the_same_index_is_unchanged() {
    let mut owner = Owner::new();
    let indexed = |uri: &str, index: u64| {
        let mut route = route("r1", uri);
        route["modifiedIndex"] = index.into();
        json!({"routes": [route]})
    };
    owner.put(&indexed("/1", 1), (202, ""));
    owner.restart();
    owner.put(&indexed("/2", 1), (202, ""));
    assert_eq!(
        (owner.uris(), &owner.get()["routes"][0]["modifiedIndex"]),
        (vec!["/1".to_owned()], &json!(1))
    );
    owner.put(&indexed("/2", 2), (202, ""));
    assert_eq!(owner.uris(), ["/2"]);
    assert_eq!(owner.rig().json("PUT", "/apisix/admin/routes/r1", &route("r1", "/3")).0, 200);
    owner.put(&indexed("/2", 2), (202, ""));
    assert_eq!(owner.uris(), ["/2"], "the index is of what its owner wrote");
    owner.put(
        &json!({"routes": [{"id": "r1", "uri": "/", "modifiedIndex": "x"}]}),
        (400, "invalid routes at index 0, err: modifiedIndex must be a number: an integer from 0 up"),
    );
}

#[test]
fn refused_set_changes_nothing() {
    let owner = Owner::new();
    owner.put(&json!({"routes": [route("r1", "/1")]}), (202, ""));
    let before = owner.get();
    let check = |body: &str, headers: &[(&str, &str)], expected: &str| {
        let headers: Vec<(&str, &str)> = headers.iter().copied().chain([("X-Digest", "x")]).collect();
        let (status, _, answer) = owner.send("PUT", &headers, body);
        assert!(status == 400 && answer.contains(expected), "{body}: {status} {answer}");
        assert_eq!(owner.get(), before, "{body}");
    };
    check("", &[], "invalid request body: empty request body");
    check("{abcd", &[], "invalid request body: ");
    check("[]", &[], "invalid request body: ");
    check("routes: [", &[("Content-Type", "application/yaml")], "invalid request body: ");
    check(
        r#"{"routes":[{"id":"a","uri":123}]}"#,
        &[],
        r#"invalid routes at index 0, err: invalid configuration: property \"uri\" validation failed: "#,
    );
    check(r#"{"routes":[{"id":"a","uri":"/","plugins":{"none":{}}}]}"#, &[], "unknown plugin [none]");
    let twice = json!({"routes": [route("r", "/"), route("r", "/b")]}).to_string();
    check(&twice, &[], "found duplicate id r in routes");
    check(
        r#"{"consumers":[{"username":"j"},{"username":"j"}]}"#,
        &[],
        "found duplicate username j in consumers",
    );
    check(r#"{"routes":{}}"#, &[], "routes must be a list");
    check(r#"{"things":[]}"#, &[], "Unsupported resource type: things");
    check(r#"{"credentials":[]}"#, &[], "Unsupported resource type: credentials");
}

#[test]
fn set_is_read_and_written_as_yaml() {
    let owner = Owner::new();
    let set =
        "routes:\n- id: r1\n  uri: /1\n  upstream:\n    nodes:\n      127.0.0.1:1: 1\n    type: roundrobin\n";
    let yaml = [("X-Digest", "y"), ("Content-Type", "application/yaml")];
    assert_eq!(owner.send("PUT", &yaml, set).0, 202);
    let (_, headers, body) = owner.send("GET", &[("Accept", "application/yaml")], "");
    assert_eq!(headers.get("content-type").unwrap(), "application/yaml");
    assert!(body.contains("routes:\n- id: r1\n  uri: /1\n"), "{body}");
    // The set that was read can be put back, and is the same set.
    assert_eq!(owner.send("PUT", &[("X-Digest", "z"), yaml[1]], &body).0, 202);
    assert_eq!(owner.rig().published.0.lock().len(), 2, "nothing differed, so nothing was published");
}

#[test]
fn dangling_object_is_reported_and_rest_applies() {
    let owner = Owner::new();
    let dangling = json!({"id": "r2", "uri": "/2", "upstream_id": "none"});
    owner.put(&json!({"routes": [route("r1", "/1"), dangling]}), (202, ""));
    assert_eq!(owner.uris(), ["/1"]);
    let faults = owner.rig().view.load().snapshot.faults();
    assert!(faults.len() == 1 && faults[0].reason == "upstream \"none\" does not exist", "{faults:?}");
}

#[test]
fn only_an_admin_gets_private_keys() {
    let owner = Owner::new();
    let (cert, key) = crate::testing::certificate();
    let ssl = json!({"id": "s", "snis": ["a.example"], "cert": cert, "key": key});
    if owner.rig().json("PUT", "/apisix/admin/ssls/s", &ssl).0 != 201 {
        panic!("the certificate is not taken");
    }
    assert_eq!(owner.get()["ssls"][0]["key"], ssl["key"]);
    let (status, _, body) = block_on(ask(&owner.rig().admin, "GET", CONFIGS, &[("X-API-KEY", "guest")], ""));
    assert!(status == 200 && !body.contains("PRIVATE KEY") && body.contains("a.example"), "{status} {body}");
}

#[test]
fn set_is_refused_with_a_file_source() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("weir.yaml");
    std::fs::write(&path, "routes: []\n").unwrap();
    let rig = Rig::file(&path, false).unwrap();
    let headers = [("X-API-KEY", "boss"), ("X-Digest", "x")];
    let (status, _, body) = block_on(ask(&rig.admin, "PUT", CONFIGS, &headers, "{}"));
    assert!(status == 405 && body.contains("weir.yaml; change it there"), "{status} {body}");
    assert_eq!(block_on(ask(&rig.admin, "GET", CONFIGS, &headers, "")).0, 200);
}
