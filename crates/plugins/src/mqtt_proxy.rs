//! # mqtt-proxy
//!
//! Admits clients of MQTT that begin with a CONNECT of one version of the protocol, and makes the client id a
//! variable. It is for stream routes alone.
//!
//! ```json
//! {
//!   "protocol_name": "MQTT",
//!   "protocol_level": 4
//! }
//! ```
//!
//! The level is 3 for MQTT 3.1 (of which the name is `MQIsdp`), 4 for 3.1.1, and 5 for 5. A connection that
//! begins with another packet, with a malformed CONNECT, or with another name or level, is closed before a
//! node is chosen, and the log has the reason. The CONNECT is passed on as it came.
//!
//! **Client id.** The variable `mqtt_client_id` is the client id of the CONNECT. An upstream with
//! `type: chash` and `key: mqtt_client_id` sends a client to the same broker whenever it connects; a client
//! without an id, for which the broker makes one, is divided by its address. Conditions of
//! [`traffic-split`](traffic-split.md), which runs later, formats of loggers and the access log may name it
//! too.
//!
//! The part of the CONNECT up to the end of the client id may have 32 KiB; a will and credentials behind it
//! are not waited for. Clients over TLS are served where the listener has `tls`.

use std::sync::Arc;

use exchange::plugin::stream::{StreamFlow, StreamKind, StreamPhase, StreamPlugin, StreamSession};
use exchange::plugin::{Build, PluginKind};
use net::sniff::{Look, MqttConnect, mqtt_connect};
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::for_streams(
    "mqtt-proxy",
    1000,
    MqttProxyConfig::schema,
    StreamKind { phases: &[StreamPhase::Preread], build },
)
.documented(include_str!("mqtt_proxy.rs"));

attributes! {
    struct MqttProxyConfig {
        /// The name of the protocol in the CONNECT.
        protocol_name: String = "MQTT".into();
        /// The level of the protocol in the CONNECT: 3 for MQTT 3.1, 4 for 3.1.1, 5 for 5.
        protocol_level: i64;
    }
    {"title": "Admit clients of one version of MQTT"}
}

/// The compiled plugin.
struct MqttProxy {
    protocol_name: Box<str>,
    protocol_level: i64,
}

fn build(_: &Build<'_>, config: &Value) -> Result<Arc<dyn StreamPlugin>, String> {
    let config: MqttProxyConfig = config::parse_config(config)?;
    let MqttProxyConfig { protocol_name, protocol_level } = config;
    Ok(Arc::new(MqttProxy { protocol_name: protocol_name.into(), protocol_level }))
}

impl MqttProxy {
    /// The client id, if this plugin admits the CONNECT.
    ///
    /// # Errors
    /// Why it does not, in words.
    fn admit(&self, connect: MqttConnect) -> Result<Box<str>, String> {
        let MqttConnect { protocol_name, protocol_level, client_id } = connect;
        if protocol_name != self.protocol_name {
            let named = protocol_name.escape_default();
            return Err(format!("the CONNECT names the protocol {named}, expected {}", self.protocol_name));
        }
        if i64::from(protocol_level) != self.protocol_level {
            let expected = self.protocol_level;
            return Err(format!("the CONNECT has the protocol level {protocol_level}, expected {expected}"));
        }
        Ok(client_id)
    }
}

impl StreamPlugin for MqttProxy {
    fn preread<'a>(&'a self, session: &'a mut StreamSession) -> StreamFlow<'a> {
        let admitted = match mqtt_connect(&session.first_bytes) {
            Ok(Look::Found(connect)) => self.admit(connect),
            Ok(Look::More | Look::No) => return StreamFlow::More,
            Err(fault) => Err(fault.to_string()),
        };
        match admitted {
            Ok(client_id) => {
                session.mqtt_client_id = Some(client_id).filter(|id| !id.is_empty());
                StreamFlow::Continue
            }
            Err(reason) => StreamFlow::Reject(reason.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use exchange::plugin::stream::chain::Preread;
    use exchange::testing::configuration_check;
    use gateway::testing::{run_preread, stream_route};
    use serde_json::json;

    use super::*;

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        check(json!({"protocol_level": 4}), None);
        check(json!({"protocol_name": "MQIsdp", "protocol_level": 3}), None);
        check(json!({}), Some("protocol_level"));
        check(json!({"protocol_level": "4"}), Some("protocol_level"));
        check(json!({"protocol_level": 4.5}), Some("protocol_level"));
        check(json!({"protocol_name": 1, "protocol_level": 4}), Some("protocol_name"));
    }

    /// A CONNECT with an empty password behind the client id, which is not looked at.
    fn connect(level: u8, id: &str) -> Vec<u8> {
        let properties = if level == 5 { &b"\0"[..] } else { b"" };
        let length = u8::try_from(id.len()).unwrap();
        let content =
            [b"\0\x04MQTT", &[level, 2, 0, 60][..], properties, &[0, length], id.as_bytes(), b"\0\0"]
                .concat();
        [&[0x10, u8::try_from(content.len()).unwrap()][..], &content].concat()
    }

    /// Runs the plugin over the bytes, one more in each call: the outcome, the client id, and the reason of a
    /// refusal.
    fn run(config: Value, bytes: &[u8]) -> (Preread, Option<String>, String) {
        let route = stream_route(&[&KIND], &json!({"mqtt-proxy": config}));
        let local = "127.0.0.1:9100".parse().unwrap();
        let mut session = StreamSession::new("10.0.0.1:4000".parse().unwrap(), local, 1);
        let mut outcome = run_preread(&route, &mut session);
        for byte in bytes {
            if outcome != Preread::More {
                break;
            }
            session.first_bytes.push(*byte);
            outcome = run_preread(&route, &mut session);
        }
        let id = session.mqtt_client_id.as_deref().map(str::to_owned);
        (outcome, id, session.reason.as_deref().unwrap_or_default().to_owned())
    }

    #[test]
    fn client_id_becomes_a_variable() {
        for level in [4, 5] {
            let config = json!({"protocol_level": level});
            let got = run(config.clone(), &connect(level, "sensor-7"));
            assert_eq!(got, (Preread::Done, Some("sensor-7".to_owned()), String::new()));
            assert_eq!(run(config, &connect(level, "")), (Preread::Done, None, String::new()));
        }
    }

    #[test]
    fn other_packets_and_versions_are_refused() {
        let cases: [(Value, Vec<u8>, &str); 5] = [
            (json!({"protocol_level": 5}), connect(4, "a"), "the protocol level 4, expected 5"),
            (json!({"protocol_level": 4}), connect(5, "a"), "the protocol level 5, expected 4"),
            (
                json!({"protocol_name": "MQIsdp", "protocol_level": 3}),
                connect(3, "a"),
                "the protocol MQTT, expected MQIsdp",
            ),
            (
                json!({"protocol_level": 4}),
                b"GET / HTTP/1.1\r\n".to_vec(),
                "no CONNECT: its type and flags are 71",
            ),
            (json!({"protocol_level": 4}), vec![0x10, 2, 0, 9], "ends inside a field"),
        ];
        for (config, bytes, reason) in cases {
            let (outcome, id, message) = run(config, &bytes);
            assert_eq!((outcome, id), (Preread::Rejected("mqtt-proxy"), None), "{reason}");
            assert!(message.contains(reason), "{message}");
        }
    }

    #[test]
    fn connect_that_is_not_whole_is_waited_for() {
        let bytes = connect(4, "sensor-7");
        assert_eq!(run(json!({"protocol_level": 4}), &bytes[..10]).0, Preread::More);
    }
}
