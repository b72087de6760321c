//! Tables of CONNECT packets: each version in every cut, and each fault.

use super::*;

fn text(text: &[u8]) -> Vec<u8> {
    [&u16::try_from(text.len()).unwrap().to_be_bytes(), text].concat()
}

fn length(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(value & 0x7f).unwrap();
        value >>= 7;
        bytes.push(if value > 0 { low | 0x80 } else { low });
        if value == 0 {
            return bytes;
        }
    }
}

fn packet(content: &[u8]) -> Vec<u8> {
    [&[CONNECT][..], &length(content.len()), content].concat()
}

/// A CONNECT of `level` with the properties and the client id, and a will behind it.
fn connect(name: &[u8], level: u8, properties: &[u8], id: &[u8]) -> Vec<u8> {
    let properties =
        if level == 5 { [length(properties.len()), properties.to_vec()].concat() } else { Vec::new() };
    packet(&[text(name), vec![level, 6, 0, 60], properties, text(id), text(b"will"), text(b"gone")].concat())
}

fn found(name: &str, level: u8, id: &str) -> Look<MqttConnect> {
    Look::Found(MqttConnect { protocol_name: name.into(), protocol_level: level, client_id: id.into() })
}

#[test]
fn connect_is_found_however_it_is_cut() {
    let cases = [
        (connect(b"MQIsdp", 3, b"", b"old"), found("MQIsdp", 3, "old")),
        (connect(b"MQTT", 4, b"", b"sensor-7"), found("MQTT", 4, "sensor-7")),
        (connect(b"MQTT", 5, &[17, 0, 0, 0, 9], "h\u{e4}user".as_bytes()), found("MQTT", 5, "h\u{e4}user")),
        (connect(b"MQTT", 5, &[38; 300], b"after 300 bytes"), found("MQTT", 5, "after 300 bytes")),
        (connect(b"MQTT", 4, b"", b""), found("MQTT", 4, "")),
        (connect(b"other", 9, b"", b"x"), found("other", 9, "x")),
    ];
    for (bytes, expected) in cases {
        let last = (0..=bytes.len()).find(|cut| mqtt_connect(&bytes[..*cut]) != Ok(Look::More)).unwrap();
        assert_eq!(
            last,
            bytes.len() - text(b"will").len() - text(b"gone").len(),
            "the will is not waited for"
        );
        for cut in last..=bytes.len() {
            assert_eq!(mqtt_connect(&bytes[..cut]).as_ref(), Ok(&expected), "cut at {cut}");
        }
    }
}

#[test]
fn each_fault_is_named() {
    let good = connect(b"MQTT", 4, b"", b"id");
    let changed = |at: usize, byte: u8| {
        let mut changed = good.clone();
        changed[at] = byte;
        changed
    };
    let cases = [
        ("a PUBLISH", changed(0, 0x30), MqttFault::OtherPacket(0x30)),
        ("flags", changed(0, 0x12), MqttFault::OtherPacket(0x12)),
        ("HTTP", b"GET / HTTP/1.1".to_vec(), MqttFault::OtherPacket(b'G')),
        ("a length of five bytes", vec![CONNECT, 0xff, 0xff, 0xff, 0xff, 1], MqttFault::BadLength),
        ("no content", packet(b""), MqttFault::Short),
        ("a name over the packet", changed(3, 200), MqttFault::Short),
        ("an id over the packet", changed(13, 20), MqttFault::Short),
        ("an end before the id", packet(&[text(b"MQTT"), vec![4, 2, 0, 60]].concat()), MqttFault::Short),
        (
            "properties over the packet",
            packet(&[text(b"MQTT"), vec![5, 2, 0, 60, 9, 0]].concat()),
            MqttFault::Short,
        ),
        (
            "a bad length of properties",
            packet(&[text(b"MQTT"), vec![5, 2, 0, 60, 0xff, 0xff, 0xff, 0xff, 0xff]].concat()),
            MqttFault::BadLength,
        ),
        ("an id that is no UTF-8", connect(b"MQTT", 4, b"", b"a\xff"), MqttFault::BadText),
        ("an id with a NUL", connect(b"MQTT", 4, b"", b"a\0b"), MqttFault::BadText),
        ("a name that is no UTF-8", connect(b"MQ\xff", 4, b"", b"a"), MqttFault::BadText),
    ];
    for (case, bytes, fault) in cases {
        assert_eq!(mqtt_connect(&bytes), Err(fault), "{case}");
        // Once it is a fault it stays one, and before it is open.
        let first = (0..=bytes.len()).find(|cut| mqtt_connect(&bytes[..*cut]) != Ok(Look::More)).unwrap();
        assert!((first..=bytes.len()).all(|cut| mqtt_connect(&bytes[..cut]) == Err(fault)), "{case}");
    }
}

#[test]
fn only_the_part_before_the_id_is_limited() {
    let will = vec![0; 3 * MQTT_CONNECT_MAX_BYTES];
    let long = packet(&[text(b"MQTT"), vec![4, 6, 0, 60], text(b"id"), will].concat());
    assert_eq!(mqtt_connect(&long), Ok(found("MQTT", 4, "id")));
    let id = vec![b'a'; MQTT_CONNECT_MAX_BYTES];
    let long = connect(b"MQTT", 4, b"", &id);
    assert_eq!(mqtt_connect(&long[..MQTT_CONNECT_MAX_BYTES - 1]), Ok(Look::More));
    assert_eq!(mqtt_connect(&long[..MQTT_CONNECT_MAX_BYTES]), Err(MqttFault::TooLong));
    assert_eq!(mqtt_connect(&long), Err(MqttFault::TooLong));
}
