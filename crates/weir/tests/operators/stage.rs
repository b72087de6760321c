//! A gateway under traffic with successes, failures, retries, TLS, health checks, limits and plugins, and a
//! Prometheus that reads it. Holds no test.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Authority, Client, Origin, Prometheus, Reply, TlsClient, TlsFront, Weir};

use crate::support::{BINARY, repository};

/// See the module; the traffic ends when it is dropped.
pub(crate) struct Stage {
    pub(crate) weir: Arc<Weir>,
    pub(crate) prometheus: Prometheus,
    is_over: Arc<AtomicBool>,
    traffic: Option<JoinHandle<()>>,
    _peers: (Origin, TlsFront, TempDir),
}

impl Stage {
    pub(crate) fn start() -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("stage");
        let origin = Origin::start(|request| match request.path() {
            "/fails" | "/health-fails" => Reply::status(503, "no"),
            _ => Reply::ok("hello"),
        });
        let front = TlsFront::to(origin.address(), &authority.pair(&["node.example"]));
        let at = |name: &str| folder.path().join(name);
        fs::write(at("authority.pem"), authority.pem()).unwrap();
        fs::create_dir(at("targets")).unwrap();
        let found = json!([{"targets": [origin.address().to_string()]}]);
        fs::write(at("targets/shop.json"), found.to_string()).unwrap();
        let settings = format!(
            "workers: 2\nmemory_limit: 8GiB\nproxy_tls: 127.0.0.1:0\ntrusted_certificates: {}\n\
             discovery: {{file: {{files: [{}]}}}}\n",
            at("authority.pem").display(),
            at("targets").display()
        );
        let weir = Arc::new(Weir::builder(BINARY).settings(&settings).start());
        configure(&weir, &origin, &front, &authority);
        let rules = ["weir-rules.yml", "weir-alerts.yml"]
            .map(|name| repository().join("packaging/prometheus").join(name));
        let prometheus =
            Prometheus::with_rules(weir.address("metrics"), &[rules[0].as_path(), rules[1].as_path()]);
        let is_over = Arc::new(AtomicBool::new(false));
        let client = TlsClient::new(authority.pem(), "shop.example");
        let traffic = {
            let (weir, is_over) = (Arc::clone(&weir), Arc::clone(&is_over));
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    ask_all(&weir, &client);
                }
            })
        };
        Stage { weir, prometheus, is_over, traffic: Some(traffic), _peers: (origin, front, folder) }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(traffic) = self.traffic.take() {
            // A panic of the traffic has been printed; a second one here would hide the first failure.
            let _ = traffic.join();
        }
    }
}

/// One request to each route, a plain one over TLS, and one without a route.
fn ask_all(weir: &Weir, client: &TlsClient) {
    for path in [
        "/ok",
        "/fails",
        "/gone",
        "/retried",
        "/tls",
        "/cached",
        "/mirrored",
        "/denied",
        "/guarded",
        "/found",
    ] {
        let _ = Client::connect(weir.proxy()).try_request("GET", path, &[], b"");
    }
    for (path, key) in [("/keyed", "one"), ("/keyed", "wrong"), ("/limited", "one")] {
        let _ = Client::connect(weir.proxy()).try_request("GET", path, &[("apikey", key)], b"");
    }
    let _ = Client::connect(weir.proxy()).try_request("POST", "/none", &[], b"body");
    let _ = client.get(weir.address("proxy-tls"), "shop.example", "/ok");
}

/// The objects of the gateway: each kind of success and failure that dashboards show has a route.
fn configure(weir: &Weir, origin: &Origin, front: &TlsFront, authority: &Authority) {
    let (node, dead) = (origin.address().to_string(), Origin::nowhere().to_string());
    let checks = |path: &str| {
        json!({"active": {
            "type": "http", "http_path": path,
            "healthy": {"interval": 1, "successes": 1}, "unhealthy": {"interval": 1, "http_failures": 1, "tcp_failures": 1}
        }})
    };
    let pair = authority.pair(&["shop.example"]);
    weir.put("ssls/shop", json!({"sni": "shop.example", "cert": pair.certificate, "key": pair.key}));
    weir.put("consumers/jack", json!({"username": "jack", "plugins": {"key-auth": {"key": "one"}}}));
    weir.put("services/plain", json!({"upstream": {"nodes": {&node: 1}}}));
    weir.put("upstreams/mixed", json!({"nodes": {&node: 1, &dead: 1}, "checks": checks("/health")}));
    weir.put("upstreams/down", json!({"nodes": {&node: 1}, "checks": checks("/health-fails")}));
    let one = json!({"nodes": {&node: 1}});
    let logger = json!({"uri": format!("http://{node}/logs"), "batch_max_size": 1});
    let routes: [(&str, Value); 12] = [
        ("ok", json!({"service_id": "plain", "plugins": {"http-logger": logger}})),
        ("fails", json!({"upstream_id": "down"})),
        ("gone", json!({"upstream": {"nodes": {&dead: 1}}})),
        ("retried", json!({"upstream": {"nodes": {&dead: 1, &node: 1}, "retries": 1}})),
        (
            "tls",
            json!({"upstream": {
                "scheme": "https", "pass_host": "rewrite", "upstream_host": "node.example",
                "nodes": {front.address().to_string(): 1}
            }}),
        ),
        (
            "cached",
            json!({"upstream": one, "plugins": {"proxy-cache": {
                "cache_strategy": "memory", "cache_zone": "memory_cache", "cache_ttl": 60
            }}}),
        ),
        (
            "mirrored",
            json!({"upstream": one, "plugins": {"proxy-mirror": {"host": format!("http://{node}")}}}),
        ),
        ("denied", json!({"upstream": one, "plugins": {"forward-auth": {"uri": format!("http://{dead}/")}}})),
        (
            "guarded",
            json!({"upstream": {
                "nodes": {&node: 9, &dead: 1}, "retries": 0,
                "outlier_ejection": {"consecutive_failures": 1}, "circuit_breaker": {"consecutive_failures": 1000},
                "limits": {"max_requests": 100, "queue": {"length": 10}}
            }}),
        ),
        ("found", json!({"upstream": {"discovery_type": "file", "service_name": "shop"}})),
        ("keyed", json!({"upstream_id": "mixed", "plugins": {"key-auth": {}}})),
        (
            "limited",
            json!({"upstream": one, "plugins": {
                "key-auth": {}, "limit-count": {"count": 1, "time_window": 600, "rejected_code": 429}
            }}),
        ),
    ];
    for (id, mut route) in routes {
        route["uri"] = json!(format!("/{id}"));
        weir.put(&format!("routes/{id}"), route);
    }
    weir.put("global_rules/metrics", json!({"plugins": {"prometheus": {}}}));
}
