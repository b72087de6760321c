//! Settings of the Admin API, through the real binary: roles of keys, no key at all, CORS, the version in
//! `Server`, the list of plugins, and the header with the statuses of all attempts.

use serde_json::{Value, json};
use testkit::{ADMIN_KEY, Origin, Reply, Weir, wait_until};

use crate::support::{BINARY, gateway, in_front_of, in_front_of_with, route, upstream};

const BOSS: &str = "boss-key-0123456789abcdef";
const GUEST: &str = "guest-key-0123456789abcdef";

/// The response of the Admin API to a request with this key: the status, and the description of a refusal.
fn answer(weir: &Weir, method: &str, target: &str, key: &str) -> (u16, Value) {
    let body = if method == "PUT" {
        json!({"uri": "/a", "plugins": {"cors": {}}}).to_string()
    } else {
        String::new()
    };
    let response = weir.admin_raw(method, target, &[("X-API-KEY", key)], body.as_bytes());
    let description =
        if response.status == 401 { response.json()["description"].clone() } else { Value::Null };
    (response.status, description)
}

#[test]
fn a_viewer_reads_and_an_admin_does_everything() {
    let keys = format!("admin:{BOSS},viewer:{GUEST}");
    let weir = Weir::builder(BINARY).own_admin_key().environment("WEIR_ADMIN_KEYS", &keys).start();
    let log = weir.stderr().join("\n");
    assert!(!log.contains("Admin key") && !weir.data().join("admin.key").exists(), "none is made: {log}");
    assert_eq!(answer(&weir, "PUT", "routes/1", BOSS).0, 201);
    assert_eq!(answer(&weir, "GET", "routes/1", GUEST).0, 200);
    assert_eq!(answer(&weir, "GET", "routes", GUEST).0, 200);
    for (method, target) in [
        ("PUT", "routes/2"),
        ("POST", "routes"),
        ("PATCH", "routes/1"),
        ("DELETE", "routes/1"),
        ("PUT", "plugins/reload"),
        ("POST", "weir/apply"),
    ] {
        let response = weir.admin_raw(method, target, &[("X-API-KEY", GUEST)], b"");
        assert_eq!(response.status, 401, "{method} {target}");
        let expected = json!({
            "error_msg": "failed to check token",
            "description": "invalid method for role viewer",
        });
        assert_eq!(response.json(), expected, "{method} {target}");
    }
    let consumer =
        json!({"username": "jack", "plugins": {"key-auth": {"key": "the-key-of-jack"}}}).to_string();
    assert_eq!(weir.admin_raw("PUT", "consumers", &[("X-API-KEY", BOSS)], consumer.as_bytes()).status, 201);
    for target in ["consumers/jack", "consumers"] {
        let shown = weir.admin_raw("GET", target, &[("X-API-KEY", GUEST)], b"").text();
        assert!(shown.contains("\"key\":\"(hidden)\"") && !shown.contains("the-key-of-jack"), "{shown}");
    }
    for (target, body) in [
        ("schema/validate/routes", json!({"uri": "/a", "plugins": {"cors": {}}})),
        ("weir/explain", json!({"method": "GET", "url": "http://a.example/a"})),
        ("weir/plan", json!({"routes": []})),
    ] {
        let body = body.to_string();
        assert_eq!(
            weir.admin_raw("POST", target, &[("X-API-KEY", GUEST)], body.as_bytes()).status,
            200,
            "{target}"
        );
    }
    assert_eq!(answer(&weir, "DELETE", "routes/1", BOSS).0, 200);
    assert_eq!(answer(&weir, "GET", "routes", ADMIN_KEY), (401, json!("wrong apikey")));
}

#[test]
fn single_key_replaces_every_other_admin() {
    let keys = format!("admin:{BOSS},viewer:{GUEST}");
    let weir = Weir::builder(BINARY).environment("WEIR_ADMIN_KEYS", &keys).start();
    let of = |key: &str| (answer(&weir, "GET", "routes", key).0, answer(&weir, "PUT", "routes/1", key).0);
    assert_eq!((of(ADMIN_KEY), of(BOSS), of(GUEST)), ((200, 201), (401, 401), (200, 401)));
    let weir = Weir::builder(BINARY)
        .own_admin_key()
        .environment("WEIR_ADMIN_KEYS", &format!("viewer:{GUEST}"))
        .start();
    let made = std::fs::read_to_string(weir.data().join("admin.key")).unwrap();
    assert_eq!(answer(&weir, "PUT", "routes/1", made.trim()).0, 201, "nobody could write, so a key is made");
    assert_eq!(answer(&weir, "GET", "routes/1", GUEST).0, 200);
}

#[test]
fn allowed_address_writes_without_a_key() {
    let weir = Weir::builder(BINARY).own_admin_key().arguments(&["--admin-key-required=false"]).start();
    assert_eq!(weir.admin_raw("PUT", "routes/1", &[], br#"{"uri":"/a","plugins":{"cors":{}}}"#).status, 201);
    wait_until("it is told", || weir.stderr().iter().any(|line| line.contains("asks for no key")));
    assert!(!weir.data().join("admin.key").exists());
}

#[test]
fn cors_and_the_version_are_as_set() {
    let check = |arguments: &[&str], server: &str, origin: Option<&str>| {
        let weir = Weir::builder(BINARY).arguments(arguments).start();
        for (method, key) in [("GET", ADMIN_KEY), ("GET", "wrong"), ("OPTIONS", "none")] {
            let response = weir.admin_raw(method, "routes", &[("X-API-KEY", key)], b"");
            assert_eq!(response.header("server"), Some(server), "{arguments:?} {method} {key}");
            assert_eq!(
                response.header("access-control-allow-origin"),
                origin,
                "{arguments:?} {method} {key}"
            );
        }
    };
    check(&[], "APISIX/3.18.0", Some("*"));
    check(&["--admin-emulated-version", "off"], "APISIX", Some("*"));
    check(&["--admin-cors=false", "--admin-emulated-version", "3.9.1"], "APISIX/3.9.1", None);
}

#[test]
fn a_plugin_that_is_not_listed_does_not_exist() {
    let weir = Weir::builder(BINARY).arguments(&["--plugins", "request-id,cors"]).start();
    let (status, listed) = weir.admin("GET", "plugins/list", Value::Null);
    assert_eq!((status, listed), (200, json!(["request-id", "cors"])));
    let with = |plugin: &str| json!({"uri": "/a", "plugins": {plugin: {}}});
    assert_eq!(weir.admin("PUT", "routes/1", with("cors")).0, 201);
    let (status, refused) = weir.admin("PUT", "routes/2", with("mocking"));
    assert_eq!(status, 400);
    assert!(refused["error_msg"].as_str().unwrap().contains("unknown plugin [mocking]"), "{refused}");
}

#[test]
fn responses_name_the_statuses_of_all_tries() {
    let origin = Origin::start(|request| {
        let status = request.path().trim_start_matches('/').parse().unwrap_or(200);
        Reply::status(status, "")
    });
    let named = |weir: &Weir, path: &str| {
        let response = weir.get(path);
        (response.status, response.header("x-apisix-upstream-status").map(str::to_owned))
    };
    let by_default = in_front_of(&origin);
    assert_eq!(named(&by_default, "/200"), (200, None));
    assert_eq!(named(&by_default, "/404"), (404, None));
    assert_eq!(named(&by_default, "/503"), (503, Some("503".to_owned())));
    let always = in_front_of_with(&origin, &["--show-upstream-status-in-response-header"]);
    assert_eq!(named(&always, "/200"), (200, Some("200".to_owned())));
    assert_eq!(named(&always, "/503"), (503, Some("503".to_owned())));

    let weir = gateway(&route("uri: /*", &upstream(&[Origin::nowhere(), Origin::nowhere()], "")));
    let (status, statuses) = named(&weir, "/");
    assert_eq!(status, 502);
    assert_eq!(statuses.as_deref(), Some("502, 502"), "a try that failed counts as what it is answered with");
}
