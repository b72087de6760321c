//! kafka-logger through the real gateway with a real broker, of which another client reads the messages.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use testkit::{Client, Kafka, KafkaMessage, Origin, Weir, wait_until};

use crate::support::BINARY;

/// A gateway that trusts the broker's certificates, in front of an origin that answers `hello`.
struct Stage {
    weir: Weir,
    origin: Origin,
}

impl Stage {
    fn new() -> Stage {
        let authority = Kafka::shared().certificates().authority();
        let settings = format!("trusted_certificates: {}\n", authority.display());
        Stage { weir: Weir::builder(BINARY).settings(&settings).start(), origin: Origin::answering("hello") }
    }

    /// Puts the route `topic` at `/topic` with a logger to the topic of the same name.
    fn log(&self, topic: &str, more: Value) {
        let broker = Kafka::shared().plaintext();
        let mut logger = json!({
            "brokers": [{"host": "127.0.0.1", "port": broker.port()}], "kafka_topic": topic, "batch_max_size": 1,
            "producer_type": "sync", "timeout": 10, "max_retry_count": 9,
            "log_format": {"path": "$uri", "n": "$arg_n"},
        });
        logger.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let nodes = json!({self.origin.address().to_string(): 1});
        self.weir.put(
            &format!("routes/{topic}"),
            json!({"uri": format!("/{topic}"), "upstream": {"nodes": nodes}, "plugins": {"kafka-logger": logger}}),
        );
    }

    fn ask(&self, topic: &str, numbers: std::ops::Range<usize>) {
        let mut client = self.weir.client();
        for number in numbers {
            assert_eq!(client.get(&format!("/{topic}?n={number}")).status, 200);
        }
    }

    /// The entries with this result of the queue of a route.
    fn counted(&self, topic: &str, result: &str) -> u64 {
        let text = Client::connect(self.weir.address("metrics")).get("/apisix/prometheus/metrics").text();
        let (route, result) = (format!("route_id=\"{topic}\""), format!("result=\"{result}\""));
        let mut lines = text.lines().filter(|line| line.starts_with("weir_batch_entries_total"));
        let line = lines.find(|line| line.contains(&route) && line.contains(&result));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
    }
}

fn entries(messages: &[KafkaMessage]) -> Vec<Value> {
    messages.iter().map(|message| serde_json::from_str(&message.value).unwrap()).collect()
}

#[test]
#[ignore = "make test-peers: Kafka"]
fn every_listener_and_login_takes_messages() {
    let (stage, kafka) = (Stage::new(), Kafka::shared());
    let broker = |port: u16, login: Option<(&str, (&str, &str))>| {
        let mut broker = json!({"host": "localhost", "port": port});
        if let Some((mechanism, (user, password))) = login {
            broker["sasl_config"] = json!({"mechanism": mechanism, "user": user, "password": password});
        }
        json!([broker])
    };
    let (plain, scram) = (Kafka::PLAIN_USER, Kafka::SCRAM_USER);
    let verified = json!({"verify": true});
    let cases = [
        ("ssl", broker(kafka.ssl().port(), None), Some(verified.clone())),
        ("ssl-unverified", broker(kafka.ssl().port(), None), Some(json!({}))),
        ("plain", broker(kafka.sasl_plaintext().port(), Some(("PLAIN", plain))), None),
        ("scram256", broker(kafka.sasl_plaintext().port(), Some(("SCRAM-SHA-256", scram))), None),
        ("scram512", broker(kafka.sasl_ssl().port(), Some(("SCRAM-SHA-512", scram))), Some(verified)),
    ];
    for (topic, brokers, tls) in &cases {
        kafka.create_topic(topic, 1);
        let mut more = json!({"brokers": brokers, "required_acks": -1});
        if let Some(tls) = tls {
            more["tls"] = tls.clone();
        }
        stage.log(topic, more);
        stage.ask(topic, 0..2);
    }
    for (topic, ..) in &cases {
        let expected = [0, 1]
            .map(|number| json!({"path": format!("/{topic}"), "n": number.to_string(), "route_id": topic}));
        assert_eq!(entries(&kafka.read(topic, 2)), expected);
    }
}

#[test]
#[ignore = "make test-peers: Kafka"]
fn session_of_layer_4_is_a_message() {
    let kafka = Kafka::shared();
    kafka.create_topic("sessions", 1);
    let weir = Weir::builder(BINARY).settings("stream_tcp: 127.0.0.1:0\n").start();
    let node = crate::stream_listeners::echo_server();
    let logger = json!({
        "brokers": [{"host": "127.0.0.1", "port": kafka.plaintext().port()}], "kafka_topic": "sessions",
        "batch_max_size": 1, "producer_type": "sync", "timeout": 10, "max_retry_count": 9,
        "log_format": {"ip": "$remote_addr", "got": "$bytes_received", "end": "$weir_cause"},
    });
    let upstream = json!({"nodes": {node.to_string(): 1}});
    weir.put("stream_routes/sessions", json!({"upstream": upstream, "plugins": {"kafka-logger": logger}}));
    for text in ["one", "three"] {
        let mut stream = TcpStream::connect(weir.address("stream-tcp")).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut back = String::new();
        stream.read_to_string(&mut back).unwrap();
        assert_eq!(back, text);
    }
    let expected =
        ["3", "5"].map(|got| json!({"ip": "127.0.0.1", "got": got, "end": "closed", "route_id": "sessions"}));
    assert_eq!(entries(&kafka.read("sessions", 2)), expected);
}

#[test]
#[ignore = "make test-peers: Kafka"]
fn partitions_are_chosen_by_key_or_by_turns() {
    let (stage, kafka) = (Stage::new(), Kafka::shared());
    for topic in ["turns", "keyed"] {
        kafka.create_topic(topic, 3);
    }
    stage.log("turns", json!({}));
    stage.log("keyed", json!({"key": "gateway-1"}));
    stage.ask("turns", 0..6);
    stage.ask("keyed", 0..6);
    let messages = kafka.read("turns", 6);
    let partitions: Vec<i64> = messages.iter().map(|message| message.partition).collect();
    assert_eq!(partitions, [0, 0, 1, 1, 2, 2]);
    assert!(messages.iter().all(|message| message.key.is_none() && message.timestamp_ms > 1_700_000_000_000));
    let messages = kafka.read("keyed", 6);
    // CRC-32 of `gateway-1` modulo 3, by Python's zlib.
    assert!(messages.iter().all(|message| message.partition == KEYED_PARTITION), "{messages:?}");
    assert!(messages.iter().all(|message| message.key.as_deref() == Some("gateway-1")));
}

const KEYED_PARTITION: i64 = 2;

#[test]
#[ignore = "make test-peers: Kafka"]
fn topic_is_made_and_batches_are_lists() {
    let (stage, kafka) = (Stage::new(), Kafka::shared());
    // The broker makes the topic when it is asked for it, and the messages wait until it has a leader.
    stage.log("made", json!({"batch_max_size": 3, "producer_type": "async"}));
    stage.ask("made", 0..3);
    let list = entries(&kafka.read("made", 1)).remove(0);
    let mut numbers: Vec<_> = list.as_array().unwrap().iter().map(|entry| entry["n"].clone()).collect();
    numbers.sort_by_key(ToString::to_string);
    assert_eq!(numbers, ["0", "1", "2"]);

    kafka.create_topic("origin", 1);
    stage.log("origin", json!({"meta_format": "origin", "include_req_body": true, "producer_type": "async"}));
    let fields = [("X-A", "b"), ("Host", "shop.example")];
    stage.weir.client().request("POST", "/origin", &fields, b"ping");
    let value = kafka.read("origin", 1).remove(0).value;
    assert!(value.starts_with("POST /origin HTTP/1.1\r\n") && value.ends_with("\r\n\r\nping"), "{value}");
    assert!(value.contains("\r\nx-a: b\r\n") && value.contains("\r\nhost: shop.example\r\n"), "{value}");
}

#[test]
#[ignore = "make test-peers: Kafka"]
fn refused_login_is_logged_without_the_password() {
    let (stage, kafka) = (Stage::new(), Kafka::shared());
    let refused = |topic: &str, mechanism: &str| {
        let sasl = json!({"mechanism": mechanism, "user": "mallory", "password": "not-the-secret"});
        let broker = json!({"host": "127.0.0.1", "port": kafka.sasl_plaintext().port(), "sasl_config": sasl});
        stage.log(topic, json!({"brokers": [broker], "max_retry_count": 0}));
        stage.ask(topic, 0..1);
        wait_until("the entry is given up", || stage.counted(topic, "failed") == 1);
    };
    refused("refused-plain", "PLAIN");
    refused("refused-scram", "SCRAM-SHA-256");
    let log = stage.weir.stderr().join("\n");
    assert!(log.contains("failed to send data to Kafka topic: SaslAuthenticationFailed"), "{log}");
    assert!(!log.contains("not-the-secret"), "{log}");
}

#[test]
#[ignore = "make test-peers: Kafka"]
fn broker_that_is_down_costs_bounded_memory() {
    let (stage, kafka) = (Stage::new(), Kafka::shared());
    kafka.create_topic("down", 1);
    stage.weir.put("plugin_metadata/kafka-logger", json!({"max_pending_entries": 20}));
    let nowhere = testkit::Origin::nowhere().port();
    let gone = json!([{"host": "127.0.0.1", "port": nowhere}]);
    stage.log("down", json!({"brokers": gone, "max_retry_count": 1_000}));
    stage.ask("down", 0..50);
    assert_eq!(stage.counted("down", "dropped"), 30);
    assert_eq!(stage.counted("down", "sent"), 0);
    // A broker that can be reached stands beside the one that is gone: it is found.
    let both = json!([gone[0], {"host": "127.0.0.1", "port": kafka.plaintext().port()}]);
    stage.log("down", json!({"brokers": both}));
    stage.ask("down", 50..51);
    assert_eq!(entries(&kafka.read("down", 1))[0]["n"], "50");
}

#[test]
#[ignore = "make test-peers: Kafka"]
fn error_log_is_reported_to_a_topic() {
    let (stage, kafka) = (Stage::new(), Kafka::shared());
    kafka.create_topic("errors", 1);
    let broker = json!([{"host": "127.0.0.1", "port": kafka.plaintext().port()}]);
    stage.weir.put(
        "plugin_metadata/error-log-logger",
        json!({"kafka": {"brokers": broker, "kafka_topic": "errors", "key": "k"}, "inactive_timeout": 1, "level": "ERROR"}),
    );
    let nowhere = testkit::Origin::nowhere().port();
    stage.log("failing", json!({"brokers": [{"host": "127.0.0.1", "port": nowhere}], "max_retry_count": 0}));
    stage.ask("failing", 0..1);
    let message = kafka.read("errors", 1).remove(0);
    let line: String = serde_json::from_str(&message.value).unwrap();
    assert!(line.contains("entries could not be delivered and are lost"), "{line}");
    assert_eq!(message.key.as_deref(), Some("k"));
}
