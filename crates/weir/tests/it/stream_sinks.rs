//! The log plugins over TCP, UDP, TLS and syslog and into files, and the report of the error log, through the
//! real gateway with real peers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Authority, Client, Origin, Rsyslog, TlsFront, Weir, wait_for, wait_until};

use crate::support::BINARY;

/// A gateway in front of an origin that answers `hello`.
struct Stage {
    weir: Weir,
    origin: Origin,
}

impl Stage {
    fn new(settings: &str) -> Stage {
        Stage { weir: Weir::builder(BINARY).settings(settings).start(), origin: Origin::answering("hello") }
    }

    /// Puts the route `id` at `/id` with the logger `plugin`, which sends single entries with the fields
    /// `path` and `n`.
    fn log(&self, id: &str, plugin: &str, server: SocketAddr, more: Value) {
        let mut logger = json!({
            "host": server.ip().to_string(), "port": server.port(), "batch_max_size": 1,
            "log_format": {"path": "$uri", "n": "$arg_n"},
        });
        logger.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let nodes = json!({self.origin.address().to_string(): 1});
        self.weir.put(
            &format!("routes/{id}"),
            json!({"uri": format!("/{id}"), "upstream": {"nodes": nodes}, "plugins": {plugin: logger}}),
        );
    }

    fn ask(&self, id: &str, numbers: std::ops::Range<usize>) {
        let mut client = self.weir.client();
        for number in numbers {
            assert_eq!(client.get(&format!("/{id}?n={number}")).status, 200);
        }
    }

    /// The entries with this result of the queue of a route.
    fn counted(&self, id: &str, result: &str) -> u64 {
        let text = Client::connect(self.weir.address("metrics")).get("/apisix/prometheus/metrics").text();
        let (route, result) = (format!("route_id=\"{id}\""), format!("result=\"{result}\""));
        let mut lines = text.lines().filter(|line| line.starts_with("weir_batch_entries_total"));
        let line = lines.find(|line| line.contains(&route) && line.contains(&result));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
    }
}

/// A server that keeps all bytes of each connection.
struct Collector {
    address: SocketAddr,
    connections: Arc<Mutex<Vec<String>>>,
}

impl Collector {
    fn start() -> Collector {
        Collector::on(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    fn on(listener: TcpListener) -> Collector {
        let address = listener.local_addr().unwrap();
        let connections: Arc<Mutex<Vec<String>>> = Arc::default();
        let all = connections.clone();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let all = all.clone();
                let index = {
                    let mut all = all.lock().unwrap();
                    all.push(String::new());
                    all.len() - 1
                };
                thread::spawn(move || {
                    let mut room = [0; 4_096];
                    while let Ok(count @ 1..) = stream.read(&mut room) {
                        all.lock().unwrap()[index] += &String::from_utf8_lossy(&room[..count]);
                    }
                });
            }
        });
        Collector { address, connections }
    }

    fn connections(&self) -> Vec<String> {
        self.connections.lock().unwrap().clone()
    }

    fn wait_for(&self, count: usize, what: &str) -> Vec<String> {
        wait_for(&format!("{what}: {count} whole texts"), || {
            let all = self.connections();
            let is_whole = |text: &String| text.ends_with(['}', ']', '\n']);
            (all.len() == count && all.iter().all(is_whole)).then_some(all)
        })
    }
}

fn entry(id: &str, number: usize) -> Value {
    json!({"path": format!("/{id}"), "n": number.to_string(), "route_id": id})
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn tcp_logger_sends_a_batch_per_connection() {
    let (stage, server) = (Stage::new(""), Collector::start());
    stage.log("one", "tcp-logger", server.address, json!({}));
    stage.ask("one", 0..2);
    let mut texts: Vec<Value> = server.wait_for(2, "entries").iter().map(|text| json_of(text)).collect();
    texts.sort_by_key(ToString::to_string);
    assert_eq!(texts, [entry("one", 0), entry("one", 1)]);

    let lists = Collector::start();
    stage.log("list", "tcp-logger", lists.address, json!({"batch_max_size": 2}));
    stage.ask("list", 0..2);
    assert_eq!(json_of(&lists.wait_for(1, "a list")[0]), json!([entry("list", 0), entry("list", 1)]));

    let identity = Authority::new("logs").pair(&["logs.example"]);
    let encrypted = Collector::start();
    let front = TlsFront::to(encrypted.address, &identity);
    let tls = json!({"tls": true, "tls_options": "logs.example"});
    stage.log("tls", "tcp-logger", front.address(), tls);
    stage.ask("tls", 0..1);
    assert_eq!(json_of(&encrypted.wait_for(1, "an entry over TLS")[0]), entry("tls", 0));
    assert_eq!(front.server_names(), ["logs.example"]);
}

#[test]
fn tcp_logger_retries_and_counts_what_is_lost() {
    let stage = Stage::new("");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    stage.log("lost", "tcp-logger", address, json!({}));
    stage.ask("lost", 0..3);
    wait_until("the entries are given up", || stage.counted("lost", "failed") == 3);
    let reason = format!("failed to connect to TCP server: host[127.0.0.1] port[{}] err: ", address.port());
    wait_until("the loss is in the log", || stage.weir.stderr().join("\n").contains(&reason));
    stage.log("later", "tcp-logger", address, json!({"max_retry_count": 1_000, "retry_delay": 0}));
    stage.ask("later", 0..1);
    let server = Collector::on(TcpListener::bind(address).unwrap());
    assert_eq!(json_of(&server.wait_for(1, "the entry that waited")[0]), entry("later", 0));
    wait_until("it is counted", || stage.counted("later", "sent") == 1);
}

#[test]
fn udp_logger_sends_datagrams() {
    let stage = Stage::new("");
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let address = server.local_addr().unwrap();
    let receive = || {
        let mut room = vec![0; 70_000];
        let count = server.recv(&mut room).unwrap();
        json_of(std::str::from_utf8(&room[..count]).unwrap())
    };
    stage.log("one", "udp-logger", address, json!({}));
    stage.ask("one", 0..1);
    assert_eq!(receive(), entry("one", 0));
    let filler = "x".repeat(30_000);
    let format = json!({"n": "$arg_n", "filler": filler});
    stage.log("list", "udp-logger", address, json!({"batch_max_size": 3, "log_format": format}));
    stage.ask("list", 0..3);
    let mut numbers = Vec::new();
    while numbers.len() < 3 {
        numbers.extend(receive().as_array().unwrap().iter().map(|entry| entry["n"].clone()));
    }
    assert_eq!(numbers, ["0", "1", "2"], "a batch that is too long is sent in several datagrams");
}

#[test]
fn syslog_lines_are_understood_by_rsyslog() {
    let (stage, server) = (Stage::new(""), Rsyslog::start());
    let identity = Authority::new("logs").pair(&["localhost"]);
    let front = TlsFront::to(server.address(), &identity);
    let check = |id: &str, address: SocketAddr, more: Value| {
        stage.log(id, "syslog", address, more);
        let path = format!("/{id}?n=0");
        let fields = [("Host", "shop.example")];
        assert_eq!(stage.weir.client().request("GET", &path, &fields, b"").status, 200);
        let ours = |message: &String| message.contains(&format!("\"/{id}\""));
        let message = wait_for("the message is there", || server.messages().into_iter().find(ours));
        let parts: Vec<&str> = message.splitn(7, '|').collect();
        let pid = stage.weir.pid().to_string();
        assert_eq!(parts[..6], ["46", "1", "shop.example", "apisix", &*pid, "-"], "{message}");
        assert_eq!(json_of(parts[6].trim()), entry(id, 0));
    };
    check("tcp", server.address(), json!({}));
    check("udp", server.address(), json!({"sock_type": "udp"}));
    check("tls", front.address(), json!({"tls": true}));
    // Lines of a batch are told apart, and connections are kept.
    stage.log("many", "syslog", front.address(), json!({"tls": true, "batch_max_size": 5}));
    stage.ask("many", 0..15);
    let ours = |message: &&String| message.contains("\"/many\"");
    wait_until("all lines are there", || server.messages().iter().filter(ours).count() == 15);
    stage.log("short", "syslog", server.address(), json!({"drop_limit": 10}));
    stage.ask("short", 0..1);
    wait_until("a line that is too long is counted", || stage.counted("short", "failed") == 1);
}

#[test]
fn sls_logger_verifies_and_names_the_logstore() {
    let authority = Authority::new("service");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("authority.pem");
    std::fs::File::create(&path).unwrap().write_all(authority.pem().as_bytes()).unwrap();
    let stage = Stage::new(&format!("trusted_certificates: {}\n", path.display()));
    let server = Collector::start();
    let front = TlsFront::to(server.address, &authority.pair(&["127.0.0.1"]));
    let stranger = TlsFront::to(server.address, &Authority::new("other").pair(&["127.0.0.1"]));
    let service = json!({
        "project": "p", "logstore": "l", "access_key_id": "id", "access_key_secret": "the-secret-of-sls",
    });
    stage.log("refused", "sls-logger", stranger.address(), service.clone());
    stage.ask("refused", 0..1);
    wait_until("the entry is given up", || stage.counted("refused", "failed") == 1);
    stage.log("taken", "sls-logger", front.address(), service.clone());
    stage.ask("taken", 0..1);
    wait_until("the first entry is sent", || stage.counted("taken", "sent") == 1);
    stage.ask("taken", 1..2);
    let text = wait_for("both lines came over one connection", || {
        let all: Vec<String> =
            server.connections().into_iter().filter(|text| text.contains("/taken")).collect();
        all.first().filter(|text| text.lines().count() == 2 && text.ends_with('\n')).cloned()
    });
    for (number, line) in text.lines().enumerate() {
        let data = r#" - [logservice project="p" logstore="l" access-key-id="id" access-key-secret="the-secret-of-sls"] "#;
        let (head, message) = line.split_once(data).unwrap_or_else(|| panic!("{line}"));
        assert!(head.starts_with("<46>1 ") && head.contains(" apisix "), "{line}");
        assert_eq!(json_of(message), entry("taken", number));
    }
    let mut open = service;
    open["ssl_verify"] = json!(false);
    stage.log("unverified", "sls-logger", stranger.address(), open);
    stage.ask("unverified", 0..1);
    wait_until("the entry is sent without verification", || stage.counted("unverified", "sent") == 1);
    assert!(!stage.weir.stderr().join("\n").contains("the-secret-of-sls"));
}

/// The lines of a file, as JSON.
fn lines_of(path: &std::path::Path) -> Vec<Value> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(json_of).collect()
}

#[test]
fn file_logger_appends_and_follows_a_rename() {
    let stage = Stage::new("");
    let folder = tempfile::tempdir().unwrap();
    let (path, moved) = (folder.path().join("a.log"), folder.path().join("a.log.1"));
    let put = |id: &str, more: Value| {
        let mut logger = json!({"log_format": {"path": "$uri", "n": "$arg_n"}});
        logger.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let nodes = json!({stage.origin.address().to_string(): 1});
        stage.weir.put(
            &format!("routes/{id}"),
            json!({"uri": format!("/{id}"), "upstream": {"nodes": nodes}, "plugins": {"file-logger": logger}}),
        );
    };
    put("own", json!({"path": path, "match": [[["arg_n", "!", "==", "1"]]]}));
    stage.ask("own", 0..3);
    wait_until("two of three are written", || lines_of(&path) == [entry("own", 0), entry("own", 2)]);
    std::fs::rename(&path, &moved).unwrap();
    stage.weir.reopen_logs();
    wait_until("new lines are in a new file", || {
        stage.ask("own", 3..4);
        lines_of(&path).contains(&entry("own", 3))
    });
    assert!(lines_of(&moved).contains(&entry("own", 2)));

    // The path of the metadata, and a path that cannot be opened.
    let shared = folder.path().join("shared.log");
    stage.weir.put("plugin_metadata/file-logger", json!({"path": shared}));
    put("shared", json!({}));
    stage.ask("shared", 0..1);
    wait_until("the line is written", || lines_of(&shared) == [entry("shared", 0)]);
    put("lost", json!({"path": folder.path().join("missing/a.log")}));
    stage.ask("lost", 0..1);
    wait_until("the entry is given up", || stage.counted("lost", "failed") == 1);
    wait_until("the log tells why", || stage.weir.stderr().join("\n").contains("failed to write file: "));
}

#[test]
fn error_log_is_reported_and_not_its_report() {
    let stage = Stage::new("");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let closed = testkit::Origin::nowhere();
    // A logger that fails makes lines in the error log.
    stage.log("lost", "tcp-logger", closed, json!({}));
    let report = |server: SocketAddr| {
        let tcp = json!({"host": server.ip().to_string(), "port": server.port()});
        stage.weir.put(
            "plugin_metadata/error-log-logger",
            json!({"tcp": tcp, "inactive_timeout": 1, "level": "ERROR"}),
        );
    };
    report(address);
    let server = Collector::on(listener);
    stage.ask("lost", 0..1);
    let notice = "entries could not be delivered and are lost";
    let text = wait_for("the line is reported", || {
        server.connections().into_iter().find(|text| text.contains(notice))
    });
    assert!(text.contains("tcp-logger") || text.contains("tcp logger"), "{text}");
    assert!(text.ends_with('\n') && !text.contains(" INFO "), "{text}");

    // The destination is gone: that is in the error log, and the lines about it are not reported when it is
    // back.
    report(closed);
    stage.log("other", "tcp-logger", closed, json!({"name": "second"}));
    stage.ask("other", 0..1);
    let own = "name=error-log-logger";
    wait_until("the lost report is logged", || stage.weir.stderr().join("\n").contains(own));
    stage.weir.delete("plugin_metadata/error-log-logger");
    report(address);
    stage.log("third", "tcp-logger", closed, json!({"name": "third"}));
    stage.ask("third", 0..1);
    wait_until("lines are reported again", || server.connections().concat().contains("name=third"));
    assert!(!server.connections().concat().contains(own), "{:?}", server.connections());
}

#[test]
fn error_log_takes_the_form_of_its_server() {
    let stage = Stage::new("");
    let closed = testkit::Origin::nowhere();
    // A logger that fails makes a line in the error log, with the name of its queue.
    let report = |id: &str, destination: Value| {
        let mut metadata = json!({"inactive_timeout": 1, "level": "ERROR"});
        metadata.as_object_mut().unwrap().extend(destination.as_object().unwrap().clone());
        stage.weir.put("plugin_metadata/error-log-logger", metadata);
        stage.log(id, "tcp-logger", closed, json!({"name": id}));
        stage.ask(id, 0..1);
    };
    let server = Origin::answering("");
    let uri = format!("http://{}/v3/logs", server.address());
    report("to-skywalking", json!({"skywalking": {"endpoint_addr": uri, "service_instance_name": "one"}}));
    let request = server.wait_for_requests(1).remove(0);
    assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/v3/logs"));
    let records = json_of(&request.text());
    assert_eq!((&records[0]["service"], &records[0]["serviceInstance"]), (&json!("APISIX"), &json!("one")));
    let text = records[0]["body"]["text"]["text"].as_str().unwrap();
    assert!(text.contains("name=to-skywalking"), "{text}");

    let server = Origin::answering("");
    let clickhouse = json!({
        "endpoint_addr": format!("http://{}", server.address()), "user": "u", "password": "secret-of-clickhouse",
        "database": "d", "logtable": "t",
    });
    report("to-clickhouse", json!({"clickhouse": clickhouse}));
    let request = server.wait_for_requests(1).remove(0);
    let fields = ["user", "key", "database"].map(|name| request.header(&format!("x-clickhouse-{name}")));
    assert_eq!(fields, [Some("u"), Some("secret-of-clickhouse"), Some("d")]);
    let text = request.text();
    let rows = text.strip_prefix("INSERT INTO t FORMAT JSONEachRow ").unwrap_or_else(|| panic!("{text}"));
    assert!(rows.starts_with("{\"data\":\"") && rows.contains("name=to-clickhouse"), "{rows}");
}
