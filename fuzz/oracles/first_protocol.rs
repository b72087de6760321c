//! Oracle of the protocol of first bytes, for any bytes.

use net::sniff::{FirstProtocol, Look, protocol};

use super::prefixes::settled;
use super::steering::steering;

/// The input is three steering bytes and the bytes of a connection.
pub fn check(data: &[u8]) {
    let Some(steering) = steering(data) else { return };
    let input = steering.input;
    match settled(input, steering.cuts, &Look::More, protocol) {
        Look::Found(FirstProtocol::Unknown) => assert_eq!(named(input), None),
        Look::Found(found) => assert_eq!(named(input), Some(found)),
        // Every known protocol shows within these bytes.
        Look::More => {
            assert!(input.len() < 40 && named(input).is_none(), "{} bytes are waited for", input.len())
        }
        Look::No => panic!("it is no answer"),
    }
}

/// The protocol by plain rules; none if no rule holds, or not yet.
fn named(input: &[u8]) -> Option<FirstProtocol> {
    if input.starts_with(&[22, 3]) {
        let is_hello = input.len() >= 6 && input[3..5] != [0, 0] && input[5] == 1;
        return is_hello.then_some(FirstProtocol::Tls);
    }
    if input.first() == Some(&16) {
        let length = input[1..].iter().take(4).take_while(|byte| **byte >= 128).count();
        let name = input.get(length + 2..).filter(|_| length < 4)?;
        let is_named = name.starts_with(b"\0\x04MQTT") || name.starts_with(b"\0\x06MQIsdp");
        return is_named.then_some(FirstProtocol::Mqtt);
    }
    let prefixes: [(&[u8], FirstProtocol); 5] = [
        (b"PRI * HTTP/2", FirstProtocol::Http2),
        (b"SSH-", FirstProtocol::Ssh),
        (b"\r\n\r\n\0\r\nQUIT\n", FirstProtocol::ProxyProtocol),
        (b"PROXY T", FirstProtocol::ProxyProtocol),
        (b"PROXY U", FirstProtocol::ProxyProtocol),
    ];
    if let Some((_, protocol)) = prefixes.iter().find(|(prefix, _)| input.starts_with(prefix)) {
        return Some(*protocol);
    }
    let (method, rest) = input.split_at(input.iter().position(|byte| *byte == b' ')?);
    let is_token = |byte: &u8| byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(byte);
    let is_method = (1..=32).contains(&method.len()) && method.iter().all(is_token);
    let usual = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];
    let is_usual = usual.iter().any(|usual| usual.as_bytes() == method);
    (is_method && (is_usual || rest.get(1) == Some(&b'/'))).then_some(FirstProtocol::Http1)
}
