//! Oracle of the look at a CONNECT of MQTT, for any bytes.

use net::sniff::{Look, MQTT_CONNECT_MAX_BYTES, MqttConnect, mqtt_connect};

use super::prefixes::settled;
use super::steering::steering;

/// The input is three steering bytes and the bytes of a connection.
pub fn check(data: &[u8]) {
    let Some(steering) = steering(data) else { return };
    let input = steering.input;
    let whole = settled(input, steering.cuts, &Ok(Look::More), mqtt_connect);
    let twin = read(input);
    match whole {
        Ok(Look::Found(connect)) => {
            assert_eq!(twin.as_ref(), Some(&connect));
            assert_eq!(mqtt_connect(&[input, b"more"].concat()), Ok(Look::Found(connect)));
        }
        Ok(Look::More) => {
            assert_eq!(twin, None, "the twin has it already");
            assert!(input.len() < MQTT_CONNECT_MAX_BYTES, "{} bytes are waited for", input.len());
        }
        Err(_) => assert_eq!(twin, None, "only the twin takes it"),
        Ok(Look::No) => panic!("it is no answer"),
    }
}

/// The packet by offsets; none if it is malformed or its client id is not whole.
fn read(input: &[u8]) -> Option<MqttConnect> {
    if *input.first()? != 0x10 {
        return None;
    }
    let (left, mut at) = variable(input, 1)?;
    let end = at.checked_add(left)?;
    // A field ends within the packet, and within the bytes that are looked at.
    let within = |from: usize, bytes: usize| {
        let to = from.checked_add(bytes)?;
        input.get(from..to).filter(|_| to <= end && to <= MQTT_CONNECT_MAX_BYTES)
    };
    let text = |from: usize| {
        let length = within(from, 2)?;
        let length = usize::from(length[0]) * 256 + usize::from(length[1]);
        let text = String::from_utf8(within(from + 2, length)?.to_vec()).ok()?;
        (!text.contains('\0')).then_some((Box::<str>::from(text), from + 2 + length))
    };
    let (protocol_name, after_name) = text(at)?;
    let protocol_level = within(after_name, 4)?[0];
    at = after_name + 4;
    if protocol_level == 5 {
        let (length, after) = variable(input, at).filter(|(_, after)| *after <= end)?;
        within(after, length)?;
        at = after + length;
    }
    let (client_id, _) = text(at)?;
    Some(MqttConnect { protocol_name, protocol_level, client_id })
}

/// A variable byte integer and the offset behind it.
fn variable(input: &[u8], from: usize) -> Option<(usize, usize)> {
    let bytes = input.get(from..)?;
    let last = bytes.iter().take(4).position(|byte| *byte < 128)?;
    let value = bytes[..=last].iter().rev().fold(0, |sum, byte| sum * 128 + usize::from(byte & 127));
    Some((value, from + last + 1))
}
