//! Single requests through the real gateway: `weir/tap`, `weir/failures` and `weir tap`.

use std::net::SocketAddr;

use serde_json::{Value, json};
use testkit::{ADMIN_KEY, Client, Origin, Weir, wait_until};

use crate::command::weir;
use crate::support::BINARY;

/// A gateway with a route that is answered by a plugin at `/good`, and one at `/bad` to `nodes`.
fn gateway(nodes: &[SocketAddr]) -> Weir {
    let weir = Weir::start(BINARY);
    let mocked = json!({"mocking": {"response_example": "ok"}});
    weir.put("routes/good", json!({"uri": "/good", "plugins": mocked}));
    let nodes: Vec<Value> = nodes
        .iter()
        .zip(0..)
        .map(|(node, index)| json!({"host": node.ip(), "port": node.port(), "weight": 1, "priority": -index}))
        .collect();
    weir.put("upstreams/orders", json!({"nodes": nodes, "retries": 1}));
    weir.put("routes/bad", json!({"uri": "/bad/*", "name": "to-orders", "upstream_id": "orders"}));
    wait_until("the routes are in force", || weir.get("/good").status == 200);
    weir
}

/// Waits until the requests so far have been seen, so that no later reader meets one: its one worker reports
/// them in their order.
fn pass_earlier_requests(weir: &Weir) {
    let mut reader = Reader::open(weir, "");
    weir.client().request("GET", "/good", &[("Host", "last.example")], b"");
    while reader.request()["host"] != "last.example" {}
}

/// An address at which nothing listens.
fn closed() -> SocketAddr {
    testkit::Origin::nowhere()
}

/// A reader of events.
struct Reader(Client, String);

impl Reader {
    fn open(weir: &Weir, query: &str) -> Reader {
        let mut client = Client::connect(weir.address("admin"));
        let head = format!(
            "GET /apisix/admin/weir/tap?{query} HTTP/1.0\r\nHost: a\r\nX-API-KEY: {ADMIN_KEY}\r\n\r\n"
        );
        client.send(head.as_bytes());
        let mut reader = Reader(client, String::new());
        while !reader.1.contains(": open\n\n") {
            reader.read();
        }
        reader
    }

    fn read(&mut self) {
        let byte = self.0.read_bytes(1);
        self.1.push(char::from(byte[0]));
    }

    /// The next event: its name and data.
    fn next(&mut self) -> (String, Value) {
        self.1.clear();
        while !self.1.ends_with("\n\n") {
            self.read();
        }
        let (name, data) = self.1.trim().split_once("\ndata: ").unwrap();
        (name.replace("event: ", ""), serde_json::from_str(data).unwrap())
    }

    /// The next request.
    fn request(&mut self) -> Value {
        loop {
            let (name, data) = self.next();
            if name == "request" {
                return data;
            }
        }
    }
}

#[test]
fn retried_request_shows_both_attempts() {
    let origin = Origin::answering("x");
    let weir = gateway(&[closed(), origin.address()]);
    let mut reader = Reader::open(&weir, "q=route:bad&timeline=1");
    assert_eq!(weir.get("/bad/7?k=1").status, 200);
    let record = reader.request();
    let told = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        (told("path").as_str(), told("route_name").as_str(), told("upstream").as_str()),
        ("/bad/7?k=1", "to-orders", "orders"),
        "{record}"
    );
    assert_eq!((&record["attempts"], &record["status"]), (&json!(2), &json!(200)));
    let spans = record["spans"].as_array().unwrap();
    let of =
        |begin: &str| spans.iter().filter(|span| span["group"].as_str().unwrap().starts_with(begin)).count();
    assert!(of("attempt 1 ") == 1 && of("attempt 2 ") >= 1 && of("client") == 1, "{record}");
    let failed: Vec<&Value> = spans.iter().filter(|span| span["failed"] == true).collect();
    assert_eq!((failed.len(), &failed[0]["detail"]), (1, &json!("connect_failed")), "{record}");
}

#[test]
fn failure_is_kept_without_a_reader() {
    let weir = gateway(&[closed()]);
    assert_eq!(weir.get("/bad/1?token=s3cr3t").status, 502);
    assert_eq!(weir.get("/good").status, 200);
    assert_eq!(weir.get("/none").status, 404);
    let (status, answer) = weir.admin("GET", "weir/failures", Value::Null);
    assert_eq!((status, answer["list"].as_array().unwrap().len()), (200, 1), "{answer}");
    let record = &answer["list"][0];
    assert_eq!((&record["cause"], &record["blame"]), (&json!("connect_failed"), &json!("upstream")));
    assert_eq!(record["path"], "/bad/1?token=s3cr3t");
    assert!(!record["spans"].as_array().unwrap().is_empty(), "{record}");
    let (_, other) = weir.admin("GET", "weir/failures?q=route:good", Value::Null);
    assert_eq!(other, json!({"list": [], "lost": 0}));
    let (status, answer) = weir.admin("GET", "weir/failures?q=route:", Value::Null);
    assert!(status == 400 && answer["at"].is_u64(), "{answer}");
}

#[test]
fn refusal_of_plugin_names_it_as_cause() {
    let weir = gateway(&[closed()]);
    let limited = json!({"limit-count": {"count": 1, "time_window": 600, "rejected_code": 429}});
    weir.put("routes/limited", json!({"uri": "/limited", "upstream_id": "orders", "plugins": limited}));
    let locked = json!({"uri": "/locked", "upstream_id": "orders", "plugins": {"key-auth": {}}});
    weir.put("routes/locked", locked);
    wait_until("the routes are in force", || {
        weir.get("/locked").status == 401 && weir.get("/limited").status == 429
    });
    let mut reader = Reader::open(&weir, "q=status:4xx");
    for (path, status, plugin, phase) in
        [("/limited", 429, "limit-count", "access"), ("/locked", 401, "key-auth", "rewrite")]
    {
        assert_eq!(weir.get(path).status, status);
        // A request before the reader may be recorded after it has begun.
        let record = loop {
            let record = reader.request();
            if record["path"] == path {
                break record;
            }
        };
        assert_eq!((&record["cause"], &record["phase"]), (&json!(plugin), &json!(phase)), "{record}");
        assert_eq!((&record["blame"], &record["detail"]), (&json!("client"), &Value::Null), "{record}");
    }
    let mut reader = Reader::open(&weir, "q=cause:key-auth");
    weir.get("/limited");
    weir.get("/locked");
    assert_eq!(reader.request()["path"], "/locked");
}

#[test]
fn counts_of_a_reader_add_up() {
    let weir = gateway(&[closed()]);
    pass_earlier_requests(&weir);
    let mut reader = Reader::open(&weir, "rate=500");
    let mut client = weir.client();
    for _ in 0..120 {
        assert_eq!(client.get("/good").status, 200);
    }
    let (mut seen, mut matched, mut sent, mut dropped, mut requests) = (0, 0, 0, 0, 0);
    while seen < 120 {
        match reader.next() {
            (name, _) if name == "request" => requests += 1,
            (_, counts) => {
                let count = |name: &str| counts[name].as_u64().unwrap();
                seen += count("seen");
                matched += count("matched");
                sent += count("sent");
                dropped += count("dropped");
            }
        }
    }
    assert_eq!((seen, matched + dropped, sent), (120, 120, requests));
}

#[test]
fn script_tags_stay_text() {
    let weir = gateway(&[closed()]);
    // The last request of `gateway` may be logged after the reader came.
    let mut reader = Reader::open(&weir, "q=route:bad");
    let path = "/bad/%3Cscript%3E?q='</script>\\";
    weir.client().request("GET", path, &[("Host", "a.example")], b"");
    let record = reader.request();
    assert_eq!((&record["path"], &record["host"]), (&json!(path), &json!("a.example")));
}

#[test]
fn command_prints_requests_and_failures() {
    let weir_instance = gateway(&[closed()]);
    assert_eq!(weir_instance.get("/bad/1").status, 502);
    let key = [("WEIR_ADMIN_KEY", ADMIN_KEY)];
    let admin = weir_instance.address("admin").to_string();
    let run = |arguments: &[&str]| {
        weir(weir_instance.directory(), &[&["tap", "--admin", &admin], arguments].concat(), &key)
    };
    let kept = run(&["--failures", "--spans"]);
    assert!(kept.code == 0 && kept.stdout.contains(" 502 GET "), "{kept:?}");
    assert!(kept.stdout.contains("✕ connect_failed"), "{kept:?}");
    let nothing = run(&["--for", "1s", "status:>=500"]);
    assert!(nothing.code == 0 && nothing.stdout.contains(" shown, 0 dropped"), "{nothing:?}");
    let wrong = run(&["rute:x"]);
    assert!(wrong.code == 1 && wrong.stderr.contains('^'), "{wrong:?}");
}
