//! Log plugins through the real gateway: with OpenSearch and ClickHouse, with a stand-in for services that
//! cannot be installed, and with sockets for datagrams.

use std::cell::RefCell;
use std::net::UdpSocket;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{
    ClickHouse, Client, LogApi, LogFault, LogService, OpenSearch, Origin, Reply, Signal, Weir, wait_until,
};

use crate::support::BINARY;

/// A gateway in front of an origin that answers `hello`.
struct Stage {
    weir: Weir,
    origin: Origin,
}

impl Stage {
    fn new() -> Stage {
        Stage { weir: Weir::start(BINARY), origin: Origin::answering("hello") }
    }

    /// Puts the route `id` at `/id` with a log plugin that sends each entry at once, unless `config` says
    /// otherwise.
    fn log(&self, id: &str, plugin: &str, config: Value) {
        let mut logger = json!({"batch_max_size": 1});
        logger.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
        let nodes = json!({self.origin.address().to_string(): 1});
        let route =
            json!({"uri": format!("/{id}"), "upstream": {"nodes": nodes}, "plugins": {plugin: logger}});
        self.weir.put(&format!("routes/{id}"), route);
    }

    fn get(&self, path: &str) {
        assert_eq!(self.weir.get(path).status, 200, "{path}");
    }

    fn stderr(&self) -> String {
        self.weir.stderr().join("\n")
    }

    /// The value of the sample of this metric with this label.
    fn metric(&self, name: &str, label: &str) -> Option<f64> {
        let text = Client::connect(self.weir.address("metrics")).get("/apisix/prometheus/metrics").text();
        let line = text.lines().find(|line| line.starts_with(name) && line.contains(label))?;
        line.rsplit(' ').next()?.parse().ok()
    }
}

/// The fields that most tests choose.
fn chosen() -> Value {
    json!({"path": "$uri", "n": "$arg_n", "status": "$status"})
}

#[test]
#[ignore = "make test-peers: OpenSearch"]
fn opensearch_gets_documents_in_dated_index() {
    let (stage, server) = (Stage::new(), OpenSearch::shared());
    let nowhere = format!("http://{}", Origin::nowhere());
    stage.log(
        "es",
        "elasticsearch-logger",
        json!({
            "endpoint_addrs": [nowhere, server.url()], "field": {"index": "weir-$arg_n-{%Y}"}, "log_format": chosen(),
            "batch_max_size": 2, "inactive_timeout": 1, "max_retry_count": 3, "retry_delay": 0,
        }),
    );
    stage.get("/es?n=1");
    stage.get("/es?n=1");
    let documents = server.wait_for_documents("weir-1-*", 2);
    assert_eq!(documents[0], json!({"path": "/es", "n": "1", "status": 200, "route_id": "es"}));
    // A text in a field that holds numbers is refused in a response of status 200.
    let format = |value: &str| json!({"age": value, "route": "es"});
    let to = |value: &str| json!({"endpoint_addr": server.url(), "field": {"index": "ages"}, "log_format": format(value)});
    stage.log("number", "elasticsearch-logger", to("$request_length"));
    stage.get("/number");
    server.wait_for_documents("ages", 1);
    stage.log("text", "elasticsearch-logger", to("old"));
    stage.get("/text");
    let series = "weir_batch_entries_total{name=\"elasticsearch-logger\",route_id=\"text\"";
    wait_until("the refusal is counted", || stage.metric(series, "result=\"failed\"") == Some(1.0));
    assert!(stage.stderr().contains("elasticsearch server refused 1 documents of 1"), "{}", stage.stderr());
}

#[test]
fn elasticsearch_6_gets_documents_with_type() {
    let (stage, server) = (Stage::new(), LogService::start(LogApi::Elasticsearch6));
    stage.log(
        "1",
        "elasticsearch-logger",
        json!({
            "endpoint_addr": server.url(), "field": {"index": "a"}, "log_format": chosen(),
            "auth": {"username": "u", "password": "p"}, "headers": {"X-Tenant": "t"},
        }),
    );
    stage.get("/1?n=7");
    let entry = server.wait_for_entries(1).remove(0);
    assert_eq!(entry["action"], json!({"index": {"_index": "a", "_type": "_doc"}}));
    assert_eq!(entry["document"]["n"], "7");
    for request in server.requests() {
        assert_eq!(request.header("authorization"), Some("Basic dTpw"), "{}", request.target);
        assert_eq!(request.header("x-tenant"), Some("t"), "{}", request.target);
    }
    let denied = LogService::start(LogApi::Elasticsearch6);
    denied.fail([LogFault::Status(401, "who are you".to_owned())]);
    let config = json!({"endpoint_addrs": [denied.url()], "field": {"index": "a"}});
    stage.log("2", "elasticsearch-logger", config);
    stage.get("/2");
    let message = "elasticsearch server returned status: 401, body: who are you";
    wait_until("the refusal is told", || stage.stderr().contains(message));
}

#[test]
fn clickhouse_gets_rows() {
    let (stage, server) = (Stage::new(), ClickHouse::start());
    server.run("CREATE TABLE default.requests (path String, n String, status UInt16, route_id String) ENGINE = Memory");
    let to = |password: &str| {
        json!({
            "endpoint_addrs": [server.url()], "user": "gateway", "password": password, "database": "default",
            "logtable": "default.requests", "log_format": chosen(), "batch_max_size": 2, "inactive_timeout": 1,
        })
    };
    stage.log("rows", "clickhouse-logger", to("secret"));
    for n in ["1", "2", "it's \\\"quoted\\\""] {
        stage.get(&format!("/rows?n={}", n.replace(' ', "+").replace('"', "%22").replace('\\', "%5C")));
    }
    server
        .wait_for_result("SELECT count(), sum(status), any(route_id) FROM default.requests", "3\t600\trows");
    server.wait_for_result("SELECT count() FROM default.requests WHERE n = '2'", "1");
    stage.log("wrong", "clickhouse-logger", to("wrong"));
    stage.get("/wrong?n=1");
    wait_until("the refusal is told", || stage.stderr().contains("server returned status code["));
    assert!(!stage.stderr().contains("secret"), "{}", stage.stderr());
}

#[test]
fn loki_gets_streams_by_labels() {
    let (stage, server) = (Stage::new(), LogService::start(LogApi::Loki));
    stage.log(
        "loki",
        "loki-logger",
        json!({
            "endpoint_addrs": [server.url()], "tenant_id": "t1", "log_labels": {"job": "weir", "n": "$arg_n"},
            "log_format": {"path": "$uri"}, "batch_max_size": 3, "inactive_timeout": 60,
        }),
    );
    for n in ["a", "b", "a"] {
        stage.get(&format!("/loki?n={n}"));
    }
    let lines = server.wait_for_entries(3);
    let labels: Vec<&Value> = lines.iter().map(|line| &line["labels"]["n"]).collect();
    let mut sorted = labels.clone();
    sorted.sort_by_key(|label| label.to_string());
    assert_eq!(sorted, ["a", "a", "b"]);
    assert_eq!(lines[0]["line"], json!({"path": "/loki", "route_id": "loki"}));
    assert_eq!(server.requests()[0].header("x-scope-orgid"), Some("t1"));
    let body: Value = serde_json::from_slice(&server.requests()[0].body).unwrap();
    assert_eq!(body["streams"].as_array().unwrap().len(), 2, "{body}");
}

#[test]
fn services_get_entries_in_their_form() {
    let stage = Stage::new();
    let key = stage_key();
    // Stopped at the end of the test, because a gateway that is still reading a response would count it as
    // broken.
    let servers = RefCell::new(Vec::new());
    let check =
        |api: LogApi, plugin: &str, config: &dyn Fn(&LogService) -> Value, pointer: &str, expected: &str| {
            let server = LogService::start(api);
            stage.log(plugin, plugin, config(&server));
            let answered =
                stage.weir.client().request("GET", &format!("/{plugin}?n=7"), &[("sw8", SW8)], b"");
            assert_eq!(answered.status, 200, "{plugin}");
            let entry = server.wait_for_entries(1).remove(0);
            assert_eq!(entry.pointer(pointer).and_then(Value::as_str), Some(expected), "{entry}");
            servers.borrow_mut().push(server);
            entry
        };
    let splunk = |server: &LogService| {
        json!({"endpoint": {"uri": format!("{}/services/collector", server.url()), "token": "token"},
               "log_format_extra": {"n": "$arg_n"}})
    };
    check(LogApi::Splunk, "splunk-hec-logging", &splunk, "/event/n", "7");
    let skywalking = |server: &LogService| json!({"endpoint_addr": server.url(), "service_name": "shop", "log_format": chosen()});
    let entry =
        check(LogApi::Skywalking, "skywalking-logger", &skywalking, "/traceContext/traceId", "trace-1");
    assert!(entry["body"]["json"]["json"].as_str().unwrap().contains("\"n\":\"7\""), "{entry}");
    let google = |server: &LogService| {
        let account = json!({
            "client_email": "a@b", "private_key": key, "project_id": "p",
            "token_uri": format!("{}/token", server.url()), "entries_uri": format!("{}/v2/entries:write", server.url()),
        });
        json!({"auth_config": account, "log_format_extra": {"n": "$arg_n"}})
    };
    let entry = check(LogApi::Google, "google-cloud-logging", &google, "/jsonPayload/n", "7");
    assert_eq!(entry["logName"], "projects/p/logs/apisix.apache.org%2Flogs");
    let tencent = |server: &LogService| {
        json!({"cls_host": server.address().to_string(), "cls_topic": "topic", "scheme": "http", "secret_id": "id",
               "secret_key": "key", "log_format": chosen(), "global_tag": {"edge": "1"}})
    };
    let entry = check(LogApi::TencentCls, "tencent-cloud-cls", &tencent, "/n", "7");
    assert_eq!((&entry["edge"], &entry["status"]), (&json!("1"), &json!("200")));
    let lago = |server: &LogService| {
        json!({"endpoint_addrs": [server.url()], "token": "token", "event_transaction_id": "tx-${arg_n}",
               "event_subscription_id": "sub", "event_code": "calls", "event_properties": {"status": "$status"}})
    };
    let entry = check(LogApi::Lago, "lago", &lago, "/transaction_id", "tx-7");
    assert_eq!(entry["properties"], json!({"status": "200"}));
    for name in [
        "splunk-hec-logging",
        "skywalking logger",
        "google-cloud-logging",
        "tencent-cloud-cls",
        "lago logger",
    ] {
        let series = format!("weir_batch_entries_total{{name=\"{name}\"");
        wait_until("the entry is counted", || stage.metric(&series, "result=\"sent\"") == Some(1.0));
    }
}

/// A trace `trace-1` with the segment `segment`.
const SW8: &str = "1-dHJhY2UtMQ==-c2VnbWVudA==-3-c3Zj-aQ==-L2E=-YQ==";

/// A private key of RSA with 2048 bits, made by openssl for this test.
fn stage_key() -> String {
    let made = std::process::Command::new("openssl")
        .args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"])
        .output();
    String::from_utf8(made.expect("openssl can be run").stdout).unwrap()
}

#[test]
fn loggly_gets_bulks_or_syslog() {
    let (stage, server) = (Stage::new(), LogService::start(LogApi::Loggly));
    let host = server.address().to_string();
    stage.weir.put("plugin_metadata/loggly", json!({"host": host, "protocol": "http"}));
    let config = json!({
        "customer_token": "token", "tags": ["a", "b"], "log_format": chosen(), "batch_max_size": 2,
        "inactive_timeout": 60, "severity_map": {"200": "ERR"},
    });
    stage.log("loggly", "loggly", config);
    stage.get("/loggly?n=1");
    stage.get("/loggly?n=2");
    assert_eq!(server.wait_for_entries(2).len(), 2);
    let tags: Vec<String> = server.requests()[0]
        .headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("x-loggly-tag"))
        .map(|(_, value)| value.clone())
        .collect();
    assert_eq!(tags, ["a", "b"]);

    let socket = datagrams();
    let port = socket.local_addr().unwrap().port();
    stage.weir.put("plugin_metadata/loggly", json!({"host": "127.0.0.1", "port": port}));
    stage.get("/loggly?n=3");
    stage.get("/loggly?n=4");
    let message = received(&socket);
    assert!(
        message.starts_with("<11>1 ") && message.contains("[token@41058 tag=\"a\" tag=\"b\"] {"),
        "{message}"
    );
    assert!(message.contains("\"path\":\"/loggly\""), "{message}");
}

#[test]
fn datadog_agent_gets_metrics_with_tags() {
    let (stage, agent) = (Stage::new(), datagrams());
    let port = agent.local_addr().unwrap().port();
    stage.weir.put("plugin_metadata/datadog", json!({"port": port, "constant_tags": ["env:test"]}));
    stage.log("dd", "datadog", json!({"include_path": true, "include_method": true}));
    stage.get("/dd");
    let metrics = received(&agent);
    let lines: Vec<&str> = metrics.lines().collect();
    let tags = "|#env:test,route_name:dd,path:/dd,method:GET,balancer_ip:127.0.0.1,response_status:200,\
                response_status_class:2xx,scheme:http";
    assert_eq!(lines[0], format!("apisix.request.counter:1|c{tags}"));
    let names: Vec<&str> = lines.iter().filter_map(|line| line.split(':').next()).collect();
    let expected = [
        "request.counter",
        "request.latency",
        "upstream.latency",
        "apisix.latency",
        "ingress.size",
        "egress.size",
    ];
    assert_eq!(names, expected.map(|name| format!("apisix.{name}")));
    assert!(lines.iter().all(|line| line.ends_with(tags)), "{metrics}");
}

fn datagrams() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket
}

fn received(socket: &UdpSocket) -> String {
    let mut room = vec![0; 65_536];
    let count = socket.recv(&mut room).expect("a datagram");
    String::from_utf8(room[..count].to_vec()).unwrap()
}

#[test]
fn faulty_collectors_get_batches_again_or_lose_them() {
    let (stage, server) = (Stage::new(), LogService::start(LogApi::Lago));
    let config = json!({
        "endpoint_addrs": [server.url()], "token": "token", "event_transaction_id": "$arg_n", "event_code": "c",
        "event_subscription_id": "s", "max_retry_count": 4, "retry_delay": 0, "timeout": 2_000,
    });
    stage.log("again", "lago", config.clone());
    server.fail([
        LogFault::Status(429, "slow down".to_owned()),
        LogFault::Status(500, "full".to_owned()),
        LogFault::Close,
        LogFault::Garbage,
    ]);
    stage.get("/again?n=1");
    assert_eq!(server.wait_for_entries(1)[0]["transaction_id"], "1");
    assert_eq!(server.requests().len(), 5);

    let stuck = Signal::new();
    server.fail([LogFault::Stuck(stuck.clone())]);
    let mut hasty = config;
    hasty["max_retry_count"] = json!(0);
    hasty["timeout"] = json!(50);
    stage.log("lost", "lago", hasty);
    stage.get("/lost?n=2");
    let series = "weir_batch_entries_total{name=\"lago logger\",route_id=\"lost\"";
    wait_until("the loss is counted", || stage.metric(series, "result=\"failed\"") == Some(1.0));
    stuck.set();
    wait_until("the reason is told", || stage.stderr().contains("no whole answer within 50 ms"));
}

#[test]
fn chunked_and_compressed_bodies_are_logged() {
    let (stage, server) = (Stage::new(), LogService::start(LogApi::Splunk));
    let chunked = Origin::start(|_| Reply::chunked(&["hel", "lo"], &[]));
    // `hello` by gzip.
    let coded = *b"\x1f\x8b\x08\0\0\0\0\0\x02\x03\xcbH\xcd\xc9\xc9\x07\0\x86\xa6\x106\x05\0\0\0";
    let compressed = Origin::start(move |_| Reply::with(200, &[("Content-Encoding", "gzip")], &coded));
    let logger = json!({
        "endpoint": {"uri": format!("{}/services/collector", server.url()), "token": "token"},
        "log_format": {"sent": "$resp_body", "got": "$request_body"}, "batch_max_size": 1,
    });
    for (id, origin) in [("1", &chunked), ("2", &compressed)] {
        let nodes = json!({origin.address().to_string(): 1});
        let route = json!({"uri": format!("/{id}"), "upstream": {"nodes": nodes}, "plugins": {"splunk-hec-logging": logger}});
        stage.weir.put(&format!("routes/{id}"), route);
        let answered = stage.weir.client().request("POST", &format!("/{id}"), &[], b"ping");
        assert_eq!(answered.status, 200);
        let count = id.parse().unwrap();
        let event = server.wait_for_entries(count).remove(count - 1);
        assert_eq!(event["event"], json!({"sent": "hello", "got": "ping", "route_id": id}));
    }
}
