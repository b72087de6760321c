//! Configurations, messages and queues; tests of the binary send to a real broker.

use exchange::testing::{Scene, configuration_check, with_fields};

use super::*;
use crate::shared::logger::testing::Maker;

fn with(more: Value) -> Value {
    with_fields(json!({"brokers": [{"host": "127.0.0.1", "port": 9092}], "kafka_topic": "test"}), &more)
}

#[test]
fn configurations() {
    let check = configuration_check(&KIND);
    check(with(json!({})), None);
    check(
        with(json!({
            "meta_format": "origin", "producer_type": "sync", "required_acks": -1, "key": "k", "timeout": 1,
            "cluster_name": 2, "producer_batch_num": 1, "producer_batch_size": 0, "producer_max_buffering": 1,
            "producer_time_linger": 1, "meta_refresh_interval": 1, "api_version": 2, "tls": {"verify": true},
            "batch_max_size": 1, "include_req_body": true,
        })),
        None,
    );
    check(json!({"broker_list": {"127.0.0.1": 3}, "kafka_topic": "test"}), None);
    check(json!({"broker_list": {"127.0.0.1": 0}, "kafka_topic": "test"}), Some("broker_list"));
    check(json!({"broker_list": {"127.0.0.1": 65_536}, "kafka_topic": "test"}), Some("broker_list"));
    check(json!({"broker_list": {}, "kafka_topic": "test"}), Some("broker_list"));
    check(json!({"kafka_topic": "test"}), Some("value should match only one schema, but matches none"));
    check(with(json!({"broker_list": {"127.0.0.1": 3}})), Some("but matches both schemas 1 and 2"));
    for (field, value) in [
        ("required_acks", json!(0)),
        ("api_version", json!(3)),
        ("producer_type", json!("later")),
        ("timeout", json!(0)),
        ("brokers", json!([])),
        ("brokers", json!([{"host": "127.0.0.1", "port": 9_092}, {"host": "127.0.0.1", "port": 9_092}])),
        ("port", json!(0)),
    ] {
        let config = match field {
            "port" => json!({"brokers": [{"host": "h", "port": value}]}),
            _ => json!({field: value}),
        };
        check(with(config), Some(field));
    }
    let login = |sasl: Value| with(json!({"brokers": [{"host": "h", "port": 9_092, "sasl_config": sasl}]}));
    check(login(json!({"user": "u", "password": "p"})), None);
    check(login(json!({"user": "u", "password": "p", "mechanism": "SCRAM-SHA-512"})), None);
    check(login(json!({"user": "u", "password": "p", "mechanism": "GSSAPI"})), Some("mechanism"));
    check(login(json!({"user": "u"})), Some("password"));
    check(with(json!({"brokers": [{"host": "a b:c", "port": 1}]})), Some("HOST:PORT"));
    check(
        with(json!({"include_req_body": true, "include_req_body_expr": [["a", "<>", 1]]})),
        Some("failed to validate the 'include_req_body_expr' expression"),
    );
}

#[test]
fn origin_is_the_request_as_text() {
    let config = with(json!({"meta_format": "origin"}));
    let entry = logger::testing::entry::<KafkaLogger>(&config, None);
    let expected = "GET /a?n=1 HTTP/1.1\r\nhost: shop.example\r\nuser-agent: ua\r\n\r\n";
    assert_eq!(String::from_utf8(entry).unwrap(), expected);
    let formatted =
        with(json!({"meta_format": "origin", "log_format": {"a": "b"}, "include_req_body": true}));
    let contents = Maker::<KafkaLogger>::new(&formatted, Some(&json!({"log_format": {"c": "d"}}))).contents;
    let kept = exchange::plugin::BodyNeed::Copy { limit_bytes: 512 * 1024 };
    assert_eq!(contents.wants_request_body(), kept, "formats choose nothing");
    let mut scene = Scene::new();
    let exchange = scene.exchange(b"GET /a HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nX-A: 2\r\n\r\n");
    let entry = Maker::<KafkaLogger>::new(&config, None).entry(&exchange).unwrap();
    assert!(String::from_utf8(entry).unwrap().contains("x-a: 1\r\nx-a: 2\r\n"));
}

#[test]
fn batch_is_one_message_or_one_each() {
    let services = exchange::testing::services();
    let states = exchange::plugin::state::StateRegistry::default();
    let check = |more: Value, expected: &[&str]| {
        let build = exchange::testing::build("/routes/1", None, &states, &services);
        let written: KafkaLoggerConfig = {
            let mut fields = crate::shared::attributes::AttributeFields::of(with(more.clone())).unwrap();
            crate::shared::attributes::FieldSet::take(&mut fields).unwrap()
        };
        let size = more["batch_max_size"].as_u64().unwrap_or(1_000) as usize;
        let settings = QueueSettings { batch_max_entries: size, ..settings() };
        let topic = KafkaLogger::compile(&written, None).unwrap().sink(&build, &written, &settings).unwrap();
        let batch = [BatchEntry::from(&b"{}"[..]), BatchEntry::from(&b"[1]"[..])];
        assert_eq!(topic.messages(&batch), expected, "{more}");
    };
    check(json!({}), &["[{},[1]]"]);
    check(json!({"batch_max_size": 1}), &["{}", "[1]"]);
    check(json!({"meta_format": "origin"}), &[r#"["{}","[1]"]"#]);
    check(json!({"meta_format": "origin", "batch_max_size": 1}), &["{}", "[1]"]);
}

fn settings() -> QueueSettings {
    QueueSettings {
        name: "kafka logger".into(),
        owner: "/routes/1".into(),
        batch_max_entries: 1_000,
        buffer_duration_ms: 60_000,
        inactive_timeout_ms: 5_000,
        max_retry_count: 0,
        retry_delay_ms: 1_000,
        max_pending_entries: 8_192,
    }
}

#[test]
fn single_messages_wait_as_producer_says() {
    let check = |more: Value, batch: usize, expected: (usize, u64, u64, usize)| {
        let mut fields = crate::shared::attributes::AttributeFields::of(with(more.clone())).unwrap();
        let config: KafkaLoggerConfig = crate::shared::attributes::FieldSet::take(&mut fields).unwrap();
        let settings =
            KafkaLogger::queue_settings(&config, QueueSettings { batch_max_entries: batch, ..settings() });
        let got = (
            settings.batch_max_entries,
            settings.inactive_timeout_ms,
            settings.buffer_duration_ms,
            settings.max_pending_entries,
        );
        assert_eq!(got, expected, "{more}");
    };
    check(json!({}), 1_000, (1_000, 5_000, 60_000, 8_192));
    check(json!({}), 1, (200, 1_000, 1_000, 8_192));
    check(json!({"producer_type": "sync"}), 1, (1, 5_000, 60_000, 8_192));
    check(
        json!({"producer_batch_num": 3, "producer_time_linger": 2, "producer_max_buffering": 10}),
        1,
        (3, 2_000, 2_000, 10),
    );
    check(json!({"producer_max_buffering": 2}), 1_000, (1_000, 5_000, 60_000, 2_000));
}
