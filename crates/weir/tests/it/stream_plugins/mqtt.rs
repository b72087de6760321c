//! `mqtt-proxy` in front of real brokers, with real clients of each version.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;
use testkit::{Mosquitto, MqttVersion, mqtt_publish, mqtt_subscribe, wait_until};

use super::{PATIENCE, Stage, weights};

/// Client ids that are divided: with this many it does not happen that one broker has them all.
const IDS: usize = 16;

#[test]
fn message_passes_from_client_to_client() {
    let (stage, broker) = (Stage::start(), Mosquitto::start());
    for (version, name, level) in
        [(MqttVersion::V31, "MQIsdp", 3), (MqttVersion::V311, "MQTT", 4), (MqttVersion::V5, "MQTT", 5)]
    {
        let config = json!({"protocol_name": name, "protocol_level": level});
        stage.route(&[broker.address()], json!({"mqtt-proxy": config}));
        let reader = format!("reader-{level}");
        let subscriber = mqtt_subscribe(stage.address(), version, &reader, "t");
        wait_until("the subscriber is connected", || broker.clients().contains(&reader));
        // A subscription takes effect some time after the connection, so that messages are sent until one
        // arrives.
        let mut subscriber = subscriber;
        wait_until("a message has arrived", || {
            assert!(mqtt_publish(stage.address(), version, "writer", "t", "hello"));
            subscriber.try_wait().unwrap().is_some()
        });
        let output = subscriber.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "hello\n", "{version:?}");
    }
}

#[test]
fn client_of_another_version_is_refused() {
    let (stage, broker) = (Stage::start(), Mosquitto::start());
    stage.route(&[broker.address()], json!({"mqtt-proxy": {"protocol_level": 4}}));
    assert!(mqtt_publish(stage.address(), MqttVersion::V311, "good", "t", "x"));
    assert!(!mqtt_publish(stage.address(), MqttVersion::V5, "new", "t", "x"));
    assert!(!mqtt_publish(stage.address(), MqttVersion::V31, "old", "t", "x"));
    for bytes in
        [&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], b"\x10\xff\xff\xff\xff\xff", b"\x30\x05\0\x01txy"]
    {
        let mut stream = TcpStream::connect(stage.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(bytes).unwrap();
        let closed = stream.read(&mut [0; 16]);
        assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
    }
    assert_eq!(broker.clients(), ["good"]);
}

#[test]
fn client_id_chooses_the_broker() {
    let (stage, brokers) = (Stage::start(), [Mosquitto::start(), Mosquitto::start()]);
    let nodes = weights(&brokers.each_ref().map(Mosquitto::address));
    let upstream = json!({"type": "chash", "key": "mqtt_client_id", "nodes": nodes});
    let plugins = json!({"mqtt-proxy": {"protocol_level": 5}});
    stage.weir.put("stream_routes/1", json!({"upstream": upstream, "plugins": plugins}));
    for _ in 0..2 {
        for id in 0..IDS {
            assert!(mqtt_publish(stage.address(), MqttVersion::V5, &format!("client-{id}"), "t", "x"));
        }
    }
    let [first, second] = brokers.each_ref().map(Mosquitto::clients);
    assert_eq!(first.len() + second.len(), 2 * IDS);
    assert!(!first.is_empty() && !second.is_empty(), "{first:?} {second:?}");
    assert!(first.iter().all(|id| !second.contains(id)), "a client went to both: {first:?} {second:?}");
}
