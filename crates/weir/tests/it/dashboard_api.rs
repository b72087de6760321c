//! The parts of the Admin API that the dashboard needs, through the real binary: the page and its fields, the
//! session, writes under conditions, masks for viewers, other sites, the history of an object, and deletions
//! in sets.

use std::thread;

use serde_json::{Value, json};
use testkit::{ADMIN_KEY, Certificates, Client, Response, Weir};

use crate::support::BINARY;

const BOSS: &str = "boss-key-0123456789abcdef";
const GUEST: &str = "guest-key-0123456789abcdef";

fn with_two_keys() -> Weir {
    let keys = format!("admin:{BOSS},viewer:{GUEST}");
    Weir::builder(BINARY).own_admin_key().environment("WEIR_ADMIN_KEYS", &keys).start()
}

fn route(uri: &str) -> Value {
    json!({"uri": uri, "upstream": {"nodes": {"127.0.0.1:1": 1}}})
}

fn send(weir: &Weir, method: &str, target: &str, fields: &[(&str, &str)], body: &Value) -> Response {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let fields = [&[("X-API-KEY", ADMIN_KEY)], fields].concat();
    weir.admin_raw(method, target, &fields, body.as_bytes())
}

#[test]
fn page_is_served_with_its_policy() {
    let weir = Weir::start(BINARY);
    let page = weir.admin_raw("GET", "/ui/routes/shop.v1?tab=form", &[], b"");
    let has_pages = page.status == 200;
    if has_pages {
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(page.header("cache-control"), Some("no-store"));
        let policy = page.header("content-security-policy").unwrap();
        let nonce = policy.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap();
        assert!(nonce.len() >= 22 && !page.text().contains("%NONCE%"), "{policy}");
        let again = weir.admin_raw("GET", "/ui/", &[], b"");
        assert_ne!(again.header("content-security-policy"), Some(policy), "each page has a fresh nonce");
    } else {
        // The pages were not built before this binary.
        assert_eq!((page.status, page.text().as_str()), (404, "this build has no dashboard\n"));
    }
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(page.header(name), Some(value), "{name}");
    }
    assert_eq!(page.header("access-control-allow-origin"), None);
    let root = weir.admin_raw("GET", "/ui", &[], b"");
    assert_eq!((root.status, root.header("location")), (308, Some("/ui/")));
    assert_eq!(weir.admin_raw("GET", "/ui/assets/gone-1a2b.js", &[], b"").status, 404);
    assert_eq!(weir.admin_raw("POST", "/ui/", &[], b"").status, 405);
    let mut client = Client::connect(weir.address("admin"));
    let head = client.request("HEAD", "/ui/overview", &[], b"");
    assert_eq!((head.status, head.body.len()), (page.status, 0));
    assert_eq!(client.get("/ui/").status, page.status, "the connection goes on after HEAD");
}

#[test]
fn page_can_be_switched_off() {
    let weir = Weir::builder(BINARY).arguments(&["--admin-ui=false"]).start();
    for target in ["/ui", "/ui/"] {
        let answer = weir.admin_raw("GET", target, &[], b"");
        assert_eq!((answer.status, answer.json()), (404, json!({"error_msg": "not found"})), "{target}");
    }
}

#[test]
fn session_tells_role_and_source() {
    let weir = with_two_keys();
    let session = |key: &str| weir.admin_raw("GET", "weir/session", &[("X-API-KEY", key)], b"").json();
    let (boss, guest) = (session(BOSS), session(GUEST));
    assert_eq!((&boss["role"], &boss["writable"]), (&json!("admin"), &json!(true)));
    assert_eq!((&guest["role"], &guest["writable"]), (&json!("viewer"), &json!(false)));
    assert_eq!((&boss["source"], &boss["emulates"]), (&json!("store"), &json!("3.18.0")));
    assert!(boss["started_ms"].as_u64().unwrap() > 1_700_000_000_000 && boss["instance"] != "");
    let proxy = weir.proxy().to_string();
    let listeners = boss["listeners"].as_array().unwrap();
    assert!(listeners.contains(&json!({"name": "proxy", "address": proxy, "tls": false})), "{boss}");
    assert_eq!(weir.admin_raw("GET", "weir/session", &[], b"").status, 401);
    let file = Weir::builder(BINARY).resources("routes: []\n").start();
    let session = send(&file, "GET", "weir/session", &[], &Value::Null).json();
    assert_eq!((&session["source"], &session["writable"]), (&json!("file"), &json!(false)));
}

#[test]
fn one_of_two_writers_gets_the_conflict() {
    let weir = Weir::start(BINARY);
    weir.put("routes/1", route("/a"));
    for round in 0..ROUNDS {
        let read = send(&weir, "GET", "routes/1", &[], &Value::Null);
        let tag = read.header("etag").unwrap().to_owned();
        let write = |name: &'static str| {
            let fields = [("If-Match", tag.as_str()), ("X-Weir-Author", name)];
            send(&weir, "PUT", "routes/1", &fields, &route(&format!("/{name}/{round}")))
        };
        let [ana, ben] = thread::scope(|scope| {
            let writers = [scope.spawn(|| write("ana")), scope.spawn(|| write("ben"))];
            writers.map(|writer| writer.join().unwrap())
        });
        let mut statuses = [ana.status, ben.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 412]);
        let (won, lost, name) = if ana.status == 200 { (ana, ben, "ana") } else { (ben, ana, "ben") };
        let conflict = lost.json();
        let expected = (json!(format!("/{name}/{round}")), json!(format!("{name} (127.0.0.1)")));
        assert_eq!((conflict["current"]["uri"].clone(), conflict["by"].clone()), expected, "{conflict}");
        assert_eq!(format!("\"{}\"", conflict["modifiedIndex"]), won.header("etag").unwrap());
        assert_eq!(lost.header("etag"), won.header("etag"));
    }
    let old = [("If-None-Match", "*")];
    assert_eq!(send(&weir, "PUT", "routes/1", &old, &route("/b")).status, 412);
    let now = send(&weir, "GET", "routes/1", &[], &Value::Null).header("etag").unwrap().to_owned();
    let unchanged = send(&weir, "GET", "routes/1", &[("If-None-Match", &now)], &Value::Null);
    assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
    assert_eq!(send(&weir, "DELETE", "routes/1", &[("If-Match", &now)], &Value::Null).status, 200);
}

/// Objects with secrets in every kind that can hold one; each secret is or contains [`SECRET`].
fn objects_with_secrets() -> Vec<(&'static str, Value)> {
    let made = Certificates::make();
    let [cert, key] = [made.certificate(), made.key()].map(|file| std::fs::read_to_string(file).unwrap());
    let client = json!({"nodes": {"127.0.0.1:1": 1}, "scheme": "https", "tls": {"client_cert": cert, "client_key": key}});
    let login = json!({"openid-connect": {
        "client_id": "c", "client_secret": SECRET, "discovery": "http://127.0.0.1:1/d", "bearer_only": true,
    }});
    vec![
        ("consumers/jack", json!({"username": "jack", "plugins": {"key-auth": {"key": SECRET}}})),
        (
            "consumers/jack/credentials/c",
            json!({"plugins": {"basic-auth": {"username": "u", "password": SECRET}}}),
        ),
        ("upstreams/1", client.clone()),
        ("services/1", json!({"upstream": client})),
        ("routes/1", json!({"uri": "/a", "service_id": "1", "plugins": login})),
        ("plugin_configs/1", json!({"plugins": login})),
        ("secrets/vault/1", json!({"uri": "http://127.0.0.1:1", "prefix": "kv", "token": SECRET})),
        ("ssls/1", json!({"sni": "a.example", "cert": cert, "key": key})),
    ]
}

#[test]
fn viewer_gets_every_secret_hidden() {
    let weir = with_two_keys();
    let ask = |key: &str, method: &str, target: &str, body: &Value| {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        weir.admin_raw(method, target, &[("X-API-KEY", key)], body.as_bytes())
    };
    for (target, object) in objects_with_secrets() {
        let put = ask(BOSS, "PUT", target, &object);
        assert!(put.status < 300, "{target}: {}", put.text());
        let shown = ask(GUEST, "GET", target, &Value::Null).text();
        let collection = target.rsplit_once('/').unwrap().0;
        let listed = ask(GUEST, "GET", collection, &Value::Null).text();
        for shown in [shown, listed] {
            assert!(shown.contains("(hidden)"), "{target}: {shown}");
            assert!(!shown.contains(SECRET) && !shown.contains("PRIVATE KEY"), "{target}: {shown}");
        }
        let conflict = weir.admin_raw(
            "PUT",
            target,
            &[("X-API-KEY", BOSS), ("If-Match", "\"0\"")],
            object.to_string().as_bytes(),
        );
        assert_eq!(conflict.status, 412, "{target}");
        let conflict = conflict.text();
        assert!(!conflict.contains(SECRET) && !conflict.contains("PRIVATE KEY"), "{target}: {conflict}");
        // The object as it is shown is written back, and keeps its secrets.
        let mut hidden = serde_json::from_str::<Value>(&conflict).unwrap()["current"].take();
        ["create_time", "update_time"]
            .iter()
            .for_each(|name| drop(hidden.as_object_mut().unwrap().remove(*name)));
        let put = ask(BOSS, "PUT", target, &hidden);
        assert_eq!(put.status, 200, "{target}: {}", put.text());
    }
    let all = ask(GUEST, "GET", "configs", &Value::Null).text();
    assert!(!all.contains(SECRET) && !all.contains("PRIVATE KEY"), "{all}");
    let read = ask(BOSS, "GET", "consumers/jack", &Value::Null).json();
    assert_eq!(read["value"]["plugins"]["key-auth"]["key"], SECRET);
    let configs = ask(BOSS, "GET", "configs", &Value::Null).text();
    assert!(configs.contains("PRIVATE KEY") && !configs.contains("(hidden)"), "{configs}");
}

#[test]
fn other_sites_are_refused_where_no_key_is_needed() {
    let weir = Weir::builder(BINARY)
        .arguments(&["--admin-key-required=false", "--admin-hosts", "weir.example"])
        .start();
    let ask = |method: &str, fields: &[(&str, &str)]| {
        let text =
            fields.iter().fold(String::new(), |text, (name, value)| text + &format!("{name}: {value}\r\n"));
        let request = format!(
            "{method} /apisix/admin/routes/1 HTTP/1.1\r\n{text}Content-Length: 0\r\nConnection: close\r\n\r\n"
        );
        let answer = testkit::raw_exchange(weir.address("admin"), request.as_bytes());
        String::from_utf8_lossy(&answer).split(' ').nth(1).unwrap().to_owned()
    };
    let own = ("Host", "127.0.0.1:9180");
    assert_eq!(ask("GET", &[own]), "404");
    assert_eq!(ask("GET", &[("Host", "weir.example")]), "404");
    assert_eq!(ask("GET", &[("Host", "evil.example")]), "403");
    assert_eq!(ask("GET", &[own, ("Sec-Fetch-Site", "cross-site")]), "403");
    assert_eq!(ask("DELETE", &[own, ("Origin", "http://evil.example")]), "403");
    assert_eq!(ask("DELETE", &[own, ("Origin", "http://127.0.0.1:9180")]), "404");
}

#[test]
fn no_notation_of_the_path_avoids_the_key() {
    let weir = Weir::start(BINARY);
    for target in ["//apisix/admin/routes/1", "/%61pisix/admin/routes/1", "/apisix/%2fadmin//routes/1"] {
        let put = weir.admin_raw("PUT", target, &[], route("/a").to_string().as_bytes());
        assert_eq!(put.status, 401, "{target}: {}", put.text());
    }
    assert_eq!(weir.admin("GET", "routes", Value::Null).1["total"], 0);
}

#[test]
fn object_has_a_history() {
    let weir = Weir::start(BINARY);
    for uri in ["/a", "/b"] {
        weir.put("routes/1", route(uri));
        weir.put("routes/2", route(uri));
    }
    let get = |target: &str| {
        let (status, answer) = weir.admin("GET", &format!("weir/versions{target}"), Value::Null);
        assert_eq!(status, 200, "{target}: {answer}");
        answer
    };
    let found = get("?key=routes/1");
    let versions: Vec<u64> =
        found["versions"].as_array().unwrap().iter().map(|one| one["version"].as_u64().unwrap()).collect();
    let [newest, oldest] = versions[..] else { panic!("{found}") };
    assert_eq!(get(&format!("/{oldest}/objects/routes/1"))["value"]["uri"], "/a");
    assert_eq!(get(&format!("/{newest}/objects/routes/1"))["value"]["uri"], "/b");
    let (status, plan) = weir.admin("POST", &format!("weir/plan?from={oldest}&to={newest}"), Value::Null);
    assert_eq!((status, &plan["change"], &plan["create"]), (200, &json!(1), &json!(1)), "{plan}");
    let set = json!({"delete": ["routes/1", "routes/2"]});
    let (status, applied) = weir.admin("POST", "weir/apply?keep_others=true", set);
    assert_eq!((status, &applied["delete"]), (200, &json!(2)));
    assert_eq!(weir.admin("GET", "routes", Value::Null).1["total"], 0);
}

/// A secret of the objects.
const SECRET: &str = "s3cr3t-of-this-test";
/// Pairs of writers that write at the same time.
const ROUNDS: usize = 20;
