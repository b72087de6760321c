//! The figures of the traffic: `weir/overview`, `weir/top` and `weir/events` of the Admin API, and `weir top`
//! and `weir status` as users run them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{ADMIN_KEY, Origin, Weir, wait_for, wait_until};

use crate::command::{Outcome, weir as run_in};
use crate::support::BINARY;

/// A gateway with two routes to an origin, one with keys, and one to a closed port.
fn started(origin: &Origin) -> Weir {
    let weir = Weir::builder(BINARY).arguments(&["--workers", "2"]).start();
    let nodes = json!({ origin.address().to_string(): 1 });
    weir.put("upstreams/orders", json!({ "name": "the-orders", "nodes": nodes, "type": "roundrobin" }));
    weir.put("consumers", json!({ "username": "mobile", "plugins": { "key-auth": { "key": "k" } } }));
    let shop = json!({
        "name": "shop-read", "uri": "/shop/*", "methods": ["GET"], "upstream_id": "orders",
    });
    weir.put("routes/shop", shop);
    weir.put("routes/pay", json!({ "uri": "/pay", "plugins": { "key-auth": {} }, "upstream_id": "orders" }));
    let closed = json!({ "nodes": { "127.0.0.1:1": 1 }, "type": "roundrobin", "retries": 0 });
    weir.put("routes/dead", json!({ "uri": "/dead", "upstream": closed }));
    weir
}

/// Sends 30 requests to `/shop/…`, 10 to `/pay` of which 4 have no key, 5 to `/dead`, and 5 without a route.
fn send_requests(weir: &Weir) {
    let mut client = weir.client();
    for number in 0..30 {
        assert_eq!(client.get(&format!("/shop/{number}")).status, 200);
    }
    for _ in 0..6 {
        assert_eq!(client.request("GET", "/pay", &[("apikey", "k")], b"").status, 200);
    }
    for (path, status, count) in [("/pay", 401, 4), ("/dead", 502, 5), ("/none", 404, 5)] {
        for _ in 0..count {
            assert_eq!(client.get(path).status, status);
        }
    }
}

const SENT: u64 = 50;

fn ask(weir: &Weir, target: &str) -> Value {
    let (status, answer) = weir.admin("GET", target, Value::Null);
    assert_eq!(status, 200, "{target}: {answer}");
    answer
}

/// The answer of `weir/overview` when all requests are in it.
fn overview(weir: &Weir) -> Value {
    wait_for("the second has ended", || {
        Some(ask(weir, "weir/overview")).filter(|overview| overview["now"]["requests_total"] == SENT)
    })
}

fn row(top: &Value, id: &str) -> Value {
    let list = top["list"].as_array().unwrap();
    list.iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("{id} is not in {top}")).clone()
}

fn run(weir: &Weir, arguments: &[&str]) -> Outcome {
    let admin = weir.address("admin").to_string();
    let arguments = [arguments, &["--admin", &admin]].concat();
    run_in(weir.directory(), &arguments, &[("WEIR_ADMIN_KEY", ADMIN_KEY)])
}

#[test]
fn figures_agree_with_requests_and_metrics() {
    let origin = Origin::answering("served");
    let weir = started(&origin);
    send_requests(&weir);
    let found = overview(&weir);
    let now = &found["now"];
    let rate = |name: &str| now[name].as_f64().unwrap();
    let ten = ["req_2xx", "req_4xx", "req_5xx"].map(|name| rate(name) / rate("requests"));
    let expected = [36.0, 9.0, 5.0].map(|count| count / SENT as f64);
    for (share, expected) in ten.into_iter().zip(expected) {
        assert!((share - expected).abs() < 0.01, "{share} {expected}: {now}");
    }
    assert!(now["p99_us"].as_u64() >= now["p50_us"].as_u64() && now["p50_us"].as_u64() > Some(0), "{now}");
    assert!(rate("rss") > 1e6 && rate("cores") >= 1.0, "{now}");
    assert_eq!(found["step_ms"], 10_000);
    let by_second = ask(&weir, "weir/overview?minutes=5&step=1");
    let seconds = by_second["series"]["req_2xx"].as_array().unwrap();
    let sum: f64 = seconds.iter().map(|rate| rate.as_f64().unwrap()).sum();
    assert!((sum - 36.0).abs() < 3.0, "a second is not exactly a second long: {seconds:?}");
    let seq = by_second["seq"].as_u64().unwrap();
    let newer = ask(&weir, &format!("weir/overview?minutes=5&step=1&since={seq}"));
    assert!(newer["series"]["cpu"].as_array().unwrap().len() <= 3, "{newer}");
    let marked: Vec<&Value> =
        found["marks"].as_array().unwrap().iter().map(|mark| &mark["revision"]).collect();
    assert_eq!(marked.len() as u64, found["revision"].as_u64().unwrap(), "{found}");
    let (metrics, text) = (weir.address("metrics"), "apisix_http_requests_total");
    let scraped = testkit::Client::connect(metrics).get("/apisix/prometheus/metrics").text();
    assert!(scraped.contains(&format!("\n{text} {SENT}\n")), "{scraped}");
    for (target, word) in [
        ("weir/overview?minutes=4", "5 to 60"),
        ("weir/overview?step=2", "1 or 10"),
        ("weir/top?by=hosts", "routes, consumers"),
        ("weir/top?window=9", "10 to 60"),
        ("weir/top?limit=0", "1 to 1000"),
        ("weir/events?topics=samples", "sample, revision"),
    ] {
        let (status, answer) = weir.admin("GET", target, Value::Null);
        assert_eq!(status, 400, "{target}");
        assert!(answer["error_msg"].as_str().unwrap().contains(word), "{target}: {answer}");
    }
}

#[test]
fn busiest_rows_are_counted_by_name() {
    let origin = Origin::answering("served");
    let weir = started(&origin);
    // Percentiles are measured from the first question on.
    ask(&weir, "weir/top");
    send_requests(&weir);
    overview(&weir);
    let top = wait_for("rows are read again", || {
        let top = ask(&weir, "weir/top?by=routes");
        let has_all = top["list"].as_array().is_some_and(|list| list.len() == 3);
        (has_all && row(&top, "pay")["p4xx"] == 40).then_some(top)
    });
    let shop = row(&top, "shop");
    assert_eq!((&shop["name"], &shop["match"]), (&json!("shop-read"), &json!("GET /shop/*")));
    assert_eq!((&shop["upstream"], &shop["p5xx"]), (&json!("orders"), &json!(0)));
    assert!(shop["p99_us"].as_u64() > Some(0) && shop["rps"].as_f64() > Some(0.0), "{shop}");
    let dead = row(&top, "dead");
    assert_eq!((&dead["p5xx"], &dead["upstream"]), (&json!(100), &json!("(here)")));
    assert!(top["other"]["rps"].as_f64() > Some(0.0), "requests without a route: {top}");
    assert_eq!(top["list"][0]["id"], "shop", "the busiest is first");
    let first = ask(&weir, "weir/top?limit=1");
    assert_eq!((first["list"].as_array().unwrap().len(), &first["other"]["count"]), (1, &json!(2)));

    let consumers = ask(&weir, "weir/top?by=consumers");
    assert_eq!(row(&consumers, "mobile")["p4xx"], 0);
    let endpoints = ask(&weir, "weir/top?by=endpoints");
    let good = row(&endpoints, &origin.address().to_string());
    assert_eq!((&good["upstream"], &good["last_failure"]), (&json!("upstreams/orders"), &Value::Null));
    let bad = row(&endpoints, "127.0.0.1:1");
    assert_eq!((&bad["upstream"], &bad["p5xx"]), (&json!("routes/dead"), &json!(100)));
    assert_eq!(bad["last_failure"]["cause"], "connect_failed");
    let upstreams = ask(&weir, "weir/top?by=upstreams");
    assert_eq!(row(&upstreams, "upstreams/orders")["name"], "the-orders");
    let causes = ask(&weir, "weir/top?by=causes");
    assert_eq!(row(&causes, "connect_failed")["p5xx"], 100);
    weir.delete("routes/dead");
    wait_until("the row of a deleted route is gone", || {
        ask(&weir, "weir/top")["list"].as_array().unwrap().iter().all(|row| row["id"] != "dead")
    });
}

#[test]
fn dead_endpoint_needs_attention() {
    let origin = Origin::answering("served");
    let weir = started(&origin);
    assert_eq!(ask(&weir, "weir/overview")["attention"], json!([]));
    let checks = json!({
        "type": "tcp",
        "healthy": { "interval": 1, "successes": 1 },
        "unhealthy": { "interval": 1, "tcp_failures": 1 },
    });
    let nodes = json!({ "127.0.0.1:1": 1, origin.address().to_string(): 1 });
    weir.put(
        "upstreams/orders",
        json!({ "nodes": nodes, "type": "roundrobin", "checks": { "active": checks } }),
    );
    weir.put("routes/checked", json!({ "uri": "/checked", "upstream_id": "orders" }));
    let line = wait_for("the node is down", || {
        ask(&weir, "weir/overview")["attention"].as_array().unwrap().first().cloned()
    });
    assert_eq!(
        (&line["what"], &line["severity"], &line["link"]),
        (&json!("endpoints_down"), &json!("err"), &json!("/upstreams/orders"))
    );
    assert_eq!(line["title"], "1 of 2 endpoints of upstream orders is down.");
    let status = run(&weir, &["status"]);
    assert_eq!(status.code, 0, "{}", status.stderr);
    assert!(status.stdout.contains("1 of 2 endpoints of upstream orders is down."), "{}", status.stdout);
}

#[test]
fn commands_show_the_figures() {
    let origin = Origin::answering("served");
    let weir = started(&origin);
    send_requests(&weir);
    overview(&weir);
    let outcome = run(&weir, &["top", "--once"]);
    assert_eq!((outcome.code, &*outcome.stderr), (0, ""));
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert!(lines[0].contains(" 2/2   ") && lines[0].contains(" in flight "), "{}", outcome.stdout);
    assert!(lines[1].starts_with("rows: the last "), "{}", outcome.stdout);
    assert!(lines[2].contains("ROUTE") && lines[2].contains("P99 MS"), "{}", outcome.stdout);
    assert!(lines[3].contains("shop-read") && lines[3].contains("GET /shop/*"), "{}", outcome.stdout);
    assert!(!outcome.stdout.contains('\u{1b}'), "no colours outside of a terminal");
    let piped = run(&weir, &["top", "--by", "causes"]);
    assert!(piped.stdout.contains("connect_failed"), "{}", piped.stdout);
    let outcome = run(&weir, &["top", "--json", "--by", "endpoints", "--limit", "1"]);
    let answers: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(answers["overview"]["now"]["requests_total"], SENT);
    assert_eq!(answers["top"]["list"].as_array().unwrap().len(), 1);
    let outcome = run(&weir, &["status"]);
    assert!(
        outcome.stdout.contains("routes 3") && outcome.stdout.contains("upstreams 1"),
        "{}",
        outcome.stdout
    );
    assert!(outcome.stdout.contains("Everything is in force: revision "), "{}", outcome.stdout);
    let answers: Value = serde_json::from_str(&run(&weir, &["status", "--json"]).stdout).unwrap();
    assert_eq!(answers["status"]["objects"]["routes"], 3);
    drop(weir);
    let outcome = run_in(std::path::Path::new("."), &["top", "--once", "--admin", "127.0.0.1:1"], &[]);
    assert_eq!(outcome.code, 1);
    assert!(outcome.stderr.contains("no instance answers at 127.0.0.1:1"), "{}", outcome.stderr);
}

/// An event stream, read line by line.
fn events(weir: &Weir, topics: &str) -> BufReader<TcpStream> {
    events_for(weir, topics, ADMIN_KEY)
}

/// The same with a key of its own.
fn events_for(weir: &Weir, topics: &str, key: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(weir.address("admin")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(
        stream,
        "GET /apisix/admin/weir/events?topics={topics} HTTP/1.1\r\nHost: a\r\nX-API-KEY: {key}\r\n\r\n"
    )
    .unwrap();
    BufReader::new(stream)
}

/// The data of the next event with that name.
fn next(stream: &mut BufReader<TcpStream>, name: &str) -> Value {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended before {name}");
        if line.trim_end() == format!("event: {name}") {
            line.clear();
            stream.read_line(&mut line).unwrap();
            return serde_json::from_str(line.strip_prefix("data: ").unwrap()).unwrap();
        }
    }
}

#[test]
fn events_tell_revisions_and_figures() {
    let origin = Origin::answering("served");
    let mut weir = started(&origin);
    let mut stream = events(&weir, "sample,revision,fault");
    let revision = next(&mut stream, "revision");
    assert_eq!(revision["source"], "admin", "{revision}");
    assert_eq!(next(&mut stream, "fault"), json!({ "count": 0 }));
    let (first, second) = (next(&mut stream, "sample"), next(&mut stream, "sample"));
    assert!(second["seq"].as_u64() > first["seq"].as_u64(), "{first} {second}");
    assert!(second["now"]["rss"].as_u64() > Some(0), "{second}");
    weir.put("routes/new", json!({ "uri": "/new", "upstream_id": "orders" }));
    let newer = next(&mut stream, "revision");
    assert_eq!(newer["revision"].as_u64().unwrap(), revision["revision"].as_u64().unwrap() + 1);
    let mut streams: Vec<_> = (0..15).map(|_| events(&weir, "revision")).collect();
    streams.iter_mut().for_each(|stream| drop(next(stream, "revision")));
    let (status, answer) = weir.admin("GET", "weir/events", Value::Null);
    assert_eq!(status, 429, "{answer}");
    streams.truncate(10);
    wait_until("places are free again", || {
        let mut line = String::new();
        events(&weir, "revision").read_line(&mut line).unwrap();
        line.contains("200")
    });
    weir.terminate();
    assert!(weir.wait_for_exit().success(), "open streams do not keep the instance");
}

#[test]
fn viewers_leave_event_places_to_administrators() {
    let (boss, guest) = ("boss-key-00000000", "guest-key-0000000");
    let keys = format!("admin:{boss},viewer:{guest}");
    let weir = Weir::builder(BINARY).own_admin_key().environment("WEIR_ADMIN_KEYS", &keys).start();
    let status = |stream: &mut BufReader<TcpStream>| {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        line.split(' ').nth(1).unwrap().to_owned()
    };
    let mut viewers: Vec<_> = (0..13).map(|_| events_for(&weir, "revision", guest)).collect();
    let mut answers: Vec<String> = viewers.iter_mut().map(status).collect();
    answers.sort();
    assert_eq!(answers.iter().filter(|status| *status == "200").count(), 12, "{answers:?}");
    assert_eq!(answers.last().unwrap(), "429", "four places are kept");
    assert_eq!(status(&mut events_for(&weir, "revision", boss)), "200");
}

#[test]
fn ended_view_gives_the_terminal_back() {
    let weir = Weir::start(BINARY);
    // `script` runs the view on a terminal and copies its output; `exec` keeps the process that is told.
    let command = format!("echo pid $$; exec {BINARY} top --admin {}", weir.address("admin"));
    let mut script = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .env("WEIR_ADMIN_KEY", ADMIN_KEY)
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(script.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let pid = line.trim().strip_prefix("pid ").unwrap().to_owned();
    let mut shown = Vec::new();
    while !contains(&shown, "\u{1b}[?1049h") {
        output.read_until(b'h', &mut shown).unwrap();
    }
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    shown.clear();
    output.read_to_end(&mut shown).unwrap();
    assert!(contains(&shown, "\u{1b}[?1049l"), "{}", String::from_utf8_lossy(&shown));
    assert!(script.wait().unwrap().success());
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
