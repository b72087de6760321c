//! Stale entries that a background request replaces or confirms while clients are answered from them (RFC
//! 5861 section 3). The origin holds its later responses back until the test lets them go.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use testkit::{Client, Origin, Reply, Response, Signal, Step, Weir, wait_until};

use super::{ask, cached, check, metric, status_and_body};
use crate::support::BINARY;

/// Fields of a response that is fresh for one second.
const SHORT: &[(&str, &str)] =
    &[("Cache-Control", "max-age=2, stale-while-revalidate=600"), ("Age", "1"), ("ETag", "\"a\"")];

/// An origin with one short-lived response, and later ones that wait.
struct Slow {
    origin: Origin,
    asked: Signal,
    go: Signal,
}

impl Slow {
    /// The later responses are `later`, a whole message.
    fn answering(later: &'static str) -> Slow {
        let (asked, go, count) = (Signal::new(), Signal::new(), AtomicUsize::new(0));
        let (begun, release) = (asked.clone(), go.clone());
        let origin = Origin::start(move |_| match count.fetch_add(1, Ordering::Relaxed) {
            0 => Reply::with(200, SHORT, b"first"),
            _ => Reply::steps([
                Step::Set(begun.clone()),
                Step::Wait(release.clone()),
                Step::Send(later.as_bytes().to_vec()),
            ]),
        });
        Slow { origin, asked, go }
    }

    fn updating() -> Slow {
        Slow::answering("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 6\r\n\r\nsecond")
    }
}

/// Asks over `client` until the response is not from a fresh entry.
fn first_stale(client: &mut Client, method: &str, headers: &[(&str, &str)]) -> Response {
    let mut last = None;
    wait_until("the entry is stale", || {
        let response = client.request(method, "/", headers, b"");
        let is_stale = response.header("Apisix-Cache-Status") != Some("HIT");
        last = Some(response);
        is_stale
    });
    last.unwrap()
}

fn outcomes(weir: &Weir, zone: &str, outcome: &str) -> u64 {
    let name = format!("weir_cache_background_requests_total{{zone=\"{zone}\",outcome=\"{outcome}\"}}");
    metric(weir, &name)
}

#[test]
fn first_client_of_stale_entry_does_not_wait() {
    let check_of = |strategy: &str, method: &str, headers: &[(&str, &str)], status: u16, body: &str| {
        let slow = Slow::updating();
        let zone = if strategy == "disk" { "disk_cache_one" } else { "memory_cache" };
        let mut config = json!({"cache_strategy": strategy, "cache_zone": zone});
        if strategy == "memory" {
            config["cache_control"] = true.into();
        }
        let weir = cached(&slow.origin, config);
        let case = format!("{strategy} {method} {headers:?}");
        check(ask(&weir, "/", &[]), "MISS", "first");
        wait_until("it is stored", || ask(&weir, "/", &[]).0 != "MISS");
        let mut client = weir.client();
        // The origin has not answered: a client that waited for it would not come back.
        for _ in 0..2 {
            let response = first_stale(&mut client, method, headers);
            assert_eq!(
                (&*status_and_body(&response).0, response.status, &*response.text()),
                ("UPDATING", status, body),
                "{case}"
            );
        }
        assert!(slow.asked.wait(), "{case}");
        assert!(!slow.go.is_set());
        slow.go.set();
        wait_until("the entry is replaced", || {
            ask(&weir, "/", &[]) == ("HIT".to_owned(), "second".to_owned())
        });
        let requests = slow.origin.requests();
        assert_eq!(requests.len(), 2, "{case}: one request for all clients");
        assert_eq!((&*requests[1].method, requests[1].header("Range")), ("GET", None), "{case}");
        assert_eq!(requests[1].header("If-None-Match"), Some("\"a\""), "{case}");
        wait_until("it is counted", || outcomes(&weir, zone, "replaced") == 1);
    };
    for strategy in ["memory", "disk"] {
        check_of(strategy, "GET", &[], 200, "first");
        check_of(strategy, "HEAD", &[], 200, "");
        check_of(strategy, "GET", &[("Range", "bytes=1-2")], 206, "ir");
        check_of(strategy, "GET", &[("If-None-Match", "\"a\"")], 304, "");
    }
}

#[test]
fn clients_of_stale_entry_share_one_request() {
    for coalesce_timeout in [0, 50] {
        let slow = Slow::updating();
        let config = json!({"cache_control": true, "coalesce_timeout": coalesce_timeout});
        let weir = cached(&slow.origin, config);
        check(ask(&weir, "/", &[]), "MISS", "first");
        check(status_and_body(&first_stale(&mut weir.client(), "GET", &[])), "UPDATING", "first");
        assert!(slow.asked.wait());
        let proxy = weir.proxy();
        let clients: Vec<_> = (0..20)
            .map(|_| std::thread::spawn(move || status_and_body(&Client::connect(proxy).get("/"))))
            .collect();
        for client in clients {
            check(client.join().unwrap(), "UPDATING", "first");
        }
        slow.go.set();
        wait_until("the entry is replaced", || {
            ask(&weir, "/", &[]) == ("HIT".to_owned(), "second".to_owned())
        });
        assert_eq!(slow.origin.requests().len(), 2);
    }
}

#[test]
fn background_request_confirms_entry() {
    let slow = Slow::answering("HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\nX-New: 1\r\n\r\n");
    let weir = cached(&slow.origin, json!({"cache_control": true}));
    check(ask(&weir, "/", &[]), "MISS", "first");
    check(status_and_body(&first_stale(&mut weir.client(), "GET", &[])), "UPDATING", "first");
    slow.go.set();
    wait_until("the entry is confirmed", || {
        let response = weir.get("/");
        status_and_body(&response) == ("HIT".to_owned(), "first".to_owned())
            && response.header("X-New") == Some("1")
    });
    wait_until("it is counted", || outcomes(&weir, "memory_cache", "revalidated") == 1);
}

#[test]
fn failed_background_request_keeps_entry() {
    let later: &[&str] = &[
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 5\r\n\r\nsorry",
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 9\r\n\r\nhalf",
        "",
    ];
    for reply in later {
        let count = AtomicUsize::new(0);
        let origin = Origin::start(move |_| match count.fetch_add(1, Ordering::Relaxed) {
            0 => Reply::with(200, SHORT, b"first"),
            _ => Reply::raw(reply.as_bytes()).close(),
        });
        let weir = cached(&origin, json!({"cache_control": true}));
        check(ask(&weir, "/", &[]), "MISS", "first");
        check(status_and_body(&first_stale(&mut weir.client(), "GET", &[])), "UPDATING", "first");
        wait_until("it is counted", || outcomes(&weir, "memory_cache", "failed") >= 1);
        let (status, body) = ask(&weir, "/", &[]);
        assert!(["STALE", "UPDATING"].contains(&&*status), "{status} after {reply:?}");
        assert_eq!(body, "first", "{reply:?}");
    }
}

#[test]
fn background_request_outlives_its_client() {
    let slow = Slow::updating();
    let weir = cached(&slow.origin, json!({"cache_control": true}));
    check(ask(&weir, "/", &[]), "MISS", "first");
    let mut client = weir.client();
    check(status_and_body(&first_stale(&mut client, "GET", &[])), "UPDATING", "first");
    assert!(slow.asked.wait());
    drop(client);
    slow.go.set();
    wait_until("the entry is replaced", || ask(&weir, "/", &[]) == ("HIT".to_owned(), "second".to_owned()));
}

#[test]
fn background_request_ends_with_drain() {
    let slow = Slow::updating();
    let mut weir = cached(&slow.origin, json!({"cache_control": true}));
    check(ask(&weir, "/", &[]), "MISS", "first");
    check(status_and_body(&first_stale(&mut weir.client(), "GET", &[])), "UPDATING", "first");
    assert!(slow.asked.wait());
    weir.terminate();
    weir.wait_for_exit();
}

#[test]
fn background_request_is_that_of_its_client() {
    let slow = Slow::updating();
    let other = Origin::answering("not this upstream");
    let weir = Weir::start(BINARY);
    let nodes = |origin: &Origin| json!({"nodes": {origin.address().to_string(): 1}});
    let chosen = nodes(&slow.origin);
    let plugins: Value = json!({
        "proxy-cache": {"cache_strategy": "memory", "cache_zone": "memory_cache", "cache_control": true},
        "proxy-rewrite": {"uri": "/inner", "host": "inner.test", "headers": {"set": {"X-From": "$arg_a"}}},
        "traffic-split": {"rules": [{"weighted_upstreams": [{"upstream": chosen, "weight": 1}]}]},
        "limit-count": {"count": 3, "time_window": 600, "key": "remote_addr"},
    });
    weir.put("routes/1", json!({"uri": "/*", "plugins": plugins, "upstream": nodes(&other)}));
    check(ask(&weir, "/?a=b", &[]), "MISS", "first");
    let mut client = weir.client();
    wait_until("the entry is stale", || {
        status_and_body(&client.request("GET", "/?a=b", &[("X-Own", "1")], b"")).0 == "UPDATING"
    });
    assert!(slow.asked.wait());
    slow.go.set();
    wait_until("the entry is replaced", || ask(&weir, "/?a=b", &[]).1 == "second");
    let requests = slow.origin.requests();
    let request = &requests[1];
    assert_eq!(request.path().split('?').next(), Some("/inner"));
    let fields = ["Host", "X-From", "X-Own", "X-Forwarded-For"].map(|name| request.header(name));
    assert_eq!(fields, [Some("inner.test"), Some("b"), Some("1"), Some("127.0.0.1")]);
    assert!(other.requests().is_empty());
}
