//! The response cache in front of real origins: stored responses, and the users that they are stored for.

mod background;
mod disk;
mod place;
mod stale;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};
use testkit::{Client, Origin, Reply, Response, Signal, Weir, wait_until};

use crate::support::BINARY;

/// A gateway with one route to `origin`, cached in memory with these further fields.
fn cached(origin: &Origin, config: Value) -> Weir {
    let weir = Weir::start(BINARY);
    route(&weir, origin, config);
    weir
}

fn route(weir: &Weir, origin: &Origin, mut config: Value) {
    if config.get("cache_strategy").is_none() {
        config["cache_strategy"] = "memory".into();
        config["cache_zone"] = "memory_cache".into();
    }
    let upstream = json!({"nodes": {origin.address().to_string(): 1}});
    weir.put("routes/1", json!({"uri": "/*", "plugins": {"proxy-cache": config}, "upstream": upstream}));
}

/// An origin that numbers its responses and sends these fields with them.
fn numbered(fields: &'static [(&'static str, &'static str)]) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::start(move |_| {
        let body = format!("response {}", count.fetch_add(1, Ordering::Relaxed));
        Reply::with(200, fields, body.as_bytes())
    })
}

/// The cache status and the body of a response.
fn status_and_body(response: &Response) -> (String, String) {
    (response.header("Apisix-Cache-Status").unwrap_or("-").to_owned(), response.text())
}

fn ask(weir: &Weir, path: &str, headers: &[(&str, &str)]) -> (String, String) {
    status_and_body(&weir.client().request("GET", path, headers, b""))
}

/// The value of a metric with its labels.
fn metric(weir: &Weir, name: &str) -> u64 {
    let text = Client::connect(weir.address("metrics")).get("/metrics").text();
    let value =
        text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {text}"));
    value.trim().parse().unwrap()
}

fn check(got: (String, String), status: &str, body: &str) {
    assert_eq!((&*got.0, &*got.1), (status, body));
}

#[test]
fn second_request_is_a_hit() {
    let origin = numbered(&[("Content-Type", "text/x"), ("Age", "5"), ("X-Own", "1")]);
    let weir = cached(&origin, json!({}));
    check(ask(&weir, "/a?x=1", &[]), "MISS", "response 0");
    let hit = weir.get("/a?x=1");
    check(status_and_body(&hit), "HIT", "response 0");
    assert_eq!((hit.header("Content-Type"), hit.header("X-Own")), (Some("text/x"), Some("1")));
    let age: u64 = hit.header("Age").unwrap().parse().unwrap();
    assert!((5..60).contains(&age), "{age}");
    assert_eq!(hit.header_all("Date").len(), 1);
    check(ask(&weir, "/a?x=2", &[]), "MISS", "response 1");
    let head = weir.client().request("HEAD", "/a?x=1", &[], b"");
    assert_eq!((head.header("Content-Length"), &*status_and_body(&head).0), (Some("10"), "HIT"));
    wait_until("both hits are counted", || {
        metric(&weir, "weir_cache_requests_total{zone=\"memory_cache\",status=\"HIT\"}") == 2
    });
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn bypass_no_cache_and_purge() {
    let origin = numbered(&[]);
    let weir = cached(
        &origin,
        json!({"cache_bypass": ["$arg_bypass"], "no_cache": ["$arg_no"], "cache_key": ["$uri"]}),
    );
    check(ask(&weir, "/a?no=1", &[]), "MISS", "response 0");
    check(ask(&weir, "/a?bypass=1", &[]), "BYPASS", "response 1");
    check(ask(&weir, "/a", &[]), "MISS", "response 2");
    check(ask(&weir, "/a?bypass=0", &[]), "HIT", "response 2");
    let purge = || weir.client().request("PURGE", "/a", &[], b"").status;
    assert_eq!((purge(), purge()), (200, 404));
    check(ask(&weir, "/a", &[]), "MISS", "response 3");
    let posted = weir.client().request("POST", "/a", &[], b"x");
    check(status_and_body(&posted), "MISS", "response 4");
    check(ask(&weir, "/a", &[]), "MISS", "response 5");
}

#[test]
fn refused_responses_are_not_stored() {
    let check = |status: u16, fields: &'static [(&'static str, &'static str)]| {
        let origin = Origin::start(move |_| Reply::with(status, fields, b"x"));
        let weir = cached(&origin, json!({}));
        for _ in 0..2 {
            assert_eq!(ask(&weir, "/", &[]).0, "MISS", "{status} {fields:?}");
        }
        assert_eq!(origin.requests().len(), 2);
    };
    check(500, &[]);
    check(200, &[("Cache-Control", "private")]);
    check(200, &[("Cache-Control", "no-store")]);
    check(200, &[("Set-Cookie", "a=b")]);
    check(200, &[("Vary", "*")]);
}

#[test]
fn users_hosts_and_schemes_are_never_mixed() {
    let origin = Origin::start(|request| {
        Reply::ok(&format!("for {}", request.header("Authorization").or(request.header("Host")).unwrap()))
    });
    let weir = cached(&origin, json!({"cache_key": ["$uri"]}));
    for _ in 0..2 {
        for user in ["Basic YTph", "Basic YTpi", "Bearer x"] {
            assert_eq!(ask(&weir, "/", &[("Authorization", user)]).1, format!("for {user}"));
        }
        for host in ["a.test", "b.test"] {
            assert_eq!(ask(&weir, "/", &[("Host", host)]).1, format!("for {host}"));
        }
    }
    assert_eq!(origin.requests().len(), 5);
}

#[test]
fn consumers_have_entries_of_their_own() {
    let origin = numbered(&[]);
    let weir = Weir::start(BINARY);
    for name in ["anne", "bob"] {
        weir.put(
            "consumers",
            json!({"username": name, "plugins": {"key-auth": {"key": format!("{name}-key")}}}),
        );
    }
    let put = |isolation: bool| {
        let cache = json!({
            "cache_strategy": "memory", "cache_zone": "memory_cache", "consumer_isolation": isolation
        });
        let upstream = json!({"nodes": {origin.address().to_string(): 1}});
        let plugins = json!({"key-auth": {}, "proxy-cache": cache});
        weir.put("routes/1", json!({"uri": "/*", "plugins": plugins, "upstream": upstream}));
    };
    let by = |name: &str, path: &str| ask(&weir, path, &[("apikey", &format!("{name}-key"))]);
    put(true);
    check(by("anne", "/a"), "MISS", "response 0");
    check(by("bob", "/a"), "MISS", "response 1");
    check(by("anne", "/a"), "HIT", "response 0");
    put(false);
    check(by("anne", "/b"), "MISS", "response 2");
    check(by("bob", "/b"), "HIT", "response 2");
    assert_eq!(weir.get("/b").status, 401, "the cache is behind authentication");
}

#[test]
fn variants_are_kept_apart_and_purged_together() {
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |request| {
        let language = request.header("Accept-Language").unwrap_or("none").to_owned();
        let body = format!("{language} {}", count.fetch_add(1, Ordering::Relaxed));
        Reply::with(200, &[("Vary", "Accept-Language")], body.as_bytes())
    });
    let weir = cached(&origin, json!({}));
    let by = |language: &str| ask(&weir, "/", &[("Accept-Language", language)]);
    check(by("de"), "MISS", "de 0");
    check(by("en"), "MISS", "en 1");
    check(by("de"), "HIT", "de 0");
    check(by("en"), "HIT", "en 1");
    check(ask(&weir, "/", &[]), "MISS", "none 2");
    assert_eq!(weir.client().request("PURGE", "/", &[], b"").status, 200);
    check(by("de"), "MISS", "de 3");
    check(by("en"), "MISS", "en 4");
}

#[test]
fn ranges_and_conditions_are_answered_from_entry() {
    let origin = Origin::start(|request| match request.header("Range") {
        Some(_) => Reply::with(206, &[("Content-Range", "bytes 0-0/10")], b"0"),
        None => Reply::with(200, &[("ETag", "\"a\"")], b"0123456789"),
    });
    let weir = cached(&origin, json!({}));
    let get = |headers: &[(&str, &str)]| weir.client().request("GET", "/", headers, b"");
    let passed = get(&[("Range", "bytes=0-0")]);
    assert_eq!(
        (passed.status, &*status_and_body(&passed).0),
        (206, "MISS"),
        "a range that is not there is passed on"
    );
    check(status_and_body(&get(&[("If-None-Match", "\"a\"")])), "MISS", "0123456789");
    let part = get(&[("Range", "bytes=2-4")]);
    assert_eq!((part.status, part.header("Content-Range")), (206, Some("bytes 2-4/10")));
    check(status_and_body(&part), "HIT", "234");
    assert_eq!(get(&[("Range", "bytes=2-4"), ("If-Range", "\"b\"")]).text(), "0123456789");
    let beyond = get(&[("Range", "bytes=10-")]);
    assert_eq!((beyond.status, beyond.header("Content-Range")), (416, Some("bytes */10")));
    let same = get(&[("If-None-Match", "W/\"a\"")]);
    assert_eq!((same.status, &*same.text(), same.header("ETag")), (304, "", Some("\"a\"")));
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn client_that_has_an_unstored_response_gets_304() {
    let origin = Origin::start(|_| {
        Reply::new().send(
            "HTTP/1.1 200 OK\r\nETag: \"a\"\r\nCache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n\
             3\r\nabc\r\n0\r\n\r\n",
        )
    });
    let weir = cached(&origin, json!({}));
    let mut client = weir.client();
    let same = client.request("GET", "/", &[("If-None-Match", "\"a\"")], b"");
    assert_eq!((same.status, same.header("ETag")), (304, Some("\"a\"")));
    assert_eq!(same.header("Transfer-Encoding"), None);
    let whole = client.request("GET", "/", &[("If-None-Match", "\"b\"")], b"");
    assert_eq!((whole.status, &*whole.text()), (200, "abc"));
    assert_eq!(origin.requests()[1].header("If-None-Match"), Some("\"b\""), "the origin decides now");
}

#[test]
fn fifty_clients_make_one_request() {
    let (asked, go) = (Signal::new(), Signal::new());
    let (begun, release) = (asked.clone(), go.clone());
    let origin = Origin::start(move |_| {
        begun.set();
        Reply::new()
            .wait(&release)
            .then(testkit::Step::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nonce".to_vec()))
    });
    let weir = cached(&origin, json!({"coalesce_timeout": 50}));
    let proxy = weir.proxy();
    let clients: Vec<_> =
        (0..50).map(|_| thread::spawn(move || status_and_body(&Client::connect(proxy).get("/")))).collect();
    assert!(asked.wait());
    wait_until("all clients are connected", || {
        metric(&weir, "apisix_nginx_http_current_connections{state=\"active\"}") >= 50
    });
    go.set();
    let answers: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    assert!(answers.iter().all(|(_, body)| body == "once"), "{answers:?}");
    assert_eq!(answers.iter().filter(|(status, _)| status == "MISS").count(), 1);
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn cut_response_is_not_stored() {
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0 => Reply::raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").close(),
        1 => Reply::raw(b"HTTP/1.1 200 OK\r\n\r\nuntil close").close(),
        _ => Reply::ok("whole"),
    });
    let weir = cached(&origin, json!({}));
    let mut client = weir.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    // It was cut before any of it was sent on, or behind that.
    assert!(client.read_response(false).map_or(true, |response| response.status == 502));
    check(ask(&weir, "/", &[("Host", "a")]), "MISS", "until close");
    check(ask(&weir, "/", &[("Host", "a")]), "MISS", "whole");
    check(ask(&weir, "/", &[("Host", "a")]), "HIT", "whole");
}

#[test]
fn long_bodies_pass_through() {
    let body = "x".repeat(300_000);
    let sent = body.clone();
    let origin = Origin::start(move |request| match request.path() {
        "/chunked" => Reply::chunked(&[&sent[..150_000], &sent[150_000..]], &[("X-Trailer", "1")]),
        _ => Reply::ok(&sent),
    });
    let weir = cached(&origin, json!({"max_resp_body_size": 299_999}));
    for path in ["/", "/chunked", "/", "/chunked"] {
        check(ask(&weir, path, &[]), "MISS", &body);
    }
    route(&weir, &origin, json!({"max_resp_body_size": 300_000}));
    for (path, status) in [("/", "MISS"), ("/chunked", "MISS"), ("/", "HIT"), ("/chunked", "HIT")] {
        // Requests of a key that was not stored do not wait for each other, and are stored again.
        check(ask(&weir, path, &[]), status, &body);
    }
}

#[test]
fn edits_of_other_plugins_run_on_hits() {
    let origin = numbered(&[("Content-Type", "text/plain")]);
    let weir = Weir::start(BINARY);
    let plugins = json!({
        "proxy-cache": {"cache_strategy": "memory", "cache_zone": "memory_cache"},
        "response-rewrite": {"headers": {"set": {"X-New": "1"}}, "filters": [{"regex": "response", "replace": "edited"}]},
    });
    let upstream = json!({"nodes": {origin.address().to_string(): 1}});
    weir.put("routes/1", json!({"uri": "/*", "plugins": plugins, "upstream": upstream}));
    for status in ["MISS", "HIT"] {
        let response = weir.get("/");
        check(status_and_body(&response), status, "edited 0");
        assert_eq!(response.header_all("X-New"), ["1"]);
    }
}

#[test]
fn configuration_is_checked_against_zones() {
    let origin = numbered(&[]);
    let weir = Weir::builder(BINARY)
        .settings("proxy_cache:\n  zones:\n    - {name: small, memory_size: 1m}\n")
        .start();
    let put = |config: Value| {
        let upstream = json!({"nodes": {origin.address().to_string(): 1}});
        let route = json!({"uri": "/*", "plugins": {"proxy-cache": config}, "upstream": upstream});
        weir.admin("PUT", "routes/1", route)
    };
    let refused = |config: Value, expected: &str| {
        let (status, answer) = put(config);
        assert_eq!(status, 400, "{answer}");
        let message = answer["error_msg"].as_str().unwrap();
        assert!(message.contains(expected), "{message}");
    };
    refused(
        json!({}),
        "failed to check the configuration of plugin proxy-cache err: cache_zone disk_cache_one not found",
    );
    refused(json!({"cache_zone": "small"}), "invalid or empty cache_zone for cache_strategy: disk");
    refused(
        json!({"cache_strategy": "memory", "cache_zone": "small", "cache_key": ["$request_method"]}),
        "cache_key variable $request_method unsupported",
    );
    assert_eq!(put(json!({"cache_strategy": "memory", "cache_zone": "small"})).0, 201);
    assert_eq!(put(json!({"cache_zone": "to_come", "_meta": {"disable": true}})).0, 200);
    refused(json!({"cache_zone": "to_come", "_meta": {"disable": false}}), "cache_zone to_come not found");
    let faulty =
        Weir::builder(BINARY).settings("proxy_cache: {zones: [{name: a, memory_size: 1x}]}\n").try_start();
    let faulty = faulty.err().map(|exited| exited.to_string()).unwrap_or_default();
    assert!(faulty.contains("zones[0]: memory_size: is a size"), "{faulty}");
}
